"""The tools and servers with TLS and AUTH: what is agreed is used, and without it nothing is sent."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from queue_engine.client.connection import ClientIdentity, Connection, DisconnectedError, RefusedError
from queue_engine.client.nodes import Node
from queue_engine.client.secret_hosts import SecretHosts
from queue_engine.client.tools.connecting import Connecting, tls_context
from queue_engine.client.tools.publish import PublishFailedError, PublishOptions, publish
from queue_engine.client.tools.running import Counts, Stopping
from queue_engine.client.tools.tail import TailOptions, tail
from queue_engine.service.identity.token_file import TokenFile
from tests.support.certificates import Certificates
from tests.support.processes.running_engine import RunningEngine
from tests.support.waiting import wait_for_async
from tests.tools.conftest import node_of
from tests.tools.test_publish import reader_of

StartEngine = Callable[..., RunningEngine]


@pytest.fixture
def secured(start_engine: StartEngine, certificates: Certificates, tmp_path: Path) -> tuple[RunningEngine, Connecting]:
    """A server that lets in nobody without TLS and a secret, and how to reach it."""
    pair = certificates.server
    (tmp_path / "secured").mkdir()
    _, secret = TokenFile(tmp_path / "secured").create(
        "tools", ["publish", "consume"], ["t*"], expires_ms=0, by="ada", now_ms=1
    )
    engine = start_engine("secured", tls_cert=str(pair.certificate), tls_key=str(pair.key), tls_required="tcp-https")
    return engine, Connecting(nodes=(node_of(engine),), tls=certificates.client_context(), auth_secret=secret.encode())


async def test_messages_go_and_come_inside_tls_and_in_a_token_s_name(
    secured: tuple[RunningEngine, Connecting],
) -> None:
    _, connecting = secured
    counts = Counts("published")
    await publish(
        connecting, PublishOptions("t", connecting.nodes), reader_of(b"a\nb\n" + b"c" * 300_000), counts, Stopping()
    )
    assert counts["published"] == 3
    printed: list[bytes] = []
    stopping = Stopping()
    running = asyncio.create_task(tail(connecting, TailOptions(("t",), "c"), printed.append, stopping))
    await wait_for_async("all", lambda: sum(map(len, printed)) == 300_005)
    stopping.request_end()
    assert await running == 3


async def test_what_a_token_is_not_for_is_refused(secured: tuple[RunningEngine, Connecting]) -> None:
    _, connecting = secured
    with pytest.raises(PublishFailedError, match="E_UNAUTHORIZED"):
        await publish(
            connecting, PublishOptions("other", connecting.nodes), reader_of(b"a"), Counts("published"), Stopping()
        )


@pytest.mark.parametrize("secret", [b"", b"no such secret"])
async def test_without_the_secret_nothing_goes(secured: tuple[RunningEngine, Connecting], secret: bytes) -> None:
    _, connecting = secured
    identity = replace(connecting, auth_secret=secret).identity("test")
    error = RefusedError if secret else DisconnectedError
    with pytest.raises(error, match="E_AUTH_FAILED|E_UNAUTHORIZED" if secret else "wants AUTH, and there is no secret"):
        await Connection.open("127.0.0.1", connecting.nodes[0].port, identity)


async def test_a_server_without_tls_gets_no_message(start_engine: StartEngine, certificates: Certificates) -> None:
    node = node_of(start_engine())
    with pytest.raises(DisconnectedError, match="offers no TLS, and without it nothing is sent"):
        await Connection.open(node.host, node.port, ClientIdentity(tls=certificates.client_context()))


async def test_a_stranger_s_certificate_is_refused(secured: tuple[RunningEngine, Connecting]) -> None:
    _, connecting = secured
    node: Node = connecting.nodes[0]
    with pytest.raises(
        DisconnectedError, match=r"no TLS with .*: its certificate is refused: unable to get local issuer"
    ):
        await Connection.open(node.host, node.port, ClientIdentity(tls=ssl.create_default_context()))


@asynccontextmanager
async def named_by_lookup(start_engine: StartEngine, directory: Path) -> AsyncIterator[Connecting]:
    """A server without TLS that wants a token, and how to find it: an nsqlookupd names it."""
    (directory / "plain").mkdir()
    _, secret = TokenFile(directory / "plain").create("tools", ["consume"], ["t*"], expires_ms=0, by="ada", now_ms=1)
    engine = start_engine("plain")

    async def answer(request: web.Request) -> web.Response:
        return web.json_response({"producers": [{"broadcast_address": "127.0.0.1", "tcp_port": node_of(engine).port}]})

    app = web.Application()
    app.router.add_get("/{path}", answer)
    async with TestServer(app) as server:
        yield Connecting(lookup_urls=(f"http://127.0.0.1:{server.port}",), auth_secret=secret.encode())


async def test_no_secret_goes_in_plain_text_to_an_address_that_an_nsqlookupd_names(
    start_engine: StartEngine, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    async with named_by_lookup(start_engine, tmp_path) as connecting:
        stopping = Stopping()
        running = asyncio.create_task(tail(connecting, TailOptions(("t",), "c"), [].append, stopping))
        await wait_for_async("the refusal", lambda: "wants AUTH, and the secret was not sent" in caplog.text)
        stopping.request_end()
        await running
    assert "--auth-secret-to 127.0.0.1 allows it" in caplog.text
    assert "connected server=" not in caplog.text


async def test_a_pattern_lets_the_secret_go_there(
    start_engine: StartEngine, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    async with named_by_lookup(start_engine, tmp_path) as found:
        connecting, stopping = replace(found, secret_hosts=SecretHosts(["127.0.0.0/8"])), Stopping()
        running = asyncio.create_task(tail(connecting, TailOptions(("t",), "c"), [].append, stopping))
        await wait_for_async("the connection", lambda: "connected server=" in caplog.text)
        stopping.request_end()
        await running


async def test_tls_that_proves_no_name_lets_no_secret_go_to_a_looked_up_address(
    secured: tuple[RunningEngine, Connecting], certificates: Certificates
) -> None:
    engine, connecting = secured
    proven = replace(connecting, nodes=(), lookup_urls=("http://127.0.0.1:1",))
    node = node_of(engine)
    await (await Connection.open(node.host, node.port, proven.identity("test"))).close()
    unproven = replace(proven, tls=tls_context(is_checked=False))
    with pytest.raises(DisconnectedError, match="the secret was not sent"):
        await Connection.open(node.host, node.port, unproven.identity("test"))


@pytest.mark.parametrize(
    ("pattern", "yes", "no"),
    [
        ("10.1.0.0/16", ["10.1.2.3"], ["10.2.0.1", "10.1.0.0.evil.example", "queue", "::1"]),
        ("fd00::/8", ["fd00::1"], ["fe80::1", "10.1.2.3"]),
        ("127.0.0.1", ["127.0.0.1"], ["127.0.0.2"]),
        ("queue.example.org", ["queue.example.org", "QUEUE.example.org."], ["a.queue.example.org", "example.org"]),
        ("*.example.org", ["a.example.org", "a.b.example.org"], ["example.org", "example.org.evil", "badexample.org"]),
        ("*", ["10.1.2.3", "a", "::1"], []),
    ],
)
def test_a_pattern_allows_what_it_names_and_no_more(pattern: str, yes: list[str], no: list[str]) -> None:
    hosts = SecretHosts([pattern])
    assert [host for host in yes if not hosts.allow(host)] == []
    assert [host for host in no if hosts.allow(host)] == []
    assert not SecretHosts().allow(yes[0])


@pytest.mark.parametrize("pattern", ["10.1.*", "10.1.2.3/8", "a*.example.org", "*.", "", "10.1.2", "a b", "*.*.org"])
def test_a_pattern_that_would_allow_more_than_it_seems_is_refused(pattern: str) -> None:
    with pytest.raises(ValueError, match="is neither a host's name"):
        SecretHosts([pattern])
