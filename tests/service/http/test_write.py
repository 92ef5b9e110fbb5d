"""Writing over HTTP: batches once per key, messages with keys, and refusals of wrong requests."""

import struct
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest_asyncio

from tests.service.http.server import Server, http_server
from tests.support.engine import settle

KEY = "0123456789abcdef0123456789ABCDEF"


@pytest_asyncio.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    async with http_server(tmp_path) as running:
        yield running


def batch(*messages: tuple[bytes, bytes]) -> bytes:
    """Keys and bodies as /log/write takes them."""
    parts = [struct.pack(">HI", len(key), len(body)) + key + body for key, body in messages]
    return struct.pack(">I", len(parts)) + b"".join(parts)


ONE = batch((b"", b"a"))


async def messages(server: Server) -> Sequence[dict[str, object]]:
    answer = await server.request("GET", "/topic/messages?topic=orders")
    names = ("body", "body_base64", "key", "key_base64")
    return [{name: one[name] for name in names if name in one} for one in answer.json["messages"]]


async def test_a_batch_is_written_once_and_its_keys_are_shown(server: Server) -> None:
    body = batch((b"", b"a"), (b"k", b"b"), (b"\xff", b"\xfe"))
    answer = await server.request("POST", f"/log/write?topic=orders&batch_key={KEY}", body)
    assert answer.status == 200
    store = server.engine.catalog.topic("orders").store
    told = {"topic": "orders", "number": 1, "id_base": store.positions().id_base, "first_offset": 0, "count": 3}
    assert answer.json == {**told, "known": False}
    again = await server.request("POST", f"/log/write?topic=orders&batch_key={KEY.lower()}&number=1", body)
    assert (again.status, again.json) == (200, {**told, "known": True})
    shown = [{"body": "a"}, {"body": "b", "key": "k"}, {"body_base64": "/g==", "key_base64": "/w=="}]
    assert await messages(server) == shown


async def test_a_replayed_batch_says_so_in_its_record(server: Server) -> None:
    await server.request("POST", f"/log/write?topic=orders&batch_key={KEY}&replayed=true", ONE)
    answer = await server.request("GET", "/log/records?topic=orders&offset=0")
    flags = int.from_bytes(answer.body[20 + 6 : 20 + 8], "big")
    assert flags == 4 + 16
    assert answer.body[20 + 40 : 20 + 56].hex() == KEY.lower()


async def test_one_message_has_a_key(server: Server) -> None:
    assert (await server.request("POST", "/pub?topic=orders&key=caf%C3%A9+1", b"a")).body == b"OK"
    assert (await server.request("POST", "/pub?topic=orders", b"b")).body == b"OK"
    settle(server.engine)
    assert await messages(server) == [{"body": "a", "key": "café 1"}, {"body": "b"}]


async def test_conflicts_are_told_with_what_they_are(server: Server) -> None:
    await server.request("POST", f"/log/write?topic=orders&batch_key={KEY}", ONE)
    answer = await server.request("POST", f"/log/write?topic=orders&batch_key={KEY}", batch((b"", b"b")))
    assert (answer.status, answer.message) == (409, "BATCH_KEY_CONFLICT")
    assert f"{KEY.lower()} was used for other content: 1 messages from offset 0 on" in answer.detail
    answer = await server.request("POST", f"/log/write?topic=orders&batch_key={KEY}&number=2", ONE)
    assert (answer.status, answer.message) == (409, "TOPIC_CHANGED")
    assert answer.detail == "topic orders has number 1, and number 2 is meant"
    answer = await server.request("POST", f"/log/write?topic=new&batch_key={KEY}&number=2", ONE)
    assert (answer.status, answer.message) == (409, "TOPIC_CHANGED")
    assert "new" not in server.engine.topics


async def test_a_disk_queue_is_refused_by_name(server: Server) -> None:
    await server.request("POST", "/topic/create?topic=old&storage=diskqueue")
    for target, body in ((f"/log/write?topic=old&batch_key={KEY}", ONE), ("/pub?topic=old&key=k", b"a")):
        answer = await server.request("POST", target, body)
        assert (answer.status, answer.message) == (400, "INVALID_STORAGE")
        assert answer.detail == "topic old has storage kind diskqueue: only the log keeps keys"


async def test_what_is_wrong_is_named(tmp_path: Path) -> None:
    async with http_server(tmp_path, max_msg_size=100) as server:
        for query, body, word, detail in (
            (f"batch_key={KEY}", ONE, "MISSING_ARG_TOPIC", ""),
            (f"topic=no+name&batch_key={KEY}", ONE, "INVALID_TOPIC", ""),
            ("topic=orders", ONE, "INVALID_REQUEST", "batch_key= is not 32 hex digits"),
            (f"topic=orders&batch_key={KEY}0", ONE, "INVALID_REQUEST", f"batch_key={KEY}0 is not 32 hex digits"),
            (f"topic=orders&batch_key={'0' * 32}", ONE, "INVALID_REQUEST", "or all of them are 0"),
            (f"topic=orders&batch_key={KEY}&replayed=1", ONE, "INVALID_REQUEST", "replayed=1 can be true or false"),
            (f"topic=orders&batch_key={KEY}&number=x", ONE, "INVALID_REQUEST", "number=x is not a whole number"),
            (f"topic=orders&batch_key={KEY}", b"", "INVALID_REQUEST", "0 bytes hold no message count"),
            (f"topic=orders&batch_key={KEY}", bytes(4), "INVALID_REQUEST", "the message count is 0"),
            (
                f"topic=orders&batch_key={KEY}",
                b"\xff" * 4 + ONE[4:],
                "INVALID_REQUEST",
                "is 4294967295, which 11 bytes",
            ),
            (f"topic=orders&batch_key={KEY}", batch((b"", b"")) + b"a", "INVALID_REQUEST", "message 0 has 0 bytes"),
            (
                f"topic=orders&batch_key={KEY}",
                batch((b"", b"a" * 101)),
                "INVALID_REQUEST",
                "101 bytes and can have 1 to 100",
            ),
            (f"topic=orders&batch_key={KEY}", ONE[:-1] + b"", "INVALID_REQUEST", "the message count is 1"),
            (f"topic=orders&batch_key={KEY}", batch((b"", b"ab"))[:-1], "INVALID_REQUEST", "in the midst of message 0"),
            (
                f"topic=orders&batch_key={KEY}",
                bytes(3) + b"\2" + batch((b"k", b"a" * 9))[4:],
                "INVALID_REQUEST",
                "before message 1",
            ),
            (f"topic=orders&batch_key={KEY}", ONE + b"xyz", "INVALID_REQUEST", "3 bytes follow the last of 1 messages"),
        ):
            answer = await server.request("POST", f"/log/write?{query}", body)
            assert (answer.status, answer.message) == (400, word), query
            assert detail in answer.detail, query
            assert server.engine.topics == {}, query


async def test_what_is_wrong_with_a_messages_key_is_named(server: Server) -> None:
    for query, detail in (
        ("key=", "key has 0 bytes and can have 1 to 255"),
        (f"key={'x' * 256}", "key has 256 bytes"),
        ("key=k&defer=1", "key and defer are both given"),
    ):
        answer = await server.request("POST", f"/pub?topic=orders&{query}", b"a")
        assert (answer.status, answer.message) == (400, "INVALID_REQUEST"), query
        assert detail in answer.detail, query
