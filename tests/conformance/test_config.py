"""/config/OPTION, its values and its errors, in nsqd's words."""

import logging
from collections.abc import Iterator

import pytest

from tests.conformance.conftest import StartNsq
from tests.conformance.server import NsqServer
from tests.support.certificates import Certificates

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


@pytest.mark.parametrize(
    ("flags", "name", "body"),
    [
        ({}, "tls_required", b"0"),
        ({}, "log_level", b"2"),
        ({"broadcast_address": "b.example"}, "broadcast_address", b"b.example"),
        ({"broadcast_tcp_port": "7", "broadcast_http_port": "8"}, "broadcast_tcp_port", b"7"),
        ({"node_id": "21"}, "id", b"21"),
        ({"broadcast_address": "b.example", "broadcast_http_port": "8"}, "statsd_prefix", b"nsq.b_example_8."),
        ({"tls_min_version": "tls1.3"}, "tls_min_version", b"772"),
    ],
)
def test_options_are_answered_as_the_server_uses_them(
    start_nsq: StartNsq, flags: dict[str, str], name: str, body: bytes
) -> None:
    answer = start_nsq(**flags).http("GET", f"/config/{name}")
    assert (answer.status, answer.body) == (200, body)
    is_json = body.isdigit()
    assert answer.headers["content-type"] == f"{'application/json' if is_json else 'text/plain'}; charset=utf-8"


def test_ports_are_answered_as_they_are_bound(nsq: NsqServer) -> None:
    assert nsq.http("GET", "/config/broadcast_tcp_port").json == nsq.tcp_port
    assert nsq.http("GET", "/config/broadcast_http_port").json == nsq.http_port


@pytest.mark.parametrize("policy", ["", "require-verify"])
@pytest.mark.parametrize(("word", "number"), [("false", 0), ("tcp-https", 1), ("true", 2)])
def test_required_tls_is_a_number(
    start_nsq: StartNsq, certificates: Certificates, word: str, number: int, policy: str
) -> None:
    """A policy for clients' certificates makes it 2. Where HTTP has to be TLS the number can't be read without."""
    pair = certificates.server
    flags = {"tls_cert": str(pair.certificate), "tls_key": str(pair.key), "tls_required": word}
    if policy:
        flags |= {"tls_client_auth_policy": policy, "tls_root_ca_file": str(certificates.authority.certificate)}
    answer = start_nsq(**flags).http("GET", "/config/tls_required")
    if number == 2 or (policy and not number):
        assert (answer.status, answer.json["message"]) == (403, "TLS_REQUIRED")
    else:
        assert (answer.status, answer.json) == (200, number)


@pytest.mark.parametrize(
    "name",
    [
        "node_id",
        "auth_http_address",
        "lookupd_tcp_address",
        "e2e_processing_latency_percentile",
        "verbose",
        "experiments",
    ],
)
def test_what_is_a_flag_alone_is_no_option(nsq: NsqServer, name: str) -> None:
    answer = nsq.http("GET", f"/config/{name}")
    assert (answer.status, answer.body) == (400, b'{"message":"INVALID_OPTION"}')


def test_options_are_answered_in_nsqd_s_units(nsq: NsqServer) -> None:
    answers = {name: nsq.http("GET", f"/config/{name}") for name in ("msg_timeout", "max_rdy_count", "statsd_prefix")}
    assert answers["msg_timeout"].json == 60_000_000_000
    assert answers["max_rdy_count"].json == 2_500
    assert answers["statsd_prefix"].body.startswith(b"nsq.")
