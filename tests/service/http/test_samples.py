"""Samples over HTTP: read as any topic of the log, and used for nothing else."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest_asyncio

from queue_engine.engine.samples.sample_format import decode_sample
from queue_engine.vocabulary.message import FRAME_HEADER_BYTES
from queue_engine.vocabulary.names import SAMPLES_TOPIC
from tests.service.http.server import Server, http_server
from tests.support.samples import INTERVAL_MS, take_sample, topic_row

QUERY = f"topic={SAMPLES_TOPIC}"


@pytest_asyncio.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    async with http_server(tmp_path, samples_interval_ms=INTERVAL_MS) as running:
        await running.request("POST", "/pub?topic=orders", b"one")
        take_sample(running.engine, running.clock)
        take_sample(running.engine, running.clock)
        yield running


async def test_samples_are_read_as_any_topic_of_the_log(server: Server) -> None:
    shown = (await server.request("GET", f"/topic/messages?{QUERY}")).json
    assert (shown["topic"], shown["number"], shown["end_offset"]) == (SAMPLES_TOPIC, 1, 2)
    answer = await server.request("GET", f"/log/read?{QUERY}&offset=0&max_bytes=1")
    assert answer.headers[b"x-penstock-synced-offset"] == b"2"
    sample = decode_sample(answer.body[FRAME_HEADER_BYTES:])
    assert topic_row(sample, "orders")["messages"] == 1
    place = (await server.request("GET", f"/log/topic?{QUERY}")).json
    assert (place["storage"], place["number"], place["synced_offset"], place["end_offset"]) == ("log", 1, 2, 2)
    assert place["id_base"] == shown["id_base"]
    answer = await server.request("GET", f"/log/records?{QUERY}&offset=1")
    assert (answer.status, answer.headers[b"x-penstock-count"]) == (200, b"1")
    assert (answer.headers[b"x-penstock-first-offset"], answer.headers[b"x-penstock-next-offset"]) == (b"1", b"2")


async def test_samples_show_in_no_figures(server: Server) -> None:
    for path in ("/stats", "/stats?format=json", "/metrics"):
        answer = await server.request("GET", path)
        assert b"orders" in answer.body
        assert SAMPLES_TOPIC.encode() not in answer.body
    assert (await server.request("GET", f"/stats?format=json&{QUERY}")).json["topics"] is None


async def test_the_name_is_refused_with_a_sentence(server: Server) -> None:
    for path in (
        f"/pub?{QUERY}",
        f"/pub?{QUERY}&defer=5",
        f"/pub?{QUERY}&key=k",
        f"/mpub?{QUERY}",
        *[f"/topic/{verb}?{QUERY}" for verb in ("create", "delete", "empty", "pause", "unpause")],
        *[f"/channel/{verb}?{QUERY}&channel=c" for verb in ("create", "delete", "empty", "pause", "unpause")],
        f"/channel/seek?{QUERY}&channel=c&to=start",
        f"/log/lease?{QUERY}&offset=0",
        f"/cursor/create?{QUERY}&cursor=c",
    ):
        answer = await server.request("POST", path, b"body")
        assert (path, answer.status, answer.message) == (path, 400, "INVALID_TOPIC")
        assert answer.detail == (
            f"topic name {SAMPLES_TOPIC} is reserved: the server keeps its own samples there, which can only be read"
        )
        assert list(server.engine.topics) == ["orders"], path


async def test_a_channel_of_samples_is_not_peeked_at(server: Server) -> None:
    answer = await server.request("GET", f"/topic/messages?{QUERY}&channel=c")
    assert (answer.status, answer.message) == (400, "INVALID_TOPIC")
