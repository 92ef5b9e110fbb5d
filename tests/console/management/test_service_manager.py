"""What the server reports to systemd: on real sockets, from a real server."""

import http.client
import os
import re
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from queue_engine.service.process.service_manager import START_LIMIT_S, ServiceManager, stop_limit_s
from queue_engine.service.process.start_report import StartReport
from queue_engine.service.runner import EngineRunner
from queue_engine.vocabulary.start_progress import StartProgress
from tests.support.processes.notify_socket import NotifySocket
from tests.support.processes.server import ServerProcess
from tests.support.storage_kinds import engine_options
from tests.support.waiting import wait_for

ManagerOf = Callable[..., ServiceManager]


@pytest.fixture
def manager_of() -> Iterator[ManagerOf]:
    """Makes managers of an environment, and closes them."""
    with ExitStack() as stack:

        def made(environment: dict[str, str]) -> ServiceManager:
            return stack.enter_context(closing(ServiceManager(environment)))

        yield made


def test_a_path_and_an_abstract_socket_get_the_same(manager_of: ManagerOf, tmp_path: Path) -> None:
    for address in (str(tmp_path / "notify"), f"@penstock-test-{os.getpid()}"):
        with NotifySocket(address) as notified:
            manager = manager_of({"NOTIFY_SOCKET": notified.address})
            manager.starting("Starting")
            manager.ready("Listening: here\nand there")
            manager.feed()
            assert [one.values for one in notified.notifications] == [
                {"STATUS": "Starting", "EXTEND_TIMEOUT_USEC": str(START_LIMIT_S * 1_000_000)},
                {"READY": "1", "STATUS": "Listening: here and there"},
                {"WATCHDOG": "1"},
            ]


def test_a_stop_gets_more_time_only_while_it_advances(manager_of: ManagerOf, tmp_path: Path) -> None:
    with NotifySocket(tmp_path / "notify") as notified:
        manager = manager_of({"NOTIFY_SOCKET": notified.address})
        for how_far in ("2 messages are left", "2 messages are left", "1 message is left"):
            manager.stopping(how_far, stop_limit_s(60_000))
        assert notified.values("STOPPING") == ["1", "1"]
        assert notified.values("STATUS") == ["Stopping: 2 messages are left", "Stopping: 1 message is left"]
        assert notified.values("EXTEND_TIMEOUT_USEC") == ["120000000", "120000000"]


def test_the_watchdog_of_a_stop_is_fed_whether_it_advances_or_not(manager_of: ManagerOf, tmp_path: Path) -> None:
    """The stop's own limit ends one that hangs. It may be longer than the watchdog's."""
    with NotifySocket(tmp_path / "notify") as notified:
        manager = manager_of({"NOTIFY_SOCKET": notified.address, "WATCHDOG_USEC": "120000000"})
        for _ in range(3):
            manager.stopping("2 messages are left", stop_limit_s(600_000))
        assert notified.values("WATCHDOG") == ["1", "1", "1"]
        assert notified.values("EXTEND_TIMEOUT_USEC") == ["660000000"]


def test_a_start_is_logged_and_gets_more_time_only_while_the_engine_works(
    manager_of: ManagerOf, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    used_s = [0.0, 1.0, 1.0, 1.0, 2.0]
    looked = threading.Event()

    def cpu_s() -> float:
        if len(used_s) == 1:
            looked.set()
            return used_s[0]
        return used_s.pop(0)

    progress = StartProgress()
    progress.at("channel orders/billing", 2, 5)
    caplog.set_level("INFO")
    with NotifySocket(tmp_path / "notify") as notified:
        manager = manager_of({"NOTIFY_SOCKET": notified.address})
        with StartReport(manager, cpu_s, progress.sentence, interval_s=0.001):
            assert looked.wait(60)
        # The first is of the beginning.
        assert len(notified.values("EXTEND_TIMEOUT_USEC")) == 3
        assert notified.values("STATUS")[:2] == [
            "Starting: channel orders/billing, 40 %",
            "Starting: channel orders/billing, 40 % (0 s)",
        ]
    lines = [record.getMessage() for record in caplog.records]
    assert len(lines) >= 5
    assert set(lines) == {"starting: channel orders/billing, 40 % (0 s)"}


def test_the_watchdog_is_fed_four_times_in_its_time_and_no_child_inherits_the_variables(manager_of: ManagerOf) -> None:
    environment = {"NOTIFY_SOCKET": "/run/none", "WATCHDOG_USEC": "120000000", "WATCHDOG_PID": "1", "PATH": "/bin"}
    assert manager_of(environment).feed_every_s == 30.0
    assert environment == {"PATH": "/bin"}
    assert manager_of({"NOTIFY_SOCKET": "/run/none"}).feed_every_s == 0.0
    assert manager_of({"WATCHDOG_USEC": "120000000"}).feed_every_s == 0.0


def test_a_manager_that_is_not_there_costs_one_line(
    manager_of: ManagerOf, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    manager = manager_of({"NOTIFY_SOCKET": str(tmp_path / "gone")})
    manager.ready("Listening")
    manager.feed()
    assert [record.message for record in caplog.records] == [
        "the service manager can't be reached: No such file or directory message=READY=1"
    ]
    with NotifySocket(tmp_path / "gone") as notified:
        manager.feed()
        assert notified.values("WATCHDOG") == ["1"]


def test_an_address_that_no_socket_can_have_is_told(
    manager_of: ManagerOf, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    manager_of({"NOTIFY_SOCKET": str(tmp_path / ("n" * 200))}).ready("Listening")
    assert [record.message for record in caplog.records] == [
        "the service manager can't be reached: AF_UNIX path too long message=READY=1"
    ]


@pytest.mark.parametrize("text", ["9" * 400, "9" * 5000, "-1", "abc", "\u0661"])
def test_a_time_that_no_manager_gives_feeds_no_watchdog(manager_of: ManagerOf, text: str) -> None:
    assert manager_of({"NOTIFY_SOCKET": "/run/none", "WATCHDOG_USEC": text}).feed_every_s == 0.0


def test_an_address_of_another_kind_is_named(manager_of: ManagerOf, caplog: pytest.LogCaptureFixture) -> None:
    manager_of({"NOTIFY_SOCKET": "vsock:2:1234"}).ready("Listening")
    assert ["'vsock:2:1234'" in record.message for record in caplog.records] == [True]


def test_a_manager_that_reads_nothing_does_not_hold_the_engine(manager_of: ManagerOf, tmp_path: Path) -> None:
    with NotifySocket(tmp_path / "notify") as notified:
        manager = manager_of({"NOTIFY_SOCKET": notified.address})
        # More than a socket holds.
        for _ in range(10_000):
            manager.feed()
        assert 0 < len(notified.notifications) < 10_000


def test_a_loop_that_hangs_beats_no_more(tmp_path: Path) -> None:
    beats: list[float] = []
    hangs, goes_on = threading.Event(), threading.Event()

    def beat() -> None:
        beats.append(1)
        if len(beats) == 3:
            hangs.set()
            goes_on.wait(60)

    runner = EngineRunner(
        engine_options(tcp_address="127.0.0.1:0", http_address="127.0.0.1:0", data_path=str(tmp_path))
    )
    runner.on_beat, runner.beat_every_s = beat, 0.001
    runner.start()
    try:
        assert hangs.wait(60)
        act = runner.calls.stats(include_clients=False)
        with pytest.raises(TimeoutError):
            act.result(0.05)
        assert len(beats) == 3
        goes_on.set()
        wait_for("the next beat", lambda: len(beats) > 3, timeout_s=60)
        act.result(60)
    finally:
        goes_on.set()
        runner.stop()


# A server whose engine's loop hangs from SIGUSR1 on, in a call that does not return.
HANGING_ENGINE = """
import signal, sys, threading
from queue_engine.engine.engine import Engine

asked = []
def hang_on_purpose(self):
    if asked:
        print("the engine's loop hangs", file=sys.stderr, flush=True)
        threading.Event().wait()
    return scan_pass(self)

scan_pass = Engine.scan_pass
Engine.scan_pass = hang_on_purpose
signal.signal(signal.SIGUSR1, lambda *_: asked.append(1))
sys.argv[0] = "manage.py"
import manage
manage.main()
"""


class ServerThatMayHang(ServerProcess):
    def _command(self) -> list[str]:
        return ["-c", HANGING_ENGINE, *super()._command()[1:]]


def page_status(server: ServerProcess) -> int:
    """The status of the console's log-in page."""
    console = http.client.HTTPConnection("127.0.0.1", server.console_port, timeout=60)
    try:
        console.request("GET", "/login/")
        return console.getresponse().status
    finally:
        console.close()


@pytest.mark.slow(reason="starts a real server and its demo")
def test_a_server_is_ready_once_all_listen_and_says_how_it_stops(tmp_path: Path) -> None:
    with NotifySocket(tmp_path / "notify") as notified:
        environment = {"NOTIFY_SOCKET": notified.address}
        server = ServerProcess(tmp_path / "data", options=["--demo", "--no-pipeline"], environment=environment)
        with server:
            notified.wait_for("READY", "1")
            pid = server.pid
            # Not after the fact: who is told connects at once.
            assert page_status(server) == 200
            assert server.http("GET", "/livez") == b"OK"
            demo = wait_for("the demo", lambda: re.search(r"Demo: process (\d+)", server.log), timeout_s=60)
            child = Path(f"/proc/{demo[1]}/environ").read_bytes().split(b"\0")
            assert b"PYTHONUNBUFFERED=1" in child
            # Without a worker an archive would only keep the log.
            assert Path(f"/proc/{demo[1]}/cmdline").read_bytes().split(b"\0")[-2] == str(server.http_port).encode()
            assert not any(variable.startswith((b"NOTIFY_", b"WATCHDOG_")) for variable in child)
        values = [one.values for one in notified.notifications]
        assert {one.pid for one in notified.notifications} == {pid}
        ready = next(place for place, one in enumerate(values) if "READY" in one)
        assert values[ready]["STATUS"] == (
            f"Listening: TCP 127.0.0.1:{server.tcp_port}, HTTP 127.0.0.1:{server.http_port}, "
            f"Console http://127.0.0.1:{server.console_port}"
        )
        assert [one["STATUS"] for one in values[:ready] if "(" not in one["STATUS"]] == [
            "Starting: the engine reads its files",
            "Starting: the console opens its database",
        ]
        assert all("EXTEND_TIMEOUT_USEC" in one for one in values[:ready])
        stop = values[ready + 1 :]
        assert stop[0]["STATUS"] == "Stopping: the console finishes the requests it has begun"
        assert {one["EXTEND_TIMEOUT_USEC"] for one in stop} == {str(stop_limit_s(60_000) * 1_000_000)}
        # None watches, so nothing feeds.
        assert notified.values("WATCHDOG") == []


@pytest.mark.slow(reason="starts a real server")
def test_the_console_alone_does_not_feed_the_watchdog(tmp_path: Path) -> None:
    with NotifySocket(tmp_path / "notify") as notified:
        environment = {"NOTIFY_SOCKET": notified.address, "WATCHDOG_USEC": "400000"}
        server = ServerThatMayHang(tmp_path / "data", options=["--no-pipeline"], environment=environment)
        server.start()
        try:
            fed = len(notified.values("WATCHDOG"))
            wait_for("feeding", lambda: len(notified.values("WATCHDOG")) > fed + 3, timeout_s=60)
            os.kill(server.pid, signal.SIGUSR1)
            wait_for("the hang", lambda: "the engine's loop hangs" in server.log, timeout_s=60)
            fed = len(notified.values("WATCHDOG"))
            # The console answers meanwhile, for three times as long as the manager allows.
            until_s = time.monotonic() + 1.2
            while time.monotonic() < until_s:
                assert page_status(server) == 200
            assert len(notified.values("WATCHDOG")) == fed
            # What systemd sends then: the log says where the engine was.
            ended = server.signalled(signal.SIGABRT)
        finally:
            server.kill9()
        assert "Fatal Python error: Aborted" in server.log
        # What is written reads the frames of threads that go on meanwhile: it was seen to end by SIGSEGV once.
        assert ended in (-signal.SIGABRT, -signal.SIGSEGV)
        assert ended == -signal.SIGSEGV or "hang_on_purpose" in server.log
