"""A batch read of topics of the log: the driver plans it, the tasks read it."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition

from queue_engine.client.log_api.log_client import LogClient
from queue_engine.lake.source.nodes import urls_of
from queue_engine.lake.source.part_reader import read_parts
from queue_engine.lake.source.pushed_filters import push_filters
from queue_engine.lake.source.read_options import ReadOptions
from queue_engine.lake.source.read_plan import Bounds, Part, plan_parts, plan_ranges, tasks_of
from queue_engine.lake.source.stream_plan import key_of, states_of
from queue_engine.vocabulary.errors import OffsetGoneError, TopicMissingError

_ATTEMPTS = 3


class _PushedFilters:
    """The reader's `pushFilters`, which Spark calls in sessions with `spark.sql.python.filterPushdown.enabled` alone.

    In others, so by default, it refuses a reader whose `pushFilters.__func__` is another than its own. There it applies
    all filters itself, and a read is only slower.
    """

    __func__ = staticmethod(DataSourceReader.pushFilters)

    def __init__(self, push: Callable[[list[Filter]], Iterable[Filter]]) -> None:
        self._push = push

    def __call__(self, filters: list[Filter]) -> Iterable[Filter]:
        return self._push(filters)


class BatchReader(DataSourceReader):
    """One read. Its leases expire: Spark gives a source no sign when the last task has ended."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        self._bounds = Bounds()

    @property
    def pushFilters(self) -> "_PushedFilters":
        return _PushedFilters(self._push_filters)

    def _push_filters(self, filters: list[Filter]) -> Iterable[Filter]:
        self._bounds, left = push_filters(self._bounds, filters)
        return left

    def partitions(self) -> Sequence[InputPartition]:
        size = self._options.partition_bytes
        return [InputPartition((url, parts)) for url, found in self._parts() for parts in tasks_of(found, size)]

    def _parts(self) -> list[tuple[str, list[Part]]]:
        """The parts of each server."""
        found, missing = [], set(self._options.topics)
        planned: set[str] = set()  # keys of topics: a server may have two addresses
        for url in urls_of(self._options):
            with LogClient(url, self._options.token) as client:
                options = self._options
                if options.lookupd:
                    keys = {topic: key_of(state) for topic, state in states_of(client, options.topics).items()}
                    topics = tuple(topic for topic, key in keys.items() if key not in planned)
                    planned.update(keys.values())
                    missing -= set(topics)
                    options = replace(options, url=url, topics=topics)
                found.append((url, self._planned(client, options)))
        if self._options.lookupd and missing:
            raise TopicMissingError(f"no server that nsqlookupd names has {' or '.join(sorted(missing))}")
        return found

    def _planned(self, client: LogClient, options: ReadOptions) -> list[Part]:
        for attempt in range(_ATTEMPTS):
            ranges = plan_ranges(client, options, self._bounds)
            try:
                return plan_parts(client, options, ranges).parts
            except OffsetGoneError:
                # The oldest messages were removed between plan_ranges and the lease.
                if attempt == _ATTEMPTS - 1:
                    raise
        raise AssertionError("unreachable")

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if partition.value is not None:  # None: Spark's own partition when there is nothing to read
            url, parts = partition.value
            yield from read_parts(parts, replace(self._options, url=url))
