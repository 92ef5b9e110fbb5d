"""What every answer of the console carries, and whom it believes: headers, hosts, proxies, origins."""

import io
import logging
from typing import Any

import pytest
from asgiref.testing import ApplicationCommunicator
from django.conf import settings
from django.test import Client, RequestFactory

from admin_console.options import ConsoleOptions
from admin_console.security.headers import EMPTY_STYLE_HASH
from admin_console.security.hosts import AllowedHosts
from admin_console.security.origin import SameOriginSockets
from admin_console.security.proxy import TrustedProxies
from queue_engine.vocabulary.client_key import TrustedAddresses
from queue_engine.vocabulary.log_lines import LineHandler


@pytest.mark.django_db
@pytest.mark.parametrize("path", ["/login/", "/nowhere/", "/static/penstock.css"])
def test_every_answer_carries_the_headers(path: str) -> None:
    answer = Client().get(path)
    answer.close()  # a static file is open until then
    policy = dict(part.split(" ", 1) for part in answer["Content-Security-Policy"].split("; "))
    assert policy["default-src"] == policy["script-src"] == "'self'"
    assert policy["style-src"] == f"'self' {EMPTY_STYLE_HASH}"
    assert policy["connect-src"] == "'self' ws://testserver"
    assert policy["frame-ancestors"] == "'none'"
    assert "unsafe" not in answer["Content-Security-Policy"]
    assert (answer["X-Frame-Options"], answer["X-Content-Type-Options"]) == ("DENY", "nosniff")
    assert answer["Referrer-Policy"] == "same-origin"
    if path == "/login/":
        assert "no-store" in answer["Cache-Control"]


@pytest.mark.django_db
def test_pages_hold_no_inline_script_or_style() -> None:
    page = Client().get("/login/").content.decode()
    assert "<style" not in page
    assert " style=" not in page
    assert "<script>" not in page


@pytest.mark.django_db
def test_foreign_host_is_refused_with_one_line_in_the_log(settings: Any, caplog: pytest.LogCaptureFixture) -> None:
    settings.ALLOWED_HOSTS = list(settings.CONSOLE.allowed_hosts)
    assert Client(headers={"Host": "evil.example"}).get("/login/").status_code == 400
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "request refused, its host is not the console's: host='evil.example' address=127.0.0.1" in caplog.text
    assert "Traceback" not in caplog.text
    assert Client(headers={"Host": "localhost:4171"}).get("/login/").status_code == 200


def test_thousand_refused_hosts_are_ten_lines_and_a_count(
    settings: Any, rf: RequestFactory, caplog: pytest.LogCaptureFixture
) -> None:
    settings.ALLOWED_HOSTS = ["localhost"]
    now_s = 0.0
    refuse = AllowedHosts(lambda _: pytest.fail("let in"), lambda: now_s)
    for _ in range(1000):
        refuse(rf.get("/", headers={"Host": "evil.example"}))
    assert len(caplog.records) == 10
    now_s = 60.0
    refuse(rf.get("/", headers={"Host": "evil.example"}))
    assert caplog.records[-1].getMessage().endswith(" refused_before=990")


@pytest.mark.django_db
def test_other_suspicious_requests_leave_no_traceback() -> None:
    """Through the handler that the product has, which writes to standard error."""
    [handler] = [found for found in logging.getLogger().handlers if isinstance(found, LineHandler)]
    written = io.StringIO()
    before = handler.setStream(written)
    try:
        answer = Client().post(
            "/login/", {f"field{number}": "" for number in range(settings.DATA_UPLOAD_MAX_NUMBER_FIELDS + 1)}
        )
    finally:
        handler.setStream(before)
    assert answer.status_code == 400
    assert "django.security.TooManyFieldsSent" in written.getvalue()
    assert "Traceback" not in written.getvalue()


# The proxy, and the sockets' origin: around the ASGI application, so tested on scopes.


async def seen_through(application: Any, scope: dict[str, Any]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Call an ASGI application that wraps a recorder; what the recorder saw, and what was sent."""
    communicator = ApplicationCommunicator(application, scope)
    await communicator.send_input({"type": f"{scope['type']}.connect"})
    await communicator.wait(timeout=5)
    sent = []
    while not communicator.output_queue.empty():
        sent.append(communicator.output_queue.get_nowait())
    return seen, sent


seen: list[dict[str, Any]] = []


async def recorder(scope: dict[str, Any], receive: Any, send: Any) -> None:
    seen.append(scope)


@pytest.fixture(autouse=True)
def _fresh_recorder() -> None:
    seen.clear()


def scope_of(client: str, headers: dict[str, str], kind: str = "http", scheme: str = "http") -> dict[str, Any]:
    return {
        "type": kind,
        "path": "/ws/live/" if kind == "websocket" else "/",
        "scheme": scheme,
        "client": [client, 5000],
        "headers": [(name.lower().encode(), value.encode()) for name, value in headers.items()],
    }


def header(scope: dict[str, Any], name: bytes) -> bytes:
    return dict(scope["headers"]).get(name, b"")


FORWARDED = {
    "Host": "127.0.0.1:4171",
    "X-Forwarded-For": "203.0.113.9",
    "X-Forwarded-Proto": "https",
    "X-Forwarded-Host": "queue.example.org",
}
TRUSTED = ConsoleOptions.from_environment({"PENSTOCK_TRUSTED_PROXY": "127.0.0.1,10.0.0.0/8"}).trusted_proxies


async def test_named_proxy_is_believed() -> None:
    await seen_through(TrustedProxies(recorder, TRUSTED), scope_of("127.0.0.1", FORWARDED))
    assert (seen[0]["client"][0], seen[0]["scheme"]) == ("203.0.113.9", "https")
    assert header(seen[0], b"host") == b"queue.example.org"
    assert header(seen[0], b"x-forwarded-for") == b""


async def test_anybody_else_is_not_believed_and_nothing_inside_sees_the_headers() -> None:
    for proxies in (TRUSTED, TrustedAddresses(())):
        seen.clear()
        await seen_through(TrustedProxies(recorder, proxies), scope_of("192.0.2.1", FORWARDED))
        assert (seen[0]["client"][0], seen[0]["scheme"]) == ("192.0.2.1", "http")
        assert header(seen[0], b"host") == b"127.0.0.1:4171"
        assert not any(name.startswith(b"x-forwarded") for name, _ in seen[0]["headers"])


@pytest.mark.parametrize(
    ("forwarded_for", "address"),
    [
        ("198.51.100.1, 203.0.113.9", "203.0.113.9"),  # what stands left was written by the client
        ("198.51.100.1, 203.0.113.9, 10.1.2.3", "203.0.113.9"),  # a chain of our own proxies
        ("10.1.2.3", "10.1.2.3"),
        ("nonsense, 10.1.2.3", "10.1.2.3"),
        ("nonsense", "127.0.0.1"),
        ("", "127.0.0.1"),
        ("2001:db8::1", "2001:db8::1"),
    ],
)
async def test_client_is_the_rightmost_address_that_is_no_proxy(forwarded_for: str, address: str) -> None:
    scope = scope_of("127.0.0.1", {**FORWARDED, "X-Forwarded-For": forwarded_for})
    await seen_through(TrustedProxies(recorder, TRUSTED), scope)
    assert seen[0]["client"][0] == address


async def test_scheme_and_host_that_are_none_are_not_taken_over() -> None:
    scope = scope_of("127.0.0.1", {**FORWARDED, "X-Forwarded-Proto": "gopher", "X-Forwarded-Host": "a b"})
    await seen_through(TrustedProxies(recorder, TRUSTED), scope)
    assert seen[0]["scheme"] == "http"
    assert header(seen[0], b"host") == b"127.0.0.1:4171"


def sockets(origin: str = "") -> SameOriginSockets:
    return SameOriginSockets(
        recorder, paths={"/ws/live/"}, origin=origin, allowed_hosts=["127.0.0.1", "queue.example.org"]
    )


@pytest.mark.parametrize(
    ("headers", "scheme"),
    [
        ({"Host": "127.0.0.1:4171", "Origin": "http://127.0.0.1:4171"}, "ws"),
        ({"Host": "queue.example.org", "Origin": "https://queue.example.org"}, "wss"),
        ({"Host": "queue.example.org:443", "Origin": "https://queue.example.org"}, "wss"),
    ],
)
async def test_socket_of_our_own_page_is_let_through(headers: dict[str, str], scheme: str) -> None:
    await seen_through(sockets(), scope_of("127.0.0.1", headers, "websocket", scheme))
    assert len(seen) == 1


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "127.0.0.1:4171"},
        {"Host": "127.0.0.1:4171", "Origin": "null"},
        {"Host": "127.0.0.1:4171", "Origin": "http://evil.example"},
        {"Host": "127.0.0.1:4171", "Origin": "http://127.0.0.1:9999"},
        {"Host": "127.0.0.1:4171", "Origin": "https://127.0.0.1:4171"},
        {"Host": "127.0.0.1:4171", "Origin": "http://127.0.0.1:4171.evil.example"},
        {"Host": "evil.example", "Origin": "http://evil.example"},
        {"Host": "127.0.0.1:4171", "Origin": "http://[::1"},
    ],
)
async def test_socket_of_anybody_else_is_refused(headers: dict[str, str]) -> None:
    _, sent = await seen_through(sockets(), scope_of("127.0.0.1", headers, "websocket", "ws"))
    assert seen == []
    assert sent == [{"type": "websocket.close", "code": 4403}]


async def test_socket_of_the_named_origin_is_let_through_and_unknown_paths_are_not() -> None:
    headers = {"Host": "127.0.0.1:4171", "Origin": "https://queue.example.org"}
    await seen_through(sockets("https://queue.example.org"), scope_of("127.0.0.1", headers, "websocket", "ws"))
    assert len(seen) == 1
    scope = scope_of("127.0.0.1", headers, "websocket", "ws") | {"path": "/ws/other/"}
    await seen_through(sockets("https://queue.example.org"), scope)
    assert len(seen) == 1
