"""Makes a Spark column of a boolean expression, by Spark's functions alone: Spark gets no text to read as SQL.

Numbers are doubles, so that no overflow ends a job; a result that is not finite is null; a text is null unless it is
UTF-8; hours and days are UTC's in any time zone of the session.
"""

import operator
import sys
from functools import reduce

from pyspark.sql import Column as SparkColumn
from pyspark.sql import functions as F

from queue_engine.lake.expression.expressions import Expression
from queue_engine.lake.expression.nodes import (
    NUMBER_TEXT,
    And,
    Arithmetic,
    Call,
    Cast,
    Column,
    Comparison,
    Constant,
    IsNull,
    JsonField,
    JsonPath,
    Kind,
    Like,
    Membership,
    Node,
    Not,
    Or,
)

_US_PER_HOUR = 3_600_000_000
_HOURS_PER_DAY = 24
_EPOCH = "1970-01-01"
# The operators of Python make Spark's columns.
_COMPARISONS = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_SIGNS = {"+": operator.add, "-": operator.sub, "*": operator.mul}
_NUMBER = rf"\A{NUMBER_TEXT.pattern}(?![\s\S])"


def spark_column(expression: Expression) -> SparkColumn:
    """A boolean column of a frame with the columns of COLUMNS that the expression names; never null."""
    return F.coalesce(_column_of(expression.root), F.lit(False))


def _column_of(node: Node) -> SparkColumn:
    match node:
        case Constant(value=constant, kind=kind):
            return F.timestamp_micros(F.lit(constant)) if kind == "time" else F.lit(constant)
        case Column(name=name, kind=kind):
            return F.col(name).cast("double") if kind == "number" else F.col(name)
        case JsonField(path=path):
            return _json_field(path)
        case Cast(value=inner, kind=kind):
            return _as(_column_of(inner), inner.kind, kind)
        case Call(function=function, arguments=arguments):
            return _call(function, arguments)
        case Arithmetic(operator=sign, left=left, right=right):
            return _arithmetic(sign, _column_of(left), _column_of(right))
        case Comparison(operator=sign, left=left, right=right):
            return _COMPARISONS[sign](_column_of(left), _column_of(right))
        case Membership(value=inner, options=options):
            return _column_of(inner).isin([_column_of(option) for option in options])
        case Like(value=inner, pattern=pattern):
            return F.rlike(_column_of(inner), F.lit(pattern))
        case IsNull(value=inner):
            if isinstance(inner, JsonField):
                return F.coalesce(_is_kind(_column_of(inner), "VOID"), F.lit(True))
            return _column_of(inner).isNull()
        case Not(operand=operand):
            return ~_column_of(operand)
        case And(operands=operands):
            return reduce(lambda a, b: a & b, [_column_of(one) for one in operands])
        case Or(operands=operands):
            return reduce(lambda a, b: a | b, [_column_of(one) for one in operands])


def _utf8(data: SparkColumn) -> SparkColumn:
    return F.try_validate_utf8(data.cast("string"))


def _json_field(path: JsonPath) -> SparkColumn:
    """A variant: null when there is no such field."""
    where = "$" + "".join(f"[{part}]" if isinstance(part, int) else f"['{part}']" for part in path)
    return F.try_variant_get(F.try_parse_json(_utf8(F.col("body"))), where, "variant")


def _is_kind(variant: SparkColumn, *kinds: str) -> SparkColumn:
    schema = F.schema_of_variant(variant)
    return reduce(lambda a, b: a | b, [schema.startswith(kind) for kind in kinds])


def _finite(number: SparkColumn) -> SparkColumn:
    return F.when(number.between(-sys.float_info.max, sys.float_info.max), number)


def _as(value: SparkColumn, is_now: Kind, kind: Kind) -> SparkColumn:
    if is_now == "bytes":
        return _utf8(value)
    if kind == "text":
        return F.when(_is_kind(value, "STRING"), F.try_variant_get(value, "$", "string"))
    if kind == "boolean":
        return F.when(_is_kind(value, "BOOLEAN"), F.try_variant_get(value, "$", "boolean"))
    numbers = _is_kind(value, "BIGINT", "DECIMAL", "DOUBLE")
    return _finite(F.when(numbers, F.try_variant_get(value, "$", "double")))


def _arithmetic(sign: str, left: SparkColumn, right: SparkColumn) -> SparkColumn:
    return _finite(F.try_divide(left, right) if sign == "/" else _SIGNS[sign](left, right))


def _call(function: str, arguments: tuple[Node, ...]) -> SparkColumn:
    first, *more = map(_column_of, arguments)
    match function:
        case "lower":
            return F.lower(first)
        case "upper":
            return F.upper(first)
        case "length":
            return F.length(first).cast("double")
        case "contains":
            return F.contains(first, *more)
        case "starts_with":
            return F.startswith(first, *more)
        case "ends_with":
            return F.endswith(first, *more)
        case "number":
            if arguments[0].kind == "json":
                text = _as(first, "json", "text")
                return F.coalesce(_as(first, "json", "number"), _number(text))
            return _number(first)
        case "hour":
            hours = F.floor(F.unix_micros(first) / _US_PER_HOUR)
            return F.pmod(hours, F.lit(_HOURS_PER_DAY)).cast("double")
        case "date":
            days = F.floor(F.unix_micros(first) / (_US_PER_HOUR * _HOURS_PER_DAY)).cast("int")
            return F.date_add(F.lit(_EPOCH).cast("date"), days).cast("string")
    raise AssertionError(function)


def _number(text: SparkColumn) -> SparkColumn:
    return _finite(F.when(F.rlike(text, F.lit(_NUMBER)), text.try_cast("double")))
