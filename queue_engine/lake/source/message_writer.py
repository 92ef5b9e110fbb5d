"""Writes rows as messages of a topic, each once, however often Spark runs a job, a task or a micro-batch.

Tasks publish nothing: they hand their rows to the driver (`staged_rows.py`), and once all are done it publishes them
in the order of the partitions. It cuts them into chunks and publishes each under a batch key of its own, made of the
job's name, the micro-batch of a stream and the chunk's number. The engine remembers the keys: it recognizes the chunks
that an earlier run published, and refuses other content under a used key. Chunks are published one behind the other, so
an earlier run has published the first ones, whichever moment ended it, and a run whose rows differ is refused at the
first difference, before it adds anything. How many partitions there are does not matter, their rows and their order
do.
"""

from collections.abc import Iterator, Sequence
from hashlib import blake2b

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import BinaryType, StringType, StructType

from queue_engine.client.log_api.log_client import LogClient
from queue_engine.lake.source.read_options import WriteOptions
from queue_engine.lake.source.staged_rows import StagedRows, spark_directory, stage
from queue_engine.vocabulary.errors import BatchConflictError, ReadOptionError

CHUNK_ROWS_MAX = 1_000
CHUNK_BYTES_MAX = 1 << 20


class _Writer:
    """Made on the driver; tasks get copies."""

    def __init__(self, options: WriteOptions, schema: StructType) -> None:
        _check_columns(schema)
        self._options = options
        self._driver_directory = spark_directory()

    def write(self, iterator: Iterator[pa.RecordBatch]) -> StagedRows:
        return stage(iterator, self._driver_directory)

    def _publish(self, messages: Sequence[WriterCommitMessage | None], batch_id: str) -> None:
        parts = _parts_of(messages)
        publish_parts(self._options, batch_id, parts)
        for part in parts:
            part.remove()

    def _discard(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        for part in _parts_of(messages):
            part.remove()


class MessageWriter(_Writer, DataSourceArrowWriter):
    """Publishes a data frame."""

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        self._publish(messages, "")

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        self._discard(messages)


class StreamMessageWriter(_Writer, DataSourceStreamArrowWriter):
    """Publishes the micro-batches of a stream. Batch keys belong to one checkpoint: a new one counts from 0."""

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        self._publish(messages, str(batchId))

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        self._discard(messages)


def _parts_of(messages: Sequence[WriterCommitMessage | None]) -> list[StagedRows]:
    """The results of the tasks that succeeded, in the order of the partitions."""
    return [one for one in messages if isinstance(one, StagedRows)]


def _check_columns(schema: StructType) -> None:
    names = {one.name for one in schema}
    if "body" not in names or not names <= {"body", "key"}:
        raise ReadOptionError(
            f"the columns {', '.join(sorted(names))} can't be published: select body, or body and key"
        )
    for one in schema:
        if not isinstance(one.dataType, BinaryType | StringType):
            raise ReadOptionError(f"column {one.name} is {one.dataType.simpleString()}: it has to be binary or string")


def publish_parts(options: WriteOptions, batch_id: str, parts: Sequence[StagedRows]) -> tuple[int, int]:
    """Publish the rows of all partitions, in their order. batch_id: the micro-batch's, "" outside a stream. Returns
    how many rows there are, and how many of them an earlier run had published. Raises BatchConflictError when that was
    other rows, and as `LogClient.write`."""
    rows = repeated = 0
    batches = (batch for part in parts for batch in part.batches())
    with LogClient(options.url, options.token) as client:
        for index, (bodies, keys) in enumerate(chunks_of(batches)):
            try:
                written = client.write(
                    options.topic,
                    bodies,
                    batch_key=batch_key_of(options.batch_key, batch_id, index),
                    keys=keys,
                    is_replayed=options.is_replayed,
                    number=options.number,
                )
            except BatchConflictError as exc:
                raise BatchConflictError(
                    f"rows {rows:,} to {rows + len(bodies) - 1:,} are others than were published to {options.topic} "
                    f"under batch_key={options.batch_key}{batch_id and f', micro-batch {batch_id}'} before, or they "
                    "come in another order: nothing was added. Write the same rows in the same order (orderBy, where "
                    f"the plan shuffles), or write other rows under another batch_key ({exc})"
                ) from exc
            rows += len(bodies)
            repeated += len(bodies) if written.is_repeat else 0
    return rows, repeated


def batch_key_of(job: str, batch_id: str, chunk: int) -> bytes:
    """16 bytes. The job's length comes first, so that no two lists of arguments hash the same text."""
    text = job.encode()
    # Earlier versions had the partition's number where 0 is: their messages of the first one are recognized.
    return blake2b(len(text).to_bytes(8, "big") + text + f"{batch_id}/0/{chunk}".encode(), digest_size=16).digest()


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
            weight = len(body) + len(key or b"")
            if bodies and (len(bodies) >= CHUNK_ROWS_MAX or size + weight > CHUNK_BYTES_MAX):
                yield bodies, keys if has_keys else None
                bodies, keys, size = [], [], 0
            bodies.append(body)
            keys.append(key or b"")
            size += weight
    if bodies:
        yield bodies, keys if has_keys else None
