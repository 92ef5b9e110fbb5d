"""The recipe for a console behind an HTTPS proxy: log-in, an act, the live socket; and what is refused there."""

import asyncio
import json
import socket
from collections.abc import Iterator

import pytest
import websockets
from websockets.asyncio.client import connect

from tests.support.pages.console_client import ConsoleClient
from tests.support.processes.server import ServerProcess
from tests.support.processes.tls_proxy import TlsProxy

pytestmark = pytest.mark.slow(reason="starts real servers")

HOST = "queue.example.org"
ORIGIN = f"https://{HOST}"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    options = ["--console-origin", ORIGIN, "--trusted-proxy", "127.0.0.1"]
    with ServerProcess(tmp_path_factory.mktemp("server") / "data", options=options) as running:
        yield running


@pytest.fixture(scope="module")
def proxy(server: ServerProcess, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TlsProxy]:
    with TlsProxy(tmp_path_factory.mktemp("proxy"), HOST, server.console_port) as running:
        yield running


@pytest.fixture
def client(proxy: TlsProxy) -> Iterator[ConsoleClient]:
    logged_in = ConsoleClient(proxy.port, tls=proxy.client_context, host=HOST)
    logged_in.log_in()
    yield logged_in
    logged_in.close()


def live_socket(proxy: TlsProxy, client: ConsoleClient, origin: str) -> connect:
    """The console's socket as asyncio opens it.

    The client with threads reads and writes one TLS connection from two threads at once, which OpenSSL does not allow:
    once in a while the handshake's answer never came.
    """
    return connect(
        f"wss://{HOST}/ws/live/",
        sock=socket.create_connection(("127.0.0.1", proxy.port), timeout=10),
        ssl=proxy.client_context,
        origin=websockets.Origin(origin),
        additional_headers={"Cookie": client.cookie},
    )


def test_log_in_gives_secure_cookies_and_pages(server: ServerProcess, client: ConsoleClient) -> None:
    answer = client.get("/topics/")
    assert answer.status == 200
    assert "max-age" in answer.headers["strict-transport-security"]
    page = client.get("/login/")
    assert page.status == 302, "the session was not kept"


def test_an_act_is_done_and_recorded_with_the_browsers_address(server: ServerProcess, client: ConsoleClient) -> None:
    answer = client.post("/topics/~create/", {"topic": "from_outside"}, form_path="/topics/")
    assert answer.status == 302, answer.text
    assert server.topic_stats("from_outside")["paused"] is False
    assert "203.0.113.9" in client.get("/audit/").text


def test_the_live_socket_opens_and_frames_come(proxy: TlsProxy, client: ConsoleClient) -> None:
    async def two_frames() -> list[dict[str, int]]:
        async with live_socket(proxy, client, ORIGIN) as live:
            await live.send(f'{{"subscribe":{client.subscription("/topics/")}}}')
            return [json.loads(await asyncio.wait_for(live.recv(), 60)) for _ in range(2)]

    frames = asyncio.run(two_frames())
    assert frames[1]["seq"] > frames[0]["seq"]


def test_a_foreign_page_gets_no_socket(proxy: TlsProxy, client: ConsoleClient) -> None:
    async def open_one() -> None:
        await live_socket(proxy, client, "https://evil.example.org")

    with pytest.raises(websockets.InvalidStatus) as refused:
        asyncio.run(open_one())
    assert refused.value.response.status_code == 403


def test_a_form_sent_from_a_foreign_page_is_refused(server: ServerProcess, client: ConsoleClient) -> None:
    client.origin = "https://evil.example.org"
    answer = client.post("/topics/~create/", {"topic": "from_evil"}, form_path="/topics/")
    assert answer.status == 403
    with pytest.raises(LookupError):
        server.topic_stats("from_evil")
