"""The commit log on a full disk: it refuses, and goes on by itself."""

import errno
import json
from pathlib import Path

import pytest

from queue_engine.storage.commit_log.options import SyncPolicy
from queue_engine.vocabulary.errors import NoRoomError, StorageError
from queue_engine.vocabulary.log_lines import formatter_of
from tests.support.stores.commit_log import HEAD_BYTES, POLICIES, MakeBench

FULL_ERRORS = [errno.ENOSPC, errno.EDQUOT, errno.EFBIG]


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EDQUOT])
@pytest.mark.parametrize("operation", ["create", "write", "sync"])
def test_a_start_without_room_for_a_segment_refuses_and_goes_on_by_itself(
    make: MakeBench, operation: str, error: int
) -> None:
    bench = make(is_open=False)
    bench.files.fail(operation, error, count=4)
    bench.log.open()
    assert bench.log.is_full
    with pytest.raises(
        NoRoomError, match=r"publish refused, the disk is full \([0-9.]+ [KMGT]?i?B of [0-9.]+ [KMGT]iB free\)"
    ):
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


@pytest.mark.parametrize("log_format", ["text", "json"])
def test_the_log_of_the_process_has_a_line_when_it_is_full_and_one_when_there_is_room(
    make: MakeBench, caplog: pytest.LogCaptureFixture, log_format: str
) -> None:
    caplog.set_level("INFO", "queue_engine.storage.commit_log")
    caplog.handler.setFormatter(formatter_of({"PENSTOCK_LOG_FORMAT": log_format}))
    bench = make()
    bench.files.fail("write", errno.ENOSPC)
    bench.publish()
    bench.settle()
    assert bench.log.is_full
    bench.files.heal()
    bench.second()
    bench.settle()
    assert not bench.log.is_full
    lines = caplog.text.splitlines()
    wanted = ["commit log refuses for want of room position=", "commit log goes on: there is room again position="]
    if log_format == "json":
        messages = [json.loads(line)["message"] for line in lines]
        assert [json.loads(line)["level"] for line in lines] == ["WARNING", "INFO"]
    else:
        assert [line.split(" ")[1] for line in lines] == ["WARNING", "INFO"]
        messages = [line.split(": ", 1)[1] for line in lines]
    assert [message[: len(start)] for message, start in zip(messages, wanted, strict=True)] == wanted


def test_a_log_that_never_had_room_closes_and_leaves_nothing(make: MakeBench) -> None:
    bench = make(is_open=False)
    bench.files.fail("create", errno.ENOSPC, count=100)
    bench.log.open()
    bench.log.close()
    assert list(Path(bench.segments.directory).iterdir()) == []


def test_a_start_below_the_room_that_must_be_free_takes_none_of_it(make: MakeBench) -> None:
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
def test_a_full_disk_refuses_and_goes_on_by_itself(make: MakeBench, policy: SyncPolicy, error: int) -> None:
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


def test_what_gathered_behind_a_failed_group_fails_with_it(make: MakeBench) -> None:
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


def test_a_write_that_comes_short_is_gone_on_with(make: MakeBench) -> None:
    bench = make()
    write_at = bench.files.write_at
    bench.files.write_at = lambda fd, data, position: write_at(fd, data[:7], position)
    bench.publish()
    bench.publish(b"x" * 900)
    bench.settle()
    assert len(bench.acknowledged) == 2
    bench.check_disk()


@pytest.mark.parametrize("policy", POLICIES)
def test_what_a_short_write_left_is_zero_before_its_place_is_given_again(make: MakeBench, policy: SyncPolicy) -> None:
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
def test_a_group_that_fails_in_its_second_segment_leaves_the_first_as_it_was(
    make: MakeBench, policy: SyncPolicy
) -> None:
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
    make: MakeBench, policy: SyncPolicy, operation: str, error: int
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


def test_a_segment_that_could_not_be_opened_is_not_made_twice(make: MakeBench) -> None:
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


def test_a_segment_that_could_not_be_opened_is_removed_when_the_log_closes(make: MakeBench) -> None:
    bench = make()
    bench.publish(b"x" * 900)
    bench.sync.finish()
    bench.files.fail("open", errno.EMFILE, nth=3)  # the file, its directory, and then the descriptor to write by
    bench.worker.finish()
    assert [one.position for one in bench.segments.list] == [0, 2_000]
    bench.log.close()
    assert [one.position for one in bench.segments.list] == [0]
    bench.check_disk()


def test_a_filler_without_room_refuses_nothing_and_tries_again(make: MakeBench) -> None:
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


def test_a_look_for_room_gives_back_what_it_found_when_that_is_too_little(make: MakeBench) -> None:
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
def test_a_log_that_is_full_closes_with_what_it_has(make: MakeBench, policy: SyncPolicy) -> None:
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


@pytest.mark.parametrize("was_open", [True, False])
def test_a_log_that_is_full_closes_in_order_though_a_probe_waits(make: MakeBench, was_open: bool) -> None:
    # The probe waits for a segment that nothing has made yet.
    bench = make(is_open=False)
    if was_open:
        bench.log.open()
        bench.publish(b"x" * 1_000)
        bench.sync.finish()
    bench.files.fail("create", errno.ENOSPC, count=20)
    if was_open:
        with pytest.raises(NoRoomError):
            bench.append(b"x" * 1_000)
    else:
        bench.log.open()
    assert bench.log.is_full
    bench.files.heal()
    bench.second()
    bench.log.close()
    assert bench.log.error is None
    assert all(one.is_sealed for one in bench.segments.list)
    assert bench.files.open_fds == set()
    bench.check_disk()


@pytest.mark.parametrize("operation", ["write", "sync_data", "close"])
@pytest.mark.parametrize("policy", POLICIES)
def test_a_close_that_can_t_finish_says_so(make: MakeBench, policy: SyncPolicy, operation: str) -> None:
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
