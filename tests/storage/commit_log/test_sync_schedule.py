"""How often the commit log syncs, by policy."""

import pytest

from queue_engine.storage.commit_log.options import SyncPolicy
from queue_engine.vocabulary.clock import NS_PER_MS
from tests.support.stores.commit_log import ALWAYS, HEAD_BYTES, INTERVAL, OS, POLICIES, MakeBench


def test_turns_that_gather_during_a_sync_share_the_next_one(make: MakeBench) -> None:
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


def test_what_is_not_committed_waits_for_its_turn_to_end(make: MakeBench) -> None:
    bench = make()
    bench.publish()
    late = bench.append()
    bench.settle()
    assert bench.pending == [late]
    bench.log.commit()
    bench.settle()
    assert bench.pending == []


def test_os_syncs_nothing_until_a_segment_is_full(make: MakeBench) -> None:
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


def test_os_syncs_every_two_seconds_while_somebody_reads_what_is_synced(make: MakeBench) -> None:
    bench = make(OS)
    calls = len(bench.files.calls)
    bench.publish()
    for has_readers, wanted in ((False, 0), (True, 1)):
        bench.log.has_readers = has_readers
        for _ in range(3):
            bench.second()
        bench.settle()
        assert len(bench.calls_since(calls, "sync_data")) == wanted
    assert bench.ends() == (bench.log.end,) * 4
    # What was synced is not synced again.
    for _ in range(5):
        bench.second()
    bench.settle()
    assert bench.calls_since(calls, "sync_data") == ["sync_data"]
    assert (bench.log.counts.syncs_by_time, bench.log.counts.syncs_by_roll) == (1, 0)


def test_interval_syncs_by_bytes(make: MakeBench) -> None:
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
    assert bench.ends() == (bench.log.end,) * 4
    assert (bench.log.counts.syncs_by_bytes, bench.log.counts.syncs_by_time) == (1, 0)
    assert bench.log.counts.synced_bytes == 3 * size


def test_interval_syncs_by_time_even_one_record(make: MakeBench) -> None:
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


def test_interval_syncs_again_at_once_when_enough_came_meanwhile(make: MakeBench) -> None:
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


def test_an_interval_s_sync_does_not_claim_what_was_written_behind_its_back(make: MakeBench) -> None:
    bench = make(INTERVAL, sync_interval_bytes=100)
    first = bench.publish()
    bench.sync.work()
    bench.publish()
    bench.sync.answer()
    assert bench.log.synced_end == first.end


def test_an_interval_s_sync_does_not_claim_what_only_gathers(make: MakeBench) -> None:
    bench = make(INTERVAL)
    first = bench.publish()
    bench.append()
    bench.second()
    bench.settle()
    assert bench.log.synced_end == first.end


@pytest.mark.parametrize("policy", POLICIES)
def test_the_age_of_the_oldest_unsynced_byte_is_told(make: MakeBench, policy: SyncPolicy) -> None:
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


def test_the_age_goes_on_with_what_came_during_a_sync(make: MakeBench) -> None:
    bench = make(INTERVAL, sync_interval_bytes=100)
    bench.publish()
    bench.clock.advance(ms=3)
    bench.append(b"x")
    bench.clock.advance(ms=4)
    bench.sync.work()
    bench.sync.answer()
    assert bench.log.oldest_unsynced_ns() == 4 * NS_PER_MS
