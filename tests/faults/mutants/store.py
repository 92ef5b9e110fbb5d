"""Faults made on purpose above the log: each breaks a rule of progress, of due times or of space."""

from collections.abc import Collection
from dataclasses import replace
from typing import Any

from queue_engine.engine.messages.log_messages import LogMessages
from queue_engine.storage.commit_log.holes import Holes
from queue_engine.storage.consume_queue.consume_queue import ConsumeQueue
from queue_engine.storage.consume_queue.queue_files import QueueFiles
from queue_engine.storage.log_store import channel_places, checkpointer
from queue_engine.storage.log_store.checkpointer import Checkpointer
from queue_engine.storage.log_store.hole_punching import HolePuncher
from queue_engine.storage.log_store.log_backlog import LogBacklog
from queue_engine.storage.log_store.log_topic_store import LogTopicStore
from queue_engine.storage.log_store.offset_lines import DueOffsets, OffsetLine
from queue_engine.storage.log_store.queue_recovery import QueueRecovery
from queue_engine.storage.progress import journal as progress_journal
from queue_engine.storage.progress import merge, progress_recovery
from queue_engine.storage.progress.channel_progress import ChannelProgress
from queue_engine.storage.progress.journal import ProgressJournal
from queue_engine.storage.progress.journal_entries import JournalEntries
from queue_engine.storage.progress.merge import ProgressMerge
from queue_engine.storage.readers.leases import Leases
from tests.faults.mutants.log import Mutant, Patch, _nothing


def _delivery_noted_too_late(patch: Patch) -> None:
    sent = LogBacklog.sent

    def late(self: LogBacklog, run: Any) -> None:
        flush = ProgressJournal.flush
        ProgressJournal.flush = _nothing
        try:
            sent(self, run)
        finally:
            ProgressJournal.flush = flush

    patch.setattr(LogBacklog, "sent", late)


def _settled_before_it_is_known(patch: Patch) -> None:
    sent = LogBacklog.sent

    def eager(self: LogBacklog, run: Any) -> None:
        sent(self, run)
        self._journaled.journal.entries.ack(self.number, *self._first_range(run))

    patch.setattr(
        LogBacklog, "_first_range", lambda self, run: (int(run.ids[0], 16) - self._topic.id_base, 1), raising=False
    )
    patch.setattr(LogBacklog, "sent", eager)


def _merge_without_segments(patch: Patch) -> None:
    patch.setattr(ProgressMerge, "_write_segments", _nothing)


def _segments_before_floors(patch: Patch) -> None:
    patch.setattr(ProgressMerge, "_write_floors_first", _nothing)


def _leases_are_ignored(patch: Patch) -> None:
    patch.setattr(LogTopicStore, "needed_offset", property(_without_leases))


def _without_leases(self: LogTopicStore) -> int:
    return min([self.released, *(channel.needed_offset for channel in self._channels.values())])


def _leases_said_too_early(patch: Patch) -> None:
    take = Leases.take

    def early(self: Leases, name: str, topic_number: int, offset: int, ttl_ms: int) -> Any:
        lease, _ = take(self, name, topic_number, offset, ttl_ms)
        return lease, progress_journal.DONE

    patch.setattr(Leases, "take", early)


def _only_the_newest_journal_replayed(patch: Patch) -> None:
    journals = progress_recovery._journals
    patch.setattr(progress_recovery, "_journals", lambda directory, files: journals(directory, files)[-1:])


def _no_floor(patch: Patch) -> None:
    raise_floor = ChannelProgress._raise_floor
    patch.setattr(ChannelProgress, "_raise_floor", lambda self, floor: raise_floor(self, max(floor - 1, self.floor)))


def _due_times_forgotten(patch: Patch) -> None:
    patch.setattr(LogTopicStore, "deferred_between", lambda self, first, end: [])


def _segments_go_too_early(patch: Patch) -> None:
    patch.setattr(LogTopicStore, "needed_position", lambda self, end: end)
    patch.setattr(LogTopicStore, "needs_nothing_before", lambda self, position: True)  # it would notice by the log
    patch.setattr(LogTopicStore, "forget_before", _nothing)


def _tickets_of_progress_done_at_once(patch: Patch) -> None:
    def synced(self: ProgressJournal) -> Any:
        self.flush()
        return progress_journal.DONE

    patch.setattr(ProgressJournal, "synced", synced)


def _visible_before_the_log_says_so(patch: Patch) -> None:
    append = LogTopicStore._append

    def hasty(self: LogTopicStore, batch: Any, **how: Any) -> Any:
        appended = append(self, batch, **how)
        self._pending.became_visible(self._log.end)
        return appended

    patch.setattr(LogTopicStore, "_append", hasty)


def _checkpoint_beyond_what_is_written(patch: Patch) -> None:
    compose = Checkpointer._compose
    patch.setattr(Checkpointer, "_compose", lambda self: replace(compose(self), position=self._log.synced_end))
    patch.setattr(checkpointer, "FLUSHES_MAX", 0)


def _checkpoint_beyond_what_is_synced(patch: Patch) -> None:
    compose = Checkpointer._compose
    patch.setattr(Checkpointer, "_compose", lambda self: replace(compose(self), position=self._log.visible_end))


def _queues_not_synced_before_the_checkpoint(patch: Patch) -> None:
    patch.setattr(QueueFiles, "sync", _nothing)


def _queues_not_cut_at_the_checkpoint(patch: Patch) -> None:
    patch.setattr(ConsumeQueue, "cut_at", lambda self, position, confirms: True)
    patch.setattr(QueueRecovery, "_agrees", lambda self, number, queue: True)


def _holes_over_what_is_needed(patch: Patch) -> None:
    holes_of = HolePuncher._holes_of
    patch.setattr(HolePuncher, "_holes_of", lambda self, segment, topics: holes_of(self, segment, topics[:-1]))


def _holes_not_named(patch: Patch) -> None:
    patch.setattr(Holes, "open", lambda self: "")


def _quarantine_not_noted(patch: Patch) -> None:
    patch.setattr(JournalEntries, "quarantine", _nothing)


def _redrive_not_noted(patch: Patch) -> None:
    patch.setattr(JournalEntries, "redrive", _nothing)


def _quarantined_wait_after_a_start(patch: Patch) -> None:
    patch.setattr(channel_places, "without", lambda ranges, left_out: list(ranges))


def _finished_by_hand_without_the_journal(patch: Patch) -> None:
    finish = LogMessages.finish

    def forgetful(self: LogMessages, offsets: Any) -> None:
        ack = JournalEntries.ack
        JournalEntries.ack = _nothing
        try:
            finish(self, offsets)
        finally:
            JournalEntries.ack = ack

    patch.setattr(LogMessages, "finish", forgetful)


def _finished_by_hand_and_still_in_line(patch: Patch) -> None:
    patch.setattr(OffsetLine, "remove", lambda self, wanted: [])


def _finished_by_hand_and_still_deferred(patch: Patch) -> None:
    patch.setattr(DueOffsets, "withdraw", _nothing)


def _merged_without_the_quarantined(patch: Patch) -> None:
    made = merge.index_contents

    def without(progress: ChannelProgress, indexes: Collection[int]) -> Any:
        return {index: replace(one, quarantined={}) for index, one in made(progress, indexes).items()}

    patch.setattr(merge, "index_contents", without)


STORE_MUTANTS = [
    Mutant("holes over what is needed", _holes_over_what_is_needed),
    Mutant("holes that a start does not know", _holes_not_named),
    Mutant("a checkpoint beyond what queues have", _checkpoint_beyond_what_is_written),
    Mutant("a checkpoint beyond what is synced", _checkpoint_beyond_what_is_synced),
    Mutant("queues not synced before a checkpoint", _queues_not_synced_before_the_checkpoint),
    Mutant("queues not cut at the checkpoint", _queues_not_cut_at_the_checkpoint),
    Mutant("a delivery is noted too late", _delivery_noted_too_late),
    Mutant("settled before a consumer said so", _settled_before_it_is_known),
    Mutant("merged without segments", _merge_without_segments),
    Mutant("segments before floors", _segments_before_floors),
    Mutant("leases are ignored", _leases_are_ignored),
    Mutant("a lease is said to be durable at once", _leases_said_too_early),
    Mutant("only the newest journal is replayed", _only_the_newest_journal_replayed),
    Mutant("a floor one too low", _no_floor),
    Mutant("due times are forgotten", _due_times_forgotten),
    Mutant("segments go too early", _segments_go_too_early),
    Mutant("progress is said to be synced at once", _tickets_of_progress_done_at_once),
    Mutant("visible before the log says so", _visible_before_the_log_says_so),
    Mutant("finished by hand, and not noted", _finished_by_hand_without_the_journal),
    Mutant("finished by hand, and still in line", _finished_by_hand_and_still_in_line),
    Mutant("finished by hand, and still deferred", _finished_by_hand_and_still_deferred),
    Mutant("a quarantine is not noted", _quarantine_not_noted),
    Mutant("a redrive is not noted", _redrive_not_noted),
    Mutant("quarantined messages wait after a start", _quarantined_wait_after_a_start),
    Mutant("merged without the quarantined", _merged_without_the_quarantined),
]
