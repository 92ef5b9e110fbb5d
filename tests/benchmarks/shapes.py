"""A channel of the log whose messages are in chosen states, in chosen places: made once on a disk, then started in
each copy of it.

A state is a letter, and a channel a string of them, by offset.
"""

import shutil
from collections.abc import Callable, Iterator
from itertools import groupby
from pathlib import Path
from random import Random
from typing import NamedTuple

from queue_engine.delivery.channel import RUN_BYTES_MAX, Channel
from queue_engine.engine.acts.log_acts import channel_log
from queue_engine.engine.engine import Engine
from queue_engine.engine.messages.log_messages import LogMessages
from queue_engine.storage.disk.background import Background, InlineBackground
from queue_engine.vocabulary.clock import NS_PER_MS
from queue_engine.vocabulary.run import Run
from tests.support.clock import ManualClock
from tests.support.engine import Client, make_engine, settle

WAITING, HELD, REQUEUED, DELAYED, ASIDE, FINISHED = "WHRDQF"
STATES = {
    WAITING: "waiting",
    HELD: "in flight",
    REQUEUED: "deferred by REQ",
    DELAYED: "deferred by DPUB",
    ASIDE: "quarantined",
    FINISHED: "finished",
}
TOPIC, CHANNEL = "orders", "billing"
DELAY_MS = 3_600_000
_PUBLISHED_AT_ONCE = 1_000
_BODY = b"x" * 100


class Shape(NamedTuple):
    name: str
    states: Callable[[int], str]
    """Number of messages → the state of each."""


def _blocks(letters: str) -> Callable[[int], str]:
    return lambda count: "".join(letters[index * len(letters) // count] for index in range(count))


def _alternating(letters: str) -> Callable[[int], str]:
    return lambda count: (letters * count)[:count]


def _random(letters: str) -> Callable[[int], str]:
    return lambda count: "".join(Random(7).choices(letters, k=count))


def _at_each_end(letters: str) -> Callable[[int], str]:
    """One of each of the first letters at each end, the last letter between them."""
    ends = letters[:-1]
    return lambda count: ends + letters[-1] * (count - 2 * len(ends)) + ends[::-1]


def _shapes() -> Iterator[Shape]:
    every = "".join(STATES)
    for one in every[:-1]:
        name = STATES[one]
        yield Shape(f"{name} and finished, alternating", _alternating(one + FINISHED))
        yield Shape(f"{name} and finished, random", _random(one + FINISHED))
        yield Shape(f"{name} and finished, blocks", _blocks(one + FINISHED))
        yield Shape(f"finished, one {name} at each end", _at_each_end(one + FINISHED))
    yield Shape("all states, blocks", _blocks(every))
    yield Shape("all states, alternating", _alternating(every))
    yield Shape("all states, random", _random(every))
    for one in every[:-1]:
        others = every.replace(one, "")
        yield Shape(f"{STATES[one]}, one of the others at each end", _at_each_end(others + one))


SHAPES = {shape.name: shape for shape in _shapes()}


class Sink:
    """Implements `Sink`: keeps the ids of what came."""

    is_writable = True
    run_bytes_max = RUN_BYTES_MAX

    def __init__(self) -> None:
        self.ids: list[bytes] = []

    def send_run(self, run: Run) -> None:
        self.ids += run.ids

    def close_consumer(self) -> None: ...


class ShapedChannel:
    """An engine with one channel that has these states."""

    def __init__(self, directory: Path, states: str) -> None:
        self.clock = ManualClock()
        self.states = states
        self.directory = directory
        self.background: Background = InlineBackground()
        self.engine: Engine

    def open(self) -> None:
        """Start an engine on the directory."""
        self.directory.mkdir(exist_ok=True)
        most = 2 * len(self.states) + 1_000
        self.engine = make_engine(
            self.directory,
            self.clock,
            background=self.background,
            storage="log",
            log_segment_bytes=16 << 20,
            max_deferred_per_channel=most,
            max_deferred_bytes=most << 10,
            quarantine_max_count=most,
            quarantine_max_bytes=most << 10,
        )

    @property
    def channel(self) -> Channel:
        return self.engine.topics[TOPIC].channels[CHANNEL]

    @property
    def log(self) -> LogMessages:
        store, backlog = channel_log(self.engine.topics[TOPIC], self.channel)
        return LogMessages(store, backlog, self.channel.held, 0)

    def offsets(self, letters: str) -> list[int]:
        return [offset for offset, state in enumerate(self.states) if state in letters]

    def ids(self, letters: str) -> list[bytes]:
        log = self.log
        return [log.id_of(offset) for offset in self.offsets(letters)]

    def fill(self) -> None:
        """Publish everything, and have each message in its state."""
        engine = self.engine
        engine.acts.create_topic(TOPIC)
        engine.acts.create_channel(TOPIC, CHANNEL)
        settle(engine)
        room = _PUBLISHED_AT_ONCE
        for is_delayed, states in groupby(self.states, lambda state: state == DELAYED):
            left = len(list(states))
            while left:
                count = min(left, room)
                engine.publish(TOPIC, [_BODY] * count, defer_ms=DELAY_MS if is_delayed else 0)
                left -= count
                room -= count
                if not room:
                    self._tick()
                    room = _PUBLISHED_AT_ONCE
        self._tick()
        self.deliver()
        self._finish(FINISHED)
        aside = self.offsets(ASIDE)
        for at in range(0, len(aside), _PUBLISHED_AT_ONCE):
            self._set_aside(aside[at : at + _PUBLISHED_AT_ONCE])
        self._requeue(REQUEUED, DELAY_MS)
        self._requeue(WAITING, 0)
        self.check()

    def arrange(self) -> None:
        """After a start: what was in flight is in flight again, every second message under a deadline of its own."""
        self.deliver()
        self._requeue(WAITING, 0)
        for message_id in self.ids(HELD)[::2]:
            self.channel.touch(self.consumer, message_id, self.clock.monotonic_ns())
        self.check()

    def deliver(self) -> None:
        """A consumer takes all that waits, and no more."""
        self.client = Client(self.engine, TOPIC, CHANNEL, msg_timeout_ms=600_000)
        self.consumer = self.client.consumer
        self.consumer.sink = Sink()
        self.client.ready(max(len(self.states), 1))
        self.channel.set_ready(self.consumer, 0)

    def _finish(self, letters: str) -> None:
        ids = self.ids(letters)
        for at in range(0, len(ids), _PUBLISHED_AT_ONCE):
            assert not self.channel.finish(self.consumer, ids[at : at + _PUBLISHED_AT_ONCE])
            self._tick()

    def _tick(self) -> None:
        """A moment passes: what is done in it is written and merged, as in a server."""
        settle(self.engine)
        self.clock.advance(ms=1)
        self.engine.tick()
        settle(self.engine)

    def _requeue(self, letters: str, delay_ms: int) -> None:
        ids = self.ids(letters)
        for at in range(0, len(ids), _PUBLISHED_AT_ONCE):
            for message_id in ids[at : at + _PUBLISHED_AT_ONCE]:
                self.channel.requeue(self.consumer, message_id, delay_ms * NS_PER_MS, self.clock.monotonic_ns())
            self._tick()

    def _set_aside(self, offsets: list[int]) -> None:
        outcome, ticket = self.engine.message_acts.quarantine_messages(TOPIC, CHANNEL, offsets=offsets)
        self._tick()
        assert ticket.error is None
        assert all(not one.code for one in outcome.results)

    def counts(self) -> tuple[int, int, int, int]:
        """Waiting, in flight, deferred, quarantined."""
        counts = self.channel.counts()
        return counts.depth, counts.in_flight, counts.deferred, counts.quarantined

    def expected(self) -> tuple[int, int, int, int]:
        count = self.states.count
        return count(WAITING), count(HELD), count(REQUEUED) + count(DELAYED), count(ASIDE)

    def check(self) -> None:
        assert self.counts() == self.expected(), (self.counts(), self.expected())

    def copied(self, to: Path) -> "ShapedChannel":
        """The same on a copy of the directory, not started."""
        shutil.copytree(self.directory, to, ignore=shutil.ignore_patterns("*.lock"))
        copy = ShapedChannel(to, self.states)
        copy.clock = ManualClock(time_ns=self.clock.time_ns())
        return copy
