"""Where the commit log syncs: on the engine's thread while that is short, on the sync thread when it is not."""

import errno
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from queue_engine.storage.commit_log.thread_choice import INLINE_BYTES_MAX, ThreadChoice
from queue_engine.vocabulary.clock import NS_PER_MS, NS_PER_S
from queue_engine.vocabulary.errors import StorageError
from tests.support.stores.commit_log import LogBench

SHORT_NS = NS_PER_MS // 5
LONG_NS = 5 * NS_PER_MS


class Disk:
    """A disk whose syncs take `sync_ns` each, and a log's choice, without the log."""

    def __init__(self, sync_ns: int) -> None:
        self.sync_ns = sync_ns
        self.now_ns = NS_PER_S
        self.place = ThreadChoice()
        self.inline_at_ns: list[int] = []

    def sync(self) -> bool:
        """One sync; whether it ran on the engine's thread."""
        is_inline = self.place.is_inline(self.now_ns)
        if is_inline:
            self.inline_at_ns.append(self.now_ns)
        self.now_ns += self.sync_ns
        if is_inline:
            self.place.note_inline(self.sync_ns, self.now_ns)
        else:
            self.place.note_on_thread(self.sync_ns)
        return is_inline

    def run(self, seconds: float) -> int:
        """Sync after sync; how many ran on the engine's thread."""
        until_ns = self.now_ns + round(seconds * NS_PER_S)
        count = 0
        while self.now_ns < until_ns:
            count += self.sync()
            self.now_ns += 20 * NS_PER_MS
        return count


def test_short_syncs_run_on_the_engines_thread() -> None:
    disk = Disk(SHORT_NS)
    assert all(disk.sync() for _ in range(1_000))


def test_one_long_sync_moves_syncing_to_the_thread_for_ten_seconds() -> None:
    disk = Disk(SHORT_NS)
    disk.run(20)
    disk.sync_ns = NS_PER_MS + 1
    assert disk.sync()
    disk.sync_ns = SHORT_NS
    assert disk.run(9.9) == 0
    disk.now_ns += 100 * NS_PER_MS
    assert disk.sync()


def test_a_sync_of_one_millisecond_is_not_long() -> None:
    disk = Disk(NS_PER_MS)
    assert all(disk.sync() for _ in range(100))


def test_a_try_that_fails_at_once_is_repeated_after_a_minute() -> None:
    disk = Disk(LONG_NS)
    assert disk.sync()
    disk.sync_ns = SHORT_NS
    assert disk.run(59) == 0
    assert disk.run(3) > 0


def test_a_steady_slow_disk_is_tried_once_a_minute_at_most() -> None:
    disk = Disk(LONG_NS)
    disk.run(600)
    assert len(disk.inline_at_ns) == 1  # the sync thread's own syncs say the rest
    disk.sync_ns = SHORT_NS
    disk.run(130)
    assert disk.sync()  # and the disk that became quick is found


def test_a_disk_slow_only_for_the_engine_is_tried_once_a_minute() -> None:
    # The thread's syncs are short, those on the engine's thread are not: no two tries within a minute.
    disk = Disk(LONG_NS)
    for _ in range(30_000):
        disk.sync_ns = LONG_NS if disk.place.is_inline(disk.now_ns) else SHORT_NS
        disk.sync()
        disk.now_ns += 20 * NS_PER_MS
    gaps = [later - earlier for earlier, later in zip(disk.inline_at_ns, disk.inline_at_ns[1:], strict=False)]
    assert len(gaps) > 5
    assert min(gaps) >= 60 * NS_PER_S


# The commit log with it.

Make = Callable[..., LogBench]


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    benches: list[LogBench] = []

    def make_bench(
        *, sync_ns: int = SHORT_NS, segment_bytes: int = 4 << 20, fill_ahead_bytes: int = 2 << 20
    ) -> LogBench:
        bench = LogBench(
            tmp_path / f"log{len(benches)}",
            segment_bytes=segment_bytes,
            fill_ahead_bytes=fill_ahead_bytes,
            thread_choice=ThreadChoice(),
        )
        benches.append(bench)
        bench.settle()  # zeros are ahead now
        slow_disk(bench, SHORT_NS)
        return bench

    yield make_bench
    for bench in benches:
        bench.files.abandon()


def slow_disk(bench: LogBench, sync_ns: int) -> None:
    bench.files.before_call = lambda call: bench.clock.advance(ns=sync_ns) if call == "sync_data" else None


def test_with_short_syncs_a_group_is_acknowledged_at_its_commit(make: Make) -> None:
    bench = make()
    for _ in range(3):
        bench.publish()
        assert not bench.pending
    assert (bench.log.counts.inline_syncs, bench.log.counts.syncs) == (3, 3)
    bench.settle()
    bench.check_disk()


def test_a_long_sync_sends_the_next_groups_to_the_sync_thread_and_back(make: Make) -> None:
    bench = make()
    bench.publish()
    bench.clock.advance(ms=20_000)
    slow_disk(bench, LONG_NS)
    bench.publish()
    assert not bench.pending
    slow_disk(bench, SHORT_NS)
    bench.publish()
    assert len(bench.pending) == 1
    bench.settle()
    assert not bench.pending
    bench.clock.advance(ms=10_000)
    bench.publish()
    assert not bench.pending
    assert (bench.log.counts.inline_syncs, bench.log.counts.syncs) == (3, 4)
    bench.check_disk()


def test_groups_that_must_wait_for_others_go_to_the_sync_thread(make: Make) -> None:
    too_large = make()
    too_large.publish(b"x" * INLINE_BYTES_MAX)
    assert len(too_large.pending) == 1

    without_zeros = make(fill_ahead_bytes=0)
    without_zeros.publish()
    assert len(without_zeros.pending) == 1

    fills_a_segment = make(segment_bytes=100_000)
    fills_a_segment.settle()
    fills_a_segment.publish(b"x" * 70_000)
    fills_a_segment.settle()
    fills_a_segment.publish(b"x" * 50_000)
    assert len(fills_a_segment.pending) == 1

    for bench in (too_large, without_zeros, fills_a_segment):
        assert bench.log.counts.inline_syncs <= 1
        bench.settle()
        assert not bench.pending
        bench.check_disk()


@pytest.mark.parametrize(
    ("operation", "error"), [("write", errno.EIO), ("sync_data", errno.EIO), ("sync_data", errno.ENOSPC)]
)
def test_an_error_on_the_engines_thread_is_final_too(make: Make, operation: str, error: int) -> None:
    bench = make()
    bench.publish()
    bench.files.fail(operation, error)
    refused = bench.publish()
    assert bench.rejected == [refused]
    assert bench.log.error is not None
    bench.files.heal()
    bench.settle()  # zeros that were under way
    calls = len(bench.files.calls)
    for _ in range(3):
        with pytest.raises(StorageError, match="until the next start"):
            bench.append()
        bench.second()
        bench.settle()
    assert bench.calls_since(calls, "write", "sync_data") == []
    assert len(bench.acknowledged) == 1
    bench.check_disk(is_exact=False)


def test_a_full_disk_on_the_engines_thread_refuses_and_goes_on(make: Make) -> None:
    bench = make()
    bench.publish()
    bench.files.fail("write", errno.ENOSPC)
    refused = bench.publish()
    assert (bench.rejected, bench.log.is_full) == ([refused], True)
    bench.second()
    bench.settle()
    assert not bench.log.is_full
    bench.publish()
    bench.settle()
    assert len(bench.acknowledged) == 2
    bench.check_disk()
