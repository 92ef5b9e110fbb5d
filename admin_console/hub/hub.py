"""The live hub: takes every snapshot of the engine, keeps fifteen minutes of it, and notifies its listeners.

With other nodes the snapshots are those of the cluster (`cluster/merging/merged.py`), merged over all nodes; everything
below reads them as those of one engine.

The hub belongs to the web side's event loop. The thread that made a snapshot hands it over (`attach`) and never waits.
Pages read `hub.live` from worker threads. The hub replaces that object as a whole; a ring that is written while a page
reads it is at most one second ahead.
"""

import asyncio
import itertools
import logging
from collections.abc import Awaitable, Callable, Mapping
from contextvars import copy_context
from typing import TYPE_CHECKING, Protocol

from admin_console.cluster.merging.differences import CONSUMERS
from admin_console.cluster.merging.merged import NO_GROWTH, ClusterSnapshot, Growth
from admin_console.diagnosis.diagnosis import ENGINE, Diagnosis, diagnose_all
from admin_console.diagnosis.states import State, in_force
from admin_console.diagnosis.vitals import ConsumersApart
from admin_console.hub.node_rings import NodeRings
from admin_console.rings.depth_jumps import NOTHING, DepthCounts, jump_at_topic, jump_in_channel
from admin_console.rings.rings import DEPTH_JUMPS, SECONDS, Birth, Clock, Layout, Rings
from admin_console.vocabulary.current_cluster import PerCluster

if TYPE_CHECKING:
    from admin_console.gateway.gateway import ChannelStats, EngineSnapshot, TopicStats

logger = logging.getLogger(__name__)

GAUGES = ("waiting", "depth", "in_flight", "deferred", "paused")
COUNTERS = ("messages", "finished", "timeouts", "requeued", DEPTH_JUMPS)
# A channel's wait for room at no topic: all of its messages are its depth.
_TOPIC = Layout(GAUGES, COUNTERS)
_CHANNEL = Layout(GAUGES[1:], COUNTERS, same={"waiting": "depth"})
# Rings take 2 to 70 KB, 15 where all figures change. Later topics and channels have no history of their own; their
# gauges are counted in the totals and in their topic.
RINGS_MAX = 20_000
RINGS_BYTES_MAX = 128 << 20
# Of an engine that started so short a time before its first snapshot, all that was counted is growth of that time.
START_S_MAX = 60

Key = tuple[str, str]  # topic and channel; the channel is "" for a topic, both are for the totals
TOTAL: Key = ("", "")


class SnapshotSource(Protocol):
    """The part of the cluster that the hub uses."""

    on_snapshot: "list[Callable[[EngineSnapshot | ClusterSnapshot], None]]"


class LiveState:
    """A snapshot, the rings up to it, and the diagnoses of its channels. Screens cache values derived from it in
    `derived`. cluster: None where no other node is read."""

    __slots__ = (
        "channels",
        "cluster",
        "derived",
        "diagnoses",
        "node_rings",
        "rings",
        "second",
        "snapshot",
        "states",
        "topics",
    )

    def __init__(
        self,
        snapshot: "EngineSnapshot",
        rings: dict[Key, Rings],
        second: int | None = None,
        states: Mapping[Key, tuple[State, ...]] | None = None,
        earlier: Mapping[Key, Diagnosis] | None = None,
        *,
        takes_turns: bool = True,
        cluster: ClusterSnapshot | None = None,
        node_rings: NodeRings | None = None,
    ) -> None:
        """states: of the channels at the snapshot before. Without them, only facts such as a pause are diagnosed.
        earlier: the diagnoses of that one; without them no channel waits for its turn, nor where `takes_turns` is
        False."""
        self.snapshot = snapshot
        self.cluster = cluster
        self.node_rings = node_rings
        self.diagnoses: dict[Key, Diagnosis]  # of the channels that are not idle
        self.diagnoses, self.states = diagnose_all(
            snapshot, rings.get, states or {}, earlier, takes_turns=takes_turns, apart=_apart(cluster)
        )
        self.rings = rings
        self.second = second  # the rings' newest second, Unix; None without rings
        self.topics: dict[str, TopicStats] = {topic.topic_name: topic for topic in snapshot.topics}
        self.channels: dict[Key, ChannelStats] = {
            (topic.topic_name, channel.channel_name): channel for topic in snapshot.topics for channel in topic.channels
        }
        self.derived: dict[object, object] = {}

    @property
    def engine_states(self) -> tuple[State, ...]:
        """The diagnosis of the engine as a whole."""
        return in_force(self.states.get(ENGINE, ()))

    def rings_of(self, topic: str, channel: str = "") -> Rings | None:
        return self.rings.get((topic, channel))

    def silences_of(self, topic: str = "", channel: str = "") -> list[tuple[int, int]]:
        """First and last second of each time in the rings that lacks a node's part of a topic or channel, or of all."""
        if self.cluster is None or self.node_rings is None:
            return []
        if not topic:
            return self.node_rings.silences([node.name for node in self.cluster.state.nodes])
        return self.node_rings.silences([place.node for place in self.cluster.places(topic, channel)])

    def rings_of_nodes(self, topic: str, channel: str = "") -> dict[str, Rings]:
        """By node; of a topic or channel whose page is open, else empty."""
        return self.node_rings.rings_of(topic, channel) if self.node_rings is not None else {}

    @property
    def partial_total(self) -> tuple[str, ...]:
        """The nodes that answer, and without whose missing counts the totals are; () for none."""
        return self.cluster.partial_total if self.cluster is not None else ()

    def silent_of(self, topic: str, channel: str = "") -> tuple[str, ...]:
        """The nodes whose part of a topic, a channel or, without a topic, of the totals is unknown; () for none."""
        return self.cluster.silent.get((topic, channel), ()) if self.cluster is not None else ()


def _apart(cluster: ClusterSnapshot | None) -> Mapping[Key, ConsumersApart]:
    """The channels with messages at nodes where no consumer is connected, while some are at others."""
    return {
        (one.topic, one.channel): ConsumersApart(one.part, one.text, one.node)
        for one in (cluster.differences if cluster is not None else ())
        if one.kind == CONSUMERS and one.weight
    }


class Hub:
    """Rings of the topics and channels, at most `rings_max` with `bytes_max` in all; the newest live state; its
    listeners."""

    def __init__(self, rings_max: int = RINGS_MAX, bytes_max: int = RINGS_BYTES_MAX) -> None:
        self._rings_max = rings_max
        self._bytes_max = bytes_max
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
        self.node_rings = NodeRings(_TOPIC, _CHANNEL)
        self.live: LiveState | None = None
        self._counts: dict[Key, DepthCounts] = {}
        self._unwritten: list[Mapping[Key, Growth]] = []
        self._without_rings: set[Key] = set()  # which exceeded the budget
        self.rings_bytes = 0

    def note_act(self) -> None:
        """Count an act of the console or of the HTTP API: pages made before it do not show its result. Any thread."""
        self.act_count = next(self._act_numbers)

    def attach(self, source: SnapshotSource, loop: asyncio.AbstractEventLoop) -> None:
        """Take every further snapshot of `source`, and notify the listeners, for the current cluster. Its thread calls
        `hand_over`, which passes it to `loop`."""
        self.forget_all()
        context = copy_context()

        def hand_over(snapshot: "EngineSnapshot | ClusterSnapshot") -> None:
            try:
                loop.call_soon_threadsafe(self.take, snapshot, context=context)
            except RuntimeError:
                # The web side's loop is closed: the process is stopping.
                pass

        source.on_snapshot.append(hand_over)

    def take(self, snapshot: "EngineSnapshot | ClusterSnapshot") -> None:
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

    def write(self, taken: "EngineSnapshot | ClusterSnapshot") -> None:
        """Write a snapshot into the rings. A second one of the same second only replaces `live`."""
        cluster = taken if isinstance(taken, ClusterSnapshot) else None
        snapshot = taken.merged if isinstance(taken, ClusterSnapshot) else taken
        birth = self._birth_before(snapshot)
        accepted = self.clock.accept(snapshot.taken_at_ns / 1e9)
        if accepted is not None:
            second, missed = accepted
            if missed:
                for rings in self.rings.values():
                    rings.forget(missed)
            self._write_second(snapshot, second, birth, self._growth(cluster))
            if cluster is not None:
                self._mark_partial(cluster)
            self.clock.show()
            if cluster is not None:
                self.node_rings.write(cluster, second)
        elif cluster is not None:
            self._unwritten.append(cluster.growth)
        last = self.live
        states, earlier = (last.states, last.diagnoses) if last else (None, None)
        self.live = LiveState(
            snapshot, self.rings, self.clock.newest, states, earlier, cluster=cluster, node_rings=self.node_rings
        )

    def _growth(self, cluster: ClusterSnapshot | None) -> Mapping[Key, Growth] | None:
        """Since the second that was written last; None without other nodes, where counters are compared."""
        unwritten, self._unwritten = self._unwritten, []
        if cluster is None or not unwritten:
            return None if cluster is None else cluster.growth
        sums = dict(cluster.growth)
        for key, growth in itertools.chain.from_iterable(one.items() for one in unwritten):
            sums[key] = sums[key].plus(growth) if key in sums else growth
        return sums

    def _mark_partial(self, cluster: ClusterSnapshot) -> None:
        """A depth that lacks a node's part has no trend."""
        silent = cluster.silent
        for key, rings in self.rings.items():
            rings.is_partial = key in silent

    def _birth_before(self, snapshot: "EngineSnapshot") -> Birth | None:
        """The birth of topics and channels that this snapshot is the first to show: made since the snapshot before, or
        since the engine started."""
        newest = self.clock.newest
        if newest is not None:
            return Birth(self.clock.taken_s[newest % SECONDS], was_empty=True)
        if snapshot.taken_at_ns - snapshot.started_at_ns < START_S_MAX * 1_000_000_000:
            return Birth(snapshot.started_at_ns / 1e9, was_empty=False)  # its files may have had messages
        return None

    def _write_second(
        self, snapshot: "EngineSnapshot", second: int, birth: Birth | None, growth: Mapping[Key, Growth] | None
    ) -> None:
        """growth: of the counters over all nodes; None where it is that of the snapshot's counters."""
        before, counts = self._counts, dict[Key, DepthCounts]()
        unseen = _unseen(birth)
        # The sums of a topic's channels: waiting, in flight, deferred, and the growth of counters.
        sums: list[tuple[TopicStats, tuple[int, int, int], list[int]]] = []
        for topic in snapshot.topics:
            name = topic.topic_name
            waiting, in_flight, deferred = topic.depth, 0, 0
            passed_on = finished = timeouts = requeued = jumps = 0
            for channel in topic.channels:
                key = (name, channel.channel_name)
                depth, held, later = channel.depth, channel.in_flight_count, channel.deferred_count
                waiting += depth
                in_flight += held
                deferred += later
                unfinished = depth + held + later + channel.quarantined_count
                counted = counts[key] = (depth, unfinished, channel.dropped_count)
                rings = self.rings.get(key) or self._made(key, None if key in before else birth)
                if rings is None:
                    continue
                if growth is None:
                    grown = rings.deltas(
                        (channel.message_count, channel.finish_count, channel.timeout_count, channel.requeue_count)
                    )
                    arrived, done = grown[0], grown[1]
                else:
                    raw, spread, _ = growth.get(key, NO_GROWTH)
                    grown = rings.take_growth(spread)
                    arrived, done = raw[0], raw[1]
                jump = jump_in_channel(before.get(key, unseen), counted, arrived, done)
                grown.append(jump)
                if jump:
                    rings.moved_s = second
                rings.write(second, (depth, held, later, channel.paused), grown)
                passed_on = max(passed_on, arrived)
                finished += grown[1]
                timeouts += grown[2]
                requeued += grown[3]
                jumps += jump
            counts[name, ""] = (topic.depth, topic.depth, topic.dropped_count)
            sums.append((topic, (waiting, in_flight, deferred), [passed_on, finished, timeouts, requeued, jumps]))
        self._counts = counts
        self._write_topics(second, sums, before, birth, growth)
        for gone in self.rings.keys() - counts.keys() - {TOTAL}:
            del self.rings[gone]
        self._limit_bytes()

    def _write_topics(
        self,
        second: int,
        sums: "list[tuple[TopicStats, tuple[int, int, int], list[int]]]",
        before: dict[Key, DepthCounts],
        birth: Birth | None,
        growth: Mapping[Key, Growth] | None,
    ) -> None:
        """Write the rings of topics and of the totals."""
        counts, unseen = self._counts, _unseen(birth)
        deleted = _deleted_depths(before, counts)
        gauges = [0] * len(GAUGES)
        total_growth = [0] * len(COUNTERS)
        for topic, (waiting, in_flight, deferred), grown in sums:
            key = (topic.topic_name, "")
            passed_on, grown[0] = grown[0], 0
            rings = self.rings.get(key) or self._made(key, None if key in before else birth)
            if rings is not None:
                if growth is None:
                    (published,) = rings.deltas((topic.message_count,))
                    arrived = published
                else:
                    # Each node passes its messages on to its own channels.
                    raw, spread, passed_on = growth.get(key, NO_GROWTH)
                    (published,), arrived = rings.take_growth(spread[:1]), raw[0]
                jump = jump_at_topic(before.get(key, unseen), counts[key], arrived, passed_on)
                grown[0] = published
                grown[4] += jump + deleted.pop(topic.topic_name, 0)
                if any(grown):
                    rings.moved_s = second
                rings.write(second, (waiting, topic.depth, in_flight, deferred, topic.paused), grown)
            for index, value in enumerate((waiting, topic.depth, in_flight, deferred)):
                gauges[index] += value
            for index, change in enumerate(grown):
                total_growth[index] += change
        for topic, _, _ in sums:
            deleted.pop(topic.topic_name, 0)  # of a topic without rings
        total_growth[4] += sum(deleted.values())
        total = self.rings.get(TOTAL) or self._made(TOTAL, birth)
        assert total is not None, "the totals always have rings"
        total.write(second, gauges, total_growth)

    def _made(self, key: Key, birth: Birth | None) -> Rings | None:
        """New rings, unless the limit is reached; the totals always get theirs. birth: None for an older topic or
        channel whose rings had no room."""
        if key != TOTAL and (len(self.rings) >= self._rings_max or key in self._without_rings):
            return None
        rings = self.rings[key] = Rings(self.clock, _CHANNEL if key[1] else _TOPIC, birth)
        return rings

    def _limit_bytes(self) -> None:
        """Drop rings beyond the budget: the newest topics and channels lose theirs, and get none again while they
        live."""
        self.rings_bytes = sum([rings.bytes for rings in self.rings.values()])
        if self._without_rings:
            self._without_rings &= self._counts.keys()
        for key in reversed(list(self.rings)) if self.rings_bytes > self._bytes_max else ():
            if self.rings_bytes <= self._bytes_max:
                break
            if key != TOTAL:
                self.rings_bytes -= self.rings.pop(key).bytes
                self._without_rings.add(key)


def _unseen(birth: Birth | None) -> DepthCounts | None:
    """The counts, one snapshot earlier, of topics and channels that this snapshot is the first to show; None where
    unknown."""
    return NOTHING if birth is not None and birth.was_empty else None


def _deleted_depths(before: dict[Key, DepthCounts], now: dict[Key, DepthCounts]) -> dict[str, int]:
    """By topic: the change of depth, at most 0, that came of deleting the topic or channels of it."""
    depths: dict[str, int] = {}
    for key in before.keys() - now.keys():
        depths[key[0]] = depths.get(key[0], 0) - before[key][0]
    return depths


_hubs = PerCluster(Hub)


def get_hub() -> Hub:
    """That of the cluster that the running code works for."""
    return _hubs.made()
