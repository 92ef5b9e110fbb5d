"""Faults that were made on purpose: each breaks one rule of the log, and the crash states must notice."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from queue_engine.storage.commit_log import commit_log, log_recovery, open_segment, preallocation, record, refusal
from queue_engine.storage.commit_log import group as log_group
from queue_engine.storage.commit_log.commit_log import CommitLog
from queue_engine.storage.commit_log.open_segment import OpenSegment
from queue_engine.storage.commit_log.record import KIND_SEAL
from queue_engine.storage.commit_log.segment import LogSegments
from queue_engine.storage.disk.files import Files

Patch = pytest.MonkeyPatch


@dataclass(frozen=True)
class Mutant:
    name: str
    apply: Callable[[Patch], None]


def _nothing(*_: Any, **__: Any) -> None:
    """Instead of something."""


def _acknowledge_what_is_written(patch: Patch) -> None:
    patch.setattr(OpenSegment, "sync", _nothing)


def _acknowledge_what_gathers(patch: Patch) -> None:
    commit = CommitLog.commit

    def early(log: CommitLog) -> None:
        if log.error is None and not log.is_full:
            log._listener.became_visible(log.end)
        commit(log)

    patch.setattr(CommitLog, "commit", early)


def _no_directory_sync(patch: Patch) -> None:
    create = LogSegments.create

    def forgetful(self: LogSegments, position: int, segment_bytes: int, created_ns: int) -> Any:
        sync_directory = self.files.sync_directory
        self.files.sync_directory = _nothing
        try:
            return create(self, position, segment_bytes, created_ns)
        finally:
            self.files.sync_directory = sync_directory

    patch.setattr(LogSegments, "create", forgetful)


def _no_checksum_of_messages(patch: Patch) -> None:
    def holds(self: Any, one: Any, position: int, header: Any) -> bool:
        return len(self._bytes_at(one, position, header.size)) == header.size

    patch.setattr(log_recovery._Recovery, "_holds", holds)


def _failed_sync_tried_again(patch: Patch) -> None:
    for module in (commit_log, log_group, open_segment, refusal, preallocation):
        patch.setattr(module, "is_passing", lambda error: True)
    sync = OpenSegment.sync

    def again(self: OpenSegment) -> None:
        try:
            sync(self)
        except Exception:
            pass  # as a retry would: the system tells an error once

    patch.setattr(OpenSegment, "sync", again)


def _short_write_ignored(patch: Patch) -> None:
    patch.setattr(Files, "write_all", lambda self, fd, data, position: self.write_at(fd, data, position))
    patch.setattr(
        OpenSegment, "_write_at", lambda self, view, at: (self._files.write_at(self._fd, view, at), len(view))[1]
    )


def _no_seal(patch: Patch) -> None:
    patch.setattr(commit_log, "encode_seal", lambda **fields: bytes(record.SEAL_BYTES))


def _segments_go_on_without_seal(patch: Patch) -> None:
    read = log_recovery._Recovery._read_segment

    def trusting(self: Any, one: Any, position: int) -> tuple[int, bool]:
        end, is_sealed = read(self, one, position)
        return end, is_sealed or one is not self._segments.list[-1]

    patch.setattr(log_recovery._Recovery, "_read_segment", trusting)


def _torn_tail_taken_for_damage(patch: Patch) -> None:
    patch.setattr(log_recovery._Recovery, "_was_durable", lambda self, one, position: True)


def _what_follows_a_torn_record_is_kept(patch: Patch) -> None:
    patch.setattr(log_recovery._Recovery, "_was_durable", lambda self, one, position: True)
    patch.setattr(log_recovery._Recovery, "_note_damage", _nothing)


def _cut_only_in_memory(patch: Patch) -> None:
    patch.setattr(log_recovery._Recovery, "repair", _nothing)


def _accepted_is_not_synced(patch: Patch) -> None:
    patch.setattr(log_recovery._Recovery, "_sync", _nothing)


def _later_segments_stay(patch: Patch) -> None:
    def repair(self: Any) -> None:
        last = self._ends_in
        if last is not None and not self._is_sealed:
            self._zero(last)
            self._seal(last)

    patch.setattr(log_recovery._Recovery, "repair", repair)


def _seal_before_the_later_segments_go(patch: Patch) -> None:
    repair = log_recovery._Recovery.repair

    def hasty(self: Any) -> None:
        last = self._ends_in
        if last is not None and not self._is_sealed and self.found.end > last.position + 64:
            self._zero(last)
            self._seal(last)
        repair(self)

    patch.setattr(log_recovery._Recovery, "repair", hasty)


def _last_record_dropped(patch: Patch) -> None:
    header_at = log_recovery._Recovery._header_at

    def shy(self: Any, one: Any, position: int) -> Any:
        header = header_at(self, one, position)
        if header is not None and header.kind != KIND_SEAL and header_at(self, one, position + header.size) is None:
            return None
        return header

    patch.setattr(log_recovery._Recovery, "_header_at", shy)


def _offsets_not_taken_back(patch: Patch) -> None:
    from tests.faults.log_crash_states import Script

    def failed(self: Script, error: Exception) -> None:
        self.pending = []

    patch.setattr(Script, "log_failed", failed)


def _second_segment_of_a_group_not_synced(patch: Patch) -> None:
    sync = OpenSegment.sync

    def first_only(self: OpenSegment) -> None:
        if self.info.position == 0:
            sync(self)

    patch.setattr(OpenSegment, "sync", first_only)


MUTANTS = [
    Mutant("OK before the sync", _acknowledge_what_is_written),
    Mutant("OK before the write", _acknowledge_what_gathers),
    Mutant("no sync of the directory of a new segment", _no_directory_sync),
    Mutant("no checksum of messages", _no_checksum_of_messages),
    Mutant("a failed sync is tried again", _failed_sync_tried_again),
    Mutant("a short write is ignored", _short_write_ignored),
    Mutant("no seal at the end of a segment", _no_seal),
    Mutant("segments go on where there is no seal", _segments_go_on_without_seal),
    Mutant("a torn tail is taken for damage", _torn_tail_taken_for_damage),
    Mutant("what follows a torn record is kept", _what_follows_a_torn_record_is_kept),
    Mutant("cut only in memory", _cut_only_in_memory),
    Mutant("what recovery accepted is not synced", _accepted_is_not_synced),
    Mutant("segments behind the cut stay", _later_segments_stay),
    Mutant("sealed before the segments behind the cut are gone", _seal_before_the_later_segments_go),
    Mutant("the last record is dropped", _last_record_dropped),
    Mutant("offsets of what failed are not taken back", _offsets_not_taken_back),
    Mutant("only the first segment is synced", _second_segment_of_a_group_not_synced),
]
