"""`penstock backup` of a server under load, and what a server started on the copy has."""

import json
import os
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.clients.test_sigterm import BATCH, Publishing
from tests.support.nsq_socket import NsqSocket
from tests.support.processes.server import ROOT, ServerProcess
from tests.support.waiting import wait_for

pytestmark = [pytest.mark.slow(reason="starts real servers"), pytest.mark.timeout(400)]


def backup_command(data_path: Path, target: Path) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "manage.py", "backup", str(target), f"--data-path={data_path}"],
        cwd=ROOT,
        env={"PATH": os.environ["PATH"]},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def back_up(data_path: Path, target: Path) -> str:
    """What it prints; it went well."""
    process = backup_command(data_path, target)
    printed, _ = process.communicate(timeout=120)
    assert process.returncode == 0, printed
    return printed


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    # A small memory queue, so that both memory and disk hold messages; small segments, so that there are several.
    options = ["--mem-queue-size=1000", "--log-segment-bytes=4194304", "--max-body-size=262144", "--max-msg-size=65536"]
    with ServerProcess(tmp_path / "data", options=[*options, "--samples-interval=1s"]) as running:
        yield running


def received_of_all(server: ServerProcess, topic: str, channel: str) -> list[bytes]:
    depth = server.channel_stats(topic, channel)["depth"]
    with NsqSocket(server.tcp_port) as client:
        client.subscribe(topic, channel, rdy=2_000)
        bodies = []
        for _ in range(depth):
            message = client.read_message()
            bodies.append(message.body)
            client.finish(message)
        wait_for("every FIN", lambda: server.channel_stats(topic, channel)["in_flight_count"] == 0)
    assert server.channel_stats(topic, channel)["depth"] == 0
    return bodies


def test_a_copy_taken_under_load_has_all_that_was_acknowledged_before(server: ServerProcess, tmp_path: Path) -> None:
    for path in (
        "/topic/create?topic=load",
        "/channel/create?topic=load&channel=one",
        "/channel/create?topic=load&channel=paused",
        "/channel/pause?topic=load&channel=paused",
        "/topic/create?topic=waits",
        "/topic/create?topic=passing%23ephemeral",
    ):
        server.http("POST", path)
    for number in range(50):
        server.http("POST", "/pub?topic=waits", b"%d" % number)
    publishers = [Publishing(server.tcp_port, "load", lane) for lane in range(2)]
    holder = NsqSocket(server.tcp_port)
    holder.subscribe("load", "one", rdy=300)
    held = [holder.read_message() for _ in range(300)]
    finished = {message.body for message in held[:100]}
    for message in held[:100]:
        holder.finish(message)
    holder.send(b"REQ " + held[100].id + b" 3600000\n")
    wait_for("the deferral", lambda: server.channel_stats("load", "one")["deferred_count"] == 1)
    wait_for("enough to be kept", lambda: min(len(one.acknowledged) for one in publishers) >= 20 * BATCH)

    before = set().union(*(set(one.acknowledged) for one in publishers))
    printed = back_up(server.data_path, tmp_path / "copy")
    assert "The backup is complete" in printed
    wait_for("what was staged to go", lambda: os.listdir(server.data_path / "backup-staging") == [])
    assert server.http("GET", "/ping") == b"OK"
    server.kill9()  # the original goes on only until here
    for publisher in publishers:
        publisher.join()
    holder.close()

    with ServerProcess(tmp_path / "copy") as copy:
        assert copy.http("GET", "/ping") == b"OK"
        assert "damage" not in copy.log.lower()
        assert [topic["topic_name"] for topic in copy.stats()["topics"]] == ["load", "waits"]
        assert copy.topic_stats("waits")["depth"] == 50
        copy.http("POST", "/channel/unpause?topic=load&channel=paused")
        paused = received_of_all(copy, "load", "paused")
        one = received_of_all(copy, "load", "one")
        deferred = copy.channel_stats("load", "one")["deferred_count"]
    assert before - set(paused) == set()
    assert len(paused) == len(set(paused))
    # What comes is what was published, in whole batches, and not a message of a made-up number.
    for lane in range(2):
        numbers = sorted(int.from_bytes(body[4:8], "big") for body in paused if body[3] == lane)
        assert numbers == list(range(len(numbers)))
        assert len(numbers) % BATCH == 0
    assert len(one) == len(set(one))
    assert set(paused) - set(one) - finished == ({held[100].body} if deferred else set())
    assert set(one) & finished == set()


def test_files_keep_their_permissions_and_what_is_there_is_checked(server: ServerProcess, tmp_path: Path) -> None:
    server.http("POST", "/pub?topic=orders", b"x")
    target = tmp_path / "copy"
    back_up(server.data_path, target)
    assert not (target / "BACKUP-INCOMPLETE").exists()
    assert json.loads((target / "backup.json").read_bytes())["version"] == 1
    for path in target.rglob("*"):
        assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0, path
    for name in ("console.sqlite3", "secret-key", "topology.json"):
        assert (target / name).stat().st_size > 0
    assert (target / "secret-key").read_bytes() == (server.data_path / "secret-key").read_bytes()
    again = backup_command(server.data_path, target)
    printed, _ = again.communicate(timeout=120)
    assert again.returncode == 2
    assert "exists and is not an empty directory" in printed
    inside = backup_command(server.data_path, server.data_path / "copy")
    assert "is in the data directory" in inside.communicate(timeout=120)[0]


def test_without_a_server_the_directory_is_copied(server: ServerProcess, tmp_path: Path) -> None:
    for number in range(5):
        server.http("POST", "/pub?topic=orders", b"%d" % number)
    server.stop()
    assert "No server runs" in back_up(server.data_path, tmp_path / "copy")
    with ServerProcess(tmp_path / "copy") as copy:
        assert copy.topic_stats("orders")["depth"] == 5
    server.start()


def test_an_interrupted_backup_says_that_it_is_incomplete(server: ServerProcess, tmp_path: Path) -> None:
    server.http("POST", "/pub?topic=orders", b"x")
    target = tmp_path / "copy"
    os.kill(server.pid, signal.SIGSTOP)  # a server that answers nothing: the backup can't end before it is killed
    process = backup_command(server.data_path, target)
    wait_for("its beginning", lambda: (target / "BACKUP-INCOMPLETE").exists(), timeout_s=60)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    os.kill(server.pid, signal.SIGCONT)
    assert not (target / "backup.json").exists()
    with pytest.raises(RuntimeError, match="is a backup that was not finished"):
        ServerProcess(target).start()
    assert server.http("GET", "/ping") == b"OK"
    for left in (server.data_path / "backup-staging").glob("*.request"):
        left.unlink()  # it ends by itself after a minute: tests/engine/test_backups.py
    assert "The backup is complete" in back_up(server.data_path, tmp_path / "another")
