"""`import_nsqd`: nsqd's topics come into the log once, whatever ends the import, and each channel has what it had."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from queue_engine.daemon.nsqd_import.import_client import ImportClient
from queue_engine.daemon.nsqd_import.nsqd_import import NsqdImport
from queue_engine.daemon.nsqd_import.source import IMPORTED_NAME
from queue_engine.daemon.nsqd_import.state import STATE_NAME
from queue_engine.storage.disk.dirlock import DirectoryLock
from queue_engine.storage.disk.files import Files
from queue_engine.vocabulary.errors import DirectoryLockedError, EngineUnreachableError, NsqdImportError
from tests.support.nsq_socket import NsqSocket
from tests.support.nsqd_directory import StoredMessage, messages, write_metadata, write_queue
from tests.support.processes.running_engine import RunningEngine
from tests.support.processes.server import ROOT
from tests.support.waiting import wait_for


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningEngine]:
    with RunningEngine(tmp_path_factory.mktemp("log") / "data", storage="log") as running:
        yield running


def url_of(server: RunningEngine) -> str:
    return f"http://127.0.0.1:{server.http_port}"


def run_import(directory: Path, server: RunningEngine, client: ImportClient | None = None) -> tuple[bool, list[str]]:
    """Whether nothing is left, and the lines."""
    lines: list[str] = []
    with (
        client or ImportClient(url_of(server)) as asked,
        NsqdImport(str(directory), asked, lines.append) as nsqd_import,
    ):
        return nsqd_import.run(), lines


def has_exactly(server: RunningEngine, topic: str, channel: str, bodies: list[bytes]) -> bool:
    """Whether the channel delivers these, in this order; takes and finishes them. Raises AssertionError when it has
    more."""
    with NsqSocket(server.tcp_port) as client:
        client.subscribe(topic, channel, rdy=2_500)
        found = []
        for _ in bodies:
            message = client.read_message()
            client.finish(message)
            found.append(message.body)

        def is_empty() -> bool:
            stats = server.channel_stats(topic, channel)
            return stats["depth"] + stats["in_flight_count"] + stats["deferred_count"] == 0

        wait_for("the channel to be empty", is_empty)
        return found == bodies


def make_orders(directory: Path, topic: str, *, paused: tuple[str, ...] = ()) -> dict[str, list[bytes]]:
    """A topic whose channels are at different places; what each has. `all` lags, `some` finished a few and requeued
    one, `none` has finished everything; the topic has two messages that no channel has yet."""
    held = messages(2_300)
    twice = [StoredMessage(b"twice", b"00000000000000ff")] * 2
    some = [*held[1_500:1_600], *held[1_700:], held[7]]
    write_metadata(directory, {topic: ["all", "none", "some"]}, paused=paused)
    write_queue(directory, f"{topic}:all", [held[:900], held[900:2_000], [*held[2_000:], *twice]], read=5, first_file=3)
    write_queue(directory, f"{topic}:some", [some[:50], some[50:]])
    write_queue(directory, f"{topic}:none", [held[:1]], read=1)
    waiting = messages(2, first=5_000)
    write_queue(directory, topic, [waiting])
    bodies = [one.body for one in held]
    late = [one.body for one in waiting]
    return {
        "all": [*bodies[5:], b"twice", b"twice", *late],
        "some": [*bodies[7:8], *bodies[1_500:1_600], *bodies[1_700:], *late],
        "none": late,
    }


def test_each_channel_gets_what_it_had_and_each_message_is_stored_once(tmp_path: Path, server: RunningEngine) -> None:
    expected = make_orders(tmp_path, "orders")
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    is_complete, lines = run_import(tmp_path, server)
    assert is_complete
    assert lines[-2:] == [
        "orders: 3,000 messages read, 2,299 written; all on the server's disk",
        f"orders: {len(before) - 1} files moved to {tmp_path / IMPORTED_NAME}",
    ]
    assert server.topic_stats("orders")["storage"] == "log"
    for channel, bodies in expected.items():
        assert has_exactly(server, "orders", channel, bodies), channel
        assert not server.channel_stats("orders", channel)["paused"]
    # Nothing is deleted, and nothing changed.
    assert {path.name: path.read_bytes() for path in (tmp_path / IMPORTED_NAME).iterdir()} == before
    assert {path.name for path in tmp_path.iterdir()} == {IMPORTED_NAME, STATE_NAME}


def test_what_nsqd_had_paused_stays_paused(tmp_path: Path, server: RunningEngine) -> None:
    make_orders(tmp_path, "held", paused=("held", "held/some"))
    assert run_import(tmp_path, server)[0]
    topic = server.topic_stats("held")
    assert topic["paused"]
    assert {one["channel_name"]: one["paused"] for one in topic["channels"]} == {
        "all": False,
        "none": False,
        "some": True,
    }
    # What the topic had not passed on still waits at the topic.
    assert (topic["depth"], server.channel_stats("held", "none")["depth"]) == (2, 0)
    server.http("POST", "/topic/unpause?topic=held")
    assert has_exactly(server, "held", "none", [b"m5000", b"m5001"])


def test_a_topic_without_channels_waits_for_its_first(tmp_path: Path, server: RunningEngine) -> None:
    write_metadata(tmp_path, {"lonely": []})
    write_queue(tmp_path, "lonely", [messages(3)])
    assert run_import(tmp_path, server)[0]
    server.http("POST", "/channel/create?topic=lonely&channel=first")
    assert has_exactly(server, "lonely", "first", [b"m0", b"m1", b"m2"])


def test_a_topic_that_is_there_keeps_its_own_messages_and_pauses(tmp_path: Path, server: RunningEngine) -> None:
    server.http("POST", "/pub?topic=busy", b"own")
    server.http("POST", "/channel/create?topic=busy&channel=c")
    server.http("POST", "/channel/pause?topic=busy&channel=c&reason=repair")
    write_metadata(tmp_path, {"busy": ["c"]})
    write_queue(tmp_path, "busy:c", [messages(2)])
    assert run_import(tmp_path, server)[0]
    assert server.channel_stats("busy", "c")["pause"]["reason"] == "repair"
    server.http("POST", "/channel/unpause?topic=busy&channel=c")
    assert has_exactly(server, "busy", "c", [b"own", b"m0", b"m1"])


class EndedError(BaseException):
    """The import ends here, as if it was killed."""


class Ending:
    """Ends an import before or after its n-th step: a request, a file that is replaced, a file that is moved."""

    def __init__(self, step: float) -> None:
        self.step = step
        self.count = 0

    def around(self, work: Callable[..., Any]) -> Callable[..., Any]:
        def done(*given: Any, **named: Any) -> Any:
            if threading.current_thread() is not threading.main_thread():
                return work(*given, **named)  # the server has files, too
            self.count += 1
            step = self.count  # a file that is replaced is renamed within
            if step == self.step:
                raise EndedError
            result = work(*given, **named)
            if step == self.step - 0.5:
                raise EndedError
            return result

        return done


@pytest.mark.slow(reason="ends an import at each of its steps")
def test_an_import_that_ends_at_any_step_goes_on_and_nothing_comes_twice(
    tmp_path: Path, server: RunningEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    step, was_ended = 0.5, True
    while was_ended:
        step += 0.5
        topic, directory = f"ended{int(step * 10)}", tmp_path / str(step)
        directory.mkdir()
        held = messages(6)
        write_metadata(directory, {topic: ["all", "some"]})
        write_queue(directory, f"{topic}:all", [held[:3], held[3:5]])
        write_queue(directory, f"{topic}:some", [held[2:5]])
        write_queue(directory, topic, [held[5:]])
        ending = Ending(step)
        with monkeypatch.context() as patched:
            patched.setattr(ImportClient, "_request", ending.around(ImportClient._request))
            patched.setattr(Files, "replace", ending.around(Files.replace))
            patched.setattr(Files, "rename", ending.around(Files.rename))
            try:
                run_import(directory, server)
                was_ended = False
            except EndedError:
                pass
        assert run_import(directory, server)[0], step
        assert has_exactly(server, topic, "all", [b"m0", b"m1", b"m2", b"m3", b"m4", b"m5"]), step
        assert has_exactly(server, topic, "some", [b"m2", b"m3", b"m4", b"m5"]), step
        assert {path.name for path in directory.iterdir()} == {IMPORTED_NAME, STATE_NAME}
    assert step > 15


@pytest.mark.slow(reason="starts processes")
def test_kill_9_at_any_request_loses_nothing_and_repeats_nothing(tmp_path: Path, server: RunningEngine) -> None:
    """One directory, one import after the other, each killed some requests further on, until one comes to its end."""
    expected = make_orders(tmp_path, "killed")
    statuses = []
    for request in range(4, 100, 9):
        program = f"""
import os, signal, sys
from queue_engine.daemon.nsqd_import.import_client import ImportClient
sys.argv = ["penstock", "import_nsqd", {str(tmp_path)!r}, "--url", {url_of(server)!r}]
ask, count = ImportClient._request, [0]
def asked(*given):
    count[0] += 1
    if count[0] == {request}:
        os.kill(os.getpid(), signal.SIGKILL)
    answer = ask(*given)
    if count[0] == {request + 2}:
        os.kill(os.getpid(), signal.SIGKILL)
    return answer
ImportClient._request = asked
from admin_console.management.entry import main
main()
"""
        environment = {name: text for name, text in os.environ.items() if not name.startswith(("PENSTOCK_", "DJANGO_"))}
        done = subprocess.run(
            [sys.executable, "-c", program], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120
        )
        statuses.append(done.returncode)
        if done.returncode != -signal.SIGKILL:
            assert done.returncode == 0, done.stderr
            assert done.stdout.endswith(f"All messages of {tmp_path} are imported\n")
            break
    assert statuses.count(-signal.SIGKILL) >= 2
    for channel, bodies in expected.items():
        assert has_exactly(server, "killed", channel, bodies), channel


def test_damaged_and_foreign_files_are_named_and_left_where_they_are(tmp_path: Path, server: RunningEngine) -> None:
    held = messages(6)
    write_metadata(tmp_path, {"hurt": ["c"], "sound": ["c"]})
    write_queue(tmp_path, "hurt:c", [held[:3], held[3:]])
    write_queue(tmp_path, "sound:c", [held[:1]])
    damaged = tmp_path / "hurt:c.diskqueue.000000.dat"
    data = bytearray(damaged.read_bytes())
    data[len(held[0].record)] = 0x7F
    damaged.write_bytes(data)
    foreign = {"README": b"mine", "sound:c.diskqueue.000009.dat.bad": b"old", "gone.diskqueue.000000.dat": b"x"}
    for name, content in foreign.items():
        (tmp_path / name).write_bytes(content)
    is_complete, lines = run_import(tmp_path, server)
    assert not is_complete
    assert lines[-1] == (
        "belongs to no topic, and is left as it is: README, gone.diskqueue.000000.dat, sound:c.diskqueue.000009.dat.bad"
    )
    assert "topic hurt: left as it is, since a part of it can't be read: hurt:c.diskqueue.000000.dat" in lines
    assert has_exactly(server, "hurt", "c", [b"m0", b"m2", b"m3", b"m4", b"m5"])
    assert has_exactly(server, "sound", "c", [b"m0"])
    assert damaged.read_bytes() == data
    assert {name: (tmp_path / name).read_bytes() for name in foreign} == foreign
    # Again: nothing comes twice.
    assert not run_import(tmp_path, server)[0]
    assert server.channel_stats("hurt", "c")["depth"] == 0


def test_a_directory_that_nsqd_or_a_server_holds_is_refused(tmp_path: Path, server: RunningEngine) -> None:
    write_metadata(tmp_path, {"orders": []})
    with (
        DirectoryLock(str(tmp_path)),
        pytest.raises(DirectoryLockedError, match="possibly in use by another instance of penstock or nsqd"),
    ):
        run_import(tmp_path, server)
    assert [path.name for path in tmp_path.iterdir()] == ["nsqd.dat"]


def test_a_directory_without_nsqds_file_is_refused(tmp_path: Path, server: RunningEngine) -> None:
    with pytest.raises(NsqdImportError, match=r"has no nsqd\.dat: it is no directory of nsqd"):
        run_import(tmp_path, server)
    assert list(tmp_path.iterdir()) == []


def test_a_directory_that_is_imported_is_imported_again_without_an_error(tmp_path: Path, server: RunningEngine) -> None:
    """As after a kill right behind the last step."""
    write_metadata(tmp_path, {"twice": ["c"]})
    write_queue(tmp_path, "twice:c", [messages(2)])
    assert run_import(tmp_path, server)[0]
    assert run_import(tmp_path, server) == (True, [])
    assert server.channel_stats("twice", "c")["depth"] == 2
    # What nobody knows is named then, too.
    (tmp_path / "twice:c.diskqueue.000000.dat").write_bytes(b"")
    assert run_import(tmp_path, server) == (
        False,
        ["belongs to no topic, and is left as it is: twice:c.diskqueue.000000.dat"],
    )


def test_a_topic_whose_files_changed_since_its_import_began_is_refused(
    tmp_path: Path, server: RunningEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_metadata(tmp_path, {"changed": ["c"]})
    write_queue(tmp_path, "changed:c", [messages(3)])
    with monkeypatch.context() as patched:
        patched.setattr(ImportClient, "write", Ending(1).around(ImportClient.write))
        with pytest.raises(EndedError):
            run_import(tmp_path, server)
    write_queue(tmp_path, "changed:c", [messages(3), messages(1, first=3)])
    is_complete, lines = run_import(tmp_path, server)
    assert not is_complete
    assert "its files are others than when its import began, so a server ran in between" in lines[0]
    assert server.channel_stats("changed", "c")["depth"] == 0


def test_a_topic_that_can_t_be_imported_does_not_keep_the_others(tmp_path: Path, server: RunningEngine) -> None:
    """One is a disk queue on the server, one is paused there, one has a message that is larger than it takes."""
    server.http("POST", "/topic/create?topic=queue&storage=diskqueue")
    server.http("POST", "/topic/create?topic=paused")
    server.http("POST", "/topic/pause?topic=paused")
    write_metadata(tmp_path, {"queue": [], "paused": [], "large": [], "fine": ["c"]})
    for topic in ("queue", "paused", "large"):
        write_queue(tmp_path, topic, [messages(1)])
    write_queue(tmp_path, "large", [[StoredMessage(bytes(2 << 20))]])
    write_queue(tmp_path, "fine:c", [messages(1)])
    is_complete, lines = run_import(tmp_path, server)
    assert not is_complete
    refused = {line.split()[1]: line for line in lines if "is left as it is" in line}
    assert set(refused) == {"queue", "paused", "large"}
    assert "it is paused on the server" in refused["paused"]
    assert has_exactly(server, "fine", "c", [b"m0"])
    assert (tmp_path / "nsqd.dat").exists()


def test_channels_of_a_topic_that_is_refused_half_way_go_on_with_what_they_had(
    tmp_path: Path, server: RunningEngine
) -> None:
    """The third message is larger than the server takes: no channel gets one that it did not have, and none waits."""
    held = messages(4)
    held[2] = StoredMessage(bytes(2 << 20), held[2].id)
    write_metadata(tmp_path, {"half": ["all", "none", "some", "still"]}, paused=["half/still"])
    for channel, had in {"all": held, "none": held[3:], "some": held[1:], "still": held}.items():
        write_queue(tmp_path, f"half:{channel}", [had])
    is_complete, lines = run_import(tmp_path, server)
    assert not is_complete
    assert "topic half is left as it is: " in lines[0]
    assert {one["channel_name"]: one["paused"] for one in server.topic_stats("half")["channels"]} == {
        "all": False,
        "none": False,
        "some": False,
        "still": True,
    }
    assert has_exactly(server, "half", "all", [b"m0", b"m1"])
    assert has_exactly(server, "half", "some", [b"m1"])
    assert has_exactly(server, "half", "none", [])


def test_a_pause_by_an_operator_during_an_import_stays(
    tmp_path: Path, server: RunningEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_metadata(tmp_path, {"held-by-hand": ["c"]})
    write_queue(tmp_path, "held-by-hand:c", [messages(1)])
    write = ImportClient.write

    def paused(*given: Any, **named: Any) -> Any:
        server.http("POST", "/channel/pause?topic=held-by-hand&channel=c&reason=repair")
        return write(*given, **named)

    with monkeypatch.context() as patched:
        patched.setattr(ImportClient, "write", paused)
        assert run_import(tmp_path, server)[0]
    assert server.channel_stats("held-by-hand", "c")["pause"]["reason"] == "repair"


def test_channels_that_stay_paused_since_the_server_is_gone_are_named_and_the_next_run_resumes_them(
    tmp_path: Path, server: RunningEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_metadata(tmp_path, {"cut-off": ["c", "d"]})
    write_queue(tmp_path, "cut-off:c", [messages(2)])
    lines: list[str] = []

    def gone(*given: Any, **named: Any) -> Any:
        raise EngineUnreachableError("it was not answered")

    def write(*given: Any, **named: Any) -> Any:
        monkeypatch.setattr(ImportClient, "_request", gone)
        return gone()

    with (
        monkeypatch.context() as patched,
        ImportClient(url_of(server)) as client,
        NsqdImport(str(tmp_path), client, lines.append) as nsqd_import,
    ):
        patched.setattr(ImportClient, "write", write)
        with pytest.raises(EngineUnreachableError):
            nsqd_import.run()
    monkeypatch.undo()
    sentence = "topic cut-off: channel {} may stay paused until the topic is imported: it was not answered"
    assert lines == [sentence.format("c"), sentence.format("d")]
    assert [one["paused"] for one in server.topic_stats("cut-off")["channels"]] == [True, True]
    assert run_import(tmp_path, server)[0]
    assert [one["paused"] for one in server.topic_stats("cut-off")["channels"]] == [False, False]
    assert has_exactly(server, "cut-off", "c", [b"m0", b"m1"])
    assert has_exactly(server, "cut-off", "d", [])


@pytest.mark.parametrize("kind", [ValueError, OSError])
def test_an_error_of_any_kind_costs_the_one_topic_and_leaves_nothing_paused(
    tmp_path: Path, server: RunningEngine, monkeypatch: pytest.MonkeyPatch, kind: type[Exception]
) -> None:
    first, second = f"{kind.__name__}-1", f"{kind.__name__}-2"
    write_metadata(tmp_path, {first: ["c"], second: ["c"]})
    for topic in (first, second):
        write_queue(tmp_path, f"{topic}:c", [messages(2)])
    write = ImportClient.write

    def failing(client: ImportClient, topic: str, *given: Any, **named: Any) -> Any:
        if topic == first:
            raise kind("on purpose")
        return write(client, topic, *given, **named)

    with monkeypatch.context() as patched:
        patched.setattr(ImportClient, "write", failing)
        is_complete, lines = run_import(tmp_path, server)
    assert not is_complete
    assert lines[0].startswith(f"topic {first} is left as it is: ")
    assert "on purpose" in lines[0]
    assert not server.channel_stats(first, "c")["paused"]
    assert has_exactly(server, second, "c", [b"m0", b"m1"])
    assert run_import(tmp_path, server)[0]
    assert has_exactly(server, first, "c", [b"m0", b"m1"])


def test_a_topic_that_is_paused_while_it_is_copied_is_copied_again(
    tmp_path: Path, server: RunningEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A message that was not passed on can't be finished by a channel that did not have it."""
    held = messages(3)
    write_metadata(tmp_path, {"halted": ["all", "some"]})
    write_queue(tmp_path, "halted:all", [held])
    write_queue(tmp_path, "halted:some", [held[2:]])
    write = ImportClient.write

    def paused(*given: Any, **named: Any) -> Any:
        server.http("POST", "/topic/pause?topic=halted")
        return write(*given, **named)

    with monkeypatch.context() as patched:
        patched.setattr(ImportClient, "write", paused)
        is_complete, lines = run_import(tmp_path, server)
    assert not is_complete
    assert "2 messages that channel some did not have can't be finished there: " in lines[0]
    server.http("POST", "/topic/unpause?topic=halted")
    assert run_import(tmp_path, server)[0]
    assert has_exactly(server, "halted", "all", [b"m0", b"m1", b"m2"])
    assert has_exactly(server, "halted", "some", [b"m2"])


def test_a_server_that_does_not_answer_changes_nothing(tmp_path: Path, server: RunningEngine) -> None:
    make_orders(tmp_path, "nobody")
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(EngineUnreachableError, match=r"POST http://127\.0\.0\.1:1/topic/create"):
        run_import(tmp_path, server, ImportClient("http://127.0.0.1:1"))
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_a_topic_that_was_made_anew_on_the_server_is_refused(
    tmp_path: Path, server: RunningEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_metadata(tmp_path, {"anew": ["c"]})
    write_queue(tmp_path, "anew:c", [messages(3)])
    with monkeypatch.context() as patched:
        patched.setattr(ImportClient, "write", Ending(1).around(ImportClient.write))
        with pytest.raises(EndedError):
            run_import(tmp_path, server)
    server.http("POST", "/topic/delete?topic=anew")
    is_complete, lines = run_import(tmp_path, server)
    assert not is_complete
    assert "is left as it is" in lines[0]
    state = orjson.loads((tmp_path / STATE_NAME).read_bytes())
    assert state["topics"]["anew"]["state"] == "begun"


def test_a_directory_without_topics_is_imported(tmp_path: Path, server: RunningEngine) -> None:
    write_metadata(tmp_path, {})
    assert run_import(tmp_path, server) == (True, [])
    assert [path.name for path in tmp_path.iterdir()] == [IMPORTED_NAME]


@pytest.mark.parametrize("deleted", ["topic/delete?topic={}", "channel/delete?topic={}&channel=c"])
def test_what_was_deleted_on_the_server_after_it_was_copied_keeps_no_file_back(
    tmp_path: Path, server: RunningEngine, monkeypatch: pytest.MonkeyPatch, deleted: str
) -> None:
    topic = deleted.partition("/")[0] + "-gone"
    write_metadata(tmp_path, {topic: ["c"]})
    write_queue(tmp_path, f"{topic}:c", [messages(3)])
    with monkeypatch.context() as patched:
        patched.setattr(ImportClient, "unpause", Ending(1).around(ImportClient.unpause))
        with pytest.raises(EndedError):
            run_import(tmp_path, server)
    server.http("POST", "/" + deleted.format(topic))
    assert run_import(tmp_path, server)[0]
    assert not (tmp_path / "nsqd.dat").exists()
