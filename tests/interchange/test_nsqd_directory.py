"""nsqd's data directory is taken over as it is, and given back: several files, a half-read one, damage, pauses."""

import struct
from pathlib import Path

import pytest

from queue_engine.engine.engine import Engine
from queue_engine.engine.topology.files import TopologyFiles
from queue_engine.storage.disk.files import Files
from tests.support.clock import ManualClock
from tests.support.engine import Client, make_engine, settle
from tests.support.nsqd_directory import (
    StoredMessage,
    messages,
    read_metadata,
    read_queue,
    write_metadata,
    write_queue,
)
from tests.support.topology import file_of


def start(directory: Path, **options: object) -> Engine:
    """An engine as the daemon has it."""
    options.setdefault("storage", "diskqueue")
    return make_engine(directory, ManualClock(), **options)


def bodies_of(engine: Engine, topic: str, channel: str) -> list[bytes]:
    """Takes all that waits, and leaves it in flight."""
    client = Client(engine, topic, channel, ready=2_500)
    settle(engine)
    return client.bodies


def names(directory: Path) -> set[str]:
    return {path.name for path in directory.iterdir()}


# From nsqd.


def test_several_files_and_a_half_read_one_are_read_on(tmp_path: Path) -> None:
    held = messages(9)
    write_metadata(tmp_path, {"orders": ["billing", "mail"]})
    write_queue(tmp_path, "orders:billing", [held[:4], held[4:7], held[7:]], read=3, first_file=5)
    write_queue(tmp_path, "orders:mail", [held[:2]], read=2)
    engine = start(tmp_path)
    assert engine.catalog.channel("orders", "billing").backlog.depth == 6
    assert engine.catalog.channel("orders", "mail").backlog.depth == 0
    client = Client(engine, "orders", "billing", ready=100)
    assert [(one.body, one.id, one.timestamp_ns) for one in client.sink.received] == [
        (one.body, one.id, one.timestamp_ns) for one in held[3:]
    ]


def test_attempts_are_those_that_nsqd_stored(tmp_path: Path) -> None:
    write_metadata(tmp_path, {"orders": ["billing"]})
    write_queue(tmp_path, "orders:billing", [[StoredMessage(b"again", attempts=3)]])
    client = Client(start(tmp_path), "orders", "billing", ready=1)
    assert [(one.body, one.attempts) for one in client.sink.received] == [(b"again", 4)]


def test_what_waits_at_a_topic_goes_to_its_channels(tmp_path: Path) -> None:
    write_metadata(tmp_path, {"orders": ["billing", "mail"]})
    write_queue(tmp_path, "orders", [messages(3)])
    engine = start(tmp_path)
    settle(engine)
    assert bodies_of(engine, "orders", "billing") == bodies_of(engine, "orders", "mail") == [b"m0", b"m1", b"m2"]


def test_paused_topics_and_channels_stay_paused(tmp_path: Path) -> None:
    write_metadata(tmp_path, {"orders": ["billing", "mail"], "held": ["c"]}, paused=["held", "orders/mail"])
    write_queue(tmp_path, "held", [messages(2)])
    write_queue(tmp_path, "orders:mail", [messages(2)])
    engine = start(tmp_path)
    settle(engine)
    assert (engine.catalog.topic("held").store.depth, engine.catalog.channel("held", "c").backlog.depth) == (2, 0)
    assert bodies_of(engine, "orders", "mail") == []
    engine.close()
    assert read_metadata(tmp_path) == (
        {"orders": ["billing", "mail"], "held": ["c"]},
        ["held", "orders/mail"],
    )
    assert [one.body for one in read_queue(tmp_path, "held")] == [b"m0", b"m1"]


def test_ephemeral_names_and_files_of_no_topic_are_left_alone(tmp_path: Path) -> None:
    write_metadata(tmp_path, {"orders": ["billing", "tail#ephemeral"], "gone#ephemeral": ["c"], "bad name": []})
    write_queue(tmp_path, "orphan:c", [messages(2)])
    strangers = {"orders:billing.diskqueue.000001.dat.bad": b"damaged", "README": b"mine", "nsqd.1.dat": b"old"}
    for name, data in strangers.items():
        (tmp_path / name).write_bytes(data)
    engine = start(tmp_path)
    assert {name: sorted(topic.channels) for name, topic in engine.topics.items()} == {"orders": ["billing"]}
    engine.close()
    assert read_metadata(tmp_path) == ({"orders": ["billing"]}, [])
    assert {name: (tmp_path / name).read_bytes() for name in strangers} == strangers
    assert [one.body for one in read_queue(tmp_path, "orphan:c")] == [b"m0", b"m1"]


@pytest.mark.parametrize(
    "damage", ["zero length", "truncated", "flipped length", "no meta file", "meta file of nonsense"]
)
def test_damage_costs_its_own_message_and_the_file_is_kept_as_bad(tmp_path: Path, damage: str) -> None:
    """nsqd gives up the rest of the file, all its messages with it."""
    held = messages(8)
    write_metadata(tmp_path, {"orders": ["billing"]})
    write_queue(tmp_path, "orders:billing", [held[:5], held[5:]])
    first = tmp_path / "orders:billing.diskqueue.000000.dat"
    meta = tmp_path / "orders:billing.diskqueue.meta.dat"
    data = bytearray(first.read_bytes())
    at = 2 * len(held[0].record)
    expected = [b"m%d" % number for number in range(8) if number != 2]
    if damage == "zero length":
        data[at : at + 4] = struct.pack(">i", 0)
    elif damage == "truncated":
        del data[-3:]
        expected = [b"m%d" % number for number in range(8) if number != 4]
    elif damage == "flipped length":
        data[at] = 0x7F
    elif damage == "no meta file":
        meta.unlink()
        expected = [one.body for one in held]
    else:
        meta.write_bytes(b"eight\n0,0\n1,0\n")
        expected = [one.body for one in held]
    first.write_bytes(data)
    engine = start(tmp_path)
    assert bodies_of(engine, "orders", "billing") == expected
    engine.close()
    is_damaged = damage in ("zero length", "truncated", "flipped length")
    assert (f"{first.name}.bad" in names(tmp_path)) == is_damaged
    assert [one.body for one in read_queue(tmp_path, "orders:billing")] == expected


# Back to nsqd.


def test_after_a_clean_stop_nsqd_finds_everything(tmp_path: Path) -> None:
    """What waits, what is in flight and what is deferred; over several files, in order; what was finished is gone."""
    held = messages(6)
    write_metadata(tmp_path, {"orders": ["billing"]})
    write_queue(tmp_path, "orders:billing", [held[:3], held[3:]], read=1)
    engine = start(tmp_path, max_bytes_per_file=1024, mem_queue_size=2)
    client = Client(engine, "orders", "billing", ready=3)
    client.finish(client.sink.received[0].id)
    bodies = [b"%0200d" % number for number in range(20)]
    engine.publish("orders", bodies)
    engine.publish("orders", [b"late"], defer_ms=60_000)
    engine.acts.create_topic("empty")
    engine.acts.create_channel("empty", "c")
    engine.acts.pause_channel("empty", "c")
    settle(engine)
    engine.close()
    assert read_metadata(tmp_path) == ({"orders": ["billing"], "empty": ["c"]}, ["empty/c"])
    left = read_queue(tmp_path, "orders:billing", max_bytes_per_file=1024)
    assert sorted(one.body for one in left) == sorted([b"m2", b"m3", b"m4", b"m5", *bodies, b"late"])
    by_body = {one.body: one for one in left}
    assert by_body[b"m2"].attempts == 1, "it was in flight"
    assert by_body[b"m5"] == held[5]
    assert [one.body for one in left if one.body in bodies] == bodies
    assert read_queue(tmp_path, "orders", max_bytes_per_file=1024) == read_queue(tmp_path, "empty:c") == []
    strange = {name for name in names(tmp_path) if ".diskqueue." in name and name.endswith((".tmp", ".bad"))}
    assert strange == set()


def test_a_directory_without_disk_queues_gets_no_file_for_nsqd(tmp_path: Path) -> None:
    engine = start(tmp_path, storage="log")
    engine.publish("orders", [b"m"])
    settle(engine)
    engine.close()
    assert "nsqd.dat" not in names(tmp_path)


def test_topics_of_the_log_are_not_told_to_nsqd(tmp_path: Path) -> None:
    engine = start(tmp_path)
    engine.acts.create_topic("orders")
    engine.acts.create_topic("kept", storage="log")
    settle(engine)
    engine.close()
    assert read_metadata(tmp_path) == ({"orders": []}, [])


def test_a_stop_that_can_t_write_nsqds_file_keeps_everything_and_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write_metadata(tmp_path, {"orders": ["billing"]})

    class NoNsqdFile(Files):
        def replace(self, path: str, data: bytes) -> None:
            if path.endswith("nsqd.dat"):
                raise OSError(28, "No space left on device")
            super().replace(path, data)

    engine = start(tmp_path, files=NoNsqdFile())
    engine.acts.create_topic("late")
    settle(engine)
    engine.close()
    assert "nsqd.dat can't be written, so nsqd would miss what was made since the start" in caplog.text
    assert sorted(start(tmp_path).topics) == ["late", "orders"]


# In turns.


def given_back(directory: Path) -> None:
    """Topics orders (billing, mail), old (c) and left (c), stopped cleanly; `left` has a message."""
    engine = start(directory, mem_queue_size=0)
    for topic, channels in {"orders": ("billing", "mail"), "old": ("c",), "left": ("c",)}.items():
        engine.acts.create_topic(topic)
        for channel in channels:
            engine.acts.create_channel(topic, channel)
    engine.publish("left", [b"m"])
    settle(engine)
    engine.close()


def nsqd_runs(directory: Path) -> None:
    """It deletes orders/mail and old, makes orders/new and made (c), pauses orders; `left` is lost from its file."""
    write_metadata(directory, {"orders": ["billing", "new"], "made": ["c"]}, paused=["orders", "made/c"])
    write_queue(directory, "made:c", [messages(2)])


def found(engine: Engine) -> dict[str, list[str]]:
    return {name: sorted(topic.channels) for name, topic in sorted(engine.topics.items())}


def test_what_nsqd_did_meanwhile_is_taken_over(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    given_back(tmp_path)
    nsqd_runs(tmp_path)
    engine = start(tmp_path)
    everything = {"left": ["c"], "made": ["c"], "orders": ["billing", "new"]}
    assert found(engine) == everything
    assert (engine.catalog.topic("orders").paused, engine.catalog.channel("made", "c").paused) == (True, True)
    assert engine.catalog.channel("made", "c").backlog.depth == 2
    told = [record.getMessage() for record in caplog.records if "nsqd" in record.getMessage()]
    assert told == [
        "nsqd ran in this directory since the last stop; its topics and channels are taken over",
        "nsqd made orders/new, made, made/c",
        "nsqd deleted orders/mail, old",
        "not in nsqd.dat, and still here, since their data files are there: left",
    ]
    numbers = [topic.number for topic in engine.topics.values()]
    numbers += [channel.number for topic in engine.topics.values() for channel in topic.channels.values()]
    assert len(set(numbers)) == len(numbers)
    # Killed here: the next start finds it all in topology.json, and nsqd's file is no news.
    caplog.clear()
    again = start(tmp_path)
    assert found(again) == everything
    assert "nsqd ran" not in caplog.text


def test_what_was_made_before_a_kill_is_not_taken_for_deleted(tmp_path: Path) -> None:
    """What it deleted of the file that it began with is gone, and what was made since stays."""
    given_back(tmp_path)
    engine = start(tmp_path)
    engine.acts.create_topic("since")
    settle(engine)
    # Killed here.
    nsqd_runs(tmp_path)
    assert found(start(tmp_path)) == {
        "left": ["c"],
        "made": ["c"],
        "orders": ["billing", "new"],
        "since": [],
    }


@pytest.mark.parametrize("is_killed", [False, True])
def test_what_nsqd_made_where_there_was_no_disk_queue_is_taken_over(tmp_path: Path, is_killed: bool) -> None:
    """Else the next stop would write a file without it, and its messages would belong to no topic."""
    engine = start(tmp_path, storage="log")
    engine.acts.create_topic("kept")
    settle(engine)
    if not is_killed:
        engine.close()
    write_metadata(tmp_path, {"orders": ["billing"]})
    write_queue(tmp_path, "orders:billing", [messages(3)])
    again = start(tmp_path)
    assert bodies_of(again, "orders", "billing") == [b"m0", b"m1", b"m2"]
    assert set(again.topics) == {"kept", "orders"}


def test_a_file_that_nsqd_left_before_the_first_start_is_no_news_later(tmp_path: Path) -> None:
    """Neither after a kill nor where an older version took the directory over, which noted no checksum."""
    write_metadata(tmp_path, {"orders": ["billing"]})
    engine = start(tmp_path)
    engine.acts.delete_channel("orders", "billing")
    engine.acts.create_topic("made")
    settle(engine)
    assert found(start(tmp_path)) == {"made": [], "orders": []}


def test_a_crash_between_nsqds_file_and_ours_is_not_taken_for_a_run_of_nsqd(tmp_path: Path) -> None:
    given_back(tmp_path)
    engine = start(tmp_path)
    engine.acts.create_topic("since")
    settle(engine)
    # The stop wrote nsqd.dat, and not topology.json.
    before = {path.name: path.read_bytes() for path in tmp_path.glob("topology*")}
    engine.close()
    for name, data in before.items():
        (tmp_path / name).write_bytes(data)
    state = TopologyFiles(str(tmp_path), Files()).read()
    assert not state.nsqd_ran
    assert {topic.name for topic in state.state.topics.values()} == {"orders", "old", "left", "since"}


def test_a_topic_of_the_log_stays_what_it_is(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    engine = start(tmp_path)
    engine.acts.create_topic("orders")
    engine.acts.create_topic("kept", storage="log")
    settle(engine)
    engine.close()
    write_metadata(tmp_path, {"orders": [], "kept": ["c"]})
    write_queue(tmp_path, "kept:c", [messages(2)])
    engine = start(tmp_path)
    assert engine.catalog.topic("kept").store.kind == "log"
    assert found(engine) == {"kept": [], "orders": []}
    assert "topic kept is of the log, and nsqd has made one of that name" in caplog.text
    engine.close()
    assert [one.body for one in read_queue(tmp_path, "kept:c")] == [b"m0", b"m1"]


def test_a_file_of_nsqds_that_can_t_be_read_is_named_and_nothing_is_changed(tmp_path: Path) -> None:
    given_back(tmp_path)
    (tmp_path / "nsqd.dat").write_bytes(b'{"topics":[{"na')
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(Exception, match=r"nsqd\.dat can't be read: .* Without that file the topics are those of"):
        start(tmp_path)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_topology_json_says_what_nsqds_file_was(tmp_path: Path) -> None:
    given_back(tmp_path)
    assert file_of(tmp_path)["nsqd"]["current"] is True
    engine = start(tmp_path, storage="log")
    engine.close()
    assert file_of(tmp_path)["nsqd"]["current"] is True
