"""After an error of the disk the progress journal is begun anew from what memory knows, and all is well again."""

import errno
from pathlib import Path

import pytest

from queue_engine.vocabulary.errors import StorageError
from tests.storage.progress.test_journal import Bench
from tests.support.disks.files import ProcessDiedError


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path / "progress")


def do_everything(bench: Bench) -> None:
    """Each kind of progress, part of it merged."""
    bench.deliver(1, 0, 30)
    bench.ack(1, 3, 7)
    bench.merge()
    bench.deliver(1, 12, 4, made=2)
    bench.deliver(2, 0, 2_000, made=300)
    bench.ack(2, 0, 1_990)
    bench.channels[1].deferred_until(12, 2, 2, 77)
    bench.journal.entries.defer(1, 12, 2, 2, 77)
    bench.seek(1, 2)
    bench.deliver(1, 2, 6)
    bench.ack(1, 4, 2)
    bench.journal.flush()


def renew(bench: Bench, wait_ms: int = 100) -> None:
    bench.clock.advance(ms=wait_ms)
    bench.journal.tick(bench.clock.monotonic_ns())
    bench.worker.finish()


@pytest.mark.parametrize("operation", ["sync_data", "write", "sync"])
def test_a_passing_error_begins_a_new_journal_that_tells_everything(bench: Bench, operation: str) -> None:
    do_everything(bench)
    bench.ack(1, 6, 1)
    bench.files.fail(operation, errno.EIO)
    ticket = bench.journal.synced()
    bench.worker.finish()
    assert ticket.error is not None
    assert "Input/output error" in str(bench.journal.error)
    bench.ack(1, 7, 1)  # meanwhile work goes on
    bench.journal.flush()
    renew(bench)
    assert bench.journal.error is None
    faults = bench.journal.faults
    assert (faults.count, faults.last_ns) == (1, bench.clock.time_ns() - 100_000_000)
    assert "Input/output error" in faults.last_error
    expected = bench.channels
    bench.kill()
    assert bench.start().channels == expected
    assert bench.recover().damages == []


def test_the_failed_descriptor_is_never_used_again(bench: Bench) -> None:
    do_everything(bench)
    bench.ack(1, 6, 1)
    failed_fd = -1

    def note(call: str) -> None:
        nonlocal failed_fd
        if call == "sync_data" and failed_fd < 0:
            failed_fd = max(bench.files.open_fds)

    bench.files.before_call = note
    bench.files.fail("sync_data", errno.EIO)
    bench.journal.synced()
    bench.worker.finish()
    assert failed_fd not in bench.files.open_fds
    bench.files.calls.clear()
    bench.journal.flush()
    bench.journal.merge()
    assert bench.files.calls == []
    renew(bench)
    assert [call for call in bench.files.calls if call != "close"] == [
        *["open", "create", "write", "sync"],
        *["rename", "open", "sync"],  # its name, and the directory
    ]


def test_what_comes_while_the_new_journal_is_begun_stands_behind_it(bench: Bench) -> None:
    do_everything(bench)
    bench.files.fail("sync_data", errno.EIO)
    bench.journal.synced()
    bench.worker.finish()
    bench.clock.advance(ms=100)
    bench.journal.tick(bench.clock.monotonic_ns())  # the worker has it
    bench.ack(1, 6, 2)
    bench.journal.flush()
    bench.journal.tick(bench.clock.monotonic_ns())
    bench.worker.finish()
    expected = bench.channels
    bench.kill()
    assert bench.start().channels == expected


@pytest.mark.parametrize("after", range(12))
def test_a_crash_at_any_step_leaves_the_old_progress_or_the_new(bench: Bench, after: int) -> None:
    do_everything(bench)
    old = {number: one.copy() for number, one in bench.channels.items()}
    bench.files.fail("write", errno.EIO)
    bench.seek(1, 0)
    bench.ack(2, 1_995, 3)
    bench.journal.flush()
    bench.files.dies_after = after
    has_died = False
    try:
        for _ in range(40):
            renew(bench, 100)  # and the merge that follows
    except ProcessDiedError:
        has_died = True
    assert has_died or after > 8
    assert bench.recover().channels in (old, bench.channels)
    bench.kill()
    first = bench.start().channels
    bench.merge()
    bench.kill()
    assert bench.start().channels == first


def test_a_disk_that_goes_on_failing_is_tried_less_and_less_and_never_forgets(bench: Bench) -> None:
    do_everything(bench)
    bench.files.fail("sync_data", errno.EIO)
    bench.files.fail("sync", errno.EIO, count=5)
    bench.journal.synced()
    bench.worker.finish()
    tries = 0
    waited_ms = 0
    while bench.journal.error is not None:
        bench.files.calls.clear()
        renew(bench, 250)
        waited_ms += 250
        tries += "create" in bench.files.calls
        assert waited_ms < 60_000
    # The first at once, then after 1, 2, 4, 8 and 16 seconds.
    assert (tries, waited_ms) == (6, 31_250)
    assert bench.journal.faults.count == 6
    expected = bench.channels
    bench.merge()
    assert [name for name in bench.names() if name.endswith((".journal", ".tmp"))] == ["00000009.journal"]
    bench.kill()
    assert bench.start().channels == expected


def test_the_end_of_the_process_is_a_try_too(bench: Bench) -> None:
    do_everything(bench)
    bench.files.fail("sync_data", errno.EIO)
    bench.journal.synced()
    bench.worker.finish()
    expected = bench.channels
    bench.journal.close()
    bench.kill()
    assert bench.start().channels == expected


def test_a_disk_that_refuses_to_the_end_is_told(bench: Bench) -> None:
    do_everything(bench)
    bench.files.fail("sync_data", errno.EIO)
    bench.files.fail("sync", errno.EIO, count=100)
    bench.journal.synced()
    bench.worker.finish()
    with pytest.raises(StorageError, match="can't be written"):
        bench.journal.close()


def test_a_merge_whose_old_journal_can_not_be_synced_loses_nothing(bench: Bench) -> None:
    do_everything(bench)
    bench.journal.merge()
    bench.ack(1, 6, 1)
    bench.journal.flush()
    bench.files.fail("sync_data", errno.EIO)
    bench.worker.finish()
    assert bench.journal.error is not None
    renew(bench)
    assert bench.journal.error is None
    bench.merge()
    expected = bench.channels
    bench.kill()
    assert bench.start().channels == expected
