"""The console without a queue as a process: what it prints, which files and ports it has, how it stops."""

import signal
import socket
import urllib.request
from pathlib import Path

import pytest

from tests.support.fake_node import FakeNode
from tests.support.fake_nsqd import topic
from tests.support.pages.console_client import ConsoleClient
from tests.support.processes.notify_socket import NotifySocket
from tests.support.processes.penstock_command import penstock
from tests.support.processes.server import ServerProcess
from tests.support.waiting import wait_for

pytestmark = pytest.mark.slow(reason="starts a real server")


class ConsoleOnly(ServerProcess):
    """`penstock-admin`, with nsqadmin's flags."""

    _listeners = frozenset({"Console"})

    def __init__(self, data_path: Path, *flags: str, environment: dict[str, str] | None = None) -> None:
        super().__init__(data_path, environment=environment)
        self._options = list(flags)

    def _command(self) -> list[str]:
        return [
            "-c",
            "from admin_console.management.entry import nsqadmin; nsqadmin()",
            f"-http-address=127.0.0.1:{self.console_port}",
            "-data-path",
            str(self.data_path),
        ]


def is_free(port: int) -> bool:
    with socket.socket() as one:
        return one.connect_ex(("127.0.0.1", port)) != 0


def test_it_serves_the_console_alone_and_makes_no_file_of_a_queue(tmp_path: Path) -> None:
    data_path = tmp_path / "data"
    with FakeNode() as node, FakeNode() as named, NotifySocket(tmp_path / "notify") as notified:
        node.answer_as_nsqd()
        named.answer_as_nsqd(topic("of-prod"))
        options = [
            "-no-pipeline",
            f"-nsqd-http-address={node.address}",
            f"-nsqd-http-address=prod={named.address}",
            "-graphite-url=http://graphite:8080",
        ]
        manager = {"NOTIFY_SOCKET": notified.address, "WATCHDOG_USEC": "400000"}
        server = ConsoleOnly(data_path, *options, environment=manager)
        server.start()
        try:
            assert (
                "WARNING admin_console.management.nsqadmin_program: --graphite-url has no effect: Graphite"
                in server.log
            )
            assert "No queue of its own (--console-only): the console calls 0 nsqlookupds and 2 nodes" in server.log
            assert "; clusters with a name: prod" in server.log
            notified.wait_for("READY", "1")
            notified.wait_for("WATCHDOG", "1")
            assert is_free(server.tcp_port)
            assert is_free(server.http_port)
            with urllib.request.urlopen(f"{server.console_url}/ping", timeout=10) as answer:
                assert answer.read() == b"OK"
            console = ConsoleClient(server.console_port)
            console.log_in()
            for path in ("/", "/topics/", "/nodes/", "/lookup/", "/pipeline/", "/audit/"):
                assert console.get(path).status == 200, path
            wait_for("the node's row", lambda: node.address in console.get("/nodes/").text.replace("<wbr>", ""))
            wait_for("the topic of the cluster", lambda: "of-prod" in console.get("/clusters/prod/topics/").text)
            assert "of-prod" not in console.get("/topics/").text
            console.close()
            # A running console's directory can be copied, and the copy is one to start on.
            done = penstock("backup", str(tmp_path / "copy"), f"--data-path={data_path}", directory=tmp_path)
            assert done.returncode == 0, done.stderr
            copied = {path.name for path in (tmp_path / "copy").iterdir()}
            assert {"console.sqlite3", "secret-key", "samples", "backup.json"} <= copied
        finally:
            assert server.signalled(signal.SIGTERM) == 0
        assert "stopped: everything is on the disk" in server.log
        assert "Traceback" not in server.log
    files = {path.name for path in data_path.iterdir()}
    assert files <= {
        "console.sqlite3",
        "secret-key",
        "static",
        "audit-head",
        "upgrade-notes",
        "samples",
        "backup-staging",
    }


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (
            ["--console-only", "--demo"],
            "--demo publishes to the server's own queue, and with --console-only it has none.",
        ),
        (["--console-only", "--lookupd-http-address=here"], "--lookupd-http-address: 'here' is neither HOST:PORT nor "),
    ],
)
def test_a_mistake_costs_a_sentence_and_no_directory(tmp_path: Path, options: list[str], sentence: str) -> None:
    done = penstock("serve", *options, directory=tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith(f"penstock: {sentence}")
    assert list(tmp_path.iterdir()) == []


def test_the_switch_may_come_from_the_environment(tmp_path: Path) -> None:
    done = penstock("systemd", directory=tmp_path, PENSTOCK_CONSOLE_ONLY="true")
    assert done.returncode == 0, done.stderr
    assert " --console-only" in next(line for line in done.stdout.splitlines() if line.startswith("ExecStart="))
