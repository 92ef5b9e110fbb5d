"""An expression means the same to Spark as to Python, for every row of a heap of odd and random ones."""

import json
import random
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pyspark.sql import SparkSession

from queue_engine.lake.expression.columns import spark_column
from queue_engine.lake.expression.expressions import parse_expression
from tests.pipeline.expression.reference import row_predicate
from tests.pipeline.expression.test_expressions import HOSTILE

SCHEMA = (
    "topic string, offset long, message_id string, published_at timestamp, key binary, body binary, replayed boolean"
)
ODD_BODIES = [
    b"",
    b"\xff\xfe",
    b"\xed\xa0\x80",
    b"{",
    b"{}",
    b"null",
    b'{"a":1} {"a":1}',
    b'{"a":1}x',
    b'{"a":1,"a":1}',
    b'{"a":NaN}',
    b"{'a':1}",
    b'{"a":01}',
    b'{"a":1e400}',
    b'{"a":-0.0}',
    b'{"a":1e3}',
    b'{"a":0.1}',
    b'{"a":12345678901234567890123456789012345678901234567890}',
    b'{"a":1.23456789012345678901234567890123456789012345}',
    b'{"a":null}',
    b'{"a":true}',
    b'{"a":"true"}',
    b'{"a":"1"}',
    b'{"a":" 1"}',
    b'{"a":"1d"}',
    b'{"a":"1e5"}',
    b'{"a":"\\u00e9\\ud83d\\ude00"}',
    b'{"a":[1]}',
    b'{"a":[1,{"b":["c"]}]}',
    b'{"a":{"b":"c"}}',
    b'{"a":{"b":{"c":5}}}',
    b'{"a b":{"c-d":"x"}}',
    b"[1,2]",
    b'"a"',
    b"5",
    b' {"a": 1} ',
    b'{"a":1}\n',
    '{"a":"Straße ÀÉ жЖ"}'.encode(),
    b"[" * 2000,
]
TEXTS = ["eu-1", "eu-22", "us-1", "", "%", "a_b", "Zoë", "x\ny", "a\\b", "50%", "ab" * 30]
EXPRESSIONS = [
    "body.a is null",
    "body.a is not null",
    "body.a = 1",
    "body.a != 1",
    "body.a < 1e6 and body.a > -1",
    "body.a in (1, 0.1, 1000)",
    "not body.a = 1",
    "body.a = '1'",
    "body.a != '1'",
    "body.a >= 'a'",
    "body.a = true",
    "body.a",
    "not body.a",
    "number(body.a) = 1",
    "number(body.a) >= 1000 or number(body.a) <= 0",
    "text(body.a) like '%é%'",
    "body.a like '1%'",
    "upper(body.a) = 'STRASSE ÀÉ ЖЖ'",
    "lower(body.a) = 'straße àé жж'",
    "length(body.a) > 2",
    "length(body) > 10",
    "body.a.b = 'c'",
    "body.a.b is null",
    "body.a.b.c = 5",
    "json(\"a b.c-d\") = 'x'",
    'json("a[0]") = 1',
    'json("a[1].b") is null',
    "json(\"a[1].b[0]\") = 'c'",
    'json("[1]") = 2',
    'json("a.0") is null',
    "body.a / 0 is null",
    "body.a * 1e308 * 1e308 is null",
    "body.a + offset > 3",
    "-body.a = -1",
    "text(body) is null",
    "contains(body, 'a')",
    "not contains(body, 'a')",
    "starts_with(key, 'eu')",
    "ends_with(key, '1')",
    "key is null",
    "key like 'eu-_'",
    "key like '%-%'",
    "key like 'a\\_b'",
    "key like '%\\%'",
    "key like 'x%y'",
    "key like '%b%a%b'",
    "key like ''",
    "key like '%'",
    "key not like 'e%'",
    "key in ('eu-1', '')",
    "key not in ('eu-1', '')",
    "key < 'eu-22'",
    "key >= 'Z' and key < 'f'",
    "key = text(body)",
    "number(key) is null",
    "offset between 10 and 20",
    "offset not between 10 and 90",
    "offset in (1, 5, 80)",
    "offset / 2 = 20 or offset * 3 - 1 = 32",
    "replayed",
    "not replayed",
    "replayed != true",
    "topic = 'orders'",
    "message_id > '0000000000000010'",
    "published_at >= '2026-11-20T10:00:00Z'",
    "published_at = '1969-12-31T23:59:59.999999Z'",
    "published_at between '2026-01-01' and '2026-12-31T23:59:59+02:00'",
    "published_at in ('2026-11-20T00:00:00Z', '1970-01-01')",
    "hour(published_at) = 23",
    "hour(published_at) < 12",
    "date(published_at) = '1969-12-31'",
    "date(published_at) >= '2026-06-01'",
    "body.a = 1 or key = 'eu-1'",
    "body.a = 1 and key = 'eu-1' or not (body.a is null or replayed)",
    "'a' = 'a' and 1 + 1 = 2 and true",
    "1 = 2",
]


def rows_of(rng: random.Random, count: int) -> list[dict[str, Any]]:
    bodies = list(ODD_BODIES)
    while len(bodies) < count:
        value: Any = rng.choice([rng.randint(-3, 3), rng.random() * 10, rng.choice(TEXTS), None, True, {"b": "c"}])
        bodies.append(json.dumps({"a": value, "z": rng.random()}, ensure_ascii=rng.random() < 0.5).encode())
    first = datetime(2026, 1, 1, tzinfo=UTC)
    times = [datetime(1969, 12, 31, 23, 59, 59, 999999, UTC), datetime(1970, 1, 1, tzinfo=UTC)]
    return [
        {
            "topic": rng.choice(["orders", "other"]),
            "offset": offset,
            "message_id": f"{offset:016x}",
            "published_at": rng.choice([*times, first + timedelta(microseconds=rng.randrange(365 * 86400 * 10**6))]),
            "key": rng.choice([None, b"\xc3\x28", *(text.encode() for text in TEXTS)]),
            "body": body,
            "replayed": rng.random() < 0.3,
        }
        for offset, body in enumerate(bodies)
    ]


def random_expression(rng: random.Random, depth: int) -> str:
    if depth == 0 or rng.random() < 0.2:
        return rng.choice(EXPRESSIONS)
    word = rng.choice(["and", "or", "not"])
    if word == "not":
        return f"not ({random_expression(rng, depth - 1)})"
    return f"({random_expression(rng, depth - 1)}) {word} ({random_expression(rng, depth - 1)})"


@pytest.mark.spark
@pytest.mark.slow(reason="runs Spark")
@pytest.mark.timeout(400)
@pytest.mark.parametrize("time_zone", ["UTC", "America/St_Johns"])
def test_spark_and_python_choose_the_same_rows(spark: SparkSession, time_zone: str) -> None:
    rng = random.Random(f"expressions {time_zone}")
    rows = rows_of(rng, 300)
    texts = EXPRESSIONS if time_zone == "UTC" else [one for one in EXPRESSIONS if "published_at" in one]
    texts = [*texts, *(text for _ in range(40) if len(text := random_expression(rng, 3)) <= 2000)]
    parsed = [parse_expression(text) for text in texts]
    spark.conf.set("spark.sql.session.timeZone", time_zone)
    try:
        frame = spark.createDataFrame(rows, SCHEMA)
        chosen = frame.select(*(spark_column(one).alias(f"c{number}") for number, one in enumerate(parsed))).collect()
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")
    for number, one in enumerate(parsed):
        predicate = row_predicate(one)
        differ = [row for row, told in zip(rows, chosen, strict=True) if predicate(row) != told[number]]
        assert not differ, (one.text, differ[0])


def test_the_expressions_that_are_compared_are_none_of_the_refused() -> None:
    assert not set(EXPRESSIONS) & set(HOSTILE)
