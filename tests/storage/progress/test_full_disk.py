"""On a full disk the journal goes on in the reserve's room, then in memory, and says what a kill would cost."""

import errno
from pathlib import Path

import pytest

from queue_engine.storage.disk.reserve import Reserve
from queue_engine.storage.progress.channel_progress import ChannelProgress
from queue_engine.storage.progress.journal import ProgressJournal
from queue_engine.storage.progress.progress_recovery import RecoveredProgress
from tests.storage.progress.test_journal import Bench
from tests.storage.progress.test_renewal import do_everything, renew


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path / "progress")


def test_a_full_disk_keeps_entries_and_the_reserve_lets_them_through(tmp_path: Path) -> None:
    bench = Bench(tmp_path / "progress")
    bench.deliver(1, 0, 1)
    bench.files.fail("write", errno.ENOSPC)
    bench.journal.flush()
    assert "No space" in str(bench.journal.error)
    bench.clock.advance(ms=1_000)
    bench.journal.tick(bench.clock.monotonic_ns())
    assert bench.journal.error is None
    expected = bench.channels
    bench.kill()
    assert bench.start().channels == expected
    # With a reserve it does not even fail.
    journal = ProgressJournal(
        bench.directory, number=9, files=bench.files, clock=bench.clock, worker=bench.worker, reserve_bytes=1_000
    )
    journal.open(RecoveredProgress(channels={1: ChannelProgress()}))
    bench.worker.finish()
    assert "reserve" in bench.names()
    bench.files.fail("write", errno.ENOSPC)
    journal.entries.deliver(1, 0, 1, 1)
    journal.flush()
    assert journal.error is None
    assert "reserve" not in bench.names()


@pytest.mark.parametrize("begins", [False, True], ids=["before it begins", "once it has begun"])
def test_a_merge_without_room_takes_the_reserve_and_acts_go_on(bench: Bench, begins: bool) -> None:
    reserve = Reserve(str(Path(bench.directory) / "reserve"), 1_000, files=bench.files, worker=bench.worker)
    reserve.keep()
    bench.worker.finish()
    bench.journal.reserve = reserve
    bench.ack(1, 0, 3)
    bench.journal.flush()
    if begins:
        bench.journal.merge()
    bench.files.bytes_free = 0  # another program took the rest
    bench.merge()
    assert bench.journal.error is None
    assert "reserve" not in bench.names()
    emptied = bench.journal.prepare_empty([1], 8)
    bench.worker.finish()
    assert emptied.error is None
    bench.channels[1].emptied(8)
    bench.merge()
    assert bench.journal.error is None
    expected = bench.channels
    bench.kill()
    assert bench.start().channels == expected


@pytest.mark.parametrize("operation", ["create", "write"])
def test_a_merge_that_can_not_begin_leaves_the_journal_usable(bench: Bench, operation: str) -> None:
    bench.deliver(1, 0, 3)
    bench.journal.flush()
    bench.files.fail(operation, errno.ENOSPC)
    bench.merge()
    # What is finished is on the disk all the same.
    assert "No space" in str(bench.journal.error)
    assert "come again" not in str(bench.journal.error)
    assert not bench.journal.is_out_of_room
    bench.ack(1, 0, 2)
    bench.journal.flush()
    expected = bench.channels
    bench.kill()
    assert bench.start().channels == expected


def test_entries_for_which_there_is_no_room_are_bounded(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("queue_engine.storage.progress.journal.ENTRIES_MAX", 10)
    bench.files.bytes_free = 0
    for offset in range(0, 100, 2):
        bench.ack(1, offset, 1)
        bench.journal.flush()
    assert len(bench.journal.entries.waiting) <= 11
    assert "No space" in str(bench.journal.error)
    bench.files.bytes_free = None
    renew(bench, 1_100)
    assert bench.journal.error is None
    bench.kill()
    assert bench.start().channels[1].settled_above_floor() == 49
    assert bench.channels[2] == ChannelProgress()


def test_a_start_without_any_room_goes_on_in_memory_and_is_durable_once_there_is_some(bench: Bench) -> None:
    do_everything(bench)
    bench.kill()
    bench.files.bytes_free = 0
    bench.start()
    assert "No space" in str(bench.journal.error)
    bench.ack(1, 6, 1)
    bench.journal.flush()
    assert "No space" in str(bench.journal.synced().error)
    for _ in range(5):
        renew(bench, 1_000)
    assert [name for name in bench.names() if name.endswith(".tmp")] == []
    bench.files.bytes_free = 1 << 20
    for _ in range(3):
        renew(bench, 1_000)
    assert bench.journal.error is None
    assert bench.journal.faults.count == 0
    expected = bench.channels
    bench.kill()
    assert bench.start().channels == expected
