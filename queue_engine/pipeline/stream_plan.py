"""How far a stream has come, and how far it goes next.

A stream's offset, as Spark keeps it in its checkpoint, is

    {"<topic>/<number>/<id base>": next offset, …}

with one entry for each topic. Number and id base are the topic's identity: a topic that was deleted and made anew is
a series of its own, from the oldest offset it has. Where a series begins is written down before anything is read of
it, so that a batch that is run again is the same batch.
"""

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from queue_engine.errors import OffsetBeyondEndError, OffsetGoneError, TopicMissingError
from queue_engine.pipeline.log_client import LogClient, TopicState
from queue_engine.pipeline.read_options import REPORT, ReadOptions
from queue_engine.pipeline.read_plan import Bounds, first_offset
from queue_engine.pipeline.record_columns import GONE, REPLACED, MissingRange
from queue_engine.pipeline.wanted_range import WantedRange

logger = logging.getLogger(__name__)

Offsets = dict[str, int]


@dataclass(frozen=True, slots=True)
class Series:
    """Which topic an entry of an offset is of."""

    topic: str
    number: int
    id_base: int

    @property
    def key(self) -> str:
        return f"{self.topic}/{self.number}/{self.id_base}"


def series_of(key: str) -> Series:
    topic, number, id_base = key.rsplit("/", 2)
    return Series(topic, int(number), int(id_base))


def _key(state: TopicState) -> str:
    return Series(state.topic, state.number, state.id_base).key


def states_of(client: LogClient, topics: Iterable[str]) -> dict[str, TopicState]:
    """The topics that there are."""
    found = {}
    for topic in topics:
        try:
            found[topic] = client.topic(topic)
        except TopicMissingError as exc:
            logger.warning("%s; the stream goes on when it is there again", exc)
    return found


def initial_offsets(client: LogClient, options: ReadOptions) -> Offsets:
    """Where a new stream begins. Raises as `plan_ranges`, and TopicMissingError."""
    offsets = {}
    for topic in options.topics:
        state = client.topic(topic)
        offsets[_key(state)] = first_offset(client, state, options, Bounds())
    return offsets


def next_offsets(
    url: str, start: Mapping[str, int], states: Mapping[str, TopicState], options: ReadOptions, rows_max: int | None
) -> Offsets:
    """Where the batch that begins at `start` ends, of at most so many messages; offsets without one are passed over.

    states: of the topics that there are. Raises OffsetBeyondEndError for an offset that its topic has not come to, and
    OffsetGoneError where messages were removed before the stream came to them.
    """
    offsets: Offsets = {}
    ready: dict[str, int] = {}
    known = {series_of(key).topic: key for key in start}
    for topic in options.topics:
        state = states.get(topic)
        if state is None:
            if topic in known:
                offsets[known[topic]] = start[known[topic]]
            continue
        key = _key(state)
        if key not in start:
            if topic in known:
                logger.warning(
                    "topic %s of %s was made anew: %s ended at %d", topic, url, known[topic], start[known[topic]]
                )
            offsets[key] = state.oldest_offset
            continue
        _check(url, state, start[key], options)
        at = offsets[key] = max(start[key], state.oldest_offset)
        ready[key] = state.messages.count_between(at, state.synced_offset)
    by_key = {_key(state): state for state in states.values()}
    for key, rows in _shared(ready, rows_max).items():
        offsets[key] = by_key[key].messages.offset_behind(offsets[key], rows)
    return offsets


def _check(url: str, state: TopicState, at: int, options: ReadOptions) -> None:
    place = f"{state.topic} at {url}"
    if at > state.end_offset:
        raise OffsetBeyondEndError(
            f"offset {at} of {place} is beyond its end, {state.end_offset}: the log lost what the stream has read"
        )
    if at < state.oldest_offset and options.on_gap != REPORT:
        raise OffsetGoneError(
            f"offset {at} of {place} is gone: the oldest is {state.oldest_offset}; on_gap=report goes on there"
        )


def _shared(ready: Mapping[str, int], rows_max: int | None) -> dict[str, int]:
    """Rows for each: all, or such shares of `rows_max` that nobody waits for somebody who has more."""
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
    """The heads of the log."""
    return {_key(state): state.synced_offset for state in states.values()}


def batch_ranges(
    url: str,
    start: Mapping[str, int],
    end: Mapping[str, int],
    states: Mapping[str, TopicState],
    options: ReadOptions,
) -> tuple[list[WantedRange], list[MissingRange]]:
    """What is read between two offsets, and what of it is known not to be there any more: of a topic that was deleted
    meanwhile, or, with on_gap=report, before the oldest message. Raises OffsetBeyondEndError and OffsetGoneError."""
    ranges, missing = [], []
    for key, after in end.items():
        at = start.get(key, after)
        if at >= after:
            continue
        one = series_of(key)
        state = states.get(one.topic)
        if state is None or _key(state) != key:
            missing.append(MissingRange(one.topic, one.number, one.id_base, at, after, REPLACED))
            continue
        _check(url, state, max(after, state.oldest_offset), options)
        _check(url, state, at, options)
        if at < state.oldest_offset:
            oldest = min(state.oldest_offset, after)
            missing.append(MissingRange(one.topic, one.number, one.id_base, at, oldest, GONE))
            at = oldest
        if at < after:
            ranges.append(state.wanted(at, after))
    return ranges, missing
