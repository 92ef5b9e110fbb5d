"""A stop ends when everything is on disk, whatever else is asked for meanwhile, and says how far it is."""

import os
import pty
import re
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.clients.stop_run import OPTIONS, depth_of_all, fill, run
from tests.support.processes.interrupted_signal import InterruptedServer
from tests.support.processes.notify_socket import NotifySocket
from tests.support.processes.server import ROOT, ServerProcess
from tests.support.waiting import wait_for

pytestmark = [pytest.mark.slow(reason="starts real servers"), pytest.mark.timeout(400)]

TOPICS = 150
MESSAGES = 20


def test_more_signals_do_not_end_a_stop_before_everything_is_on_disk(tmp_path: Path) -> None:
    run(tmp_path / "data", TOPICS, MESSAGES)


def test_two_signals_at_the_same_time_stop_it(tmp_path: Path) -> None:
    """As systemd sends them with SendSIGHUP=yes, and whoever closes a terminal in which something sends SIGTERM."""
    server = InterruptedServer(tmp_path / "data", options=OPTIONS)
    server.start()
    try:
        fill(server, 1, MESSAGES)
        assert server.signalled(signal.SIGTERM, timeout_s=60) == 0
        assert lines_with(server, "SIGHUP: the stop is under way")
    finally:
        server.kill9()
    server.start()
    assert depth_of_all(server) == MESSAGES
    server.stop()


@pytest.fixture
def server(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[ServerProcess]:
    """Its --stop-timeout is the test's parameter."""
    one = ServerProcess(tmp_path / "data", options=[*OPTIONS, f"--stop-timeout={request.param}"])
    one.start()
    yield one
    one.kill9()


def refuse_writes(server: ServerProcess) -> None:
    """From now on no file of the server may have a byte: every write to one is refused."""
    resource.prlimit(server.pid, resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))


def take_writes(server: ServerProcess) -> None:
    resource.prlimit(server.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))


def lines_with(server: ServerProcess, words: str) -> list[str]:
    return [line for line in server.log.splitlines() if words in line]


@pytest.mark.parametrize("server", ["1m"], indirect=True)
def test_a_stop_waits_for_a_disk_that_refuses_and_says_so_each_second(server: ServerProcess) -> None:
    fill(server, 5, MESSAGES)
    refuse_writes(server)
    os.kill(server.pid, signal.SIGTERM)
    wait_for(
        "two seconds of it", lambda: len(lines_with(server, "stopping: 100 messages of 5 queues")) > 1, timeout_s=60
    )
    wait_for("the reason", lambda: lines_with(server, "File too large"), timeout_s=60)
    os.kill(server.pid, signal.SIGTERM)
    os.kill(server.pid, signal.SIGINT)
    wait_for("what a second signal is told", lambda: lines_with(server, "SIGINT: the stop is under way"), timeout_s=60)
    assert "100 messages of 5 queues are still to be written" in lines_with(server, "SIGINT: the stop is")[0]
    take_writes(server)
    assert server.signalled() == 0
    server.start()
    assert depth_of_all(server) == 100


def test_systemd_gives_a_stop_no_time_for_a_disk_that_refuses(tmp_path: Path) -> None:
    with NotifySocket(tmp_path / "notify") as notified:
        environment = {"NOTIFY_SOCKET": notified.address}
        server = ServerProcess(tmp_path / "data", options=OPTIONS, environment=environment)
        server.start()
        try:
            fill(server, 5, MESSAGES)
            refuse_writes(server)
            os.kill(server.pid, signal.SIGTERM)
            refused = "100 messages of 5 queues are still to be written; the disk refuses"
            wait_for("three seconds of it", lambda: len(lines_with(server, refused)) > 2, timeout_s=60)
            told = [status for status in notified.values("STATUS") if refused in status]
            assert len(told) == 1, told
            take_writes(server)
            assert server.signalled() == 0
        finally:
            server.kill9()


@pytest.mark.parametrize("server", ["2s"], indirect=True)
def test_a_stop_that_gives_up_names_what_is_lost(server: ServerProcess) -> None:
    fill(server, 3, MESSAGES)
    refuse_writes(server)
    began = time.monotonic()
    assert server.signalled(signal.SIGTERM) == 1
    assert time.monotonic() - began >= 2, "it tries on for --stop-timeout"
    for number in range(3):
        assert re.search(rf"20 messages of t{number} could not be stored: cannot write .*File too large", server.log)
    assert "Traceback" not in server.log


@pytest.mark.parametrize("is_reader_gone", [False, True])
def test_sighup_is_a_clean_stop(tmp_path: Path, is_reader_gone: bool) -> None:
    """A terminal that is closed sends it, and takes no output from then on."""
    terminal, its_end = pty.openpty()
    ports = [f"--{name}-address=127.0.0.1:0" for name in ("tcp", "http", "console")]
    data = tmp_path / "data"
    process = subprocess.Popen(
        [sys.executable, "manage.py", "serve", *ports, *OPTIONS, f"--data-path={data}"],
        cwd=ROOT,
        env={"PATH": os.environ["PATH"]},
        stdin=its_end,
        stdout=its_end,
        stderr=its_end,
        start_new_session=True,
    )
    os.close(its_end)
    written = b""
    while (match := re.search(rb"HTTP: listening on (\S+):(\d+)[\s\S]*Console: listening", written)) is None:
        written += os.read(terminal, 4_096)
    again = ServerProcess(data, options=OPTIONS)
    own_port, again.http_port = again.http_port, int(match[2])
    for _ in range(3):
        again.http("POST", "/pub?topic=orders", b"keep me")
    again.http_port = own_port  # the other may be given to a connection meanwhile
    if is_reader_gone:
        os.close(terminal)
    process.send_signal(signal.SIGHUP)
    try:
        if not is_reader_gone:
            drained = b""
            try:
                while data_read := os.read(terminal, 4_096):
                    drained += data_read
            except OSError:
                pass  # the other end is closed: the process is gone
            os.close(terminal)
        assert process.wait(60) == 0
    finally:
        process.kill()
    with again:
        assert again.topic_stats("orders")["depth"] == 3


def test_nohup_goes_on(tmp_path: Path) -> None:
    server = ServerProcess(tmp_path / "data", options=OPTIONS)
    old = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # inherited by what is started now
    try:
        server.start()
    finally:
        signal.signal(signal.SIGHUP, old)
    os.kill(server.pid, signal.SIGHUP)
    server.http("POST", "/pub?topic=orders", b"still here")
    server.stop()
