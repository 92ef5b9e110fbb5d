"""The commit log while nothing fails: what is visible when, where segments end, and closing."""

import os
from collections.abc import Callable
from itertools import pairwise

import pytest

from queue_engine.storage.commit_log.log_recovery import RecoveredLog
from queue_engine.storage.commit_log.options import SyncPolicy
from queue_engine.storage.commit_log.record import SEAL_BYTES
from queue_engine.storage.disk.background import InlineBackground
from queue_engine.vocabulary.clock import NS_PER_S
from queue_engine.vocabulary.errors import StorageError
from tests.support.stores.commit_log import HEAD_BYTES, INTERVAL, OS, POLICIES, LogBench, MakeBench
from tests.support.stores.worker_thread import WorkerThread

# What is visible when.


def test_with_always_a_record_is_visible_once_its_sync_was_answered(make: MakeBench) -> None:
    bench = make()
    start = HEAD_BYTES
    first = bench.append()
    assert (first.position, bench.ends()) == (start, (start, start, start, first.end))
    bench.log.commit()
    assert bench.ends() == (start, start, start, first.end)
    bench.sync.work()
    assert bench.ends() == (start, start, start, first.end)
    assert bench.visible == []
    bench.sync.answer()
    assert bench.ends() == (first.end,) * 4
    assert bench.visible == [first.end]
    bench.check_disk()


@pytest.mark.parametrize("policy", [INTERVAL, OS])
def test_otherwise_a_record_is_visible_once_it_is_written(make: MakeBench, policy: SyncPolicy) -> None:
    bench = make(policy)
    start = bench.log.end
    first = bench.append()
    assert bench.visible == []
    bench.log.commit()
    assert bench.ends() == (start, first.end, first.end, first.end)
    assert bench.visible == [first.end]
    bench.check_disk()


@pytest.mark.parametrize("policy", POLICIES)
def test_without_a_commit_nothing_is_written(make: MakeBench, policy: SyncPolicy) -> None:
    bench = make(policy)
    bench.append()
    calls = len(bench.files.calls)
    bench.second()
    bench.settle()
    assert bench.files.calls[calls:] == []


@pytest.mark.parametrize("policy", POLICIES)
def test_a_commit_of_nothing_does_nothing(make: MakeBench, policy: SyncPolicy) -> None:
    bench = make(policy)
    calls = len(bench.files.calls)
    bench.log.commit()
    bench.settle()
    assert bench.files.calls[calls:] == []


@pytest.mark.parametrize("policy", POLICIES)
def test_a_turn_is_one_write(make: MakeBench, policy: SyncPolicy) -> None:
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


def test_a_record_tells_what_was_synced_when_it_was_appended(make: MakeBench) -> None:
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


def test_a_log_that_begins_behind_another_is_synced_up_to_its_beginning(make: MakeBench) -> None:
    bench = make(recovered=RecoveredLog(end=5_000, next_position=6_000))
    assert bench.ends() == (6_000 + HEAD_BYTES,) * 4
    assert bench.publish().position == 6_000 + HEAD_BYTES


def test_with_work_done_at_once_visible_ends_come_in_order(make: MakeBench) -> None:
    bench = make(sync=InlineBackground(), worker=InlineBackground(), fill_ahead_bytes=1_000)
    for _ in range(40):
        bench.publish()
    assert bench.visible == sorted(set(bench.visible))
    assert len(bench.acknowledged) == 40
    bench.check_disk()


# Segments.


@pytest.mark.parametrize("policy", POLICIES)
def test_a_full_segment_is_sealed_and_the_next_one_goes_on(make: MakeBench, policy: SyncPolicy) -> None:
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


def test_a_group_over_two_segments_is_visible_when_both_are_synced(make: MakeBench) -> None:
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
def test_a_group_over_many_segments(make: MakeBench, policy: SyncPolicy) -> None:
    bench = make(policy)
    for _ in range(6):
        bench.append(b"x" * 1_000)
    bench.log.commit()
    bench.settle()
    assert len(bench.acknowledged) == 6
    assert [one.is_sealed for one in bench.segments.list[:6]] == [True] * 5 + [False]
    bench.check_disk()


def test_segments_are_synced_in_the_order_of_their_positions(make: MakeBench) -> None:
    bench = make(INTERVAL)
    for _ in range(4):
        bench.publish(b"x" * 1_000)
    synced: list[str] = []
    sync_data = bench.files.sync_data

    def watched(fd: int) -> None:
        synced.append(os.readlink(f"/proc/self/fd/{fd}"))
        sync_data(fd)

    bench.files.sync_data = watched
    bench.settle()
    assert synced == sorted(synced)
    assert len(set(synced)) == 4
    assert bench.log.synced_end == bench.log.end


def test_a_record_larger_than_a_segment_is_refused_and_nothing_else_changes(make: MakeBench) -> None:
    bench = make()
    bench.append()
    before = bench.ends()
    with pytest.raises(StorageError, match=r"record of (\d+) bytes does not fit .* holds 1712"):
        bench.append(b"x" * 1_800)
    assert bench.ends() == before
    assert len(bench.segments.list) == 1
    assert bench.log.error is None
    assert not bench.log.is_full
    bench.append()
    bench.log.commit()
    bench.settle()
    bench.check_disk()
    assert len(bench.acknowledged) == 2


def test_the_largest_record_fills_a_segment(make: MakeBench) -> None:
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


def test_the_next_segment_is_made_ahead_by_the_worker(make: MakeBench) -> None:
    bench = make()
    bench.publish(b"x" * 500)
    bench.settle()
    assert len(bench.segments.list) == 2
    calls = len(bench.files.calls)
    assert bench.append(b"x" * 1_000).position == 2_000 + HEAD_BYTES
    assert bench.files.calls[calls:] == []


def test_a_segment_that_the_worker_did_not_make_in_time_is_made_by_the_append(make: MakeBench) -> None:
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


def test_segments_that_are_still_written_or_unsynced_are_held(make: MakeBench) -> None:
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


def test_times_never_go_back(make: MakeBench) -> None:
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
def test_close_writes_seals_and_syncs_whatever_is_under_way(make: MakeBench, policy: SyncPolicy, state: str) -> None:
    bench = make(policy, fill_ahead_bytes=400, sync_interval_bytes=100)
    close_states()[state](bench)
    appended = len(bench.pending) + len(bench.acknowledged)
    bench.log.close()
    assert len(bench.acknowledged) == appended
    assert bench.ends() == (bench.log.end,) * 4
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


def test_close_of_a_log_that_was_not_opened_does_nothing(make: MakeBench) -> None:
    bench = make(is_open=False)
    with pytest.raises(StorageError, match="not open"):
        bench.append()
    bench.log.close()
    assert bench.files.calls == []


def test_close_waits_for_a_job_that_a_thread_is_at(make: MakeBench) -> None:
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


def test_positions_grow_from_record_to_record(make: MakeBench) -> None:
    bench = make()
    for _ in range(25):
        bench.publish()
    bench.settle()
    for one, following in pairwise(bench.acknowledged):
        same_segment = one.position // 2_000 == following.position // 2_000
        assert following.position == (one.end if same_segment else (one.position // 2_000 + 1) * 2_000 + HEAD_BYTES)
