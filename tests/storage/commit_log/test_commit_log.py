"""The commit log while nothing fails: what is visible when, how often it syncs, where segments end."""

import os
import random
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from queue_engine.commit_log.options import SyncPolicy
from queue_engine.commit_log.record import SEAL_BYTES
from queue_engine.commit_log.recovery import RecoveredLog
from queue_engine.commit_log.segment import head_bytes_of
from queue_engine.disk.background import InlineBackground
from queue_engine.vocabulary.clock import NS_PER_MS, NS_PER_S
from queue_engine.vocabulary.errors import StorageError
from tests.support.stores.commit_log import LogBench
from tests.support.stores.worker_thread import WorkerThread

HEAD_BYTES = head_bytes_of(2_000)
ALWAYS, INTERVAL, OS = SyncPolicy.ALWAYS, SyncPolicy.INTERVAL, SyncPolicy.OS
POLICIES = list(SyncPolicy)

Make = Callable[..., LogBench]


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    benches: list[LogBench] = []

    def make_bench(policy: SyncPolicy = ALWAYS, **options: Any) -> LogBench:
        benches.append(LogBench(tmp_path / f"log{len(benches)}", policy, **options))
        return benches[-1]

    yield make_bench
    for bench in benches:
        bench.files.abandon()


def ends(bench: LogBench) -> tuple[int, int, int, int]:
    log = bench.log
    return log.synced_end, log.visible_end, log.written_end, log.end


# What is visible when.


def test_with_always_a_record_is_visible_once_its_sync_was_answered(make: Make) -> None:
    bench = make()
    start = HEAD_BYTES
    first = bench.append()
    assert (first.position, ends(bench)) == (start, (start, start, start, first.end))
    bench.log.commit()
    assert ends(bench) == (start, start, start, first.end)
    bench.sync.work()
    assert ends(bench) == (start, start, start, first.end)
    assert bench.visible == []
    bench.sync.answer()
    assert ends(bench) == (first.end,) * 4
    assert bench.visible == [first.end]
    bench.check_disk()


@pytest.mark.parametrize("policy", [INTERVAL, OS])
def test_otherwise_a_record_is_visible_once_it_is_written(make: Make, policy: SyncPolicy) -> None:
    bench = make(policy)
    start = bench.log.end
    first = bench.append()
    assert bench.visible == []
    bench.log.commit()
    assert ends(bench) == (start, first.end, first.end, first.end)
    assert bench.visible == [first.end]
    bench.check_disk()


@pytest.mark.parametrize("policy", POLICIES)
def test_without_a_commit_nothing_is_written(make: Make, policy: SyncPolicy) -> None:
    bench = make(policy)
    bench.append()
    calls = len(bench.files.calls)
    bench.second()
    bench.settle()
    assert bench.files.calls[calls:] == []


@pytest.mark.parametrize("policy", POLICIES)
def test_a_commit_of_nothing_does_nothing(make: Make, policy: SyncPolicy) -> None:
    bench = make(policy)
    calls = len(bench.files.calls)
    bench.log.commit()
    bench.settle()
    assert bench.files.calls[calls:] == []


@pytest.mark.parametrize("policy", POLICIES)
def test_a_turn_is_one_write(make: Make, policy: SyncPolicy) -> None:
    bench = make(policy)
    calls = len(bench.files.calls)
    for _ in range(5):
        bench.append()
    bench.log.commit()
    bench.sync.finish()
    assert bench.calls_since(calls, "write") == ["write"]
    assert bench.log.counts.groups == 1
    assert len(bench.acknowledged) == 5
    bench.check_disk()


def test_a_record_tells_what_was_synced_when_it_was_appended(make: Make) -> None:
    bench = make()
    first = bench.publish()
    bench.publish()
    bench.settle()
    bench.publish()
    bench.settle()
    marks = [header.durable_upto for _, header in bench.on_disk()]
    # The second was appended before the first was synced; together they were two groups.
    assert marks == [HEAD_BYTES, HEAD_BYTES, bench.acknowledged[1].end]
    assert first.end < bench.acknowledged[1].end


def test_a_log_that_begins_behind_another_is_synced_up_to_its_beginning(make: Make) -> None:
    bench = make(recovered=RecoveredLog(end=5_000, next_position=6_000))
    assert ends(bench) == (6_000 + HEAD_BYTES,) * 4
    assert bench.publish().position == 6_000 + HEAD_BYTES


def test_with_work_done_at_once_visible_ends_come_in_order(make: Make) -> None:
    bench = make(sync=InlineBackground(), worker=InlineBackground(), fill_ahead_bytes=1_000)
    for _ in range(40):
        bench.publish()
    assert bench.visible == sorted(set(bench.visible))
    assert len(bench.acknowledged) == 40
    bench.check_disk()


# How often it syncs.


def test_turns_that_gather_during_a_sync_share_the_next_one(make: Make) -> None:
    bench = make(segment_bytes=20_000)
    calls = len(bench.files.calls)
    for _ in range(17):
        bench.publish()
    assert bench.calls_since(calls, "write", "sync_data") == []
    bench.sync.work()
    bench.sync.answer()
    assert len(bench.acknowledged) == 1
    bench.sync.work()
    bench.sync.answer()
    assert len(bench.acknowledged) == 17
    assert bench.calls_since(calls, "write", "sync_data") == ["write", "sync_data"] * 2
    assert (bench.log.counts.groups, bench.log.counts.syncs) == (2, 2)
    bench.sync.finish()
    assert bench.log.counts.syncs == 2


def test_what_is_not_committed_waits_for_its_turn_to_end(make: Make) -> None:
    bench = make()
    bench.publish()
    late = bench.append()
    bench.settle()
    assert bench.pending == [late]
    bench.log.commit()
    bench.settle()
    assert bench.pending == []


def test_os_syncs_nothing_until_a_segment_is_full(make: Make) -> None:
    bench = make(OS)
    calls = len(bench.files.calls)
    while len(bench.segments.list) < 2 or bench.log.end < bench.segments.list[1].position:
        assert bench.calls_since(calls, "sync_data") == []
        bench.publish()
        bench.second()
        bench.worker.finish()
    bench.sync.finish()
    assert bench.calls_since(calls, "sync_data") == ["sync_data"]
    assert bench.log.synced_end == bench.segments.list[1].position + HEAD_BYTES
    assert bench.log.counts.syncs_by_roll == 1
    assert bench.segments.list[0].path.rpartition("/")[2] not in bench.open_paths()


def test_os_syncs_every_two_seconds_while_somebody_reads_what_is_synced(make: Make) -> None:
    bench = make(OS)
    calls = len(bench.files.calls)
    bench.publish()
    for has_readers, wanted in ((False, 0), (True, 1)):
        bench.log.has_readers = has_readers
        for _ in range(3):
            bench.second()
        bench.settle()
        assert len(bench.calls_since(calls, "sync_data")) == wanted
    assert ends(bench) == (bench.log.end,) * 4
    # What was synced is not synced again.
    for _ in range(5):
        bench.second()
    bench.settle()
    assert bench.calls_since(calls, "sync_data") == ["sync_data"]
    assert (bench.log.counts.syncs_by_time, bench.log.counts.syncs_by_roll) == (1, 0)


def test_interval_syncs_by_bytes(make: Make) -> None:
    bench = make(INTERVAL, sync_interval_bytes=500)
    calls = len(bench.files.calls)
    size = bench.publish().size
    bench.publish()
    bench.settle()
    assert 2 * size < 500 <= 3 * size
    assert bench.calls_since(calls, "sync_data") == []
    bench.publish()
    bench.settle()
    assert bench.calls_since(calls, "sync_data") == ["sync_data"]
    assert ends(bench) == (bench.log.end,) * 4
    assert (bench.log.counts.syncs_by_bytes, bench.log.counts.syncs_by_time) == (1, 0)
    assert bench.log.counts.synced_bytes == 3 * size


def test_interval_syncs_by_time_even_one_record(make: Make) -> None:
    bench = make(INTERVAL, sync_interval_ms=200, sync_interval_bytes=1_000_000)
    calls = len(bench.files.calls)
    bench.publish()
    bench.clock.advance(ms=199)
    bench.log.tick(bench.clock.monotonic_ns())
    bench.settle()
    assert bench.calls_since(calls, "sync_data") == []
    bench.clock.advance(ms=1)
    bench.log.tick(bench.clock.monotonic_ns())
    bench.settle()
    assert bench.calls_since(calls, "sync_data") == ["sync_data"]
    assert bench.log.synced_end == bench.log.end
    assert bench.log.counts.syncs_by_time == 1
    bench.second()
    bench.settle()
    assert bench.calls_since(calls, "sync_data") == ["sync_data"]


def test_interval_syncs_again_at_once_when_enough_came_meanwhile(make: Make) -> None:
    bench = make(INTERVAL, sync_interval_bytes=100)
    first = bench.publish()
    bench.publish()
    bench.sync.work()
    bench.sync.answer()
    assert bench.log.synced_end == first.end
    bench.sync.work()
    bench.sync.answer()
    assert bench.log.synced_end == bench.log.end
    assert bench.log.counts.syncs_by_bytes == 2


def test_an_interval_s_sync_does_not_claim_what_was_written_behind_its_back(make: Make) -> None:
    bench = make(INTERVAL, sync_interval_bytes=100)
    first = bench.publish()
    bench.sync.work()
    bench.publish()
    bench.sync.answer()
    assert bench.log.synced_end == first.end


def test_an_interval_s_sync_does_not_claim_what_only_gathers(make: Make) -> None:
    bench = make(INTERVAL)
    first = bench.publish()
    bench.append()
    bench.second()
    bench.settle()
    assert bench.log.synced_end == first.end


@pytest.mark.parametrize("policy", POLICIES)
def test_the_age_of_the_oldest_unsynced_byte_is_told(make: Make, policy: SyncPolicy) -> None:
    bench = make(policy, sync_interval_ms=1_000_000)
    assert bench.log.oldest_unsynced_ns() == 0
    bench.append()
    bench.clock.advance(ms=5)
    bench.log.commit()
    bench.clock.advance(ms=5)
    bench.publish()
    assert bench.log.oldest_unsynced_ns() == 10 * NS_PER_MS
    bench.sync.work()
    bench.sync.answer()
    assert bench.log.oldest_unsynced_ns() == (0 if policy is ALWAYS else 10) * NS_PER_MS
    bench.log.close()
    assert bench.log.oldest_unsynced_ns() == 0


def test_the_age_goes_on_with_what_came_during_a_sync(make: Make) -> None:
    bench = make(INTERVAL, sync_interval_bytes=100)
    bench.publish()
    bench.clock.advance(ms=3)
    bench.append(b"x")
    bench.clock.advance(ms=4)
    bench.sync.work()
    bench.sync.answer()
    assert bench.log.oldest_unsynced_ns() == 4 * NS_PER_MS


# Segments.


@pytest.mark.parametrize("policy", POLICIES)
def test_a_full_segment_is_sealed_and_the_next_one_goes_on(make: Make, policy: SyncPolicy) -> None:
    bench = make(policy)
    for _ in range(30):
        bench.publish()
        bench.settle()
    first, second, *_ = bench.segments.list
    assert (first.position, second.position) == (0, 2_000)
    last_in_first = max((one for one in bench.acknowledged if one.position < 2_000), key=lambda one: one.position)
    assert first.is_sealed
    assert first.end == last_in_first.end
    assert first.end + SEAL_BYTES <= 2_000 < first.end + SEAL_BYTES + last_in_first.size
    bench.check_disk()
    assert len(bench.acknowledged) == 30


def test_a_group_over_two_segments_is_visible_when_both_are_synced(make: Make) -> None:
    bench = make()
    bench.publish(b"x" * 1_000)
    bench.settle()
    calls = len(bench.files.calls)
    two = [bench.append(b"a" * 200), bench.append(b"b" * 900)]
    assert two[1].position == 2_000 + HEAD_BYTES
    bench.log.commit()
    assert not bench.segments.list[0].is_sealed
    bench.sync.work()
    assert bench.pending == two
    assert not bench.segments.list[0].is_sealed
    bench.sync.answer()
    assert bench.acknowledged[1:] == two
    assert bench.segments.list[0].is_sealed
    assert bench.calls_since(calls, "write", "sync_data", "close")[-6:] == [
        *["write"] * 2,
        *["sync_data"] * 2,
        *["close"] * 2,
    ]
    assert bench.visible[-1] == bench.log.end == two[1].end
    bench.check_disk()


@pytest.mark.parametrize("policy", POLICIES)
def test_a_group_over_many_segments(make: Make, policy: SyncPolicy) -> None:
    bench = make(policy)
    for _ in range(6):
        bench.append(b"x" * 1_000)
    bench.log.commit()
    bench.settle()
    assert len(bench.acknowledged) == 6
    assert [one.is_sealed for one in bench.segments.list[:6]] == [True] * 5 + [False]
    bench.check_disk()


def test_segments_are_synced_in_the_order_of_their_positions(make: Make) -> None:
    bench = make(INTERVAL)
    for _ in range(4):
        bench.publish(b"x" * 1_000)
    synced: list[str] = []
    sync_data = bench.files.sync_data

    def watched(fd: int) -> None:
        synced.append(os.readlink(f"/proc/self/fd/{fd}"))
        sync_data(fd)

    bench.files.sync_data = watched  # type: ignore[method-assign]
    bench.settle()
    assert synced == sorted(synced)
    assert len(set(synced)) == 4
    assert bench.log.synced_end == bench.log.end


def test_a_record_larger_than_a_segment_is_refused_and_nothing_else_changes(make: Make) -> None:
    bench = make()
    bench.append()
    before = ends(bench)
    with pytest.raises(StorageError, match=r"record of (\d+) bytes does not fit .* holds 1712"):
        bench.append(b"x" * 1_800)
    assert ends(bench) == before
    assert len(bench.segments.list) == 1
    assert bench.log.error is None
    assert not bench.log.is_full
    bench.append()
    bench.log.commit()
    bench.settle()
    bench.check_disk()
    assert len(bench.acknowledged) == 2


def test_the_largest_record_fills_a_segment(make: Make) -> None:
    bench = make()
    small = bench.publish(b"x")
    room = 2_000 - HEAD_BYTES - SEAL_BYTES - small.size  # for bodies longer than one byte
    largest = bench.publish(b"x" * (1 + room - small.size))
    bench.settle()
    assert largest.position == small.end
    assert largest.end == 2_000 - SEAL_BYTES
    with pytest.raises(StorageError, match="does not fit"):
        bench.append(b"x" * (2 + room))
    following = bench.publish(b"x" * (1 + room))
    bench.settle()
    assert following.end == 4_000 - SEAL_BYTES
    bench.check_disk()


def test_the_next_segment_is_made_ahead_by_the_worker(make: Make) -> None:
    bench = make()
    bench.publish(b"x" * 500)
    bench.settle()
    assert len(bench.segments.list) == 2
    calls = len(bench.files.calls)
    assert bench.append(b"x" * 1_000).position == 2_000 + HEAD_BYTES
    assert bench.files.calls[calls:] == []


def test_a_segment_that_the_worker_did_not_make_in_time_is_made_by_the_append(make: Make) -> None:
    bench = make()
    for _ in range(3):
        bench.publish(b"x" * 1_000)  # the worker has not begun
        bench.sync.finish()
    assert [one.position for one in bench.segments.list] == [0, 2_000, 4_000]
    bench.worker.finish()
    assert [one.position for one in bench.segments.list][:3] == [0, 2_000, 4_000]
    bench.publish(b"x" * 1_000)
    bench.settle()
    assert len(bench.acknowledged) == 4
    bench.check_disk()


def test_segments_that_are_still_written_or_unsynced_are_held(make: Make) -> None:
    bench = make()
    assert bench.log.first_open_position == 0
    bench.publish(b"x" * 1_000)
    bench.publish(b"x" * 1_000)
    bench.sync.work()
    bench.sync.answer()
    bench.sync.work()
    assert bench.log.first_open_position == 0
    bench.sync.answer()
    assert bench.log.first_open_position == 2_000


def test_times_never_go_back(make: Make) -> None:
    bench = make(recovered=RecoveredLog(last_time_ns=3 * NS_PER_S))
    assert bench.log.last_time_ns == 3 * NS_PER_S
    bench.append(b"x" * 900, timestamp_ns=9 * NS_PER_S)
    bench.append(b"x" * 100, timestamp_ns=5 * NS_PER_S)
    assert bench.log.last_time_ns == 9 * NS_PER_S
    bench.append(b"x" * 900, timestamp_ns=6 * NS_PER_S)
    bench.log.commit()
    bench.settle()
    bench.log.close()
    first, second = bench.segments.list
    assert (first.first_time_ns, first.last_time_ns) == (9 * NS_PER_S, 9 * NS_PER_S)
    assert second.last_time_ns == 9 * NS_PER_S
    assert second.created_ns >= first.created_ns


# Zeros ahead.


def test_zeros_are_written_ahead_and_synced_in_steps(make: Make) -> None:
    bench = make(segment_bytes=1 << 24, fill_ahead_bytes=4 << 20)
    sizes: list[int] = []
    write_at = bench.files.write_at

    def watched(fd: int, data: Any, position: int) -> int:
        sizes.append(len(data))
        return write_at(fd, data, position)

    bench.files.write_at = watched  # type: ignore[method-assign]
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
def test_no_zeros_are_written_where_no_sync_is_waited_for(make: Make, policy: SyncPolicy) -> None:
    bench = make(policy, fill_ahead_bytes=1_000)
    bench.publish()
    bench.settle()
    assert os.path.getsize(bench.segments.list[0].path) == bench.log.end


def test_zeros_reach_into_the_next_segment_and_never_beyond_one(make: Make) -> None:
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


def test_zeros_that_come_late_are_put_behind_the_records(make: Make) -> None:
    bench = make(segment_bytes=100_000, fill_ahead_bytes=4_000)
    bench.publish(b"x" * 3_000)
    bench.sync.work()  # the filler was asked before, and comes only now
    bench.worker.finish()
    bench.sync.finish()
    bench.check_disk()


def test_records_and_zeros_by_two_threads_at_once_never_meet(make: Make) -> None:
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


# Closing.


def close_states() -> dict[str, Callable[[LogBench], None]]:
    def nothing(bench: LogBench) -> None:
        pass

    def all_settled(bench: LogBench) -> None:
        bench.publish()
        bench.settle()

    def job_not_begun(bench: LogBench) -> None:
        bench.publish()

    def job_done_and_not_answered(bench: LogBench) -> None:
        bench.publish()
        bench.sync.work()

    def job_under_way_and_a_group_behind(bench: LogBench) -> None:
        bench.publish()
        bench.sync.work()
        bench.publish()
        bench.append()

    def appended_alone(bench: LogBench) -> None:
        bench.append()

    def over_two_segments(bench: LogBench) -> None:
        for _ in range(3):
            bench.publish(b"x" * 900)

    def next_segment_unused(bench: LogBench) -> None:
        bench.publish(b"x" * 900)
        bench.settle()

    def next_segment_made_and_not_answered(bench: LogBench) -> None:
        bench.publish(b"x" * 900)
        bench.sync.finish()
        bench.worker.work()
        bench.worker.work()

    return {key: value for key, value in locals().items() if callable(value)}


@pytest.mark.parametrize("state", list(close_states()))
@pytest.mark.parametrize("policy", POLICIES)
def test_close_writes_seals_and_syncs_whatever_is_under_way(make: Make, policy: SyncPolicy, state: str) -> None:
    bench = make(policy, fill_ahead_bytes=400, sync_interval_bytes=100)
    close_states()[state](bench)
    appended = len(bench.pending) + len(bench.acknowledged)
    bench.log.close()
    assert len(bench.acknowledged) == appended
    assert ends(bench) == (bench.log.end,) * 4
    assert bench.files.open_fds == set()
    assert all(one.is_sealed for one in bench.segments.list)
    last = bench.segments.list[-1]
    assert last.end == bench.log.end
    assert os.path.getsize(last.path) == last.end + SEAL_BYTES - last.position
    assert bench.log.next_position == last.position + 2_000
    assert sorted(os.listdir(bench.path)) == sorted(os.path.basename(one.path) for one in bench.segments.list)
    bench.check_disk()
    # What the threads still do and tell afterwards changes nothing.
    calls = len(bench.files.calls)
    bench.settle()
    bench.second()
    bench.log.commit()
    bench.log.close()
    assert bench.files.calls[calls:] == []
    assert bench.failures == []
    with pytest.raises(StorageError, match="closed"):
        bench.append()


def test_close_of_a_log_that_was_not_opened_does_nothing(make: Make) -> None:
    bench = make(is_open=False)
    with pytest.raises(StorageError, match="not open"):
        bench.append()
    bench.log.close()
    assert bench.files.calls == []


def test_close_waits_for_a_job_that_a_thread_is_at(make: Make) -> None:
    sync = WorkerThread()
    bench = make(sync=sync)
    try:
        for _ in range(20):
            bench.publish()
        bench.log.close()
        assert len(bench.acknowledged) == 20
        bench.check_disk()
    finally:
        sync.stop()


def test_positions_grow_from_record_to_record(make: Make) -> None:
    bench = make()
    for _ in range(25):
        bench.publish()
    bench.settle()
    for one, following in pairwise(bench.acknowledged):
        same_segment = one.position // 2_000 == following.position // 2_000
        assert following.position == (one.end if same_segment else (one.position // 2_000 + 1) * 2_000 + HEAD_BYTES)
