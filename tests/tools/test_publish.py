"""What is read is published, a message for each piece; the count is of what every server has taken."""

import asyncio
import threading
from collections.abc import Callable, Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from queue_engine.client.connection import DisconnectedError
from queue_engine.client.nodes import Node
from queue_engine.client.tools.connecting import Connecting
from queue_engine.client.tools.publish import Pieces, PublishFailedError, PublishOptions, publish
from queue_engine.client.tools.running import Counts, Stopping
from tests.support.processes.running_engine import RunningEngine
from tests.support.waiting import wait_for_async
from tests.tools.conftest import node_of

StartEngine = Callable[..., RunningEngine]


def reader_of(*parts: bytes) -> Callable[[int], bytes]:
    """Returns one part after the other, then the end."""
    left: Iterator[bytes] = iter((*parts, b""))
    return lambda size: next(left)


@given(st.lists(st.binary(max_size=20), max_size=10))
def test_pieces_are_those_of_the_whole_however_it_comes(parts: list[bytes]) -> None:
    pieces = Pieces(b"\n")
    found = [piece for part in parts for piece in pieces.feed(part)] + pieces.end()
    assert found == [piece for piece in b"".join(parts).split(b"\n") if piece]


async def test_every_server_gets_every_message(start_engine: StartEngine) -> None:
    engines = [start_engine(), start_engine()]
    counts = Counts("published")
    options = PublishOptions("t", list(map(node_of, engines)))
    lines = b"".join(b"%d\n" % number for number in range(2_000))
    parts = [lines[at : at + 1_000] for at in range(0, len(lines), 1_000)]
    await publish(Connecting(), options, reader_of(*parts, b"\n\nlast"), counts, Stopping())
    assert counts["published"] == 2_001
    assert [engine.topic_stats("t")["message_count"] for engine in engines] == [2_001, 2_001]


async def test_messages_may_be_deferred(start_engine: StartEngine) -> None:
    engine = start_engine()
    engine.http("POST", "/topic/create?topic=t", b"")
    engine.http("POST", "/channel/create?topic=t&channel=c", b"")
    options = PublishOptions("t", [node_of(engine)], b"|", defer_ms=60_000)
    await publish(Connecting(), options, reader_of(b"a\nb|c"), Counts("published"), Stopping())
    assert engine.channel_stats("t", "c")["deferred_count"] == 2


async def test_a_refusal_says_how_much_is_published(start_engine: StartEngine) -> None:
    engine = start_engine(max_msg_size=10)
    counts = Counts("published")
    with pytest.raises(
        PublishFailedError, match=r"^2 messages are published; the next 1 may be, or not: .*BAD_MESSAGE"
    ):
        await publish(
            Connecting(), PublishOptions("t", [node_of(engine)]), reader_of(b"a\nb\n", b"x" * 11), counts, Stopping()
        )
    assert engine.topic_stats("t")["message_count"] == counts["published"] == 2


async def test_a_server_that_is_not_there_is_an_error_before_anything_is_read() -> None:
    def read(size: int) -> bytes:
        raise AssertionError("nothing may be read")

    with pytest.raises(DisconnectedError, match=r"can't connect to 127\.0\.0\.1:1"):
        await publish(Connecting(), PublishOptions("t", [Node("127.0.0.1", 1)]), read, Counts("published"), Stopping())


async def test_a_stop_ends_it_though_nothing_comes_and_is_no_success(start_engine: StartEngine) -> None:
    engine = start_engine()
    stopping, counts = Stopping(), Counts("published")
    asked = asyncio.Event()
    loop = asyncio.get_running_loop()

    def read(size: int) -> bytes:
        loop.call_soon_threadsafe(asked.set)
        return b"a\n" if not counts["published"] else forever()

    def forever() -> bytes:
        threading.Event().wait(20)
        return b""

    running = asyncio.create_task(publish(Connecting(), PublishOptions("t", [node_of(engine)]), read, counts, stopping))
    await wait_for_async("the first message", lambda: counts["published"])
    stopping.request_end()
    async with asyncio.timeout(15):
        with pytest.raises(
            PublishFailedError, match=r"^stopped before the end of the input: 1 published, the rest not$"
        ):
            await running
    assert counts["published"] == 1


async def test_a_rate_is_kept_by_the_loop_s_clock(start_engine: StartEngine) -> None:
    engine = start_engine()
    loop = asyncio.get_running_loop()
    began_at = loop.time()
    await publish(
        Connecting(), PublishOptions("t", [node_of(engine)], rate=50.0), reader_of(b"1\n2\n3\n4\n5\n6\n"),
        Counts("published"), Stopping(),
    )  # fmt: skip
    assert loop.time() - began_at >= 0.1


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"delimiter": b"||"}, "--delimiter is"),
        ({"delimiter": b""}, "--delimiter is"),
        ({"rate": -1.0}, "--rate is -1"),
    ],
)
def test_what_can_not_work_is_refused(options: dict[str, object], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        PublishOptions("t", [], **options).check()  # type: ignore[arg-type]
