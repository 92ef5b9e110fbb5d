"""Regular expressions of auth servers: whole matches, as Python's `re` finds them, in bounded time."""

import re
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from queue_engine.service.identity.pattern import LENGTH_MAX, Pattern, PatternError


@pytest.mark.parametrize(
    ("text", "fits", "differs"),
    [
        ("orders", ["orders"], ["order", "orders2", "xorders", ""]),
        (".*", ["", "orders", "a#ephemeral"], []),
        (r"orders\..+", ["orders.eu"], ["orders.", "ordersxeu", "orders"]),
        ("^orders$", ["orders"], ["xorders", "orders."]),
        (r"\Aorders\z", ["orders"], ["orders."]),
        ("a|bc|", ["a", "bc", ""], ["b", "abc"]),
        ("(a|b)+c?", ["a", "abab", "bc"], ["c", "acc"]),
        ("(?:ab){2,3}", ["abab", "ababab"], ["ab", "abababab"]),
        ("a{2}", ["aa"], ["a", "aaa"]),
        ("a{2,}", ["aa", "aaaa"], ["a"]),
        ("[a-c_-]+", ["a-b_c"], ["d", ""]),
        ("[^a-c]", ["d", "."], ["a", ""]),
        ("[]a]", ["]", "a"], ["b"]),
        (r"[\d.]+", ["1.2"], ["a"]),
        (r"\w+\d\s?\S\D\W", ["a1bc."], ["a1bcd"]),
        ("(?i)orders", ["ORDERS", "Orders"], ["order"]),
        ("a(?i:b)b", ["aBb", "abb"], ["aBB", "ABb"]),
        ("(?P<kind>a)(b)", ["ab"], ["a"]),
        ("a*?b+?", ["aab", "b"], ["a"]),
        ("a{x}", ["a{x}"], ["a"]),
        ("[[:alpha:]]", ["a"], ["1"]),
        ("a^b", [], ["ab", "a^b"]),
    ],
)
def test_the_whole_name_must_fit(text: str, fits: list[str], differs: list[str]) -> None:
    pattern = Pattern(text)
    assert [name for name in fits if not pattern.matches(name)] == []
    assert [name for name in differs if pattern.matches(name)] == []


_ATOMS = st.sampled_from(["a", "b", ".", r"\.", "[ab]", "[^a]", "^", "$", r"\d"])
_TEXTS = st.recursive(
    _ATOMS,
    lambda inner: st.one_of(
        st.tuples(inner, inner).map("".join),
        st.tuples(inner, inner).map("|".join),
        inner.map("({})".format),
        st.tuples(inner, st.sampled_from(["*", "+", "?", "{2}", "{1,}", "{0,2}"])).map(
            lambda pair: f"(?:{pair[0]}){pair[1]}"
        ),
    ),
    max_leaves=8,
)


@settings(max_examples=40)
@given(_TEXTS, st.text("ab.1", max_size=6))
def test_it_agrees_with_the_expressions_of_python(text: str, name: str) -> None:
    assert Pattern(text).matches(name) == (re.fullmatch(text, name) is not None)


@pytest.mark.parametrize("text", ["(a+)+$", "(a|a)*b", "(a*)*(a*)*b", "(.*)(.*)(.*)(.*)(.*)(.*)x", "(a?){60}a{60}"])
def test_no_expression_takes_long(text: str) -> None:
    # Python's own would need years for these. Processor time: another program may have the core meanwhile.
    before = time.process_time()
    assert not Pattern(text).matches("a" * 59 + "!")
    assert time.process_time() - before < 2


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("(", r"missing \): \("),
        ("a)", r"unexpected \): a\)"),
        ("[a", r"missing \]: \[a"),
        ("*", r"no argument for repetition operator: \*"),
        ("a{3,2}", "invalid repetition size"),
        ("[z-a]", "invalid character class range: z-a"),
        ("(?=a)", "invalid perl operator"),
        (r"(a)\1", "invalid escape sequence"),
        ("\ud800", "can't encode"),
        ("a" * (LENGTH_MAX + 1), f"the most is {LENGTH_MAX}"),
        ("(a{100}){100}", "invalid repetition size"),
        ("((((){1000}){1000}){1000}){1000}", "invalid repetition size"),
        ("(.{900}x)" * 50, "pattern too large"),
    ],
)
def test_what_is_none_or_too_much_is_refused(text: str, complaint: str) -> None:
    with pytest.raises(PatternError, match=complaint):
        Pattern(text)


def test_a_class_that_has_no_character_fits_nothing() -> None:
    assert not Pattern(r"[^\d\D]").matches("a")
    assert not Pattern("é").matches("e")
