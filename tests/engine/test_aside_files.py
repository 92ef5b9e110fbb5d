"""Files that were set aside are kept for the retention, then removed; nothing else is."""

import errno
import logging
import os
from pathlib import Path

import pytest

from queue_engine.engine.aside_files import LIST_NAME, REMOVED_AT_ONCE_MAX, AsideFiles
from queue_engine.storage.aside_stats import AsideStats
from queue_engine.storage.disk.background import InlineBackground
from queue_engine.vocabulary.clock import NS_PER_MS, NS_PER_S
from tests.support.clock import ManualClock
from tests.support.disks.files import FaultyFiles
from tests.support.engine import make_engine

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
RETENTION_MS = 90 * DAY_MS
ASIDE = [
    "orders:billing.diskqueue.000003.dat.bad",
    "console.sqlite3.bad-1",
    "console.sqlite3.bad-1-wal",
    "secret-key.bad-12",
    "log/cursors.json.bad",
    "log/batch_keys.bad",
    "log/segments/00000000000000004096.log.bad",
    "log/quarantine/00000000000000008192.bin",
    "samples/quarantine/00000000000000008192.bin",
]
OTHERS = [
    "notes.bad",  # a person's own
    "orders.bad.diskqueue.000003.dat",  # of the topic orders.bad
    "topology.json",
    "console.sqlite3",
    "log/segments/00000000000000004096.log",
    "log/quarantine/notes.txt",
    "log/progress/7/00000001.index.unread0",  # read again by the next start
    "pipeline/archive/x.bad",
]


class Kept:
    """A data directory, what looks after it, and its clock."""

    def __init__(self, path: Path, retention_ms: int = RETENTION_MS) -> None:
        self.path = path
        self.files = FaultyFiles()
        self.clock = ManualClock()
        self.retention_ms = retention_ms
        self.start()

    def start(self) -> None:
        self.stats = AsideStats()
        self.aside = AsideFiles(
            str(self.path),
            self.retention_ms,
            files=self.files,
            clock=self.clock,
            background=InlineBackground(),
            on_scan=lambda stats: setattr(self, "stats", stats),
        )

    def put(self, *names: str, content: bytes = b"x" * 100) -> None:
        for name in names:
            (self.path / name).parent.mkdir(parents=True, exist_ok=True)
            (self.path / name).write_bytes(content)

    def there(self) -> set[str]:
        found = (one.relative_to(self.path).as_posix() for one in self.path.rglob("*") if not one.is_dir())
        return set(found) - {LIST_NAME}

    def days(self, count: int) -> None:
        """Time passes; the engine ticks twice a day."""
        for _ in range(count * 2):
            self.clock.advance(ms=DAY_MS / 2)
            self.aside.tick(self.clock.monotonic_ns())

    def hour(self) -> None:
        self.clock.advance(ms=HOUR_MS)
        self.aside.tick(self.clock.monotonic_ns())


@pytest.fixture
def kept(tmp_path: Path) -> Kept:
    return Kept(tmp_path)


def test_each_kind_is_kept_for_the_retention_and_then_removed(kept: Kept, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    kept.put(*ASIDE, *OTHERS)
    for name in ASIDE:  # a renamed file has the time of its last write
        os.utime(kept.path / name, (1, 1))
    kept.days(90)
    assert kept.there() == {*ASIDE, *OTHERS}
    assert (kept.stats.count, kept.stats.bytes) == (len(ASIDE), 100 * len(ASIDE))
    assert kept.stats.oldest_kept_ms == RETENTION_MS - DAY_MS / 2
    kept.days(1)
    assert kept.there() == set(OTHERS)
    assert (kept.stats.count, kept.stats.removed_count, kept.stats.error) == (0, len(ASIDE), "")
    assert kept.stats.removed_bytes == 100 * len(ASIDE)
    assert f"file set aside removed path={kept.path}/log/cursors.json.bad bytes=100 kept_days=90" in caplog.text


def test_each_is_kept_for_its_own_time_through_restarts(kept: Kept) -> None:
    kept.put("log/cursors.json.bad")
    kept.days(60)
    kept.put("log/holes.json.bad")
    kept.start()
    kept.days(31)
    assert kept.there() == {"log/holes.json.bad"}
    assert kept.stats.oldest_kept_ms < 32 * DAY_MS


def test_another_file_of_the_same_name_is_kept_anew(kept: Kept) -> None:
    kept.put("log/cursors.json.bad")
    kept.days(89)
    kept.put("log/cursors.json.bad", content=b"the next damage")
    kept.days(2)
    assert kept.there() == {"log/cursors.json.bad"}


def test_a_clock_that_is_set_forward_removes_nothing_early(kept: Kept) -> None:
    kept.put("log/cursors.json.bad")
    kept.days(1)
    kept.clock.set_back(ms=-400 * DAY_MS)
    kept.days(1)
    assert kept.there() == {"log/cursors.json.bad"}
    assert kept.stats.oldest_kept_ms < 4 * DAY_MS
    kept.clock.set_back(ms=800 * DAY_MS)
    kept.days(1)
    assert kept.there() == {"log/cursors.json.bad"}


def test_a_retention_of_0_keeps_all(tmp_path: Path) -> None:
    kept = Kept(tmp_path, 0)
    kept.put(*ASIDE)
    kept.days(100)
    assert kept.there() == set(ASIDE)


def test_what_a_person_set_aside_is_counted_and_stays(kept: Kept) -> None:
    kept.put("log/segments/00000000000000004096.log.aside")
    kept.days(100)
    assert kept.there() == {"log/segments/00000000000000004096.log.aside"}
    assert (kept.stats.count, kept.stats.oldest_kept_ms) == (1, 0)


UNFINISHED = [
    "topology.json.3.tmp",
    "topology.json.previous.12.tmp",
    "set-aside.json.0.tmp",
    "audit-head.0badcafe.tmp",
    "log/batch_keys.17.tmp",
    "log/checkpoint.2.tmp",
    "log/progress/floors.4.tmp",
    "log/quarantine/00000000000000008192.bin.5.tmp",
    "samples/identity.json.1.tmp",
]


@pytest.mark.parametrize("retention_ms", [0, RETENTION_MS])
def test_what_a_kill_left_of_a_write_is_removed_after_a_day_and_not_counted(tmp_path: Path, retention_ms: int) -> None:
    kept = Kept(tmp_path, retention_ms)
    others = ["notes.tmp", "notes.1.txt", "log/segments/00000000000000004096.tmp"]
    kept.put(*UNFINISHED, *others)
    kept.days(1)
    assert kept.there() == {*UNFINISHED, *others}
    kept.days(1)
    assert kept.there() == set(others)
    assert (kept.stats.count, kept.stats.removed_count) == (0, 0)


def test_a_directory_goes_with_all_that_is_in_it(kept: Kept) -> None:
    kept.put("samples.bad-1/segments/0.log", "samples.bad-1/identity.json", "samples/identity.json")
    kept.days(1)
    assert (kept.stats.count, kept.stats.bytes) == (1, 200)
    kept.days(90)
    assert kept.there() == {"samples/identity.json"}
    assert not (kept.path / "samples.bad-1").exists()


def test_a_link_is_removed_and_what_it_points_to_stays(kept: Kept, tmp_path_factory: pytest.TempPathFactory) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    (elsewhere / "precious").write_bytes(b"stays")
    kept.put("samples.bad-2/inside")
    (kept.path / "samples.bad-2" / "link").symlink_to(elsewhere)
    (kept.path / "samples.bad-1").symlink_to(elsewhere)
    (kept.path / "secret-key.bad-1").symlink_to(elsewhere / "precious")
    kept.days(91)
    assert kept.there() == set()
    assert not (kept.path / "samples.bad-1").is_symlink()
    assert (elsewhere / "precious").read_bytes() == b"stays"


def test_a_file_that_can_not_be_removed_is_named_and_tried_again_each_hour(
    kept: Kept, caplog: pytest.LogCaptureFixture
) -> None:
    kept.put("log/cursors.json.bad", "log/holes.json.bad")
    kept.days(90)
    kept.files.fail("unlink", errno.EROFS, count=4)
    kept.days(1)
    assert kept.there() == {"log/cursors.json.bad", "log/holes.json.bad"}
    assert kept.stats.error == "log/cursors.json.bad can't be removed: Read-only file system"
    assert "file set aside not removed" in caplog.text
    kept.hour()
    assert kept.there() == set()
    assert (kept.stats.error, kept.stats.removed_count) == ("", 2)


def test_a_file_that_vanishes_meanwhile_counts_as_removed(kept: Kept) -> None:
    kept.put("log/cursors.json.bad")
    kept.days(90)
    kept.files.before_call = lambda operation: (
        (kept.path / "log/cursors.json.bad").unlink(missing_ok=True) if operation == "unlink" else None
    )
    kept.days(1)
    assert (kept.stats.count, kept.stats.error) == (0, "")


@pytest.mark.parametrize("operation", ["rename", "create"])
def test_a_list_that_can_not_be_written_is_named_and_time_goes_on(kept: Kept, operation: str) -> None:
    kept.put("log/cursors.json.bad")
    kept.files.fail(operation, errno.EROFS, count=10_000)
    kept.days(89)
    assert kept.stats.error == f"{LIST_NAME} can't be written: Read-only file system"
    assert kept.there() == {"log/cursors.json.bad"}
    kept.days(2)
    assert kept.there() == set()


def test_a_folder_that_can_not_be_listed_is_named_and_the_others_are_looked_after(kept: Kept) -> None:
    kept.put("secret-key.bad-1", "log/cursors.json.bad")
    kept.files.fail("listdir", errno.EIO)
    kept.hour()
    assert kept.stats.error == f"{kept.path} can't be listed: Input/output error"
    assert kept.stats.count == 1


def test_a_name_that_no_queue_has_costs_nothing(kept: Kept) -> None:
    """One that is not UTF-8 can't be in the list, and kept the others from being looked after."""
    strange = os.fsdecode(b"\xff.diskqueue.000003.dat.bad")
    kept.put("secret-key.bad-1", strange)
    kept.days(91)
    assert kept.there() == {strange}
    assert (kept.stats.removed_count, kept.stats.error) == (1, "")


@pytest.mark.parametrize("content", [b"", b"{}\n00000000\n", b'{"version": 99}\nxxxx\n'])
def test_a_damaged_list_makes_all_of_them_new(kept: Kept, content: bytes) -> None:
    kept.put("log/cursors.json.bad")
    kept.days(60)
    (kept.path / LIST_NAME).write_bytes(content)
    kept.start()
    kept.days(60)
    assert kept.there() == {"log/cursors.json.bad"}
    kept.days(32)
    assert kept.there() == set()


def test_many_go_in_pieces_so_that_other_disk_work_comes_between(tmp_path: Path) -> None:
    kept = Kept(tmp_path, DAY_MS)
    kept.put(*(f"log/quarantine/{number:020d}.bin" for number in range(40)))
    kept.days(1)
    counts = []
    kept.clock.advance(ms=DAY_MS / 2)
    for _ in range(4):
        kept.aside.tick(kept.clock.monotonic_ns())
        counts.append(kept.stats.count)
    assert counts == [40 - REMOVED_AT_ONCE_MAX, 40 - 2 * REMOVED_AT_ONCE_MAX, 0, 0]


def test_a_directory_without_such_files_gets_no_list(kept: Kept) -> None:
    kept.put(*OTHERS)
    kept.days(2)
    assert not (kept.path / LIST_NAME).exists()
    assert kept.stats.count == 0


def test_the_engine_looks_after_them_and_its_stats_say_so(tmp_path: Path) -> None:
    clock = ManualClock()
    (tmp_path / "secret-key.bad-1").write_bytes(b"x" * 64)
    engine = make_engine(tmp_path, clock, set_aside_retention_ms=DAY_MS)
    clock.advance(ms=10_000)
    engine.tick()
    assert engine.stats.now().aside == AsideStats(count=1, bytes=64, retention_ms=DAY_MS)
    for _ in range(25):
        clock.advance(ns=3600 * NS_PER_S + NS_PER_MS)
        engine.tick()
    assert engine.stats.now().aside.removed_count == 1
    assert not (tmp_path / "secret-key.bad-1").exists()
    engine.close()
