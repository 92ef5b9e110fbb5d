"""Messages published to other servers: finished when one of them has taken them."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from queue_engine.client.nodes import Node
from queue_engine.client.tools import retries as retries_module
from queue_engine.client.tools.forward import Forward, ForwardOptions
from queue_engine.client.tools.running import Stopping
from tests.support.processes.running_engine import RunningEngine
from tests.support.waiting import wait_for_async
from tests.tools.conftest import connecting_to, node_of

StartEngine = Callable[..., RunningEngine]


def publish(engine: RunningEngine, *bodies: bytes) -> None:
    engine.http("POST", "/topic/create?topic=t", b"")
    engine.http("POST", "/channel/create?topic=t&channel=c", b"")
    for body in bodies:
        engine.http("POST", "/pub?topic=t", body)


@asynccontextmanager
async def forwarding(engine: RunningEngine, *destinations: Node, **options: Any) -> AsyncIterator[Forward]:
    tool = Forward(connecting_to(engine), ForwardOptions(("t",), "c", destinations, **options))
    stopping = Stopping()
    running = asyncio.create_task(tool.run(stopping))
    try:
        yield tool
    finally:
        stopping.request_end()
        await running


def bodies_in(engine: RunningEngine, topic: str) -> set[bytes]:
    """What waits in a topic without channels, read as the first channel gets it."""
    found = set()
    count = engine.topic_stats(topic)["depth"]
    with engine.client() as consumer:
        consumer.subscribe(topic, "read", rdy=count)
        for _ in range(count):
            found.add(consumer.read_message().body)
    return found


async def test_each_message_reaches_one_of_the_servers(start_engine: StartEngine) -> None:
    source, *others = start_engine(), start_engine(), start_engine()
    publish(source, *(b"%d" % number for number in range(20)))
    async with forwarding(source, *map(node_of, others), destination_topic="copy") as tool:
        await wait_for_async("all", lambda: tool.counts["forwarded"] == 20)
    assert [engine.topic_stats("copy")["message_count"] for engine in others] == [10, 10]
    found = source.channel_stats("t", "c")
    assert (found["depth"], found["in_flight_count"]) == (0, 0)


async def test_while_no_server_works_messages_are_requeued_and_none_is_lost(
    start_engine: StartEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retries_module, "BACKOFF_STEP_S", 0.01)
    source = start_engine()
    publish(source, b"a", b"b")
    async with forwarding(source, Node("127.0.0.1", 1)) as tool:
        await wait_for_async("both to be requeued", lambda: tool.counts["requeued"] == 2)
    found = source.channel_stats("t", "c")
    assert (found["depth"] + found["deferred_count"], tool.counts["forwarded"]) == (2, 0)


async def test_what_a_server_refuses_is_given_up(start_engine: StartEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retries_module, "BACKOFF_STEP_S", 0.01)
    monkeypatch.setattr(retries_module, "DELAY_MS", 0)
    source, other = start_engine(), start_engine(max_msg_size=10)
    publish(source, b"too large for it")
    async with forwarding(source, node_of(other), attempts_max=2) as tool:
        await wait_for_async("it to be given up", lambda: tool.counts["given up"] == 1)
    found = source.channel_stats("t", "c")
    assert (tool.counts["requeued"], found["depth"], found["deferred_count"]) == (1, 0, 0)


async def test_only_objects_with_a_field_are_forwarded_and_only_some_of_their_fields(start_engine: StartEngine) -> None:
    source, other = start_engine(), start_engine()
    publish(source, b'{"kind": "x", "a": 1, "b": [2], "c": "\xc3\xa9"}', b'{"kind": "y", "a": 1}', b"[1]", b"no JSON {")
    async with forwarding(
        source, node_of(other), required_field="kind", required_value="x", kept_fields=("a", "c", "d")
    ) as tool:
        await wait_for_async("all", lambda: tool.counts["forwarded"] + tool.counts["left out"] == 4)
    assert (tool.counts["forwarded"], tool.counts["left out"]) == (1, 3)
    assert bodies_in(other, "t") == {b'{"a":1,"c":"\xc3\xa9"}'}
    assert source.channel_stats("t", "c")["depth"] == 0
