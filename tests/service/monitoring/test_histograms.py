"""Histograms: cumulative buckets, sums and counts, whatever batches the messages were finished in."""

import re
from pathlib import Path
from random import Random

from queue_engine.service.monitoring.engine_samples import latency_counts
from queue_engine.service.monitoring.exposition import Exposition
from queue_engine.vocabulary.clock import NS_PER_MS, NS_PER_S
from queue_engine.vocabulary.latency.histogram import MESSAGE_BOUNDS_NS, NO_MESSAGES, Histogram
from queue_engine.vocabulary.latency.latency_buckets import BUCKET_MAX, bucket_of
from tests.service.http.server import http_server
from tests.support.engine import Client, settle
from tests.support.exposition import Figures, read_exposition

OF = 'topic="orders",channel="billing"'


def by_bound(figures: Figures, name: str, labels: str = OF) -> dict[str, float]:
    """Bound as written → messages up to it."""
    start = f"{name}_bucket{{{labels + ',' if labels else ''}le="
    return {
        key.removeprefix(start).strip('"}'): value for key, value in figures.values.items() if key.startswith(start)
    }


def test_a_time_counts_up_to_and_including_its_bound() -> None:
    histogram = Histogram((10, 20))
    for took_ns in (-5, 0, 10, 11, 20, 21, 1000):
        histogram.note(took_ns)
    histogram.note(15, 100)
    assert histogram.counts().counts == (3, 102, 2)
    assert histogram.counts().sum_ns == 0 + 0 + 10 + 11 + 20 + 21 + 1000 + 1500


def test_the_buckets_of_an_answer_are_cumulative() -> None:
    histogram = Histogram((NS_PER_MS, NS_PER_S))
    histogram.note(NS_PER_MS // 2, 3)
    histogram.note(2 * NS_PER_S, 4)
    to = Exposition()
    to.add_histogram("penstock_log_sync_seconds", [("", histogram.counts())])
    lines = [line for line in to.text().decode().splitlines() if not line.startswith("#")]
    assert lines == [
        'penstock_log_sync_seconds_bucket{le="0.001"} 3',
        'penstock_log_sync_seconds_bucket{le="1"} 3',
        'penstock_log_sync_seconds_bucket{le="+Inf"} 7',
        "penstock_log_sync_seconds_sum 8.0015",
        "penstock_log_sync_seconds_count 7",
    ]
    assert to.series_count == 5


def test_histograms_of_channels_add_up() -> None:
    rng = Random(1)
    one, other, both = (Histogram(MESSAGE_BOUNDS_NS) for _ in range(3))
    for _ in range(1_000):
        took_ns, count = round(10 ** rng.uniform(4, 15)), rng.randrange(1, 300)
        rng.choice((one, other)).note(took_ns, count)
        both.note(took_ns, count)
    assert NO_MESSAGES.plus([one.counts(), other.counts()]) == both.counts()


def test_a_latency_never_counts_below_a_bound_that_it_exceeds() -> None:
    """The finer buckets of latencies are 4 % wide: a latency may count above a bound only if it is within 4 % of it."""
    rng = Random(2)
    for _ in range(5_000):
        took_ns = round(10 ** rng.uniform(4, 15))
        counts = latency_counts({bucket_of(took_ns): 3})
        at = counts.counts.index(3)
        assert sum(counts.counts) == 3
        assert at == len(MESSAGE_BOUNDS_NS) or took_ns <= MESSAGE_BOUNDS_NS[at]
        assert at == 0 or took_ns > MESSAGE_BOUNDS_NS[at - 1] / 1.041
        assert took_ns < 100_000 or abs(counts.sum_ns / 3 / took_ns - 1) < 0.021
    assert latency_counts({BUCKET_MAX: 1}).counts[-1] == 1


async def test_publish_and_delivery_to_finish_are_counted_for_each_message(tmp_path: Path) -> None:
    async with http_server(tmp_path) as server:
        await server.request("POST", "/topic/create?topic=orders")
        await server.request("POST", "/channel/create?topic=orders&channel=billing")
        await server.request("POST", "/mpub?topic=orders", b"one\ntwo\nthree\nfour")
        settle(server.engine)
        server.clock.advance(ms=700)
        client = Client(server.engine, "orders", "billing", ready=4)
        ids = [message.id for message in client.sink.received]
        server.clock.advance(ms=20)
        client.finish(*ids[:3])
        # Back and delivered again: its hold begins anew, its latency does not.
        client.channel.requeue(client.consumer, ids[3], 0, server.clock.monotonic_ns())
        settle(server.engine)
        server.clock.advance(ms=60)
        client.channel.touch(client.consumer, ids[3], server.clock.monotonic_ns())
        server.clock.advance(ms=20)
        client.finish(ids[3])
        figures = read_exposition((await server.request("GET", "/metrics")).body)
    held = by_bound(figures, "penstock_channel_delivery_to_finish_seconds")
    assert (held["0.005"], held["0.025"], held["0.1"], held["+Inf"]) == (0, 3, 4, 4)
    assert figures[f"penstock_channel_delivery_to_finish_seconds_sum{{{OF}}}"] == 0.14
    assert figures[f"penstock_channel_delivery_to_finish_seconds_count{{{OF}}}"] == 4
    latency = by_bound(figures, "penstock_channel_publish_to_finish_seconds")
    assert (latency["0.5"], latency["1"], latency["+Inf"]) == (0, 4, 4)
    assert abs(figures[f"penstock_channel_publish_to_finish_seconds_sum{{{OF}}}"] / 2.96 - 1) < 0.021


async def test_each_sync_of_the_log_is_counted(tmp_path: Path) -> None:
    async with http_server(tmp_path, storage="log") as server:
        for _ in range(5):
            await server.request("POST", "/pub?topic=orders", b"one")
        figures = read_exposition((await server.request("GET", "/metrics")).body)
    assert figures["penstock_log_sync_seconds_count"] == figures["penstock_log_syncs_total"] == 5
    bounds = list(by_bound(figures, "penstock_log_sync_seconds", ""))
    assert bounds[0] == "0.0001"
    assert bounds[-1] == "+Inf"
    assert all(re.fullmatch(r"[0-9.]+|\+Inf", bound) for bound in bounds)
