"""The daemon as a process: what scripts that start nsqd see of it."""

import ctypes
import os
import platform
import re
import shutil
import signal
import ssl
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from http.client import HTTPConnection, HTTPSConnection
from pathlib import Path

import pytest

from queue_engine.daemon.daemon_options import DaemonOptions
from queue_engine.daemon.flags import flag_set
from queue_engine.vocabulary.version import full_version
from tests.support.certificates import LOOPBACK, Certificates
from tests.support.nsq_socket import FRAME_RESPONSE, NsqSocket
from tests.support.nsqd_directory import messages, read_metadata, read_queue, write_metadata, write_queue
from tests.support.processes.daemon_process import DaemonProcess
from tests.support.processes.notify_socket import NotifySocket
from tests.support.processes.server import ROOT
from tests.support.waiting import wait_for

pytestmark = pytest.mark.slow(reason="starts processes")

DAY = r"\[nsqd\] [0-9]{4}/[0-9]{2}/[0-9]{2} [0-9:]{8}\.[0-9]{6}"
VERSION_LINE = f"nsqd v1.3.0 (built w/python{platform.python_version()}) penstock v{full_version()}"
# What a daemon has no use for and what takes long to import.
FOREIGN = {"django", "channels", "daphne", "twisted", "pyspark", "pyarrow", "numpy", "duckdb", "aiohttp", "sqlglot"}
# What it imports when a client first needs it.
LATER = {"re2", "cramjam", "tracemalloc", "pickle"}
# A script that starts nsqd sleeps for 0.3 s, which is what a start takes when nothing else runs. A busy machine takes
# three times as much for the same work, and a Python that may write no bytecode compiles all modules again.
START_PROCESSOR_S_MAX = 1.5


def run(*arguments: str, directory: Path) -> "subprocess.CompletedProcess[str]":
    environment = {name: text for name, text in os.environ.items() if not name.startswith("PENSTOCK_")}
    return subprocess.run(
        [sys.executable, "-m", "queue_engine", *arguments],
        cwd=directory,
        env=environment | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=60,
    )


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory, certificates: Certificates) -> Iterator[DaemonProcess]:
    directory, environment = tmp_path_factory.mktemp("nsqd"), {"PYTHONPROFILEIMPORTTIME": "1"}
    with DaemonProcess(directory, options=certificates.server_options, environment=environment) as process:
        wait_for("the last listening line", lambda: "HTTPS: listening on" in process.log)
        yield process


def test_the_first_lines_are_nsqds(daemon: DaemonProcess) -> None:
    lines = [line for line in daemon.log.splitlines() if line.startswith("[nsqd] ")]
    assert re.fullmatch(rf"{DAY} INFO: {re.escape(VERSION_LINE)}", lines[0])
    assert re.fullmatch(rf"{DAY} INFO: ID: [0-9]+", lines[1])
    assert re.fullmatch(rf"{DAY} INFO: TCP: listening on 127\.0\.0\.1:{daemon.tcp_port}", lines[-3])
    assert re.fullmatch(rf"{DAY} INFO: HTTP: listening on 127\.0\.0\.1:{daemon.http_port}", lines[-2])
    assert re.fullmatch(rf"{DAY} INFO: HTTPS: listening on 127\.0\.0\.1:[0-9]+", lines[-1])


def test_a_start_imports_nothing_that_it_does_not_use(daemon: DaemonProcess) -> None:
    before = daemon.log.partition("TCP: listening on")[0]
    imported = set(re.findall(r"^import time: .*\| +(\w+)", before, re.MULTILINE))
    assert {"uvloop", "queue_engine"} <= imported
    assert imported & (FOREIGN | LATER | {"admin_console"}) == set()


def test_a_start_takes_little_of_the_processor(tmp_path: Path) -> None:
    took_s = []
    for number in range(3):
        with DaemonProcess(tmp_path / str(number)) as process:
            ticks = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[11:13]
            took_s.append(sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK"))
    assert min(took_s) < START_PROCESSOR_S_MAX


def test_it_serves_clients_and_the_http_api(daemon: DaemonProcess) -> None:
    daemon.http("POST", "/pub?topic=t", b"over http")
    with NsqSocket(daemon.tcp_port) as client:
        client.publish("t", b"over tcp")
        client.subscribe("t", "c", rdy=2)
        assert sorted(client.read_message().body for _ in range(2)) == [b"over http", b"over tcp"]
    assert daemon.topic_stats("t")["storage"] == "diskqueue"


def test_a_publisher_by_another_name_is_served_as_by_nsqd(daemon: DaemonProcess) -> None:
    with closing(HTTPConnection("127.0.0.1", daemon.http_port, timeout=60)) as connection:
        for method, target, body, status in (
            ("POST", "/pub?topic=alias", b"m", 200),
            ("GET", "/stats?topic=alias", None, 200),
            ("GET", "/metrics", None, 403),
        ):
            connection.request(method, target, body, {"Host": "queue.vip.example"})
            answer = connection.getresponse()
            assert (answer.status, bool(answer.read())) == (status, True)
    wait_for("the line about the refused one", lambda: "--allowed-host" in daemon.log)


def test_it_serves_the_http_api_inside_tls(daemon: DaemonProcess, certificates: Certificates) -> None:
    found = re.search(r"HTTPS: listening on 127\.0\.0\.1:([0-9]+)", daemon.log)
    assert found
    connection = HTTPSConnection("127.0.0.1", int(found[1]), timeout=60, context=certificates.client_context())
    with closing(connection):
        connection.request("GET", "/ping")
        assert connection.getresponse().read() == b"OK"


def test_a_second_one_on_the_same_directory_is_refused_as_by_nsqd(daemon: DaemonProcess, tmp_path: Path) -> None:
    done = run(f"--data-path={daemon.data_path}", "--tcp-address=127.0.0.1:0", directory=tmp_path)
    assert done.returncode == 1
    assert re.search(
        rf"{DAY} FATAL: failed to instantiate nsqd - failed to lock data-path: cannot flock directory "
        rf"{daemon.data_path} - .* \(possibly in use by another instance of penstock or nsqd, pid {daemon.pid}\)\n",
        done.stderr,
    )


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_it_with_status_0_and_loses_nothing(tmp_path: Path, number: signal.Signals) -> None:
    """It runs where nsqd was started without flags: in its data directory, which then has nsqd's files."""
    daemon = DaemonProcess(tmp_path)
    daemon.start()
    daemon.http("POST", "/pub?topic=t", b"m")
    assert daemon.signalled(number) == 0
    assert re.search(rf"{DAY} INFO: NSQ: bye\n$", daemon.log)
    assert (tmp_path / "t.diskqueue.000000.dat").stat().st_size == 4 + 26 + 1


def test_it_runs_on_nsqds_directory_and_gives_it_back(tmp_path: Path) -> None:
    held = messages(100)
    write_metadata(tmp_path, {"orders": ["billing", "mail"]}, paused=["orders/mail"])
    write_queue(tmp_path, "orders:billing", [held[:40], held[40:80], held[80:]], read=10)
    write_queue(tmp_path, "orders:mail", [held[:1]])
    daemon = DaemonProcess(tmp_path)
    daemon.start()
    with NsqSocket(daemon.tcp_port) as client:
        client.subscribe("orders", "billing", rdy=50)
        for number in range(10, 60):
            message = client.read_message()
            assert (message.body, message.id) == (held[number].body, held[number].id)
            client.finish(message)
        client.send(b"CLS\n")
        # To close with messages unread would reset the connection, and the last FINs with it.
        while client.read_frame() != (FRAME_RESPONSE, b"CLOSE_WAIT"):
            pass
    daemon.http("POST", "/pub?topic=orders", b"new")
    daemon.stop()
    assert read_metadata(tmp_path) == ({"orders": ["billing", "mail"]}, ["orders/mail"])
    left = read_queue(tmp_path, "orders:billing")
    # Those that were sent when the last FIN came are in flight, and behind the others.
    assert {one.body for one in left} == {one.body for one in held[60:]} | {b"new"}
    assert [one.body for one in read_queue(tmp_path, "orders:mail")] == [b"m0", b"new"]


def test_its_directory_has_nsqds_files_and_no_log(tmp_path: Path) -> None:
    """`config` answers the directory as it was given."""
    directory = tmp_path / "data"
    with DaemonProcess(directory) as daemon:
        assert daemon.http("GET", "/config/data_path") == str(directory).encode()
        assert daemon.http("GET", "/config/log_prefix") == b"[nsqd] "
        assert daemon.http("GET", "/config/queue_scan_worker_pool_max") == b"4"
        with NsqSocket(daemon.tcp_port) as client:
            client.publish("t", b"m")
            client.subscribe("t", "c", rdy=1)
            client.finish(client.read_message())
        daemon.http("POST", "/pub?topic=short%23ephemeral", b"m")
        daemon.http("GET", "/stats")
        daemon.http("GET", "/metrics")
        wait_for("nsqd's file", (directory / "nsqd.dat").exists)
    names = {path.name for path in directory.iterdir()}
    ours = ("topology.", "formats.json", "api-audit.log", "t:c.diskqueue.")
    assert {name for name in names if not name.startswith(ours)} == {"nsqd.dat"}


@pytest.mark.parametrize(("given", "answered"), [([], b""), (["--data-path=."], b"."), (["-data-path", "sub"], b"sub")])
def test_config_answers_the_directory_as_it_was_given(given: list[str], answered: bytes, tmp_path: Path) -> None:
    options = DaemonOptions.of(flag_set().read(given), {})
    assert options.given["data_path"] == answered.decode()
    assert options.engine.data_path == os.path.abspath(answered.decode())


def test_version_help_and_mistakes_have_nsqds_statuses(tmp_path: Path) -> None:
    version = run("-version", directory=tmp_path)
    assert (version.returncode, version.stderr) == (0, "")
    assert version.stdout == f"{VERSION_LINE}\n"
    usage = run("-help", directory=tmp_path)
    assert (usage.returncode, usage.stdout) == (0, "")
    assert usage.stderr.startswith("Usage of nsqd:\n")
    mistake = run("--mem-que-size=1", directory=tmp_path)
    assert mistake.returncode == 2
    assert mistake.stderr.startswith(
        "flag provided but not defined: -mem-que-size. Did you mean -mem-queue-size?\nUsage of nsqd:\n"
    )
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("argument", "sentence"),
    [
        ("--data-path=nowhere", "cannot open data directory .*/nowhere: No such file or directory"),
        ("--max-rdy-count=0", "--max-rdy-count is 0: the least is 1"),
        ("--tcp-address=192.0.2.1:1", "can't listen on 192.0.2.1:1: "),
    ],
)
def test_a_start_that_can_t_be_costs_a_line_and_status_1(tmp_path: Path, argument: str, sentence: str) -> None:
    done = run("--http-address=127.0.0.1:0", "--tcp-address=127.0.0.1:0", argument, directory=tmp_path)
    assert done.returncode == 1
    assert re.search(rf"{DAY} FATAL: failed to instantiate nsqd - {sentence}", done.stderr)
    assert "Traceback" not in done.stderr


def test_one_line_names_what_strangers_can_do(tmp_path: Path) -> None:
    """nsqd listens on all addresses, and so does the daemon, without tokens, too."""
    done = run("--http-address=0.0.0.0:0", "--tcp-address=192.0.2.1:1", directory=tmp_path)
    told = [line for line in done.stderr.splitlines() if "strangers" in line]
    assert len(told) == 1
    assert re.match(
        rf"{DAY} WARNING: strangers who reach --tcp-address 192\.0\.2\.1:1 can publish to any topic", told[0]
    )
    assert "strangers who reach --http-address 0.0.0.0:0 can" in told[0]


def test_systemd_hears_when_it_listens_and_when_it_stops(tmp_path: Path) -> None:
    with NotifySocket(tmp_path / "notify") as notified:
        daemon = DaemonProcess(tmp_path / "data", environment={"NOTIFY_SOCKET": notified.address})
        daemon.start()
        daemon.stop()
        assert notified.values("READY") == ["1"]
        assert notified.values("STOPPING")


def test_a_signal_that_another_thread_gets_stops_it(tmp_path: Path) -> None:
    with DaemonProcess(tmp_path / "data") as daemon:
        worked = [""]

        def main_thread_rests() -> bool:
            worked.append(Path(f"/proc/{daemon.pid}/task/{daemon.pid}/schedstat").read_text())
            return worked[-1] == worked[-2]

        wait_for("the end of the start", main_thread_rests)
        other = max(int(name) for name in os.listdir(f"/proc/{daemon.pid}/task"))
        # As the kernel does while the main thread has another signal to handle.
        assert ctypes.CDLL(None).tgkill(daemon.pid, other, signal.SIGTERM) == 0
        wait_for("the stop", lambda: "SIGTERM: stopping" in daemon.log)


def test_sighup_has_it_read_certificates_and_tokens_again_and_go_on(tmp_path: Path, certificates: Certificates) -> None:
    pair = certificates.server
    here = {name: str(shutil.copy(path, tmp_path)) for name, path in (("cert", pair.certificate), ("key", pair.key))}
    options = ["--tls-cert", here["cert"], "--tls-key", here["key"], "--https-address", "127.0.0.1:0"]
    with DaemonProcess(tmp_path / "data", options=options) as daemon, NsqSocket(daemon.tcp_port) as client:
        client.subscribe("t", "c", rdy=1)
        renewed = certificates.authority.issue("renewed", hosts=LOOPBACK)
        shutil.copy(renewed.certificate, here["cert"])
        os.kill(daemon.pid, signal.SIGHUP)  # its key is still to come
        wait_for("the first look", lambda: "the certificate of TLS stays as it was" in daemon.log)
        assert "SIGHUP: certificates, keys, tokens and secrets are read again" in daemon.log
        shutil.copy(renewed.key, here["key"])
        os.kill(daemon.pid, signal.SIGHUP)
        wait_for("the second look", lambda: "the certificate of TLS was read again, for new connections" in daemon.log)
        port = int(re.findall(r"HTTPS: listening on 127.0.0.1:(\d+)", daemon.log)[0])
        assert ssl.get_server_certificate(("127.0.0.1", port)) == renewed.certificate.read_text()
        daemon.http("POST", "/pub?topic=t", b"m")
        assert client.read_message().body == b"m", "the open connection goes on"
        assert f"{tmp_path / 'data' / 'tokens.json'} was read again, tokens: 0" in daemon.log
    assert "INFO: NSQ: bye" in daemon.log
