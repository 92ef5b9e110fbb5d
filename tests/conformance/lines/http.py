"""HT, ST: the HTTP API and its stats."""

HERE = "conformance/test_http.py::"
EDGES = "conformance/test_http_edges.py::"
REFUSED = f"{HERE}test_what_is_refused_has_exactly_nsqds_body"

LINES: dict[str, tuple[str, ...]] = {
    "HT pub": (f"{HERE}test_pub",),
    "HT pub empty": (REFUSED,),
    "HT mpub": (f"{HERE}test_mpub_takes_lines_and_drops_empty_ones",),
    "HT mpub, trailing newline and empty lines": (f"{HERE}test_mpub_takes_lines_and_drops_empty_ones",),
    "HT mpub binary": (f"{HERE}test_mpub_binary",),
    "HT defer": (f"{HERE}test_pub_deferred",),
    "HT V1TopicChannel": (f"{HERE}test_the_life_of_a_topic_and_a_channel", REFUSED),
    "HT ClientStats": (f"{HERE}test_stats_of_clients",),
    "HT getStatusJSON": (f"{HERE}test_stats_json_begins_as_nsqds",),
    "HT getStatusText": (f"{HERE}test_stats_text",),
    "HT config": (
        f"{HERE}test_config",
        "service/http/test_config.py::test_lookup_addresses_are_changed_by_a_list_in_json",
    ),
    "HT errors": (f"{HERE}test_methods_and_paths", f"{EDGES}test_405_names_the_methods"),
    "HT DeleteTopic": (f"{HERE}test_the_life_of_a_topic_and_a_channel",),
    "HT EmptyTopic": (f"{HERE}test_emptying", REFUSED),
    "HT EmptyChannel": (f"{HERE}test_emptying", f"{HERE}test_a_channel_that_is_not_there", REFUSED),
    "HT Info": (f"{HERE}test_info_and_ping",),
    "HT others: 413, 400, 500, 503": (
        REFUSED,
        "service/http/test_documented_errors.py::test_each_documented_error_comes",
    ),
    "HT binary mpub errors": (REFUSED,),
    "ST Stats": (f"{EDGES}test_stats_of_what_is_not_there", "service/http/test_stats.py::test_filters"),
    "ST ClientAttributes": (f"{HERE}test_stats_of_clients",),
    "ST StatsChannelLocking": (
        "engine/test_delivery.py::test_a_snapshot_is_made_in_slices_while_channels_come_and_go",
    ),
}
