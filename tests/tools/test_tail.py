"""Messages printed as they come."""

import asyncio

from queue_engine.client.tools.running import Stopping
from queue_engine.client.tools.tail import TailOptions, own_channel, tail
from queue_engine.vocabulary.names import is_valid_name
from tests.support.processes.running_engine import RunningEngine
from tests.support.waiting import wait_for_async
from tests.tools.conftest import connecting_to


async def test_it_prints_so_many_and_leaves_the_others(engine: RunningEngine) -> None:
    engine.http("POST", "/topic/create?topic=t", b"")
    engine.http("POST", "/channel/create?topic=t&channel=c", b"")
    engine.http("POST", "/mpub?topic=t", b"\n".join(b"%d" % number for number in range(10)))
    printed: list[bytes] = []
    options = TailOptions(("t",), "c", count=3, print_topic=True)
    assert await tail(connecting_to(engine), options, printed.append, Stopping()) == 3
    assert b"".join(printed) == b"t | 0\nt | 1\nt | 2\n"
    await wait_for_async("the others to wait", lambda: engine.channel_stats("t", "c")["depth"] == 7)


async def test_it_follows_several_topics_until_it_is_stopped(engine: RunningEngine) -> None:
    printed: list[bytes] = []
    stopping = Stopping()
    running = asyncio.create_task(
        tail(connecting_to(engine), TailOptions(("t", "u"), "c#ephemeral"), printed.append, stopping)
    )
    for topic in ("t", "u"):
        engine.http("POST", f"/pub?topic={topic}", topic.encode() + b"\xff")
    await wait_for_async("both", lambda: sorted(printed) == [b"t\xff\n", b"u\xff\n"])
    stopping.request_end()
    assert await running == 2


def test_its_own_channel_is_gone_with_it() -> None:
    assert own_channel().endswith("#ephemeral")
    assert is_valid_name(own_channel())
