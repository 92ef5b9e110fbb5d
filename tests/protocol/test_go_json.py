"""IDENTIFY's JSON is read as Go's decoder reads it."""

from typing import Any

import pytest

from queue_engine.wire.protocol.go_json import JsonError, JsonObject

LONG = b"9" * 5_000


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (b'{"client_id":"a"}', "a"),
        (b'{"Client_ID":"a"}', "a"),
        ('{"client_\u0131d":"a"}'.encode(), ""),  # a dotless i is another letter
        (b'{"client_id":"a","CLIENT_ID":"b"}', "b"),
        (b'{"CLIENT_ID":"b","client_id":"a"}', "a"),
        (b'{"client_id":"a","client_id":null}', "a"),
        (b'{"client_id":null}', ""),
        (b"null", ""),
        (b" \t\r\n{ } ", ""),
        (b'{"client_id":"x\xffy"}', "x\ufffdy"),
        (b'{"client_id":"\xe2\x82"}', "\ufffd\ufffd"),
        (b'{"client_id":"\xed\xa0\x80"}', "\ufffd\ufffd\ufffd"),
        (b'{"client_id":"\xf0\x90\x80"}', "\ufffd\ufffd\ufffd"),
        (rb'{"client_id":"\ud800z\udc00"}', "\ufffdz\ufffd"),
        (rb'{"client_id":"\ud83d\ude00"}', "\U0001f600"),
        (b'{"client_id":"\x7f","other":%b,"deep":{"client_id":"b"}}' % LONG, "\x7f"),
    ],
)
def test_a_text(body: bytes, text: str) -> None:
    assert JsonObject(body).text("client_id") == text


def test_letters_that_go_folds_are_folded() -> None:
    assert JsonObject('{"\u017fAMPLE_RATE":5}'.encode()).integer("sample_rate") == 5
    assert JsonObject('{"\u212aey":5}'.encode()).integer("key") == 5


@pytest.mark.parametrize(
    ("text", "bits", "number"),
    [
        (b"0", 64, 0),
        (b"-0", 64, 0),
        (b"-1", 64, -1),
        (b"9223372036854775807", 64, 2**63 - 1),
        (b"-9223372036854775808", 64, -(2**63)),
        (b"2147483647", 32, 2**31 - 1),
        (b"-2147483648", 32, -(2**31)),
        (b"null", 64, 0),
    ],
)
def test_a_whole_number(text: bytes, bits: int, number: int) -> None:
    assert JsonObject(b'{"n":%b}' % text).integer("n", bits) == number


@pytest.mark.parametrize(
    ("text", "bits"),
    [
        (b"9223372036854775808", 64),
        (b"-9223372036854775809", 64),
        (b"99999999999999999999", 64),
        (LONG, 64),
        (b"2147483648", 32),
        (b"-2147483649", 32),
        (b"1.0", 64),
        (b"1e3", 64),
        (b'"1"', 64),
        (b"true", 64),
        (b"[]", 64),
        (b"{}", 64),
    ],
)
def test_what_is_no_whole_number_of_so_many_bits(text: bytes, bits: int) -> None:
    with pytest.raises(JsonError):
        JsonObject(b'{"n":%b}' % text).integer("n", bits)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"true",
        b'"x"',
        b"5",
        b"\xef\xbb\xbf{}",
        b"\xff\xfe{\0}\0",
        b'{"x":NaN}',
        b'{"x":-Infinity}',
        b'{"x":[Infinity]}',
        b'{"x":01}',
        b'{"x":+1}',
        b'{"x":1_0}',
        '{"x":\u0661}'.encode(),
        b"{'x':1}",
        b'{"x":1,}',
        b'{"x":1}{}',
        b'{"x":"\n"}',
        b'{"x":"\\x41"}',
        b'{"x"\xff:1}',
        b"\xc2\xa0{}",
    ],
)
def test_a_body_that_is_refused_whatever_is_read(body: bytes) -> None:
    with pytest.raises(JsonError):
        JsonObject(body)


@pytest.mark.parametrize(("read", "value"), [("text", b"5"), ("boolean", b"1"), ("boolean", b'"true"')])
def test_a_field_of_another_type(read: str, value: bytes) -> None:
    read_field: Any = getattr(JsonObject(b'{"x":%b}' % value), read)
    with pytest.raises(JsonError):
        read_field("x")
