"""The engine's thread: what it does when something in it breaks, and that nobody waits for ever."""

import base64
import json
from concurrent.futures import Future
from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest

from queue_engine.delivery.channel import Channel
from queue_engine.delivery.stats import EngineSnapshot
from queue_engine.errors import ClosedError, PenstockError
from queue_engine.names import SAMPLES_TOPIC
from queue_engine.sample_format import Sample, decode_sample
from queue_engine.service.runner import EngineRunner
from tests.support.nsq_socket import NsqSocket
from tests.support.running_engine import RunningEngine
from tests.support.storage_kinds import engine_options
from tests.support.waiting import wait_for


def runner_on(path: Path) -> EngineRunner:
    return EngineRunner(engine_options(tcp_address="127.0.0.1:0", http_address="127.0.0.1:0", data_path=str(path)))


def test_a_watcher_that_breaks_does_not_stop_the_queues(tmp_path: Path) -> None:
    runner = runner_on(tmp_path)
    seen: list[int] = []

    def breaks(snapshot: EngineSnapshot) -> None:
        seen.append(snapshot.sequence)
        raise RuntimeError("the console is gone")

    runner.on_snapshot.append(breaks)
    runner.start()
    try:
        wait_for("two snapshots", lambda: len(seen) >= 2)
        with NsqSocket(runner.tcp_address[1]) as client:
            client.expect_open()
    finally:
        runner.stop()


def test_a_turn_that_fails_ends_the_engine_and_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A mistake of ours in the middle of a turn: rather no engine, told at once, than one that delivers no more."""
    runner = runner_on(tmp_path)
    deaths: list[bool] = []
    runner.on_death = lambda: deaths.append(True)
    runner.start()

    def broken(channel: Channel, now_ns: int) -> bool:
        raise AssertionError("deliveries and map must agree")

    monkeypatch.setattr(Channel, "deliver", broken)
    with NsqSocket(runner.tcp_address[1]) as client:
        client.send(b"SUB orders billing\nRDY 1\n")
        wait_for("the engine's end", lambda: deaths)
    assert isinstance(runner.error, AssertionError)
    with pytest.raises(AssertionError, match="deliveries and map must agree"):
        runner.stop()
    with pytest.raises(ClosedError):
        runner.submit("create_topic", "t").result(5)


def test_an_act_whose_turn_never_came_is_answered(tmp_path: Path) -> None:
    runner = runner_on(tmp_path)
    runner.start()
    futures: list[Future[Any]] = [runner.submit("create_topic", f"t{number}") for number in range(50)]
    runner.stop()
    futures += [runner.submit("create_topic", "late")]
    for future in futures:
        error = future.exception(5)
        assert error is None or isinstance(error, PenstockError)


def test_a_taken_port_is_told_and_leaves_nothing_running(tmp_path: Path) -> None:
    first = runner_on(tmp_path / "first")
    (tmp_path / "first").mkdir()
    (tmp_path / "second").mkdir()
    first.start()
    try:
        host, port = first.tcp_address
        second = EngineRunner(
            engine_options(tcp_address=f"{host}:{port}", http_address="127.0.0.1:0", data_path=str(tmp_path / "second"))
        )
        with pytest.raises(PenstockError, match=f"can't listen on 127.0.0.1:{port}: "):
            second.start()
    finally:
        first.stop()


def test_samples_come_by_themselves_and_go_on_after_a_restart(tmp_path: Path) -> None:
    def samples(engine: RunningEngine) -> list[Sample]:
        with closing(HTTPConnection("127.0.0.1", engine.http_port)) as http:
            http.request("GET", f"/topic/messages?topic={SAMPLES_TOPIC}&limit=1000")
            page = json.loads(http.getresponse().read())
        return [decode_sample(base64.b64decode(one["body_base64"])) for one in page["messages"]]

    def finished(taken: list[Sample]) -> int:
        return sum(sum(one["channels"]["finished"]) for one in taken)

    for round_number in (1, 2):
        with RunningEngine(tmp_path / "data", samples_interval_ms=1_000) as engine:
            before = len(samples(engine))
            assert finished(samples(engine)) == 2 * (round_number - 1)
            client = engine.client()
            client.publish("orders", b"one", b"two")
            client.subscribe("orders", "billing", rdy=2)
            for _ in range(2):
                client.finish(client.read_message())
            wait_for("two samples", lambda: len(samples(engine)) >= before + 2)  # noqa: B023
    with RunningEngine(tmp_path / "data", samples_interval_ms=1_000) as engine:
        taken = samples(engine)
    assert finished(taken) == sum(sum(one["topics"]["messages"]) for one in taken) == 4
    assert sum(sum(flat[1::2]) for one in taken for flat in one["channels"]["latency"]) == 4
    assert len({one["started_ms"] for one in taken}) == 2
    assert all(one["engine"]["rss_bytes"] > 10 << 20 for one in taken)
