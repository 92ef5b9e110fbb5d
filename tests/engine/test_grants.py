"""Who may do what: roles include those below them, and patterns name topics."""

import pytest

from queue_engine.vocabulary.grants import Role, check_pattern, matches


def test_each_role_includes_those_before_it() -> None:
    allowed = {role: [least.value for least in Role if role.includes(least)] for role in Role}
    assert allowed == {
        Role.VIEWER: ["viewer"],
        Role.OPERATOR: ["viewer", "operator"],
        Role.ADMIN: ["viewer", "operator", "admin"],
    }


@pytest.mark.parametrize(
    ("pattern", "fits", "fits_not"),
    [
        ("*", ["orders", "a.b#ephemeral"], []),
        ("orders", ["orders"], ["orders.eu", "Orders", "order", "my.orders"]),
        ("orders.*", ["orders.eu", "orders.eu.paid", "orders."], ["orders", "orders_eu", "ordersXeu"]),
        ("*.paid", ["orders.paid", ".paid"], ["orders.paid.eu", "paid"]),
        ("a*b*c", ["abc", "a1b2c", "abbc"], ["acb", "abcd"]),
        ("a.c", ["a.c"], ["abc"]),
        ("**", ["anything"], []),
        ("x*#ephemeral", ["x1#ephemeral"], ["x1"]),
    ],
)
def test_a_pattern_fits_whole_names(pattern: str, fits: list[str], fits_not: list[str]) -> None:
    check_pattern(pattern)
    assert [name for name in fits + fits_not if matches(pattern, name)] == fits


def test_a_hostile_pattern_is_decided_at_once() -> None:
    assert not matches("*" * 63 + "b", "a" * 64)
    assert not matches("*a" * 31 + "*b", "a" * 64)
    assert matches("*a" * 31 + "*", "a" * 64)


@pytest.mark.parametrize("pattern", ["", "a b", "orders/x", "é", "x" * 65, "*#other", "[a-z]"])
def test_what_can_match_no_name_is_no_pattern(pattern: str) -> None:
    with pytest.raises(ValueError, match="is not a topic pattern: 1 to 64"):
        check_pattern(pattern)
