"""The tools and servers with TLS and AUTH: what is agreed is used, and without it nothing is sent."""

import asyncio
import ssl
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from queue_engine.client.connection import Connection, DisconnectedError, Identity, RefusedError
from queue_engine.client.nodes import Node
from queue_engine.identity.token_file import TokenFile
from queue_engine.tools.connecting import Connecting
from queue_engine.tools.publish import PublishFailedError, PublishOptions, publish
from queue_engine.tools.running import Counts, Stopping
from queue_engine.tools.tail import TailOptions, tail
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
    stopping.ask()
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
        await Connection.open(node.host, node.port, Identity(tls=certificates.client_context()))


async def test_a_stranger_s_certificate_is_refused(secured: tuple[RunningEngine, Connecting]) -> None:
    _, connecting = secured
    node: Node = connecting.nodes[0]
    with pytest.raises(
        DisconnectedError, match=r"no TLS with .*: its certificate is refused: unable to get local issuer"
    ):
        await Connection.open(node.host, node.port, Identity(tls=ssl.create_default_context()))
