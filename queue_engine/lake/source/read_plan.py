"""Plans a read in three steps: ranges, parts, tasks.

1. Ranges: for each topic the first and last offset, by options and pushed filters.
2. Parts: one for each leased segment file, for all topics that have messages in it, so that a file is read once; and
   parts over HTTP for messages that are in no complete segment yet, or must not be read from files.
3. Tasks: each has several small parts, since a task costs Spark as much as reading some megabytes.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field

from queue_engine.client.log_api.log_client import LogClient
from queue_engine.lake.source.read_options import HTTP, REPORT, ReadOptions
from queue_engine.lake.source.wanted_range import WantedRange, wanted_range
from queue_engine.vocabulary.errors import (
    EngineRefusedError,
    OffsetBeyondEndError,
    OffsetGoneError,
    TopicReplacedError,
)
from queue_engine.wire.lease import LeasedFiles, SegmentFile
from queue_engine.wire.topic_state import TopicState

logger = logging.getLogger(__name__)

# A part renews its lease while it is read; before that it may wait this long.
LEASE_TTL_MS = 600_000
_SAMPLE_BYTES = 64 << 10
_PARTS_MAX = 4_096
# Small reads are split among processors, too, unless a task would cost more than its reading.
_TASKS_MIN = 8
_TASK_BYTES_MIN = 4 << 20


@dataclass(frozen=True, slots=True)
class Bounds:
    """The selection of filters: offsets from first_offset up to but not including next_offset, times (Unix ms)
    likewise; None for no limit. topics: the names to read; None for all."""

    first_offset: int = 0
    next_offset: int | None = None
    start_time_ms: int | None = None
    end_time_ms: int | None = None
    topics: frozenset[str] | None = None


@dataclass(frozen=True, slots=True)
class LeasedRange:
    """A range within a file. lease: the lease that retains the file. first_byte: where the range should begin."""

    wanted: WantedRange
    lease: str
    first_byte: int


@dataclass(frozen=True, slots=True)
class SegmentPart:
    """One segment file to read. position, salt: its header has to have these. end_byte: behind the last record of the
    ranges."""

    path: str
    position: int
    salt: int
    end_byte: int
    ranges: tuple[LeasedRange, ...]

    @property
    def bytes(self) -> int:
        """The bytes of the file that a task reads."""
        return self.end_byte - min(one.first_byte for one in self.ranges)


@dataclass(frozen=True, slots=True)
class HttpPart:
    """A range to read over HTTP. lease: the name of the lease that retains it; "" where the engine gives none. bytes:
    its approximate size in the log."""

    wanted: WantedRange
    lease: str
    bytes: int


Part = SegmentPart | HttpPart


@dataclass(slots=True)
class ReadPlan:
    """parts: files by their place in the log, then parts over HTTP. leases: the names of their leases, to be released
    or left to expire."""

    parts: list[Part] = field(default_factory=list)
    leases: list[str] = field(default_factory=list)


def tasks_of(parts: Sequence[Part], partition_bytes: int) -> list[list[Part]]:
    """The parts in their order, about `partition_bytes` for each task, less when the whole read is small."""
    size = min(partition_bytes, max(sum(part.bytes for part in parts) // _TASKS_MIN, _TASK_BYTES_MIN))
    tasks: list[list[Part]] = []
    filled = 0
    for part in parts:
        # The part goes to the task whose size comes nearer to the aim.
        if not tasks or filled + part.bytes // 2 >= size:
            tasks.append([])
            filled = 0
        tasks[-1].append(part)
        filled += part.bytes
    return tasks


def plan_ranges(client: LogClient, options: ReadOptions, bounds: Bounds) -> list[WantedRange]:
    """The synced messages to read of each topic; topics without any are left out.

    Raises OffsetBeyondEndError, OffsetGoneError and the errors of LogClient.topic.
    """
    ranges = []
    for topic in options.topics:
        if bounds.topics is None or topic in bounds.topics:
            state = client.topic(topic)
            first = first_offset(client, state, options, bounds)
            ends = [state.synced_offset, options.end_offset, bounds.next_offset]
            for time_ms in (options.end_time_ms, bounds.end_time_ms):
                if time_ms is not None:
                    ends.append(_offset_at(client, state, time_ms))
            after = min(end for end in ends if end is not None)
            if first < after:
                ranges.append(wanted_range(state, first, after))
    return ranges


def first_offset(client: LogClient, state: TopicState, options: ReadOptions, bounds: Bounds) -> int:
    """The offset at which reading a topic begins. Raises as `plan_ranges`."""
    _check_offsets(client.url, state, options)
    first = max(state.oldest_offset, options.start_offset or 0, bounds.first_offset)
    for time_ms in (options.start_time_ms, bounds.start_time_ms):
        if time_ms is not None:
            first = max(first, _offset_at(client, state, time_ms))
    return first


def _check_offsets(url: str, state: TopicState, options: ReadOptions) -> None:
    place = f"{state.topic} at {url}"
    for name, offset in (("start_offset", options.start_offset), ("end_offset", options.end_offset)):
        if offset is not None and offset > state.synced_offset:
            raise OffsetBeyondEndError(f"{name} {offset} of {place} is beyond the synced offset, {state.synced_offset}")
    start = options.start_offset
    if start is not None and start < state.oldest_offset:
        text = f"start_offset {start} of {place} is gone: the oldest is {state.oldest_offset}"
        if options.on_gap != REPORT:
            raise OffsetGoneError(f"{text}; on_gap=report reads the others")
        logger.warning("%s", text)


def _offset_at(client: LogClient, state: TopicState, time_ms: int) -> int:
    then = client.topic(state.topic, time_ms=time_ms)
    _check_identity(client.url, state.topic, (state.number, state.id_base), (then.number, then.id_base))
    assert then.time_offset is not None
    return then.time_offset


def _check_identity(url: str, topic: str, wanted: tuple[int, int], found: tuple[int, int]) -> None:
    if wanted != found:
        raise TopicReplacedError(
            f"{topic} at {url} is number {found[0]}, id base {found[1]}, and was {wanted[0]}, {wanted[1]}:"
            " it was deleted and created again"
        )


def plan_parts(client: LogClient, options: ReadOptions, ranges: Sequence[WantedRange]) -> ReadPlan:
    """The parts of `ranges`, with leases that keep them until they are read.

    Raises TopicReplacedError, OffsetGoneError when messages were removed meanwhile, and the errors of LogClient.lease.
    """
    plan = ReadPlan()
    files: dict[tuple[str, int, int], list[tuple[SegmentFile, LeasedRange]]] = {}
    tails: list[tuple[WantedRange, str]] = []
    for wanted in ranges:
        if not wanted.count:
            continue
        lease = _lease(client, wanted, 0 if options.read_from == HTTP else 1_000)
        name = "" if lease is None else lease.lease
        if name:
            plan.leases.append(name)
        at = wanted.first_offset
        for segment in () if lease is None else lease.segments:
            if segment.first_offset >= wanted.next_offset:
                break
            after = min(segment.next_offset, wanted.next_offset)
            one = LeasedRange(wanted.cut(at, after), name, segment.first_byte)
            files.setdefault((segment.path, segment.position, segment.salt), []).append((segment, one))
            at = after
        if wanted.count_from(at):
            tails.append((wanted.cut(at, wanted.next_offset), name))
    for (path, position, salt), found in sorted(files.items(), key=lambda item: item[0][1]):
        end = max(segment.end_byte for segment, _ in found)
        plan.parts.append(SegmentPart(path, position, salt, end, tuple(one for _, one in found)))
    for tail, name in tails:
        plan.parts += _in_parts(client, tail, name, options.partition_bytes)
    return plan


def _lease(client: LogClient, wanted: WantedRange, segments: int) -> LeasedFiles | None:
    """None for a topic that the engine does not lease: the samples."""
    try:
        lease = client.lease(wanted.topic, wanted.first_offset, ttl_ms=LEASE_TTL_MS, segments=segments)
    except EngineRefusedError as exc:
        if exc.code != "INVALID_TOPIC":
            raise
        return None
    found = (lease.number, lease.id_base)
    _check_identity(client.url, wanted.topic, (wanted.number, wanted.id_base), found)
    return lease


def _in_parts(client: LogClient, wanted: WantedRange, lease: str, part_bytes: int) -> list[HttpPart]:
    """A range cut into parts by the size of its first messages."""
    messages, count = wanted.messages, wanted.count
    page = client.records(wanted.topic, wanted.next_message(wanted.first_offset), max_bytes=_SAMPLE_BYTES)
    rows, page_bytes = max(count - wanted.count_from(page.next_offset), 1), max(len(page.data), 1)
    step = max(rows * part_bytes // page_bytes, -(-count // _PARTS_MAX), 1)
    parts = []
    at = wanted.first_offset
    while left := wanted.count_from(at):
        after = messages.offset_behind(at, step)
        parts.append(HttpPart(wanted.cut(at, after), lease, min(step, left) * page_bytes // rows))
        at = after
    return parts
