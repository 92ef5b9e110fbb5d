"""The server is killed, nsqd runs on its directory, the server starts again: what each did counts.

NSQD=/usr/local/bin/nsqd .venv/bin/python -m pytest tests/interchange/test_nsqd_turns.py      with a real nsqd
"""

import itertools
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from queue_engine.engine.engine import Engine
from queue_engine.engine.topology.change_log import ChangeLog
from queue_engine.engine.topology.entries import TopicEntry
from queue_engine.engine.topology.topology import topic_created
from queue_engine.storage.disk.background import InlineBackground
from queue_engine.storage.disk.files import Files
from tests.interchange.nsqd_run import Act, Place, Places, act_on, copied, nsqd_runs
from tests.support.clock import ManualClock
from tests.support.engine import make_engine, pass_time, settle
from tests.support.nsqd_directory import read_metadata
from tests.support.processes.daemon_process import DaemonProcess
from tests.support.waiting import wait_for

runs = itertools.count()
PLACES = ("a", "b", "a/x", "a/y", "b/x")
changes = st.lists(
    st.tuples(st.sampled_from(("create", "delete", "pause", "unpause")), st.sampled_from(PLACES)), max_size=8
)
publishes = st.tuples(st.just("publish"), st.sampled_from(("a", "b")))
runs_of_nsqd = st.lists(
    st.one_of(st.tuples(st.sampled_from(("create", "delete", "pause", "unpause")), st.sampled_from(PLACES)), publishes),
    max_size=8,
)
BOTH = [("create", "a"), ("create", "a/x"), ("create", "b"), ("create", "b/x")]


def perform(engine: Engine, places: Places, acts: list[Act]) -> None:
    """Acts of the server; `places` has what it has then."""
    for act in acts:
        if act_on(places, act):
            what, path = act
            topic, _, channel = path.partition("/")
            getattr(engine.acts, f"{what}_{'channel' if channel else 'topic'}")(*filter(None, (topic, channel)))
            settle(engine)


def follow(engine: Engine, clock: ManualClock) -> None:
    """nsqd.dat is written: it takes a second at most."""
    for _ in range(10):
        pass_time(engine, clock, 100)


def expected(ours: Places, known: Places, nsqds: Places) -> Places:
    """What there is after the server's next start, by the table in `engine/topology/nsqd_file.py`. known: what the
    server noted that nsqd.dat has."""
    found: Places = {}
    for name in {*ours, *nsqds}:
        our, their, before = ours.get(name), nsqds.get(name), known.get(name)
        if our is not None and before is not None and our.generation != before.generation:
            before = None
        if their is None:
            if before is None and our is not None:
                found[name] = our.copy()
        elif our is None:
            if before is None or before.shown != their.shown or has_messages(their):
                found[name] = their.copy()
        else:
            was_paused = before is not None and before.paused
            place = found[name] = Place(their.paused if their.paused != was_paused else our.paused)
            place.waiting = [*their.waiting]
            place.channels = expected(our.channels, before.channels if before is not None else {}, their.channels)
    return found


def has_messages(place: Place) -> bool:
    return bool(place.waiting) or any(channel.waiting for channel in place.channels.values())


def shown(engine: Engine) -> dict[str, object]:
    """Of each topic whether it is paused and how much waits, and its channels likewise."""
    settle(engine)
    return {
        name: (
            topic.paused,
            topic.store.depth,
            {one: (channel.paused, channel.backlog.depth) for one, channel in topic.channels.items()},
        )
        for name, topic in engine.topics.items()
    }


def shown_places(places: Places) -> dict[str, object]:
    """The same; what waits at a topic goes to its channels when the server starts."""
    shown: dict[str, object] = {}
    for name, place in places.items():
        flows = len(place.waiting) if place.channels and not place.paused else 0
        channels = {one: (channel.paused, len(channel.waiting) + flows) for one, channel in place.channels.items()}
        shown[name] = (place.paused, len(place.waiting) - flows, channels)
    return shown


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(changes, changes, runs_of_nsqd, st.sampled_from(("killed", "stopped", "killed before nsqd.dat was noted")))
@example(BOTH, [], [("delete", "a"), ("delete", "b/x"), ("pause", "b")], "killed")
@example(BOTH, [("delete", "a"), ("pause", "b")], [("publish", "a")], "killed")
@example(BOTH, [("delete", "a"), ("create", "a")], [("delete", "a"), ("unpause", "b")], "killed")
@example([*BOTH, ("pause", "b")], [("unpause", "b"), ("delete", "a/x")], [("create", "a/y")], "killed")
def test_what_the_server_and_nsqd_did_counts_after_any_end(
    tmp_path: Path, first: list[Act], late: list[Act], nsqds: list[Act], end: str
) -> None:
    """first: acts that nsqd.dat has when the server ends; late: acts behind its last write."""
    directory, clock = tmp_path / str(next(runs)), ManualClock()
    directory.mkdir()
    engine = make_engine(directory, clock, storage="diskqueue", mem_queue_size=0)
    ours: Places = {}
    perform(engine, ours, BOTH)
    follow(engine, clock)
    known = copied(ours)
    perform(engine, ours, first)
    follow(engine, clock)
    if end != "killed before nsqd.dat was noted" or ours == known:
        known = copied(ours)
    else:
        changes_file = directory / "topology.changes"
        lines = changes_file.read_bytes().splitlines(keepends=True)
        assert b'"nsqd"' in lines.pop()
        changes_file.write_bytes(b"".join(lines))
        late = []
    given = copied(ours)
    perform(engine, ours, late)
    if end == "stopped":
        engine.close()
        known = given = copied(ours)
    assert read_metadata(directory)[0] == {name: list(place.channels) for name, place in given.items()}
    theirs = nsqd_runs(directory, nsqds)
    result = shown_places(expected(ours, known, theirs))
    again = make_engine(directory, clock, storage="diskqueue", mem_queue_size=0)
    assert shown(again) == result
    # Killed and started again: nothing of it comes twice.
    assert shown(make_engine(directory, clock, storage="diskqueue", mem_queue_size=0)) == result


def test_ten_thousand_topics_are_written_together_and_cost_ten_times_a_thousand(tmp_path: Path) -> None:
    """In processor time, and in files that are written: one for what comes within half a second."""

    class Counting(Files):
        written = 0

        def replace(self, path: str, data: bytes) -> None:
            self.written += path.endswith("nsqd.dat")
            super().replace(path, data)

    def create(count: int, name: str) -> float:
        directory, files, now_ns = tmp_path / name, Counting(), 0
        directory.mkdir()
        log = ChangeLog(str(directory), files, InlineBackground())
        log.read()
        log.begin(())
        began = time.process_time()
        for number in range(1, count + 1):
            log.append(topic_created(TopicEntry(f"topic{number}", number=number)))
            if number % 100 == 0:
                now_ns += 100_000_000
                log.tick(now_ns)
        taken = time.process_time() - began
        assert files.written == count // 600
        log.tick(now_ns + 500_000_000)
        assert len(read_metadata(directory)[0]) == count
        log.abandon()
        return taken

    small = min(create(1_200, f"small{turn}") for turn in range(3))
    assert create(12_000, "large") / small < 25


def test_a_file_for_nsqd_that_can_t_be_written_is_tried_again_and_costs_nothing_else(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    class NoNsqdFile(Files):
        refuses = True

        def replace(self, path: str, data: bytes) -> None:
            if path.endswith("nsqd.dat") and self.refuses:
                raise OSError(28, "No space left on device")
            super().replace(path, data)

    files, clock = NoNsqdFile(), ManualClock()
    engine = make_engine(tmp_path, clock, storage="diskqueue", files=files)
    perform(engine, {}, BOTH)
    follow(engine, clock)
    assert "nsqd.dat can't be written, so nsqd would miss what was made since" in caplog.text
    assert not (tmp_path / "nsqd.dat").exists()
    engine.acts.create_topic("later")
    settle(engine)
    files.refuses = False
    follow(engine, clock)
    follow(engine, clock)
    assert read_metadata(tmp_path)[0] == {"a": ["x"], "b": ["x"], "later": []}


def test_topics_of_the_log_alone_make_no_file_for_nsqd(tmp_path: Path) -> None:
    clock = ManualClock()
    engine = make_engine(tmp_path, clock, storage="log")
    perform(engine, {}, BOTH)
    follow(engine, clock)
    assert not (tmp_path / "nsqd.dat").exists()


@pytest.mark.slow(reason="starts processes")
def test_kill_9_of_the_daemon_leaves_nsqd_all_that_was_made_a_second_before(tmp_path: Path) -> None:
    with DaemonProcess(tmp_path) as server:
        for path in ("/topic/create?topic=a", "/channel/create?topic=a&channel=x", "/topic/create?topic=b"):
            server.http("POST", path)
        server.http("POST", "/channel/pause?topic=a&channel=x")

        def is_written() -> bool:
            return (tmp_path / "nsqd.dat").exists() and read_metadata(tmp_path) == ({"a": ["x"], "b": []}, ["a/x"])

        wait_for("nsqd.dat to follow", is_written)
        server.kill9()
    theirs = nsqd_runs(tmp_path, [("delete", "b"), ("create", "c"), ("publish", "c")])
    assert theirs["a"].shown == (False, {"x": True})
    with DaemonProcess(tmp_path) as server:
        found = {one["topic_name"]: one["depth"] for one in server.stats()["topics"]}
        assert found == {"a": 0, "c": 1}
        assert server.channel_stats("a", "x")["paused"]
