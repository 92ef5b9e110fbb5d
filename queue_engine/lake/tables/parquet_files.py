"""Writes data files of a table: Parquet, each at its final name, with the statistics that readers skip files by.

    <table>/date=2026-11-22/part-<uuid>.parquet

There is no staging and no rename: a file counts when a commit names it, and never otherwise.

Any process that reaches the store may write a file, such as an executor of Spark; it returns a `DataFile`, and one
process commits them all (`LakeTable.commit`), which also makes them durable.
"""

import posixpath
import re
import time
import uuid
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from queue_engine.lake.tables.statistics import delta_statistics
from queue_engine.lake.tables.storage import TableStorage
from queue_engine.vocabulary.clock import NS_PER_MS
from queue_engine.vocabulary.errors import StoreError, StoreUnreachableError

ROW_GROUP_ROWS = 1 << 17
# The rows of a row group that are not yet written.
PENDING_BYTES_MAX = 64 << 20
DATA_FILE_NAME = re.compile(r"part-[0-9a-f-]{36}\.parquet")
# A value stands in the file's path as it is, which Delta would decode.
_PARTITION_VALUE = re.compile(r"[A-Za-z0-9._-]+")


@dataclass(frozen=True, slots=True)
class DataFile:
    """A data file that is written and whose commit is to come.

    path: relative to the table. size: bytes. partition: column → value, as text. statistics: Delta's, JSON
    (`numRecords`, `minValues`, `maxValues`, `nullCount`; times are ISO 8601 UTC, dates YYYY-MM-DD). modified_ms: Unix
    ms.
    """

    path: str
    size: int
    rows: int
    partition: dict[str, str]
    statistics: str
    modified_ms: int

    def encode(self) -> bytes:
        """JSON, to hand it to another process."""
        return orjson.dumps(asdict(self))

    @classmethod
    def decode(cls, data: bytes | str) -> "DataFile":
        return cls(**orjson.loads(data))


class DataFileWriter:
    """Writes one data file of one partition; `close` gives the `DataFile`, `abandon` removes the file.

    Used as a context, it is abandoned at an error, and else closed.
    """

    def __init__(
        self,
        storage: TableStorage,
        table: str,
        schema: pa.Schema,
        partition: dict[str, str],
        *,
        dictionary: bool | Sequence[str] = True,
        row_group_rows: int = ROW_GROUP_ROWS,
    ) -> None:
        """table: its path in the storage. schema: of the batches: the table's columns in their order, without those of
        the partition. partition: column → value, such as {"date": "2026-11-22"}. dictionary: the columns whose values
        are often the same, or all. Its methods raise OSError, and StoreError of an object store."""
        self._storage = storage
        self._schema = schema
        self._partition = partition
        self._row_group_rows = row_group_rows
        for column, value in partition.items():
            if not _PARTITION_VALUE.fullmatch(value):
                raise ValueError(f"partition {column}={value!r}: a value has letters, digits, dots, - and _ alone")
        folders = [f"{column}={value}" for column, value in partition.items()]
        self.path = posixpath.join(*folders, f"part-{uuid.uuid4()}.parquet")
        self._whole_path = posixpath.join(table, self.path)
        self._rows = 0
        self._pending: list[pa.Table] = []
        self._pending_rows = 0
        self._pending_bytes = 0
        self.file: DataFile | None = None
        self._is_abandoned = False
        if storage.is_local:
            storage.make_directory(posixpath.dirname(self._whole_path))
        with storage.sentences():
            self._stream = storage.filesystem.open_output_stream(storage.at_filesystem(self._whole_path))
            self._writer = pq.ParquetWriter(self._stream, schema, compression="zstd", use_dictionary=dictionary)

    def write(self, batch: pa.RecordBatch | pa.Table) -> None:
        """Append rows, in pieces as small as they come. Raises pa.ArrowInvalid for other columns."""
        table = pa.Table.from_batches([batch]) if isinstance(batch, pa.RecordBatch) else batch
        self._pending.append(table)
        self._pending_rows += table.num_rows
        self._pending_bytes += table.nbytes
        self._rows += table.num_rows
        if self._pending_rows >= self._row_group_rows or self._pending_bytes >= PENDING_BYTES_MAX:
            self._flush()

    def close(self) -> DataFile:
        """End the file. It is not durable before its commit."""
        self._flush(is_last=True)
        with self._storage.sentences():
            self._writer.close()
            size = self._stream.tell()
            self._stream.close()
        self.file = DataFile(
            path=self.path,
            size=size,
            rows=self._rows,
            partition=self._partition,
            statistics=delta_statistics(self._writer.writer.metadata, self._schema),
            modified_ms=time.time_ns() // NS_PER_MS,
        )
        return self.file

    def abandon(self, error: BaseException | None = None) -> None:
        """Remove the file, if that is possible. error: why; a store that gave no answer gets no further request, and
        the file is removed by its age."""
        self._is_abandoned = True
        # The stream is closed even where the writer fails: an open one is closed when its memory is freed, and then
        # stops all threads of this process for as long as the store gives no answer.
        acts: list[Callable[[], object]] = [self._writer.close, self._stream.close]
        if not isinstance(error, StoreUnreachableError):
            acts.append(lambda: self._storage.remove([self._whole_path]))
        for act in acts:
            try:
                act()
            except (OSError, StoreError, pa.ArrowException):
                pass

    def _flush(self, *, is_last: bool = False) -> None:
        if not self._pending_rows:
            return
        rows = pa.concat_tables(self._pending)
        # Whole row groups: the rest waits for more rows, unless the waiting rows are large.
        whole = 0 if is_last else len(rows) // self._row_group_rows * self._row_group_rows
        written, rest = rows.slice(0, whole or len(rows)), rows.slice(whole or len(rows))
        with self._storage.sentences():
            self._writer.write_table(written, row_group_size=self._row_group_rows)
        self._pending, self._pending_rows, self._pending_bytes = [rest], len(rest), rest.nbytes

    def __enter__(self) -> "DataFileWriter":
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if error is not None:
            self.abandon(error)
        elif self.file is None and not self._is_abandoned:
            self.close()


def write_data_file(
    storage: TableStorage,
    table: str,
    schema: pa.Schema,
    partition: dict[str, str],
    batches: Iterable[pa.RecordBatch | pa.Table],
    *,
    dictionary: bool | Sequence[str] = True,
    row_group_rows: int = ROW_GROUP_ROWS,
) -> DataFile:
    """Write one data file; a failure leaves none, as far as the store lets it. Arguments as of `DataFileWriter`."""
    with DataFileWriter(
        storage, table, schema, partition, dictionary=dictionary, row_group_rows=row_group_rows
    ) as writer:
        for batch in batches:
            writer.write(batch)
        return writer.close()


def existing_data_file(
    storage: TableStorage, table: str, path: str, schema: pa.Schema, partition: dict[str, str]
) -> DataFile:
    """A file that lies below the table already, as one to be committed. path: relative to the table; the other
    arguments are those of `DataFileWriter`. Raises OSError, pa.ArrowException."""
    whole_path = posixpath.join(table, path)
    with storage.filesystem.open_input_file(storage.at_filesystem(whole_path)) as stream:
        size = stream.size()
        metadata = pq.read_metadata(stream)
    return DataFile(
        path=path,
        size=size,
        rows=metadata.num_rows,
        partition=partition,
        statistics=delta_statistics(metadata, schema),
        modified_ms=time.time_ns() // NS_PER_MS,
    )
