"""P2, P2x: protocol V2, and its texts."""

TALK = "conversations/"
HERE = "conformance/test_delivery.py::"
TEXT = "conformance/test_error_texts.py::"
LAYERS = "conversations/test_layers.py::"
AUTH = "service/tcp/test_client_auth.py::"
FATAL = f"{TEXT}test_a_wrong_command_ends_the_connection_with_nsqds_words"
CONSUMER = f"{TEXT}test_a_wrong_command_of_a_consumer"

LINES: dict[str, tuple[str, ...]] = {
    "P2 ChannelTopicNames": (f"{TALK}test_consume.py::test_valid_names_are_taken", FATAL),
    "P2 BasicV2": (f"{HERE}test_a_message_has_attempts_one_an_id_and_its_body",),
    "P2 MultipleConsumerV2": (
        f"{HERE}test_every_channel_gets_a_copy_with_the_same_id",
        f"{HERE}test_consumers_share_a_channel",
    ),
    "P2 SameZoneConsumerV2": ("DEPARTURE topology-aware consumption",),
    "P2 ClientTimeout": (f"{TALK}test_timing.py::test_a_client_without_identify_is_closed_after_its_silence",),
    "P2 ClientHeartbeat": (f"{TALK}test_timing.py::test_heartbeats_come_and_nop_keeps_the_connection",),
    "P2 HeartbeatDisableSUB": (f"{TEXT}test_a_consumer_without_heartbeats",),
    "P2 HeartbeatDisable": (f"{TALK}test_timing.py::test_heartbeats_can_be_off_for_publishers_but_not_for_consumers",),
    "P2 MaxHeartbeatIntervalValid": (f"{TALK}test_identify.py::test_limits_of_the_options_are_the_limits",),
    "P2 MaxHeartbeatIntervalInvalid": (FATAL,),
    "P2 Pausing": (f"{HERE}test_a_paused_channel_pushes_nothing_and_unpause_pushes",),
    "P2 EmptyCommand": (FATAL,),
    "P2 SizeLimits": (f"{TEXT}test_nsqds_own_examples_of_sizes",),
    "P2 DPUB": (f"{HERE}test_dpub_waits_as_deferred", FATAL),
    "P2 Touch": (f"{HERE}test_touch_extends",),
    "P2 MaxRdyCount": (f"{TEXT}test_nsqds_own_examples_of_sizes",),
    "P2 FatalError": (FATAL,),
    "P2 OutputBuffering": (f"{TALK}test_timing.py::test_output_is_held_until_its_timeout",),
    "P2 OutputBufferingValidity": (f"{TALK}test_identify.py::test_values_in_range_are_taken", FATAL),
    "P2 TLS": (
        f"{LAYERS}test_a_client_publishes_and_consumes_inside_the_layers",
        f"{LAYERS}test_the_oldest_version_is_the_servers",
        "DEPARTURE oldest TLS version",
    ),
    "P2 TLSRequired": (f"{LAYERS}test_where_tls_is_required_every_command_but_identify_needs_it",),
    "P2 TLSAuthRequire": (
        f"{LAYERS}test_a_client_auth_policy_lets_in_whom_the_authority_has_certified",
        "DEPARTURE client-auth-policy require",
    ),
    "P2 TLSAuthRequireVerify": (f"{LAYERS}test_a_client_auth_policy_lets_in_whom_the_authority_has_certified",),
    "P2 Deflate": (f"{LAYERS}test_a_client_publishes_and_consumes_inside_the_layers",),
    "P2 Snappy": (f"{LAYERS}test_a_client_publishes_and_consumes_inside_the_layers",),
    "P2 TLSDeflate": (f"{LAYERS}test_a_client_publishes_and_consumes_inside_the_layers",),
    "P2 TLSSnappy": (f"{LAYERS}test_a_client_publishes_and_consumes_inside_the_layers",),
    "P2 Sampling": (f"{LAYERS}test_a_sample_is_as_large_as_asked_for_and_the_rest_is_gone_for_the_channel",),
    "P2 ClientMsgTimeout": (f"{HERE}test_what_is_not_finished_in_time_comes_again_and_a_late_fin_is_told",),
    "P2 BadFin": (CONSUMER,),
    "P2 ReqTimeoutRange": (f"{HERE}test_a_delay_of_req_beyond_the_longest_is_clamped",),
    "P2 ClientAuth": (
        f"{AUTH}test_the_secret_is_asked_for_and_answered_as_nsqd_does",
        f"{AUTH}test_what_is_not_allowed_is_refused",
        "identity/test_auth_servers.py::test_the_question_is_nsqds",
        "clients/test_auth.py::test_pynsq_with_an_auth_server",
        "clients/test_auth.py::test_the_errors_are_nsqds",
    ),
    "P2 IOLoopReturnsClientErr": (FATAL,),
    "P2x E_BAD_PROTOCOL": (f"{TEXT}test_bad_magic",),
    "P2x E_INVALID, states": (FATAL, CONSUMER, f"{TEXT}test_a_consumer_without_heartbeats"),
    "P2x E_INVALID, parameters": (FATAL, CONSUMER),
    "P2x E_BAD_TOPIC, E_BAD_CHANNEL": (FATAL,),
    "P2x E_BAD_BODY": (FATAL, "conformance/test_half_closed.py::test_a_command_that_is_cut_off_gets_its_error"),
    "P2x E_BAD_MESSAGE": (FATAL, "conformance/test_half_closed.py::test_a_command_that_is_cut_off_gets_its_error"),
    "P2x E_IDENTIFY_FAILED": (FATAL,),
    "P2x E_AUTH_FIRST": (f"{AUTH}test_without_auth_nothing_can_be_done",),
    "P2x E_AUTH_FAILED": (f"{AUTH}test_a_refused_secret_ends_the_connection",),
    "P2x E_AUTH_DISABLED": (FATAL,),
    "P2x E_UNAUTHORIZED": (f"{AUTH}test_what_is_not_allowed_is_refused",),
    "P2x E_PUB_FAILED, E_MPUB_FAILED, E_DPUB_FAILED": (
        "service/tcp/test_session_order.py::test_a_failed_append_is_answered_in_its_place_and_ends_the_connection",
        "service/tcp/test_session_order.py::test_what_failed_at_once_waits_for_the_answers_before_it",
    ),
    "P2x E_SUB_FAILED": (f"{TEXT}test_one_consumer_too_many",),
    "P2x E_FIN_FAILED, E_REQ_FAILED, E_TOUCH_FAILED": (
        f"{TEXT}test_what_can_t_be_settled_is_told_and_the_connection_goes_on",
        f"{TEXT}test_a_message_of_another_client_is_not_settled",
    ),
    "P2x CLS": (f"{HERE}test_cls_stops_deliveries_and_still_settles",),
    "P2x edge: numbers are digits only": (FATAL, CONSUMER),
    "P2x edge: CR LF, RDY without a number": (
        f"{HERE}test_a_line_may_end_with_carriage_return_and_numbers_may_be_missing",
    ),
    "P2x edge: line limit": ("conversations/test_hostile.py::test_a_line_without_end_is_refused",),
    "P2x edge: size checks before the body": (
        "conversations/test_hostile.py::test_a_huge_length_is_refused_before_anything_is_read",
    ),
    "P2x edge: TOUCH cap": (f"{TALK}test_consume.py::test_touch_does_not_prolong_beyond_the_longest_timeout",),
    "P2x edge: RDY needs in flight below RDY": (
        f"{TALK}test_consume.py::test_rdy_bounds_what_is_in_flight_and_fin_makes_room",
    ),
    "P2x message frame": (
        f"{HERE}test_a_message_has_attempts_one_an_id_and_its_body",
        "protocol/test_frames.py::test_frames_are_size_type_and_data",
    ),
}
