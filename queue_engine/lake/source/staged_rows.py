"""The rows of one task on their way to Spark's driver, which publishes them.

Where the driver sees the task's directory for temporary files, as on one machine, they go there in a file, whatever
their size. Elsewhere they go in the task's result, compressed, and are in Java's memory on the driver.
"""

import os
import secrets
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import WriterCommitMessage

from queue_engine.vocabulary.errors import PipelineError

_COMPRESSED = pa.ipc.IpcWriteOptions(compression="zstd")
# Spark carries a result of less than 2 GiB.
_RESULT_BYTES_MAX = 1 << 30


def spark_directory() -> str:
    """The first directory for temporary files of the Spark process that started this one. Its name has an identifier
    that Spark makes for each driver and executor, so equal names are one directory. "" outside of Spark."""
    return os.environ.get("SPARK_LOCAL_DIRS", "").split(",")[0]


@dataclass(frozen=True)
class StagedRows(WriterCommitMessage):
    """Arrow batches in the IPC format, in a file or in memory; neither has any where the task had no row."""

    path: str = ""
    data: bytes = b""

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Raises OSError."""
        if self.path:
            with pa.OSFile(self.path) as file, pa.ipc.open_stream(file) as reader:
                yield from reader
        elif self.data:
            with pa.ipc.open_stream(self.data) as reader:
                yield from reader

    def remove(self) -> None:
        if self.path:
            Path(self.path).unlink(missing_ok=True)


def stage(batches: Iterator[pa.RecordBatch], driver_directory: str) -> StagedRows:
    """Take all rows of a task. driver_directory: the driver's `spark_directory`. Raises PipelineError for a row that
    is no message, and OSError."""
    if not driver_directory or driver_directory != spark_directory():
        buffer = pa.BufferOutputStream()
        if not _write(batches, buffer):
            return StagedRows()
        data = buffer.getvalue()
        if data.size > _RESULT_BYTES_MAX:
            raise PipelineError(
                f"a partition has {data.size:,} bytes, compressed, and a task can hand {_RESULT_BYTES_MAX:,} to the "
                "driver: nothing was published; write more partitions, or fewer rows under each batch_key"
            )
        return StagedRows(data=data.to_pybytes())
    path = os.path.join(driver_directory, f"penstock-{secrets.token_hex(8)}.arrow")
    try:
        with pa.OSFile(path, "wb") as file:
            if _write(batches, file):
                return StagedRows(path)
    except BaseException:
        with suppress(OSError):
            StagedRows(path).remove()
        raise
    StagedRows(path).remove()
    return StagedRows()


def _write(batches: Iterator[pa.RecordBatch], sink: pa.NativeFile) -> bool:
    """Write all rows. Returns False when there is none."""
    writer: pa.ipc.RecordBatchStreamWriter | None = None
    for batch in batches:
        if batch.num_rows == 0:
            continue
        _check(batch)
        if writer is None:
            writer = pa.ipc.new_stream(sink, batch.schema, options=_COMPRESSED)
        writer.write_batch(batch)
    if writer is None:
        return False
    writer.close()
    return True


def _check(batch: pa.RecordBatch) -> None:
    body = batch.column("body")
    if body.null_count:
        raise PipelineError("a row has no body (null): nothing was published; leave such rows out")
    if pc.min(pc.binary_length(body)).as_py() == 0:
        raise PipelineError(
            "a row has an empty body, and a message has 1 byte at least: nothing was published; leave such rows out"
        )
