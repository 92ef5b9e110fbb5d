"""A server with a certificate: the console speaks TLS itself, its lines say so, and its cookies go nowhere else."""

import asyncio
import http.client
import json
import os
import re
import shutil
import signal
import socket
import ssl
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
import websockets
from websockets.asyncio.client import connect

from tests.support.certificates import LOOPBACK, Certificates
from tests.support.layered_socket import LayeredSocket
from tests.support.pages.console_client import ConsoleClient
from tests.support.processes.server import ServerProcess
from tests.support.waiting import wait_for

pytestmark = pytest.mark.slow(reason="starts a real server")


@pytest.fixture(scope="module")
def directory(certificates: Certificates, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With a certificate and its key that a test may replace."""
    directory = tmp_path_factory.mktemp("server")
    shutil.copy(certificates.server.certificate, directory / "server.pem")
    shutil.copy(certificates.server.key, directory / "server.key")
    return directory


@pytest.fixture(scope="module")
def server(directory: Path) -> Iterator[ServerProcess]:
    files = ["--tls-cert", str(directory / "server.pem"), "--tls-key", str(directory / "server.key")]
    options = [*files, "--https-address", "127.0.0.1:0", "--console-tls", "true", "--no-pipeline"]
    with ServerProcess(directory / "data", options=options) as running:
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


def test_the_console_takes_a_renewed_certificate_by_itself_and_at_sighup_with_connections_open(
    server: ServerProcess, directory: Path, certificates: Certificates, context: ssl.SSLContext
) -> None:
    def renew(name: str, valid_for: timedelta) -> str:
        pair = certificates.authority.issue(name, hosts=LOOPBACK, valid_for=valid_for)
        for path, target in ((pair.key, "server.key"), (pair.certificate, "server.pem")):
            os.replace(shutil.copy(path, directory / "new"), directory / target)
        return pair.certificate.read_text()

    def expires_in_days() -> float:
        line = re.search(
            r'^penstock_tls_certificate_expiry_seconds\{listener="console"\} (\S+)$',
            server.http("GET", "/metrics").decode(),
            re.MULTILINE,
        )
        assert line is not None
        return (float(line[1]) - time.time()) / 86_400

    opened = http.client.HTTPSConnection("127.0.0.1", server.console_port, timeout=60, context=context)
    opened.request("GET", "/login/")
    assert opened.getresponse().read()
    assert 0 < expires_in_days() < 1
    renew("renewed", timedelta(days=30))
    wait_for("the console to take it by itself", lambda: expires_in_days() > 29)
    newest = renew("newest", timedelta(days=90))
    os.kill(server.pid, signal.SIGHUP)
    # Two threads write these, in any order.
    for line in ("SIGHUP: certificates, keys, tokens", "the console's certificate was read again"):
        wait_for("the reload", lambda line=line: line in server.log)
    for port in (server.console_port, server.https_port):
        assert ssl.get_server_certificate(("127.0.0.1", port)) == newest
    opened.request("GET", "/login/")
    assert opened.getresponse().status == 200, "the open connection goes on"
    opened.close()


def test_a_console_without_a_certificate_does_not_start(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="--console-tls needs a certificate: give --tls-cert and --tls-key"):
        ServerProcess(tmp_path / "data", options=["--console-tls", "true"]).start()
