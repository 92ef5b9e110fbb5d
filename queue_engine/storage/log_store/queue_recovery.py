"""Consume queues at a start: from the checkpoint where log and files confirm it, otherwise rebuilt from the log.

Reading the log also finds the batch keys of its records.
"""

import logging
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from queue_engine.storage.commit_log.checkpoint import CHECKPOINT_NAME, Checkpoint, QueueState, read_checkpoint
from queue_engine.storage.commit_log.log_recovery import RecoveredLog, recover_log
from queue_engine.storage.commit_log.missing_ranges import missing_ranges
from queue_engine.storage.commit_log.record import HAS_BATCH_KEY, RecordHeader, RecordLostError
from queue_engine.storage.consume_queue.consume_queue import ConsumeQueue
from queue_engine.storage.consume_queue.losses import LogLosses, OffsetJump
from queue_engine.storage.log_store.batch_keys import UNKNOWN_DIGEST, KeyedRecord, digest_of
from queue_engine.storage.log_store.log_files import LogFiles
from queue_engine.storage.recovery_report import Damage
from queue_engine.vocabulary.errors import NewerFormatError, SegmentUnreadableError, StorageError
from queue_engine.vocabulary.start_progress import StartProgress

logger = logging.getLogger(__name__)

# How often the progress of reading the log is noted.
_PROGRESS_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class RecoveredQueues:
    """The result of a start. queues: by topic number. unknown_records: how many are of deleted topics. checkpointed:
    numbers of the topics that the checkpoint on the disk named."""

    queues: dict[int, ConsumeQueue]
    log: RecoveredLog
    unknown_records: int
    checkpointed: frozenset[int]


class QueueRecovery:
    """Makes the consume queues of one log's topics, once. start: where it is meanwhile."""

    def __init__(self, log_files: LogFiles, start: StartProgress) -> None:
        self._start = start
        self._log_directory = log_files.directory
        self._directory = log_files.queues_directory
        self._files = log_files.files
        self._segments = log_files.segments
        self._holes = log_files.holes
        self._batch_keys = log_files.batch_keys
        self._queue_files = log_files.queue_files
        self._directory_of = log_files.queue_directory
        self._new_queue = log_files.new_queue

    def run(self, names: Mapping[int, str], damaged_holes: str) -> RecoveredQueues:
        """Read the files and repair them. names: of all topics that exist, by number. damaged_holes: the path of the
        file of holes when it was damaged and is set aside, else "".

        Raises StorageError or OSError.
        """
        queues: dict[int, ConsumeQueue] = {}
        counts = {"unknown": 0}
        jumps: list[OffsetJump] = []
        last_positions: dict[int, int] = {}
        listed = self._segments.list
        began_at, ends_at, tell_at = 0, listed[-1].next_position if listed else 0, 0

        def on_record(header: RecordHeader, position: int, dues_ns: Sequence[int] | None) -> None:
            nonlocal tell_at
            if position >= tell_at:
                tell_at = position + _PROGRESS_BYTES
                self._start.at("reading the log", position - began_at, ends_at - began_at)
            number = header.topic_number
            if number not in names:
                counts["unknown"] += 1  # of a deleted topic
                return
            queue = queues.get(number)
            if queue is None:
                queue = queues[number] = self._new_queue(number, header.first_offset)
            if header.first_offset > queue.end_offset and number in last_positions:
                before = last_positions[number]
                jumps.append(OffsetJump(number, queue.end_offset, header.first_offset, before, position))
            last_positions[number] = position
            queue.append(header.first_offset, header.count, position, header.size, dues_ns)
            if header.flags & HAS_BATCH_KEY:
                self._recover_key(header, position)

        try:
            found = read_checkpoint(self._files, self._log_directory)
        except OSError as exc:
            logger.warning("the log is read from its beginning, since the checkpoint can't be read: %s", exc)
            found = None
        wanting = self._batch_keys.open(names, is_expected=found is not None and found.has_batch_keys)
        checkpoint: Checkpoint | None = None
        old_queues: dict[int, ConsumeQueue] = {}
        if found is not None and not wanting:
            try:
                is_trusted = self._is_trusted(found, names, queues)
            except NewerFormatError:
                raise
            except (StorageError, OSError) as exc:
                # A derived file: all of them are rebuilt.
                logger.warning("consume queues are rebuilt from the log, since they can't be read: %s", exc)
                is_trusted = False
            checkpoint = found if is_trusted else None
        if checkpoint is None:
            # Rebuild them from the log. Their old units name the messages that the log has lost.
            queues.clear()
            self._queue_files.close()
            if found is not None:
                old_queues = self._keep_old_units(found, names)
            else:
                self._queue_files.remove_tree(self._directory)
        began_at = checkpoint.position if checkpoint is not None else listed[0].position if listed else 0
        recovered = recover_log(
            self._segments,
            files=self._files,
            from_position=checkpoint.position if checkpoint is not None else 0,
            # This much of the log was synced, also where the consume queues are damaged.
            durable_upto=found.durable_upto if found is not None else 0,
            on_record=on_record,
            is_dead=lambda header: header.topic_number not in names,
            hole_end_at=self._holes.end_at,
            first_position=found.first_position if found is not None else None,
        )
        losses = LogLosses(old_queues, found.position if old_queues and found is not None else 0, jumps, self._segments)
        recovered.damages[:] = losses.with_messages(recovered.damages, names)
        ends = {number: self._end_of_removed(queue) for number, queue in old_queues.items() if number not in queues}
        if damaged_holes:
            recovered.damages.append(Damage(0, 0, f"{damaged_holes} is damaged", action="it is set aside"))
        if wanting:
            action = "batch keys come from its valid entries and the log's records"
            recovered.damages.append(Damage(0, 0, wanting, action=action))
        self._batch_keys.opened(wanting)
        if checkpoint is not None:
            recovered.last_time_ns = max(recovered.last_time_ns, checkpoint.last_time_ns)
        elif found is not None:
            # The loss is reported now, and its positions may be given again.
            self._remove_checkpoint()
            for number in reversed(old_queues):
                self._queue_files.remove_old(self._directory_of(number))
        for number in names:
            self._trim_to_holes(number, queues.setdefault(number, self._new_queue(number, ends.get(number, 0))))
        checkpointed = frozenset(found.queues) if found is not None else frozenset[int]()
        return RecoveredQueues(queues, recovered, counts["unknown"], checkpointed)

    def _keep_old_units(self, checkpoint: Checkpoint, names: Mapping[int, str]) -> dict[int, ConsumeQueue]:
        """Rename the files of the consume queues that a checkpoint names, of existing topics, before the rebuild.
        Raises OSError."""
        old_queues: dict[int, ConsumeQueue] = {}
        for number, state in checkpoint.queues.items():
            if number in names:
                self._queue_files.rename_to_old(self._directory_of(number))
                old_queues[number] = self._queue_of(number, state, is_old=True)
        self._queue_files.remove_tree(self._directory, keep=frozenset(map(str, old_queues)))
        return old_queues

    def _end_of_removed(self, queue: ConsumeQueue) -> int:
        """Where a topic ends that has no record in the log: where it ended, if its records were removed and not lost.
        They lay before the log, and no reader needed them; readers that have read them all go on from there."""
        listed = self._segments.list
        try:
            last = queue.last_unit()
        except StorageError:
            return 0
        return queue.end_offset if last is None or (listed and last[1] < listed[0].position) else 0

    def _remove_checkpoint(self) -> None:
        """Remove the checkpoint durably. Raises OSError."""
        self._files.unlink(os.path.join(self._log_directory, CHECKPOINT_NAME))
        self._files.sync_directory(self._log_directory)

    def _queue_of(self, number: int, state: QueueState, *, is_old: bool = False) -> ConsumeQueue:
        return ConsumeQueue(
            self._directory_of(number),
            self._queue_files,
            oldest_offset=state.oldest_offset,
            end_offset=state.end_offset,
            gaps=state.gaps,
            is_old=is_old,
        )

    def _recover_key(self, header: RecordHeader, position: int) -> None:
        """Note the batch key of a record that was read. Raises StorageError."""
        keyed = KeyedRecord(
            header.topic_number,
            header.batch_key,
            header.first_offset,
            header.count,
            header.time_ns,
            position,
            header.size,
        )
        if self._batch_keys.has(keyed):
            return
        digest = UNKNOWN_DIGEST
        try:
            record = self._segments.read_record(position, header.size)
        except RecordLostError:
            pass
        else:
            if record.is_content_whole:
                digest = digest_of([record.body_at(index) for index in range(header.count)], record.keys())
        self._batch_keys.put(keyed, digest)

    def _is_trusted(self, checkpoint: Checkpoint, names: Mapping[int, str], queues: dict[int, ConsumeQueue]) -> bool:
        """Whether the checkpoint agrees with the log and the files; puts its queues into `queues`.

        Raises StorageError or OSError when something can't be read."""
        listed = self._segments.list
        if not listed or checkpoint.position > listed[-1].next_position:
            return False
        used = (number for number, one in checkpoint.queues.items() if one.oldest_offset < one.end_offset)
        first = next((number for number in used if number in names), None)
        if first is not None and self._queue_files.has_old(self._directory_of(first)):
            # A start was rebuilding all of them: it renames the first one first, and removes its old files last.
            return False
        for place, (number, state) in enumerate(checkpoint.queues.items()):
            if number not in names:
                continue
            self._start.at(f"consume queue of topic {names[number]}", place, len(checkpoint.queues))
            queue = queues[number] = self._queue_of(number, state)
            if queue.first_missing() is not None:
                return False
            self._trim_to_holes(number, queue)
            # Its units state where to cut it: so the last one must be right before the cut, too.
            is_good = self._agrees(number, queue) and queue.has_dues_as_tagged()
            is_cut = is_good and queue.cut_at(checkpoint.position, partial(self._confirms, number))
            if not is_cut or not self._agrees(number, queue):
                logger.warning("consume queue disagrees with the log topic=%s", names[number])
                return False
        try:
            missing = list(missing_ranges(self._segments, checkpoint, self._files))
        except SegmentUnreadableError as exc:
            # Reading the whole log would end at the same place.
            logger.warning("lost messages of the log are not searched for, since %s", exc)
            missing = []
        for start, end in missing:
            for number, queue in queues.items():
                if queue.first_offset_at(start) < queue.first_offset_at(end):
                    logger.warning("the log lacks messages topic=%s from=%d to=%d", names[number], start, end)
                    return False
        self._queue_files.remove_tree(self._directory, keep=frozenset(map(str, queues)))
        return True

    def _trim_to_holes(self, number: int, queue: ConsumeQueue) -> None:
        """Forget the messages that were in holes, also where a file still has their units. Raises OSError."""
        queue.trim(min(self._holes.oldest.get(number, 0), queue.end_offset))

    def _agrees(self, number: int, queue: ConsumeQueue) -> bool:
        """Whether the log confirms the first and the last unit."""
        last = queue.last_unit()
        first = queue.next_present(queue.oldest_offset)
        if last is None or first is None:
            return queue.end_offset == queue.oldest_offset
        return all(
            place is not None and self._confirms(number, offset, place)
            for offset, place in ((first, queue.locate(first)), (last[0], last[1:]))
        )

    def _confirms(self, number: int, offset: int, place: tuple[int, int]) -> bool:
        """Whether the log has a topic's message at a place; True where the log can't be read there: a rebuilt queue
        would lack these units."""
        try:
            header = self._segments.read_record(*place).header
        except RecordLostError:
            return False
        except StorageError as exc:
            if self._segments.segment_of(place[0]) is None:
                return False
            logger.warning("consume queue not checked against the log topic=%d offset=%d: %s", number, offset, exc)
            return True
        return header.topic_number == number and header.first_offset <= offset < header.end_offset
