"""How a tool runs: what ends it."""

import asyncio

import pytest

from queue_engine.tools.running import together


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
