"""Writes the history rows of a Spark frame to data files of a table."""

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from queue_engine.lake.history.day_files import write_batches
from queue_engine.lake.history.levels import DAY_S
from queue_engine.lake.history.schema import ORDER
from queue_engine.lake.tables.parquet_files import DataFile
from queue_engine.lake.tables.storage import TableStorage


def write_rows(storage: TableStorage, level: str, rows: DataFrame) -> list[DataFile]:
    """Compute rows (in: `HISTORY_ROWS` of `level`) and write them to one file a day; none where there are none.

    Raises Spark's errors. A file counts when it is committed.
    """

    def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for file in write_batches(storage, level, batches):
            yield pa.record_batch({"file": [file.encode().decode()]})

    by_day = rows.withColumn("day_s", F.col("t") - F.col("t") % DAY_S)
    # repartition, not coalesce: the work before it stays parallel, and a stateful stream keeps its partitions.
    made = by_day.repartition(1).sortWithinPartitions("day_s", *ORDER).drop("day_s").mapInArrow(write, "file string")
    return [DataFile.decode(row["file"]) for row in made.collect()]
