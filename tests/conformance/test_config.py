"""/config/OPTION, its values and its errors, in nsqd's words."""

import logging
from collections.abc import Iterator

import pytest

from tests.conformance.server import NsqServer

ADDRESSES = "/config/nsqlookupd_tcp_addresses"
LEVEL = "/config/log_level"


@pytest.fixture(autouse=True)
def level_as_before() -> Iterator[None]:
    """Our server is in this process."""
    root = logging.getLogger()
    before = root.level
    yield
    root.setLevel(before)


def test_the_log_level_is_changed_and_what_is_none_is_refused(nsq: NsqServer) -> None:
    for word, number in ((b"fatal", b"5"), (b"DEBUG", b"1"), (b"info", b"2")):
        answer = nsq.http("PUT", LEVEL, word)
        assert (answer.status, answer.body) == (200, number)
        assert nsq.http("GET", LEVEL).body == number
    answer = nsq.http("PUT", LEVEL, b"bad")
    assert (answer.status, answer.body) == (400, b'{"message":"INVALID_VALUE"}')
    assert nsq.http("GET", LEVEL).body == b"2"


def test_lookup_addresses_are_read_and_changed(nsq: NsqServer) -> None:
    assert nsq.http("GET", ADDRESSES).body == b"[]"
    try:
        answer = nsq.http("PUT", ADDRESSES, b'["127.0.0.1:1","127.0.0.1:2"]')
        assert (answer.status, answer.body) == (200, b'["127.0.0.1:1","127.0.0.1:2"]')
        assert nsq.http("GET", ADDRESSES).body == answer.body
    finally:
        assert nsq.http("PUT", ADDRESSES, b"[]").body == b"[]"
    answer = nsq.http("PUT", ADDRESSES, b"no JSON")
    assert (answer.status, answer.body) == (400, b'{"message":"INVALID_VALUE"}')


@pytest.mark.parametrize(
    ("method", "target", "body", "status", "word"),
    [
        ("GET", "/config/colour", None, 400, "INVALID_OPTION"),
        ("PUT", "/config/colour", b"red", 400, "INVALID_OPTION"),
        ("PUT", "/config/max_rdy_count", b"7", 400, "INVALID_OPTION"),
        ("PUT", LEVEL, b"", 413, "INVALID_VALUE"),
        ("PUT", LEVEL, b"x" * ((1 << 20) + 1), 413, "INVALID_VALUE"),
        ("PUT", LEVEL, b"x" * (1 << 20), 400, "INVALID_VALUE"),
        ("POST", LEVEL, b"debug", 405, "METHOD_NOT_ALLOWED"),
        ("POST", "/stats", b"", 405, "METHOD_NOT_ALLOWED"),
        ("GET", "/stats1", None, 404, "NOT_FOUND"),
    ],
)
def test_errors_have_nsqd_s_words(
    nsq: NsqServer, method: str, target: str, body: bytes | None, status: int, word: str
) -> None:
    answer = nsq.http(method, target, body)
    assert (answer.status, answer.body) == (status, b'{"message":"%s"}' % word.encode())


def test_options_are_answered_in_nsqd_s_units(nsq: NsqServer) -> None:
    answers = {name: nsq.http("GET", f"/config/{name}") for name in ("msg_timeout", "max_rdy_count", "statsd_prefix")}
    assert answers["msg_timeout"].json == 60_000_000_000
    assert answers["max_rdy_count"].json == 2_500
    assert answers["statsd_prefix"].body.startswith(b"nsq.")
