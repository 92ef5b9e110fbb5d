"""The live hub: takes every snapshot of the engine, keeps fifteen minutes of it, and notifies its listeners.

The hub belongs to the web side's event loop. The engine's thread hands a snapshot over (`attach`) and never waits.
Pages read `hub.live` from worker threads. The hub replaces that object as a whole; a ring that is written while a page
reads it is at most one second ahead.
"""

import asyncio
import itertools
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Protocol

from admin_console.diagnosis.diagnosis import Diagnosis, diagnose_all
from admin_console.diagnosis.states import State
from admin_console.rings.depth_jumps import DepthCounts, jump_at_topic, jump_in_channel
from admin_console.rings.rings import DEPTH_JUMPS, Clock, Rings

if TYPE_CHECKING:
    from admin_console.gateway.gateway import ChannelStats, EngineSnapshot, TopicStats

logger = logging.getLogger(__name__)

GAUGES = ("waiting", "depth", "in_flight", "deferred", "paused")
COUNTERS = ("messages", "finished", "timeouts", "requeued", DEPTH_JUMPS)
# Each costs 73 KB. What comes later has no history of its own; its gauges are counted in the totals and its topic.
RINGS_MAX = 4_000

Key = tuple[str, str]  # topic and channel; the channel is "" for a topic, both are for the totals
TOTAL: Key = ("", "")


class SnapshotSource(Protocol):
    """What the hub needs of the engine's runner."""

    on_snapshot: "list[Callable[[EngineSnapshot], None]]"


class LiveState:
    """One snapshot, the rings up to it, and what is wrong with its channels. Screens keep in `derived` what they
    work out from it."""

    __slots__ = ("channels", "derived", "diagnoses", "rings", "second", "snapshot", "states", "topics")

    def __init__(
        self,
        snapshot: "EngineSnapshot",
        rings: dict[Key, Rings],
        second: int | None = None,
        states: Mapping[Key, tuple[State, ...]] | None = None,
    ) -> None:
        """states: of the channels at the snapshot before. Without them, only facts such as a pause are diagnosed."""
        self.snapshot = snapshot
        self.diagnoses: dict[Key, Diagnosis]  # of the channels that are not idle
        self.diagnoses, self.states = diagnose_all(snapshot, rings.get, states or {})
        self.rings = rings
        self.second = second  # the rings' newest second, Unix; None without rings
        self.topics: dict[str, TopicStats] = {topic.topic_name: topic for topic in snapshot.topics}
        self.channels: dict[Key, ChannelStats] = {
            (topic.topic_name, channel.channel_name): channel for topic in snapshot.topics for channel in topic.channels
        }
        self.derived: dict[object, object] = {}

    def rings_of(self, topic: str, channel: str = "") -> Rings | None:
        return self.rings.get((topic, channel))


class Hub:
    """Rings for what exists, at most `rings_max`; the newest live state; the listeners that get every new one."""

    def __init__(self, rings_max: int = RINGS_MAX) -> None:
        self._rings_max = rings_max
        self.listeners: set[Callable[[LiveState], Awaitable[None]]] = set()
        self.act_count = 0
        self._act_numbers = itertools.count(1)
        self._is_notifying = False
        self.forget_all()
        self._tasks: set[asyncio.Task[None]] = set()

    def forget_all(self) -> None:
        """Drop all history, as for another engine; listeners stay."""
        self.clock = Clock()
        self.rings: dict[Key, Rings] = {}
        self.live: LiveState | None = None
        self._counts: dict[Key, DepthCounts] = {}

    def note_act(self) -> None:
        """Count an act of the console or of the HTTP API: pages made before it do not show what it did. Any thread."""
        self.act_count = next(self._act_numbers)

    def attach(self, source: SnapshotSource, loop: asyncio.AbstractEventLoop) -> None:
        """Take every further snapshot of `source`. The engine's thread calls `hand_over`, which passes it to `loop`."""
        self.forget_all()

        def hand_over(snapshot: "EngineSnapshot") -> None:
            try:
                loop.call_soon_threadsafe(self.take, snapshot)
            except RuntimeError:
                # The web side's loop is closed: the process is stopping.
                pass

        source.on_snapshot.append(hand_over)

    def take(self, snapshot: "EngineSnapshot") -> None:
        """Write a snapshot into the rings and notify the listeners, in a task of the running loop."""
        self.write(snapshot)
        if not self.listeners or self._is_notifying:
            return  # listeners that are still busy with the last second get the next one
        self._is_notifying = True
        task = asyncio.get_running_loop().create_task(self._notify())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _notify(self) -> None:
        try:
            for listener in tuple(self.listeners):
                if self.live is not None:
                    await listener(self.live)
        except Exception:
            logger.exception("a listener of the hub failed")
        finally:
            self._is_notifying = False

    def write(self, snapshot: "EngineSnapshot") -> None:
        """Write a snapshot into the rings. A second one of the same second only replaces `live`."""
        accepted = self.clock.accept(snapshot.taken_at_ns / 1e9)
        if accepted is not None:
            second, missed = accepted
            if missed:
                for rings in self.rings.values():
                    rings.forget(missed)
            self._write_second(snapshot, second)
        states = self.live.states if self.live else None
        self.live = LiveState(snapshot, self.rings, self.clock.newest, states)

    def _write_second(self, snapshot: "EngineSnapshot", second: int) -> None:
        is_first = not self.rings
        total_gauges = [0.0] * len(GAUGES)
        total_growth = [0.0] * len(COUNTERS)
        alive: set[Key] = {TOTAL}
        counts_before, self._counts = self._counts, _depth_counts(snapshot)
        deleted = _deleted_depths(counts_before, self._counts)
        for topic in snapshot.topics:
            topic_key = (topic.topic_name, "")
            waiting, in_flight, deferred = topic.depth, 0, 0
            growth = [0.0] * len(COUNTERS)
            passed_on = 0.0
            for channel in topic.channels:
                key = (topic.topic_name, channel.channel_name)
                alive.add(key)
                waiting += channel.depth
                in_flight += channel.in_flight_count
                deferred += channel.deferred_count
                rings = self._rings(key)
                if rings is None:
                    continue
                grown = rings.deltas(
                    (channel.message_count, channel.finish_count, channel.timeout_count, channel.requeue_count),
                    is_new=not is_first,
                )
                grown.append(jump_in_channel(counts_before.get(key), self._counts[key], grown[0], grown[1]))
                rings.write(
                    second,
                    (channel.depth, channel.depth, channel.in_flight_count, channel.deferred_count, channel.paused),
                    grown,
                )
                passed_on = max(passed_on, grown[0])
                for index in (1, 2, 3, 4):
                    growth[index] += grown[index]
            alive.add(topic_key)
            rings = self._rings(topic_key)
            if rings is not None:
                growth[0] = rings.deltas((topic.message_count,), is_new=not is_first)[0]
                growth[4] += jump_at_topic(
                    counts_before.get(topic_key), self._counts[topic_key], growth[0], passed_on
                ) + deleted.get(topic.topic_name, 0.0)
                rings.write(second, (waiting, topic.depth, in_flight, deferred, topic.paused), growth)
            for index, value in enumerate((waiting, topic.depth, in_flight, deferred)):
                total_gauges[index] += value
            for index, change in enumerate(growth):
                total_growth[index] += change
        names = {topic.topic_name for topic in snapshot.topics}
        total_growth[4] += sum(depth for name, depth in deleted.items() if name not in names)
        total = self._rings(TOTAL)
        assert total is not None, "the totals are the first rings of all"
        total.write(second, total_gauges, total_growth)
        for gone in self.rings.keys() - alive:
            del self.rings[gone]

    def _rings(self, key: Key) -> Rings | None:
        rings = self.rings.get(key)
        if rings is None:
            # The totals always have theirs.
            if len(self.rings) >= self._rings_max and key != TOTAL:
                return None
            rings = self.rings[key] = Rings(self.clock, GAUGES, COUNTERS)
        return rings


def _depth_counts(snapshot: "EngineSnapshot") -> dict[Key, DepthCounts]:
    """The counts of each topic itself and of each channel."""
    counts = {
        (topic.topic_name, ""): DepthCounts(topic.depth, topic.depth, topic.dropped_count) for topic in snapshot.topics
    }
    for topic in snapshot.topics:
        for channel in topic.channels:
            unfinished = channel.depth + channel.in_flight_count + channel.deferred_count + channel.quarantined_count
            key = (topic.topic_name, channel.channel_name)
            counts[key] = DepthCounts(channel.depth, unfinished, channel.dropped_count)
    return counts


def _deleted_depths(before: dict[Key, DepthCounts], now: dict[Key, DepthCounts]) -> dict[str, float]:
    """By topic: the change of depth, at most 0, that came of deleting the topic or channels of it."""
    depths: dict[str, float] = {}
    for key in before.keys() - now.keys():
        depths[key[0]] = depths.get(key[0], 0.0) - before[key].depth
    return depths


_hub = Hub()


def get_hub() -> Hub:
    """The process's hub."""
    return _hub
