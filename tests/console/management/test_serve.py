"""`penstock serve` as a process: what it prints, how it stops, and what it says when it can't start."""

import http.client
import json
import os
import re
import signal
import socket
import stat
import subprocess
import sys
import urllib.error
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from queue_engine.vocabulary.version import full_version
from tests.support.processes.running_engine import RunningEngine
from tests.support.processes.server import ROOT, START_TIMEOUT_S, STOP_TIMEOUT_S, STOP_WAIT_S, ServerProcess
from tests.support.waiting import wait_for

pytestmark = pytest.mark.slow(reason="starts real servers")

PORTS = ["--tcp-address=127.0.0.1:0", "--http-address=127.0.0.1:0", "--console-address=127.0.0.1:0"]


@contextmanager
def serving(
    data_path: Path, *options: str, environment: dict[str, str] | None = None
) -> "Iterator[subprocess.Popen[str]]":
    """`serve` as a bare process, for what it prints to which stream; ended in any case."""
    process = subprocess.Popen(
        [sys.executable, str(ROOT / "manage.py"), "serve", *PORTS, *options, f"--data-path={data_path}"],
        cwd=ROOT,
        env={"PATH": os.environ["PATH"], **(environment or {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """One for the tests that only ask it for something."""
    with ServerProcess(tmp_path_factory.mktemp("server") / "data") as running:
        yield running


HEAD = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z INFO admin_console\.management\.commands\.serve: ")


def read_until(process: "subprocess.Popen[str]", start: str) -> list[str]:
    """Messages of standard output up to the one that begins with `start`; fails when the output ends before, and for
    a line that has not the log's form."""
    lines: list[str] = []
    assert process.stdout is not None
    for line in process.stdout:
        head = HEAD.match(line)
        assert head, line
        lines.append(line[head.end() :].rstrip("\n"))
        if lines[-1].startswith(start):
            return lines
    assert process.stderr is not None
    raise AssertionError(f"no line {start!r} among {lines}; errors:\n{process.stderr.read()}")


def test_ctrl_c_ends_it_with_0_within_10_s(tmp_path: Path) -> None:
    with serving(tmp_path) as process:
        lines = read_until(process, "Console:")
        patterns = [
            r"TCP: listening on 127\.0\.0\.1:[1-9][0-9]*",
            r"HTTP: listening on 127\.0\.0\.1:[1-9][0-9]*",
            r"Console: listening on http://127\.0\.0\.1:[1-9][0-9]*",
        ]
        assert all(re.fullmatch(pattern, line) for pattern, line in zip(patterns, lines[-3:], strict=True)), lines
        process.send_signal(signal.SIGINT)
        assert process.wait(STOP_TIMEOUT_S) == 0
        assert process.stderr is not None
        errors = process.stderr.read()
    assert "Traceback" not in errors
    assert "Warning" not in errors


@pytest.mark.parametrize("closed", ["2>&-", "0<&- 1>&- 2>&-"])
def test_it_serves_with_standard_descriptors_closed(tmp_path: Path, closed: str) -> None:
    command = [sys.executable, str(ROOT / "manage.py"), "serve", *PORTS, f"--data-path={tmp_path}"]
    process = subprocess.Popen(
        ["/bin/sh", "-c", f'exec "$@" {closed}', "sh", *command], cwd=ROOT, env={"PATH": os.environ["PATH"]}
    )
    try:
        is_serving = (tmp_path / "static").is_dir
        wait_for("the start", lambda: process.poll() is not None or is_serving(), timeout_s=START_TIMEOUT_S)
        assert process.poll() is None
        for number in range(3):
            if f"{number}>" in closed or f"{number}<" in closed:
                assert os.readlink(f"/proc/{process.pid}/fd/{number}") == os.devnull
        process.terminate()
        assert process.wait(STOP_WAIT_S) == 0
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()


def test_the_first_password_goes_to_a_file_and_not_to_a_journal(tmp_path: Path) -> None:
    with serving(tmp_path) as process:
        first = read_until(process, "Console:")
        process.terminate()
        _, errors = process.communicate(timeout=STOP_WAIT_S)
    path = tmp_path / "admin-password"
    assert first[0] == f"First start: log in as admin; the password is in {path} until then."
    kept = re.fullmatch(r"user: admin\npassword: (\S{20,})\n", path.read_text())
    assert kept
    assert kept[1] not in "".join([*first, errors])
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(tmp_path.stat().st_mode) == 0o700
    with serving(tmp_path) as process:
        assert len(read_until(process, "Console:")) == 3
        process.terminate()
        process.wait(STOP_WAIT_S)


def test_a_terminal_gets_the_banner_with_the_first_password_once_and_a_log_elsewhere_its_line(tmp_path: Path) -> None:
    master, slave = os.openpty()
    command = [sys.executable, "manage.py", "serve", *PORTS, f"--data-path={tmp_path}"]
    log = tmp_path.with_suffix(".log")
    with log.open("w") as file:
        process = subprocess.Popen(command, cwd=ROOT, env={"PATH": os.environ["PATH"]}, stdout=slave, stderr=file)
    os.close(slave)
    shown = b""
    try:
        while b"Console: listening" not in shown:
            shown += os.read(master, 4096)
    finally:
        process.terminate()
        process.wait(STOP_WAIT_S)
        os.close(master)
    told = re.search(r"First start: log in as admin with the password (\S{20,})\r\n(.*)\r\n", shown.decode())
    assert told
    path = tmp_path / "admin-password"
    assert told[2] == f"It is shown this once; {path} has it until you log in."
    assert path.read_text() == f"user: admin\npassword: {told[1]}\n"
    assert re.search(r"^TCP: listening on (\S+)\r$", shown.decode(), re.MULTILINE)
    assert re.search(r" INFO \S+: listening: TCP \S+, HTTP \S+, Console http://\S+$", log.read_text(), re.MULTILINE)
    assert "password" not in log.read_text()
    assert told[1] not in log.read_text()


@pytest.mark.parametrize("log_format", ["text", "json"])
def test_the_log_has_a_line_for_the_start_for_listening_and_for_a_clean_stop(tmp_path: Path, log_format: str) -> None:
    with serving(tmp_path, f"--log-format={log_format}") as process:
        stream = process.stderr if log_format == "json" else process.stdout
        assert stream is not None
        written = []
        while "Console: listening" not in "".join(written):
            written.append(stream.readline())
            assert written[-1]
        process.terminate()
        assert process.wait(STOP_TIMEOUT_S) == 0
        out, errors = process.communicate()
    assert "Traceback" not in errors
    assert "Warning" not in errors
    lines = [line for line in "".join([*written, out, errors]).splitlines() if "upgrade" not in line.lower()]
    if log_format == "json":
        messages = [json.loads(line)["message"] for line in lines]
    else:
        assert [line for line in lines if not re.match(r"\S+Z (INFO|WARNING) [a-z_.]+: ", line)] == []
        messages = [line.split(": ", 1)[1] for line in lines]
    started = f"penstock {full_version()} starts pid={process.pid} data_path={tmp_path}"
    for start in (started, "TCP: listening on ", "HTTP: listening on ", "Console: listening on ", "SIGTERM: stopping"):
        assert [message for message in messages if message.startswith(start)], start
    assert messages[-1] == "stopped: everything is on the disk"


def test_every_line_is_json_in_utc_where_it_is_asked_for(tmp_path: Path) -> None:
    with serving(tmp_path, "--log-format=json", "--log-level=error") as process:
        assert process.stderr is not None
        lines = [json.loads(process.stderr.readline())]
        while not lines[-1]["message"].startswith("Console: listening"):
            lines.append(json.loads(process.stderr.readline()))
        process.terminate()
        out, errors = process.communicate(timeout=STOP_WAIT_S)
    assert process.returncode == 0
    assert out == ""
    lines += [json.loads(line) for line in errors.splitlines()]
    for line in lines:
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", line["time"])
        assert set(line) >= {"time", "level", "logger", "message"}
    path = tmp_path / "admin-password"
    assert lines[0]["message"] == f"First start: log in as admin; the password is in {path} until then."
    assert len(lines) == 4, "the level leaves out what is no error, but not what the start says"


def test_taken_port_is_named_and_everything_else_closed(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        for flag in ("--tcp-address", "--http-address", "--console-address"):
            with serving(tmp_path, flag, address) as process:
                out, errors = process.communicate(timeout=START_TIMEOUT_S)
                assert process.returncode == 2, flag
                assert "listening" not in out
                assert f"can't listen on {address}: Address already in use. Give another address with {flag}" in errors
                assert "Traceback" not in errors
                # Found before anything else: no topic could be made, and no message published.
                assert not (tmp_path / "topology.json").exists()
                assert not (tmp_path / "console.sqlite3").exists()
    # The lock is free again each time and the data is whole: it starts.
    with serving(tmp_path) as process:
        read_until(process, "Console:")
        process.terminate()
        assert process.wait(STOP_WAIT_S) == 0


def test_second_process_is_told_who_holds_the_directory(server: ServerProcess) -> None:
    with serving(server.data_path) as second:
        _, errors = second.communicate(timeout=START_TIMEOUT_S)
        assert second.returncode == 2
        assert str(server.pid) in errors
        assert str(server.data_path) in errors
        assert "Traceback" not in errors
    assert server.http("GET", "/ping") == b"OK"


def test_command_line_beats_environment_beats_default(tmp_path: Path) -> None:
    environment = {"PENSTOCK_MAX_MSG_SIZE": "10", "PENSTOCK_MSG_TIMEOUT": "2h"}
    with serving(tmp_path, "--msg-timeout=30s", environment=environment) as process:
        lines = read_until(process, "Console:")
        api = http.client.HTTPConnection("127.0.0.1", int(lines[-2].rpartition(":")[2]), timeout=STOP_WAIT_S)
        api.request("POST", "/pub?topic=orders", body=b"x" * 11)
        assert api.getresponse().status == 413
        api.close()
        process.terminate()
        assert process.wait(STOP_WAIT_S) == 0


def test_every_bad_option_is_named_at_once(tmp_path: Path) -> None:
    with serving(tmp_path, "--msg-timeout=5", "--max-rdy-count=0", environment={"PENSTOCK_NODE_ID": "5000"}) as process:
        _, errors = process.communicate(timeout=START_TIMEOUT_S)
        assert process.returncode == 2
    assert "--msg-timeout: '5' is not a duration such as 60s, 500ms or 1m30s" in errors
    assert "--max-rdy-count is 0: the least is 1" in errors
    assert "--node-id is 5000: the most is 1023" in errors
    assert "Traceback" not in errors


def test_pages_are_served_and_static_files_cached(server: ServerProcess) -> None:
    console = http.client.HTTPConnection("127.0.0.1", server.console_port, timeout=STOP_WAIT_S)
    console.request("GET", "/")
    answer = console.getresponse()
    answer.read()
    assert (answer.status, answer.getheader("Location")) == (302, "/login/?next=%2F")
    console.request("GET", "/static/penstock.css")
    answer = console.getresponse()
    assert answer.read()
    assert answer.status == 200
    assert answer.getheader("Content-Type") == 'text/css; charset="utf-8"'
    static = server.data_path / "static"
    made = next(static.glob("**/plotly*.js"))
    console.request("GET", f"/static/{made.relative_to(static)}", headers={"Accept-Encoding": "gzip"})
    answer = console.getresponse()
    answer.read()
    assert answer.getheader("Content-Encoding") == "gzip"
    assert "immutable" in (answer.getheader("Cache-Control") or "")
    console.request("GET", "/login/", headers={"Host": "evil.example"})
    answer = console.getresponse()
    answer.read()
    assert answer.status == 400
    console.close()


def test_body_beyond_the_limit_is_refused_before_it_is_stored(server: ServerProcess) -> None:
    head = b"POST /login/ HTTP/1.1\r\nHost: localhost\r\n"
    with socket.create_connection(("127.0.0.1", server.console_port), timeout=STOP_WAIT_S) as announced:
        announced.sendall(head + b"Content-Length: 10000000000\r\n\r\n")
        refused = b"".join(iter(lambda: announced.recv(1000), b""))
        assert refused.startswith(b"HTTP/1.1 413 ")
        assert refused.endswith(
            b"\r\n\r\nThe request has more than 8 MiB, the most of the console. Nothing was done.\n"
        )
    with socket.create_connection(("127.0.0.1", server.console_port), timeout=STOP_WAIT_S) as chunked:
        chunked.sendall(head + b"Transfer-Encoding: chunked\r\n\r\n")
        chunk = b"10000\r\n" + bytes(0x10000) + b"\r\n"
        with pytest.raises(ConnectionError):
            chunked.sendall(chunk * 1024)
    console = http.client.HTTPConnection("127.0.0.1", server.console_port, timeout=STOP_WAIT_S)
    console.request("GET", "/login/")
    assert console.getresponse().status == 200
    console.close()
    assert "Traceback" not in server.log


def test_published_message_outlives_the_stop_which_no_open_connection_delays(tmp_path: Path) -> None:
    server = ServerProcess(tmp_path)
    server.start()
    server.http("POST", "/pub?topic=orders", b"keep me")
    console = http.client.HTTPConnection("127.0.0.1", server.console_port, timeout=STOP_WAIT_S)
    console.request("GET", "/login/")
    console.getresponse().read()
    server.restart()
    console.close()
    assert server.topic_stats("orders")["depth"] == 1
    server.stop()
    assert "Traceback" not in server.log


def test_second_signal_waits_for_the_end_of_the_stop(tmp_path: Path) -> None:
    with serving(tmp_path) as process:
        read_until(process, "Console:")
        # Two kinds, since two of one kind may be delivered as one. Both are there when it goes on.
        for number in (signal.SIGSTOP, signal.SIGTERM, signal.SIGINT, signal.SIGCONT):
            process.send_signal(number)
        assert process.wait(STOP_WAIT_S) == 0
        assert process.stderr is not None
        errors = process.stderr.read()
    assert "the stop is under way and ends when everything is on disk" in errors
    assert "Traceback" not in errors


# A wall clock that somebody sets back again and again, from SIGUSR1 on.
FALLING_CLOCK = """
import gc, signal, sys, time

wall_s, fallen_s = time.time, [0, 0]
def falling_s():
    fallen_s[0] += fallen_s[1]
    return wall_s() - fallen_s[0]

time.time = falling_s
time.time_ns = lambda: int(falling_s() * 1e9)
def fall(*_):
    fallen_s[1] = 3600
    print("collects:", gc.isenabled(), file=sys.stderr, flush=True)
signal.signal(signal.SIGUSR1, fall)
sys.argv[0] = "manage.py"
import manage
manage.main()
"""


def test_a_stop_after_the_clock_was_set_is_a_clean_one(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", FALLING_CLOCK, "serve", *PORTS, f"--data-path={tmp_path}"],
        cwd=ROOT,
        env={"PATH": os.environ["PATH"]},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        port = int(read_until(process, "Console:")[-1].rpartition(":")[2])
        process.send_signal(signal.SIGUSR1)
        console = http.client.HTTPConnection("127.0.0.1", port, timeout=STOP_WAIT_S)
        console.request("GET", "/login/")
        assert console.getresponse().status == 200
        console.close()
        process.send_signal(signal.SIGUSR1)  # the start is over for sure
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
    finally:
        process.kill()
        _, errors = process.communicate()
    assert "the console did not stop" not in errors
    assert "Traceback" not in errors
    assert "collects: True" in errors, "the start alone goes without the collector"


# An engine that breaks from SIGUSR1 on.
BROKEN_ENGINE = """
import signal, sys
from queue_engine.engine.engine import Engine

asked = []
def break_on_purpose(self):
    if asked:
        raise ERROR("broken on purpose")
    return scan_pass(self)

scan_pass = Engine.scan_pass
Engine.scan_pass = break_on_purpose
signal.signal(signal.SIGUSR1, lambda *_: asked.append(1))
sys.argv[0] = "manage.py"
import manage
manage.main()
"""


class ServerWithBrokenEngine(ServerProcess):
    def _command(self) -> list[str]:
        return ["-c", BROKEN_ENGINE.replace("ERROR", "RuntimeError"), *super()._command()[1:]]


def test_error_in_a_loop_of_the_engine_ends_nothing_and_is_told_once(tmp_path: Path) -> None:
    server = ServerWithBrokenEngine(tmp_path, options=["--no-pipeline"])
    with server:
        os.kill(server.pid, signal.SIGUSR1)
        wait_for("the error", lambda: "broken on purpose" in server.log, timeout_s=60)
        server.http("POST", "/pub?topic=orders", b"goes on")
        assert server.http("GET", "/livez") == b"OK"
        assert b"broken on purpose" in server.http("GET", "/readyz")
    assert server.log.count("Traceback") == 1


def test_death_of_the_engine_ends_the_process_with_the_reason(tmp_path: Path) -> None:
    # What no loop survives.
    program = BROKEN_ENGINE.replace("ERROR", "SystemExit")
    process = subprocess.Popen(
        [sys.executable, "-c", program, "serve", *PORTS, f"--data-path={tmp_path}"],
        cwd=ROOT,
        env={"PATH": os.environ["PATH"]},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        read_until(process, "Console: listening")
        process.send_signal(signal.SIGUSR1)
        _, errors = process.communicate(timeout=START_TIMEOUT_S)
    finally:
        process.kill()
    assert process.returncode == 1
    assert "engine ended error=broken on purpose" in errors


def test_ipv6_and_every_address_are_listened_on(tmp_path: Path) -> None:
    with serving(tmp_path, "--console-address=[::1]:0") as process:
        assert re.fullmatch(r"Console: listening on http://\[::1\]:[1-9][0-9]*", read_until(process, "Console:")[-1])
        process.terminate()
        assert process.wait(STOP_WAIT_S) == 0
        assert process.stderr is not None
        assert "plain http" not in process.stderr.read()


def test_first_start_after_the_upgrade_tells_once_what_the_token_covers(tmp_path: Path) -> None:
    told = "Upgrade: --http-token now covers publishing and every change over HTTP"
    new = ServerProcess(tmp_path / "new", options=["--no-pipeline"], environment={"PENSTOCK_HTTP_TOKEN": "s3cret"})
    with new:
        pass
    assert told not in new.log
    data_path = tmp_path / "used"
    with RunningEngine(data_path) as before:
        before.http("POST", "/pub?topic=orders", b"x")
    server = ServerProcess(data_path, options=["--no-pipeline"], environment={"PENSTOCK_HTTP_TOKEN": "s3cret"})
    with server:
        # What nsqadmin and nsq_stat ask for.
        assert server.topic_stats("orders")["depth"] == 1
        with pytest.raises(urllib.error.HTTPError, match="403"):
            server.http("POST", "/pub?topic=orders", b"x")
        server.restart()
    lines = [line for line in server.log.splitlines() if told in line]
    assert len(lines) == 2, "one printed, one in the log, at the first start alone"
