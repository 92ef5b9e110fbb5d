"""A running engine, and clients of our own that end with the test."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from queue_engine.client.consumer import Consumer
from queue_engine.client.producer import Producer
from tests.support.processes.running_engine import RunningEngine


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[RunningEngine]:
    with RunningEngine(tmp_path / "data", max_msg_size=1_000, max_rdy_count=10) as running:
        yield running


@pytest.fixture
async def producer(engine: RunningEngine) -> AsyncIterator[Producer]:
    async with await Producer.open("127.0.0.1", engine.tcp_port) as opened:
        yield opened


@pytest.fixture
async def consume(engine: RunningEngine) -> AsyncIterator[Callable[..., Awaitable[Consumer]]]:
    """Opens consumers of topic "t", channel "c"."""
    async with AsyncExitStack() as stack:

        async def open_consumer(**options: Any) -> Consumer:
            return await stack.enter_async_context(
                await Consumer.open("127.0.0.1", engine.tcp_port, "t", "c", **options)
            )

        yield open_consumer
