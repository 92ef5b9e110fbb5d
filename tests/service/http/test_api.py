"""The HTTP API beyond what conformance/test_http.py asks for: health, publishing, acts, audit, failures of ours."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from queue_engine.delivery.stats import ActRecord, Outcome
from queue_engine.storage.recovery_report import ProgressLoss, RecoveryReport
from queue_engine.vocabulary import version
from queue_engine.vocabulary.errors import StorageError
from queue_engine.vocabulary.ticket import DONE, failed
from queue_engine.wire.batch import encode_batch
from tests.service.http.server import Server, http_server
from tests.support.engine import Client, settle
from tests.support.stores.delayed_store import DelayedStore

NSQ_VERSION = (b"x-nsq-content-type", b"nsq; version=1.0")


@pytest_asyncio.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    async with http_server(tmp_path, max_msg_size=1000, max_body_size=5000, max_topics=20) as running:
        yield running


def depth(server: Server, topic: str) -> int:
    return server.engine.catalog.topic(topic).store.depth


def sized(*bodies: bytes) -> bytes:
    return b"".join(len(body).to_bytes(4, "big") + body for body in bodies)


def binary(*bodies: bytes) -> bytes:
    return len(bodies).to_bytes(4, "big") + sized(*bodies)


# Asking.


async def test_ping_tells_the_health(server: Server) -> None:
    answer = await server.request("GET", "/ping")
    assert (answer.status, answer.body) == (200, b"OK")
    server.engine._workload.note_append(failed(StorageError("never gonna happen")))
    answer = await server.request("GET", "/ping")
    assert (answer.status, answer.body) == (500, b"NOK - never gonna happen")
    server.engine._workload.note_append(DONE)
    answer = await server.request("GET", "/ping")
    assert (answer.status, answer.body) == (200, b"OK")


async def test_disk_that_refuses_publishes_fails_neither_liveness_nor_readiness(server: Server) -> None:
    for path in ("/livez", "/readyz"):
        answer = await server.request("GET", path)
        assert (answer.status, answer.body) == (200, b"OK")
    server.engine._workload.note_append(failed(StorageError("no room on the disk")))
    assert (await server.request("GET", "/ping")).status == 500
    answer = await server.request("GET", "/livez")
    assert (answer.status, answer.body) == (200, b"OK")
    answer = await server.request("GET", "/readyz")
    assert (answer.status, answer.body) == (200, b"OK\nNOK - no room on the disk")


async def test_readiness_tells_what_the_last_start_found_damaged(server: Server) -> None:
    lost = ProgressLoss("orders", "billing", 200, is_exact=True)
    server.engine._stores.report = RecoveryReport(0, 0, True, 0, 0, 0, 0, 0, progress_losses=(lost,))
    answer = await server.request("GET", "/readyz")
    told = b"OK\nDamaged progress: channel orders/billing delivers 200 finished messages again."
    assert (answer.status, answer.body) == (200, told)
    assert (await server.request("GET", "/ping")).body == b"OK"


async def test_server_that_stops_is_alive_and_not_ready(server: Server) -> None:
    server.engine.begin_closing()
    assert (await server.request("GET", "/livez")).status == 200
    answer = await server.request("GET", "/readyz")
    assert (answer.status, answer.body) == (503, b"STOPPING")


async def test_info_has_nsqd_s_fields(server: Server) -> None:
    answer = await server.request("GET", "/info")
    assert answer.status == 200
    assert NSQ_VERSION in answer.headers.items()
    info = answer.json
    assert info.pop("hostname")
    assert info == {
        "version": version.NSQ_VERSION,
        "broadcast_address": "queue.example",
        "http_port": server.port,
        "tcp_port": 4150,
        "start_time": 1_500_000_000,
        "max_heartbeat_interval": 60_000_000_000,
        "max_output_buffer_size": 65536,
        "max_output_buffer_timeout": 30_000_000_000,
        "max_deflate_level": 6,
        "topology_zone": "",
        "topology_region": "",
    }


# Publishing.


async def test_pub_queues_the_body_as_it_is(server: Server) -> None:
    answer = await server.request("POST", "/pub?topic=t", b"hello\nworld\n")
    assert (answer.status, answer.body) == (200, b"OK")
    assert NSQ_VERSION in answer.headers.items()
    client = Client(server.engine, "t", "c", ready=5)
    settle(server.engine)
    assert client.bodies == [b"hello\nworld\n"]


async def test_pub_as_curl_sends_it(server: Server) -> None:
    headers = {
        "User-Agent": "curl/8.5.0",
        "Accept": "*/*",
        "Content-Type": "application/x-www-form-urlencoded",
        "Host": f"127.0.0.1:{server.port}",
    }
    answer = await server.request("POST", "/pub?topic=t", b"hello", headers)
    assert (answer.status, answer.body) == (200, b"OK")
    assert depth(server, "t") == 1


@pytest.mark.parametrize("topic", ["t%23ephemeral", "t#ephemeral"])
async def test_an_ephemeral_topic_may_be_escaped_or_not(server: Server, topic: str) -> None:
    assert (await server.request("POST", f"/pub?topic={topic}", b"x")).body == b"OK"
    assert list(server.engine.topics) == ["t#ephemeral"]


# Beside those of conformance/test_http.py.
PUBLISH_ERRORS: list[tuple[str, bytes, int, str]] = [
    ("/pub", b"", 400, "MSG_EMPTY"),
    ("/pub?topic=$", b"x" * 1001, 413, "MSG_TOO_BIG"),
    ("/pub?topic=", b"x", 400, "INVALID_TOPIC"),
    ("/pub?topic=..", b"x", 400, "INVALID_TOPIC"),
    ("/pub?topic=%zz", b"x", 400, "INVALID_REQUEST"),
    ("/pub?topic=t;defer=1", b"x", 400, "INVALID_REQUEST"),
    ("/pub?topic=t&defer=", b"x", 400, "INVALID_DEFER"),
    ("/pub?topic=t&defer=1_0", b"x", 400, "INVALID_DEFER"),
    ("/mpub?topic=t", b"x" * 5001, 413, "BODY_TOO_BIG"),
    ("/mpub?topic=t", b"ok\n" + b"x" * 1001, 413, "MSG_TOO_BIG"),
    ("/mpub?topic=t&binary=true", b"", 413, "BAD_BODY"),
    ("/mpub?topic=t&binary=true", b"\0\0\0", 413, "BAD_BODY"),
    ("/mpub?topic=t&binary=true", b"\0\0\3\xe8" + sized(b"x"), 413, "BAD_BODY"),
    ("/mpub?topic=t&binary=true", binary(b"x") + b"rest", 413, "BAD_BODY"),
    ("/mpub?topic=t&binary=true", binary(b"x", b""), 413, "BAD_MESSAGE"),
    ("/mpub?topic=t&binary=true", b"\0\0\0\2" + sized(b"x"), 413, "BAD_MESSAGE"),
    ("/mpub?topic=t&binary=true", binary(b"x" * 1001), 413, "BAD_MESSAGE"),
]


async def test_a_refused_publish_queues_nothing(server: Server) -> None:
    for target, body, status, word in PUBLISH_ERRORS:
        answer = await server.request("POST", target, body)
        assert (answer.status, answer.message) == (status, word), (target, body[:20])
        assert server.engine.topics == {}, (target, body[:20])


async def test_a_passed_limit_is_told_with_value_and_limit(server: Server) -> None:
    answer = await server.request("POST", "/pub?topic=t", b"x" * 1001)
    assert answer.detail == "the message has 1001 bytes and the most is 1000 bytes"
    answer = await server.request("POST", "/pub?topic=t&defer=3600001", b"x")
    assert "defer=3600001" in answer.detail
    assert "3600000" in answer.detail


async def test_a_batch_of_too_many_messages_is_refused_whole(tmp_path: Path) -> None:
    async with http_server(tmp_path, max_mpub_messages=3) as server:
        for target, body in (
            ("/mpub?topic=t", b"\n\na\nb\n\n\n\nc\nd"),
            ("/mpub?topic=t&binary=true", binary(b"a", b"b", b"c", b"d")),
        ):
            answer = await server.request("POST", target, body)
            assert (answer.status, answer.message) == (413, "BAD_BODY")
            assert answer.detail == "the body has 4 messages and the most is 3 (--max-mpub-messages)"
        batch = encode_batch([b"a", b"b", b"c", b"d"], None)
        answer = await server.request("POST", f"/log/write?topic=t&batch_key={'0' * 31}1", batch)
        assert (answer.status, answer.message) == (400, "INVALID_REQUEST")
        assert answer.detail == "it has 4 messages and the most is 3 (--max-mpub-messages)"
        assert server.engine.topics == {}
        assert (await server.request("POST", "/mpub?topic=t", b"\n\na\nb\n\n\n\nc\n\n")).body == b"OK"
        assert depth(server, "t") == 3


async def test_mpub_of_nothing_is_ok_and_makes_the_topic(server: Server) -> None:
    assert (await server.request("POST", "/mpub?topic=t", b"\n\n")).body == b"OK"
    assert depth(server, "t") == 0


async def test_binary_mpub_and_every_value_that_means_it(server: Server) -> None:
    body = binary(b"a\n", b"b", b"\n", b"d" * 1000, b"\0")
    for number, flag in enumerate(("true", "1", "junk", "")):
        assert (await server.request("POST", f"/mpub?topic=t{number}&binary={flag}", body)).body == b"OK"
        assert depth(server, f"t{number}") == 5, flag
    for flag in ("false", "0"):
        assert (await server.request("POST", f"/mpub?topic={flag}&binary={flag}", b"a\nb")).body == b"OK"
        assert depth(server, flag) == 2, flag


async def test_ok_is_not_said_before_the_message_is_kept(tmp_path: Path) -> None:
    store = DelayedStore()
    async with http_server(tmp_path, open_store=lambda name: store) as server:
        first, second = await server.connect(), await server.connect()
        request = b"POST /pub?topic=t HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\n\r\nx"
        await first.send(request)
        # A request sent behind it waits, one on another connection does not.
        await first.send(b"GET /ping HTTP/1.1\r\nHost: localhost\r\n\r\n")
        await second.send(b"GET /ping HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert (await second.read_answer()).body == b"OK"
        assert len(store.pending) == 1
        assert first.reader._buffer == b""
        store.complete()
        assert (await first.read_answer()).headers[b"content-length"] == b"2"
        assert (await first.read_answer()).status == 200

        await first.send(request)
        await second.send(b"GET /ping HTTP/1.1\r\nHost: localhost\r\n\r\n")
        await second.read_answer()
        store.fail(StorageError("t.diskqueue.000000.dat: No space left on device"))
        answer = await first.read_answer()
        assert (answer.status, answer.message) == (503, "STORAGE_REFUSED")
        assert answer.detail == "t.diskqueue.000000.dat: No space left on device"


async def test_a_client_that_left_before_its_answer_harms_nobody(tmp_path: Path) -> None:
    store = DelayedStore()
    async with http_server(tmp_path, open_store=lambda name: store) as server:
        gone = await server.connect()
        await gone.send(b"POST /pub?topic=t HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\n\r\nx")
        assert (await server.request("GET", "/ping")).status == 200
        gone.writer.transport.abort()
        assert (await server.request("GET", "/ping")).status == 200
        store.complete()
        assert (await server.request("GET", "/ping")).status == 200


# Topics and channels.


ACT_ERRORS: list[tuple[str, int, str]] = [
    *[(f"/topic/{verb}", 400, "MISSING_ARG_TOPIC") for verb in ("create", "delete", "empty", "pause", "unpause")],
    *[(f"/topic/{verb}?topic=%zz", 400, "INVALID_REQUEST") for verb in ("create", "delete", "pause")],
    ("/topic/create?topic=$", 400, "INVALID_TOPIC"),
    ("/topic/empty?topic=$", 400, "INVALID_TOPIC"),
    ("/topic/delete?topic=$", 404, "TOPIC_NOT_FOUND"),
    ("/topic/pause?topic=$", 404, "TOPIC_NOT_FOUND"),
    *[(f"/topic/{verb}?topic=none", 404, "TOPIC_NOT_FOUND") for verb in ("delete", "empty", "pause", "unpause")],
    *[
        (f"/channel/{verb}{query}", status, word)
        for verb in ("create", "delete", "empty", "pause", "unpause")
        for query, status, word in (
            ("", 400, "MISSING_ARG_TOPIC"),
            ("?channel=c", 400, "MISSING_ARG_TOPIC"),
            ("?topic=$", 400, "INVALID_ARG_TOPIC"),
            ("?topic=t", 400, "MISSING_ARG_CHANNEL"),
            ("?topic=t&channel=$", 400, "INVALID_ARG_CHANNEL"),
            ("?topic=none&channel=c", 404, "TOPIC_NOT_FOUND"),
        )
    ],
    *[
        (f"/channel/{verb}?topic=t&channel=none", 404, "CHANNEL_NOT_FOUND")
        for verb in ("delete", "empty", "pause", "unpause")
    ],
]


async def test_a_refused_act_has_nsqd_s_word(server: Server) -> None:
    server.engine.acts.create_topic("t")
    for target, status, word in ACT_ERRORS:
        answer = await server.request("POST", target)
        assert (answer.status, answer.body) == (status, b'{"message":"%s"}' % word.encode()), target


async def test_the_limit_of_topics_is_told(server: Server) -> None:
    for number in range(20):
        server.engine.acts.create_topic(f"t{number}")
    for target in ("/topic/create?topic=more", "/pub?topic=more"):
        answer = await server.request("POST", target, b"x")
        assert (answer.status, answer.message) == (403, "LIMIT_REACHED")
        assert "20" in answer.detail


async def test_every_act_is_recorded_failures_too(server: Server) -> None:
    for target in (
        "/topic/create?topic=t",
        "/pub?topic=t",
        "/topic/empty?topic=t",
        "/channel/pause?topic=t&channel=none",
        "/channel/delete?topic=t",
        "/topic/delete?topic=%zz",
    ):
        await server.request("POST", target, b"x")
    for record in server.acts:
        assert record.remote_address.startswith("127.0.0.1:")
    trash = next((entry.id for entry in server.engine.trash.list()), Outcome().trash)  # disk queues keep none
    assert [(r.action, r.topic, r.channel, r.error, r.outcome) for r in server.acts] == [
        ("create_topic", "t", "", "", Outcome(created=True)),
        ("empty_topic", "t", "", "", Outcome(depth=1, trash=trash)),
        ("pause_channel", "t", "none", "CHANNEL_NOT_FOUND", None),
        ("delete_channel", "t", "", "MISSING_ARG_CHANNEL", None),
        ("delete_topic", "", "", "INVALID_REQUEST", None),
    ]
    assert isinstance(server.acts[0], ActRecord)


async def test_a_restore_answers_the_name_that_it_gave(server: Server) -> None:
    server.engine.acts.create_topic("t", storage="log")
    for target in ("/topic/delete?topic=t", "/topic/create?topic=t&storage=log"):
        assert (await server.request("POST", target)).status == 200
    (entry,) = (await server.request("GET", "/trash")).json["entries"]
    answer = await server.request("POST", f"/trash/restore?id={entry['id']}")
    assert answer.json == {"name": "t.restored", "waiting": 0, "deferred": 0, "quarantined": 0, "channels": 0}


@pytest.mark.parametrize(
    ("target", "body"),
    [
        ("/pub?topic=made", b"x"),
        ("/pub?topic=made&defer=1000", b"x"),
        ("/mpub?topic=made", b"x\ny"),
        ("/mpub?topic=made", b"\n\n"),
    ],
)
async def test_a_topic_that_is_made_by_publishing_is_recorded_once(server: Server, target: str, body: bytes) -> None:
    for _ in range(2):
        assert (await server.request("POST", target, body)).status == 200
    assert [(r.action, r.topic, r.channel, r.via, r.error) for r in server.acts] == [
        ("create_topic", "made", "", "http", "")
    ]
    assert server.acts[0].outcome == Outcome(created=True)


async def test_an_act_that_the_disk_refuses_is_an_internal_error(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(topic: str, **details: Any) -> Any:
        raise StorageError("topology.json: Input/output error")

    monkeypatch.setattr(server.engine.acts, "pause_topic", refuse)
    answer = await server.request("POST", "/topic/pause?topic=t")
    assert (answer.status, answer.message) == (500, "INTERNAL_ERROR")
    assert server.acts[-1].error == "INTERNAL_ERROR: topology.json: Input/output error"


async def test_a_fault_of_ours_costs_one_request(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(topic: str, **details: Any) -> Any:
        raise ZeroDivisionError

    monkeypatch.setattr(server.engine.acts, "pause_topic", fail)
    answer = await server.request("POST", "/topic/pause?topic=t")
    assert (answer.status, answer.message) == (500, "INTERNAL_ERROR")
    assert answer.detail == "the server failed at this request alone; its log has the error"
    assert (await server.request("GET", "/ping")).status == 200


async def test_a_fenced_channel_and_topic_are_told_and_retried(server: Server) -> None:
    for target in ("/topic/create?topic=t", "/channel/create?topic=t&channel=c", "/channel/create?topic=t&channel=d"):
        await server.request("POST", target)
    topic = server.engine.topics["t"]
    topic.channels["c"].stop("a test", ValueError("seven"))
    topic.stop("another test", ValueError("eight"))
    stats = (await server.request("GET", "/stats?format=json")).json
    (told,) = stats["topics"]
    assert told["fenced"] == "another test failed unexpectedly: ValueError: eight"
    assert [one["fenced"] for one in told["channels"]] == ["a test failed unexpectedly: ValueError: seven", ""]
    assert stats["health"].startswith("NOK - channel t/c is fenced (and 1 more): a test failed unexpectedly")
    assert (await server.request("GET", "/ping")).body.decode() == stats["health"]
    text = (await server.request("GET", "/stats")).body.decode()
    assert "        fenced: a test failed unexpectedly: ValueError: seven\n" in text
    metrics = (await server.request("GET", "/metrics")).body.decode()
    assert 'penstock_channel_fenced{topic="t",channel="c"} 1\n' in metrics
    assert 'penstock_channel_fenced{topic="t",channel="d"} 0\n' in metrics
    assert 'penstock_topic_fenced{topic="t"} 1\n' in metrics
    refused = await server.request("POST", "/pub?topic=t", b"x")
    assert (refused.status, refused.message) == (503, "FENCED")
    assert refused.detail.startswith("topic t is fenced until an operator lets it try again: another test")
    for target in ("/topic/retry?topic=t", "/channel/retry?topic=t&channel=c"):
        assert (await server.request("POST", target)).status == 200
    assert [act.action for act in server.acts[-2:]] == ["retry_topic", "retry_channel"]
    assert (await server.request("POST", "/pub?topic=t", b"x")).status == 200
    assert (await server.request("GET", "/ping")).body == b"OK"
    for target, answer in (
        ("/channel/retry?topic=t&channel=none", (404, "CHANNEL_NOT_FOUND")),
        ("/topic/retry?topic=none", (404, "TOPIC_NOT_FOUND")),
        ("/topic/retry", (400, "MISSING_ARG_TOPIC")),
        ("/channel/retry?topic=t", (400, "MISSING_ARG_CHANNEL")),
    ):
        refused = await server.request("POST", target)
        assert (refused.status, refused.message) == answer
