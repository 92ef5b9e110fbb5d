"""Refused publishes are counted by reason, over HTTP and TCP."""

import errno
from pathlib import Path

import pytest

from queue_engine.service.admission.refused_publishes import Reason, reason_of, reason_of_answer
from queue_engine.vocabulary.errors import (
    BatchKeyConflictError,
    ClosedError,
    FencedError,
    LimitError,
    NoRoomError,
    ProtocolError,
    StorageError,
)
from tests.service.http.server import Server, http_server
from tests.service.tcp.session_bench import Bench, pub
from tests.support.nsq_socket import mpub_body, sized


def refused(server: Server | Bench) -> dict[str, int]:
    return dict(server.engine.stats.now().refused_publishes)


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (ClosedError("stops"), Reason.STOPPING),
        (NoRoomError("full"), Reason.DISK_FULL),
        (StorageError("EIO"), Reason.DISK),
        (LimitError("too many"), Reason.LIMIT),
        (FencedError("a fault"), Reason.FENCED),
        (BatchKeyConflictError("other content"), Reason.CONFLICT),
        (ProtocolError("E_BAD_TOPIC", "PUB"), Reason.INVALID),
        (None, Reason.INVALID),
        (OSError(errno.EIO, "unexpected here"), Reason.FAULT),
    ],
)
def test_each_error_has_its_reason(error: Exception | None, reason: Reason) -> None:
    assert reason_of(error) is reason


def test_errors_of_other_commands_are_no_refused_publishes() -> None:
    assert reason_of_answer(ProtocolError("E_BAD_TOPIC", "SUB topic name is not valid")) is None
    assert reason_of_answer(ProtocolError("E_BAD_BODY", "IDENTIFY failed to read body")) is None
    assert reason_of_answer(ProtocolError("E_FIN_FAILED", "FIN 0123 failed ID not in flight")) is None
    assert reason_of_answer(ProtocolError("E_BAD_TOPIC", "E_BAD_TOPIC MPUB topic name is not valid")) is Reason.INVALID


async def test_http_requests_that_are_wrong_count_as_invalid(tmp_path: Path) -> None:
    async with http_server(tmp_path, max_msg_size=10, max_body_size=100) as server:
        for target, body, status in (
            ("/pub?topic=t", b"", 400),
            ("/pub?topic=b%20ad", b"x", 400),
            ("/pub", b"x", 400),
            ("/pub?topic=t", b"x" * 11, 413),
            ("/mpub?topic=t", b"x" * 101, 413),
            ("/log/write?topic=t&batch_key=zz", b"x", 400),
            ("/log/write?topic=t&batch_key=00000000000000000000000000000001", b"x", 400),
        ):
            assert (await server.request("POST", target, body)).status == status, target
        assert refused(server) == {"invalid": 7}
        # Other requests, and publishes that succeed, do not count.
        assert (await server.request("POST", "/topic/create?topic=b%20ad")).status == 400
        assert (await server.request("POST", "/pub?topic=t", b"x")).status == 200
        assert refused(server) == {"invalid": 7}


async def test_http_requests_without_the_token_count_as_forbidden(tmp_path: Path) -> None:
    async with http_server(tmp_path, http_token="a-token-of-some-length") as server:
        assert (await server.request("POST", "/pub?topic=t", b"x")).status == 403
        assert (await server.request("POST", "/topic/create?topic=t")).status == 403
        headers = {**server.token_header, "Origin": "https://evil.example"}
        assert (await server.request("POST", "/pub?topic=t", b"x", headers)).status == 403
        assert refused(server) == {"forbidden": 1, "origin": 1}
        assert (await server.request("POST", "/mpub?topic=t", b"x", {"Host": "evil.example"})).status == 403
        assert refused(server) == {"forbidden": 1, "origin": 1, "host": 1}


async def test_http_and_tcp_count_what_the_engine_refuses(tmp_path: Path) -> None:
    async with http_server(tmp_path) as server:
        await server.request("POST", "/pub?topic=t", b"x")
        server.engine.begin_closing()
        assert (await server.request("POST", "/pub?topic=t", b"x")).message == "EXITING"
        assert (await server.request("POST", "/mpub?topic=t", b"x\ny")).message == "EXITING"
        assert refused(server) == {"stopping": 2}


@pytest.fixture
async def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


@pytest.mark.parametrize(
    "command",
    [
        b"PUB b*d\n" + sized(b"x"),
        b"PUB t\n" + sized(b""),
        b"PUB t\n" + (2 << 20).to_bytes(4, "big"),
        b"MPUB t\n" + sized(mpub_body([b"x"])[:-1]),
        b"DPUB t -5\n" + sized(b"x"),
        b"PUB\n",
    ],
)
async def test_tcp_commands_that_are_wrong_count_as_invalid(bench: Bench, command: bytes) -> None:
    client = bench.client()
    client.send(command)
    client.turn()
    assert [frame[:5] for frame in client.frames] in (["E_BAD"], ["E_INV"])
    assert refused(bench) == {"invalid": 1}


async def test_tcp_commands_count_when_the_store_refuses_at_once_or_later(bench: Bench) -> None:
    store = bench.known_topic("t")
    alone, in_a_row = bench.client(), bench.client()
    alone.send(pub("t", b"one"))
    in_a_row.send(pub("t", b"two") + pub("t", b"three") + b"NOP\n")
    alone.turn()
    while store.pending:
        store.fail(NoRoomError("the disk is full"))
    alone.turn()
    assert alone.frames == ["E_PUB_FAILED PUB failed the disk is full"]
    assert in_a_row.frames == ["E_PUB_FAILED PUB failed the disk is full"]
    # The error ends the second connection: its third message is not answered.
    assert refused(bench) == {"disk_full": 2}
    bench.engine.begin_closing()
    late = bench.client()
    late.send(b"MPUB t\n" + sized(mpub_body([b"x"])))
    assert refused(bench) == {"disk_full": 2, "stopping": 1}


async def test_tcp_errors_of_other_commands_do_not_count(bench: Bench) -> None:
    client = bench.client()
    client.send(b"SUB b*d ch\n")
    client.turn()
    assert client.frames[0].startswith("E_BAD_TOPIC")
    assert refused(bench) == {}
