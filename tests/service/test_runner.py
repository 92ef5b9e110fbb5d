"""The engine's thread: what it does when something in it breaks, and that nobody waits for ever."""

import base64
import json
import time
from concurrent.futures import Future
from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest

from queue_engine.delivery.channel import Channel
from queue_engine.delivery.stats import EngineSnapshot
from queue_engine.engine.engine import Engine
from queue_engine.engine.figures.engine_stats import EngineStats
from queue_engine.engine.samples.sample_format import Sample, decode_sample
from queue_engine.service import runner as runner_module
from queue_engine.service.http.api import HttpApi
from queue_engine.service.identity.token_file import TokenFile
from queue_engine.service.runner import EngineRunner
from queue_engine.service.tcp import connected_client
from queue_engine.service.tcp.session import Session
from queue_engine.vocabulary.errors import PenstockError
from queue_engine.vocabulary.names import SAMPLES_TOPIC
from tests.support.nsq_socket import NsqSocket, mpub_body, sized
from tests.support.processes.running_engine import RunningEngine
from tests.support.storage_kinds import engine_options
from tests.support.waiting import wait_for


@pytest.fixture(autouse=True)
def _quick_snapshots(monkeypatch: pytest.MonkeyPatch) -> None:
    """Twenty snapshots a second: what is waited for here comes with one."""
    monkeypatch.setattr(runner_module, "SNAPSHOT_INTERVAL_S", 0.05)


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


def http_get(runner: EngineRunner, path: str, method: str = "GET") -> tuple[int, str]:
    with closing(HTTPConnection(*runner.http_address)) as http:
        http.request(method, path)
        answer = http.getresponse()
        return answer.status, answer.read().decode()


def tracebacks_with(caplog: pytest.LogCaptureFixture, text: str) -> int:
    return len([one for one in caplog.records if one.exc_info and text in one.getMessage()])


def test_a_channel_that_fails_stops_alone_and_an_operator_lets_it_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A mistake of ours in the middle of a turn, met again at each try: in one channel, over real sockets."""
    runner = runner_on(tmp_path)
    deaths: list[bool] = []
    runner.on_death = lambda: deaths.append(True)
    runner.start()
    deliver, is_broken = Channel._deliver, True

    def fails(channel: Channel, now_ns: int) -> bool:
        if is_broken and channel.name == "billing":
            raise AssertionError("deliveries and map must agree")
        return deliver(channel, now_ns)

    monkeypatch.setattr(Channel, "_deliver", fails)
    try:
        port = runner.tcp_address[1]
        with NsqSocket(port) as billing, NsqSocket(port) as audit, NsqSocket(port) as producer:
            billing.subscribe("orders", "billing", rdy=10)
            audit.subscribe("orders", "audit", rdy=10)
            producer.publish("orders", b"one", b"two")
            for message in [audit.read_message() for _ in range(2)]:
                audit.finish(message)
            wait_for("the fence", lambda: "fenced" in http_get(runner, "/ping")[1])
            status, health = http_get(runner, "/ping")
            assert status == 500
            assert health.startswith(
                "NOK - channel orders/billing is fenced: delivering failed unexpectedly: Assertion"
            )
            assert health.endswith(": deliveries and map must agree")
            billing.expect_open()
            producer.publish("orders", b"three")
            audit.finish(audit.read_message())
            assert tracebacks_with(caplog, "billing is fenced") == 1
            # Its backlog is sound, so that it is let go on: and then it fails again.
            runner.calls.retry_channel("orders", "billing").result(30)
            wait_for("the fence again", lambda: "fenced" in http_get(runner, "/ping")[1])
            assert tracebacks_with(caplog, "billing is fenced") == 2
            is_broken = False
            runner.calls.retry_channel("orders", "billing").result(30)
            assert {billing.read_message().body for _ in range(3)} == {b"one", b"two", b"three"}
            assert http_get(runner, "/ping") == (200, "OK")
    finally:
        runner.stop()
    assert not deaths


@pytest.mark.slow(reason="each loop waits for a second before it tries again")
@pytest.mark.parametrize(
    ("owner", "name"),
    [(Engine, "turn"), (Engine, "scan_pass"), (Engine, "tick"), (EngineStats, "in_slices"), (Engine, "offer_sample")],
)
def test_a_loop_in_which_something_fails_says_so_and_goes_on(
    owner: type, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    runner = runner_on(tmp_path)
    runner.start()
    met: list[float] = []
    is_broken = True
    work = getattr(owner, name)

    def fails(*args: Any, **kwargs: Any) -> Any:
        if is_broken:
            met.append(time.monotonic())
            raise AssertionError("a loop of ours")
        return work(*args, **kwargs)

    try:
        with NsqSocket(runner.tcp_address[1]) as client:
            monkeypatch.setattr(owner, name, fails)
            client.send(b"PUB orders\n" + sized(b"x"))
            wait_for("it to be tried again", lambda: len(met) >= 3)
            assert len(met) < 20  # and not at every moment
            wait_for("the health", lambda: "a loop of ours" in http_get(runner, "/ping")[1])
            assert tracebacks_with(caplog, "a loop of ours") == 1
            is_broken = False
            wait_for("it to be well", lambda: http_get(runner, "/ping") == (200, "OK"))
            client.expect_ok()
            client.publish("orders", b"y")
    finally:
        monkeypatch.undo()
        runner.stop()


def test_a_connection_or_request_that_fails_ends_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runner = runner_on(tmp_path)
    runner.start()

    def fails(*args: Any, **kwargs: Any) -> Any:
        raise AssertionError("a mistake of ours")

    try:
        with NsqSocket(runner.tcp_address[1]) as sound:
            sound.publish("orders", b"x")
            for command, place in (
                (b"RDY 1\n", (Channel, "set_ready")),
                (b"MPUB orders\n" + sized(mpub_body([b"x"])), (Engine, "publish")),
                (b"IDENTIFY\n" + sized(b"{}"), (connected_client, "parse_identify")),
            ):
                with monkeypatch.context() as broken, NsqSocket(runner.tcp_address[1]) as client:
                    if command.startswith(b"RDY"):
                        client.subscribe("orders", "billing")
                    broken.setattr(*place, fails)
                    client.send(command)
                    assert client.read_error() == (
                        "E_INVALID the server failed at this; its log has the error, and other connections go on"
                    )
                    client.expect_closed()
                sound.expect_open()
            with monkeypatch.context() as broken:
                broken.setattr(HttpApi, "begin", fails)
                status, body = http_get(runner, "/ping")
                assert (status, body) == (500, '{"message":"INTERNAL_ERROR"}')
            with monkeypatch.context() as broken:
                broken.setattr("queue_engine.service.http.api.stats_json", fails)
                status, body = http_get(runner, "/stats?format=json")
                assert (status, "INTERNAL_ERROR" in body) == (500, True)
            with monkeypatch.context() as broken:
                broken.setattr(Session, "check", fails)
                assert "its log has the error" in sound.read_error()
                sound.expect_closed()
        assert http_get(runner, "/ping") == (200, "OK")
        wait_for(
            "no connection to be left", lambda: '"connection_count":0' in http_get(runner, "/stats?format=json")[1]
        )
    finally:
        runner.stop()


def test_an_act_whose_turn_never_came_is_answered(tmp_path: Path) -> None:
    runner = runner_on(tmp_path)
    runner.start()
    futures: list[Future[Any]] = [runner.calls.create_topic(f"t{number}") for number in range(50)]
    runner.stop()
    futures += [runner.calls.create_topic("late")]
    for future in futures:
        error = future.exception(30)
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


@pytest.mark.slow(reason="waits for the better part of a second")
def test_samples_come_by_themselves_and_go_on_after_a_restart(tmp_path: Path) -> None:
    def samples(engine: RunningEngine) -> list[Sample]:
        page = json.loads(engine.http("GET", f"/topic/messages?topic={SAMPLES_TOPIC}&limit=1000"))
        return [decode_sample(base64.b64decode(one["body_base64"])) for one in page["messages"]]

    def finished(taken: list[Sample]) -> int:
        return sum(sum(one["channels"]["finished"]) for one in taken)

    for round_number in (1, 2):
        with RunningEngine(tmp_path / "data", samples_interval_ms=200) as engine:
            before = len(samples(engine))
            assert finished(samples(engine)) == 2 * (round_number - 1)
            client = engine.client()
            client.publish("orders", b"one", b"two")
            client.subscribe("orders", "billing", rdy=2)
            for _ in range(2):
                client.finish(client.read_message())
            wait_for("two samples", lambda: len(samples(engine)) >= before + 2)  # noqa: B023
            wait_for("what was finished", lambda: finished(samples(engine)) == 2 * round_number)  # noqa: B023
    with RunningEngine(tmp_path / "data", samples_interval_ms=200) as engine:
        taken = samples(engine)
    assert finished(taken) == sum(sum(one["topics"]["messages"]) for one in taken) == 4
    assert sum(sum(flat[1::2]) for one in taken for flat in one["channels"]["latency"]) == 4
    assert len({one["started_ms"] for one in taken}) == 2
    assert all(one["engine"]["rss_bytes"] > 10 << 20 for one in taken)


def test_tokens_and_secrets_are_read_again_by_itself_and_when_that_is_asked_for(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    secret = tmp_path / "secret"
    secret.write_text("first")
    secret.chmod(0o600)
    with RunningEngine(tmp_path / "data", http_token_file=str(secret)) as engine:

        def publishes(token: str) -> bool:
            with closing(HTTPConnection("127.0.0.1", engine.http_port, timeout=30)) as connection:
                connection.request("POST", "/pub?topic=t", b"m", {"Authorization": f"Bearer {token}"})
                return {200: True, 403: False}[connection.getresponse().status]

        assert publishes("first")
        opened = engine.client()
        secret.write_text("second")
        wait_for("the new one by itself", lambda: publishes("second"))
        assert not publishes("first")
        secret.write_text("third")
        token = TokenFile(tmp_path / "data").create("ci", ["publish"], [], expires_ms=0, by="", now_ms=1)[1]
        engine.read_secrets_again()
        wait_for("the reload", lambda: "the secret of --http-token-file was read again" in caplog.text)
        assert "tokens.json was read again, tokens: 1" in caplog.text
        assert publishes("third")
        assert publishes(token)
        assert not publishes("second")
        assert opened.identify()  # an open connection goes on
        secret.unlink()
        wait_for(
            "a line of /readyz",
            lambda: f"--http-token-file {secret} can't be read" in engine.http("GET", "/readyz").decode(),
        )
        assert publishes("third")
