"""How a tool runs: what ends it."""

import asyncio

import pytest

from queue_engine.client.tools.running import Stopping, together


async def test_the_first_error_ends_the_others_and_is_raised_alone() -> None:
    ended = []

    async def wait() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("the other")

    async def fail() -> None:
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space left"):
        await together([wait(), fail()])
    assert ended == ["the other"]


async def test_an_error_of_works_within_works_is_raised_alone() -> None:
    """As of a topic that a pattern found: the person is told the reason, and not of groups."""

    async def fail() -> None:
        raise OSError(28, "No space left on device")

    async def group() -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(fail())

    with pytest.raises(OSError, match="No space left"):
        await together([group()])


def test_a_signal_that_comes_twice_at_once_asks_once_and_a_later_one_ends_at_once() -> None:
    """As `timeout` sends it: to the program, and to its group."""
    stopping, asked = Stopping(), []
    with stopping.calling(lambda: asked.append(True)):
        assert not stopping.take_signal(100.0)
        assert not stopping.take_signal(100.01)
        assert not stopping.take_signal(100.99)
        assert asked == [True]
        assert stopping.take_signal(101.0)


def test_a_tool_that_stops_by_itself_still_takes_a_first_signal_as_one() -> None:
    """As `tail --count` does."""
    stopping = Stopping()
    stopping.request_end()
    assert not stopping.take_signal(100.0)
    assert stopping.take_signal(102.0)
