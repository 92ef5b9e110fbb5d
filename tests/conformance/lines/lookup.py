"""LK: nsqlookupd."""

LOOKUP = "lookup/test_registrations.py::"

LINES: dict[str, tuple[str, ...]] = {
    "LK BasicLookupd": (
        "conformance/test_lookupd.py::test_a_node_registers_and_is_gone_with_its_connection",
        f"{LOOKUP}test_a_registered_channel_is_found_and_its_producers_go_with_the_connection",
    ),
    "LK ChannelUnregister": (f"{LOOKUP}test_an_unregistered_channel_stays_known_and_the_topic_keeps_its_producer",),
    "LK TombstoneRecover": (f"{LOOKUP}test_a_tombstone_hides_one_topic_of_a_node_until_its_lifetime_is_over",),
    "LK TombstoneUnregister": (f"{LOOKUP}test_a_tombstoned_producer_that_unregisters_does_not_come_back",),
    "LK InactiveNodes": (f"{LOOKUP}test_a_node_that_does_not_ping_is_inactive_until_it_pings_again",),
    "LK errors": (
        "conformance/test_lookupd.py::test_a_wrong_beginning_ends_the_connection",
        "conformance/test_lookupd.py::test_a_wrong_command_ends_the_connection",
    ),
    "LK TombstonedNodes": (f"{LOOKUP}test_a_tombstoned_node_stays_in_the_list_of_nodes",),
    "LK RegistrationDB": (f"{LOOKUP}test_the_count_and_the_peers_lists_agree_with_what_is_registered",),
    "LK http create, delete, channels": (
        "conformance/test_lookupd.py::test_topics_and_channels_over_http",
        f"{LOOKUP}test_topics_and_channels_are_created_and_deleted_over_http",
        "lookup/test_http.py::test_an_error_has_its_status_and_code_and_changes_nothing",
    ),
}
