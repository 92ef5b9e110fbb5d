"""The Spark data source `penstock`: topics of the log as rows.

    spark.dataSource.register(PenstockDataSource)
    spark.read.format("penstock").option("url", "http://127.0.0.1:4151").option("topic", "orders").load()

Its options are those of `read_options.py`, its columns those of `schemas.py`.
"""

from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

from queue_engine.pipeline.batch_reader import BatchReader
from queue_engine.pipeline.read_options import read_options
from queue_engine.pipeline.schemas import MESSAGES


class PenstockDataSource(DataSource):
    """What Spark makes readers and writers of."""

    @classmethod
    def name(cls) -> str:
        return "penstock"

    def schema(self) -> StructType:
        return MESSAGES

    def reader(self, schema: StructType) -> BatchReader:
        return BatchReader(read_options(self.options))
