"""kill -9: the log keeps everything; `diskqueue` keeps what it promises, and loses no more than it says it may."""

from pathlib import Path

import pytest

from queue_engine.storage.disk_queue.store import KIND as DISK_QUEUE
from tests.support.nsq_socket import NsqSocket, mpub_body, sized
from tests.support.processes.server import ServerProcess

pytestmark = [pytest.mark.slow(reason="starts real servers"), pytest.mark.timeout(400)]

BATCH = 200
BATCHES = 50


@pytest.mark.parametrize("mem_queue_size", [0, 1_000])
def test_kill_loses_at_most_what_was_in_memory(tmp_path: Path, mem_queue_size: int, storage_kind: str) -> None:
    # The log wrote everything before its OK. A disk queue holds as much in memory alone, as nsqd does.
    lost_at_most = mem_queue_size if storage_kind == DISK_QUEUE else 0
    with ServerProcess(tmp_path / "data", options=[f"--mem-queue-size={mem_queue_size}"]) as server:
        for path in (
            "/topic/create?topic=t",
            "/channel/create?topic=t&channel=one",
            "/channel/create?topic=t&channel=two",
        ):
            server.http("POST", path)
        with NsqSocket(server.tcp_port) as client:
            for batch in range(BATCHES):
                bodies = [b"%d" % (batch * BATCH + number) for number in range(BATCH)]
                client.send(b"MPUB t\n" + sized(mpub_body(bodies)))
                client.expect_ok()
            server.kill9()
        server.start()
        for channel in ("one", "two"):
            depth = server.channel_stats("t", channel)["depth"]
            assert BATCHES * BATCH - lost_at_most <= depth <= BATCHES * BATCH
            with NsqSocket(server.tcp_port) as client:
                client.subscribe("t", channel, rdy=2_500)
                got = []
                for _ in range(depth):
                    message = client.read_message()
                    client.finish(message)
                    got.append(int(message.body))
            # Memory held the oldest: what survives is the unbroken rest, in order.
            assert got == list(range(BATCHES * BATCH - depth, BATCHES * BATCH))
