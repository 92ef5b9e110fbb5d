"""What an engine stages for a backup: everything as of one moment, for as long as somebody wants it."""

import os
import shutil
import threading
from pathlib import Path

import pytest

from queue_engine.engine.engine import Engine
from queue_engine.storage.disk.backup_files import DIRECTORY, INCOMPLETE_NAME, read_list
from queue_engine.vocabulary.errors import StorageError
from tests.support.clock import ManualClock
from tests.support.engine import Client, make_engine, pass_time, settle
from tests.support.waiting import wait_for

NAME = "0123456789abcdef"


class Bench:
    """An engine with messages that wait, are in flight and deferred, and requests for backups of it."""

    def __init__(self, path: Path) -> None:
        self.path = path / "data"
        self.path.mkdir()
        self.clock = ManualClock()
        self.engine = make_engine(self.path, self.clock, mem_queue_size=4)
        self.engine.acts.create_topic("t")
        self.engine.acts.create_channel("t", "c")
        self.engine.acts.create_topic("gone#ephemeral")
        for number in range(10):
            self.publish(b"%d" % number)
        self.engine.publish("t", [b"deferred"], defer_ms=3_600_000)
        settle(self.engine)
        self.client = Client(self.engine, "t", "c", ready=3)
        settle(self.engine)
        self.request = self.path / DIRECTORY / f"{NAME}.request"
        self.staged = self.path / DIRECTORY / NAME

    def publish(self, body: bytes) -> None:
        self.engine.publish("t", [body])
        settle(self.engine)

    def ask(self) -> None:
        self.request.parent.mkdir(exist_ok=True)
        self.request.touch()
        pass_time(self.engine, self.clock, 1_000)
        pass_time(self.engine, self.clock, 100)
        told = self.path / DIRECTORY / f"{NAME}.error"
        wait_for("what disk queues have in memory", lambda: told.exists() or read_list(str(self.staged)) is not None)

    def expect_removed(self) -> None:
        wait_for("the end of it", lambda: os.listdir(self.path / DIRECTORY) == [])

    def started_on_the_copy(self, where: Path) -> Engine:
        """As restored: each file as long as it was told."""
        files = read_list(str(self.staged))
        assert files is not None
        for path, length in files:
            target = where / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes((self.staged / "files" / path).read_bytes()[:length])
        return make_engine(where, self.clock)


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def test_all_that_an_engine_holds_is_in_the_copy_and_nothing_later(bench: Bench, tmp_path: Path) -> None:
    bench.ask()
    for number in range(10, 20):
        bench.publish(b"%d" % number)  # after the moment
    bench.client.finish(*[message.id for message in bench.client.sink.received])
    bench.engine.acts.delete_topic("t")
    settle(bench.engine)
    copy = bench.started_on_the_copy(tmp_path / "copy")
    assert list(copy.topics) == ["t"]
    stats = copy.stats.now().topics[0].channels[0]
    assert stats.depth + stats.deferred_count == 11
    reader = Client(copy, "t", "c", ready=100)
    settle(copy)
    expected = {b"%d" % number for number in range(10)}
    assert sorted(set(reader.bodies) - {b"deferred"}) == sorted(expected)
    attempts = {message.body: message.attempts for message in reader.sink.received}
    assert {body for body in attempts if attempts[body] == 2} >= {
        message.body for message in bench.client.sink.received[:3]
    }
    copy.close()
    bench.engine.close()


def test_tables_are_taken_while_the_engine_goes_on(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    log = bench.path / "pipeline/archive/t/_delta_log"
    log.mkdir(parents=True)
    (log / f"{0:020d}.json").write_text("{}")
    threads: list[str] = []
    link = os.link

    def note(path: str, *args: object, **kwargs: object) -> None:
        if "_delta_log" in path:
            threads.append(threading.current_thread().name)
        link(path, *args, **kwargs)

    monkeypatch.setattr(os, "link", note)
    bench.ask()
    assert dict(read_list(str(bench.staged)) or [])[f"pipeline/archive/t/_delta_log/{0:020d}.json"] == 2
    assert threads == ["penstock-backup"]
    bench.engine.close()


def test_what_was_staged_goes_with_its_request(bench: Bench) -> None:
    bench.ask()
    assert bench.staged.is_dir()
    for _ in range(5):
        # Somebody who copies a lot says now and then that it goes on.
        pass_time(bench.engine, bench.clock, 50_000)
        os.utime(bench.request, ns=(0, bench.clock.monotonic_ns()))
    assert bench.staged.is_dir()
    bench.request.unlink()
    pass_time(bench.engine, bench.clock, 1_000)
    bench.expect_removed()
    bench.engine.close()


def test_a_lease_that_nobody_renews_ends_by_itself(bench: Bench) -> None:
    bench.ask()
    pass_time(bench.engine, bench.clock, 50_000)
    assert bench.staged.is_dir()
    pass_time(bench.engine, bench.clock, 10_000)
    bench.expect_removed()
    bench.ask()
    assert read_list(str(bench.staged))
    bench.engine.close()


def test_requests_that_killed_commands_left_hold_up_nobody(bench: Bench) -> None:
    left = [bench.request.with_name(f"{number:016x}.request") for number in (1, 2, 3)]
    bench.request.parent.mkdir()
    for number, path in enumerate(left):
        path.touch()
        os.utime(path, ns=(0, number))
    bench.ask()
    assert bench.staged.is_dir(), "who waits is served first"
    bench.request.unlink()
    pass_time(bench.engine, bench.clock, 1_000)
    pass_time(bench.engine, bench.clock, 1_000)
    pass_time(bench.engine, bench.clock, 60_000)
    bench.expect_removed()
    bench.engine.close()


def test_segments_stay_whole_as_long_as_they_are_copied(bench: Bench) -> None:
    bench.ask()
    logs = list(bench.engine._backups._files.logs().values())
    assert all(log.retention.is_frozen for log in logs)
    bench.request.unlink()
    pass_time(bench.engine, bench.clock, 1_000)
    assert not any(log.retention.is_frozen for log in logs)
    bench.engine.close()


def test_what_can_t_be_taken_is_told_and_the_engine_goes_on(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "link", refuse)
    bench.ask()
    monkeypatch.undo()
    told = (bench.path / DIRECTORY / f"{NAME}.error").read_text()
    assert "No space left on device" in told
    bench.publish(b"goes on")
    bench.request.unlink()
    pass_time(bench.engine, bench.clock, 1_000)
    bench.expect_removed()
    bench.engine.close()


def test_a_start_removes_what_another_process_staged_and_refuses_half_a_backup(bench: Bench) -> None:
    bench.ask()
    bench.engine.close()
    assert bench.staged.exists()
    (bench.path / DIRECTORY / "mine").touch()
    again = make_engine(bench.path, bench.clock)
    assert os.listdir(bench.path / DIRECTORY) == ["mine"]
    again.close()
    (bench.path / INCOMPLETE_NAME).touch()
    with pytest.raises(StorageError, match="was not finished"):
        make_engine(bench.path, bench.clock)
    shutil.rmtree(bench.path)
