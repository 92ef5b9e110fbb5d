"""Which tests run on which storage kind, and why not on both.

Every test of the folders in BOTH runs on `log` and on `diskqueue`. The others start real servers or browsers and run on
the default, or choose themselves. A test that holds for one kind alone stands in ONLY, with the reason.
"""

from typing import Any

from queue_engine.options import Options
from queue_engine.storage.disk_queue_store import KIND as DISK_QUEUE
from queue_engine.storage.log_topic_store import KIND as LOG

BOTH = ("client", "conversations", "engine", "service")

ONLY: dict[str, tuple[str, str]] = {
    "test_log_acts.py": (LOG, "a disk queue forgets what it handed out"),
    "test_leases.py": (LOG, "a disk queue has no segments to lease"),
    "test_full_disk.py": (LOG, "a disk queue keeps in memory what it can't write"),
    "test_http_log.py": (LOG, "a disk queue forgets what it handed out"),
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
    "test_when_the_disk_refuses_the_asker_is_told_and_a_later_write_makes_it_good": (
        DISK_QUEUE,
        "the log itself needs room to begin",
    ),
    "test_a_write_is_a_synced_temporary_renamed_in_a_synced_directory": (
        DISK_QUEUE,
        "counts every file operation; the log has more of them",
    ),
    "test_changes_during_a_write_share_the_next_one": (DISK_QUEUE, "goes by the worker's jobs; the log has others"),
    "test_a_topic_of_the_log_has_its_keys_too": (LOG, "the log's keys"),
    "test_numbers_given_before_a_kill_are_not_given_again": (LOG, "a disk queue is known by its name"),
    "test_the_file_says_what_there_is_to_the_key": (DISK_QUEUE, "the log's keys have a test of their own"),
}

_chosen = {"storage": ""}


def choose(kind: str) -> None:
    """What `engine_options` adds from now on; "" for nothing."""
    _chosen["storage"] = kind


def engine_options(**options: Any) -> Options:
    """Engine options, with the storage kind of the test that runs unless they name one."""
    if _chosen["storage"]:
        options.setdefault("storage", _chosen["storage"])
    return Options(**options)


def kinds_of(test_name: str, folder: str, file_name: str) -> list[str]:
    """The kinds to run a test on; none when it is to run once, on what it chooses."""
    if folder not in BOTH:
        return []
    only = ONLY.get(file_name) or ONLY.get(test_name)
    return [LOG, DISK_QUEUE] if only is None else [only[0]]
