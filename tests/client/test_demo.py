"""`serve --demo`: a newcomer's first look finds a living page, and nothing is left behind."""

import os
import socket
from pathlib import Path

import pytest

from queue_engine.client.backlog_limit import BacklogLimit
from queue_engine.client.demo import QUAKES, switch_archive_on
from queue_engine.client.demo_process import DemoProcess
from queue_engine.client.producer import Producer
from queue_engine.storage.disk_queue.store import KIND as DISK_QUEUE
from queue_engine.storage.log_store.log_topic_store import KIND as LOG
from queue_engine.vocabulary.errors import PenstockError
from tests.support.processes.live_processes import live_process
from tests.support.processes.running_engine import RunningEngine
from tests.support.processes.server import ServerProcess
from tests.support.waiting import wait_for


def demo_pid(server: ServerProcess) -> int:
    """The demo's process, as the server names it."""
    (rest,) = [line.partition("Demo: process ")[2] for line in server.log.splitlines() if "Demo: process " in line]
    return int(rest.split()[0])


def archived_offset(server: ServerProcess) -> int:
    """How far the archive of the demo's first topic has come."""
    (cursor,) = server.topic_stats("earthquakes")["cursors"]
    assert cursor["cursor"] == "archive"
    return int(cursor["offset"])


class Movement:
    """How far figures of channels went up and down while it looked."""

    def __init__(self, server: ServerProcess) -> None:
        self._server = server
        self._seen: dict[tuple[str, str, str], list[int]] = {}

    def look(self) -> bool:
        """Take one look; always true, to be followed by a question."""
        for topic in self._server.stats()["topics"]:
            for channel in topic["channels"]:
                for figure in ("depth", "in_flight_count", "deferred_count", "timeout_count", "requeue_count"):
                    self._seen.setdefault((topic["topic_name"], channel["channel_name"], figure), []).append(
                        channel[figure]
                    )
        return True

    def has_moved(self, topic: str, channel: str, figure: str) -> bool:
        return len(set(self._seen.get((topic, channel, figure), []))) >= 3


@pytest.mark.slow(reason="starts real servers")
def test_everything_moves_within_seconds_and_sigterm_ends_it(tmp_path: Path, storage_kind: str) -> None:
    with ServerProcess(tmp_path / "data", options=["--demo"]) as server:
        wait_for("its line", lambda: "Demo: process" in server.log)
        pid = demo_pid(server)
        seen = Movement(server)
        for topic, channel, figure in (
            ("earthquakes", "warehouse", "depth"),
            ("earthquakes", "dashboard", "in_flight_count"),
            ("earthquakes", "geocoder", "timeout_count"),
            ("earthquakes.strong", "notifier", "requeue_count"),
            ("earthquakes.strong", "notifier", "deferred_count"),
            ("earthquakes.strong", "archive", "depth"),
            ("alerts", "sms", "in_flight_count"),
        ):
            wait_for(
                f"{figure} of {topic}/{channel} to move",
                lambda one=(topic, channel, figure): seen.look() and seen.has_moved(*one),
                timeout_s=60,
            )
        assert server.channel_stats("earthquakes.strong", "archive")["clients"] == []
        # The pipeline's worker follows what the demo switched on. A disk queue can't be archived, and the demo goes on.
        assert ("demo has no archive topic=earthquakes status=400" in server.log) is (storage_kind == DISK_QUEUE)
        if storage_kind == LOG:
            wait_for("the archive", lambda: archived_offset(server) > 0, timeout_s=120)
        assert {client["client_id"] for client in server.channel_stats("earthquakes", "dashboard")["clients"]} == {
            "dashboard-1",
            "dashboard-2",
        }
        # A deleted channel is back soon: its client comes again, and so does the client of a restarted channel.
        server.http("POST", "/channel/delete?topic=earthquakes&channel=dashboard")
        wait_for(
            "the dashboard to come again",
            lambda: any(
                channel["channel_name"] == "dashboard" and len(channel["clients"]) == 2
                for channel in server.topic_stats("earthquakes")["channels"]
            ),
        )
        assert live_process(pid)
        server.stop()
        assert not live_process(pid)
    assert "Traceback" not in server.log
    assert "demo ended" not in server.log


@pytest.mark.slow(reason="starts real servers")
def test_a_killed_server_takes_its_demo_with_it(tmp_path: Path) -> None:
    server = ServerProcess(tmp_path / "data", options=["--demo"])
    server.start()
    try:
        wait_for("its line", lambda: "Demo: process" in server.log)
        pid = demo_pid(server)
        wait_for("traffic", lambda: server.stats()["topics"])
        assert live_process(pid)
    finally:
        server.kill9()
    wait_for("the demo to end", lambda: not live_process(pid))


@pytest.mark.slow(reason="starts real servers")
def test_an_ended_demo_is_told_and_the_server_goes_on(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "data", options=["--demo"]) as server:
        wait_for("its line", lambda: "Demo: process" in server.log)
        os.kill(demo_pid(server), 9)
        wait_for("the warning", lambda: "demo ended by itself status=-9" in server.log)
        assert server.http("GET", "/ping") == b"OK"


@pytest.mark.parametrize("host", ["192.0.2.7", "2001:db8::7"])
def test_it_works_on_loopback_only(host: str) -> None:
    here = ("127.0.0.1", 4150)
    with pytest.raises(PenstockError, match=f"--tcp-address is {host}"):
        DemoProcess((host, 4150), here)
    with pytest.raises(PenstockError, match=f"--http-address is {host}"):
        DemoProcess(here, (host, 4151))


def test_a_missing_sample_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("queue_engine.client.demo_process.SAMPLE_PATH", tmp_path / "gone.jsonl")
    with pytest.raises(PenstockError, match=r"gone\.jsonl, which is missing"):
        DemoProcess(("127.0.0.1", 4150), ("127.0.0.1", 4151))


async def test_publishing_rests_while_a_channel_is_full(engine: RunningEngine, producer: Producer) -> None:
    for path in ("/topic/create?topic=full", "/channel/create?topic=full&channel=paused"):
        engine.http("POST", path)
    limit = BacklogLimit("127.0.0.1", engine.http_port, backlog_max=3)
    await producer.publish_many("full", [b"x", b"y"])
    await limit.look()
    assert not limit.is_reached("full")
    await producer.publish_deferred("full", b"z", defer_ms=60_000)
    await limit.look()
    assert limit.is_reached("full")
    assert not limit.is_reached("other")
    engine.http("POST", "/channel/empty?topic=full&channel=paused")
    await limit.look()
    assert not limit.is_reached("full")


async def test_publishing_rests_while_the_archive_stands_still(engine: RunningEngine, producer: Producer) -> None:
    """Its worker may be stopped: the log keeps all that it has not read."""
    switch_archive_on("127.0.0.1", engine.http_port, QUAKES)
    switch_archive_on("127.0.0.1", engine.http_port, QUAKES)  # of the demo before, with the same data
    limit = BacklogLimit("127.0.0.1", engine.http_port, backlog_max=3)
    await producer.publish_many(QUAKES, [b"x", b"y"])
    engine.http("POST", f"/channel/create?topic={QUAKES}&channel=quick")
    engine.http("POST", f"/channel/empty?topic={QUAKES}&channel=quick")
    await limit.look()
    assert not limit.is_reached(QUAKES)
    await producer.publish_many(QUAKES, [b"z"])
    engine.http("POST", f"/channel/empty?topic={QUAKES}&channel=quick")
    await limit.look()
    assert limit.is_reached(QUAKES)


async def test_publishing_rests_while_nothing_is_known() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        limit = BacklogLimit("127.0.0.1", unused.getsockname()[1])
        await limit.look()
    assert limit.is_reached("earthquakes")
