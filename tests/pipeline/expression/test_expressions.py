"""The expressions that are allowed, which messages they match, and that the parser refuses everything else."""

import json
import random
import time
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from queue_engine.lake.expression.expressions import parse_expression
from queue_engine.vocabulary.errors import ExpressionError
from tests.pipeline.expression.reference import row_predicate

PIPELINE = Path(__file__).resolve().parent.parent.parent.parent / "queue_engine" / "lake"


def message(body: Any = b"", **columns: Any) -> dict[str, Any]:
    """A message as a row. body: bytes, or a value that becomes JSON."""
    row = {
        "topic": "orders",
        "offset": 41,
        "message_id": "00000000000000a9",
        "published_at": datetime(2026, 11, 20, 10, 30, tzinfo=UTC),
        "key": b"eu-7",
        "body": body if isinstance(body, bytes) else json.dumps(body).encode(),
        "replayed": False,
    }
    return row | columns


ORDER = message({"amount": 120.5, "customer": {"kind": "trial", "name": "Zoë"}, "paid": True, "note": None, "n": "12"})


@pytest.mark.parametrize(
    "text",
    [
        "topic = 'orders'",
        "offset >= 41 and offset < 42",
        "offset between 41 and 41",
        "offset not between 42 and 50",
        "message_id = '00000000000000a9'",
        "published_at >= '2026-11-20T10:30:00Z'",
        "published_at < '2026-11-20T11:30:00.000001+01:00'",
        "published_at = '2026-11-20T10:30:00Z'",
        "published_at > '2026-11-20'",
        "published_at in ('2026-11-20T10:30Z', '2026-11-21')",
        "hour(published_at) = 10 and date(published_at) = '2026-11-20'",
        "key = 'eu-7' and key != 'eu-8'",
        "key like 'eu-%' and key like '__-7' and key like '%7' and key like '%u%' and not key like 'eu'",
        "key not like 'us-%'",
        "key in ('eu-6', 'eu-7')",
        "key not in ('eu-6')",
        "key is not null",
        "not replayed",
        "replayed = false",
        "body.amount = 120.5",
        "body.amount > 100 and body.amount <= 120.5",
        "120.5 = body.amount",
        "body.amount * 2 - 1 = 240 and body.amount / 2 = 60.25 and -body.amount < 0 and 1 + 2 * 3 = 7",
        "(1 + 2) * 3 = 9 and 10 - 3 - 2 = 5 and 8 / 4 / 2 = 1",
        "body.amount in (120.5, -3)",
        "body.customer.kind = 'trial'",
        "json(\"customer.kind\") in ('trial', 'free')",
        "json('customer.kind') = 'trial'",
        "body.customer.name like 'Zo_' and length(body.customer.name) = 3",
        "lower('ABC') = 'abc' and upper(body.customer.kind) = 'TRIAL'",
        "contains(body, 'trial') and starts_with(key, 'eu') and ends_with(key, '-7')",
        "body.paid and body.paid = true and body.paid != false",
        "body.note is null and body.missing is null and body.customer.kind.more is null",
        "body.customer is not null",
        "number(body.n) = 12 and number('1.5e1') = 15 and number('x') is null",
        "text(body.n) = '12'",
        "length(key) = 4",
        "TOPIC = 'orders' AND NOT Replayed",
        "'it''s' = 'it''s'",
        "body.missing = 1 or true",
        "not (body.missing = 1 and false)",
        "1 / 0 is null",
        "'50%' like '50\\%' and not '505' like '50\\%'",
    ],
)
def test_an_order_matches(text: str) -> None:
    assert row_predicate(parse_expression(text))(ORDER)


@pytest.mark.parametrize(
    "text",
    [
        "topic = 'Orders'",
        "body.amount = '120.5'",  # a number is no text
        "body.n = 12",  # nor a text a number
        "body.paid = 'true'",
        "body.missing = 1",
        "not body.missing = 1",  # unknown stays unknown
        "body.missing in ('a')",
        "body.missing not in ('a')",
        "body.missing != 'a'",
        "body.customer = 'trial'",
        "body.missing = 1 or false",
        "body.missing = 1 and true",
        "1 / 0 = 1 / 0",
        "key like '%u'",
        "key like 'EU%'",
        "offset between 42 and 40",
        "replayed",
    ],
)
def test_an_order_does_not_match(text: str) -> None:
    assert not row_predicate(parse_expression(text))(ORDER)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\xff\xfe",
        b"{",
        b'{"a": 1, "a": 1}',
        b'{"a": NaN}',
        b"[1]",
        b'"a"',
        b"{'a': 1}",
        b"[" * 100_000,
    ],
)
def test_a_body_that_is_no_json_object_has_no_fields(body: bytes) -> None:
    assert row_predicate(parse_expression("body.a is null"))(message(body))
    assert not row_predicate(parse_expression("body.a = 1"))(message(body))


def test_bytes_that_are_no_text_match_no_text() -> None:
    binary = message(b"\xff\x00a", key=b"\xc3\x28")
    for text in ("contains(body, 'a')", "key = 'a'", "key != 'a'", "not contains(body, 'a')"):
        assert not row_predicate(parse_expression(text))(binary)
    assert row_predicate(parse_expression("length(body) = 3 and length(key) = 2"))(binary)


def test_an_expression_knows_the_columns_it_looks_at() -> None:
    assert parse_expression("key = 'a' or json(\"x.y\") = 1").columns == {"key", "body"}


# Everything by which Spark SQL, or a careless parser of it, has been made to do more than compare.
HOSTILE = [
    "",
    " ",
    "true; DROP TABLE x",
    "true -- and false",
    "true /* */",
    "1 --1 = 2",
    "exists (select 1)",
    "offset in (select 1)",
    "offset = (select max(offset) from x)",
    "(select 1) = 1",
    "SELECT TRANSFORM(body) USING 'cat' AS (a) FROM x",
    "TRANSFORM(body) USING 'sh -c id'",
    "reflect('java.lang.Runtime', 'getRuntime') = 'a'",
    "java_method('java.lang.System', 'exit', 0) = 1",
    "try_reflect('java.lang.System', 'exit') = 'a'",
    "text.`/etc/passwd` = 'a'",
    "`topic` = 'a'",
    "csv.`/etc/passwd`",
    "read_files('/etc/passwd') = 'a'",
    "input_file_name() = 'a'",
    "assert_true(false)",
    "raise_error('a') is null",
    "sleep(10)",
    "key rlike '(a+)+$'",
    "regexp(key, '(a+)+$')",
    "matches(key, '(a+)+$')",
    "expr('1=1')",
    "__import__('os').system('id') = 0",
    "topic.__class__ = 'a'",
    "body.__class__.__init__ = 1 or lambda",
    "${env:HOME} = 'a'",
    "${spark.driver.host} = 'a'",
    "{{ 7*7 }} = 49",
    "x'41' = 'A'",
    "u&'a' = 'a'",
    "r'a' = 'a'",
    ":parameter = 1",
    "? = 1",
    "cast(offset as string) = 'a'",
    "offset::string = 'a'",
    "case when true then true end",
    "current_user() = 'a'",
    "offset over (order by offset) = 1",
    "map(1, 2)[1] = 2",
    "body[0] = 1",
    "offset <=> 1",
    "offset == 1",
    "offset <> 1",
    "not",
    "and",
    "true and",
    "true true",
    "()",
    "(true",
    "true)",
    "true or or true",
    "offset",
    "'a'",
    "1",
    "1 = 'a'",
    "true > false",
    "offset = null",
    "null",
    "key = body.",
    "body..a = 1",
    "body.a.1 = 1",
    "key.a = 1",
    "in (1)",
    "offset in ()",
    "offset in (1,)",
    "offset in (1, 'a')",
    "offset in (offset)",
    "key in (null)",
    "key in 'a'",
    "key like key",
    "key like '%' || 'a'",
    "key like 'a\\b'",
    "key like 'a\\",
    "key like '" + "%a" * 33 + "'",
    "contains(key, key)",
    "contains(key)",
    "contains(key, 'a', 'b')",
    "lower(offset) = 'a'",
    "hour(key) = 1",
    "hour('2026-11-20') is nothing",
    "json(body) = 1",
    "json(\"$['a']\") = 1",
    'json("a\'] b") = 1',
    'json("a..b") = 1',
    'json("a[b]") = 1',
    'json("a.[0]") = 1',
    'json("a[-1]") = 1',
    'json("a[0]b") = 1',
    'json("a[1234567]") = 1',
    "body.a[0] = 1",
    'json("") = 1',
    'json("a") = json("b")',
    "\"topic\" = 'orders'",
    "offset between 1 or 2",
    "offset is 1",
    "published_at > 'yesterday'",
    "published_at > '2026-13-01'",
    "published_at > '2026-11-20T10:00:00'",
    "published_at > '9999-12-31T23:59:59-10:00'",
    "published_at > 5",
    "1_000 = offset",
    "1e999 = offset",
    "0x41 = offset",
    "9007199254740993 = offset",
    "٣ = offset",
    "ｔopic = 'a'",
    "topic = 'a\x00'",
    "topic = 'a\n'",
    "topic = 'a",
    "topic = \u2018a\u2019",
    "topic\u00a0= 'a'",
    "(" * 51 + "true" + ")" * 51,
    "not " * 51 + "true",
    "- " * 51 + "1 = 1",
    "1" + " + 1" * 51 + " = 52",
    "lower(" * 51 + "key" + ")" * 51 + " = 'a'",
    "(" * 1999,
    "not " * 499 + "true",
    "topic = '" + "a" * 2000 + "'",
]


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_whatever_else_is_refused_with_the_place_or_the_limit(text: str) -> None:
    with pytest.raises(ExpressionError) as refused:
        parse_expression(text)
    assert str(refused.value).startswith(("character ", "the expression has "))


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            "reflect('a') = 1",
            (
                "character 1: there is no function 'reflect'; functions are lower, upper, length, contains, "
                "starts_with, ends_with, json, number, text, hour, date"
            ),
        ),
        (
            "true and colour = 1",
            (
                "character 10: there is no column 'colour'; columns are topic, offset, message_id, published_at, key, "
                "body, replayed, body.<field>"
            ),
        ),
        ("topic = 'a' ;", "character 13: ';' can't stand here; allowed are names, "),
        ("topic = 5", "character 9: a text is expected here, and this is a number"),
        ("body.a >= and 5", "character 11: 'and' stands where a column, a constant, a function or '(' is expected"),
        ("body.a >=", "character 10: the end stands where a column, a constant, a function or '(' is expected"),
        ("(true", "character 6: the end stands where ')' is expected for the '(' at character 1"),
        ("(body.a >)", "character 10: ')' stands where a column, a constant, a function or '(' is expected"),
        (
            "topic = 'a' 'b'",
            "character 13: 'b' stands where one of = != < <= > >= + - * / and or not is in like between is",
        ),
        ("body.a not 5", "character 12: '5' stands where in, like or between is expected"),
        ("1 = offset = 1", "character 1: two comparisons stand side by side: join them by and or or, or put one in"),
        (
            "offset between 1",
            "character 16: the rest can't be read from here on; between takes two values: between 1 and 5",
        ),
        ("contains(key)", "character 9: contains takes 2 arguments; 1 given"),
        ("hour(key) = 1", "character 6: a time is expected here, and this is bytes"),
        ("key = body. ", "character 11: a dot stands between two names"),
        ("true -- and", "character 6: '--' begins a comment; comments are not allowed"),
        ("(true)(true)", "character 7: '(' stands where one of = != < <= > >= + - * / and or"),
        ("", "character 1: the expression is empty"),
        ("a" * 2001, "the expression has 2001 characters, 2000 are allowed"),
    ],
)
def test_an_error_names_the_word_its_place_and_what_is_allowed(text: str, sentence: str) -> None:
    with pytest.raises(ExpressionError) as refused:
        parse_expression(text)
    assert str(refused.value).startswith(sentence)


def test_an_error_shows_the_text_around_its_place() -> None:
    with pytest.raises(ExpressionError) as refused:
        parse_expression("topic = 'orders' and\nbody.amount >= 5 5 and body.customer.kind = 'trial'")
    assert str(refused.value).endswith(', in "…s\' and body.amount >= 5 ▸5 and body.customer.kind…"')


@pytest.mark.parametrize(
    "text",
    [
        "topic = 'a' 'b'",
        "* = offset",
        "offset is not null is null",
        "+ offset = 1",
        "offset between symmetric 1 and 2",
        # Names that stand for parentheses, and for null, within.
        '("(0")',
        '(true) and "(0"',
        "('a') = key and topic in '(0'",
        'topic is "n_null"',
        # For each of them the parser recurses.
        "true" + " = not true" * 190,
        "true" + " = -" * 490 + "1",
        "true" + " and" + " +" * 900 + " 1",
    ],
)
def test_what_the_parser_takes_beyond_the_list_of_nodes_is_refused(text: str) -> None:
    with pytest.raises(ExpressionError):
        parse_expression(text)


def test_fields_may_be_called_like_words_of_sql() -> None:
    odd = message({"if": 1, "case": 2, "date": 3, "and": 4, "interval": {"select": 5}})
    text = "body.if = 1 and body.case = 2 and body.date = 3 and body.and = 4 and body.interval . select = 5"
    assert row_predicate(parse_expression(text))(odd)


def test_words_in_any_order_are_read_or_refused() -> None:
    words = (
        "and or not in like is null between true = < ( ) , + - * / 1 'a' \"a\" topic offset body.a lower( json( hour( "
        * 2
    )
    words += (
        "if case interval date symmetric distinct from select exists any cast values array struct next prior escape at"
    )
    rng = random.Random("words")
    for _ in range(4_000):
        with suppress(ExpressionError):
            parse_expression(" ".join(rng.choice(words.split()) for _ in range(rng.randint(1, 12))))


def test_what_the_limits_allow_is_read_and_answered() -> None:
    for text in (
        "(" * 49 + "true" + ")" * 49,
        "true" + " or true" * 245,
        "1" + " + 1" * 50 + " = 51",
        "offset in (" + "1," * 960 + "41)",
        "not " * 48 + "true",
    ):
        assert row_predicate(parse_expression(text))(ORDER)


@pytest.mark.parametrize("like", ["%a" * 30 + "%b", "%_a" * 20 + "b", "%aaaaaaaaaaaaaaaab%c", "_%" * 30 + "b"])
def test_no_pattern_makes_a_large_body_slow(like: str) -> None:
    matches = row_predicate(parse_expression(f"body like '{like}'"))
    begin = time.process_time()
    assert not matches(message(b"a" * (1 << 20)))
    # Tried in all combinations this would outlast the machine.
    assert time.process_time() - begin < 5


def test_no_module_of_the_pipeline_gives_text_to_spark_to_read_as_sql() -> None:
    import ast

    for path in sorted(PIPELINE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.Call):
                continue
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            where = f"{path.name}:{node.lineno}"
            assert name not in ("sql", "selectExpr", "expr", "call_function", "createOrReplaceTempView"), where
            if name in ("filter", "where") and isinstance(node.func, ast.Attribute):
                for one in node.args:
                    is_text = isinstance(one, ast.Constant) and isinstance(one.value, str)
                    assert not is_text, where
                    assert not isinstance(one, ast.JoinedStr), where
