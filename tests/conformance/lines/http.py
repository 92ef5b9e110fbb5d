"""HT, ST: the HTTP API and its stats."""

HERE = "conformance/test_http.py::"
EDGES = "conformance/test_http_edges.py::"
TLS = "service/test_https.py::"
STATS = "conformance/test_stats.py::"
CONFIG = "conformance/test_config.py::"
REFUSED = f"{HERE}test_what_is_refused_has_exactly_nsqds_body"

LINES: dict[str, tuple[str, ...]] = {
    "HT pub": (f"{HERE}test_pub",),
    "HT pub empty": (REFUSED,),
    "HT mpub": (f"{HERE}test_mpub_takes_lines_and_drops_empty_ones",),
    "HT mpub, trailing newline and empty lines": (f"{HERE}test_mpub_takes_lines_and_drops_empty_ones",),
    "HT mpub binary": (f"{HERE}test_mpub_binary",),
    "HT defer": (f"{HERE}test_pub_deferred",),
    "HT HTTPSRequire": (f"{TLS}test_where_tls_is_required_plain_http_is_refused_with_the_port_of_https",),
    "HT HTTPSRequireVerify": (f"{TLS}test_https_wants_a_certificate_where_the_policy_does",),
    "HT TLSRequireVerifyExceptHTTP": (f"{TLS}test_tcp_https_leaves_plain_http_open",),
    "HT V1TopicChannel": (f"{HERE}test_the_life_of_a_topic_and_a_channel", REFUSED),
    "HT ClientStats": (
        f"{HERE}test_stats_of_clients",
        f"{STATS}test_clients_and_memory_are_left_out_where_they_are_not_wanted",
    ),
    "HT getStatusJSON": (f"{HERE}test_stats_json_begins_as_nsqds",),
    "HT getStatusText": (f"{STATS}test_the_text_is_laid_out_in_nsqd_s_columns", "DEPARTURE text of /stats"),
    "HT config": (
        f"{HERE}test_config",
        f"{CONFIG}test_lookup_addresses_are_read_and_changed",
        f"{CONFIG}test_errors_have_nsqd_s_words",
        f"{CONFIG}test_options_are_answered_in_nsqd_s_units",
        "DEPARTURE options over HTTP",
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
    "HT debug": (
        "service/http/test_debug.py::test_the_index_names_what_there_is_and_what_there_is_not",
        "DEPARTURE debug",
    ),
    "ST Stats": (
        f"{EDGES}test_stats_of_what_is_not_there",
        f"{STATS}test_filters_leave_one_topic_or_one_channel",
        "service/http/test_stats.py::test_filters",
    ),
    "ST counters": (f"{STATS}test_counters_count_what_nsqd_s_count",),
    "ST producers": (f"{STATS}test_a_producer_is_told_with_each_topic_it_publishes_to", "DEPARTURE pub_counts"),
    "ST e2e": (
        f"{STATS}test_percentiles_come_in_stats_and_to_statsd",
        f"{STATS}test_without_percentiles_there_are_none",
        "DEPARTURE latency percentiles",
    ),
    "ST statsd": (
        f"{STATS}test_percentiles_come_in_stats_and_to_statsd",
        "service/statsd/test_statsd.py::test_counters_are_what_was_added_gauges_what_there_is",
    ),
    "ST ClientAttributes": (f"{HERE}test_stats_of_clients",),
    "ST StatsChannelLocking": (
        f"{STATS}test_messages_in_flight_go_on_while_the_stats_are_read",
        "engine/test_delivery.py::test_a_snapshot_is_made_in_slices_while_channels_come_and_go",
    ),
}
