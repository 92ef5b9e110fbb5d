"""DQ, CH, TP, ND, PQ: the disk queue, channels, topics and the daemon."""

DQ = "storage/disk_queue/test_disk_queue.py::"
OPEN = "storage/disk_queue/test_opening.py::"
DAMAGE = "storage/disk_queue/test_damaged_files.py::"
REFUSED = "storage/disk_queue/test_refusals.py::"
HERE = "conformance/test_delivery.py::"
HTTP = "conformance/test_http.py::"
ENGINE = "engine/test_delivery.py::"
NSQDS = "interchange/test_nsqd_directory.py::"

LINES: dict[str, tuple[str, ...]] = {
    "DQ 1 TestDiskQueue": (f"{DQ}test_a_message_put_is_counted_at_once_and_read_equal",),
    "DQ 2 Roll": (f"{DQ}test_a_file_is_rolled_before_it_would_exceed_its_limit",),
    "DQ 3 Peek/roll": (f"{DQ}test_peek_across_a_roll_never_consumes",),
    "DQ 3 Peek/peek-read": (f"{DQ}test_peek_then_take_gives_the_same_and_then_the_next",),
    "DQ 3 Peek/read-peek": (f"{DQ}test_take_then_peek_shows_what_is_put_later",),
    "DQ 4 Empty": (f"{DQ}test_empty_removes_every_file_and_the_queue_works_on",),
    "DQ 5 Corruption, middle file": (f"{DQ}test_a_truncated_middle_file_costs_what_it_lost",),
    "DQ 5 Corruption, current file": (f"{DQ}test_behind_a_truncated_current_file_writing_goes_on_in_a_new_one",),
    "DQ 5 Corruption, zero-length record": (f"{DQ}test_a_record_of_length_zero_is_jumped_over",),
    "DQ 5 Corruption, last file": (f"{DQ}test_a_truncated_last_file_ends_at_depth_zero",),
    "DQ 6 SyncAfterRead": (f"{DQ}test_the_meta_file_is_written_after_the_timeout_for_writes_and_for_reads",),
    "DQ 7 Torture": (
        "storage/disk_queue/test_kills.py::test_killed_at_any_change_of_the_disk_a_queue_keeps_what_was_put_and_not_taken",
        "storage/disk_queue/test_syncs.py::test_two_threads_agree",
    ),
    "DQ 8 Resize": (f"{DQ}test_a_queue_reopened_with_larger_files_keeps_its_order",),
    "DQ record, names and meta file": (
        f"{DQ}test_the_bytes_on_disk_are_go_diskqueues",
        f"{DQ}test_a_queue_that_nsqd_left_is_read_and_continued",
    ),
    "DQ errors, sizes": (f"{DQ}test_sizes_out_of_range_are_refused_and_nothing_of_the_batch_counts",),
    "DQ errors, exiting": (f"{DQ}test_a_closed_queue_refuses_with_nsqds_word_and_still_tells_its_depth",),
    "DQ better: after a bad record the rest is delivered": (
        f"{DAMAGE}test_a_flipped_byte_in_any_place_hurts_its_own_message_alone",
        f"{DAMAGE}test_cut_at_any_byte_each_file_gives_every_whole_message",
    ),
    "DQ better: depth exact after recovery": (
        f"{OPEN}test_a_depth_that_drifted_is_counted_again",
        f"{DAMAGE}test_a_believed_depth_is_put_right_by_the_time_a_cut_file_is_passed",
    ),
    "DQ better: a failing read renames nothing": (
        f"{REFUSED}test_a_refused_read_loses_nothing_and_sets_nothing_aside",
        "storage/disk_queue/test_unread.py::test_what_the_process_lacks_is_no_matter_of_the_queue",
    ),
    "DQ better: without a meta file rebuilt from the data": (
        f"{OPEN}test_without_a_meta_file_the_depth_is_counted_from_the_data",
    ),
    "CH PutMessage": (f"{HERE}test_a_message_has_attempts_one_an_id_and_its_body",),
    "CH PutMessage2Chan": (f"{HERE}test_every_channel_gets_a_copy_with_the_same_id",),
    "CH InFlightWorker": (
        f"{ENGINE}test_a_message_not_finished_in_time_comes_again_with_one_attempt_more",
        f"{ENGINE}test_thousands_of_channels_due_at_once_are_handled_pass_by_pass",
        "delivery/test_in_flight.py::test_nothing_stays_behind_once_all_is_finished",
    ),
    "CH ChannelEmpty": (f"{HERE}test_emptying_a_channel_drops_what_waits_is_deferred_and_is_in_flight",),
    "CH ChannelEmptyConsumer": (f"{HERE}test_emptying_a_channel_drops_what_waits_is_deferred_and_is_in_flight",),
    "CH MaxChannelConsumers": ("conformance/test_error_texts.py::test_one_consumer_too_many",),
    "CH ChannelHealth": (
        "service/http/test_api.py::test_ping_tells_the_health",
        "service/http/test_api.py::test_disk_that_refuses_publishes_fails_neither_liveness_nor_readiness",
    ),
    "TP GetTopic, GetChannel": (f"{HTTP}test_the_life_of_a_topic_and_a_channel",),
    "TP Health": ("service/http/test_api.py::test_ping_tells_the_health",),
    "TP Deletes": (f"{HERE}test_deleting_a_channel_closes_its_consumers",),
    "TP DeleteLast": (f"{HERE}test_the_first_channel_gets_what_waited_and_a_put_without_channels_waits",),
    "TP Pause": (f"{HERE}test_a_paused_topic_passes_nothing_on",),
    "ND UnixSocketStartup": (
        "service/test_https.py::test_both_protocols_are_served_at_paths_and_the_paths_go_with_the_server",
    ),
    "ND Startup": (f"{HTTP}test_the_queue_survives_a_restart",),
    "ND EphemeralTopicsAndChannels": (f"{HERE}test_an_ephemeral_channel_and_its_topic_go_with_the_last_client",),
    "ND PauseMetadata": (f"{HTTP}test_pausing_outlives_a_restart",),
    "ND Reconfigure": (
        "service/lookup_client/test_registration.py::test_the_list_of_nsqlookupds_can_be_changed_while_the_server_runs",
    ),
    "ND Cluster": ("service/lookup_client/test_registration.py::test_topics_and_channels_come_and_go",),
    "ND SetHealth": ("service/http/test_api.py::test_ping_tells_the_health",),
    "ND data-path lock": (
        "storage/disk/test_dirlock.py::test_the_lock_is_the_one_that_nsqd_takes",
        "daemon/test_program.py::test_a_second_one_on_the_same_directory_is_refused_as_by_nsqd",
    ),
    "ND metadata file": (
        "engine/topology/test_topology.py::test_nsqds_file_is_taken_over_and_its_numbers_are_on_disk_at_once",
        "engine/topology/test_topology.py::test_names_that_are_not_valid_are_left_out_with_a_warning",
        "daemon/test_program.py::test_it_runs_on_nsqds_directory_and_gives_it_back",
        f"{NSQDS}test_after_a_clean_stop_nsqd_finds_everything",
        f"{NSQDS}test_paused_topics_and_channels_stay_paused",
        f"{NSQDS}test_ephemeral_names_and_files_of_no_topic_are_left_alone",
        f"{NSQDS}test_what_nsqd_did_meanwhile_is_taken_over",
    ),
    "ND files of nsqd: several, half read, damaged": (
        f"{NSQDS}test_several_files_and_a_half_read_one_are_read_on",
        f"{NSQDS}test_damage_costs_its_own_message_and_the_file_is_kept_as_bad",
    ),
    "ND flags, config file, version, start-up lines": (
        "daemon/test_flags.py::test_the_table_has_every_flag_of_nsqd",
        "go_flags/test_command_line.py::test_values_are_read_as_go_reads_them",
        "go_flags/test_command_line.py::test_a_flag_is_stronger_than_the_configuration_file",
        "daemon/test_program.py::test_the_first_lines_are_nsqds",
        "daemon/test_program.py::test_version_help_and_mistakes_have_nsqds_statuses",
        "DEPARTURE arguments that are no flags",
    ),
    "PQ PriorityQueue": ("delivery/test_in_flight.py::test_the_next_deadline_is_that_of_a_message_still_in_flight",),
    "PQ UnsortedInsert": (
        "storage/disk_queue/test_oldest_in_line.py::test_it_is_the_least_of_all_that_stand_in_the_line",
    ),
    "PQ Remove": (
        "delivery/test_in_flight.py::test_entries_of_finished_deliveries_never_outnumber_the_living_by_much",
    ),
}
