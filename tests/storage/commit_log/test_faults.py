"""The commit log when the disk is full, refuses, fails, or the process dies: what was told stays true."""

import errno
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from queue_engine.commit_log.options import SyncPolicy
from queue_engine.commit_log.segment import head_bytes_of
from queue_engine.vocabulary.errors import NoRoomError, StorageError
from tests.support.disks.files import ProcessDiedError
from tests.support.stores.commit_log import LogBench

HEAD_BYTES = head_bytes_of(2_000)

ALWAYS, INTERVAL, OS = SyncPolicy.ALWAYS, SyncPolicy.INTERVAL, SyncPolicy.OS
POLICIES = list(SyncPolicy)
FULL_ERRORS = [errno.ENOSPC, errno.EDQUOT, errno.EFBIG]

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


def check_failed_for_good(bench: LogBench) -> None:
    """No OK, no write, no sync, no sign of life comes from it any more."""
    assert bench.log.error is not None
    assert bench.failures == [bench.log.error]
    assert not bench.log.is_full
    visible_end = bench.log.visible_end
    acknowledged = list(bench.acknowledged)
    assert bench.log.end == visible_end
    bench.files.heal()
    bench.settle()
    calls = len(bench.files.calls)
    for _ in range(3):
        with pytest.raises(StorageError, match="until the next start"):
            bench.append()
        bench.log.commit()
        bench.second()
        bench.settle()
    with pytest.raises(StorageError, match="until the next start"):
        bench.log.close()
    assert bench.calls_since(calls, "write", "sync_data", "sync", "create", "truncate") == []
    assert bench.log.visible_end == visible_end
    assert bench.acknowledged == acknowledged
    assert len(bench.failures) == 1
    assert bench.files.open_fds == set()
    bench.check_disk(is_exact=False)


# Faults, for good.


@pytest.mark.parametrize("policy", POLICIES)
def test_an_error_of_a_write_is_final(make: Make, policy: SyncPolicy) -> None:
    bench = make(policy)
    bench.publish()
    bench.settle()
    bench.files.fail("write", errno.EIO)
    refused = bench.publish()
    bench.sync.finish()
    assert bench.rejected == [refused]
    assert len(bench.acknowledged) == 1
    check_failed_for_good(bench)


@pytest.mark.parametrize("error", [errno.EIO, errno.ENOSPC, errno.EDQUOT])
def test_any_error_of_a_sync_is_final_and_the_sync_is_not_repeated(make: Make, error: int) -> None:
    bench = make()
    bench.publish()
    bench.settle()
    calls = len(bench.files.calls)
    bench.files.fail("sync_data", error)
    refused = [bench.publish(), bench.publish(), bench.publish()]  # one under way, two gathered behind it
    bench.sync.finish()
    assert bench.rejected == refused
    assert bench.calls_since(calls, "sync_data") == ["sync_data"]
    check_failed_for_good(bench)


def test_a_sync_that_fails_in_the_background_of_interval_leaves_what_is_visible(make: Make) -> None:
    bench = make(INTERVAL, sync_interval_bytes=100)
    bench.publish()
    later = bench.append()
    bench.files.fail("sync_data", errno.EIO)
    bench.sync.finish()
    assert len(bench.acknowledged) == 1
    assert bench.rejected == [later]
    assert bench.log.synced_end == HEAD_BYTES
    check_failed_for_good(bench)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("operation", ["sync_data", "close"])
def test_an_error_when_a_full_segment_is_finished_is_final(make: Make, policy: SyncPolicy, operation: str) -> None:
    bench = make(policy, sync_interval_ms=1_000_000, sync_interval_bytes=1_000_000)
    bench.publish(b"x" * 900)
    bench.settle()
    bench.files.fail(operation, errno.EIO)
    bench.publish(b"x" * 1_000)
    bench.settle()
    assert len(bench.acknowledged) == (1 if policy is ALWAYS else 2)
    check_failed_for_good(bench)


@pytest.mark.parametrize("operation", ["open", "create", "write", "sync"])
def test_an_error_when_the_next_segment_is_made_is_final(make: Make, operation: str) -> None:
    bench = make()
    first = bench.append(b"x" * 900)
    bench.files.fail(operation, errno.EIO)
    with pytest.raises(StorageError, match="until the next start"):
        bench.append(b"x" * 1_000)
    assert bench.rejected == [first]
    check_failed_for_good(bench)


@pytest.mark.parametrize("operation", ["open", "create", "write", "sync"])
def test_an_error_when_the_worker_makes_the_next_segment_is_final(make: Make, operation: str) -> None:
    bench = make()
    bench.publish(b"x" * 900)
    bench.sync.finish()
    bench.files.fail(operation, errno.EIO)
    bench.worker.finish()
    check_failed_for_good(bench)


@pytest.mark.parametrize(
    ("operation", "error"), [("write", errno.EIO), ("sync_data", errno.EIO), ("sync_data", errno.ENOSPC)]
)
def test_an_error_of_the_filler_rejects_the_group_under_way(make: Make, operation: str, error: int) -> None:
    bench = make(fill_ahead_bytes=1_000)
    group = bench.publish()
    bench.files.fail(operation, error)
    bench.worker.finish()
    assert bench.rejected == [group]
    bench.sync.finish()  # it succeeds, and nobody is told any more
    assert bench.visible == []
    check_failed_for_good(bench)


def test_an_error_of_the_first_segment_is_told_and_opening_can_be_repeated(make: Make) -> None:
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


# No room, for now.


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EDQUOT])
@pytest.mark.parametrize("operation", ["create", "write", "sync"])
def test_a_start_without_room_for_a_segment_refuses_and_goes_on_by_itself(
    make: Make, operation: str, error: int
) -> None:
    bench = make(is_open=False)
    bench.files.fail(operation, error, count=4)
    bench.log.open()
    assert bench.log.is_full
    with pytest.raises(NoRoomError, match=r"publish refused, the disk is full \([0-9.]+ of [0-9,]+ MB free\)"):
        bench.publish()
    for _ in range(3):
        bench.clock.advance(ms=1_000)
        bench.log.tick(bench.clock.monotonic_ns())
        bench.sync.finish()
        # Each failed try leaves nothing behind.
        assert bench.log.is_full
        assert list(Path(bench.segments.directory).iterdir()) == []
    bench.clock.advance(ms=1_000)
    bench.log.tick(bench.clock.monotonic_ns())
    bench.sync.finish()
    assert not bench.log.is_full
    bench.publish()
    bench.settle()
    bench.check_disk()


def test_a_log_that_never_had_room_closes_and_leaves_nothing(make: Make) -> None:
    bench = make(is_open=False)
    bench.files.fail("create", errno.ENOSPC, count=100)
    bench.log.open()
    bench.log.close()
    assert list(Path(bench.segments.directory).iterdir()) == []


def test_a_start_below_the_room_that_must_be_free_takes_none_of_it(make: Make) -> None:
    bench = make(is_open=False, room_bytes_min=8_000, fill_ahead_bytes=4_000)
    bench.files.bytes_free = 7_999
    bench.log.open()
    bench.clock.advance(ms=1_000)
    bench.log.tick(bench.clock.monotonic_ns())
    bench.sync.finish()
    assert bench.log.is_full
    assert bench.files.bytes_free == 7_999
    bench.files.bytes_free = 12_000
    bench.clock.advance(ms=1_000)
    bench.log.tick(bench.clock.monotonic_ns())
    bench.sync.finish()
    assert not bench.log.is_full
    for _ in range(10):
        bench.worker.finish()
        bench.clock.advance(ms=1_000)
        bench.log.tick(bench.clock.monotonic_ns())
    # Zeros ahead are not worth the last of it.
    assert bench.files.bytes_free >= 8_000
    bench.publish()
    bench.settle()
    bench.check_disk()


@pytest.mark.parametrize("error", FULL_ERRORS)
@pytest.mark.parametrize("policy", POLICIES)
def test_a_full_disk_refuses_and_goes_on_by_itself(make: Make, policy: SyncPolicy, error: int) -> None:
    bench = make(policy)
    kept = bench.publish()
    bench.settle()
    bench.files.fail("write", error)
    refused = bench.publish(b"x" * 300)
    bench.sync.finish()
    assert bench.rejected == [refused]
    assert len(bench.failures) == 1
    assert bench.log.error is None
    assert bench.log.is_full
    assert bench.log.end == bench.log.visible_end == kept.end
    with pytest.raises(StorageError, match="publish refused"):
        bench.append()
    bench.clock.advance(ms=999)
    bench.log.tick(bench.clock.monotonic_ns())
    bench.settle()
    assert bench.log.is_full
    bench.clock.advance(ms=1)
    bench.log.tick(bench.clock.monotonic_ns())
    bench.settle()
    assert not bench.log.is_full
    again = bench.publish()
    bench.settle()
    assert again.position == refused.position
    assert bench.acknowledged == [kept, again]
    bench.check_disk()
    bench.log.close()


def test_what_gathered_behind_a_failed_group_fails_with_it(make: Make) -> None:
    bench = make()
    bench.files.fail("write", errno.ENOSPC)
    refused = [bench.publish(), bench.publish(), bench.append()]
    bench.sync.finish()
    assert bench.rejected == refused
    assert bench.visible == []
    calls = len(bench.files.calls)
    bench.log.commit()
    bench.sync.finish()
    assert bench.calls_since(calls, "write") == []
    bench.check_disk()


def test_a_write_that_comes_short_is_gone_on_with(make: Make) -> None:
    bench = make()
    write_at = bench.files.write_at
    bench.files.write_at = lambda fd, data, position: write_at(fd, data[:7], position)  # type: ignore[method-assign]
    bench.publish()
    bench.publish(b"x" * 900)
    bench.settle()
    assert len(bench.acknowledged) == 2
    bench.check_disk()


@pytest.mark.parametrize("policy", POLICIES)
def test_what_a_short_write_left_is_zero_before_its_place_is_given_again(make: Make, policy: SyncPolicy) -> None:
    # Three records in one group; all but the end of the third are written. The next group is one record of the first
    # one's size: were the second still there, a scan would find it behind.
    bench = make(policy)
    for _ in range(3):
        bench.append()
    bench.files.bytes_free = bench.pending[-1].end - bench.log.visible_end - 10
    bench.log.commit()
    bench.sync.finish()
    assert len(bench.rejected) == 3
    assert len(bench.on_disk(is_clean=False)) >= 2  # zeros had no room either
    bench.second()
    bench.settle()
    assert bench.log.is_full
    bench.files.heal()
    calls = len(bench.files.calls)
    bench.second()
    bench.settle()
    assert not bench.log.is_full
    assert bench.on_disk() == []
    # The zeros are on the disk before anything else is written there.
    assert bench.calls_since(calls, "write", "sync_data")[:2] == ["write", "sync_data"]
    bench.publish()
    bench.settle()
    bench.check_disk()


@pytest.mark.parametrize("policy", POLICIES)
def test_a_group_that_fails_in_its_second_segment_leaves_the_first_as_it_was(make: Make, policy: SyncPolicy) -> None:
    bench = make(policy)
    bench.publish(b"x" * 900)
    bench.settle()
    bench.files.fail("write", errno.ENOSPC, nth=2)
    refused = [bench.append(b"y" * 300), bench.append(b"z" * 900)]
    assert refused[1].position == 2_000 + HEAD_BYTES
    bench.log.commit()
    bench.sync.finish()
    assert bench.rejected == refused
    assert not bench.segments.list[0].is_sealed
    bench.check_disk()
    bench.second()
    bench.settle()
    again = [bench.publish(b"u" * 200), bench.publish(b"v" * 800), bench.publish(b"w" * 900)]
    bench.settle()
    assert again[0].position == refused[0].position
    assert again[1].position == refused[1].position
    assert [one.position for one in bench.segments.list][:3] == [0, 2_000, 4_000]
    assert bench.acknowledged[1:] == again
    bench.check_disk()
    bench.log.close()


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize(
    ("operation", "error"), [("write", errno.ENOSPC), ("create", errno.ENOSPC), ("open", errno.EMFILE)]
)
def test_without_room_for_the_next_segment_the_turn_keeps_what_it_has(
    make: Make, policy: SyncPolicy, operation: str, error: int
) -> None:
    bench = make(policy)
    kept = bench.append(b"x" * 900)
    bench.files.fail(operation, error, count=100)
    with pytest.raises(StorageError, match="publish refused"):
        bench.append(b"x" * 1_000)
    assert bench.log.is_full
    assert bench.failures == []
    if operation == "write":
        bench.files.heal()
        bench.files.fail("create", error, count=100)
    bench.log.commit()
    bench.sync.finish()
    assert bench.acknowledged == [kept]
    bench.second()
    bench.settle()
    assert bench.log.is_full
    assert bench.log.error is None
    bench.files.heal()
    bench.second()
    bench.settle()
    assert not bench.log.is_full
    assert bench.publish(b"x" * 1_000).position == 2_000 + HEAD_BYTES
    bench.settle()
    bench.check_disk()
    assert [one.position for one in bench.segments.list][:2] == [0, 2_000]
    bench.log.close()
    assert bench.files.open_fds == set()


def test_a_segment_that_could_not_be_opened_is_not_made_twice(make: Make) -> None:
    bench = make()
    bench.publish(b"x" * 900)
    bench.sync.finish()
    creates = bench.files.calls.count("create")
    bench.files.before_call = lambda operation: (
        bench.files.fail("open", errno.EMFILE, nth=2) if operation == "sync" else None
    )
    bench.worker.finish()
    bench.files.before_call = None
    assert bench.log.error is None
    bench.files.heal()
    bench.second()
    bench.settle()
    assert bench.files.calls.count("create") == creates + 1
    assert [one.position for one in bench.segments.list] == [0, 2_000]


def test_a_segment_that_could_not_be_opened_is_removed_when_the_log_closes(make: Make) -> None:
    bench = make()
    bench.publish(b"x" * 900)
    bench.sync.finish()
    bench.files.fail("open", errno.EMFILE, nth=3)  # the file, its directory, and then the descriptor to write by
    bench.worker.finish()
    assert [one.position for one in bench.segments.list] == [0, 2_000]
    bench.log.close()
    assert [one.position for one in bench.segments.list] == [0]
    bench.check_disk()


def test_a_filler_without_room_refuses_nothing_and_tries_again(make: Make) -> None:
    bench = make(segment_bytes=20_000, fill_ahead_bytes=2_000)
    bench.files.fail("write", errno.ENOSPC)
    bench.worker.finish()
    assert not bench.log.is_full
    bench.publish()
    bench.settle()
    assert len(bench.acknowledged) == 1
    calls = len(bench.files.calls)
    bench.log.tick(bench.clock.monotonic_ns())
    bench.worker.finish()
    assert bench.files.calls[calls:] == []
    bench.second()
    bench.worker.finish()
    assert bench.calls_since(calls, "write") != []
    bench.check_disk()


def test_a_look_for_room_gives_back_what_it_found_when_that_is_too_little(make: Make) -> None:
    bench = make(segment_bytes=20_000)
    bench.publish()
    bench.settle()
    size = Path(bench.segments.list[0].path).stat().st_size
    bench.files.fail("write", errno.ENOSPC)
    bench.publish(b"x" * 5_000)
    bench.settle()
    bench.files.bytes_free = 2_000
    bench.second()
    bench.settle()
    assert bench.log.is_full
    assert Path(bench.segments.list[0].path).stat().st_size == size


@pytest.mark.parametrize("policy", POLICIES)
def test_a_log_that_is_full_closes_with_what_it_has(make: Make, policy: SyncPolicy) -> None:
    bench = make(policy)
    kept = bench.publish()
    bench.settle()
    bench.files.fail("write", errno.ENOSPC)
    bench.publish()
    bench.sync.finish()
    bench.log.close()
    assert bench.acknowledged == [kept]
    assert bench.log.synced_end == kept.end
    assert bench.segments.list[0].is_sealed
    assert bench.files.open_fds == set()
    bench.check_disk()


@pytest.mark.parametrize("operation", ["write", "sync_data", "close"])
@pytest.mark.parametrize("policy", POLICIES)
def test_a_close_that_can_t_finish_says_so(make: Make, policy: SyncPolicy, operation: str) -> None:
    bench = make(policy)
    bench.publish()
    bench.sync.finish()
    bench.files.fail(operation, errno.ENOSPC)
    with pytest.raises(StorageError):
        bench.log.close()
    assert len(bench.acknowledged) == 1
    assert not bench.segments.list[0].is_sealed
    assert bench.files.open_fds == set()
    bench.check_disk(is_exact=False)


# Everything, everywhere.


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


def operations_of(make: Make, policy: SyncPolicy) -> list[str]:
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
def test_an_error_at_every_operation(make: Make, policy: SyncPolicy, error: int) -> None:
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
                    check_failed_for_good(bench)
                assert not bench.pending
                bench.files.abandon()
    assert failed > 10
    assert resumed > 0 or error == errno.EIO


@pytest.mark.parametrize("policy", POLICIES)
def test_the_process_may_die_at_every_change_of_the_disk(make: Make, policy: SyncPolicy) -> None:
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


def test_with_always_every_ok_is_behind_a_sync_of_its_own_bytes(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    # What each file held at its last sync is all that a power cut leaves; the acknowledged must be in it.
    bench = make(fill_ahead_bytes=800)
    synced: dict[str, bytes] = {}

    sync_data = bench.files.sync_data

    def watched(fd: int) -> None:
        path = Path(f"/proc/self/fd/{fd}").resolve()
        synced[str(path)] = path.read_bytes()
        sync_data(fd)

    bench.files.sync_data = watched  # type: ignore[method-assign]
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
