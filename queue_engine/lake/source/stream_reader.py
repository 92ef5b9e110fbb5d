"""A stream of topics of the log: micro-batches between two offsets of `stream_plan.py`."""

import logging
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from queue_engine.client.log_api.log_client import LogClient
from queue_engine.lake.source.missing_report import report_missing
from queue_engine.lake.source.nodes import urls_of
from queue_engine.lake.source.part_reader import read_parts
from queue_engine.lake.source.read_options import ReadOptions
from queue_engine.lake.source.read_plan import Part, plan_parts, tasks_of
from queue_engine.lake.source.stream_plan import (
    Offsets,
    batch_ranges,
    initial_offsets,
    key_of,
    latest_offsets,
    next_offsets,
    series_of,
    states_of,
)
from queue_engine.lake.source.wanted_range import WantedRange
from queue_engine.vocabulary.errors import EngineUnreachableError, LeaseLostError
from queue_engine.wire.topic_state import TopicState

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Node:
    """A server, and the state of each topic that it has."""

    url: str
    states: dict[str, TopicState]

    def own(self, offsets: Offsets) -> Offsets:
        """Those of its topics, out of a stream's offsets."""
        keys = {key_of(state) for state in self.states.values()}
        return {key: offset for key, offset in offsets.items() if key in keys}


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """One stream. The driver has one while the query runs; tasks have copies.

    With nsqlookupds servers come and go: a new one is read from its oldest message on, and the stream waits for one
    that is away, whatever its address is when it comes back.
    """

    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        self._until: list[_Node] | None = None  # with the trigger availableNow: the states at its start
        self._seen: dict[str, TopicState] = {}  # by key: for the report on a topic that was deleted
        self._leases: dict[tuple[str, str], list[tuple[str, str]]] = {}  # server and name

    def _client(self, url: str) -> LogClient:
        return LogClient(url, self._options.token)

    def initialOffset(self) -> Offsets:
        if not self._options.lookupd:
            with self._client(self._options.url) as client:
                return initial_offsets(client, self._options)
        offsets: Offsets = {}
        for node in self._nodes():
            with self._client(node.url) as client:
                offsets |= initial_offsets(client, replace(self._options, topics=tuple(node.states)))
        return offsets

    def getDefaultReadLimit(self) -> ReadLimit:
        rows = self._options.rows_per_trigger
        return ReadAllAvailable() if rows is None else ReadMaxRows(rows)

    def prepareForTriggerAvailableNow(self) -> None:
        self._until = self._nodes()

    def latestOffset(self, start: Offsets, limit: ReadLimit) -> Offsets:
        nodes = self._nodes() if self._until is None else self._until
        rows_max = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        if not self._options.lookupd:
            (node,) = nodes
            return next_offsets(node.url, start, node.states, self._options, rows_max, self._seen)
        share = None if rows_max is None else max(rows_max // max(len(nodes), 1), 1)
        offsets = dict(start)  # those of servers that are away stay
        for node in nodes:
            offsets |= next_offsets(node.url, node.own(start), node.states, self._options, share, self._seen)
        return offsets

    def reportLatestOffset(self) -> Offsets:
        offsets: Offsets = {}
        for node in self._nodes():
            offsets |= latest_offsets(node.states)
        return offsets

    def _nodes(self) -> list[_Node]:
        """The servers that answer. Raises EngineUnreachableError where there is one alone and it does not."""
        nodes: list[_Node] = []
        for url in urls_of(self._options):
            try:
                with self._client(url) as client:
                    states = states_of(client, self._options.topics)
            except EngineUnreachableError as exc:
                if not self._options.lookupd:
                    raise
                logger.warning("the stream waits for a server: %s", exc)
                continue
            keys = {key_of(state) for node in nodes for state in node.states.values()}  # one may have two addresses
            nodes.append(_Node(url, {topic: state for topic, state in states.items() if key_of(state) not in keys}))
            self._seen |= {key_of(state): state for state in states.values()}
        return nodes

    def partitions(self, start: Offsets, end: Offsets) -> Sequence[InputPartition]:
        if start == end:
            return []
        batch = (repr(sorted(start.items())), repr(sorted(end.items())))
        self._release(batch)
        nodes = self._nodes()
        if self._options.lookupd:
            self._check_present(start, end, nodes)
        tasks: list[tuple[str, list[Part]]] = []
        for node in nodes:
            own_start, own_end = (node.own(start), node.own(end)) if self._options.lookupd else (start, end)
            with self._client(node.url) as client:
                ranges, missing = batch_ranges(node.url, own_start, own_end, node.states, self._options)
                wanted = [
                    WantedRange(gap.topic, gap.number, gap.id_base, gap.first_offset, gap.next_offset)
                    for gap in missing
                ]
                report_missing(wanted, missing, self._options.damage_path)
                plan = plan_parts(client, self._options, ranges)
            self._leases.setdefault(batch, []).extend((node.url, lease) for lease in plan.leases)
            tasks += [(node.url, parts) for parts in tasks_of(plan.parts, self._options.partition_bytes)]
        return [InputPartition(task) for task in tasks]

    @staticmethod
    def _check_present(start: Offsets, end: Offsets, nodes: Sequence[_Node]) -> None:
        """A batch that was begun is read whole, or not at all."""
        present = {key for node in nodes for key in node.own(end)}
        for key, after in end.items():
            if start.get(key, after) < after and key not in present:
                one = series_of(key)
                raise EngineUnreachableError(
                    f"the server with topic {one.topic}, number {one.number}, is away, and this batch has its messages"
                )

    def _release(self, batch: tuple[str, str] | None) -> None:
        """Release the leases of earlier batches: Spark plans a batch when those before it have ended."""
        ended = [lease for one in list(self._leases) if one != batch for lease in self._leases.pop(one)]
        for url in dict.fromkeys(url for url, _ in ended):
            try:
                with self._client(url) as client:
                    for lease in [lease for at, lease in ended if at == url]:
                        with suppress(LeaseLostError):  # it has expired, or its topic was deleted
                            client.release(lease)
            except EngineUnreachableError:
                if not self._options.lookupd:
                    raise

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        url, parts = partition.value
        yield from read_parts(parts, replace(self._options, url=url))

    def stop(self) -> None:
        try:
            self._release(None)
        except EngineUnreachableError:
            pass  # The leases expire.
