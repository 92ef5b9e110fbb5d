"""SIGTERM under load, then a start on the same directory: nothing acknowledged is missing, everything is as it was."""

import struct
import threading
from pathlib import Path
from typing import Any

import orjson
import pytest

from queue_engine.storage.disk_queue.store import KIND as DISK_QUEUE
from queue_engine.storage.log_store.log_topic_store import KIND as LOG
from tests.support.nsq_socket import NsqSocket, mpub_body, sized
from tests.support.processes.server import ServerProcess
from tests.support.waiting import wait_for

pytestmark = [pytest.mark.slow(reason="starts real servers"), pytest.mark.timeout(400)]

BATCH = 50


class Publishing:
    """A thread that publishes numbered bodies in batches until its connection ends."""

    def __init__(self, port: int, topic: str, lane: int) -> None:
        self.acknowledged: set[bytes] = set()
        self._client = NsqSocket(port)
        self._topic = topic
        self._lane = lane
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        number = 0
        try:
            while True:
                bodies = [struct.pack(">II", self._lane, number + at) + b"x" * 92 for at in range(BATCH)]
                number += BATCH
                self._client.send(f"MPUB {self._topic}\n".encode() + sized(mpub_body(bodies)))
                self._client.expect_ok()
                self.acknowledged.update(bodies)
        except (OSError, EOFError, AssertionError):
            pass  # the server went, as it should

    def join(self) -> None:
        self._thread.join(60)
        assert not self._thread.is_alive(), "the server's end did not end the publisher"
        self._client.close()


def received_from(server: ServerProcess, topic: str, channel: str) -> set[bytes]:
    """Every body that waits in the channel, consumed and finished."""
    depth = server.channel_stats(topic, channel)["depth"]
    with NsqSocket(server.tcp_port) as client:
        client.subscribe(topic, channel, rdy=2_000)
        bodies = set()
        for _ in range(depth):
            message = client.read_message()
            bodies.add(message.body)
            client.finish(message)
        wait_for("every FIN", lambda: server.channel_stats(topic, channel)["in_flight_count"] == 0)
    return bodies


def shape(topology: dict[str, Any]) -> list[Any]:
    """Topics, channels and pauses of a topology.json."""
    return [
        (topic["name"], topic["paused"], [(channel["name"], channel["paused"]) for channel in topic["channels"]])
        for topic in topology["topics"]
    ]


def test_sigterm_under_load_keeps_what_was_acknowledged(tmp_path: Path, storage_kind: str) -> None:
    # A small memory queue, so that both memory and disk hold messages when the end comes.
    with ServerProcess(tmp_path / "data", options=["--mem-queue-size=1000"]) as server:
        for path in (
            "/topic/create?topic=load",
            "/channel/create?topic=load&channel=one",
            "/channel/create?topic=load&channel=paused",
            "/channel/pause?topic=load&channel=paused",
            "/topic/create?topic=still",
            "/topic/pause?topic=still",
            "/topic/create?topic=passing%23ephemeral",
        ):
            server.http("POST", path)
        publishers = [Publishing(server.tcp_port, "load", lane) for lane in range(2)]
        holder = NsqSocket(server.tcp_port)
        holder.subscribe("load", "one", rdy=300)
        held = [holder.read_message() for _ in range(300)]
        finished = {message.body for message in held[:100]}
        for message in held[:100]:
            holder.finish(message)
        holder.send(b"REQ " + held[100].id + b" 3600000\n")
        wait_for("the deferral", lambda: server.channel_stats("load", "one")["deferred_count"] == 1)
        wait_for("enough to be lost", lambda: min(len(one.acknowledged) for one in publishers) >= 20 * BATCH)
        server.stop()
        for publisher in publishers:
            publisher.join()
        holder.close()

        before = orjson.loads((tmp_path / "data" / "topology.json").read_bytes())
        assert {topic["storage"] for topic in before["topics"]} == {storage_kind}
        server.start()
        acknowledged = set().union(*(publisher.acknowledged for publisher in publishers))
        assert len(acknowledged) >= 40 * BATCH
        for channel, is_paused in (("one", False), ("paused", True)):
            found = server.channel_stats("load", channel)
            # A disk queue can't keep a due time: what was deferred comes at once.
            deferred = 1 if (storage_kind, channel) == (LOG, "one") else 0
            assert (found["paused"], found["in_flight_count"], found["deferred_count"]) == (is_paused, 0, deferred)
        assert server.topic_stats("still")["paused"] is True
        assert [topic["topic_name"] for topic in server.stats()["topics"]] == ["load", "still"]
        server.http("POST", "/channel/unpause?topic=load&channel=paused")
        assert acknowledged - received_from(server, "load", "paused") == set()
        again = received_from(server, "load", "one")
        put_off = {held[100].body} if storage_kind == LOG else set()
        assert acknowledged - again - finished == put_off
        assert (held[100].body in again) is (storage_kind == DISK_QUEUE)
        assert again & finished == set(), "a finished message came again"
        server.http("POST", "/channel/pause?topic=load&channel=paused")
        after = orjson.loads((tmp_path / "data" / "topology.json").read_bytes())
        assert shape(after) == shape(before)


def test_a_second_process_on_the_directory_is_told_who_holds_it(own_server: ServerProcess) -> None:
    second = ServerProcess(own_server.data_path)
    with pytest.raises(RuntimeError, match=rf"(?s){own_server.pid}"):
        second.start()
    assert own_server.is_running
    assert own_server.http("GET", "/ping") == b"OK"


def test_a_taken_port_is_told_and_ends_it_with_a_status(own_server: ServerProcess, tmp_path: Path) -> None:
    second = ServerProcess(tmp_path / "other")
    second.tcp_port = own_server.tcp_port
    with pytest.raises(RuntimeError, match=str(own_server.tcp_port)):
        second.start()
