"""A full disk: publishes to the log are refused and say why, everything that helps goes on, and so does the log."""

import errno
import os
import re
from pathlib import Path

import pytest

from queue_engine.delivery.stats import ActRecord
from queue_engine.engine.engine import Engine
from queue_engine.storage.disk_queue.closing import Closing
from queue_engine.vocabulary.clock import NS_PER_S
from queue_engine.vocabulary.errors import NoRoomError, StorageError, TopologyError, TrashNotFoundError
from queue_engine.wire.trash import FreedBytes
from tests.support.clock import ManualClock
from tests.support.disks.files import FaultyFiles
from tests.support.engine import Client, make_engine, make_topic, pass_time, settle
from tests.support.topology import written

MIB = 1 << 20


class TakesNoTopology(FaultyFiles):
    """A disk that is full when `topology.json` is to be replaced; what else a stop writes makes room for itself."""

    refuses = False

    def replace(self, path: str, data: bytes) -> None:
        if self.refuses and path.endswith("topology.json"):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        super().replace(path, data)


def test_a_stop_tries_five_seconds_to_write_the_topology_and_loses_nothing_without(tmp_path: Path) -> None:
    files, clock = TakesNoTopology(), ManualClock()
    engine = make_engine(tmp_path, clock, files=files)
    engine.acts.create_topic("orders")
    engine.acts.create_channel("orders", "billing")
    engine.publish("orders", [b"kept"])
    settle(engine)
    files.refuses, tries = True, 0

    def stop() -> None:
        nonlocal tries
        for progress in engine.closing(Closing(patience_ns=60 * NS_PER_S)):
            tries += "topology.json" in progress.reason
            clock.advance(ms=1_000)

    with pytest.raises(StorageError, match=r"topology.json can't be written: .*No space left on device"):
        stop()
    assert tries == 5
    again = make_engine(tmp_path, clock)
    assert Client(again, "orders", "billing", ready=10).bodies == [b"kept"]
    again.close()


def test_the_space_is_made_by_the_acts_of_operators_alone(tmp_path: Path) -> None:
    files, clock = FaultyFiles(), ManualClock()
    engine = make_engine(
        tmp_path, clock, files=files, log_segment_bytes=MIB, max_body_size=MIB // 16, max_msg_size=MIB // 16
    )
    engine.acts.create_topic("orders")
    engine.acts.create_channel("orders", "billing")
    engine.acts.create_channel("orders", "archive")
    pass_time(engine, clock, 3_000)
    files.bytes_free = 12 * MIB
    taken = 0
    for _ in range(1_000):
        ticket = engine.publish("orders", [b"x" * 50_000])
        settle(engine)
        if ticket.error is not None:
            break
        taken += 1
    assert isinstance(ticket.error, StorageError)
    assert "publish refused, the disk is full (" in str(ticket.error)
    assert engine.stats.health.startswith("NOK - ")
    assert 100 < taken < 1_000
    pass_time(engine, clock, 100)
    # What is there is delivered and finished, and operators can act.
    client = Client(engine, "orders", "billing", ready=5)
    assert client.finish(*[one.id for one in client.sink.received]) == []
    for act in ("pause_channel", "unpause_channel"):
        assert getattr(engine.acts, act)("orders", "archive")[1].error is None
    engine.publish("orders", [b"no"])
    settle(engine)
    assert engine.catalog.channel("orders", "archive").backlog.depth == taken
    client.leave()
    for channel in ("billing", "archive"):
        assert engine.acts.empty_channel("orders", channel)[1].error is None
    for _ in range(5):
        pass_time(engine, clock, 1_000)
    ticket = engine.publish("orders", [b"goes on"])
    settle(engine)
    assert ticket.error is None
    assert engine.stats.health == "OK"
    files.bytes_free = None
    engine.close()
    again = make_engine(tmp_path, clock)
    assert Client(again, "orders", "archive", ready=10).bodies == [b"goes on"]


def publish_until_full(engine: Engine, clock: ManualClock) -> None:
    for _ in range(1_000):
        ticket = engine.publish("orders", [b"x" * 50_000])
        settle(engine)
        if ticket.error is not None:
            break
    assert isinstance(ticket.error, NoRoomError)
    pass_time(engine, clock, 100)


def freed_by_emptying(engine: Engine, *channels: str) -> FreedBytes:
    emptied = {"orders": channels or ("billing",), "gone": ("billing",)}
    return engine.trash.freed_by(emptied, own_too=False, channels_too=False, readers_too=False)


@pytest.mark.parametrize("sync", ["always", "interval", "os"])
@pytest.mark.parametrize("act", ["empty", "finish", "delete"])
def test_messages_in_the_segment_that_is_still_written_make_room(tmp_path: Path, act: str, sync: str) -> None:
    files, clock = FaultyFiles(), ManualClock()
    engine = make_engine(tmp_path, clock, files=files, sync=sync)
    make_topic(engine, "orders", "billing")
    pass_time(engine, clock, 3_000)
    files.bytes_free = 12 * MIB
    publish_until_full(engine, clock)
    assert len(list((tmp_path / "log" / "segments").glob("*.log"))) == 1
    # What is freed is known before.
    assert 9 * MIB <= freed_by_emptying(engine).bytes <= 12 * MIB
    if act == "empty":
        assert engine.acts.empty_channel("orders", "billing")[1].error is None
    elif act == "delete":
        assert engine.acts.delete_topic("orders")[1].error is None
    else:
        client = Client(engine, "orders", "billing", ready=1_000)
        assert client.finish(*[one.id for one in client.sink.received]) == []
        client.leave()
    for _ in range(6):
        pass_time(engine, clock, 1_000)
    ticket = engine.publish("orders", [b"goes on"])
    settle(engine)
    assert ticket.error is None
    assert engine.stats.health == "OK"
    files.abandon()  # killed
    again = make_engine(tmp_path, clock)
    assert Client(again, "orders", "billing", ready=10).bodies == [b"goes on"]
    assert again.warnings == []
    again.close()


def test_a_full_log_keeps_its_segment_while_a_channel_needs_it(tmp_path: Path) -> None:
    files, clock = FaultyFiles(), ManualClock()
    engine = make_engine(tmp_path, clock, files=files)
    make_topic(engine, "orders", "billing", "archive")
    pass_time(engine, clock, 3_000)
    files.bytes_free = 12 * MIB
    publish_until_full(engine, clock)
    assert freed_by_emptying(engine) == FreedBytes(0, "orders")
    assert freed_by_emptying(engine, "billing", "archive").bytes >= 9 * MIB, "of both together"
    outcome, ticket = engine.acts.empty_channel("orders", "billing")
    assert ticket.error is None
    for _ in range(6):
        pass_time(engine, clock, 1_000)
    # The trash is left alone, too: it would free nothing.
    assert [one.restorable for one in engine.trash.list()] == [outcome.depth]
    publish_until_full(engine, clock)
    assert engine.catalog.channel("orders", "archive").backlog.depth == outcome.depth
    files.bytes_free = None
    engine.close()


def test_acts_go_on_where_another_program_fills_the_disk_and_nothing_is_published(tmp_path: Path) -> None:
    """The first that finds no room gives the reserve up; publishes are refused before, and do not take it."""
    files, clock = FaultyFiles(), ManualClock()
    engine = make_engine(tmp_path, clock, files=files)
    make_topic(engine, "orders", "billing")
    for _ in range(6):
        pass_time(engine, clock, 1_000)
    reserve = tmp_path / "log" / "progress" / "reserve"
    assert reserve.exists()
    files.bytes_free = 0
    for _ in range(3):
        for act in ("pause_channel", "unpause_channel"):
            assert getattr(engine.acts, act)("orders", "billing")[1].error is None
    assert not reserve.exists()
    ticket = engine.publish("orders", [b"takes no room of the acts"])
    settle(engine)
    assert isinstance(ticket.error, NoRoomError)
    assert engine.stats.health.startswith("NOK - ")
    files.bytes_free = None
    for _ in range(3):
        pass_time(engine, clock, 1_000)
    ticket = engine.publish("orders", [b"goes on"])
    settle(engine)
    assert ticket.error is None
    assert engine.stats.health == "OK"
    engine.close()
    again = make_engine(tmp_path, clock)
    assert Client(again, "orders", "billing", ready=10).bodies == [b"goes on"]


def test_after_a_fault_of_the_disk_the_log_takes_nothing_and_gives_what_it_has(tmp_path: Path) -> None:
    files, clock = FaultyFiles(), ManualClock()
    engine = make_engine(tmp_path, clock, files=files)
    engine.acts.create_topic("orders")
    engine.acts.create_channel("orders", "billing")
    engine.publish("orders", [b"kept"])
    settle(engine)
    files.fail("sync_data")
    ticket = engine.publish("orders", [b"refused"])
    settle(engine)
    assert isinstance(ticket.error, StorageError)
    assert "until the next start" in engine.stats.health
    later = engine.publish("orders", [b"refused, too"])
    settle(engine)
    assert later.error is not None
    assert Client(engine, "orders", "billing", ready=10).bodies == [b"kept"]
    with pytest.raises(StorageError):
        engine.close()
    files.abandon()
    again = make_engine(tmp_path, clock)
    # What was refused may have come to the disk all the same: the system only said that it does not know.
    assert Client(again, "orders", "billing", ready=10).bodies in ([b"kept"], [b"kept", b"refused"])


@pytest.mark.parametrize("has_reserve", [True, False])
def test_a_start_on_a_full_disk_works_but_for_publishing(tmp_path: Path, has_reserve: bool) -> None:
    clock = ManualClock()
    engine = make_engine(tmp_path, clock, log_segment_bytes=MIB, max_body_size=MIB // 16, max_msg_size=MIB // 16)
    engine.acts.create_topic("orders")
    for channel in ("billing", "archive"):
        engine.acts.create_channel("orders", channel)
    for number in range(50):
        engine.publish("orders", [b"%d" % number + bytes(50_000)])
        settle(engine)
    pass_time(engine, clock, 3_000)
    engine.close()
    reserve = tmp_path / "log" / "progress" / "reserve"
    assert reserve.stat().st_size == 4 * MIB
    if not has_reserve:
        reserve.unlink()
    there = sorted((tmp_path / "log" / "segments").iterdir())
    files = FaultyFiles()
    files.bytes_free = 0
    engine = make_engine(tmp_path, clock, files=files, log_segment_bytes=MIB, max_body_size=MIB // 16)
    assert reserve.exists() is False  # it is for what follows
    assert engine.stats.health.startswith("NOK - ")
    ticket = engine.publish("orders", [b"no"])
    settle(engine)
    assert isinstance(ticket.error, NoRoomError)
    assert str(ticket.error).startswith("topic orders: publish refused, the disk is full (")
    client = Client(engine, "orders", "billing", ready=5)
    assert client.finish(*[one.id for one in client.sink.received]) == []
    client.leave()
    assert sorted((tmp_path / "log" / "segments").iterdir()) == there
    if has_reserve:
        files.bytes_free = 4 * MIB  # FaultyFiles does not know what the reserve gave back before it was asked
        pass_time(engine, clock, 1_000)
    else:
        # There is no room for a single entry: what makes room is to finish messages.
        _, ticket = engine.acts.empty_channel("orders", "archive")
        assert "No space" in str(ticket.error)
        assert engine.catalog.channel("orders", "archive").backlog.depth == 50
        for channel in ("billing", "archive"):
            client = Client(engine, "orders", channel, ready=60)
            assert client.finish(*[one.id for one in client.sink.received]) == []
            client.leave()
        for _ in range(5):
            pass_time(engine, clock, 1_000)
    _, ticket = engine.acts.empty_topic("orders", channels_too=True)
    settle(engine)
    assert (ticket.done, ticket.error) == (True, None)
    assert engine.acts.pause_channel("orders", "archive")[1].error is None
    files.bytes_free = 64 * MIB  # FaultyFiles does not know what truncating gives back
    for _ in range(3):
        pass_time(engine, clock, 1_000)
    ticket = engine.publish("orders", [b"goes on"])
    settle(engine)
    assert ticket.error is None
    assert engine.stats.health == "OK"
    engine.close()
    again = make_engine(tmp_path, clock)
    assert Client(again, "orders", "billing", ready=10).bodies == [b"goes on"]


@pytest.mark.parametrize("ending", ["stop", "kill"])
def test_a_start_without_room_for_a_seal_delivers_what_there_is_and_writes_it_later(
    tmp_path: Path, ending: str
) -> None:
    """Killed, and with a disk on which nothing is left, not even the reserve."""
    clock, files = ManualClock(), FaultyFiles()
    engine = make_engine(tmp_path, clock, files=files)
    engine.acts.create_topic("orders")
    engine.acts.create_channel("orders", "billing")
    for number in range(30):
        engine.publish("orders", [b"%02d" % number])
        settle(engine)
    files.abandon()
    (tmp_path / "log" / "progress" / "reserve").unlink(missing_ok=True)
    for number in range(2):
        files = FaultyFiles()
        files.bytes_free = 0
        engine = make_engine(tmp_path, clock, files=files)
        assert "publish refused, the disk is full (" in engine.stats.health or "No space" in engine.stats.health
        refused = engine.publish("orders", [b"no"])
        client = Client(engine, "orders", "billing", ready=100)
        settle(engine)
        assert refused.error is not None
        assert len(client.bodies) == 30
        client.leave()
        if number == 0:
            files.abandon()
    files.bytes_free = None
    for _ in range(3):
        pass_time(engine, clock, 1_000)
    ticket = engine.publish("orders", [b"goes on"])
    settle(engine)
    assert ticket.error is None
    if ending == "stop":
        engine.close()
    else:
        files.abandon()
    engine = make_engine(tmp_path, clock)
    assert not engine.warnings
    assert len(Client(engine, "orders", "billing", ready=100).bodies) == 31
    engine.close()


def test_starts_and_stops_leave_no_segments_behind(tmp_path: Path) -> None:
    clock = ManualClock()
    engine = make_engine(tmp_path, clock)
    engine.acts.create_topic("orders")
    engine.acts.create_channel("orders", "billing")
    engine.publish("orders", [b"kept"])
    settle(engine)
    engine.close()
    there = sorted((tmp_path / "log" / "segments").iterdir())
    for _ in range(5):
        make_engine(tmp_path, clock).close()
        assert sorted((tmp_path / "log" / "segments").iterdir()) == there
    engine = make_engine(tmp_path, clock)
    log = engine.stats.now().log
    assert log is not None
    assert log.recovery is not None
    assert (log.recovery.was_clean, log.recovery.scanned_records, log.recovery.damages) == (True, 0, ())
    assert Client(engine, "orders", "billing", ready=10).bodies == [b"kept"]
    engine.close()


def test_what_was_delivered_while_the_disk_was_full_counts_after_a_clean_restart(tmp_path: Path) -> None:
    files, clock = FaultyFiles(), ManualClock()
    engine = make_engine(tmp_path, clock, files=files)
    engine.acts.create_topic("orders")
    engine.acts.create_channel("orders", "billing")
    engine.publish("orders", [b"%d" % number for number in range(20)])
    settle(engine)
    files.bytes_free = 0
    (tmp_path / "log" / "progress" / "reserve").unlink()
    client = Client(engine, "orders", "billing", ready=10)
    assert [one.attempts for one in client.sink.received] == [1] * 10
    client.leave()
    pass_time(engine, clock, 1_000)
    files.bytes_free = None
    engine.close()
    engine = make_engine(tmp_path, clock)
    again = Client(engine, "orders", "billing", ready=20)
    assert sorted(one.attempts for one in again.sink.received) == [1] * 10 + [2] * 10
    engine.close()


SMALL = {"log_segment_bytes": MIB, "max_body_size": MIB // 16, "max_msg_size": MIB // 16}


@pytest.mark.parametrize("is_clean", [True, False], ids=["stopped", "killed"])
def test_topics_made_before_there_is_room_for_a_segment_are_there_after_a_restart(
    tmp_path: Path, is_clean: bool
) -> None:
    files, clock = FaultyFiles(), ManualClock()
    files.bytes_free = 4 * MIB
    engine = make_engine(tmp_path, clock, files=files, **SMALL)
    engine.acts.create_topic("orders")
    engine.acts.create_channel("orders", "billing")
    pass_time(engine, clock, 2_000)
    assert not list((tmp_path / "log" / "segments").glob("*.log"))
    if is_clean:
        engine.close()
    else:
        files.abandon()
    files = FaultyFiles()
    files.bytes_free = 4 * MIB
    engine = make_engine(tmp_path, clock, files=files, **SMALL)
    assert not written(tmp_path)["has_log"]
    files.bytes_free = None
    pass_time(engine, clock, 3_000)
    assert written(tmp_path)["has_log"], "from now on the log has to be there"
    engine.publish("orders", [b"kept"])
    settle(engine)
    engine.close()
    again = make_engine(tmp_path, clock, **SMALL)
    assert Client(again, "orders", "billing", ready=10).bodies == [b"kept"]


@pytest.mark.parametrize("is_clean", [True, False], ids=["stopped", "killed"])
def test_a_log_that_was_drained_on_a_full_disk_opens_without_a_segment(tmp_path: Path, is_clean: bool) -> None:
    clock = ManualClock()
    engine = make_engine(tmp_path, clock, **SMALL)
    engine.acts.create_topic("orders")
    engine.acts.create_channel("orders", "billing")
    for _ in range(30):
        engine.publish("orders", [b"x" * 50_000])
        settle(engine)
    pass_time(engine, clock, 6_000)
    engine.close()
    files = FaultyFiles()
    files.bytes_free = MIB
    engine = make_engine(tmp_path, clock, files=files, **SMALL)
    client = Client(engine, "orders", "billing", ready=100)
    assert client.finish(*[one.id for one in client.sink.received]) == []
    client.leave()
    for _ in range(5):
        pass_time(engine, clock, 1_000)
    assert not list((tmp_path / "log" / "segments").glob("*.log"))
    if is_clean:
        engine.close()
    else:
        files.abandon()
    engine = make_engine(tmp_path, clock, **SMALL)
    engine.publish("orders", [b"goes on"])
    settle(engine)
    engine.close()
    # A log that has messages and no segment is lost, as before.
    for segment in (tmp_path / "log" / "segments").glob("*.log"):
        segment.unlink()
    with pytest.raises(TopologyError, match="holds no segment"):
        make_engine(tmp_path, clock, **SMALL)


def test_a_log_that_can_not_be_told_whose_it_is_says_so_once_a_minute(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    clock = ManualClock()
    engine = make_engine(tmp_path, clock)
    (tmp_path / "log" / "identity" / "in the way").mkdir(parents=True)
    engine.acts.create_topic("orders")

    def told() -> int:
        return sum("identity of the log not written" in record.getMessage() for record in caplog.records)

    for _ in range(60):
        pass_time(engine, clock, 1_000)
    assert 1 <= told() <= 2
    for _ in range(240):
        pass_time(engine, clock, 1_000)
    assert 5 <= told() <= 6
    (tmp_path / "log" / "identity" / "in the way").rmdir()
    (tmp_path / "log" / "identity").rmdir()
    pass_time(engine, clock, 1_000)
    assert (tmp_path / "log" / "identity").is_file()
    engine.close()


def test_a_full_disk_takes_the_oldest_of_the_trash_and_only_as_much_as_is_needed(tmp_path: Path) -> None:
    files, clock = FaultyFiles(), ManualClock()
    engine = make_engine(
        tmp_path, clock, files=files, log_segment_bytes=MIB, max_body_size=MIB // 16, max_msg_size=MIB // 16
    )
    acts: list[ActRecord] = []
    engine.trash.on_act = acts.append
    engine.acts.create_topic("orders")
    engine.acts.create_channel("orders", "billing")
    pass_time(engine, clock, 3_000)
    files.bytes_free = 40 * MIB
    entries = []
    for _ in range(2):
        for _ in range(240):
            engine.publish("orders", [b"x" * 50_000])
            settle(engine)
        outcome, ticket = engine.acts.empty_channel("orders", "billing")
        assert ticket.error is None
        entries.append(outcome.trash)
        pass_time(engine, clock, 1_000)
    while engine.publish("orders", [b"x" * 50_000]).error is None and not engine.stats.health.startswith("NOK"):
        settle(engine)
    assert [one.id for one in engine.trash.list()] == entries[::-1]
    for _ in range(10):
        pass_time(engine, clock, 1_000)
    assert [one.id for one in engine.trash.list()] == entries[1:]
    assert engine.stats.health == "OK"
    assert [(act.action, act.topic, act.channel, act.via) for act in acts] == [
        ("give_up_trash", "orders", "billing", "timer")
    ]
    outcome, ticket = engine.trash.restore_trash("orders", trash=entries[1])
    assert ticket.error is None
    assert outcome.depth == 240
    with pytest.raises(TrashNotFoundError, match="given up for room"):
        engine.trash.restore_trash("orders", trash=entries[0])


def test_disk_queues_say_that_the_disk_is_full_for_as_long_as_it_is(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "queue_engine.storage.disk_queue")
    files, clock = FaultyFiles(), ManualClock()
    engine = make_engine(tmp_path, clock, files=files, storage="diskqueue", mem_queue_size=0)
    for topic in ("orders", "quick#ephemeral"):
        engine.acts.create_topic(topic)
    engine.publish("orders", [b"taken"])
    pass_time(engine, clock, 3_000)
    for others_publish in (True, False):
        files.bytes_free = 10_000
        ticket = engine.publish("orders", [b"x" * 50_000])
        settle(engine)
        files.bytes_free = 10_000  # FaultyFiles does not know what a cut gives back
        assert isinstance(ticket.error, NoRoomError)
        assert engine.stats.health == f"NOK - {ticket.error}"
        # What needs no disk says nothing about it, and neither do trials without success.
        if others_publish:
            engine.publish("quick#ephemeral", [b"taken"])
        for _ in range(3):
            pass_time(engine, clock, 1_000)
        assert engine.stats.health == f"NOK - {ticket.error}"
    files.bytes_free = 60_000
    pass_time(engine, clock, 999)
    assert engine.stats.health.startswith("NOK - ")
    # With no publish at all: who balances publishes by the health would send none.
    pass_time(engine, clock, 1)
    assert engine.stats.health == "OK"
    told = [record.getMessage() for record in caplog.records]
    path = tmp_path / "orders.diskqueue.000000.dat"
    assert re.fullmatch(
        rf"disk queues refuse for want of room: cannot write \d+ bytes to {re.escape(str(path))}: No space left on "
        "device. Nothing was stored. Finishing, emptying and deleting go on; publishing goes on by itself once there "
        "is room",
        told[0],
    )
    assert told[-1] == f"disk queues go on: there is room again in {tmp_path}"
    assert len(told) == 2
    assert not list(tmp_path.glob("room*"))
    files.heal()
    engine.close()


@pytest.mark.parametrize("max_bytes_per_file", [MIB // 4, 4 * MIB])
def test_what_consumers_finish_makes_room_on_a_disk_that_disk_queues_have_filled(
    tmp_path: Path, max_bytes_per_file: int
) -> None:
    files, clock = FaultyFiles(), ManualClock()
    engine = make_engine(
        tmp_path, clock, files=files, storage="diskqueue", mem_queue_size=10, max_bytes_per_file=max_bytes_per_file
    )
    engine.acts.create_topic("orders")
    bodies = [b"%03d" % number + bytes(10_000) for number in range(200)]
    for body in bodies:  # no channel has them yet: they are in the topic's own files
        engine.publish("orders", [body])
    pass_time(engine, clock, 3_000)
    engine.acts.create_channel("orders", "billing")
    files.bytes_free, files.is_overwriting_free = 0, True
    pass_time(engine, clock, 3_000)
    ticket = engine.publish("orders", [bytes(10_000)])
    settle(engine)
    assert isinstance(ticket.error, NoRoomError)
    assert engine.stats.health.startswith("NOK - ")
    client = Client(engine, "orders", "billing", ready=20)
    received: list[bytes] = []
    for _ in range(400):
        pass_time(engine, clock, 1_000)
        arrived = client.sink.received[len(received) :]
        received += [one.body for one in arrived]
        assert client.finish(*[one.id for one in arrived]) == []
    assert received == bodies
    assert sum(path.stat().st_size for path in tmp_path.glob("*.diskqueue.*.dat")) < MIB // 2
    assert engine.stats.health == "OK"
    ticket = engine.publish("orders", [b"goes on"])
    settle(engine)
    assert ticket.error is None
    files.heal()
    engine.close()
