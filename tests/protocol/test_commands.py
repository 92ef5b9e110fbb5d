"""Numbers as strict as nsqd's, and names quoted as Go quotes them."""

import re
from pathlib import Path

import pytest

from queue_engine.wire.protocol.parser import Parser
from queue_engine.wire.protocol.words import parse_number, quoted, text_of


def test_the_table_of_commands_has_those_of_the_parser() -> None:
    readme = Path(__file__).resolve().parents[2] / "queue_engine/wire/protocol/README.md"
    table = readme.read_text().partition("## Commands")[2].partition("## Departures")[0]
    named = {found[1].encode() for found in re.finditer(r"^\| `([A-Z]+)", table, re.MULTILINE)}
    parser = Parser(max_msg_size=1, max_body_size=1, max_mpub_messages=1, max_req_timeout_ms=1, max_rdy_count=1)
    assert named == parser._verbs.keys()


@pytest.mark.parametrize(
    ("digits", "value"), [(b"", 0), (b"0", 0), (b"007", 7), (b"2500", 2500), (b"9" * 19, 10**19 - 1)]
)
def test_a_number_is_its_digits_and_nothing_is_zero(digits: bytes, value: int) -> None:
    assert parse_number(digits) == value


@pytest.mark.parametrize(
    "digits",
    [b"-1", b"+1", b"1_0", b" 7", b"7 ", b"7\n", b"0x1", b"1.0", "\u0663".encode(), "\uff17".encode(), b"1" * 20],
)
def test_what_int_would_forgive_is_no_number(digits: bytes) -> None:
    with pytest.raises(ValueError, match="19 digits"):
        parse_number(digits)


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (b"", '""'),
        (b"topic", '"topic"'),
        (b'a"b\\', r'"a\"b\\"'),
        (b"\a\b\f\n\r\t\v", r'"\a\b\f\n\r\t\v"'),
        (b"\0\x1f\x7f", r'"\x00\x1f\x7f"'),
        (b"\xff\xc3", r'"\xff\xc3"'),
        ("größe 日本 🚰".encode(), '"größe 日本 🚰"'),
        ("\u0080\u200b\ufeff\ue000".encode(), r'"\u0080\u200b\ufeff\ue000"'),
        ("\U000e0001".encode(), r'"\U000e0001"'),
        (b"\xed\xa0\x80", r'"\xed\xa0\x80"'),  # a lone surrogate is not UTF-8
    ],
)
def test_quoting_is_that_of_go(raw: bytes, text: str) -> None:
    assert quoted(raw) == text


def test_an_error_text_can_always_be_encoded() -> None:
    assert text_of(b"AS\xffDF").encode() == "AS\ufffdDF".encode()
