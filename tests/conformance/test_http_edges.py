"""What the HTTP server does at its edges: redirects, OPTIONS, Allow, HTTP/1.0, and what is no request."""

import re

import pytest

from tests.conformance.conftest import StartNsq
from tests.conformance.server import NSQD, NsqServer

GET_ALLOW = "GET, OPTIONS"


@pytest.mark.parametrize(
    ("target", "location"),
    [
        ("/ping/", "/ping"),
        ("//ping", "/ping"),
        ("/x/../ping", "/ping"),
        ("/./ping", "/ping"),
        ("/../ping//", "/ping"),
        ("/PING", "/ping"),
        ("/stats/?format=json&topic=a%20b", "/stats?format=json&topic=a%20b"),
        ("/config/log_level/", "/config/log_level"),
    ],
)
def test_a_get_of_nearly_a_path_is_redirected_for_good(nsq: NsqServer, target: str, location: str) -> None:
    answer = nsq.http("GET", target)
    assert (answer.status, answer.headers["location"]) == (301, location)
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert answer.body == f'<a href="{location.replace("&", "&amp;")}">Moved Permanently</a>.\n\n'.encode()


@pytest.mark.parametrize("target", ["/pub/?topic={}", "//pub?topic={}", "/a/..//pub?topic={}"])
def test_a_post_to_nearly_a_path_is_redirected_with_its_method(nsq: NsqServer, topic: str, target: str) -> None:
    answer = nsq.http("POST", target.format(topic), b"body")
    assert (answer.status, answer.headers["location"]) == (307, f"/pub?topic={topic}")
    assert (answer.body, answer.headers.get("content-type")) == (b"", None)
    assert nsq.stats(f"topic={topic}")["topics"] is None


@pytest.mark.parametrize("target", ["/", "/nothing", "/ping/more", "/topic", "/pub//x"])
def test_what_is_no_path_is_not_found(nsq: NsqServer, target: str) -> None:
    answer = nsq.http("GET", target)
    assert (answer.status, answer.body) == (404, b'{"message":"NOT_FOUND"}')


def test_a_path_of_another_method_is_not_redirected(nsq: NsqServer) -> None:
    assert nsq.http("GET", "/pub/").status == 404


@pytest.mark.parametrize(
    ("method", "target", "allow"),
    [
        ("POST", "/stats", GET_ALLOW),
        ("HEAD", "/ping", GET_ALLOW),
        ("DELETE", "/info", GET_ALLOW),
        ("GET", "/pub", "OPTIONS, POST"),
        ("PUT", "/topic/create", "OPTIONS, POST"),
        ("POST", "/config/log_level", "GET, OPTIONS, PUT"),
    ],
)
def test_405_names_the_methods(nsq: NsqServer, method: str, target: str, allow: str) -> None:
    answer = nsq.http(method, target)
    assert answer.status == 405
    assert sorted(answer.headers["allow"].split(", ")) == allow.split(", ")
    assert method == "HEAD" or answer.body == b'{"message":"METHOD_NOT_ALLOWED"}'


@pytest.mark.parametrize(("target", "allow"), [("/ping", GET_ALLOW), ("/mpub", "OPTIONS, POST")])
def test_options_answers_the_methods(nsq: NsqServer, target: str, allow: str) -> None:
    answer = nsq.http("OPTIONS", target)
    assert (answer.status, answer.body, answer.headers.get("content-type")) == (200, b"", None)
    assert sorted(answer.headers["allow"].split(", ")) == allow.split(", ")


def test_options_of_no_path_is_not_found(nsq: NsqServer) -> None:
    assert nsq.http("OPTIONS", "/nothing").status == 404


def test_an_http_1_0_connection_stays_open_when_the_client_asks_for_it(nsq: NsqServer) -> None:
    one = b"GET /ping HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n"
    last = b"GET /ping HTTP/1.0\r\n\r\n"
    answers = nsq.raw_http(one + one + last, ends=False)
    heads = re.findall(rb"HTTP/1\.0 200 OK\r\n(?:.+\r\n)+\r\nOK", answers)
    assert b"".join(heads) == answers
    assert [b"connection: keep-alive" in head.lower() for head in heads] == [True, True, False]
    # Without being asked it closes.
    assert nsq.raw_http(last + last, ends=False).count(b"200 OK") == 1


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"nonsense\r\n\r\n", b"400 Bad Request"),
        (b"GET /ping\r\n\r\n", b"400 Bad Request"),
        (b"GET /ping HTTP/1.1\r\n\r\n", b"400 Bad Request"),
        (b"GET /ping HTTP/1.1\r\nHost: localhost\r\nno colon\r\n\r\n", b"400 Bad Request"),
        (b"POST /pub?topic=t HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n", b"400 Bad Request"),
        (b"GET /ping HTTP/2.0\r\nHost: localhost\r\n\r\n", b"505 HTTP Version Not Supported"),
        (b"POST /pub?topic=t HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: gzip\r\n\r\n", b"501 Not Implemented"),
        (
            # More than the server takes, and not more than the sockets do: nsqd takes a mebibyte.
            b"GET /ping HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * (2 << 20 if NSQD else 32 << 10),
            b"431 Request Header Fields Too Large",
        ),
    ],
    ids=lambda value: value[:30],
)
def test_what_is_no_request_gets_plain_text_and_the_end(nsq: NsqServer, sent: bytes, status: bytes) -> None:
    head, _, body = nsq.raw_http(sent, ends=False).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 " + status)
    assert b"content-type: text/plain; charset=utf-8" in head.lower()
    assert b"connection: close" in head.lower()
    assert b"x-nsq-content-type" not in head.lower()
    assert body.startswith(status) or status.startswith(b"501")
    assert b"bytearray" not in head + body


def test_an_expectation_that_is_unknown_fails(nsq: NsqServer) -> None:
    answer = nsq.raw_http(b"GET /ping HTTP/1.1\r\nHost: localhost\r\nExpect: x\r\n\r\n", ends=False)
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 417 Expectation Failed")
    assert b"connection: close" in head.lower()
    assert body == b""


def test_a_body_is_awaited_with_100_continue(nsq: NsqServer, topic: str) -> None:
    head = b"POST /pub?topic=%b HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\n" % topic.encode()
    answer = nsq.raw_http(head + b"Content-Length: 4\r\nConnection: close\r\n\r\nbody", ends=False)
    assert answer.endswith(b"\r\n\r\nOK")
    assert nsq.topic(topic)["message_count"] == 1


def test_an_act_answers_200_without_a_body_and_its_type(nsq: NsqServer, topic: str) -> None:
    answer = nsq.http("POST", f"/topic/create?topic={topic}")
    assert (answer.status, answer.body, answer.headers.get("content-type")) == (200, b"", None)
    assert answer.headers["x-nsq-content-type"] == "nsq; version=1.0"


@pytest.mark.parametrize(
    "host",
    [
        "localhost",
        "127.0.0.1:1",
        "host.docker.internal:4151",
        "queue.default.svc.cluster.local:4151",
        "queue.localhost",
    ],
)
def test_a_host_of_a_container_is_answered(nsq: NsqServer, host: str) -> None:
    assert nsq.http("GET", "/ping", headers={"Host": host}).body == b"OK"


def test_the_host_follows_the_broadcast_address(start_nsq: StartNsq) -> None:
    server = start_nsq(broadcast_address="queue.team.example")
    for host in ("queue.team.example", "queue", "QUEUE.team.example.:4151"):
        assert server.http("GET", "/ping", headers={"Host": host}).body == b"OK"


def test_stats_of_what_is_not_there(nsq: NsqServer, topic: str) -> None:
    assert nsq.stats(f"topic={topic}")["topics"] is None
    nsq.http("POST", f"/topic/create?topic={topic}")
    assert nsq.stats(f"topic={topic}&channel=none")["topics"] == []
    assert nsq.topic(topic)["channels"] == []
    for query in (f"topic={topic}&channel=none", f"topic={topic}-none"):
        assert b"\nTopics: None\n" in nsq.http("GET", f"/stats?{query}").body
