"""The key index: how long a look-up among many messages takes, and what the index costs a publish.

    python -m tests.benchmarks.key_index --messages 10000000 --directory /var/tmp

Look-ups: as many messages with a key each are published to one topic of a store of its own, 1,000 a batch. When the
index has written and merged its files, keys are looked up, some of which do not exist; before the first round the
system is asked to drop the index's files from its cache.

Publishing: two stores of one process, with the index and without, get the same batches, in rounds that alternate. What
counts is the processor's time, that of the engine's thread and that of the whole process; the wall clock is a busy
machine's. It is the store alone: a client's publish costs a multiple, of which the index is a smaller part (`--http`
measures it). Merges, which wait for a quiet moment, are stated apart.
"""

import argparse
import os
import statistics
import struct
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path
from random import Random
from typing import NamedTuple

from queue_engine.storage.commit_log.options import SyncPolicy
from queue_engine.storage.disk.background import Backgrounds, InlineBackground
from queue_engine.storage.disk.files import Files
from queue_engine.storage.fetch.key_search import KeySearch
from queue_engine.storage.log_store.batch_keys import digest_of
from queue_engine.storage.log_store.log_settings import LogSettings
from queue_engine.storage.log_store.log_store import LogStore
from queue_engine.storage.log_store.log_topic_store import LogTopicStore
from queue_engine.vocabulary.clock import SystemClock
from tests.support.processes.running_engine import RunningEngine
from tests.support.stores.worker_thread import WorkerThread

TICK_S = 0.1
BODY = b"x" * 200


@dataclass(slots=True)
class Store:
    """A log store with one topic. tick: as often as the engine does it."""

    log: LogStore
    topic: LogTopicStore
    worker: WorkerThread
    tick_at: float = 0.0

    def publish(self, keys: list[bytes], bodies: list[bytes], batch_key: bytes = b"") -> None:
        batch = self.topic.make_batch(bodies)
        digest = digest_of(bodies, keys) if batch_key else b""
        self.topic.append_keyed(batch, keys=keys, batch_key=batch_key, digest=digest)

    def turn(self) -> None:
        self.log.end_turn()
        now = time.monotonic()
        if now >= self.tick_at:
            self.tick_at = now + TICK_S
            self.tick()

    def tick(self) -> None:
        self.worker.answer()
        self.log.tick(time.monotonic_ns())

    def drain(self) -> None:
        """Let the index write all that it has sealed, and merge."""
        while self.topic.key_indexes.is_busy:
            self.tick()
            time.sleep(0.01)


@contextmanager
def opened(directory: Path, policy: SyncPolicy, *, has_key_index: bool = True) -> Iterator[Store]:
    settings = LogSettings(
        policy=policy,
        sync_interval_ms=1_000,
        sync_interval_bytes=64 << 20,
        segment_bytes=64 << 20,
        memory_count_max=100,
        has_key_index=has_key_index,
    )
    worker = WorkerThread()
    backgrounds = Backgrounds(worker, InlineBackground(), worker)
    log = LogStore(str(directory), settings, files=Files(), clock=SystemClock(), backgrounds=backgrounds)
    log.open([])
    topic = log.open_topic("orders", 1, id_base=1 << 40)
    log.reserved([(1, 1 << 40)])
    topic.set_flowing(True)
    try:
        yield Store(log, topic, worker)
    finally:
        log.close()
        worker.stop()


def key_of(number: int) -> bytes:
    return b"order-%010d" % number


def look_ups(directory: Path, messages: int, count: int = 1_000) -> dict[str, float]:
    """Figures of look-ups among so many messages: milliseconds, and bytes of the index a message."""
    rng = Random(7)
    with opened(directory, SyncPolicy.OS) as store:
        bodies = [b"body"] * 1_000
        for first in range(0, messages, 1_000):
            store.publish([key_of(number) for number in range(first, first + 1_000)], bodies)
            store.turn()
        store.drain()
        paths = list((directory / "keys" / "1").iterdir())
        figures = {
            "files": float(len(paths)),
            "bytes a message": sum(path.stat().st_size for path in paths) / messages,
        }
        for path in paths:
            with path.open("rb") as file:
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        for name in ("cold", "warm"):
            wanted = [rng.randrange(messages) for _ in range(count)]
            figures |= figures_of(name, [timed(store, key_of(number), [number]) for number in wanted])
        figures |= figures_of("no such key", [timed(store, b"none-%d" % number, []) for number in range(count)])
    return figures


def figures_of(name: str, times: list[tuple[float, float]]) -> dict[str, float]:
    walls, cpus = [wall for wall, _ in times], [cpu for _, cpu in times]
    return {
        f"{name}, p50 ms": statistics.median(walls),
        f"{name}, p99 ms": statistics.quantiles(walls, n=100)[-1],
        f"{name}, processor ms": statistics.median(cpus),
    }


def timed(store: Store, key: bytes, expected: list[int]) -> tuple[float, float]:
    """Milliseconds of one look-up, by the wall clock and of the processor's; it must find the messages at these
    offsets."""
    began, cpu = time.perf_counter(), time.thread_time()
    found = KeySearch(store.topic).find(key, 10, 1 << 20)
    took, cpu = time.perf_counter() - began, time.thread_time() - cpu
    assert [one.offset for one in found.page.messages] == expected
    assert found.not_indexed_count == 0
    return took * 1_000, cpu * 1_000


class Took(NamedTuple):
    """Seconds. process: of the processor, all threads. thread: of the engine's alone, which publishers wait for."""

    process: float
    thread: float
    wall: float


def publish_ratios(directory: Path, policy: SyncPolicy, *, each: int, rounds: int, batches: int) -> Took:
    """What it took with the index, as parts of what it took without: medians over the rounds. each: messages of a
    batch, 1 for single ones, of which 64 come in a turn."""
    ratios: list[Took] = []
    with (
        opened(directory / "with", policy) as with_index,
        opened(directory / "without", policy, has_key_index=False) as without,
    ):
        for number in range(rounds + 1):
            took: dict[bool, Took] = {}
            for is_with in (True, False) if number % 2 else (False, True):
                store = with_index if is_with else without
                took[is_with] = one_round(store, number, each, batches)
            if number:  # the first one warms up
                ratios.append(Took(*(one / other for one, other in zip(took[True], took[False], strict=True))))
    return Took(*map(statistics.median, zip(*ratios, strict=True)))


def one_round(store: Store, number: int, each: int, batches: int) -> Took:
    first = number * batches * each
    bodies = [BODY] * each
    work = [
        (
            [key_of(first + batch * each + index) for index in range(each)],
            (first + batch).to_bytes(16, "big") if each > 1 else b"",
        )
        for batch in range(batches)
    ]
    began = Took(time.process_time(), time.thread_time(), time.monotonic())
    for index, (keys, batch_key) in enumerate(work):
        store.publish(keys, bodies, batch_key)
        if each > 1 or index % 64 == 63:
            store.turn()
    store.log.end_turn()
    while store.topic.key_indexes.is_writing:
        store.tick()
        time.sleep(0.001)
    ended = Took(time.process_time(), time.thread_time(), time.monotonic())
    return Took(*(end - begin for end, begin in zip(ended, began, strict=True)))


def http_ratios(directory: Path, *, each: int, rounds: int, requests: int) -> Took:
    """As `publish_ratios`, the whole road over HTTP: one client on one connection, /pub?key= or, for more than one
    each, /log/write. process: of all threads but the client's."""
    ratios: list[Took] = []
    with (
        RunningEngine(directory / "with", storage="log") as with_index,
        RunningEngine(directory / "without", storage="log") as without,
    ):
        for engine in (with_index, without):
            engine.http("POST", "/topic/create?topic=orders")
            if engine is without:
                without_index(engine)
        for number in range(rounds + 1):
            took = {
                engine: http_round(engine, number, each, requests)
                for engine in ((with_index, without) if number % 2 else (without, with_index))
            }
            if number:
                ratios.append(Took(*(one / other for one, other in zip(took[with_index], took[without], strict=True))))
    return Took(*map(statistics.median, zip(*ratios, strict=True)))


def without_index(engine: RunningEngine) -> None:
    """No option turns the index off."""
    log = engine._runner._engine._stores.log
    log._parts.key_indexes.is_on = False


def http_round(engine: RunningEngine, number: int, each: int, requests: int) -> Took:
    work: list[tuple[str, bytes]] = []
    for request in range(number * requests, (number + 1) * requests):
        if each == 1:
            work.append((f"/pub?topic=orders&key={key_of(request).decode()}", BODY))
        else:
            keys = [key_of(request * each + index) for index in range(each)]
            parts = [struct.pack(">HI", len(key), len(BODY)) + key + BODY for key in keys]
            body = struct.pack(">I", each) + b"".join(parts)
            work.append((f"/log/write?topic=orders&batch_key={request + 1:032x}", body))
    connection = HTTPConnection("127.0.0.1", engine.http_port)
    own, began = time.thread_time(), Took(time.process_time(), engine._runner.cpu_s(), time.monotonic())
    for path, body in work:
        connection.request("POST", path, body)
        answer = connection.getresponse()
        answer.read()
        assert answer.status == 200
    ended = Took(time.process_time() - (time.thread_time() - own), engine._runner.cpu_s(), time.monotonic())
    connection.close()
    return Took(*(end - begin for end, begin in zip(ended, began, strict=True)))


def print_http(options: argparse.Namespace) -> None:
    for each, requests in ((1, 4_000), (200, 500)):
        with tempfile.TemporaryDirectory(dir=options.directory) as directory:
            took = http_ratios(Path(directory), each=each, rounds=options.rounds, requests=requests)
        print(
            f"publish with keys over HTTP, {each} a request: engine's thread {took.thread:.3f}, "
            f"process {took.process:.3f}, wall clock {took.wall:.3f}",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--http", action="store_true", help="measure publishing over HTTP, and nothing else")
    parser.add_argument("--messages", type=int, default=10_000_000)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--directory", help="where the stores lie while this runs")
    options = parser.parse_args()
    if options.http:
        print_http(options)
        return
    for policy in (SyncPolicy.OS, SyncPolicy.ALWAYS):
        for each, batches in ((200, 1_000), (1, 40_000)):
            with tempfile.TemporaryDirectory(dir=options.directory) as directory:
                took = publish_ratios(Path(directory), policy, each=each, rounds=options.rounds, batches=batches)
            print(
                f"publish with keys, {each} a batch, sync {policy}: engine's thread {took.thread:.3f}, "
                f"process {took.process:.3f}, wall clock {took.wall:.3f}",
                flush=True,
            )
    with tempfile.TemporaryDirectory(dir=options.directory) as directory:
        for name, figure in look_ups(Path(directory), options.messages).items():
            print(f"{options.messages:,} messages: {name:24} {figure:8.3f}")


if __name__ == "__main__":
    main()
