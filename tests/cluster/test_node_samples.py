"""Samples of other nodes: what happened on each since its sample before, whatever the node did in between."""

import copy
import logging
from pathlib import Path
from typing import Any

import orjson
import pytest

from admin_console.cluster.calls.addresses import HttpAddress
from admin_console.cluster.calls.chosen_addresses import ChosenAddresses
from admin_console.cluster.calls.options import Addresses, ClusterOptions, Pace
from admin_console.cluster.cluster import Cluster
from admin_console.cluster.reading.members import Member
from admin_console.cluster.reading.node_stats import node_stats_in
from admin_console.cluster.reading.nodes import Answers, ClusterState, Node
from admin_console.cluster.samples.node_samples import SILENCE_MAX_S, DirectorySamples, NodeSampler
from queue_engine.engine.samples.sample_format import Sample, decode_sample
from queue_engine.lake.history.sample_rows import rows_of
from queue_engine.service.http.stats import Wanted, stats_json
from queue_engine.vocabulary.clock import NS_PER_S
from queue_engine.vocabulary.errors import StorageError
from queue_engine.vocabulary.latency.latency_buckets import bucket_of
from queue_engine.vocabulary.names import SAMPLES_TOPIC
from queue_engine.vocabulary.options.options import Options
from queue_engine.vocabulary.pieces import whole
from tests.support.clock import ManualClock
from tests.support.engine import Client, make_engine, settle
from tests.support.fake_nsqd import FakeNsqd, channel, topic
from tests.support.samples import INTERVAL_MS, channel_row, samples_of, take_sample, topic_row
from tests.support.waiting import wait_for

START_S = 1_400_000_000


class Nsqd:
    """A node whose answers the test makes: a topic with a channel."""

    def __init__(self, name: str = "nsq-b2:4151") -> None:
        address = HttpAddress.parse(name)
        self._member = Member(address, address, is_configured=True)
        self.started_s = START_S
        self.error = ""
        self.came, self.depth, self.requeued = 0, 0, 0
        self.histogram: Any = []
        self.answer: Any = None  # to /stats, in the place of all this

    def node(self) -> Node:
        billing = channel("billing", message_count=self.came, depth=self.depth, requeue_count=self.requeued)
        billing["e2e_processing_latency"]["histogram"] = self.histogram
        topics = [topic("orders", billing, message_count=self.came, message_bytes=10 * self.came)]
        document = {"version": "1.3.0", "health": "OK", "start_time": self.started_s, "topics": topics}
        return Node(self._member, Answers(1, error=self.error), stats=node_stats_in(self.answer or document))


class Samples:
    """A sampler of `nodes`, and what it wrote."""

    def __init__(self, *nodes: Nsqd, clock: ManualClock | None = None) -> None:
        self.clock = clock or ManualClock()
        self.written: list[Sample] = []
        self.error: Exception | None = None
        self._nodes = nodes
        self._sampler = NodeSampler(self._state, self._append, interval_s=30, time_ns=self.clock.time_ns)

    def _state(self) -> ClusterState:
        return ClusterState(nodes=tuple(one.node() for one in self._nodes))

    def _append(self, body: bytes) -> None:
        if self.error is not None:
            raise self.error
        self.written.append(decode_sample(body))

    def after(self, s: float = 30) -> list[Sample]:
        """The samples that are taken when this time has gone by."""
        self.clock.advance(ms=s * 1000)
        before = len(self.written)
        self._sampler.take()
        return self.written[before:]

    def growth(self, s: float = 30) -> tuple[int, int, int]:
        """Of the only node: messages of the topic, those that its channel finished and requeued."""
        [sample] = self.after(s)
        row = channel_row(sample, "orders", "billing")
        return topic_row(sample, "orders")["messages"], row["finished"], row["requeued"]


def test_a_sample_has_the_node_and_what_came_since_its_sample_before() -> None:
    one, other = Nsqd("nsq-a1:4151"), Nsqd()
    one.came, one.depth = 1_000, 40
    samples = Samples(one, other)
    assert [sample["node"] for sample in samples.after()] == ["nsq-a1:4151", "nsq-b2:4151"]
    one.came, one.depth, one.requeued = 1_100, 30, 3
    first, second = samples.after()
    assert (first["sequence"], second["sequence"]) == (2, 2)
    assert first["taken_ms"] == samples.clock.time_ns() // 1_000_000
    assert (first["started_ms"], first["engine"], first["log"], first["disk"]) == (START_S * 1000, None, None, None)
    orders, billing = topic_row(first, "orders"), channel_row(first, "orders", "billing")
    assert [orders[name] for name in ("messages", "message_bytes", "messages_total")] == [100, 1_000, 1_100]
    # An nsqd counts no finished messages: those that came and wait no more.
    assert [billing[name] for name in ("messages", "finished", "requeued", "depth")] == [100, 110, 3, 30]
    assert topic_row(second, "orders")["messages"] == 0


def test_a_sample_of_a_named_cluster_has_its_name_before_the_node_s() -> None:
    body: list[bytes] = []
    sampler = NodeSampler(Samples(Nsqd())._state, body.append, interval_s=30, cluster="prod")
    sampler.take()
    assert decode_sample(body[0])["node"] == "prod/nsq-b2:4151"
    assert {row["node"] for row in rows_of(body[0]).to_pylist()} == {"prod/nsq-b2:4151"}


def test_the_history_reads_it_and_what_an_nsqd_does_not_report_is_unknown() -> None:
    one = Nsqd()
    one.depth = 7
    samples = Samples(one)
    assert samples.after()
    body: list[bytes] = []
    sampler = NodeSampler(samples._state, body.append, interval_s=30)
    sampler.take()
    rows = {(row["topic"], row["channel"]): row for row in rows_of(body[0]).to_pylist()}
    assert list(rows) == [("", ""), ("orders", ""), ("orders", "billing")]
    assert {row["node"] for row in rows.values()} == {"nsq-b2:4151"}
    assert [row["waiting"] for row in rows.values()] == [7, 7, 7]
    assert {(row["oldest_age_ms"], row["disk_bytes"]) for row in rows.values()} == {(None, None)}


def test_what_came_before_the_first_sample_is_no_growth() -> None:
    one = Nsqd()
    one.came = 1_000_000
    samples = Samples(one)
    assert samples.growth() == (0, 0, 0)
    one.came += 5
    assert samples.growth() == (5, 5, 0)


def test_a_count_that_an_answer_lacks_and_that_comes_back_is_no_growth() -> None:
    one = Nsqd()
    one.came = 1_000
    samples = Samples(one)
    samples.after()
    whole = topic("orders", channel("billing", message_count=1_000), message_count=1_000)
    for lacks in ("orders", "billing"):
        document = copy.deepcopy(whole)
        del (document if lacks == "orders" else document["channels"][0])["message_count"]
        one.answer = {"start_time": one.started_s, "topics": [document]}
        samples.after()
        one.answer = None
        assert samples.growth() == (0, 0, 0), lacks
    one.came += 5
    assert samples.growth() == (5, 5, 0)


def test_all_that_a_node_counted_since_its_restart_is_growth_also_where_it_counted_more_than_before() -> None:
    one = Nsqd()
    one.came = 100
    samples = Samples(one)
    assert samples.growth() == (0, 0, 0)
    one.started_s, one.came = samples.clock.time_ns() // NS_PER_S, 130
    assert samples.growth() == (130, 130, 0)
    one.started_s, one.came = samples.clock.time_ns() // NS_PER_S, 20
    assert samples.growth() == (20, 20, 0)
    one.came = 21
    assert samples.growth() == (1, 1, 0)
    # Another process at its address, which was running before.
    one.started_s, one.came = START_S - 500, 9_000
    assert samples.growth() == (0, 0, 0)
    one.came = 9_002
    assert samples.growth() == (2, 2, 0)


def test_a_node_that_has_just_started_is_new_with_all_it_counted() -> None:
    samples = Samples(one := Nsqd())
    one.started_s, one.came = samples.clock.time_ns() // 1_000_000_000, 12
    assert samples.growth() == (12, 12, 0)


def test_a_topic_that_was_made_again_grows_from_nothing() -> None:
    one = Nsqd()
    one.came = 100
    samples = Samples(one)
    samples.after()
    one.came = 30
    assert samples.growth() == (30, 30, 0)


def test_a_silent_node_has_no_samples_and_its_growth_counts_where_it_was_silent_for_a_short_time() -> None:
    one = Nsqd()
    samples = Samples(one)
    samples.after()
    one.error = "no answer"
    assert samples.after() == []
    one.error, one.came = "", 60
    assert samples.growth() == (60, 60, 0)
    one.error = "no answer"
    for _ in range(SILENCE_MAX_S // 30):
        assert samples.after() == []
    one.error, one.came = "", 100_000
    # An hour's messages in one minute would be a rate that never was.
    assert samples.growth() == (0, 0, 0)


def test_a_sample_that_can_t_be_written_has_its_growth_in_the_next_and_costs_one_line(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    one, other = Nsqd("nsq-a1:4151"), Nsqd()
    samples = Samples(one, other)
    samples.after()
    samples.error = StorageError("a sample is refused: 1 MB are free")
    one.came = 5
    assert samples.after() == samples.after() == []
    samples.error = None
    one.came = 7
    first, _ = samples.after()
    assert topic_row(first, "orders")["messages"] == 7
    lines = [record.message for record in caplog.records if "samples of nodes" in record.message]
    assert lines == [
        "samples of nodes left out error=a sample is refused: 1 MB are free",
        "samples of nodes go on left_out=4",
    ]


@pytest.mark.parametrize(
    ("answers", "growth"),
    [
        (([5, 3], [5, 4, 9, 2]), [5, 1, 9, 2]),
        (([5, 3], [5, 3]), []),
        (([5, 3], [9, 1]), [9, 1]),  # it began again
        (([5], [5, -1]), []),
        ((None, [5, "3"]), []),
        (("x", [751, 3]), []),
        (([5, 3], [5, 1 << 50]), [5, (1 << 50) - 3]),
    ],
)
def test_a_penstock_s_latencies_are_a_histogram_and_another_form_of_it_costs_nothing_else(
    answers: tuple[Any, Any], growth: list[int]
) -> None:
    one = Nsqd()
    samples = Samples(one)
    for one.histogram in answers:
        one.came += 10
        [sample] = samples.after()
    assert channel_row(sample, "orders", "billing")["latency"] == growth
    assert topic_row(sample, "orders")["messages"] == 10


def test_a_penstock_s_own_answer_gives_the_latencies_of_what_its_channels_finished(tmp_path: Path) -> None:
    clock = ManualClock()
    engine = make_engine(tmp_path, clock)
    client = Client(engine, "orders", "billing", ready=9)
    samples = Samples(node := Nsqd())
    latencies = []
    for wait_ms in (5, 250):
        engine.publish("orders", [b"one", b"two"])
        settle(engine)
        clock.advance(ms=wait_ms)
        client.finish(*[one.id for one in client.sink.received[-2:]])
        figures = whole(engine.stats.figures_in_slices(has_clients=False, has_windows=True))
        node.answer = orjson.loads(whole(stats_json(figures, Wanted(has_buckets=True))))
        [sample] = samples.after()
        row = channel_row(sample, "orders", "billing")
        latencies.append((row["finished"], row["latency"]))
        assert row["oldest_age_ms"] is None
    assert latencies == [(2, [bucket_of(wait_ms * 1_000_000), 2]) for wait_ms in (5, 250)]
    engine.close()


@pytest.mark.parametrize("histogram", [[], [5, 1 << 60]])
def test_growth_that_can_t_be_right_costs_one_sample(histogram: list[int], caplog: pytest.LogCaptureFixture) -> None:
    """Two of them in a minute have a sum of more than 63 bits, and the history's job would end for all nodes."""
    one, other = Nsqd("nsq-a1:4151"), Nsqd()
    samples = Samples(one, other)
    one.histogram = [5, 0]
    samples.after()
    one.came, one.histogram = (0, histogram) if histogram else (1 << 59, [5, 0])
    assert [sample["node"] for sample in samples.after()] == ["nsq-b2:4151"]
    assert "nsq-a1:4151 has counted more than 72057594037927936 since its sample before" in caplog.text
    one.came, one.histogram = (4, histogram) if histogram else ((1 << 59) + 4, [5, 0])
    first, _ = samples.after()
    assert topic_row(first, "orders")["messages"] == 4
    assert channel_row(first, "orders", "billing")["latency"] == []


def test_a_count_that_can_t_be_right_costs_its_channel_alone() -> None:
    one = Nsqd()
    one.depth = 1 << 70
    [sample] = Samples(one).after()
    assert (sample["topics"]["topic"], sample["channels"]["channel"]) == (["orders"], [])


# Where they are written.


def test_the_nodes_of_a_cluster_are_sampled_while_it_runs(tmp_path: Path) -> None:
    bodies: list[bytes] = []
    with FakeNsqd.of(topic("orders", depth=3)) as other:
        addresses = Addresses.parse([], [other.address])
        options = ClusterOptions(addresses=addresses)
        pace = Pace(period_s=0.02, retry_s=0.02, sample_s=0.05)
        chosen = ChosenAddresses(tmp_path, addresses)
        cluster = Cluster(options, chosen, lambda: None, pace, append_sample=bodies.append)
        cluster.start()
        try:
            wait_for("two samples", lambda: len(bodies) > 1)
            other.topics["orders"]["message_count"] = 7
            wait_for("its growth", lambda: topic_row(decode_sample(bodies[-1]), "orders")["messages"] == 7)
        finally:
            cluster.stop()
        assert decode_sample(bodies[-1])["node"] == other.address
        assert topic_row(decode_sample(bodies[-1]), "orders")["depth"] == 3


def body_of(node: Nsqd) -> bytes:
    bodies: list[bytes] = []
    NodeSampler(lambda: ClusterState(nodes=(node.node(),)), bodies.append, interval_s=30).take()
    return bodies[0]


def test_an_engine_s_log_has_its_own_samples_and_those_of_other_nodes(tmp_path: Path) -> None:
    clock = ManualClock()
    engine = make_engine(tmp_path, clock, samples_interval_ms=INTERVAL_MS, broadcast_address="here")
    take_sample(engine, clock)
    engine.append_sample(body_of(Nsqd()))
    take_sample(engine, clock)
    assert [(one["node"], one["sequence"]) for one in samples_of(engine)] == [
        ("here", 1),
        ("nsq-b2:4151", 1),
        ("here", 2),
    ]
    engine.close()


def test_an_engine_without_samples_and_one_with_a_topic_of_their_name_refuse_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = make_engine(tmp_path, ManualClock(), samples_interval_ms=0)
    with pytest.raises(StorageError, match="not open"):
        engine.append_sample(body_of(Nsqd()))
    engine.close()
    with monkeypatch.context() as before:
        before.setattr("queue_engine.engine.catalog.catalog.is_reserved", lambda name: False)
        engine = make_engine(tmp_path, ManualClock())
        engine.publish(SAMPLES_TOPIC, [b"old"])
        settle(engine)
        engine.close()
    engine = make_engine(tmp_path, ManualClock(), samples_interval_ms=INTERVAL_MS)
    with pytest.raises(StorageError, match=f"while there is a topic {SAMPLES_TOPIC}"):
        engine.append_sample(body_of(Nsqd()))
    engine.close()


def test_a_directory_without_an_engine_has_a_log_of_samples_that_an_engine_reads_later(tmp_path: Path) -> None:
    for came in (3, 5):
        samples = DirectorySamples(Options(data_path=str(tmp_path)))
        samples.append(body_of(one := Nsqd()))
        one.came = came
        samples.append(body_of(one))
        samples.close()
    samples.close()  # once more does nothing
    engine = make_engine(tmp_path, ManualClock(), samples_interval_ms=INTERVAL_MS)
    assert [topic_row(one, "orders")["messages_total"] for one in samples_of(engine)] == [0, 3, 0, 5]
    engine.close()
