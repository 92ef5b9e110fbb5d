"""Faults made on purpose in how the store meets errors of the disk and damaged files."""

from typing import Any

from queue_engine.storage.commit_log.commit_log import CommitLog
from queue_engine.storage.commit_log.log_recovery import _Recovery
from queue_engine.storage.commit_log.open_segment import OpenSegment
from queue_engine.storage.consume_queue.consume_queue import ConsumeQueue
from queue_engine.storage.log_store import log_topic
from queue_engine.storage.progress import floors, progress_recovery, queue_index
from queue_engine.storage.progress import journal as progress_journal
from queue_engine.storage.progress.journal import ProgressJournal
from queue_engine.storage.progress.journal_file import JournalFile
from queue_engine.storage.progress.merge import ProgressMerge
from queue_engine.storage.readers.leases import Leases
from queue_engine.vocabulary.errors import StorageError
from tests.faults.mutants.log import Mutant, Patch, _nothing

# Errors of the disk.


def _quietly(method: Any) -> Any:
    def attempt(self: Any, *args: Any) -> Any:
        try:
            return method(self, *args)
        except OSError:
            return None

    return attempt


def _failed_syncs_of_the_log_are_ignored(patch: Patch) -> None:
    sync = OpenSegment._sync

    def ignored(self: OpenSegment, fd: int) -> None:
        try:
            sync(self, fd)
        except StorageError:
            pass

    patch.setattr(OpenSegment, "_sync", ignored)


def _failed_syncs_of_the_journal_are_ignored(patch: Patch) -> None:
    patch.setattr(ProgressJournal, "_break", _nothing)


def _a_failed_journal_is_for_good(patch: Patch) -> None:
    patch.setattr(ProgressJournal, "_renew", _nothing)


def _the_new_journal_is_not_synced(patch: Patch) -> None:
    renew = JournalFile.begin_with.__func__

    def unsynced(cls: Any, directory: str, number: int, channels: Any, files: Any) -> JournalFile:
        sync, files.sync = files.sync, lambda fd: None
        try:
            return renew(cls, directory, number, channels, files)
        finally:
            files.sync = sync

    patch.setattr(JournalFile, "begin_with", classmethod(unsynced))


def _want_of_descriptors_ends_the_journal(patch: Patch) -> None:
    patch.setattr(progress_journal, "_NO_DESCRIPTOR", ())


def _a_full_disk_is_for_good(patch: Patch) -> None:
    patch.setattr(CommitLog, "_start_probe", _nothing)


def _journals_go_with_a_merge_that_failed(patch: Patch) -> None:
    patch.setattr(ProgressMerge, "_write_segments", _quietly(ProgressMerge._write_segments))


def _unreadable_is_empty(patch: Patch) -> None:
    read = queue_index.read_file

    def forgiving(files: Any, path: str) -> bytes:
        try:
            return read(files, path)
        except StorageError:
            return b""

    patch.setattr(progress_recovery, "read_file", forgiving)


ERROR_MUTANTS = [
    Mutant("failed syncs of the log are ignored", _failed_syncs_of_the_log_are_ignored),
    Mutant("failed syncs of the journal are ignored", _failed_syncs_of_the_journal_are_ignored),
    Mutant("a failed journal is for good", _a_failed_journal_is_for_good),
    Mutant("the new journal is not synced", _the_new_journal_is_not_synced),
    Mutant("want of descriptors ends the journal", _want_of_descriptors_ends_the_journal),
    Mutant("a full disk is for good", _a_full_disk_is_for_good),
    Mutant("journals go with a merge that failed", _journals_go_with_a_merge_that_failed),
    Mutant("unreadable progress is none", _unreadable_is_empty),
]

# Damaged files.


def _dues_are_not_compared(patch: Patch) -> None:
    patch.setattr(ConsumeQueue, "has_dues_as_tagged", lambda self: True)


def _units_have_the_last_word(patch: Patch) -> None:
    patch.setattr(log_topic, "find_record", lambda *_: None)


def _damage_is_the_end(patch: Patch) -> None:
    patch.setattr(_Recovery, "_was_durable", lambda self, segment, position: False)


def _damaged_floors_are_none(patch: Patch) -> None:
    decode = floors.decode_floors
    patch.setattr(progress_recovery, "decode_floors", lambda data, path: decode(data) or floors.Floors(0, {}))


def _damaged_index_segments_are_empty(patch: Patch) -> None:
    decode = queue_index.decode_index
    empty = queue_index.IndexContent({}, {}, {})
    patch.setattr(progress_recovery, "decode_index", lambda data, channel, index: decode(data, channel, index) or empty)


def _journals_end_where_they_end(patch: Patch) -> None:
    patch.setattr(progress_recovery, "_damage_of", lambda content, known, size: "")


def _damaged_leases_are_none(patch: Patch) -> None:
    open_leases = Leases.open

    def silent(self: Leases, topic_numbers: Any) -> str:
        open_leases(self, topic_numbers)
        return ""

    patch.setattr(Leases, "open", silent)


# Each with the end of the names of files at which it is noticed.
DAMAGE_MUTANTS = [
    (Mutant("due times are not compared", _dues_are_not_compared), "/deferred"),
    (Mutant("units have the last word", _units_have_the_last_word), ".queue"),
    (Mutant("damage is the end", _damage_is_the_end), ".log"),
    (Mutant("damaged floors are none", _damaged_floors_are_none), "/floors"),
    (Mutant("damaged index segments are empty", _damaged_index_segments_are_empty), ".index"),
    (Mutant("journals end where they end", _journals_end_where_they_end), ".journal"),
    (Mutant("damaged leases are none", _damaged_leases_are_none), "/holds.json"),
]
