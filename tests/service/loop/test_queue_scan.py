"""The scan loop in a real process: thousands of channels due at once, and publishers that notice nothing."""

import json
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from math import inf
from pathlib import Path

import pytest

from tests.support.nsq_socket import Message, NsqSocket, sized
from tests.support.processes.engine_process import EngineProcess

TOPICS = 10
CHANNELS_PER_TOPIC = 500
DELAY_S = 1.0
# One interval at most until the scan looks, and one to handle them all.
HANDLED_S_MAX = 0.2
PUB_P99_S_MAX = 0.010
# The machine may be busy with something else in one round; in none of so many it is not the machine.
ROUNDS = 25


@dataclass(frozen=True)
class Round:
    handled_s: float  # after the moment they were due
    pub_p99_s: float  # of single PUBs around that moment
    pub_count: int
    idle_p99_s: float  # of single PUBs before: what the machine takes while nothing is due

    @property
    def is_in_time(self) -> bool:
        return self.handled_s < HANDLED_S_MAX + self.idle_p99_s and self.pub_p99_s < PUB_P99_S_MAX + self.idle_p99_s

    def __str__(self) -> str:
        publishing = (
            f"p99 of {self.pub_count} PUBs {self.pub_p99_s * 1_000:.2f} ms, before {self.idle_p99_s * 1_000:.2f}"
        )
        return f"handled after {self.handled_s * 1_000:.0f} ms; {publishing}"


@pytest.mark.slow(reason="creates five thousand channels")
def test_five_thousand_channels_due_at_once_are_handled_in_time_while_publishers_notice_nothing(
    tmp_path: Path,
) -> None:
    """Ten deferred messages, each in 500 channels, are due together; the channel that comes last has a consumer."""
    (tmp_path / "data").mkdir()
    channels = [{"name": f"c{channel}"} for channel in range(CHANNELS_PER_TOPIC)]
    topology = {"topics": [{"name": f"t{topic}", "channels": channels} for topic in range(TOPICS)]}
    (tmp_path / "data" / "topology.json").write_text(json.dumps(topology))
    with EngineProcess(tmp_path / "data") as engine, ThreadPoolExecutor(1) as waiting:
        last, publisher = NsqSocket(engine.tcp_port), NsqSocket(engine.tcp_port)
        last.subscribe(f"t{TOPICS - 1}", f"c{CHANNELS_PER_TOPIC - 1}", rdy=1)
        rounds: list[Round] = []
        while len(rounds) < ROUNDS and not (rounds and rounds[-1].is_in_time):
            rounds.append(_round(last, publisher, waiting))
        last.close()
        publisher.close()
        for topic in range(TOPICS):
            counts = {channel["deferred_count"] for channel in engine.topic_stats(f"t{topic}")["channels"]}
            assert counts == {0}
            engine.http("POST", f"/topic/delete?topic=t{topic}")  # 5,000 queues are not this test's to put on disk
    print(*rounds, sep="\n")
    assert rounds[-1].is_in_time, "; ".join(map(str, rounds))


def _round(last: NsqSocket, publisher: NsqSocket, waiting: ThreadPoolExecutor) -> Round:
    delay_ms = round(DELAY_S * 1_000)
    for topic in range(TOPICS):
        publisher.send(b"DPUB t%d %d\n" % (topic, delay_ms) + sized(b"x" * 200))
    for _ in range(TOPICS):
        publisher.expect_ok()
    due_at_s = time.monotonic() + DELAY_S
    came = waiting.submit(_message_and_time, last)
    idle_s: list[float] = []
    took_s: list[float] = []
    while (began_s := time.monotonic()) < due_at_s + 0.3:
        publisher.send(b"PUB other\n" + sized(b"x" * 200))
        publisher.expect_ok()
        (took_s if began_s > due_at_s - 0.05 else idle_s).append(time.monotonic() - began_s)
    message, came_at_s = came.result(30)
    last.finish(message)
    return Round(came_at_s - due_at_s, _p99(took_s or [inf]), len(took_s), _p99(idle_s or [0.0]))


def _p99(took_s: list[float]) -> float:
    return sorted(took_s)[len(took_s) * 99 // 100]


def _message_and_time(client: NsqSocket) -> tuple[Message, float]:
    return client.read_message(timeout_s=30), time.monotonic()
