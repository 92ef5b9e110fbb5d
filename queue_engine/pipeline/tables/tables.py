"""The tables of a lake, opened once and kept while they are used."""

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence

import pyarrow as pa

from queue_engine.pipeline.tables.storage import TableStorage
from queue_engine.pipeline.tables.table import LakeTable
from queue_engine.vocabulary.clock import Clock

KEPT_MAX = 5_000


class LakeTables:
    """The tables of one storage. Those used last are kept open; several threads may use it.

    is_holder: whether this process holds the lake (lake_lock.py), and so mends what a power cut left of a table. On a
    disk all others only read.
    """

    def __init__(
        self,
        storage: TableStorage,
        *,
        is_holder: bool = True,
        clock: Clock | None = None,
        wait: Callable[[float], None] = time.sleep,
        kept_max: int = KEPT_MAX,
    ) -> None:
        """wait: sleeps so many seconds. kept_max: tables that are kept open."""
        self.storage = storage
        self._is_holder = is_holder
        self._clock = clock
        self._wait = wait
        self._kept_max = kept_max
        self._lock = threading.Lock()
        self._kept: OrderedDict[str, LakeTable] = OrderedDict()

    def open(self, path: str, schema: pa.Schema, partition_by: Sequence[str] = ("date",)) -> LakeTable:
        """The table at `path` in the storage, there or not: its first commit creates it. schema: as of `LakeTable`.

        Asks nothing of the store yet."""
        with self._lock:
            table = self._kept.pop(path, None)
            if table is None or table.schema != schema or table.partition_by != tuple(partition_by):
                table = LakeTable(
                    self.storage,
                    path,
                    schema,
                    partition_by,
                    is_holder=self._is_holder,
                    clock=self._clock,
                    wait=self._wait,
                )
            self._kept[path] = table
            while len(self._kept) > self._kept_max:
                self._kept.popitem(last=False)
            return table
