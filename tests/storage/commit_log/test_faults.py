"""An error, or the end of the process, at every operation of the commit log: what was told stays true."""

import errno
from pathlib import Path

import pytest

from queue_engine.storage.commit_log.options import SyncPolicy
from queue_engine.vocabulary.errors import StorageError
from tests.support.disks.files import ProcessDiedError
from tests.support.stores.commit_log import POLICIES, LogBench, MakeBench


def script(bench: LogBench) -> None:
    """Groups of several sizes over four segments, with zeros ahead, ticks, and a close."""
    for turn in range(9):
        for size in (30, 400, 7)[: turn % 3 + 1]:
            try:
                bench.append(b"b" * size, count=turn % 2 + 1)
            except StorageError:
                pass
        bench.log.commit()
        if turn % 2:
            bench.settle()
        elif turn % 3:
            bench.sync.work()
        if turn % 4 == 3:
            bench.second()
    bench.settle()


def operations_of(make: MakeBench, policy: SyncPolicy) -> list[str]:
    """The operations of the script while nothing fails, with the close."""
    bench = make(policy, fill_ahead_bytes=800, sync_interval_bytes=700)
    calls = len(bench.files.calls)
    script(bench)
    bench.log.close()
    assert len(bench.segments.list) >= 3
    bench.check_disk()
    return bench.files.calls[calls:]


@pytest.mark.parametrize("error", [errno.EIO, errno.ENOSPC, errno.EMFILE])
@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.slow(reason="tries an error at every operation")
def test_an_error_at_every_operation(make: MakeBench, policy: SyncPolicy, error: int) -> None:
    operations = operations_of(make, policy)
    resumed = failed = 0
    for operation in ("open", "create", "write", "sync_data", "sync", "close", "truncate", "unlink"):
        for nth in range(1, operations.count(operation) + 1):
            for count in (1, 3):
                bench = make(policy, fill_ahead_bytes=800, sync_interval_bytes=700)
                bench.files.fail(operation, error, nth=nth, count=count)
                script(bench)
                if bench.log.error is None:
                    # It goes on: within seconds everything is taken again.
                    bench.files.heal()
                    for _ in range(2):
                        bench.second()
                        bench.settle()
                    assert not bench.log.is_full
                    resumed += bool(bench.rejected)
                    bench.check_disk()
                    last = bench.publish()
                    bench.settle()
                    assert bench.acknowledged[-1] == last
                    bench.check_disk()
                    bench.log.close()
                    bench.check_disk()
                else:
                    failed += 1
                    bench.check_failed_for_good()
                assert not bench.pending
                bench.files.abandon()
    assert failed > 10
    assert resumed > 0 or error == errno.EIO


@pytest.mark.parametrize("policy", POLICIES)
def test_the_process_may_die_at_every_change_of_the_disk(make: MakeBench, policy: SyncPolicy) -> None:
    died = 0
    for step in range(1_000):
        bench = make(policy, fill_ahead_bytes=800, sync_interval_bytes=700)
        bench.files.dies_after = step
        try:
            script(bench)
            bench.log.close()
        except ProcessDiedError:
            died += 1
        else:
            break
        finally:
            bench.files.abandon()
        found = [(position, header.first_offset) for position, header in bench.on_disk(is_clean=False)]
        wanted = [(one.position, one.first_offset) for one in bench.acknowledged + bench.pending]
        assert len(bench.acknowledged) <= len(found)
        assert found == wanted[: len(found)]
    assert died > 20


def test_with_always_every_ok_is_behind_a_sync_of_its_own_bytes(
    make: MakeBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    # What each file held at its last sync is all that a power cut leaves; the acknowledged must be in it.
    bench = make(fill_ahead_bytes=800)
    synced: dict[str, bytes] = {}

    sync_data = bench.files.sync_data

    def watched(fd: int) -> None:
        path = Path(f"/proc/self/fd/{fd}").resolve()
        synced[str(path)] = path.read_bytes()
        sync_data(fd)

    bench.files.sync_data = watched
    became_visible = bench.became_visible

    def check(visible_end: int) -> None:
        became_visible(visible_end)
        for one in bench.acknowledged:
            segment = next(s for s in bench.segments.list if s.position <= one.position < s.position + 2_000)
            at = one.position - segment.position
            content = bench.file_bytes(segment)[at : at + one.size]
            assert synced[segment.path][at : at + one.size] == content

    monkeypatch.setattr(bench, "became_visible", check)
    script(bench)
    assert len(bench.acknowledged) > 10
