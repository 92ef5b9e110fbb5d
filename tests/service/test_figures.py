"""The table of figures against what each output has: the table alone could not notice what it lacks."""

import re
from pathlib import Path
from typing import Any

from queue_engine.delivery.stats import ChannelStats, ClientStats, TopicStats
from queue_engine.engine.samples.sample_format import ProcessFigures, compose_sample
from queue_engine.service.http.reference import stats_shape
from queue_engine.service.monitoring.families import FAMILIES
from queue_engine.service.statsd.lines import StatsdLines
from queue_engine.vocabulary.figures import CHANNEL, CLIENT, COUNTED, MEASURED, NUMBER_OR_NULL, TOPIC, Figure, in_stats
from queue_engine.vocabulary.log_figures import LOG
from queue_engine.vocabulary.pieces import whole
from tests.service.http.server import http_server
from tests.service.http.test_stats import populate
from tests.support.engine import settle

# As nsqd 1.3 answered; of a client without AUTH.
NSQD_TOPIC = """topic_name channels depth backend_depth message_count message_bytes paused e2e_processing_latency"""
NSQD_CHANNEL = """channel_name depth backend_depth in_flight_count deferred_count message_count requeue_count
    timeout_count client_count clients paused e2e_processing_latency"""
NSQD_CLIENT = """client_id hostname version remote_address state ready_count in_flight_count message_count
    finish_count requeue_count connect_ts sample_rate deflate snappy user_agent tls tls_cipher_suite tls_version
    tls_negotiated_protocol tls_negotiated_protocol_is_mutual"""
NSQD_TEXT = {
    TOPIC: "depth:5 be-depth:5 msgs:8",
    CHANNEL: "depth:5 be-depth:5 inflt:4 def:4 re-q:5 timeout:5 msgs:8",
    CLIENT: "state:0 inflt:4 rdy:4 fin:8 re-q:8 msgs:8",
}
NSQD_STATSD_TOPIC = "message_count message_bytes depth backend_depth"
NSQD_STATSD_CHANNEL = """message_count requeue_count timeout_count depth backend_depth in_flight_count deferred_count
    clients"""
# What older versions wrote to samples: readers of those go by these names.
SAMPLED = """depth in_flight deferred clients disk_bytes messages finished requeued timeouts disconnects paused
    oldest_age_ms"""
# What alerts and dashboards of older versions rest on: the metric of a figure, and that of its total.
METRICS = {
    TOPIC: """depth penstock_topic_depth
        message_count penstock_topic_messages_total penstock_messages_published_total
        message_bytes penstock_topic_body_bytes_total penstock_body_bytes_published_total
        dropped_count penstock_topic_dropped_total
        disk_bytes penstock_topic_kept_bytes
        paused penstock_topic_paused
        fenced penstock_topic_fenced
        unreadable penstock_topic_unreadable""",
    CHANNEL: """depth penstock_channel_depth
        in_flight_count penstock_channel_in_flight penstock_messages_in_flight
        deferred_count penstock_channel_deferred penstock_messages_deferred
        quarantined_count penstock_channel_quarantined
        message_count penstock_channel_messages_total
        finish_count penstock_channel_finished_total penstock_messages_finished_total
        requeue_count penstock_channel_requeued_total penstock_messages_requeued_total
        timeout_count penstock_channel_timeouts_total penstock_messages_timed_out_total
        client_count penstock_channel_consumers penstock_consumers
        ready_count penstock_channel_ready
        dropped_count penstock_channel_dropped_total
        disk_bytes penstock_channel_kept_bytes
        quarantined_bytes penstock_channel_quarantined_bytes
        quarantine_full penstock_quarantine_full
        max_attempts penstock_channel_max_attempts
        paused penstock_channel_paused
        fenced penstock_channel_fenced
        unreadable penstock_channel_unreadable""",
}
TABLES = {"topic": TOPIC, "channel": CHANNEL, "client": CLIENT}


def keys_of(rows: tuple[Figure, ...]) -> list[str]:
    return [row.name for row in in_stats(rows)]


def test_nsqd_s_keys_come_first_and_in_its_order() -> None:
    assert keys_of(TOPIC)[:8] == NSQD_TOPIC.split()
    assert keys_of(CHANNEL)[:12] == NSQD_CHANNEL.split()
    assert [key for key in keys_of(CLIENT) if key in NSQD_CLIENT.split()] == NSQD_CLIENT.split()
    for rows, words in NSQD_TEXT.items():
        lines = sorted(row.line for row in rows if row.line)
        assert " ".join(f"{line.word}:{line.width}" for line in lines) == words


def test_each_row_is_whole() -> None:
    for name, rows in TABLES.items():
        assert sorted(row.place for row in rows if row.place) == list(range(1, len(in_stats(rows)) + 1)), name
        for row in rows:
            assert re.fullmatch(r"\S.*[^.]", row.text), (name, row.name)
            assert row.metric.endswith("_total") == (row.kind is COUNTED) or not row.metric, row.metric
            assert not row.history or row.sample, row.name
        for of in ("name", "metric", "statsd", "sample"):
            given = [getattr(row, of) for row in rows if getattr(row, of)]
            assert len(set(given)) == len(given), (name, of)


def test_metrics_keep_their_figures() -> None:
    for rows, words in METRICS.items():
        found = {row.name: [row.metric, *([row.total.metric] if row.total else [])] for row in rows}
        for name, *metrics in map(str.split, words.splitlines()):
            assert found[name] == metrics, name


async def test_figures_of_the_log_are_the_same_in_stats_metrics_and_samples(tmp_path: Path) -> None:
    async with http_server(tmp_path, storage="log") as server:
        server.engine.publish("orders", [b"x"])
        settle(server.engine)
        answer = (await server.request("GET", "/stats?format=json")).json["log"]
        metrics = dict(re.findall(r"(?m)^(\w+) (\S+)$", (await server.request("GET", "/metrics")).body.decode()))
        snapshot = server.engine.stats.now()
        sample = compose_sample(snapshot, None, ProcessFigures(1, 2, 3, 4), node="n", sequence=1)["log"]
    assert sample == {row.sample: int(answer[row.name]) for row in LOG if row.sample}
    assert answer["bytes"] > 0
    for row in LOG:
        assert float(metrics[row.metric]) == (bool(answer[row.name]) if row.is_flag else answer[row.name]), row.name
        assert stats_shape.LOG["properties"][row.name]["description"].startswith(row.text)


async def test_each_output_has_the_figures_of_the_table(tmp_path: Path) -> None:
    async with http_server(tmp_path) as server:
        populate(server.engine)
        server.clock.advance(ms=2_500)
        answer = (await server.request("GET", "/stats?format=json")).json
        metrics = (await server.request("GET", "/metrics")).body.decode()
        snapshot = server.engine.stats.now()
        statsd = whole(StatsdLines("", excludes_ephemeral=False).of(snapshot, None))
        sample = compose_sample(snapshot, None, ProcessFigures(1, 2, 3, 4), node="n", sequence=1)
    topic, channel, client = (
        answer["topics"][1],
        answer["topics"][1]["channels"][0],
        answer["topics"][1]["channels"][0]["clients"][0],
    )
    check_json(topic, TOPIC, stats_shape.TOPIC)
    check_json(channel, CHANNEL, stats_shape.CHANNEL)
    check_json(client, CLIENT, stats_shape.CLIENT, absent={"authed", "auth_identity", "auth_identity_url"})
    check_stats(snapshot.topics[1], TOPIC)
    check_stats(snapshot.topics[1].channels[0], CHANNEL)
    check_stats(snapshot.producers[0], CLIENT)
    for rows, labels in ((TOPIC, ("topic",)), (CHANNEL, ("topic", "channel"))):
        wanted = {row.metric for row in rows if row.metric and not row.is_of_part}
        assert wanted <= set(re.findall(r"(?m)^(\w+)\{", metrics))
        assert {FAMILIES[name].labels for name in wanted} == {labels}
        assert {row.total.metric for row in rows if row.total} <= set(re.findall(r"(?m)^(\w+) ", metrics))
    sent = [line.partition(":")[0] for line in statsd]
    assert [
        name.removeprefix("topic.b.") for name in sent if name.startswith("topic.b.") and "channel" not in name
    ] == (NSQD_STATSD_TOPIC.split())
    assert [name.rpartition(".")[2] for name in sent if ".channel.x." in name] == NSQD_STATSD_CHANNEL.split()
    assert sorted(row.statsd for row in CHANNEL if row.statsd) == sorted(NSQD_STATSD_CHANNEL.split())
    columns = [row.sample for row in CHANNEL if row.sample]
    assert set(SAMPLED.split()) <= set(columns)
    counted = [f"{row.sample}_total" for row in CHANNEL if row.sample and row.kind is COUNTED]
    assert sample["channels"].keys() == {"topic", "channel", "latency", *columns, *counted}
    assert {row.sample for row in TOPIC if row.sample} < sample["topics"].keys()


def check_json(
    found: dict[str, Any], rows: tuple[Figure, ...], schema: Any, absent: frozenset[str] | set[str] = frozenset()
) -> None:
    """Keys and order; and that no value was forgotten: it would be null."""
    assert list(found) == [key for key in keys_of(rows) if key not in absent]
    assert list(schema["properties"]) == keys_of(rows)
    for row in in_stats(rows):
        assert schema["properties"][row.name]["description"].startswith(row.meaning), row.name
    for row in rows:
        if row.name in found and row.type not in (NUMBER_OR_NULL, object):
            assert type(found[row.name]) is row.type, row.name


def check_stats(stats: TopicStats | ChannelStats | ClientStats, rows: tuple[Figure, ...]) -> None:
    for row in rows:
        if row.attribute and row.type in (int, bool) and not row.is_of_part:
            assert type(getattr(stats, row.attribute)) is row.type, row.name
    assert {row.kind for row in rows} == {COUNTED, MEASURED}
