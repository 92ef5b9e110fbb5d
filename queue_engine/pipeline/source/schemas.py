"""The columns that jobs read and write, as a Spark schema; each has a comment with its unit and source."""

import pyarrow as pa
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    DataType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from queue_engine.pipeline.source import arrow_schemas

_TYPES: dict[pa.DataType, DataType] = {
    pa.string(): StringType(),
    pa.int64(): LongType(),
    arrow_schemas.TIMESTAMP: TimestampType(),
    pa.binary(): BinaryType(),
    pa.bool_(): BooleanType(),
}


def _spark_schema(schema: pa.Schema) -> StructType:
    return StructType(
        [
            StructField(one.name, _TYPES[one.type], one.nullable, {"comment": one.metadata[b"comment"].decode()})
            for one in schema
        ]
    )


MESSAGES = _spark_schema(arrow_schemas.MESSAGES)
"""One row for each message of a topic of the log."""
