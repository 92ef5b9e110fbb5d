"""/metrics?topic=… and the limit of series: fewer topics in the answer, the totals as they are."""

from collections.abc import Generator
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from queue_engine.delivery.stats import EngineSnapshot
from queue_engine.service.http.reference.parameters import METRICS_TOPIC
from queue_engine.service.monitoring.engine_samples import COSTS
from queue_engine.service.monitoring.selection import SeriesCosts, select
from tests.service.http.server import Server, http_server
from tests.support.engine import Client, settle
from tests.support.exposition import Figures, read_exposition

TOPICS = ("orders", "payments", "pay-outs", "mails")


async def fill(server: Server) -> None:
    for topic in TOPICS:
        await server.request("POST", f"/topic/create?topic={topic}")
        for channel in ("a", "b"):
            await server.request("POST", f"/channel/create?topic={topic}&channel={channel}")
        await server.request("POST", f"/mpub?topic={topic}", b"one\ntwo\nthree")
    settle(server.engine)


async def figures_of(server: Server, query: str = "") -> Figures:
    answer = await server.request("GET", f"/metrics{query}")
    assert answer.status == 200, answer.body
    return read_exposition(answer.body)


def topics_in(figures: Figures) -> set[str]:
    return {labels.partition('"')[2].partition('"')[0] for labels in figures.of("penstock_topic_depth")}


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("", set(TOPICS)),
        ("?topic=orders", {"orders"}),
        ("?topic=orders&topic=mails", {"orders", "mails"}),
        ("?topic=pay*", {"payments", "pay-outs"}),
        ("?topic=m%3Fils", {"mails"}),
        ("?topic=ORDERS", set()),
        ("?topic=", set(TOPICS)),
        ("?topic=nothing", set()),
    ],
)
async def test_the_client_chooses_topics(tmp_path: Path, query: str, expected: set[str]) -> None:
    async with http_server(tmp_path) as server:
        await fill(server)
        figures = await figures_of(server, query)
    assert topics_in(figures) == expected
    assert figures["penstock_topics"] == 4
    assert figures["penstock_channels"] == 8
    assert figures["penstock_messages_published_total"] == 12
    assert figures["penstock_messages_waiting"] == 24
    assert figures["penstock_metrics_series_left_out"] == 0
    if "penstock_topic_disk_bytes" in figures.kinds:
        listed = {labels.partition('"')[2].partition('"')[0] for labels in figures.of("penstock_topic_disk_bytes")}
        assert listed == expected


async def test_too_many_topics_or_a_bad_escape_are_refused(tmp_path: Path) -> None:
    async with http_server(tmp_path) as server:
        answer = await server.request("GET", "/metrics?" + "topic=a&" * (METRICS_TOPIC.times_max + 1))
        assert (answer.status, answer.message) == (400, "INVALID_REQUEST")
        assert str(METRICS_TOPIC.times_max + 1) in answer.detail
        assert (await server.request("GET", "/metrics?topic=%zz")).status == 400


async def test_beyond_the_limit_series_are_left_out_and_counted(tmp_path: Path) -> None:
    async with http_server(tmp_path) as server:
        await fill(server)
        whole = await figures_of(server)
    assert whole["penstock_metrics_series_left_out"] == 0
    room = 2 * COSTS.topic + 3 * COSTS.channel
    async with http_server(tmp_path, metrics_series_max=room) as server:
        cut = await figures_of(server)
        assert topics_in(cut) == {"orders", "payments"}, "those that were made first"
        assert len(cut.of("penstock_channel_depth")) == 3
        assert cut["penstock_metrics_topics_left_out"] == 2
        assert cut["penstock_metrics_channels_left_out"] == 5
        assert cut["penstock_metrics_series_left_out"] == (2 * COSTS.topic + 5 * COSTS.channel + 8 * COSTS.histograms)
        for name in ("penstock_topics", "penstock_channels", "penstock_messages_waiting"):
            assert cut[name] == whole[name]
        # What the client asks for has the whole limit to itself.
        asked = await figures_of(server, "?topic=mails")
        assert topics_in(asked) == {"mails"}
        assert asked["penstock_metrics_channels_left_out"] == 0


async def test_the_histograms_of_channels_go_before_any_channel(tmp_path: Path) -> None:
    whole = 4 * COSTS.topic + 8 * (COSTS.channel + COSTS.histograms)
    (tmp_path / "cut").mkdir()
    (tmp_path / "whole").mkdir()
    async with http_server(tmp_path / "cut", metrics_series_max=whole - 1) as server:
        await fill(server)
        cut = await figures_of(server)
    assert cut["penstock_metrics_series_left_out"] == 8 * COSTS.histograms
    assert len(cut.of("penstock_channel_depth")) == 8
    assert not cut.of("penstock_channel_delivery_to_finish_seconds_count")
    assert cut["penstock_delivery_to_finish_seconds_count"] == 0
    async with http_server(tmp_path / "whole", metrics_series_max=whole) as server:
        await fill(server)
        uncut = await figures_of(server)
    assert uncut["penstock_metrics_series_left_out"] == 0
    assert len(uncut.of("penstock_channel_delivery_to_finish_seconds_count")) == 8


async def test_the_costs_are_what_an_answer_has(tmp_path: Path) -> None:
    async with http_server(tmp_path) as server:
        await fill(server)
        client = Client(server.engine, "orders", "a", ready=3)
        client.finish(client.sink.received[0].id)
        for act, names in (("pause_topic", ("orders",)), ("pause_channel", ("orders", "a"))):
            getattr(server.engine.acts, act)(*names)
        settle(server.engine)
        figures = await figures_of(server)
    of_orders = [key for key in figures.values if 'topic="orders"' in key]
    assert len([key for key in of_orders if "channel=" not in key]) == COSTS.topic
    assert len([key for key in of_orders if 'channel="a"' in key]) == COSTS.channel + COSTS.histograms


async def test_any_limit_is_kept(tmp_path: Path) -> None:
    async with http_server(tmp_path) as server:
        await fill(server)
        topics = server.engine.stats.now().topics
    rng = Random(3)
    for _ in range(500):
        costs = SeriesCosts(rng.randrange(1, 9), rng.randrange(1, 9), rng.randrange(9), rng.randrange(1, 9))
        shuffled = [replace(topic, number=rng.randrange(1_000)) for topic in topics]
        limit = rng.randrange(1, 80)
        selection = select(shuffled, (), limit, costs)
        channels = sum(len(topic.channels) for topic in selection.topics)
        of_channel = costs.channel + (costs.histograms if selection.has_histograms else 0)
        used = costs.topic * len(selection.topics) + of_channel * channels
        whole = costs.topic * 4 + (costs.channel + costs.histograms) * 8
        assert used <= limit
        assert used + selection.series_left_out == whole
        assert len(selection.topics) + selection.topics_left_out == 4
        assert channels + selection.channels_left_out == 8
        assert selection.series_left_out == 0 or whole > limit
        assert [one.topic_name for one in selection.topics] == sorted(one.topic_name for one in selection.topics)


async def test_totals_never_fall_when_topics_and_channels_are_deleted(tmp_path: Path) -> None:
    counters = (
        "penstock_messages_published_total",
        "penstock_body_bytes_published_total",
        "penstock_messages_finished_total",
        "penstock_messages_requeued_total",
        "penstock_publish_to_finish_seconds_count",
        "penstock_delivery_to_finish_seconds_count",
        "penstock_delivery_to_finish_seconds_sum",
    )
    async with http_server(tmp_path) as server:
        await fill(server)
        client = Client(server.engine, "orders", "a", ready=3)
        first, second = [message.id for message in client.sink.received][:2]
        server.clock.advance(ms=10)
        client.finish(first)
        client.channel.requeue(client.consumer, second, 0, server.clock.monotonic_ns())
        settle(server.engine)
        before = await figures_of(server)
        assert [before[name] for name in counters] == [12, 44, 1, 1, 1, 1, 0.01]
        await server.request("POST", "/channel/delete?topic=orders&channel=a")
        after_channel = await figures_of(server)
        await server.request("POST", "/topic/delete?topic=orders")
        after_topic = await figures_of(server)
        for later in (after_channel, after_topic):
            assert [later[name] for name in counters] == [before[name] for name in counters]
        assert (after_channel["penstock_channels"], after_topic["penstock_topics"]) == (7, 3)
        assert after_topic["penstock_messages_waiting"] == 18


def whole_of(slices: Generator[None, None, EngineSnapshot]) -> EngineSnapshot:
    while True:
        try:
            next(slices)
        except StopIteration as stop:
            found: EngineSnapshot = stop.value
            return found


async def test_what_is_deleted_while_a_snapshot_is_made_counts_once(tmp_path: Path) -> None:
    async with http_server(tmp_path) as server:
        engine = server.engine
        for number in range(150):
            engine.acts.create_topic(f"t{number:03}")
            engine.acts.create_channel(f"t{number:03}", "a")
        await server.request("POST", "/pub?topic=t000", b"x")
        await server.request("POST", "/pub?topic=t001", b"x")
        settle(engine)
        for topic in ("t000", "t001"):
            client = Client(engine, topic, "a", ready=1)
            client.finish(client.sink.received[0].id)
        slices = engine.stats.in_slices(lambda topic, channel: False)
        next(slices)  # both are in the snapshot now
        engine.acts.delete_topic("t000")
        engine.acts.delete_channel("t001", "a")
        settle(engine)
        snapshot = whole_of(slices)
    assert snapshot.gone.by_metric["penstock_messages_finished_total"] == 2
    sums = snapshot.gone.with_all_of(snapshot.topics).by_metric
    assert sums["penstock_messages_published_total"] == sums["penstock_messages_finished_total"] == 2
    assert "t000" not in [topic.topic_name for topic in snapshot.topics]
    assert snapshot.topics[0].channels == ()
