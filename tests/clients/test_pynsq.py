"""pynsq, the Tornado client: publish and consume the real file, and everything a handler may do with a message."""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import nsq
import pytest

from tests.support.processes.server import ServerProcess
from tests.support.waiting import TIMEOUT_S, wait_for_async

pytestmark = [pytest.mark.slow(reason="starts real servers"), pytest.mark.timeout(400)]


@asynccontextmanager
async def writing(server: ServerProcess) -> AsyncIterator[nsq.Writer]:
    """A connected Writer."""
    writer = nsq.Writer([f"127.0.0.1:{server.tcp_port}"], reconnect_interval=0.5)
    await wait_for_async("the writer's connection", lambda: writer.conns)
    yield writer
    for connection in list(writer.conns.values()):
        connection.close()


@asynccontextmanager
async def reading(
    server: ServerProcess, topic: str, channel: str, handler: Callable[[nsq.Message], Any], **options: Any
) -> AsyncIterator[nsq.Reader]:
    """A connected and subscribed Reader."""
    reader = nsq.Reader(
        topic,
        channel,
        message_handler=handler,
        nsqd_tcp_addresses=[f"127.0.0.1:{server.tcp_port}"],
        **{"max_in_flight": 200, **options},
    )

    def is_subscribed() -> bool:
        try:
            return bool(server.channel_stats(topic, channel)["client_count"])
        except LookupError:
            return False

    await wait_for_async("the reader's subscription", is_subscribed)
    yield reader
    reader.close()


async def answer(command: Callable[..., Any], *arguments: Any) -> bytes:
    """What the server answers to a Writer's command. Raises the library's error when it is refused."""
    answered: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    command(*arguments, callback=lambda _, data: answered.set_result(data))
    data = await asyncio.wait_for(answered, TIMEOUT_S)
    if isinstance(data, Exception):
        raise data
    assert isinstance(data, bytes)
    return data


def in_flight_count(server: ServerProcess, topic: str) -> int:
    return sum(channel["in_flight_count"] for channel in server.topic_stats(topic)["channels"])


class Collected:
    """A handler that finishes whatever comes and keeps the bodies."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []

    def __call__(self, message: nsq.Message) -> bool:
        self.bodies.append(message.body)
        return True


async def test_every_line_arrives_byte_equal_on_both_channels(server: ServerProcess, lines: list[bytes]) -> None:
    first, second = Collected(), Collected()
    async with (
        reading(server, "quakes", "archive", first),
        reading(server, "quakes", "alerts", second),
        writing(server) as writer,
    ):
        one_by_one, batched = lines[:700], lines[700:]
        answers = await asyncio.gather(
            *(answer(writer.pub, "quakes", line) for line in one_by_one),
            *(answer(writer.mpub, "quakes", batched[at : at + 100]) for at in range(0, len(batched), 100)),
        )
        assert set(answers) == {b"OK"}
        for collected in (first, second):
            await wait_for_async("every line", lambda collected=collected: len(collected.bodies) >= len(lines))
            assert Counter(collected.bodies) == Counter(lines)
        await wait_for_async(
            "every FIN",
            lambda: all(found["in_flight_count"] == 0 for found in server.topic_stats("quakes")["channels"]),
        )
    found = server.topic_stats("quakes")
    assert found["message_count"] == len(lines)
    assert [(channel["depth"], channel["timeout_count"]) for channel in found["channels"]] == [(0, 0), (0, 0)]


async def test_requeue_with_delay_comes_again_later_with_one_attempt_more(server: ServerProcess) -> None:
    seen: list[tuple[int, float]] = []

    def handler(message: nsq.Message) -> None:
        message.enable_async()
        seen.append((message.attempts, time.monotonic()))
        if message.attempts == 1:
            message.requeue(delay=1, backoff=False)
        else:
            message.finish()

    async with reading(server, "requeued", "c", handler), writing(server) as writer:
        await answer(writer.pub, "requeued", b"not now")
        await wait_for_async("the second attempt", lambda: len(seen) == 2)
        await wait_for_async("its FIN", lambda: server.channel_stats("requeued", "c")["in_flight_count"] == 0)
    assert [attempts for attempts, _ in seen] == [1, 2]
    assert seen[1][1] - seen[0][1] > 0.95
    found = server.channel_stats("requeued", "c")
    assert (found["requeue_count"], found["timeout_count"], found["depth"]) == (1, 0, 0)


async def test_an_unanswered_message_times_out_and_comes_again(server: ServerProcess) -> None:
    """On a machine that stalls the second attempt may time out as well."""
    seen: list[tuple[int, bytes]] = []

    def handler(message: nsq.Message) -> None:
        message.enable_async()
        seen.append((message.attempts, message.id))
        if message.attempts > 1:
            message.finish()

    async with reading(server, "timed_out", "c", handler, msg_timeout=3), writing(server) as writer:
        await answer(writer.pub, "timed_out", b"forgotten")
        await wait_for_async("the second attempt", lambda: len(seen) > 1)
        await wait_for_async("its FIN", lambda: in_flight_count(server, "timed_out") == 0)
    assert [attempts for attempts, _ in seen] == [*range(1, len(seen) + 1)]
    assert len({message_id for _, message_id in seen}) == 1
    found = server.channel_stats("timed_out", "c")
    assert (found["timeout_count"], found["requeue_count"]) == (len(seen) - 1, 0)


async def test_touch_keeps_a_message_from_timing_out(server: ServerProcess) -> None:
    seen: list[int] = []
    loop = asyncio.get_running_loop()

    def handler(message: nsq.Message) -> None:
        message.enable_async()
        seen.append(message.attempts)
        for tenths in range(5, 70, 5):  # far more often than is needed, on a machine that stalls
            loop.call_later(tenths / 10, message.touch)
        loop.call_later(7.0, message.finish)

    async with reading(server, "touched", "c", handler, msg_timeout=6), writing(server) as writer:
        await answer(writer.pub, "touched", b"takes long")
        await wait_for_async("its delivery", lambda: seen)
        await wait_for_async("its FIN", lambda: in_flight_count(server, "touched") == 0)
    assert seen == [1]
    assert server.channel_stats("touched", "c")["timeout_count"] == 0


async def test_a_deferred_publish_arrives_when_due(server: ServerProcess) -> None:
    collected = Collected()
    async with reading(server, "deferred", "c", collected), writing(server) as writer:
        assert await answer(writer.dpub, "deferred", 3_600_000, b"in an hour") == b"OK"
        assert server.channel_stats("deferred", "c")["deferred_count"] == 1
        started = time.monotonic()
        assert await answer(writer.dpub, "deferred", 500, b"later") == b"OK"
        await wait_for_async("the message", lambda: collected.bodies)
        assert time.monotonic() - started > 0.45
    assert collected.bodies == [b"later"]


async def test_a_paused_channel_holds_and_the_other_goes_on(server: ServerProcess, lines: list[bytes]) -> None:
    held, flowing = Collected(), Collected()
    some = lines[:100]
    async with (
        reading(server, "paused", "held", held),
        reading(server, "paused", "flowing", flowing),
        writing(server) as writer,
    ):
        server.http("POST", "/channel/pause?topic=paused&channel=held")
        await answer(writer.mpub, "paused", some)
        await wait_for_async("the other channel", lambda: len(flowing.bodies) == len(some))
        assert held.bodies == []
        found = server.channel_stats("paused", "held")
        assert (found["paused"], found["depth"]) == (True, len(some))
        server.http("POST", "/channel/unpause?topic=paused&channel=held")
        await wait_for_async("what was held", lambda: len(held.bodies) == len(some))
        assert Counter(held.bodies) == Counter(some)


async def test_a_name_that_is_refused_is_told_to_the_library(server: ServerProcess) -> None:
    async with writing(server) as writer:
        with pytest.raises(nsq.Error, match="E_BAD_TOPIC"):
            await answer(writer.pub, "not$valid", b"x")


async def test_reader_and_writer_come_back_after_a_restart(own_server: ServerProcess, lines: list[bytes]) -> None:
    """pynsq tries again 15 s after it lost a connection: this test waits for that."""
    collected = Collected()
    half = len(lines) // 2
    async with reading(own_server, "quakes", "c", collected), writing(own_server) as writer:
        await answer(writer.mpub, "quakes", lines[:half])
        await wait_for_async("the first half", lambda: len(collected.bodies) == half)
        await wait_for_async("every FIN", lambda: in_flight_count(own_server, "quakes") == 0)  # else it comes again
        before = set(writer.conns.values())
        await asyncio.to_thread(own_server.restart)
        await wait_for_async("the writer's return", lambda: set(writer.conns.values()) - before)
        await answer(writer.mpub, "quakes", lines[half:])
        await wait_for_async("the second half", lambda: len(set(collected.bodies)) == len(lines), timeout_s=60)
    assert Counter(collected.bodies) == Counter(lines)
