"""The columns that jobs read and write, as a Spark schema; each has a comment with its unit and source."""

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_type
from pyspark.sql.types import StructField, StructType

from queue_engine.lake.source import arrow_schemas


def spark_schema(schema: pa.Schema) -> StructType:
    """The same columns, with their comments."""
    return StructType([_field(one) for one in schema])


def _field(one: pa.Field) -> StructField:
    return StructField(
        one.name, from_arrow_type(one.type), one.nullable, {"comment": one.metadata[b"comment"].decode()}
    )


MESSAGES = spark_schema(arrow_schemas.MESSAGES)
"""One row for each message of a topic of the log."""
