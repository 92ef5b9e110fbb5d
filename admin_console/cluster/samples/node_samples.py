"""Samples of the other nodes, in the log that has the engine's own (`sample_format.py`): the history has them by node.

Every `Pace.sample_s` each node that answers gets a sample of its last answer. A counter's growth is the difference from
the node's sample before:

    the node's first sample, or after a silence of SILENCE_MAX_S    0: when it came is unknown
    it has restarted, or started within START_MAX_S                 all since its start
    one counter fell                                                all since it began again

A sample that is not written has its growth in the next one. A topic or channel of which the node reports less than
every nsqd does is left out.
"""

import logging
import threading
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace

from admin_console.cluster.merging.node_figures import lacking, topic_stats
from admin_console.cluster.reading.node_stats import NodeStats, NodeTopic
from admin_console.cluster.reading.nodes import ClusterState, Node
from admin_console.vocabulary.current_cluster import in_this_cluster
from queue_engine.delivery.stats import EngineSnapshot
from queue_engine.engine.samples.sample_format import Sample, compose_sample, encode_sample
from queue_engine.engine.samples.sample_log import SamplesLog
from queue_engine.storage.disk.background import InlineBackground
from queue_engine.storage.disk.files import Files
from queue_engine.storage.log_store.log_store import LogStore
from queue_engine.storage.log_store.log_topic_store import LogTopicStore
from queue_engine.vocabulary.clock import NS_PER_MS, NS_PER_S, SystemClock
from queue_engine.vocabulary.errors import PenstockError, UnreadableSampleError
from queue_engine.vocabulary.options.options import Options

logger = logging.getLogger(__name__)

SILENCE_MAX_S = 300
START_MAX_S = 60
STOP_S = 5.0
# Of one counter, over all topics or channels: an hour has 120 samples, whose sum has 63 bits in the history; one beyond
# ends the pipeline's job for all nodes.
GROWTH_MAX = 1 << 56

Append = Callable[[bytes], None]
"""Writes a sample. Raises PenstockError; then it was not written."""


@dataclass(frozen=True, slots=True)
class _Last:
    """The last sample of a node that was written. left_out: by topic, its channels, "" for the topic itself, of which
    the node's answer lacked a count: the sample has none of them."""

    snapshot: EngineSnapshot
    number: int
    left_out: Mapping[str, Collection[str]]


class NodeSampler:
    """Samples the nodes of a state on a thread of its own, from `start` to `stop`."""

    def __init__(
        self,
        read: Callable[[], ClusterState],
        append: Append,
        *,
        interval_s: float,
        time_ns: Callable[[], int] = time.time_ns,
        cluster: str = "",
    ) -> None:
        """cluster: its name, which the samples have before the node's: nodes of two clusters may have one name."""
        self._before = f"{cluster}/" if cluster else ""
        self._read = read
        self._append = append
        self._interval_s = interval_s
        self._time_ns = time_ns
        self._last: dict[str, _Last] = {}
        self._left_out = 0  # samples not written since the last that was
        self._is_stopping = threading.Event()
        self._thread = threading.Thread(target=in_this_cluster(self._run), name="penstock-node-samples", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Take no more samples. Returns once the thread has ended, STOP_S at most."""
        self._is_stopping.set()
        self._thread.join(STOP_S)

    def _run(self) -> None:
        while not self._is_stopping.wait(self._interval_s):
            self.take()

    def take(self) -> None:
        """Sample every node that answers."""
        now_ns = self._time_ns()
        for node in self._read().answering:
            if self._is_stopping.is_set():
                return
            if node.stats is not None:
                try:
                    self._sample(node, node.stats, now_ns)
                except Exception as exc:
                    self._leave_out(exc)
        oldest_ns = now_ns - SILENCE_MAX_S * NS_PER_S
        self._last = {name: last for name, last in self._last.items() if last.snapshot.taken_at_ns > oldest_ns}

    def _sample(self, node: Node, stats: NodeStats, now_ns: int) -> None:
        last = self._last.get(node.name)
        before = last.snapshot if last is not None else None
        if before is None:
            is_new = abs(now_ns - node.began_ms * NS_PER_MS) <= START_MAX_S * NS_PER_S
        else:
            is_other = before.started_at_ns != stats.started_s * NS_PER_S
            is_new = is_other and node.has_begun_since(before.taken_at_ns // NS_PER_MS)
            # Another process that ran before has counted what it did elsewhere.
            before = None if is_other else before
        left_out = {name: lacks for name, topic in stats.topics.items() if (lacks := lacking(topic))}
        snapshot = _snapshot_of(stats, now_ns, None if is_new else before, left_out)
        previous = None if is_new else before or snapshot
        if previous is not None and last is not None and last.left_out:
            previous = _with_unknown(previous, snapshot, last.left_out)
        number = last.number + 1 if last is not None else 1
        sample = compose_sample(snapshot, previous, None, node=self._before + node.name, sequence=number)
        if _greatest_growth(sample) > GROWTH_MAX:
            self._last[node.name] = _Last(snapshot, number, left_out)
            raise UnreadableSampleError(f"{node.name} has counted more than {GROWTH_MAX} since its sample before")
        self._append(encode_sample(sample))
        self._last[node.name] = _Last(snapshot, number, left_out)
        if self._left_out:
            logger.info("samples of nodes go on left_out=%d", self._left_out)
            self._left_out = 0

    def _leave_out(self, error: Exception) -> None:
        if not self._left_out:
            is_expected = isinstance(error, PenstockError | OSError)
            logger.warning("samples of nodes left out error=%s", error, exc_info=None if is_expected else error)
        self._left_out += 1


def _greatest_growth(sample: Sample) -> int:
    tables = sample["topics"], sample["channels"]
    grown: list[int] = [sum(column) for table in tables for name, column in table.items() if f"{name}_total" in table]
    return max(*grown, sum(sum(counts[1::2]) for counts in sample["channels"]["latency"]))


def _with_unknown(
    previous: EngineSnapshot, now: EngineSnapshot, left_out: Mapping[str, Collection[str]]
) -> EngineSnapshot:
    """With the figures of now for what was left out before: what came in between is unknown, and no growth."""
    topics = {topic.topic_name: topic for topic in previous.topics}
    for topic in now.topics:
        name = topic.topic_name
        lacks = left_out.get(name, ())
        if "" in lacks or (lacks and name not in topics):
            topics[name] = topic
        elif lacks:
            found = [one for one in topic.channels if one.channel_name in lacks]
            topics[name] = replace(topics[name], channels=(*topics[name].channels, *found))
    return replace(previous, topics=tuple(topics.values()))


def _snapshot_of(
    stats: NodeStats, now_ns: int, before: EngineSnapshot | None, left_out: Mapping[str, Collection[str]]
) -> EngineSnapshot:
    """before: of the node's last sample in the same process."""
    topics = () if before is None else before.topics
    channels = {topic.topic_name: {one.channel_name: one for one in topic.channels} for topic in topics}
    return EngineSnapshot(
        sequence=0,
        taken_at_ns=now_ns,
        started_at_ns=stats.started_s * NS_PER_S,
        version=stats.version,
        health=stats.health,
        connection_count=0,
        producer_count=0,
        topics=tuple(
            topic_stats(_without(topic, left_out.get(name, ())), stats.topic_read_at_ms(name), channels.get(name))
            for name, topic in sorted(stats.topics.items())
            if "" not in left_out.get(name, ())
        ),
    )


def _without(topic: NodeTopic, channels: Collection[str]) -> NodeTopic:
    return replace(topic, channels={name: one for name, one in topic.channels.items() if name not in channels})


class DirectorySamples:
    """The log of samples of a console without an engine, whose data directory it holds. Any thread; `lock` guards the
    log, also while `store` or `log` is used."""

    def __init__(self, options: Options) -> None:
        clock = SystemClock()
        self._monotonic_ns = clock.monotonic_ns
        self._log = SamplesLog(
            options.data_path,
            files=Files(),
            clock=clock,
            background=InlineBackground(),
            retention_ms=options.samples_retention_ms,
            retention_bytes=options.samples_retention_bytes,
        )
        self._is_open = False
        self.lock = threading.RLock()

    @property
    def log(self) -> LogStore | None:
        """None while it is not open."""
        return self._log.log

    @property
    def store(self) -> LogTopicStore | None:
        """The samples as a topic of the log; None while it is not open."""
        topic = self._log.topic
        return topic.store if topic is not None and isinstance(topic.store, LogTopicStore) else None

    def open(self) -> None:
        """Open the log, or make it. Where the disk refuses, `append` tries again."""
        with self.lock:
            self._log.open()
            self._is_open = True

    def append(self, body: bytes) -> None:
        """Write a sample, and remove those past retention. Raises StorageError; then it was not written."""
        with self.lock:
            if not self._is_open:
                self.open()
            self._log.tick(self._monotonic_ns())
            self._log.append(body)

    def close(self) -> None:
        with self.lock:
            if self._is_open:
                self._log.close()
