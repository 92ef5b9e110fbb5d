"""The Spark data source `penstock`: topics of the log as rows.

    spark.read.format("penstock").option("url", "http://127.0.0.1:4151").option("topic", "orders").load()

    frame.select("body", "key").write.format("penstock").mode("append").options(url=…, topic=…, batch_key=…).save()

An installation has it in every session (`pyspark_penstock.py`); elsewhere
`spark.dataSource.register(PenstockDataSource)` stands before. `read_options.py` has its options, `schemas.py` its
columns.
"""

from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

from queue_engine.lake.source.batch_reader import BatchReader
from queue_engine.lake.source.message_writer import MessageWriter, StreamMessageWriter
from queue_engine.lake.source.read_options import WriteOptions, read_options, write_options
from queue_engine.lake.source.schemas import MESSAGES
from queue_engine.lake.source.stream_reader import StreamReader
from queue_engine.vocabulary.errors import ReadOptionError


class PenstockDataSource(DataSource):
    """Makes readers and writers for Spark."""

    @classmethod
    def name(cls) -> str:
        return "penstock"

    def schema(self) -> StructType:
        return MESSAGES

    def reader(self, schema: StructType) -> BatchReader:
        return BatchReader(read_options(self.options))

    def streamReader(self, schema: StructType) -> StreamReader:
        return StreamReader(read_options(self.options))

    def writer(self, schema: StructType, overwrite: bool) -> MessageWriter:
        return MessageWriter(self._write_options(overwrite), schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamMessageWriter:
        return StreamMessageWriter(self._write_options(overwrite), schema)

    def _write_options(self, overwrite: bool) -> WriteOptions:
        if overwrite:
            raise ReadOptionError("a topic can't be overwritten: append to it")
        return write_options(self.options)
