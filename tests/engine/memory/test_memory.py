"""A million messages later the engine holds what it held before."""

import gc
import sys
from pathlib import Path

import pytest

from queue_engine.delivery.channel import RUN_BYTES_MAX
from queue_engine.delivery.consumer import Consumer
from queue_engine.engine.engine import Engine
from queue_engine.vocabulary.clock import NS_PER_MS
from queue_engine.vocabulary.run import Run
from tests.support.clock import ManualClock
from tests.support.engine import make_engine, pass_time, settle

BATCH = 500


class ForgettingSink:
    """Implements `Sink`: keeps only the ids that are not finished yet."""

    def __init__(self) -> None:
        self.is_writable = True
        self.run_bytes_max = RUN_BYTES_MAX
        self.ids: list[bytes] = []

    def send_run(self, run: Run) -> None:
        self.ids += run.ids

    def close_consumer(self) -> None:
        raise AssertionError("no channel is deleted here")


class Worker:
    def __init__(self, engine: Engine, channel: str) -> None:
        self.engine = engine
        self.sink = ForgettingSink()
        self.consumer = Consumer(
            id(self), self.sink, msg_timeout_ns=60_000 * NS_PER_MS, max_msg_timeout_ns=900_000 * NS_PER_MS
        )
        self.channel, _ = engine.catalog.subscribe("orders", channel, self.consumer)
        self.channel.set_ready(self.consumer, 2_500)

    def finish_all_but(self, kept: int) -> None:
        ids, self.sink.ids = self.sink.ids[kept:], self.sink.ids[:kept]
        assert self.channel.finish(self.consumer, ids) == []


def work(engine: Engine, clock: ManualClock, workers: list[Worker], messages: int) -> None:
    for count in range(0, messages, BATCH):
        # Bodies of many lengths: what is looked up by length must not grow with them.
        engine.publish("orders", [b"x" * (100 + (count // BATCH) % 400)] * BATCH)
        settle(engine)
        for worker in workers:
            worker.finish_all_but(1)
        settle(engine)
        if count % (20 * BATCH) == 0:
            pass_time(engine, clock, 20)


def blocks() -> int:
    gc.collect()
    return sys.getallocatedblocks()


@pytest.mark.parametrize("mem_queue_size", [10_000, 100])
@pytest.mark.slow(reason="sends a million messages")
def test_a_million_messages_leave_nothing_behind(tmp_path: Path, mem_queue_size: int) -> None:
    clock = ManualClock()
    engine = make_engine(tmp_path, clock, mem_queue_size=mem_queue_size)
    workers = [Worker(engine, "billing"), Worker(engine, "archive")]
    messages = 1_000_000 if mem_queue_size == 10_000 else 200_000
    work(engine, clock, workers, 250_000)
    before = blocks()
    work(engine, clock, workers, messages)
    # How full the memory queue is just now makes up to 1,400; one block left by each batch of a million makes 2,000.
    assert blocks() - before < 2_000
    for worker in workers:
        assert worker.channel.in_flight_count == 1
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) < 300 << 20


def test_one_message_held_of_each_run_does_not_keep_the_runs(tmp_path: Path) -> None:
    """A consumer that holds one in a hundred: what it costs is what it holds, not what it was sent."""
    clock = ManualClock()
    engine = make_engine(tmp_path, clock)
    worker = Worker(engine, "billing")
    body_bytes = 600
    held: list[bytes] = []
    for _ in range(200):
        engine.publish("orders", [b"x" * body_bytes] * 100)
        settle(engine)
        ids, worker.sink.ids = worker.sink.ids, []
        held.append(ids[0])
        worker.channel.finish(worker.consumer, ids[1:])
    for _ in range(3):
        pass_time(engine, clock, 6_000)
    found = list(worker.channel._in_flight.deliveries())
    assert [delivery.ids for delivery in found] == [[one] for one in held]
    assert all(delivery.run.ids == delivery.ids for delivery in found)
    held_bytes = sum(len(delivery.run.frames) for delivery in found)
    # The log has the bodies: they are not kept twice.
    assert held_bytes == (0 if worker.channel.backlog.can_reread else 200 * (34 + body_bytes))
