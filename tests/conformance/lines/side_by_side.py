"""SBS: what a run of 760 scripts against nsqd 1.3 and Penstock side by side showed; and the deliberate departures."""

HALF = "conformance/test_half_closed.py::"
EDGES = "conformance/test_http_edges.py::"
IDENTIFY = "conversations/test_identify.py::"

LINES: dict[str, tuple[str, ...]] = {
    "SBS a half-closed client gets every answer": (
        f"{HALF}test_every_publish_is_answered_before_the_close",
        f"{HALF}test_a_consumer_gets_its_answers_and_finishes_count",
    ),
    "SBS a command that is cut off gets its error": (f"{HALF}test_a_command_that_is_cut_off_gets_its_error",),
    "SBS IDENTIFY: keys in any case, U+FFFD, null, BOM, NaN, integers": (
        f"{IDENTIFY}test_bodies_are_read_as_go_reads_them",
        "protocol/test_go_json.py::test_a_body_that_is_refused_whatever_is_read",
        "protocol/test_go_json.py::test_what_is_no_whole_number_of_so_many_bits",
        "protocol/test_go_json.py::test_a_body_that_is_refused_whatever_is_read",
    ),
    "SBS IDENTIFY: the timeout before the size": (
        f"{IDENTIFY}test_of_several_bad_values_the_first_in_nsqd_s_order_is_named",
    ),
    "SBS IDENTIFY: size -1 is answered as 1, timeout 0": (
        f"{IDENTIFY}test_no_output_buffer_is_answered_as_size_one_and_no_timeout",
    ),
    "SBS IDENTIFY: deflate_level 6 when unset": (
        "conversations/test_layers.py::test_a_client_publishes_and_consumes_inside_the_layers",
    ),
    "SBS IDENTIFY: without names they are empty": (f"{IDENTIFY}test_a_client_that_gives_no_names_has_none",),
    "SBS a silent client gets two heartbeats": (
        "conversations/test_timing.py::test_who_does_not_answer_heartbeats_is_closed_after_two",
        "service/tcp/test_heartbeat.py::test_who_is_silent_from_the_start_gets_two",
    ),
    "SBS /stats of an unknown topic or channel": (f"{EDGES}test_stats_of_what_is_not_there",),
    "SBS HTTP redirects": (
        f"{EDGES}test_a_get_of_nearly_a_path_is_redirected_for_good",
        f"{EDGES}test_a_post_to_nearly_a_path_is_redirected_with_its_method",
    ),
    "SBS HTTP OPTIONS and Allow": (f"{EDGES}test_options_answers_the_methods", f"{EDGES}test_405_names_the_methods"),
    "SBS HTTP/1.0 keep-alive": (f"{EDGES}test_an_http_1_0_connection_stays_open_when_the_client_asks_for_it",),
    "SBS any Host and Origin": (
        f"{EDGES}test_a_host_of_a_container_is_answered",
        "service/http/test_access.py::test_any_host_may_be_named_and_browsers_stay_out",
        "DEPARTURE Host and Origin",
    ),
    "SBS error bodies are exactly nsqd's": ("conformance/test_http.py::test_what_is_refused_has_exactly_nsqds_body",),
    "SBS empty 200s have no content type": (f"{EDGES}test_an_act_answers_200_without_a_body_and_its_type",),
    "SBS malformed requests get plain text": (f"{EDGES}test_what_is_no_request_gets_plain_text_and_the_end",),
    "SBS Expect 417, HTTP/2.0 505": (
        f"{EDGES}test_an_expectation_that_is_unknown_fails",
        f"{EDGES}test_what_is_no_request_gets_plain_text_and_the_end",
    ),
    "SBS a failed MPUB leaves the topic": ("DEPARTURE MPUB all or nothing",),
    "SBS MPUB runs what is left of its body": ("DEPARTURE MPUB all or nothing",),
    "SBS REQ 0 and timed-out messages go behind": (
        "storage/test_return_order.py::test_it_is_the_order_of_a_list_into_which_each_is_put_in_its_place",
        "DEPARTURE order of returned messages",
    ),
    "SBS sample_rate": (
        "conversations/test_layers.py::test_a_sample_is_as_large_as_asked_for_and_the_rest_is_gone_for_the_channel",
    ),
    "SBS half-sent bodies wait for ever": ("DEPARTURE deadlines of commands",),
    "SBS a consumer that does not read stays": ("DEPARTURE consumers that do not read",),
    "SBS new channels are scanned after 5 s": ("DEPARTURE exact timers",),
    "departure: OK after the durability policy": ("DEPARTURE OK after the sync",),
    "departure: MPUB all or nothing": ("DEPARTURE MPUB all or nothing",),
    "departure: defer time, attempts and in flight survive": ("DEPARTURE restarts",),
    "departure: names . and ..": ("DEPARTURE names . and ..",),
    "departure: health is sticky per log": ("DEPARTURE health",),
    "departure: put error after pop never drops": ("DEPARTURE failed writes",),
}
