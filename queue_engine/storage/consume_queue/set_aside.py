"""Sets an unreadable segment of the log aside, after reporting the messages that this loses.

    --set-aside-segment NAME            reports the loss, and changes nothing
    --set-aside-segment NAME:COUNT      sets it aside, when COUNT is the reported number of messages

The file is renamed to NAME.aside, so that an operator can examine it, or put it back once it can be read. The consume
queues have the lost messages up to the last checkpoint; the number of those published later is unknown.
"""

import logging
import os
from collections.abc import Mapping
from dataclasses import dataclass

from queue_engine.storage.commit_log.checkpoint import Checkpoint, read_checkpoint
from queue_engine.storage.consume_queue.consume_queue import ConsumeQueue
from queue_engine.storage.consume_queue.queue_files import QueueFiles
from queue_engine.storage.disk.files import Files
from queue_engine.vocabulary.errors import StorageError

logger = logging.getLogger(__name__)

SUFFIX = ".aside"
_SEGMENT_SUFFIX = ".log"


@dataclass(frozen=True, slots=True)
class SegmentLoss:
    """One topic's share of a segment: `count` messages with offsets from `first` up to `end`."""

    topic: str
    first: int
    end: int
    count: int

    def sentence(self) -> str:
        return f"{self.topic}: {self.count} messages, offsets {self.first} to {self.end - 1}"


def set_aside(directory: str, files: Files, wanted: str, names: Mapping[int, str]) -> None:
    """Act on the option. directory: of the log. names: of its topics, by number.

    Raises StorageError: with the report when the number of messages is not given or is another; or when there is no
    such segment, or it can't be renamed. Then nothing was changed.
    """
    name, _, confirmed = wanted.partition(":")
    segments = os.path.join(directory, "segments")
    try:
        present = [one for one in files.listdir(segments) if one.endswith((_SEGMENT_SUFFIX, SUFFIX))]
    except OSError as exc:
        raise StorageError(f"{segments} can't be read: {exc}") from exc
    if name not in present or not name.endswith(_SEGMENT_SUFFIX):
        if name + SUFFIX in present:
            logger.warning("segment %s is set aside already: start without --set-aside-segment", name)
            return
        raise StorageError(f"--set-aside-segment {name}: {segments} has no such file; there is {_some(present)}")
    losses, unknown = _losses(directory, files, name, present, names)
    count = sum(loss.count for loss in losses)
    report = "; ".join([*(loss.sentence() for loss in losses), *unknown]) or "no message that a consume queue lists"
    path = os.path.join(segments, name)
    if confirmed != str(count):
        mismatch = f"{confirmed} is not the number of messages; " if confirmed else ""
        raise StorageError(
            f"{mismatch}without {path} these are lost: {report}. Nothing was changed. To lose them and start, give "
            f"--set-aside-segment {name}:{count}; the file is then renamed to {name}{SUFFIX}"
        )
    try:
        files.rename(path, path + SUFFIX)
        files.sync_directory(segments)
    except OSError as exc:
        raise StorageError(f"{path} can't be set aside: {exc}") from exc
    logger.warning("segment set aside as %s%s; lost: %s", path, SUFFIX, report)


def _losses(
    directory: str, files: Files, name: str, present: list[str], names: Mapping[int, str]
) -> tuple[list[SegmentLoss], list[str]]:
    """The messages of a segment by topic, and sentences on those that can't be counted."""
    position = _position_of(name)
    behind = [_position_of(one) for one in present if one.endswith(_SEGMENT_SUFFIX) and _position_of(one) > position]
    end = min(behind, default=1 << 62)
    checkpoint = _checkpoint(directory, files)
    if checkpoint is None:
        return [], ["its messages are unknown, since there is no checkpoint"]
    losses: list[SegmentLoss] = []
    unknown: list[str] = []
    queue_files = QueueFiles(files)
    try:
        for number, state in sorted(checkpoint.queues.items()):
            if number not in names:
                continue
            queue_directory = os.path.join(directory, "queues", str(number))
            queue = ConsumeQueue(
                queue_directory,
                queue_files,
                oldest_offset=state.oldest_offset,
                end_offset=state.end_offset,
                gaps=state.gaps,
                is_old=queue_files.has_old(queue_directory),  # as a start left it that stopped
            )
            try:
                if (missing := queue.first_missing()) is not None:
                    raise StorageError(f"its consume queue ends at offset {missing}")
                first, last = queue.first_offset_at(position), queue.first_offset_at(end)
            except StorageError as exc:
                unknown.append(f"{names[number]}: the number of messages is unknown, since {exc}")
                continue
            if count := queue.count_between(first, last):
                losses.append(SegmentLoss(names[number], first, last, count))
    finally:
        queue_files.close()
    if end > checkpoint.position:
        unknown.append("messages published behind the last checkpoint, which can't be counted")
    return losses, unknown


def _checkpoint(directory: str, files: Files) -> Checkpoint | None:
    try:
        return read_checkpoint(files, directory)
    except OSError:
        return None


def _position_of(name: str) -> int:
    stem = name.partition(".")[0]
    return int(stem) if stem.isascii() and stem.isdigit() else -1


def _some(names: list[str]) -> str:
    listed = sorted(one for one in names if one.endswith(_SEGMENT_SUFFIX))
    return ", ".join(listed[:5]) + (f" and {len(listed) - 5} more" if len(listed) > 5 else "") if listed else "none"
