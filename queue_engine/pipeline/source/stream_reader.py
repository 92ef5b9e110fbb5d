"""A stream of topics of the log: micro-batches between two offsets of `stream_plan.py`."""

from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from queue_engine.pipeline.source.log_client import LogClient
from queue_engine.pipeline.source.missing_report import report_missing
from queue_engine.pipeline.source.part_reader import read_parts
from queue_engine.pipeline.source.read_options import ReadOptions
from queue_engine.pipeline.source.read_plan import plan_parts, tasks_of
from queue_engine.pipeline.source.stream_plan import (
    Offsets,
    batch_ranges,
    initial_offsets,
    key_of,
    latest_offsets,
    next_offsets,
    states_of,
)
from queue_engine.pipeline.source.wanted_range import WantedRange
from queue_engine.vocabulary.errors import EngineUnreachableError, LeaseLostError
from queue_engine.wire.topic_state import TopicState


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """One stream. The driver has one while the query runs; tasks have copies."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        self._until: dict[str, TopicState] | None = None  # with the trigger availableNow: the states at its start
        self._seen: dict[str, TopicState] = {}  # by key: for the report on a topic that was deleted
        self._leases: dict[tuple[str, str], list[str]] = {}

    def _client(self) -> LogClient:
        return LogClient(self._options.url, self._options.token)

    def initialOffset(self) -> Offsets:
        with self._client() as client:
            return initial_offsets(client, self._options)

    def getDefaultReadLimit(self) -> ReadLimit:
        rows = self._options.rows_per_trigger
        return ReadAllAvailable() if rows is None else ReadMaxRows(rows)

    def prepareForTriggerAvailableNow(self) -> None:
        self._until = self._states()

    def latestOffset(self, start: Offsets, limit: ReadLimit) -> Offsets:
        states = self._states() if self._until is None else self._until
        rows_max = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        return next_offsets(self._options.url, start, states, self._options, rows_max, self._seen)

    def reportLatestOffset(self) -> Offsets:
        return latest_offsets(self._states())

    def _states(self) -> dict[str, TopicState]:
        with self._client() as client:
            states = states_of(client, self._options.topics)
        self._seen |= {key_of(state): state for state in states.values()}
        return states

    def partitions(self, start: Offsets, end: Offsets) -> Sequence[InputPartition]:
        if start == end:
            return []
        with self._client() as client:
            batch = (repr(sorted(start.items())), repr(sorted(end.items())))
            self._release(client, batch)
            states = states_of(client, self._options.topics)
            ranges, missing = batch_ranges(client.url, start, end, states, self._options)
            wanted = [
                WantedRange(gap.topic, gap.number, gap.id_base, gap.first_offset, gap.next_offset) for gap in missing
            ]
            report_missing(wanted, missing, self._options.damage_path)
            plan = plan_parts(client, self._options, ranges)
        self._leases.setdefault(batch, []).extend(plan.leases)
        return [InputPartition(parts) for parts in tasks_of(plan.parts, self._options.partition_bytes)]

    def _release(self, client: LogClient, batch: tuple[str, str] | None) -> None:
        """Release the leases of earlier batches: Spark plans a batch when those before it have ended."""
        for one in [one for one in self._leases if one != batch]:
            for lease in self._leases.pop(one):
                try:
                    client.release(lease)
                except LeaseLostError:
                    pass  # The lease has expired, or its topic was deleted.

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        yield from read_parts(partition.value, self._options)

    def stop(self) -> None:
        try:
            with self._client() as client:
                self._release(client, None)
        except EngineUnreachableError:
            pass  # The leases expire.
