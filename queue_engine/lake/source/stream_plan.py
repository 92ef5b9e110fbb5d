"""Plans a stream: its offsets, and the range of its next micro-batch.

Spark writes a stream's offset to its checkpoint. It is

    {"<topic>/<number>/<id base>": next offset, …}

with one entry for each topic. Number and id base are the topic's identity. A topic that was deleted, created again or
not, stops the stream, which may not have read all of it. With on_gap=report the stream goes on: a topic created again
is a series of its own, from its oldest offset. The offset where a series begins is in the checkpoint before any of its
messages is read, so that a batch that runs again is the same batch.
"""

import logging
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from types import MappingProxyType

from queue_engine.client.log_api.log_client import LogClient
from queue_engine.lake.source.read_options import REPORT, ReadOptions
from queue_engine.lake.source.read_plan import Bounds, first_offset
from queue_engine.lake.source.record_columns import GONE, REPLACED, MissingRange
from queue_engine.lake.source.wanted_range import WantedRange, synced_messages, wanted_range
from queue_engine.vocabulary.errors import OffsetBeyondEndError, OffsetGoneError, TopicMissingError, TopicReplacedError
from queue_engine.wire.topic_state import TopicState

logger = logging.getLogger(__name__)

Offsets = dict[str, int]


@dataclass(frozen=True, slots=True)
class Series:
    """The topic of one entry of an offset."""

    topic: str
    number: int
    id_base: int

    @property
    def key(self) -> str:
        return f"{self.topic}/{self.number}/{self.id_base}"


def series_of(key: str) -> Series:
    topic, number, id_base = key.rsplit("/", 2)
    return Series(topic, int(number), int(id_base))


def key_of(state: TopicState) -> str:
    """The key of a topic's entry in an offset."""
    return Series(state.topic, state.number, state.id_base).key


def states_of(client: LogClient, topics: Iterable[str]) -> dict[str, TopicState]:
    """The state of each topic that exists."""
    found = {}
    for topic in topics:
        with suppress(TopicMissingError):
            found[topic] = client.topic(topic)
    return found


def initial_offsets(client: LogClient, options: ReadOptions) -> Offsets:
    """The offset at which a new stream begins. Raises as `plan_ranges`, and TopicMissingError."""
    offsets = {}
    for topic in options.topics:
        state = client.topic(topic)
        offsets[key_of(state)] = first_offset(client, state, options, Bounds())
    return offsets


def next_offsets(
    url: str,
    start: Mapping[str, int],
    states: Mapping[str, TopicState],
    options: ReadOptions,
    rows_max: int | None,
    seen: Mapping[str, TopicState] = MappingProxyType({}),
) -> Offsets:
    """The end of the batch that begins at `start`, of at most so many messages; unused offsets are not counted.

    states: of the topics that exist. seen: by key, the last state of each topic that the stream read. Raises
    OffsetBeyondEndError for an offset beyond its topic's end; unless on_gap=report also OffsetGoneError where messages
    were removed before the stream read them, and TopicMissingError or TopicReplacedError where a topic was deleted.
    """
    offsets: Offsets = {}
    ready: dict[str, int] = {}
    key_by_topic = {series_of(key).topic: key for key in start}
    for topic in options.topics:
        state = states.get(topic)
        if topic in key_by_topic and (state is None or key_of(state) != key_by_topic[topic]):
            gone = key_by_topic[topic]
            _check_gone(url, series_of(gone), _unread(start[gone], seen.get(gone)), state, options)
        if state is None:
            if topic in key_by_topic:
                offsets[key_by_topic[topic]] = start[key_by_topic[topic]]
            continue
        key = key_of(state)
        if key not in start:
            offsets[key] = state.oldest_offset
            continue
        _check(url, state, start[key], options)
        at = offsets[key] = max(start[key], state.oldest_offset)
        ready[key] = synced_messages(state).count_between(at, state.synced_offset)
    by_key = {key_of(state): state for state in states.values()}
    for key, rows in _shared(ready, rows_max).items():
        offsets[key] = synced_messages(by_key[key]).offset_behind(offsets[key], rows)
    return offsets


def _check_gone(url: str, gone: Series, unread: str, now: TopicState | None, options: ReadOptions) -> None:
    """Report a deleted series of the stream: log it with on_gap=report, otherwise raise TopicMissingError or
    TopicReplacedError. unread: a text on the messages that were not read. now: the topic that has the name."""
    text = f"topic {gone.topic} (number {gone.number}) at {url} was deleted"
    if now is not None:
        text += f", and one with the number {now.number} was made"
    text += f": {unread}"
    if options.on_gap == REPORT:
        logger.warning("%s", text)
    elif now is None:
        raise TopicMissingError(f"{text}; on_gap=report waits until there is one of that name")
    else:
        raise TopicReplacedError(f"{text}; on_gap=report goes on with the new one")


def _unread(at: int, seen: TopicState | None) -> str:
    if seen is None:
        return f"its messages from offset {at} on were not read"
    count = synced_messages(seen).count_between(at, seen.synced_offset)
    if count:
        return f"{count} messages from offset {at} to {seen.synced_offset - 1} were not read, nor any later message"
    return f"all of it up to offset {at} was read, and no later message"


def _check(url: str, state: TopicState, at: int, options: ReadOptions) -> None:
    place = f"{state.topic} at {url}"
    if at > state.end_offset:
        raise OffsetBeyondEndError(
            f"offset {at} of {place} is beyond its end, {state.end_offset}: the log lost messages that the stream"
            " has read"
        )
    if at < state.oldest_offset and options.on_gap != REPORT:
        raise OffsetGoneError(
            f"offset {at} of {place} is gone: the oldest is {state.oldest_offset}; on_gap=report goes on there"
        )


def _shared(ready: Mapping[str, int], rows_max: int | None) -> dict[str, int]:
    """The rows of each topic: all, or fair shares of `rows_max`, so that no topic waits for a larger one."""
    if rows_max is None:
        return dict(ready)
    shares = {}
    left = rows_max
    for done, (key, rows) in enumerate(sorted(ready.items(), key=lambda item: item[1])):
        share = -(-left // (len(ready) - done))
        shares[key] = min(rows, share)
        left -= shares[key]
    return shares


def latest_offsets(states: Mapping[str, TopicState]) -> Offsets:
    """The synced end of each topic."""
    return {key_of(state): state.synced_offset for state in states.values()}


def batch_ranges(
    url: str,
    start: Mapping[str, int],
    end: Mapping[str, int],
    states: Mapping[str, TopicState],
    options: ReadOptions,
) -> tuple[list[WantedRange], list[MissingRange]]:
    """The ranges to read between two offsets, and, with on_gap=report, the removed ones: of a topic that was deleted
    meanwhile, or before the oldest message. Raises as `next_offsets`."""
    ranges, missing = [], []
    for key, after in end.items():
        at = start.get(key, after)
        if at >= after:
            continue
        one = series_of(key)
        state = states.get(one.topic)
        if state is None or key_of(state) != key:
            _check_gone(url, one, f"offsets {at} to {after - 1} were not read, nor any later message", state, options)
            missing.append(MissingRange(one.topic, one.number, one.id_base, at, after, REPLACED))
            continue
        _check(url, state, max(after, state.oldest_offset), options)
        _check(url, state, at, options)
        if at < state.oldest_offset:
            oldest = min(state.oldest_offset, after)
            missing.append(MissingRange(one.topic, one.number, one.id_base, at, oldest, GONE))
            at = oldest
        if at < after:
            ranges.append(wanted_range(state, at, after))
    return ranges, missing
