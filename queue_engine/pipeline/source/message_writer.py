"""Writes rows as messages of a topic, each once, however often Spark runs a task.

A task cuts its rows into chunks and publishes each under a batch key of its own, made of the job's name, the
micro-batch of a stream, the partition and the chunk's number. The engine remembers the keys: it recognizes the chunks
that a failed attempt had published when the next attempt sends them again, and refuses other content under a used key.
So the rows of a partition, and their order, have to be the same at every attempt.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import blake2b

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import BinaryType, StringType, StructType

from queue_engine.pipeline.source.log_client import LogClient
from queue_engine.pipeline.source.read_options import WriteOptions
from queue_engine.vocabulary.errors import PipelineError, ReadOptionError

CHUNK_ROWS_MAX = 1_000
CHUNK_BYTES_MAX = 1 << 20
# The local property of a task that holds the number of its micro-batch.
_BATCH_ID = "streaming.sql.batchId"


@dataclass(frozen=True)
class WrittenPart(WriterCommitMessage):
    """The rows that one task published. known: those of them that an earlier attempt had published."""

    rows: int
    known: int


class _Writer:
    def __init__(self, options: WriteOptions, schema: StructType) -> None:
        _check_columns(schema)
        self._options = options


class MessageWriter(_Writer, DataSourceArrowWriter):
    """Publishes a data frame."""

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WrittenPart:
        return write_part(self._options, "", _task().partitionId(), iterator)


class StreamMessageWriter(_Writer, DataSourceStreamArrowWriter):
    """Publishes the micro-batches of a stream. Batch keys belong to one checkpoint: a new one counts from 0."""

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WrittenPart:
        batch_id = _task().getLocalProperty(_BATCH_ID)
        if batch_id is None:
            raise PipelineError(
                f"this version of Spark gives its tasks no {_BATCH_ID}: rows can't be written once each"
            )
        return write_part(self._options, batch_id, _task().partitionId(), iterator)


def _task() -> TaskContext:
    context = TaskContext.get()
    assert context is not None
    return context


def _check_columns(schema: StructType) -> None:
    names = {one.name for one in schema}
    if "body" not in names or not names <= {"body", "key"}:
        raise ReadOptionError(
            f"the columns {', '.join(sorted(names))} can't be published: select body, or body and key"
        )
    for one in schema:
        if not isinstance(one.dataType, BinaryType | StringType):
            raise ReadOptionError(f"column {one.name} is {one.dataType.simpleString()}: it has to be binary or string")


def write_part(options: WriteOptions, batch_id: str, partition: int, batches: Iterator[pa.RecordBatch]) -> WrittenPart:
    """Publish one partition's rows. batch_id: the micro-batch's, "" outside a stream."""
    rows = known = 0
    with LogClient(options.url, options.token) as client:
        for index, (bodies, keys) in enumerate(chunks_of(batches)):
            written = client.write(
                options.topic,
                bodies,
                batch_key=batch_key_of(options.batch_key, batch_id, partition, index),
                keys=keys,
                is_replayed=options.is_replayed,
                number=options.number,
            )
            rows += len(bodies)
            known += len(bodies) if written.is_known else 0
    return WrittenPart(rows, known)


def batch_key_of(job: str, batch_id: str, partition: int, chunk: int) -> bytes:
    """16 bytes. The job's length comes first, so that no two lists of arguments hash the same text."""
    text = job.encode()
    return blake2b(
        len(text).to_bytes(8, "big") + text + f"{batch_id}/{partition}/{chunk}".encode(), digest_size=16
    ).digest()


def chunks_of(batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[list[bytes], list[bytes] | None]]:
    """Bodies and keys (b"" for none; None when no column has them) of at most CHUNK_ROWS_MAX rows and CHUNK_BYTES_MAX
    bytes, a larger message alone. Where chunks end does not depend on where batches do."""
    bodies: list[bytes] = []
    keys: list[bytes] = []
    size = 0
    has_keys = False
    for batch in batches:
        has_keys = "key" in batch.schema.names
        body_column = batch.column("body").cast(pa.binary()).to_pylist()
        key_column = batch.column("key").cast(pa.binary()).to_pylist() if has_keys else [None] * batch.num_rows
        for body, key in zip(body_column, key_column, strict=True):
            if body is None:
                raise PipelineError("a row without a body can't be published")
            weight = len(body) + len(key or b"")
            if bodies and (len(bodies) >= CHUNK_ROWS_MAX or size + weight > CHUNK_BYTES_MAX):
                yield bodies, keys if has_keys else None
                bodies, keys, size = [], [], 0
            bodies.append(body)
            keys.append(key or b"")
            size += weight
    if bodies:
        yield bodies, keys if has_keys else None
