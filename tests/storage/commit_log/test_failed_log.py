"""Errors that stop the commit log for good: no OK comes after them."""

import errno

import pytest

from queue_engine.storage.commit_log.options import SyncPolicy
from queue_engine.vocabulary.errors import StorageError
from tests.support.stores.commit_log import ALWAYS, HEAD_BYTES, INTERVAL, POLICIES, MakeBench


@pytest.mark.parametrize("policy", POLICIES)
def test_an_error_of_a_write_is_final(make: MakeBench, policy: SyncPolicy) -> None:
    bench = make(policy)
    bench.publish()
    bench.settle()
    bench.files.fail("write", errno.EIO)
    refused = bench.publish()
    bench.sync.finish()
    assert bench.rejected == [refused]
    assert len(bench.acknowledged) == 1
    bench.check_failed_for_good()


@pytest.mark.parametrize("error", [errno.EIO, errno.ENOSPC, errno.EDQUOT])
def test_any_error_of_a_sync_is_final_and_the_sync_is_not_repeated(make: MakeBench, error: int) -> None:
    bench = make()
    bench.publish()
    bench.settle()
    calls = len(bench.files.calls)
    bench.files.fail("sync_data", error)
    refused = [bench.publish(), bench.publish(), bench.publish()]  # one under way, two gathered behind it
    bench.sync.finish()
    assert bench.rejected == refused
    assert bench.calls_since(calls, "sync_data") == ["sync_data"]
    bench.check_failed_for_good()


def test_a_sync_that_fails_in_the_background_of_interval_leaves_what_is_visible(make: MakeBench) -> None:
    bench = make(INTERVAL, sync_interval_bytes=100)
    bench.publish()
    later = bench.append()
    bench.files.fail("sync_data", errno.EIO)
    bench.sync.finish()
    assert len(bench.acknowledged) == 1
    assert bench.rejected == [later]
    assert bench.log.synced_end == HEAD_BYTES
    bench.check_failed_for_good()


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("operation", ["sync_data", "close"])
def test_an_error_when_a_full_segment_is_finished_is_final(make: MakeBench, policy: SyncPolicy, operation: str) -> None:
    bench = make(policy, sync_interval_ms=1_000_000, sync_interval_bytes=1_000_000)
    bench.publish(b"x" * 900)
    bench.settle()
    bench.files.fail(operation, errno.EIO)
    bench.publish(b"x" * 1_000)
    bench.settle()
    assert len(bench.acknowledged) == (1 if policy is ALWAYS else 2)
    bench.check_failed_for_good()


@pytest.mark.parametrize("operation", ["open", "create", "write", "sync"])
def test_an_error_when_the_next_segment_is_made_is_final(make: MakeBench, operation: str) -> None:
    bench = make()
    first = bench.append(b"x" * 900)
    bench.files.fail(operation, errno.EIO)
    with pytest.raises(StorageError, match="until the next start"):
        bench.append(b"x" * 1_000)
    assert bench.rejected == [first]
    bench.check_failed_for_good()


@pytest.mark.parametrize("operation", ["open", "create", "write", "sync"])
def test_an_error_when_the_worker_makes_the_next_segment_is_final(make: MakeBench, operation: str) -> None:
    bench = make()
    bench.publish(b"x" * 900)
    bench.sync.finish()
    bench.files.fail(operation, errno.EIO)
    bench.worker.finish()
    bench.check_failed_for_good()


@pytest.mark.parametrize(
    ("operation", "error"), [("write", errno.EIO), ("sync_data", errno.EIO), ("sync_data", errno.ENOSPC)]
)
def test_an_error_of_the_filler_rejects_the_group_under_way(make: MakeBench, operation: str, error: int) -> None:
    bench = make(fill_ahead_bytes=1_000)
    group = bench.publish()
    bench.files.fail(operation, error)
    bench.worker.finish()
    assert bench.rejected == [group]
    bench.sync.finish()  # it succeeds, and nobody is told any more
    assert bench.visible == []
    bench.check_failed_for_good()


def test_an_error_of_the_first_segment_is_told_and_opening_can_be_repeated(make: MakeBench) -> None:
    bench = make(is_open=False)
    for operation in ("create", "write", "sync", "open"):
        bench.files.fail(operation, errno.EIO)
        with pytest.raises(StorageError, match="first segment"):
            bench.log.open()
        bench.files.heal()
        assert bench.files.open_fds == set()
    bench.log.open()
    bench.publish()
    bench.settle()
    bench.check_disk()
