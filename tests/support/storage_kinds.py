"""Which tests run on which storage kind, and why not on both.

Every test of the folders in BOTH runs on `log` and on `diskqueue`; the second run is slow. The others run on the
default, or choose themselves. A test or file that holds for one kind alone stands in ONLY, a file or folder that has
nothing to do with storage in ONCE, each with the reason.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal

from queue_engine.storage.disk_queue.store import KIND as DISK_QUEUE
from queue_engine.storage.log_store.log_topic_store import KIND as LOG
from queue_engine.vocabulary.options.option import flag_of
from queue_engine.vocabulary.options.options import Options

if TYPE_CHECKING:
    import pytest  # servers of their own process import this module, and pytest takes as long as the engine

# Folder of tests/ → the scope of its fixture `storage_kind`. Tests are put in order by kind within it: in "clients" a
# server lasts for the tests of a file and a kind, in "browser" for all of a kind.
BOTH: dict[str, Literal["function", "module", "package"]] = {
    "browser": "package",
    "client": "function",
    "clients": "module",
    "console": "function",
    "conversations": "function",
    "engine": "function",
    "service": "function",
}

# Test, or a file's path below tests/ → the kind it holds for, and why.
ONLY: dict[str, tuple[str, str]] = {
    "test_what_lost_the_draw_stays_gone_after_a_kill": (LOG, "a disk queue has its messages in memory"),
    "test_reader_and_writer_come_back_after_a_restart": (
        LOG,
        "pynsq waits for 15 seconds; gnsq comes back to both kinds at once",
    ),
    "test_touch_keeps_a_message_from_timing_out": (LOG, "deadlines are in memory, and it waits for one"),
    "console/test_many_nodes.py": (LOG, "the nodes are nsqds"),
    "clients/test_discovery.py": (LOG, "what is acknowledged survives kill -9 there alone"),
    "test_files_keep_their_permissions_and_what_is_there_is_checked": (LOG, "the copying is the same"),
    "test_without_a_server_the_directory_is_copied": (DISK_QUEUE, "the copying is the same"),
    "test_an_interrupted_backup_says_that_it_is_incomplete": (LOG, "the copying is the same"),
    "clients/test_stop.py": (DISK_QUEUE, "what is in memory alone is a disk queue's"),
    "test_three_hundred_clients_leave_descriptors_for_the_console_and_the_http_api": (LOG, "it is about sockets"),
    "test_four_hundred_idle_connections_to_the_console_leave_the_queue_its_descriptors": (LOG, "it is about sockets"),
    "test_a_killed_server_takes_its_demo_with_it": (LOG, "it is about processes"),
    "test_publishing_rests_while_the_archive_stands_still": (LOG, "a disk queue has no archive"),
    "test_an_ended_demo_is_told_and_the_server_goes_on": (LOG, "it is about processes"),
    "test_a_second_process_on_the_directory_is_told_who_holds_it": (LOG, "it is about processes"),
    "test_a_taken_port_is_told_and_ends_it_with_a_status": (LOG, "it is about sockets"),
    "test_the_soft_limit_is_raised_at_the_start": (LOG, "it is about sockets"),
    "test_a_start_takes_due_times_by_the_wall_clock": (LOG, "a disk queue's deferral ends at a restart"),
    "test_a_restart_keeps_ages": (LOG, "a disk queue's file has neither due times nor an order of age"),
    "test_a_channel_that_was_moved_back_is_as_old_as_what_it_delivers_again": (LOG, "a disk queue has no offsets"),
    "test_the_question_says_what_all_of_it_frees_together": (LOG, "a disk queue's files go with it"),
    "console/test_clusters.py": (LOG, "the nodes are fakes, and have no storage"),
    "console/test_two_operators.py": (LOG, "the acts of the table are the log's; what compares is no storage's"),
    "test_a_merge_and_a_kill_amid_an_emptying_bring_nothing_back": (LOG, "a disk queue has no journal"),
    "test_a_kill_at_any_write_of_an_emptying_leaves_each_message_in_one_place": (LOG, "a disk queue has no trash"),
    "engine/test_former_queues.py": (DISK_QUEUE, "the log finds what it has by number"),
    "test_deferred_messages_come_back_from_the_trash_some_with_each_turn": (LOG, "a disk queue has no trash"),
    "test_what_goes_on_while_a_channel_is_emptied_is_in_the_trash_too": (LOG, "a disk queue has no trash"),
    "engine/trash/test_bytes.py": (LOG, "a disk queue has no trash"),
    "engine/trash/test_channels.py": (
        LOG,
        "a disk queue has no trash",
    ),
    "engine/trash/test_restore_in_steps.py": (LOG, "a disk queue has no trash"),
    "test_a_small_message_in_a_record_too_large_for_the_page_says_why_it_was_not_read": (
        LOG,
        "a page of a disk queue reads its file",
    ),
    "engine/test_ends.py": (LOG, "a disk queue has no trash, leases, cursors or quarantine"),
    "engine/trash/test_topics.py": (LOG, "a disk queue has no trash"),
    "test_the_oldest_age_goes_on_behind_a_quarantined_message": (LOG, "a disk queue has no quarantine"),
    "console/test_versions_side_by_side.py": (LOG, "the nodes are others"),
    "browser/test_by_node.py": (LOG, "it is about the page"),
    "browser/test_operators_evening.py": (LOG, "it is about the page, and a disk queue has no trash"),
    "browser/test_zones.py": (LOG, "it is about the page"),
    "console/screens/test_agreement.py": (LOG, "no engine runs"),
    "console/screens/test_chips.py": (LOG, "no engine runs"),
    "browser/test_scenes.py": (LOG, "the scenes have topics of the log"),
    "browser/test_quarantine.py": (LOG, "a disk queue has no quarantine"),
    "test_a_text_is_searched_for_while_the_page_shows_how_far_it_is": (
        LOG,
        "the files of a disk queue can't be searched",
    ),
    "test_a_list_says_how_old_it_is_and_refreshes_in_its_place": (LOG, "it is about the page"),
    "test_a_second_click_posts_no_act_twice": (LOG, "it is about the page"),
    "test_shortcuts_of_a_single_key_can_be_switched_off_for_good": (LOG, "it is about the page"),
    "test_a_page_of_a_key_that_looks_at_much_ends_and_goes_on": (LOG, "a disk queue keeps no keys"),
    "test_a_page_of_a_key_says_what_is_not_indexed_yet": (LOG, "a disk queue keeps no keys"),
    "test_what_a_search_shows_of_bodies_is_audited": (LOG, "only the log is searched"),
    "engine/test_log_acts.py": (LOG, "a disk queue forgets what it handed out"),
    "test_a_channel_of_the_log_loses_nothing_when_a_call_fails_behind_its_work": (
        LOG,
        "a disk queue in memory knows only what it was told",
    ),
    "test_a_store_that_can_t_note_what_the_log_holds_fences_its_topic_and_loses_nothing": (LOG, "the log's own step"),
    "test_a_log_that_fails_unexpectedly_as_it_writes_refuses_all_and_lives": (LOG, "a disk queue shares nothing"),
    "engine/test_message_search.py": (LOG, "the files of a disk queue can't be searched; a test tells that it says so"),
    "engine/test_write_batch.py": (LOG, "a disk queue keeps no keys"),
    "engine/memory/test_budgets.py": (DISK_QUEUE, "what consumers of the log hold is in the log, and costs no memory"),
    "engine/memory/test_log_memory.py": (LOG, "a disk queue's messages in flight are in memory alone"),
    "engine/topology/test_guard.py": (LOG, "only the log holds messages that topology.json gives names"),
    "engine/readers/test_leases.py": (LOG, "a disk queue has no segments to lease"),
    "engine/readers/test_cursors.py": (LOG, "a disk queue keeps nothing for readers; a test tells that it says so"),
    "service/http/test_cursors.py": (LOG, "a disk queue keeps nothing for readers; a test tells that it says so"),
    "engine/test_progress_report.py": (LOG, "a disk queue keeps no progress: what is taken is gone from it"),
    "clients/test_full_disk.py": (LOG, "a disk queue keeps in memory what it can't write"),
    "engine/test_full_disk.py": (LOG, "a disk queue keeps in memory what it can't write"),
    "console/test_trash.py": (LOG, "a disk queue has no trash; a test tells that it says so"),
    "console/test_cursors.py": (LOG, "a disk queue has no cursors; a test tells that it says so"),
    "console/test_messages.py": (
        LOG,
        "a disk queue's messages are read by consuming them; a test tells that it says so",
    ),
    "test_each_state_lists_its_messages_and_nothing_is_consumed": (LOG, "a disk queue keeps no finished message"),
    "test_finished_messages_are_listed_as_long_as_the_log_has_them": (LOG, "a disk queue keeps no finished message"),
    "test_a_text_is_searched_for_in_bodies_and_the_look_is_audited": (LOG, "a disk queue's files can't be searched"),
    "test_one_message_is_found_by_its_id_and_by_its_offset": (LOG, "a disk queue has no offsets"),
    "test_filters_narrow_the_list_and_an_empty_one_says_so": (LOG, "a disk queue has no offsets"),
    "test_the_engine_counts_again_what_a_bulk_act_removes_and_each_can_be_undone": (LOG, "a disk queue has no trash"),
    "browser/test_incidents.py": (LOG, "a disk queue has neither quarantine nor trash"),
    "browser/test_pipeline.py": (LOG, "only topics of the log have pipeline cursors, and can be archived"),
    "service/http/test_reads.py": (LOG, "a disk queue forgets what it handed out"),
    "service/http/test_write.py": (LOG, "a disk queue keeps no keys"),
    "test_what_was_in_flight_or_deferred_comes_again_with_its_attempts": (
        DISK_QUEUE,
        "what was deferred comes at once after its restart; the log keeps the due time",
    ),
    "test_what_waits_at_a_topic_goes_to_its_channel_over_a_restart": (
        DISK_QUEUE,
        "its topic has copies in memory; backend depth is only what is beyond those",
    ),
    "test_a_kill_loses_what_was_in_memory_and_nothing_else": (DISK_QUEUE, "nsqd's promise; the log loses nothing"),
    "test_a_kill_may_bring_messages_again_but_loses_none_that_was_on_disk": (
        DISK_QUEUE,
        "nsqd's promise; the log remembers what was finished",
    ),
    "test_large_messages_go_from_topic_to_channels_a_mebibyte_at_a_time": (
        DISK_QUEUE,
        "copies are moved; in the log a number changes",
    ),
    "test_syncs_are_given_out_a_few_at_a_time_and_none_is_forgotten": (DISK_QUEUE, "a queue a file"),
    "test_health_tells_of_a_sync_that_failed_until_one_goes_well": (
        DISK_QUEUE,
        "nsqd goes on after a failed sync; the log stops for good",
    ),
    "test_health_forgets_a_channel_that_could_not_be_read_when_it_is_deleted": (
        DISK_QUEUE,
        "a channel of the log has no file of its own to be read",
    ),
    "test_figures_under_nsqd_s_keys": (DISK_QUEUE, "backend depth is 0 for what is in memory"),
    "test_figures_in_text": (DISK_QUEUE, "backend depth is 0 for what is in memory"),
    "test_when_the_disk_refuses_nothing_is_created_and_the_next_try_is_one_of_its_own": (
        DISK_QUEUE,
        "the log itself needs room to begin",
    ),
    "test_a_change_is_one_synced_line_and_a_clean_stop_merges_by_synced_renames": (
        DISK_QUEUE,
        "counts every file operation; the log has more of them",
    ),
    "test_changes_during_a_write_share_the_next_one": (DISK_QUEUE, "goes by the worker's jobs; the log has others"),
    "test_a_topic_of_the_log_has_its_keys_too": (LOG, "the log's keys"),
    "test_figures_of_the_log_are_the_same_in_stats_metrics_and_samples": (LOG, "figures of the log"),
    "test_dropping_messages_is_answered_when_a_power_cut_can_not_undo_it": (DISK_QUEUE, "the log has a journal for it"),
    "test_when_the_disk_does_not_say_that_what_was_dropped_is_gone_the_outcome_is_unknown": (
        DISK_QUEUE,
        "the log has a journal for it",
    ),
    "test_what_the_journal_can_not_take_changes_nothing_now_and_after_a_kill": (LOG, "a disk queue has no journal"),
    "test_what_the_journal_took_is_so_after_a_kill": (LOG, "a disk queue has no journal"),
    "test_numbers_given_before_a_kill_are_not_given_again": (LOG, "a disk queue is known by its name"),
    "test_the_file_says_what_there_is_to_the_key": (DISK_QUEUE, "the log's keys have a test of their own"),
}

# A file's path below tests/, or a folder's with its slash → why one kind tells as much as two. They run on the default,
# but for the tests that ONLY names.
ONCE: dict[str, str] = {
    "browser/test_accessibility.py": "names, colours and sizes; with the log the pages have more on them, not less",
    "browser/test_acts.py": "it is about the page; console/test_acts and test_capabilities have the acts on both",
    "browser/test_clock.py": "times of pages",
    "browser/test_graphs.py": "made of the stats' figures, which engine/ and service/ look at on both",
    "browser/test_history.py": "the past is in the pipeline's files, outside of both",
    "browser/test_hostile_text.py": "names and what clients say of themselves are kept outside of both",
    "browser/test_https_proxy.py": "cookies, addresses and the socket's way through a proxy",
    "browser/test_list_csv.py": "it is about the page",
    "browser/test_lists.py": "it is about the page; console/screens/test_lists has the lists",
    "browser/test_live.py": "made of the stats' figures, which engine/ and service/ look at on both",
    "browser/test_login.py": "users and sessions are in the console's own database",
    "browser/test_looks.py": "widths and colours; with the log the pages have more on them, not less",
    "browser/test_lost_server.py": "has a server of each kind, which are lost at the same time",
    "browser/test_messages.py": "what each kind lists and does is told in console/",
    "browser/test_selection.py": "it is about the page; console/test_bulk_acts has the acts on both",
    "browser/test_session_end.py": "users and sessions are in the console's own database",
    "browser/test_slow_line.py": "sizes of pages and updates, and their order",
    "browser/test_sub_path.py": "it is about paths",
    "browser/test_token_page.py": "who may do what",
    "browser/test_two_operators.py": "it is about the page",
    "browser/test_viewer.py": "roles are checked before a topic is asked; with the log there is one act more",
    "browser/test_without_script.py": "it is about the page; what its forms do is told in console/",
    "client/test_strange_servers.py": "servers that are not ours",
    "console/test_lookup_on_nodes.py": "it is about nodes and nsqlookupds",
    "console/test_acts_on_nodes.py": "it is about nodes; cluster/contract has the acts, console/test_acts both kinds",
    "console/test_remote_alone.py": "it is about nodes; console/test_channel_messages has both kinds",
    "console/test_remote_messages.py": "it is about nodes; console/test_channel_messages has both kinds",
    "clients/test_auth.py": "who may do what",
    "clients/test_console_tls.py": "what lies between a socket and its session",
    "clients/test_fuzz.py": "it is about what is refused",
    "clients/test_https_proxy.py": "cookies, origins and the socket's way through a proxy",
    "clients/test_prometheus.py": "it asks for what test_metrics looks at on both",
    "clients/test_proxy_recipes.py": "cookies, origins and the socket's way through a proxy",
    "clients/test_sub_path.py": "it is about paths",
    "clients/test_wire_layers.py": "what lies between a socket and its session",
    "console/test_clients.py": "connections, whatever stores messages",
    "console/test_cluster_pages.py": "other nodes beside this server",
    "console/test_nodes.py": "other nodes, and the addresses they are called at",
    "console/test_nsqadmin_api.py": "figures and acts over nodes, whatever stores messages",
    "console/test_nsqadmin_documents.py": "made of figures, whatever stores messages",
    "console/accounts/": "users and sessions are in the console's own database",
    "console/audit/": "rows of the console's own database",
    "console/diagnosis/": "made of figures, whatever stores messages",
    "console/live/": "sockets of pages, and invented snapshots",
    "console/management/": "commands, the program and its surroundings",
    "console/pipeline/": "only topics of the log have pipeline cursors, and can be archived",
    "console/screens/": "made of figures and sentences, whatever stores messages",
    "console/test_bodies.py": "made of bodies, without an engine",
    "console/test_compression.py": "sizes of pages and updates",
    "console/test_database.py": "the console's own files",
    "console/test_database_limits.py": "the console's own files",
    "console/test_drafts.py": "forms and sessions, whatever stores messages",
    "console/test_history.py": "the past is in the pipeline's files, outside of both",
    "console/test_http_act_sentences.py": "sentences of the audit list",
    "console/test_lookup.py": "names of topics and channels, whatever stores them",
    "console/test_pacing.py": "it is about requests, whatever they are for",
    "console/test_page_cache.py": "it is about pages, whatever they show",
    "console/test_permissions.py": "roles are checked before a topic is asked",
    "console/test_process_objects.py": "made of files and modules, without an engine",
    "console/test_producers.py": "clients are known by their connections",
    "console/test_security.py": "requests are judged before a queue is asked",
    "console/test_sentences.py": "made of counts, without an engine",
    "console/test_settings.py": "the console's own options",
    "console/test_store_failures.py": "what the page says of a table of the pipeline",
    "console/test_sub_path.py": "it is about paths",
    "console/test_templates.py": "made of files, without an engine",
    "console/test_times.py": "times of pages and forms",
    "console/test_tokens.py": "who may do what",
    "console/test_words.py": "made of files, without an engine",
    "conversations/test_fair_share.py": "what clients share is no store's",
    "conversations/test_hostile.py": "it is about what is refused, and about sockets",
    "conversations/test_identify.py": "what is agreed before any message",
    "conversations/test_timing.py": "heartbeats and output buffers",
    "engine/samples/test_disk_watch.py": "free bytes of the disk, whatever is on it",
    "engine/samples/test_format.py": "made of invented figures, without an engine",
    "engine/samples/test_log.py": "samples have a log of their own, whatever topics have",
    "engine/test_damage_report.py": "a segment of the log is missing",
    "engine/test_grants.py": "who may do what",
    "engine/test_log_lines.py": "lines of the log of the process",
    "engine/test_newer_formats.py": "files of the log",
    "engine/test_next_turn.py": "turns, whatever is done in them",
    "engine/test_old_data_directory.py": "the directory has topics of both",
    "engine/test_options.py": "options, before anything of a queue is asked",
    "engine/test_run.py": "made of invented batches, without an engine",
    "engine/topology/test_topology_start.py": "what topology.json says is the same for both",
    "service/admission/": "what clients share and are refused before anything of a queue is asked",
    "service/http/test_access.py": "requests are judged before a queue is asked",
    "service/http/test_api.py": "paths, words and parameters; engine/ has the acts on both",
    "service/http/test_compression.py": "sizes of answers",
    "service/http/test_config.py": "options of the server",
    "service/http/test_debug.py": "the process, whatever it stores",
    "service/http/test_documented_errors.py": "refusals of requests; each request chooses its kind",
    "service/http/test_fuzz.py": "it is about what is refused",
    "service/http/test_limits.py": "what a connection costs, before anything of a queue is asked",
    "service/http/test_long_values.py": "refusals of requests",
    "service/http/test_paced_steps.py": "slices of answers, with a clock of its own",
    "service/http/test_reference.py": "paths, parameters and the document; each request chooses its kind",
    "service/http/test_rules.py": "who may ask for what",
    "service/http/test_samples.py": "samples have a log of their own, whatever topics have",
    "service/http/test_tokens.py": "who may ask for what",
    "service/layers/": "what lies between a socket and its session",
    "service/lookup_client/": "names of topics and channels, whatever stores them",
    "service/loop/": "turns of the loop; contracts/ has what is due on both kinds",
    "service/monitoring/test_alerts.py": "the rules and figures of its own",
    "service/monitoring/test_dashboard.py": "the dashboard and the table of metrics",
    "service/monitoring/test_process_memory.py": "the process, whatever it stores",
    "service/monitoring/test_selection.py": "which topics an answer has",
    "service/statsd/": "figures of the stats; those of each kind have their own tests",
    "service/tcp/": "order, turns and room of connections; contracts/ has what a store answers",
    "service/test_collector.py": "the interpreter's own pauses",
    "service/test_https.py": "sockets and certificates",
    "service/test_protocol_fuzz.py": "it is about what is refused",
    "service/test_runner.py": "the thread of the engine; engine/test_fences has failures of both kinds",
    "service/test_start.py": "what is answered before the first topic",
    "service/test_stats_options.py": "options, before anything of a queue is asked",
    "service/test_versions.py": "versions of programs and files",
}

DEFAULT = Options().storage
_FLAG = flag_of("storage")

_chosen = {"storage": ""}


@contextmanager
def chosen(request: "pytest.FixtureRequest") -> Iterator[str]:
    """The kind that a fixture's parameter names, "" without one: what `engine_options` and `server_flags` add
    meanwhile."""
    _chosen["storage"] = getattr(request, "param", "")
    try:
        yield _chosen["storage"]
    finally:
        _chosen["storage"] = ""


def engine_options(**options: Any) -> Options:
    """Engine options, with the storage kind of the test that runs unless they name one. Samples are taken only where a
    test asks for them: what others count in files and on the disk is not theirs."""
    options.setdefault("samples_interval_ms", 0)
    if _chosen["storage"]:
        options.setdefault("storage", _chosen["storage"])
    return Options(**options)


def server_flags(flags: Sequence[str]) -> list[str]:
    """Flags for a server of its own process, with the storage kind of the test that runs unless they name one."""
    is_named = any(flag.startswith(_FLAG) for flag in flags)
    return [*flags, *([f"{_FLAG}={_chosen['storage']}"] if _chosen["storage"] and not is_named else [])]


def kinds_of(test_name: str, path: str) -> list[str]:
    """The kinds to run a test on, by its file's path below tests/; none when it is to run once, on what it chooses."""
    if path.split("/")[0] not in BOTH:
        return []
    only = ONLY.get(test_name) or ONLY.get(path)
    if only is not None:
        return [only[0]]
    is_once = any(path == one or (one.endswith("/") and path.startswith(one)) for one in ONCE)
    return [DEFAULT] if is_once else [LOG, DISK_QUEUE]
