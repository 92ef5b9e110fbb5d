"""Zeros ahead of the records: how far they reach, and that they never meet what is written."""

import os
import random
from typing import Any

import pytest

from queue_engine.storage.commit_log.options import SyncPolicy
from tests.support.stores.commit_log import HEAD_BYTES, INTERVAL, OS, MakeBench
from tests.support.stores.worker_thread import WorkerThread


def test_zeros_are_written_ahead_and_synced_in_steps(make: MakeBench) -> None:
    bench = make(segment_bytes=1 << 24, fill_ahead_bytes=4 << 20)
    sizes: list[int] = []
    write_at = bench.files.write_at

    def watched(fd: int, data: Any, position: int) -> int:
        sizes.append(len(data))
        return write_at(fd, data, position)

    bench.files.write_at = watched
    calls = len(bench.files.calls)
    bench.settle()
    assert sizes == [1 << 20] * 3
    assert bench.calls_since(calls, "write", "sync_data") == ["write", "sync_data"] * 3
    bench.publish(b"x" * 100)
    bench.settle()
    assert len(sizes) == 5  # the record, and one step more
    bench.publish(b"x" * (3 << 20))
    bench.settle()
    size = os.path.getsize(bench.segments.list[0].path)
    assert bench.log.end + (3 << 20) <= size <= bench.log.end + (5 << 20)
    bench.check_disk()


@pytest.mark.parametrize("policy", [INTERVAL, OS])
def test_no_zeros_are_written_where_no_sync_is_waited_for(make: MakeBench, policy: SyncPolicy) -> None:
    bench = make(policy, fill_ahead_bytes=1_000)
    bench.publish()
    bench.settle()
    assert os.path.getsize(bench.segments.list[0].path) == bench.log.end


def test_zeros_reach_into_the_next_segment_and_never_beyond_one(make: MakeBench) -> None:
    bench = make(fill_ahead_bytes=1_600)
    bench.publish(b"x" * 700)
    bench.settle()
    first, second = bench.segments.list
    assert os.path.getsize(first.path) > 2_000 - 400
    assert os.path.getsize(second.path) > HEAD_BYTES
    for _ in range(40):
        bench.publish(b"x" * 200)
        bench.settle()
    assert max(os.path.getsize(one.path) for one in bench.segments.list) == 2_000
    bench.check_disk()


def test_zeros_that_come_late_are_put_behind_the_records(make: MakeBench) -> None:
    bench = make(segment_bytes=100_000, fill_ahead_bytes=4_000)
    bench.publish(b"x" * 3_000)
    bench.sync.work()  # the filler was asked before, and comes only now
    bench.worker.finish()
    bench.sync.finish()
    bench.check_disk()


def test_records_and_zeros_by_two_threads_at_once_never_meet(make: MakeBench) -> None:
    # Real threads; the filler's window is about the size of a group, so that they meet all the time.
    sync, worker = WorkerThread(), WorkerThread()
    bench = make(segment_bytes=60_000, fill_ahead_bytes=2_000, sync=sync, worker=worker)
    random_sizes = random.Random(7)
    try:
        for _ in range(600):
            for _ in range(random_sizes.randrange(1, 4)):
                bench.append(b"x" * random_sizes.randrange(1, 1_500))
            bench.log.commit()
            sync.answer()
            worker.answer()
    finally:
        sync.stop()
        worker.stop()
    assert bench.failures == []
    assert len(bench.acknowledged) > 600
    bench.check_disk()
