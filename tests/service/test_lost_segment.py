"""A segment that somebody removed while the server was down: the report of the next start says what it cost."""

from pathlib import Path

import orjson
import pytest

from tests.support.processes.engine_process import EngineProcess
from tests.support.waiting import wait_for

pytestmark = pytest.mark.slow(reason="starts real servers")

OPTIONS = ("--log-segment-bytes=65536", "--max-msg-size=2000", "--max-body-size=4000")


@pytest.mark.parametrize("is_clean", [True, False], ids=["after a clean stop", "after kill -9"])
def test_its_messages_are_counted_by_topic_and_offsets(tmp_path: Path, is_clean: bool) -> None:
    server = EngineProcess(tmp_path, options=OPTIONS)
    server.start()
    try:
        server.http("POST", "/topic/create?topic=orders")
        server.http("POST", "/channel/create?topic=orders&channel=billing")
        for number in range(100):
            server.http("POST", "/pub?topic=orders", b"%d " % number + b"x" * 1_500)
        wait_for("a checkpoint of all messages", lambda: has_checkpoint(server), timeout_s=60, every_s=0.2)
        server.stop() if is_clean else server.kill9()
        segments = sorted((tmp_path / "log" / "segments").glob("*.log"))
        assert len(segments) > 2
        segments[1].unlink()
        server.start()
        recovery = server.stats()["log"]["recovery"]
        depth = server.channel_stats("orders", "billing")["depth"]
        place = orjson.loads(server.http("GET", "/log/topic?topic=orders"))
    finally:
        server.kill9()
    (damage,) = recovery["damages"]
    (lost,) = damage["losses"]
    assert (damage["is_exact"], damage["reason"], lost["topic"]) == (True, "segments are missing", "orders")
    assert 20 < lost["count"] < 60
    assert lost["next_offset"] - lost["first_offset"] == lost["count"] == recovery["lost_count"] == 100 - depth
    told = f"Damage, {lost['count']} messages lost: {lost['count']} of topic orders (offsets {lost['first_offset']} to "
    assert [line for line in recovery["report"] if line.startswith(told)]
    assert told in server.log
    assert place["ranges"] == [[0, 100]], "who reads the log is to miss them"


def has_checkpoint(server: EngineProcess) -> bool:
    """Whether the consume queue of all 100 messages is in its file, and told of."""
    queue = server.data_path / "log" / "queues" / "1" / f"{0:020d}.queue"
    checkpoint = server.data_path / "log" / "checkpoint"
    if not queue.exists() or queue.stat().st_size < 2_000 or not checkpoint.exists():
        return False
    return int.from_bytes(checkpoint.read_bytes()[8:16], "big") > 100 * 1_500
