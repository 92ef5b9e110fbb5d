"""A batch read of topics of the log: the driver plans it, the tasks read it."""

from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition

from queue_engine.pipeline.source.log_client import LogClient
from queue_engine.pipeline.source.part_reader import read_parts
from queue_engine.pipeline.source.pushed_filters import push_filters
from queue_engine.pipeline.source.read_options import ReadOptions
from queue_engine.pipeline.source.read_plan import Bounds, Part, parts_of, plan_parts, plan_ranges, tasks_of
from queue_engine.vocabulary.errors import OffsetGoneError

_ATTEMPTS = 3


class BatchReader(DataSourceReader):
    """One read. Its leases expire: Spark does not tell a source when the last task has ended."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        self._bounds = Bounds()

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        if self._options.parts:
            return filters
        self._bounds, left = push_filters(self._bounds, filters)
        return left

    def partitions(self) -> Sequence[InputPartition]:
        return [InputPartition(parts) for parts in tasks_of(self._parts(), self._options.partition_bytes)]

    def _parts(self) -> list[Part]:
        if self._options.parts:
            return parts_of(self._options.parts)
        with LogClient(self._options.url, self._options.token) as client:
            return self._planned(client)

    def _planned(self, client: LogClient) -> list[Part]:
        for attempt in range(_ATTEMPTS):
            ranges = plan_ranges(client, self._options, self._bounds)
            try:
                return plan_parts(client, self._options, ranges).parts
            except OffsetGoneError:
                # The oldest messages were removed between plan_ranges and the lease.
                if attempt == _ATTEMPTS - 1:
                    raise
        raise AssertionError("unreachable")

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if partition.value is not None:  # None: Spark's own partition when there is nothing to read
            yield from read_parts(partition.value, self._options)
