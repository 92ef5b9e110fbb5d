"""Rows of a query as a person or a program reads them: a table, CSV, JSON or Parquet.

Bytes are shown as the UTF-8 text that they are, and else as \\x and their hex digits. NULL is empty in a table and in
CSV. Times are UTC. In CSV, text that a spreadsheet takes for a formula has a ' before it; JSON and Parquet are exact.
"""

import csv
import io
import json
from collections.abc import Callable, Iterable, Iterator
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from queue_engine.vocabulary.errors import QueryError
from queue_engine.vocabulary.terminal import on_one_line

TABLE, CSV, JSON, PARQUET = "table", "csv", "json", "parquet"
FORMATS = (TABLE, CSV, JSON, PARQUET)
CELL_LENGTH_MAX = 80
# The widths of a table's columns are those of its first rows.
MEASURED_ROWS = 1_000
# How a cell begins that a spreadsheet takes for a formula, which can send other cells elsewhere.
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def write_rows(batches: Iterable[pa.RecordBatch], form: str, sink: BinaryIO) -> None:
    """Write all rows in the format `form`; the first batch may have none, and gives the columns. Raises QueryError for
    a value that the format has no place for, and the errors of `batches` and of `sink`."""
    _WRITERS[form](iter(batches), sink)


def _write_table(batches: Iterator[pa.RecordBatch], sink: BinaryIO) -> None:
    first: list[list[str]] = []
    names: list[str] = []
    is_number: list[bool] = []
    for batch in batches:
        if not names:
            names = [_cut(on_one_line(name)) for name in batch.schema.names]
            is_number = [_is_number(one.type) for one in batch.schema]
        first += [[_cut(on_one_line(text_of(value))) for value in row] for row in _rows(batch)]
        if len(first) >= MEASURED_ROWS:
            break
    widths = [max(len(row[column]) for row in [names, *first]) for column in range(len(names))]

    def write(row: list[str]) -> None:
        cells = [
            text.rjust(width) if right else text.ljust(width)
            for text, width, right in zip(row, widths, is_number, strict=True)
        ]
        sink.write(("  ".join(cells).rstrip() + "\n").encode())

    for row in [names, *first]:
        write(row)
    for batch in batches:
        for values in _rows(batch):
            write([_cut(on_one_line(text_of(value))) for value in values])


def _write_csv(batches: Iterator[pa.RecordBatch], sink: BinaryIO) -> None:
    is_first = True
    for batch in batches:
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        if is_first:
            writer.writerow([_safe_cell(name) for name in batch.schema.names])
        is_first = False
        writer.writerows([_safe_cell(value) for value in row] for row in _rows(batch))
        sink.write(text.getvalue().encode())


def _write_json(batches: Iterator[pa.RecordBatch], sink: BinaryIO) -> None:
    """An object a line. Of columns with one name the last is there."""
    for batch in batches:
        names = batch.schema.names
        for row in _rows(batch):
            content = {name: _plain(value) for name, value in zip(names, row, strict=True)}
            sink.write(json.dumps(content, ensure_ascii=False, allow_nan=False).encode() + b"\n")


def _write_parquet(batches: Iterator[pa.RecordBatch], sink: BinaryIO) -> None:
    writer: pq.ParquetWriter | None = None
    try:
        for batch in batches:
            if writer is None:
                writer = pq.ParquetWriter(sink, batch.schema, compression="zstd")
            if batch.num_rows:
                writer.write_batch(batch)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as exc:
        raise QueryError(f"Parquet has no place for a column of the result: {exc}") from exc
    finally:
        if writer is not None:
            writer.close()


_WRITERS: dict[str, Callable[[Iterator[pa.RecordBatch], BinaryIO], None]] = {
    TABLE: _write_table,
    CSV: _write_csv,
    JSON: _write_json,
    PARQUET: _write_parquet,
}


def _rows(batch: pa.RecordBatch) -> Iterator[tuple[Any, ...]]:
    columns = [_values(batch.column(place), name) for place, name in enumerate(batch.schema.names)]
    return zip(*columns, strict=True)


def _values(column: pa.Array, name: str) -> list[Any]:
    """Raises QueryError for values that neither Python nor a text can show."""
    try:
        return list(column.to_pylist())
    except (ValueError, OverflowError, pa.ArrowException):
        pass  # a time beyond the year 9999, such as infinity
    try:
        if pa.types.is_temporal(column.type):
            return list(column.view(pa.int64() if column.type.bit_width == 64 else pa.int32()).to_pylist())
        return list(column.cast(pa.string()).to_pylist())
    except pa.ArrowException as exc:
        raise QueryError(f"The column {name} has values that can't be shown; cast it to VARCHAR.") from exc


def text_of(value: Any) -> str:
    """A value as a cell shows it."""
    if value is None:
        return ""
    if isinstance(value, bytes):
        return bytes_text(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, datetime):
        return value.replace(tzinfo=None).isoformat(" ")
    if isinstance(value, list | dict | tuple):
        return json.dumps(_plain(value), ensure_ascii=False)
    return str(value)


def bytes_text(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return "\\x" + value.hex()


def _plain(value: Any) -> Any:
    """A value of JSON's types. Numbers that JSON's readers would round, and NaN, are text."""
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if value - value == 0 else str(value)
    if isinstance(value, bytes):
        return bytes_text(value)
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() and value.as_tuple().exponent == 0 else str(value)
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, dict):
        return {str(name): _plain(one) for name, one in value.items()}
    if isinstance(value, list):
        if value and all(isinstance(one, tuple) and len(one) == 2 for one in value):  # a map
            return {text_of(name): _plain(one) for name, one in value}
        return [_plain(one) for one in value]
    return str(value)


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def _safe_cell(value: Any) -> str:
    """A value's text for a cell of CSV, which spreadsheets open: text that would be a formula there begins with '."""
    text = text_of(value)
    return f"'{text}" if text.startswith(_FORMULA) and isinstance(value, str | bytes) else text


def _cut(text: str) -> str:
    return text if len(text) <= CELL_LENGTH_MAX else text[: CELL_LENGTH_MAX - 1] + "…"
