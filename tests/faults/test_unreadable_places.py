"""EIO at one place of the disk: work that needs the place waits and names it, everything else goes on."""

import json
import re
from collections.abc import Callable
from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest

from queue_engine.delivery.stats import ChannelStats
from queue_engine.engine.acts.log_acts import Target
from queue_engine.engine.engine import Engine
from queue_engine.storage.consume_queue.consume_queue import UNIT_BYTES
from queue_engine.storage.disk.files import Files
from queue_engine.vocabulary.errors import FencedError, StorageError
from tests.support.clock import ManualClock
from tests.support.disks.unreadable import UnreadablePlaces
from tests.support.engine import Client, make_engine, pass_time, settle
from tests.support.nsq_socket import NsqSocket
from tests.support.processes.engine_process import EngineProcess
from tests.support.processes.running_engine import RunningEngine
from tests.support.waiting import wait_for

pytestmark = pytest.mark.slow(reason="starts real servers")

SEGMENT_BYTES = 4 << 20
SIZES = ("--max-msg-size=150000", "--max-body-size=200000")
BODY = b"x" * 100_000
COUNT = 60  # of orders: they fill a segment and begin the next


def opened(directory: Path, clock: ManualClock) -> Engine:
    return make_engine(
        directory,
        clock,
        storage="log",
        sync="os",
        log_segment_bytes=SEGMENT_BYTES,
        samples_interval_ms=0,
        max_msg_size=1 << 20,
        max_body_size=2 << 20,
    )


def filled(directory: Path, clock: ManualClock) -> Engine:
    """Topic orders with 60 large messages that channel billing has not had and audit has, and some of topic other;
    opened anew, so that what is read comes from the files."""
    engine = opened(directory, clock)
    for channel in ("billing", "audit"):
        Client(engine, "orders", channel)
    Client(engine, "other", "all")
    for number in range(COUNT):
        engine.publish("orders", [b"%03d" % number + BODY])
        engine.publish("other", [b"%03d" % number])
        settle(engine)
    audit = Client(engine, "orders", "audit", ready=1_000)
    audit.finish(*[message.id for message in audit.sink.received])
    assert len(audit.bodies) == COUNT
    engine.close()
    return opened(directory, clock)


def segments_of(directory: Path) -> list[Path]:
    return sorted((directory / "log" / "segments").glob("*.log"))


def stats_of(engine: Engine, topic: str, channel: str) -> ChannelStats:
    (found,) = engine.stats.now(topic=topic, channel=channel, include_clients=False).topics
    return found.channels[0]


def test_only_who_needs_an_unreadable_segment_waits_and_goes_on_when_it_can_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    places, clock = UnreadablePlaces(monkeypatch), ManualClock()
    engine = filled(tmp_path, clock)
    first = segments_of(tmp_path)[0]
    places.spoil(first)
    billing = Client(engine, "orders", "billing", ready=1_000)
    stats = stats_of(engine, "orders", "billing")
    assert stats.depth == COUNT
    assert stats.oldest_ns is None
    assert f"{first} can't be read at " in stats.unreadable
    assert "Input/output error" in stats.unreadable
    assert "can't be read at " in engine.stats.health
    assert billing.bodies == []
    # Others: a channel that is past it, publishing, acts.
    audit, other = Client(engine, "orders", "audit", ready=10), Client(engine, "other", "all", ready=1_000)
    engine.publish("orders", [b"new"])
    settle(engine)
    assert audit.bodies == [b"new"]
    assert stats_of(engine, "orders", "audit").unreadable == ""
    assert stats_of(engine, "orders", "billing").depth == COUNT + 1
    assert other.bodies == []  # its messages lie in the same segment
    engine.acts.pause_channel("orders", "billing")
    engine.acts.unpause_channel("orders", "billing")
    # It is tried again, and seldom.
    failures = places.failures
    for _ in range(600):
        pass_time(engine, clock, 100)
    assert 2 <= places.failures - failures <= 60
    places.heal()
    for _ in range(110):
        pass_time(engine, clock, 100)
    assert len(billing.bodies) == COUNT + 1
    assert other.bodies == [b"%03d" % number for number in range(COUNT)]
    assert stats_of(engine, "orders", "billing").unreadable == ""
    assert engine.stats.health == "OK"
    engine.close()


def test_a_consume_queue_that_can_t_be_read_is_made_anew_from_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    places, clock = UnreadablePlaces(monkeypatch), ManualClock()
    engine = filled(tmp_path, clock)
    number = engine.topics["orders"].number
    (units,) = (tmp_path / "log" / "queues" / str(number)).glob("*.queue")
    before = units.read_bytes()
    assert len(before) == COUNT * UNIT_BYTES
    inode = units.stat().st_ino
    places.spoil(units)
    assert stats_of(engine, "orders", "billing").oldest_ns is not None
    assert places.failures == 2  # met, and met again as the rest of the file was read
    assert units.stat().st_ino != inode
    assert units.read_bytes() == before
    billing = Client(engine, "orders", "billing", ready=1_000)
    assert len(billing.bodies) == COUNT
    assert engine.stats.health == "OK"
    engine.close()


def test_due_times_that_can_t_be_read_are_made_anew_from_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    places, clock = UnreadablePlaces(monkeypatch), ManualClock()
    engine = opened(tmp_path, clock)
    Client(engine, "orders", "billing")
    for number in range(5):
        engine.publish("orders", [b"%d" % number], defer_ms=60_000 if number % 2 else 0)
    settle(engine)
    engine.close()
    (deferred,) = (tmp_path / "log" / "queues").glob("*/deferred")
    assert deferred.stat().st_size == 2 * 16
    places.spoil(deferred)
    engine = opened(tmp_path, clock)
    assert places.failures
    billing = Client(engine, "orders", "billing", ready=10)
    assert billing.bodies == [b"0", b"2", b"4"]
    billing.finish(*[message.id for message in billing.sink.received])
    pass_time(engine, clock, 61_000)
    assert billing.bodies == [b"0", b"2", b"4", b"1", b"3"]
    engine.close()


@pytest.mark.parametrize("name", ["checkpoint", "queues"])
def test_a_start_makes_derived_files_anew_that_can_t_be_read(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    places, clock = UnreadablePlaces(monkeypatch), ManualClock()
    filled(tmp_path, clock).close()
    bad = tmp_path / "log" / name
    for path in [bad] if bad.is_file() else [path for path in bad.rglob("*") if path.is_file()]:
        places.spoil(path)
    engine = opened(tmp_path, clock)
    assert places.failures
    billing, other = Client(engine, "orders", "billing", ready=1_000), Client(engine, "other", "all", ready=1_000)
    assert (len(billing.bodies), len(other.bodies)) == (COUNT, COUNT)
    assert engine.stats.health == "OK"
    engine.close()


def test_a_start_names_topology_json_when_it_can_t_read_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is changed: with the file back, all is as it was."""
    places, clock = UnreadablePlaces(monkeypatch), ManualClock()
    filled(tmp_path, clock).close()
    places.spoil(tmp_path / "topology.json")
    with pytest.raises(StorageError) as told:
        opened(tmp_path, clock)
    assert str(tmp_path / "topology.json") in str(told.value)
    assert "Input/output error" in str(told.value)
    places.heal()
    engine = opened(tmp_path, clock)
    assert stats_of(engine, "orders", "billing").depth == COUNT
    engine.close()


def progress_files(directory: Path) -> dict[str, bytes]:
    found = (directory / "log" / "progress").rglob("*")
    return {path.name: path.read_bytes() for path in found if path.is_file() and path.name != "reserve"}


@pytest.mark.parametrize("healed", ["while it runs", "before a start"])
@pytest.mark.parametrize("pattern", ["floors", "*.journal"])
def test_while_nobody_can_read_what_channels_did_they_are_fenced_and_nothing_is_written_over_it(
    pattern: str, healed: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    places, clock = UnreadablePlaces(monkeypatch), ManualClock()
    engine = filled(tmp_path, clock)
    billing = Client(engine, "orders", "billing", ready=COUNT)
    billing.finish(*[message.id for message in billing.sink.received[: COUNT - 10]])
    engine.turn()
    engine.close()
    found = list((tmp_path / "log" / "progress").glob(pattern))
    assert found
    for path in found:
        places.spoil(path)
    before = progress_files(tmp_path)
    for _ in range(2):
        engine = opened(tmp_path, clock)
        for channel in ("billing", "audit"):
            words = stats_of(engine, "orders", channel).fenced
            assert words.startswith("reading its progress failed: ")
            assert any(str(path) in words for path in found)
        assert "can't be read" in engine.stats.health
        # What is published is kept. Nothing is delivered, moved or emptied.
        billing, audit = (Client(engine, "orders", name, ready=1_000) for name in ("billing", "audit"))
        ticket = engine.publish("orders", [b"new"])
        settle(engine)
        assert (ticket.error, billing.bodies, audit.bodies) == (None, [], [])
        assert engine.acts.empty_channel("orders", "billing")[1].error is not None
        with pytest.raises(FencedError, match="trying it again failed: "):
            engine.acts.retry_channel("orders", "billing")
        # A new channel goes on.
        late = Client(engine, "orders", "late", ready=10)
        engine.publish("orders", [b"for all"])
        settle(engine)
        assert b"for all" in late.bodies
        for _ in range(30):
            pass_time(engine, clock, 1_000)
        engine.acts.delete_channel("orders", "late")
        settle(engine)
        engine.close()
        assert progress_files(tmp_path) == before
    if healed == "before a start":
        places.heal()
    engine = opened(tmp_path, clock)
    billing = Client(engine, "orders", "billing", ready=1_000)
    if healed == "while it runs":
        places.heal()
        for topic, channel in (("orders", "billing"), ("orders", "audit"), ("other", "all")):
            engine.acts.retry_channel(topic, channel)
        settle(engine)
    assert engine.stats.health == "OK"
    assert len(billing.bodies) == 10 + 4
    billing.finish(*[message.id for message in billing.sink.received])
    assert len(Client(engine, "orders", "audit", ready=1_000).bodies) == 4
    engine.close()
    engine = opened(tmp_path, clock)
    assert [stats_of(engine, "orders", channel).depth for channel in ("billing", "audit")] == [0, 4]
    engine.close()


def with_progress(directory: Path, clock: ManualClock) -> Path:
    """Channel billing has finished every other one of its 60 messages, audit all; stopped. Returns the file in which
    that stands for billing."""
    engine = filled(directory, clock)
    billing = Client(engine, "orders", "billing", ready=1_000)
    billing.finish(*[message.id for message in billing.sink.received[::2]])
    for _ in range(10):
        pass_time(engine, clock, 1_000)
    number = engine.topics["orders"].channels["billing"].number
    engine.close()
    engine = opened(directory, clock)
    for _ in range(10):
        pass_time(engine, clock, 1_000)
    assert stats_of(engine, "orders", "billing").depth == COUNT // 2
    engine.close()
    (index,) = (directory / "log" / "progress" / str(number)).glob("*.index")
    return index


@pytest.mark.parametrize("healed", ["while it runs", "before a start"])
def test_a_channel_whose_progress_can_t_be_read_is_fenced_and_no_other(
    healed: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    places, clock = UnreadablePlaces(monkeypatch), ManualClock()
    index = with_progress(tmp_path, clock)
    before = index.read_bytes()
    places.spoil(index)
    for _ in range(2):
        engine = opened(tmp_path, clock)
        words = stats_of(engine, "orders", "billing").fenced
        assert words.startswith(f"reading its progress failed: {index}")
        assert "can't be read" in words
        assert engine.stats.health.startswith("NOK - channel orders/billing is fenced: ")
        billing, audit = (Client(engine, "orders", name, ready=1_000) for name in ("billing", "audit"))
        engine.publish("orders", [b"new"])
        settle(engine)
        assert (billing.bodies, audit.bodies) == ([], [b"new"])
        audit.finish(*[message.id for message in audit.sink.received])
        for _ in range(10):
            pass_time(engine, clock, 1_000)
        with pytest.raises(FencedError, match="trying it again failed: "):
            engine.acts.retry_channel("orders", "billing")
        (aside,) = index.parent.glob("*.unread*")
        assert aside.read_bytes() == before
        engine.close()
    if healed == "before a start":
        places.heal()
    engine = opened(tmp_path, clock)
    billing = Client(engine, "orders", "billing", ready=1_000)
    if healed == "while it runs":
        places.heal()
        engine.acts.retry_channel("orders", "billing")
        settle(engine)
    assert engine.stats.health == "OK"
    assert sorted(body[:3] for body in billing.bodies) == sorted(
        [*(b"%03d" % number for number in range(1, COUNT, 2)), b"new", b"new"]
    )
    billing.finish(*[message.id for message in billing.sink.received[:-1]])
    for _ in range(10):
        pass_time(engine, clock, 1_000)
    assert not list(index.parent.glob("*.unread*"))
    engine.close()
    engine = opened(tmp_path, clock)
    assert stats_of(engine, "orders", "billing").depth == 1
    engine.close()


def test_what_a_channel_did_before_it_was_moved_back_need_not_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The index segment is older than the move, which stands in the journal alone."""
    places, clock = UnreadablePlaces(monkeypatch), ManualClock()
    index = with_progress(tmp_path, clock)
    engine = opened(tmp_path, clock)
    assert engine.acts.rewind_channel("orders", "billing", target=Target(0))[1].error is None
    settle(engine)  # and killed
    places.spoil(index)
    engine = opened(tmp_path, clock)
    assert places.failures
    assert len(Client(engine, "orders", "billing", ready=1_000).bodies) == COUNT
    assert engine.stats.health == "OK"
    engine.close()


def test_an_operator_who_removes_what_can_t_be_read_has_what_was_finished_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    places, clock = UnreadablePlaces(monkeypatch), ManualClock()
    index = with_progress(tmp_path, clock)
    places.spoil(index)
    engine = opened(tmp_path, clock)
    (aside,) = index.parent.glob("*.unread*")
    aside.unlink()
    billing = Client(engine, "orders", "billing", ready=1_000)
    assert engine.acts.retry_channel("orders", "billing")[1].error is None
    settle(engine)
    assert len(billing.bodies) > COUNT // 2
    assert engine.stats.health == "OK"
    engine.close()


@pytest.mark.parametrize("name", ["cursors", "holds"])
def test_while_nobody_can_read_what_readers_keep_the_log_keeps_all_of_it(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    places, clock = UnreadablePlaces(monkeypatch), ManualClock()
    engine = filled(tmp_path, clock)
    engine.cursors.create("orders", cursor="archive")
    lease = engine.log.lease("orders", 0, ttl_ms=3_600_000)[0]
    engine.close()
    path = tmp_path / "log" / f"{name}.json"
    before, kept = path.read_bytes(), segments_of(tmp_path)
    places.spoil(path)
    engine = opened(tmp_path, clock)
    assert f"{path} can't be read (Input/output error)" in engine.stats.health
    for topic, channel in (("orders", "billing"), ("orders", "audit"), ("other", "all")):
        consumer = Client(engine, topic, channel, ready=1_000)
        consumer.finish(*[message.id for message in consumer.sink.received])
    acts: dict[str, list[Callable[[], object]]] = {
        "cursors": [
            lambda: engine.cursors.create("orders", cursor="another"),
            lambda: engine.cursors.delete("orders", cursor="archive"),
            engine.cursors.all,
        ],
        "holds": [
            lambda: engine.log.lease("orders", 0, ttl_ms=60_000),
            lambda: engine.log.renew_leases([lease.reader.name], ttl_ms=60_000),
            lambda: engine.log.release_lease(lease.reader.name),
        ],
    }
    for act in acts[name]:
        with pytest.raises(StorageError, match="can't be read"):
            act()
    for _ in range(100):
        pass_time(engine, clock, 1_000)
    assert set(kept) <= set(segments_of(tmp_path))
    engine.close()
    assert path.read_bytes() == before
    engine = opened(tmp_path, clock)
    places.heal()
    for _ in range(11):
        pass_time(engine, clock, 1_000)
    assert engine.stats.health == "OK"
    assert [one.cursor for one in engine.cursors.all().cursors] == ["archive"]
    assert engine.log.renew_leases([lease.reader.name], ttl_ms=60_000).error is None
    engine.close()


class MistakenFiles(Files):
    """Reading one file fails with an unexpected error."""

    mistaken_path = ""

    def read_whole(self, path: str, size_max: int) -> bytes | None:
        assert path != self.mistaken_path, "a page holds 3, not 4"
        return super().read_whole(path, size_max)


def disk_queues(directory: Path, clock: ManualClock, files: Files | None = None) -> Engine:
    clock.advance(ms=1_000)  # ids are made of the time
    return make_engine(directory, clock, files=files, storage="diskqueue", mem_queue_size=1, samples_interval_ms=0)


def with_disk_queues(directory: Path, clock: ManualClock) -> None:
    """Topic orders with 20 messages in the channels billing and audit, topic held with 20 that wait at it; stopped."""
    engine = disk_queues(directory, clock)
    for topic, channel in (("orders", "billing"), ("orders", "audit"), ("held", "later")):
        Client(engine, topic, channel)
    engine.acts.pause_topic("held")
    for number in range(20):
        engine.publish("orders", [b"%d" % number])
        engine.publish("held", [b"%d" % number])
        settle(engine)
    engine.close()


NUMBERS = [b"%d" % number for number in range(20)]


@pytest.mark.parametrize("fault", ["000000.dat", "meta.dat", "unexpected"])
def test_a_channel_whose_disk_queue_can_t_be_read_at_a_start_is_fenced_and_no_other(
    fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    places, clock, files = UnreadablePlaces(monkeypatch), ManualClock(), MistakenFiles()
    with_disk_queues(tmp_path, clock)
    before = {path.name: path.read_bytes() for path in tmp_path.glob("orders:billing.*")}
    if fault == "unexpected":
        files.mistaken_path = str(tmp_path / "orders:billing.diskqueue.meta.dat")
        words = "opening its files failed: opening disk queue orders:billing failed unexpectedly: AssertionError at "
    else:
        places.spoil(tmp_path / f"orders:billing.diskqueue.{fault}")
        words = "opening its files failed: cannot open disk queue orders:billing "
    engine = disk_queues(tmp_path, clock, files)
    stats = stats_of(engine, "orders", "billing")
    assert stats.fenced.startswith(words)
    assert "nothing was changed" in stats.fenced
    assert engine.stats.health.startswith(f"NOK - channel orders/billing is fenced: {words}")
    billing, audit = (Client(engine, "orders", name, ready=1_000) for name in ("billing", "audit"))
    waiting = list(audit.bodies)
    assert sorted(waiting) == sorted(NUMBERS)
    ticket = engine.publish("orders", [b"new"])
    settle(engine)
    assert ticket.error is None
    assert (audit.bodies[-1], billing.bodies) == (b"new", [])
    with pytest.raises(FencedError, match="trying it again failed: "):
        engine.acts.retry_channel("orders", "billing")
    # Neither a stop nor another start with it changes what can't be read, or loses what came since.
    engine.close()
    engine = disk_queues(tmp_path, clock, files)
    engine.publish("orders", [b"newer"])
    settle(engine)
    now = {path.name: path.read_bytes() for path in tmp_path.glob("orders:billing.*")}
    assert {name: now[name] for name in before} == before
    places.heal()
    files.mistaken_path = ""
    billing = Client(engine, "orders", "billing", ready=1_000)
    assert engine.acts.retry_channel("orders", "billing")[1].error is None
    settle(engine)
    assert billing.bodies == [*waiting, b"new", b"newer"]
    assert engine.stats.health == "OK"
    engine.close()


def test_a_topic_whose_disk_queue_can_t_be_read_at_a_start_is_fenced_and_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    places, clock = UnreadablePlaces(monkeypatch), ManualClock()
    with_disk_queues(tmp_path, clock)
    places.spoil(tmp_path / "held.diskqueue.000000.dat")
    engine = disk_queues(tmp_path, clock)
    assert engine.stats.health.startswith(
        "NOK - topic held is fenced: opening its files failed: cannot open disk queue held "
    )
    later, audit = Client(engine, "held", "later", ready=1_000), Client(engine, "orders", "audit", ready=1_000)
    refused = engine.publish("held", [b"refused"])
    engine.acts.unpause_topic("held")
    settle(engine)
    assert isinstance(refused.error, FencedError)
    assert (later.bodies, sorted(audit.bodies)) == ([], sorted(NUMBERS))
    places.heal()
    engine.acts.retry_topic("held")
    settle(engine)
    assert sorted(later.bodies) == sorted(NUMBERS)
    engine.publish("held", [b"new"])
    settle(engine)
    assert (later.bodies[-1], engine.stats.health) == (b"new", "OK")
    engine.close()


def test_only_the_channel_of_an_unreadable_disk_queue_waits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    places, clock = UnreadablePlaces(monkeypatch), ManualClock()
    engine = make_engine(tmp_path, clock, storage="diskqueue", mem_queue_size=1, samples_interval_ms=0)
    for channel in ("billing", "audit"):
        Client(engine, "orders", channel)
    for number in range(20):
        engine.publish("orders", [b"%d" % number])
        settle(engine)
    places.spoil(tmp_path / "orders:billing.diskqueue.000000.dat")
    billing, audit = Client(engine, "orders", "billing", ready=100), Client(engine, "orders", "audit", ready=100)
    assert len(audit.bodies) == 20
    assert billing.bodies == [b"0"]  # what was in memory
    stats = stats_of(engine, "orders", "billing")
    assert (stats.depth, stats.oldest_ns) == (19, clock.time_ns()), "it knows when they were published"
    assert "orders:billing" in stats.unreadable
    assert stats_of(engine, "orders", "audit").unreadable == ""
    places.heal()
    for _ in range(20):
        pass_time(engine, clock, 1_000)
    assert len(billing.bodies) == 20
    assert engine.stats.health == "OK"
    engine.close()


def test_a_server_lives_with_an_unreadable_segment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The loops of the real thread: figures every second, the scan, sockets."""
    filled(tmp_path, ManualClock()).close()
    places = UnreadablePlaces(monkeypatch)
    first = segments_of(tmp_path)[0]
    places.spoil(first, 1 << 16)  # its head can be read: a start needs no more of it
    options: dict[str, Any] = {"log_segment_bytes": SEGMENT_BYTES, "storage": "log", "sync": "os"}
    with (
        RunningEngine(tmp_path, **options) as server,
        NsqSocket(server.tcp_port) as billing,
        NsqSocket(server.tcp_port) as audit,
    ):
        billing.subscribe("orders", "billing", rdy=1)
        audit.subscribe("orders", "audit", rdy=10)

        def unreadable() -> str:
            text: str = server.channel_stats("orders", "billing")["unreadable"]
            return text

        wait_for("the channel's word", lambda: str(first) in unreadable())
        assert server.channel_stats("orders", "billing")["oldest_age_ms"] is None
        assert server.channel_stats("orders", "billing")["depth"] == COUNT
        with closing(HTTPConnection("127.0.0.1", server.http_port)) as http:
            http.request("GET", "/ping")
            assert f"{first} can't be read at" in http.getresponse().read().decode()
        metrics = server.http("GET", "/metrics").decode()
        assert 'penstock_channel_unreadable{topic="orders",channel="billing"} 1\n' in metrics
        assert 'penstock_channel_oldest_seconds{topic="orders",channel="billing"}' not in metrics
        server.http("POST", "/pub?topic=orders", b"new")
        assert audit.read_message().body == b"new"
        made = server.snapshot
        wait_for("a newer snapshot", lambda: server.snapshot is not made)
        billing.expect_open()
        places.heal()
        assert billing.read_message(timeout_s=15).body.startswith(b"000")
        assert json.loads(server.http("GET", "/stats?format=json"))["health"] == "OK"


def test_a_start_with_an_unreadable_segment_names_it_tells_the_loss_and_starts_without_it(tmp_path: Path) -> None:
    """The real server; a directory in a file's place can be opened, and not read."""
    (tmp_path / "data").mkdir()
    filled(tmp_path / "data", ManualClock()).close()
    first, second = segments_of(tmp_path / "data")[:2]
    first.unlink()
    first.mkdir()
    flags = [f"--log-segment-bytes={SEGMENT_BYTES}", "--sync=os", "--storage=log", *SIZES]

    def refused(*more: str) -> str:
        server = EngineProcess(tmp_path / "data", options=[*flags, *more])
        with pytest.raises(RuntimeError) as told:
            server.start()
        return str(told.value)

    said = refused()
    assert f"{first} can't be read at 0: [Errno 21] Is a directory" in said
    assert f"--set-aside-segment {first.name} reports what would be lost" in said
    assert "has no such file" in refused("--set-aside-segment=none.log")
    said = refused(f"--set-aside-segment={first.name}")
    found = re.search(r"orders: (\d+) messages, offsets 0 to (\d+); other: (\d+) messages, offsets 0 to", said)
    assert found, said
    lost, of_other = int(found[1]), int(found[3])
    assert 30 < lost == int(found[2]) + 1 < COUNT
    assert f"--set-aside-segment {first.name}:{lost + of_other}" in said
    assert "5 is not the number of messages" in refused(f"--set-aside-segment={first.name}:5")
    assert first.is_dir()
    with EngineProcess(
        tmp_path / "data", options=[*flags, f"--set-aside-segment={first.name}:{lost + of_other}"]
    ) as server:
        assert first.with_name(f"{first.name}.aside").is_dir()
        assert f"lost: orders: {lost} messages" in server.log
        with NsqSocket(server.tcp_port) as billing, NsqSocket(server.tcp_port) as producer:
            billing.subscribe("orders", "billing", rdy=100)
            bodies = [billing.read_message().body[:3] for _ in range(COUNT - lost)]
            assert bodies == [b"%03d" % number for number in range(lost, COUNT)]
            producer.publish("orders", b"new")
            assert billing.read_message().body == b"new"
        assert server.stats()["log"]["recovery"]["lost_count"] == lost + of_other
        server.restart()  # the option goes on to stand there
        assert "is set aside already" in server.log
    assert second.is_file()
