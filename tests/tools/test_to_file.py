"""Topics written to files: a message is finished when it is on the disk, and no sooner."""

import asyncio
import dataclasses
import os
import signal
import subprocess
import sys
import zlib
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from queue_engine.client.tools import to_file as to_file_module
from queue_engine.client.tools.connecting import Connecting
from queue_engine.client.tools.running import Stopping
from queue_engine.client.tools.to_file import ToFile, ToFileOptions
from queue_engine.client.tools.topic_file import FileLayout, TopicFile
from tests.support.processes.running_engine import RunningEngine
from tests.support.processes.running_lookup import RunningLookup
from tests.support.processes.server import ROOT
from tests.support.waiting import wait_for, wait_for_async
from tests.tools.conftest import connecting_to, registered


def publish(engine: RunningEngine, bodies: list[bytes], topic: str = "t", channel: str = "f") -> None:
    engine.http("POST", f"/topic/create?topic={topic}", b"")
    engine.http("POST", f"/channel/create?topic={topic}&channel={channel}", b"")
    engine.http("POST", f"/mpub?topic={topic}", b"\n".join(bodies))


def lines_in(directory: Path) -> list[bytes]:
    return [line for path in sorted(directory.iterdir()) for line in path.read_bytes().splitlines()]


def to_file(engine: RunningEngine, directory: Path, topics: tuple[str, ...] = ("t",), **options: Any) -> ToFile:
    found = ToFileOptions(topics, "f", FileLayout(str(directory), host="h"), **options)
    return ToFile(connecting_to(engine), found, lambda line: None)


async def test_every_message_is_in_its_topic_s_file_and_finished(engine: RunningEngine, tmp_path: Path) -> None:
    for topic in ("t", "u"):
        publish(engine, [b"%s %d" % (topic.encode(), number) for number in range(500)], topic)
    stopping = Stopping()
    directory = tmp_path / "out"
    directory.mkdir()
    tool = to_file(engine, directory, ("t", "u"), max_in_flight=50, sync_interval_s=0.05)
    running = asyncio.create_task(tool.run(stopping))
    await wait_for_async("all to be finished", lambda: tool.counts["finished"] == 1_000)
    stopping.request_end()
    await running
    for topic in ("t", "u"):
        (path,) = directory.glob(f"{topic}.h.*")
        assert sorted(path.read_bytes().splitlines()) == sorted(b"%s %d" % (topic.encode(), n) for n in range(500))
        found = engine.channel_stats(topic, "f")
        assert (found["depth"], found["in_flight_count"]) == (0, 0)


async def test_nothing_is_finished_before_its_sync(
    engine: RunningEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(file: TopicFile) -> None:
        raise OSError(28, "No space left on device")

    publish(engine, [b"one", b"two"])
    monkeypatch.setattr(TopicFile, "sync", refuse)
    directory = tmp_path / "out"
    directory.mkdir()
    tool = to_file(engine, directory, sync_interval_s=0.01)
    with pytest.raises(OSError, match="No space left"):
        await tool.run(Stopping())
    assert tool.counts["finished"] == 0
    await wait_for_async("both to wait again", lambda: engine.channel_stats("t", "f")["depth"] == 2)


async def test_a_sync_comes_before_the_server_gives_the_message_up(engine: RunningEngine, tmp_path: Path) -> None:
    publish(engine, [b"one"])
    directory = tmp_path / "out"
    directory.mkdir()
    connecting = dataclasses.replace(connecting_to(engine), msg_timeout_ms=1_000)
    found = ToFileOptions(("t",), "f", FileLayout(str(directory), host="h"), sync_interval_s=3_600)
    tool, stopping = ToFile(connecting, found, lambda line: None), Stopping()
    running = asyncio.create_task(tool.run(stopping))
    await wait_for_async("the sync", lambda: tool.counts["finished"] > 0)
    stopping.request_end()
    await running


async def test_a_file_is_finished_when_its_time_is_over_though_nothing_comes(
    engine: RunningEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(to_file_module, "LOOK_S_MIN", 0.01)
    work, done = tmp_path / "work", tmp_path / "done"
    work.mkdir()
    done.mkdir()
    publish(engine, [b"one"])
    layout = FileLayout(str(done), str(work), host="h", rotate_interval_s=0.01)
    options = ToFileOptions(("t",), "f", layout, sync_interval_s=0.01)
    tool = ToFile(connecting_to(engine), options, lambda line: None)
    stopping = Stopping()
    running = asyncio.create_task(tool.run(stopping))
    await wait_for_async("the file", lambda: lines_in(done) == [b"one"])
    stopping.request_end()
    await running


@pytest.mark.slow(reason="starts processes")
@pytest.mark.parametrize("flags", [(), ("--gzip", "--gzip-level=1")], ids=["plain", "gzip"])
def test_a_disk_that_refuses_ends_it_with_its_name_and_nothing_is_missing(
    engine: RunningEngine, tmp_path: Path, flags: tuple[str, ...]
) -> None:
    bodies = [b"%04d" % number + os.urandom(20).hex().encode() for number in range(1_000)]
    publish(engine, bodies)
    command = [
        sys.executable, str(ROOT / "manage.py"), "to_file", "--topic", "t", "--channel", "f",
        "--output-dir", str(tmp_path), "--nsqd-tcp-address", f"127.0.0.1:{engine.tcp_port}",
        "--max-in-flight", "100", "--sync-interval", "50ms", "--filename-format", "<TOPIC><REV>.log", *flags,
    ]  # fmt: skip
    # The limit would cut off the files of compiled modules, too.
    environment = {"PATH": os.environ["PATH"], "PYTHONDONTWRITEBYTECODE": "1"}

    def written() -> list[bytes]:
        return [line for path in tmp_path.glob("t*.log*") for line in _whole_lines(path)]

    # To the program a limit of the size is a disk that takes a part of a write, and then refuses: here at a sync, since
    # all that may be in flight fits into the buffer.
    limited = ["sh", "-c", 'ulimit -f 16 && exec "$@"', "sh", *command]
    first = subprocess.run(limited, env=environment, stderr=subprocess.PIPE, text=True, timeout=60)
    assert first.returncode == 2
    assert f"penstock: {tmp_path}/t.log" in first.stderr
    assert (
        "File too large. Messages that were not synced are not finished: they come again at the next start"
        in first.stderr
    )
    wait_for("the rest to wait again", lambda: engine.channel_stats("t", "f")["in_flight_count"] == 0)
    left = engine.channel_stats("t", "f")["depth"]
    assert 0 < 1_000 - left <= len(set(written()) & set(bodies))
    with subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL) as second:
        wait_for("all to be finished", lambda: engine.channel_stats("t", "f")["depth"] == 0)
        second.send_signal(signal.SIGTERM)
    assert second.returncode == 0
    assert set(bodies) <= set(written())


def _whole_lines(path: Path) -> list[bytes]:
    """The lines of a file that may be torn, a gzip file too."""
    data = path.read_bytes()
    if path.suffix == ".gz":
        lines, rest = b"", data
        while rest:
            member = zlib.decompressobj(wbits=31)
            lines += member.decompress(rest)
            rest = member.unused_data
        data = lines
    return data.split(b"\n")[:-1]


@pytest.mark.slow(reason="starts and kills processes")
def test_after_a_kill_no_message_is_missing(start_engine: Callable[..., RunningEngine], tmp_path: Path) -> None:
    engine = start_engine(max_rdy_count=1_000)
    bodies = [b"%06d" % number for number in range(40_000)]
    publish(engine, bodies)
    directory = tmp_path / "made" / "by it"
    command = [
        sys.executable, str(ROOT / "manage.py"), "to_file", "--topic", "t", "--channel", "f",
        "--output-dir", str(directory), "--nsqd-tcp-address", f"127.0.0.1:{engine.tcp_port}",
        "--max-in-flight", "500", "--sync-interval", "100ms", "--status-interval", "0",
    ]  # fmt: skip
    environment = {"PATH": os.environ["PATH"]}

    def left() -> int:
        found = engine.channel_stats("t", "f")
        return int(found["depth"] + found["in_flight_count"])

    with subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL) as first:
        wait_for("some to be finished", lambda: left() < 39_000)
        first.kill()
    assert left() > 0
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) as second:
        wait_for("all to be finished", lambda: left() == 0)
        second.send_signal(signal.SIGTERM)
        _, said = second.communicate(timeout=60)
    assert second.returncode == 0
    assert "finished" in said.splitlines()[-1]
    counts = Counter(lines_in(directory))
    assert set(bodies) <= set(counts)
    # What was not finished at the kill came again, and nothing else.
    assert sum(counts.values()) - 40_000 <= 500 + 1


async def test_what_a_killed_run_left_in_the_work_directory_is_finished_at_the_start(
    engine: RunningEngine, tmp_path: Path
) -> None:
    work, done = tmp_path / "work", tmp_path / "done"
    work.mkdir()
    done.mkdir()
    (work / "t.h.2026-11-22_07.log").write_bytes(b"old\nnot sync")
    publish(engine, [b"new"])
    told: list[str] = []
    options = ToFileOptions(("t",), "f", FileLayout(str(done), str(work), host="h"), sync_interval_s=0.01)
    tool, stopping = ToFile(connecting_to(engine), options, told.append), Stopping()
    running = asyncio.create_task(tool.run(stopping))
    await wait_for_async("the new one", lambda: tool.counts["finished"] == 1)
    stopping.request_end()
    await running
    assert sorted(lines_in(done)) == [b"new", b"old"]
    assert told == [f"{done}/t.h.2026-11-22_07.log is finished, which a run left that was killed"]
    assert list(work.iterdir()) == []


async def test_topics_that_match_a_pattern_are_written_as_they_come(
    engine: RunningEngine, lookup: RunningLookup, tmp_path: Path
) -> None:
    directory = tmp_path / "out"
    directory.mkdir()
    for topic in ("orders.eu", "orders.us", "bills"):
        publish(engine, [topic.encode()], topic)
    options = ToFileOptions(
        (), "f", FileLayout(str(directory), host="h"), r"orders\..*", topic_refresh_s=0.05, sync_interval_s=0.01
    )
    tool = ToFile(Connecting(lookup_urls=(f"http://{lookup.http_address}",), poll_s=0.05), options, lambda line: None)
    stopping = Stopping()
    with registered(lookup, engine, "orders.eu", "bills") as register:
        running = asyncio.create_task(tool.run(stopping))
        await wait_for_async("the first topic", lambda: tool.counts["finished"] == 1)
        register("orders.us")
        await wait_for_async("the second topic", lambda: tool.counts["finished"] == 2)
        stopping.request_end()
        await running
    assert sorted(lines_in(directory)) == [b"orders.eu", b"orders.us"]
