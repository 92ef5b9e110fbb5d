"""NA: nsqadmin. Its pages and acts are the console's, so each line is what a person sees and does there."""

ACTS = "console/test_acts.py::"
PAGES = "console/test_pages.py::"
DISCOVERY = "console/test_lookup.py::"

LINES: dict[str, tuple[str, ...]] = {
    "NA Ping": ("service/http/test_api.py::test_ping_tells_the_health",),
    "NA HTTPTopicsGET": (f"{PAGES}test_topics_are_searched_and_say_what_was_not_found", "DEPARTURE nsqadmin's API"),
    "NA HTTPTopicGET": (f"{PAGES}test_topic_shows_all_that_nsqadmin_shows",),
    "NA HTTPNodesGET": (f"{DISCOVERY}test_it_shows_the_registrations_and_what_each_nsqlookupd_knows",),
    "NA HTTPChannelGET": (f"{PAGES}test_channel_shows_all_that_nsqadmin_shows",),
    "NA HTTPNodesSingleGET": ("DEPARTURE nsqadmin's pages of several servers",),
    "NA HTTPCreateTopicPOST": (f"{ACTS}test_create_topic_and_channel",),
    "NA HTTPCreateTopicChannelPOST": (f"{ACTS}test_create_topic_and_channel",),
    "NA HTTPTombstoneTopicNodePOST": (
        f"{DISCOVERY}test_a_producer_is_tombstoned_after_a_question_and_audited",
        "DEPARTURE a tombstone from the console",
    ),
    "NA HTTPDeleteTopicPOST": (f"{ACTS}test_delete_channel_and_topic",),
    "NA HTTPDeleteChannelPOST": (f"{ACTS}test_delete_channel_and_topic",),
    "NA HTTPPauseTopicPOST": ("console/test_pausing.py::test_a_topic_is_paused_with_an_end_too",),
    "NA HTTPPauseChannelPOST": (f"{ACTS}test_pause_keeps_the_reason_and_offers_undo",),
    "NA HTTPEmptyTopicPOST": (f"{ACTS}test_empty_topic_leaves_its_channels_unless_they_are_chosen",),
    "NA HTTPEmptyChannelPOST": (f"{ACTS}test_empty_channel_counts_what_waits_is_in_flight_and_deferred",),
    "NA HTTPconfig": (
        "conformance/test_config.py::test_lookup_addresses_are_read_and_changed",
        "DEPARTURE nsqadmin's API",
    ),
    "NA HTTPconfigCIDR": ("DEPARTURE nsqadmin's API",),
}
