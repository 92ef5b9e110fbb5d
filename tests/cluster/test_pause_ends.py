"""A pause with an end on a Go nsqd: the console that set it resumes, also after a restart."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from admin_console.audit.engine_acts import row_of
from admin_console.cluster.cluster import Cluster
from admin_console.gateway.fan_out import fan_out
from admin_console.gateway.gateway import DONE, FAILED, NO_AUTHOR, ActOrder, ActResult
from admin_console.gateway.node_gateway import NodeGateway
from admin_console.gateway.pause_ends import NAME, End, PauseEnds, set_pause_ends
from queue_engine.delivery.stats import ActRecord
from queue_engine.storage.disk.checked_line import encode_line
from queue_engine.vocabulary.errors import NewerFormatError
from tests.cluster.test_cluster import cluster_of
from tests.support.fake_nsqd import FakeNsqd, channel, topic
from tests.support.waiting import wait_for

HOUR_MS = 3_600_000


@dataclass
class Console:
    """A console with one nsqd. acts: of its pauses' ends. now_ms: of its clock."""

    path: Path
    cluster: Cluster
    now_ms: int = 1_700_000_000_000
    acts: list[ActRecord] = field(default_factory=list)

    @contextmanager
    def running(self, **options: Any) -> Iterator[PauseEnds]:
        ends = PauseEnds(self.path, self.cluster, self.acts.append, now_ms=lambda: self.now_ms, retry_s=0.02, **options)
        ends.start()
        set_pause_ends(ends)
        try:
            yield ends
        finally:
            set_pause_ends(None)
            ends.stop()

    def do(self, action: str, **details: Any) -> ActResult:
        (node,) = self.cluster.state.nodes
        order = ActOrder(action, "orders", "billing" if action.endswith("_channel") else "", NO_AUTHOR, details)
        (found,) = fan_out([(NodeGateway(node, self.cluster), order)])
        return found.result

    def pause(self, **details: Any) -> ActResult:
        return self.do("pause_channel", by="ada", reason="deploy", **details)


@pytest.fixture
def nsqd() -> Iterator[FakeNsqd]:
    with FakeNsqd.of(topic("orders", channel("billing", depth=3))) as fake:
        yield fake


@pytest.fixture
def console(tmp_path: Path, nsqd: FakeNsqd) -> Iterator[Console]:
    with cluster_of(tmp_path, nsqds=(nsqd,)) as cluster:
        wait_for("the node", lambda: cluster.state.answering)
        yield Console(tmp_path, cluster)


def is_paused(nsqd: FakeNsqd) -> bool:
    return bool(nsqd.channel("orders", "billing")["paused"])


def test_a_pause_ends_at_its_time_with_a_row_in_the_audit_list(console: Console, nsqd: FakeNsqd) -> None:
    with console.running() as ends:
        result = console.pause(for_ms=HOUR_MS)
        assert (result.verdict, is_paused(nsqd)) == (DONE, True)
        assert result.message.endswith(" This console ends the pause at 2023-11-14 23:13:20 UTC.")
        end = ends.of(nsqd.address, "orders", "billing")
        assert end is not None
        assert (end.until_ms, end.by, end.reason) == (console.now_ms + HOUR_MS, "ada", "deploy")
        console.now_ms += HOUR_MS
        ends.set(end)  # it looks at the clock
        wait_for("the resume", lambda: not is_paused(nsqd))
        wait_for("its row", lambda: console.acts)
        (row,) = map(row_of, console.acts)
        assert (row.action, row.actor, row.address) == ("unpause_channel", "penstock", nsqd.address)
        assert row.message == ("Resumed orders/billing: its depth was 3. The pause by ada (deploy) ended at its time.")
        assert ends.of(nsqd.address, "orders", "billing") is None


def test_a_console_that_was_away_ends_it_at_its_start_once_the_node_answers(console: Console, nsqd: FakeNsqd) -> None:
    with console.running():
        console.pause(until_ms=console.now_ms + HOUR_MS)
    console.now_ms += 2 * HOUR_MS
    nsqd.answers["/channel/unpause"] = (503, {}, b'{"message":"EXITING"}')
    with console.running():
        wait_for("tries", lambda: len([one for one in nsqd.acts if one.path == "/channel/unpause"]) > 1)
        assert (is_paused(nsqd), console.acts) == (True, [])
        del nsqd.answers["/channel/unpause"]
        wait_for("the resume", lambda: not is_paused(nsqd))
        wait_for("its row", lambda: console.acts)
        (row,) = map(row_of, console.acts)
        assert row.message.endswith("The pause by ada (deploy) ended while the server was down.")
    with console.running() as ends:
        assert ends.of(nsqd.address, "orders", "billing") is None


def test_a_resume_a_pause_without_an_end_and_a_delete_drop_it(console: Console, nsqd: FakeNsqd) -> None:
    with console.running() as ends:
        for action, details in (
            ("unpause_channel", {}),
            ("pause_channel", {"for_ms": 0}),
            ("delete_channel", {"by": "ada"}),
        ):
            console.pause(for_ms=HOUR_MS)
            assert ends.of(nsqd.address, "orders", "billing") is not None
            assert console.do(action, **details).verdict == DONE
            assert ends.of(nsqd.address, "orders", "billing") is None, action
        # Nor does a pause that was refused leave one.
        assert console.pause(for_ms=HOUR_MS).code == "CHANNEL_NOT_FOUND"
        assert ends.of(nsqd.address, "orders", "billing") is None


def test_a_pause_without_a_time_has_the_end_of_the_one_that_still_stands_alone(
    console: Console, nsqd: FakeNsqd
) -> None:
    with console.running() as ends:
        console.pause(for_ms=HOUR_MS)
        console.pause()
        (node,) = console.cluster.state.nodes
        assert ends.of(node.name, "orders", "billing") is not None
        # Another program resumes it.
        nsqd.channel("orders", "billing")["paused"] = False
        console.pause()
        assert ends.of(node.name, "orders", "billing") is None
        assert is_paused(nsqd)


def test_a_pause_whose_end_can_not_be_stored_is_not_sent(console: Console, nsqd: FakeNsqd) -> None:
    with console.running():
        (console.path / NAME).mkdir()  # no file takes its place
        result = console.pause(for_ms=HOUR_MS)
        assert (result.verdict, result.code, nsqd.acts) == (FAILED, "STORAGE_ERROR", [])
        assert "pause-ends.json can't be written" in result.message
        assert console.pause().verdict == DONE  # one without an end needs no file


@pytest.mark.parametrize("hangs_at_acts", [False, True])
def test_a_node_that_gives_no_answer_delays_no_end_of_others(hangs_at_acts: bool, tmp_path: Path) -> None:
    channels = [channel("later"), channel("sooner")]
    with (
        FakeNsqd.of(topic("orders", *channels)) as nsqd,
        FakeNsqd.of(*(topic(f"t{number}", paused=True) for number in range(10))) as dead,
        cluster_of(tmp_path, nsqds=(nsqd, dead)) as cluster,
    ):
        wait_for("both", lambda: len(cluster.state.answering) == 2)
        console = Console(tmp_path, cluster)
        since_ms = console.now_ms
        with console.running() as ends:
            for number in range(10):
                ends.set(End(dead.address, f"t{number}", "", since_ms + 1, since_ms))
            ends.set(End(nsqd.address, "orders", "later", since_ms + 3, since_ms))
            ends.set(End(nsqd.address, "orders", "sooner", since_ms + 2, since_ms))
        console.now_ms += HOUR_MS
        goes_on = threading.Event()
        if hangs_at_acts:
            dead.answers["/topic/unpause"] = lambda: str(goes_on.wait(60)).encode()
        else:
            dead.failing = (503, {}, b"{}")
        ends = PauseEnds(tmp_path, cluster, console.acts.append, now_ms=lambda: console.now_ms, retry_s=3600)
        ends.start()
        wait_for("the ends", lambda: len(nsqd.acts) == 2)
        assert [one.query["channel"] for one in nsqd.acts] == ["sooner", "later"]
        called = dead.acts if hangs_at_acts else [path for path, _ in dead.requests if "topic=" in path]
        assert len(called) == 1, "each of them takes its deadline"
        assert len([number for number in range(10) if ends.of(dead.address, f"t{number}")]) == 10
        goes_on.set()
        ends.stop()


def test_a_damaged_file_counts_as_none_and_one_of_a_newer_version_is_refused(console: Console) -> None:
    (console.path / NAME).write_bytes(b"{}\n00000000\n")
    with console.running() as ends:
        assert ends.of("n", "orders") is None
    (console.path / NAME).write_bytes(encode_line({"version": 1, "ends": [{"node": 3}]}))
    with console.running():
        pass
    (console.path / NAME).write_bytes(encode_line({"version": 2, "ends": []}))
    with pytest.raises(NewerFormatError):
        PauseEnds(console.path, console.cluster, console.acts.append).start()
