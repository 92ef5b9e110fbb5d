"""A server with a certificate: the console speaks TLS itself, its lines say so, and its cookies go nowhere else."""

import asyncio
import http.client
import json
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest
import websockets
from websockets.asyncio.client import connect

from tests.support.certificates import Certificates
from tests.support.layered_socket import LayeredSocket
from tests.support.pages.console_client import ConsoleClient
from tests.support.processes.server import ServerProcess
from tests.support.waiting import wait_for

pytestmark = pytest.mark.slow(reason="starts a real server")


@pytest.fixture(scope="module")
def server(certificates: Certificates, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    options = [*certificates.server_options, "--console-tls", "true", "--no-pipeline"]
    with ServerProcess(tmp_path_factory.mktemp("server") / "data", options=options) as running:
        yield running


@pytest.fixture
def context(certificates: Certificates) -> ssl.SSLContext:
    return certificates.client_context()


@pytest.fixture
def client(server: ServerProcess, context: ssl.SSLContext) -> Iterator[ConsoleClient]:
    logged_in = ConsoleClient(server.console_port, tls=context, host=f"localhost:{server.console_port}")
    logged_in.log_in()
    yield logged_in
    logged_in.close()


def test_the_starts_lines_name_every_listener(server: ServerProcess) -> None:
    assert f"HTTPS: listening on 127.0.0.1:{server.https_port}" in server.log
    assert f"Console: listening on https://127.0.0.1:{server.console_port}" in server.log


def test_pages_acts_and_the_live_socket_work_over_the_consoles_own_tls(
    server: ServerProcess, client: ConsoleClient, context: ssl.SSLContext
) -> None:
    page = client.get("/topics/")
    assert page.status == 200
    assert "strict-transport-security" not in page.headers, "it would hold for other ports of the host, too"
    answer = client.post("/topics/~create/", {"topic": "over_tls"}, form_path="/topics/")
    assert answer.status == 302, answer.text
    assert server.topic_stats("over_tls")["paused"] is False

    async def two_frames() -> list[dict[str, int]]:
        live = connect(
            f"wss://localhost:{server.console_port}/ws/live/",
            sock=socket.create_connection(("127.0.0.1", server.console_port), timeout=10),
            ssl=context,
            origin=websockets.Origin(f"https://localhost:{server.console_port}"),
            additional_headers={"Cookie": client.cookie},
        )
        async with live as opened:
            await opened.send(f'{{"subscribe":{client.subscription("/topics/")}}}')
            return [json.loads(await asyncio.wait_for(opened.recv(), 60)) for _ in range(2)]

    frames = asyncio.run(two_frames())
    assert frames[1]["seq"] > frames[0]["seq"]


def test_its_cookies_are_for_https_alone(server: ServerProcess, context: ssl.SSLContext) -> None:
    connection = http.client.HTTPSConnection("127.0.0.1", server.console_port, timeout=60, context=context)
    connection.request("GET", "/login/")
    cookies = connection.getresponse().headers.get_all("Set-Cookie") or []
    connection.close()
    assert cookies
    assert all("; Secure" in cookie for cookie in cookies), cookies


def test_plain_http_gets_no_page(server: ServerProcess) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", server.console_port, timeout=60)
    connection.request("GET", "/login/")
    with pytest.raises((http.client.HTTPException, OSError)):
        connection.getresponse()
    connection.close()


def test_the_consoles_client_rows_say_what_lies_between(
    server: ServerProcess, client: ConsoleClient, context: ssl.SSLContext
) -> None:
    with LayeredSocket(server.tcp_port) as consumer, LayeredSocket(server.tcp_port) as producer:
        consumer.negotiate(context, snappy=True, sample_rate=42, client_id="layered")
        consumer.subscribe("seen", "c")
        producer.negotiate(context, deflate=True)
        producer.publish("seen", b"x")
        wait_for("the consumer's row", lambda: "TLS1.3 · snappy · 42 % sample" in client.get("/topics/seen/c/").text)
        wait_for("the producer's row", lambda: "TLS1.3 · deflate" in client.get("/topics/seen/").text)
        assert "TLS_AES_256_GCM_SHA384" in client.get("/topics/seen/c/").text


def test_a_console_without_a_certificate_does_not_start(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="--console-tls needs a certificate: give --tls-cert and --tls-key"):
        ServerProcess(tmp_path / "data", options=["--console-tls", "true"]).start()
