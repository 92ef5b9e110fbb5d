"""Paths of an expression against a sample of the archive: which are refused, and with which path that exists."""

from pathlib import Path
from typing import Any

import orjson

from queue_engine.lake.archive.archive_table import ArchivedIdentity
from queue_engine.lake.expression.expressions import parse_expression
from queue_engine.lake.replay.path_check import PathCheck
from queue_engine.lake.replay.request import ReplayRequest
from queue_engine.lake.replay.sources import sampled_bodies
from queue_engine.lake.tables.storage import TableStorage
from queue_engine.lake.tables.tables import LakeTables
from queue_engine.vocabulary.errors import ExpressionError
from tests.pipeline.housekeeping.archived_table import ID_BASE, SERVER, commit

ORDERS = [
    {"lines": [{"sku": "a", "qty": 1}, {"sku": "b"}], "customer": {"name": "Zoë", "kind": None}, "total": 12.5},
    {"lines": [], "customer": {"name": "Ann", "kind": "trial"}, "total": 3},
    {"customer": {"name": "Bob", "kind": "free", "bob@example.org": 1}, "total": None, "note": "x"},
]


def refused(text: str, documents: Any = ORDERS) -> str:
    """The sentence; "" when it is not refused."""
    bodies = [one if isinstance(one, bytes) else orjson.dumps(one) for one in documents]
    try:
        PathCheck(parse_expression(text).paths, bodies).refuse_unmatched()
    except ExpressionError as exc:
        return str(exc)
    return ""


def test_an_element_of_an_array_has_brackets_and_the_refusal_says_so() -> None:
    assert refused("json(\"lines.0.sku\") = 'a'") == (
        'nothing matches, and none of 3 messages that were looked at has json("lines.0.sku"): body.lines is an array '
        'in all 2 that have it; the path that exists is json("lines[0].sku")'
    )
    assert refused("json(\"lines.1.sku\") = 'a'").endswith('exists is json("lines[1].sku")')
    # Without an index, the first element is meant.
    assert refused("body.lines.sku = 'a'").endswith('the path that exists is json("lines[0].sku")')
    assert refused("body.lines.skew = 'a'").endswith('its elements begin at json("lines[0]"), and have sku, qty')
    assert not refused("json(\"lines[0].sku\") = 'none'")
    # An array may be longer in another message.
    assert refused("json(\"lines[7].sku\") = 'a'").endswith('looked at has json("lines[7]")')


def test_a_path_below_a_value_that_has_no_fields_is_refused() -> None:
    assert refused("body.customer.name.first = 'Z'").endswith(
        "has body.customer.name.first: body.customer.name is a text in all 3 that have it"
    )
    assert refused('json("total[0]") = 1', ORDERS[:2]).endswith(": body.total is a number in all 2 that have it")
    # Null says nothing of what another message has there, and neither does a sample of two minds.
    assert refused("body.customer.kind.more = 1", ORDERS[:1]).endswith("looked at has body.customer.kind.more")
    assert refused("body.lines.x = 1", [*ORDERS, {"lines": {"y": 1}}]).endswith("looked at has body.lines.x")
    assert not refused("body.lines.x = 1", [*ORDERS, {"lines": {"x": 1}}])


def test_a_name_that_no_message_of_the_sample_has_is_refused() -> None:
    assert refused("body.custmer.name = 'Zoë'") == (
        "nothing matches, and none of 3 messages that were looked at has body.custmer; the path that exists is "
        "body.customer.name"
    )
    assert refused("body.x = 1").endswith("has body.x; the body has customer, total, lines")
    # What few messages have may be a person's.
    assert refused("body.customer.x = 1").endswith("; body.customer has name, kind")
    assert not refused("body.note = 'y' and body.total > 99")


def test_bodies_that_are_no_json_are_named() -> None:
    assert refused("body.x = 1", [b"a", b"\xff"]) == (
        "nothing matches, and none of 2 messages that were looked at is JSON, which body.x needs"
    )
    assert not refused("body.total = 1", [b"a", *ORDERS])
    assert not refused("body.x = 1", []), "nothing was looked at"


def test_the_sample_is_of_the_oldest_to_the_newest_file_and_of_what_is_asked_for(tmp_path: Path) -> None:
    tables = LakeTables(TableStorage(str(tmp_path)))
    times = [1_763_640_000_000 + minute * 60_000 for minute in range(20)]
    for number, at_ms in enumerate(times):
        commit(tables, "orders", number * 300, (number + 1) * 300, at_ms)
    source = ArchivedIdentity("orders", SERVER, 3, ID_BASE)

    def sampled(**changes: Any) -> tuple[set[int], int]:
        bodies = sampled_bodies(tables, source, ReplayRequest("x", "orders", "orders", **changes))
        return {int(body.split()[1]) // 300 for body in bodies}, len(bodies)

    files, count = sampled()
    assert ({0, 19} <= files, len(files), count) == (True, 8, 1_000)
    assert sampled(start_time_ms=times[3], end_time_ms=times[5]) == ({3, 4}, 600)
    assert sampled(start_time_ms=times[3], end_time_ms=times[4], key="eu") == ({3}, 300)
    assert sampled(start_time_ms=times[-1] + 1) == (set(), 0)


def test_the_sample_of_large_bodies_ends_at_its_bytes(tmp_path: Path) -> None:
    tables = LakeTables(TableStorage(str(tmp_path)))
    bodies = [b"small", *[b"%02d" % number + bytes(1 << 20) for number in range(40)]]
    commit(tables, "orders", 0, len(bodies), 1_763_640_000_000, bodies=bodies)
    source = ArchivedIdentity("orders", SERVER, 3, ID_BASE)
    assert sampled_bodies(tables, source, ReplayRequest("x", "orders", "orders")) == bodies[:9]
