"""Delta's statistics of a data file, from the statistics that Parquet has of its row groups.

Of columns with numbers, times, dates and short texts; a column whose values can't be compared, such as bytes, has its
null count alone. A longer text has no maximum and a cut minimum.
"""

import math
from datetime import UTC, date, datetime
from typing import Any

import orjson
import pyarrow as pa

TEXT_LENGTH_MAX = 64


def delta_statistics(metadata: Any, schema: pa.Schema) -> str:
    """metadata: pyarrow's FileMetaData. Returns JSON: numRecords, minValues, maxValues, nullCount."""
    minimum: dict[str, Any] = {}
    maximum: dict[str, Any] = {}
    nulls: dict[str, int] = {}
    for index in range(metadata.num_columns):
        name = metadata.schema.column(index).path
        if schema.get_field_index(name) < 0:
            continue  # a part of a list or of a struct
        parts = [metadata.row_group(group).column(index).statistics for group in range(metadata.num_row_groups)]
        if any(one is None or not one.has_null_count for one in parts):
            continue
        nulls[name] = sum(one.null_count for one in parts)
        kind = schema.field(name).type
        if not _is_ordered(kind):
            continue
        filled = [one for one in parts if one.num_values]
        if not filled or not all(one.has_min_max for one in filled):
            continue
        low = _value(min(one.min for one in filled))
        high = _value(max(one.max for one in filled))
        if low is not None:
            minimum[name] = low[:TEXT_LENGTH_MAX] if pa.types.is_string(kind) else low
        if high is not None and (not pa.types.is_string(kind) or len(high) <= TEXT_LENGTH_MAX):
            maximum[name] = high
    content = {"numRecords": metadata.num_rows, "minValues": minimum, "maxValues": maximum, "nullCount": nulls}
    return orjson.dumps(content).decode()


def _is_ordered(kind: pa.DataType) -> bool:
    types = pa.types
    return bool(
        types.is_integer(kind)
        or types.is_floating(kind)
        or types.is_timestamp(kind)
        or types.is_date(kind)
        or types.is_string(kind)
    )


def _value(value: Any) -> Any:
    """As Delta writes it in JSON; None when it has no place there."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, datetime):
        return value.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    if isinstance(value, date):
        return value.isoformat()
    return value
