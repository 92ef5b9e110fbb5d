"""`/stats`: nsqd's keys and text over real figures, and the filters."""

import asyncio
import dataclasses
import re
from collections import Counter
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any, TypeVar

import orjson
import pytest

from queue_engine.delivery.stats import ClientStats, EngineFigures
from queue_engine.engine.engine import Engine
from queue_engine.service.http import api, stats
from queue_engine.service.monitoring.process_memory import CollectorPauses
from queue_engine.vocabulary.latency.latency_buckets import end_ns_of
from queue_engine.vocabulary.version import NSQ_VERSION
from tests.service.http.server import Server, http_server
from tests.support.engine import Client, pass_time, settle
from tests.support.waiting import wait_for_async

T = TypeVar("T")

PRODUCER = ClientStats(
    client_key=99,
    client_id="p",
    hostname="producer.example",
    user_agent="pynsq/0.9\nTopics: None",
    remote_address="127.0.0.1:5000",
    version="V2",
    state=2,
    ready_count=0,
    in_flight_count=0,
    message_count=0,
    finish_count=0,
    requeue_count=0,
    timeout_count=0,
    connect_ts=1_500_000_000,
    msg_timeout_ms=60_000,
    pub_counts=(("a", 3), ("b", 1)),
)


class Connection:
    """A connection of which only the figures matter here."""

    def __init__(self, stats: ClientStats) -> None:
        self._stats = stats
        self.is_producer = bool(stats.pub_counts)

    def stats(self) -> ClientStats:
        return self._stats


class Consumer(Client):
    """A consumer that can tell its figures."""

    def stats(self) -> ClientStats:
        consumer = self.consumer
        return dataclasses.replace(
            PRODUCER,
            client_key=consumer.key,
            state=3,
            user_agent="gnsq",
            ready_count=consumer.ready_count,
            in_flight_count=consumer.in_flight_count,
            message_count=consumer.message_count,
            pub_counts=(),
        )


def populate(engine: Engine) -> Consumer:
    """Topic b with channel x: 2 in flight, 3 waiting; topic a without channels: 1 waiting; a producer."""
    engine.acts.create_topic("b")
    consumer = Consumer(engine, "b", "x")
    engine.publish("b", [b"%d" % number for number in range(5)])
    settle(engine)
    consumer.ready(2)
    engine.publish("a", [b"waits"])
    engine.add_client(Connection(PRODUCER))
    settle(engine)
    return consumer


async def test_an_empty_server_in_json(tmp_path: Path) -> None:
    async with http_server(tmp_path) as server:
        answer = await server.request("GET", "/stats?format=json")
        assert answer.headers[b"content-type"] == b"application/json; charset=utf-8"
        prefix = (
            f'{{"version":"{NSQ_VERSION}","health":"OK","start_time":1500000000,"topics":[],"memory":{{"heap_objects":'
        )
        assert answer.body.startswith(prefix.encode())
        assert answer.json["producers"] is None
        assert list(answer.json["memory"]) == [
            "heap_objects",
            "heap_idle_bytes",
            "heap_in_use_bytes",
            "heap_released_bytes",
            "gc_pause_usec_100",
            "gc_pause_usec_99",
            "gc_pause_usec_95",
            "next_gc_bytes",
            "gc_total_runs",
        ]
        assert answer.json["memory"]["heap_in_use_bytes"] > 1 << 20


async def test_figures_under_nsqd_s_keys(tmp_path: Path) -> None:
    # A figure more needs no line here.
    async with http_server(tmp_path) as server:
        populate(server.engine)
        server.clock.advance(ms=2500)
        answer = (await server.request("GET", "/stats?format=json")).json
        assert [topic["topic_name"] for topic in answer["topics"]] == ["a", "b"]
        assert answer["topics"][0] == answer["topics"][0] | {
            "topic_name": "a",
            "channels": [],
            "depth": 1,
            "backend_depth": 0,
            "message_count": 1,
            "message_bytes": 5,
            "paused": False,
            "e2e_processing_latency": {"count": 0, "percentiles": None},
            "storage": "diskqueue",
            "oldest_age_ms": 2500,
            "disk_bytes": 0,
            "fenced": "",
            "unreadable": "",
            "dropped_count": 0,
            "pause": None,
            "resume_refused": "",
            "cursors": [],
        }
        (channel,) = answer["topics"][1]["channels"]
        (client,) = channel.pop("clients")
        assert channel == channel | {
            "channel_name": "x",
            "depth": 3,
            "backend_depth": 0,
            "in_flight_count": 2,
            "deferred_count": 0,
            "message_count": 5,
            "requeue_count": 0,
            "timeout_count": 0,
            "client_count": 1,
            "paused": False,
            "e2e_processing_latency": {"count": 0, "percentiles": None},
            "finish_count": 0,
            "disconnect_count": 0,
            "ready_count": 2,
            "oldest_age_ms": 2500,
            "disk_bytes": 0,
            "fenced": "",
            "unreadable": "",
            "held_back": "",
            "dropped_count": 0,
            "pause": None,
            "resume_refused": "",
            "ramp": None,
            "quarantined_count": 0,
            "quarantined_bytes": 0,
            "quarantined_since_ms": None,
            "quarantine_full": "",
            "max_attempts": 0,
            "redrive": None,
        }
        assert client == client | {
            "client_id": "p",
            "hostname": "producer.example",
            "version": "V2",
            "remote_address": "127.0.0.1:5000",
            "state": 3,
            "ready_count": 2,
            "in_flight_count": 2,
            "message_count": 2,
            "finish_count": 0,
            "requeue_count": 0,
            "connect_ts": 1_500_000_000,
            "sample_rate": 0,
            "deflate": False,
            "snappy": False,
            "user_agent": "gnsq",
            "topology_zone": "",
            "topology_region": "",
            "pub_counts": [],
            "tls": False,
            "tls_cipher_suite": "",
            "tls_version": "",
            "tls_negotiated_protocol": "",
            "tls_negotiated_protocol_is_mutual": False,
            "timeout_count": 0,
            "msg_timeout": 60_000,
        }
        (producer,) = answer["producers"]
        assert producer["pub_counts"] == [{"topic": "a", "count": 3}, {"topic": "b", "count": 1}]
        assert answer["connection_count"] == 2


async def test_timeouts_are_told(tmp_path: Path) -> None:
    async with http_server(tmp_path) as server:
        consumer = populate(server.engine)
        consumer.ready(0)
        pass_time(server.engine, server.clock, 60_001)
        (topic,) = (await server.request("GET", "/stats?format=json&topic=b")).json["topics"]
        (channel,) = topic["channels"]
        assert (channel["timeout_count"], channel["requeue_count"], channel["depth"]) == (2, 0, 5)


async def test_filters(tmp_path: Path) -> None:
    async with http_server(tmp_path) as server:
        populate(server.engine)
        server.engine.acts.create_channel("b", "y")

        async def ask(query: str) -> tuple[dict[str, list[str]], list[object]]:
            answer = (await server.request("GET", f"/stats?format=json&{query}")).json
            names = {
                topic["topic_name"]: [channel["channel_name"] for channel in topic["channels"]]
                for topic in answer["topics"] or ()
            }
            assert (answer["topics"] is None) == ("none" in query.partition("&")[0])
            return names, [producer["pub_counts"] for producer in answer["producers"] or ()]

        both = [{"topic": "a", "count": 3}, {"topic": "b", "count": 1}]
        assert await ask("") == ({"a": [], "b": ["x", "y"]}, [both])
        assert await ask("topic=b") == ({"b": ["x", "y"]}, [both[1:]])
        assert await ask("topic=b&channel=y") == ({"b": ["y"]}, [both[1:]])
        assert await ask("topic=b&channel=none") == ({}, [both[1:]])
        assert await ask("topic=none") == ({}, [])


async def test_reads_at_once_are_made_one_after_the_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between two slices of any of them other work has its turn: ten readers cost it no more than one."""
    async with http_server(tmp_path) as server:
        populate(server.engine)
        order: list[object] = []

        def slowed(real: Callable[..., Generator[None, None, T]]) -> Callable[..., Generator[None, None, T]]:
            def in_slices(*given: Any, **named: Any) -> Generator[None, None, T]:
                reader = object()
                for _ in range(3):
                    order.append(reader)
                    yield
                return (yield from real(*given, **named))

            return in_slices

        engine_stats = server.engine.stats
        monkeypatch.setattr(engine_stats, "in_slices", slowed(engine_stats.in_slices))
        monkeypatch.setattr(engine_stats, "figures_in_slices", slowed(engine_stats.figures_in_slices))
        targets = ["/stats?format=json", "/stats", "/metrics", "/stats?topic=b"]
        answers = await asyncio.gather(*(server.request("GET", target) for target in targets))
        assert [answer.status for answer in answers] == [200] * 4
        assert len(order) == 12
        assert [len(set(order[at : at + 3])) for at in range(0, 12, 3)] == [1] * 4
        assert len(set(order)) == 4


async def test_reads_that_wait_for_the_same_share_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What they get is begun after the last of them came: a reader that has published sees its message."""
    async with http_server(tmp_path) as server:
        populate(server.engine)
        real, begun, is_free = server.engine.stats.figures_in_slices, 0, False

        def in_slices(*given: Any, **named: Any) -> Generator[None, None, EngineFigures]:
            nonlocal begun
            begun += 1
            while not is_free:
                yield
            return (yield from real(*given, **named))

        monkeypatch.setattr(server.engine.stats, "figures_in_slices", in_slices)
        first = asyncio.create_task(server.request("GET", "/stats?format=json"))
        await wait_for_async("it to be begun", lambda: begun == 1)
        targets = ["/stats?format=json"] * 3 + ["/stats?format=json&topic=b"] * 2
        others = [asyncio.create_task(server.request("GET", target)) for target in targets]
        await wait_for_async("all to be asked", lambda: server.api._stats_shares.used == 6)
        server.engine.publish("late#ephemeral", [b"x"])
        settle(server.engine)
        is_free = True
        answers = await asyncio.gather(first, *others)
        assert begun == 3
        assert len({answer.body for answer in answers[1:4]}) == 1
        assert [len(answer.json["topics"]) for answer in answers[4:]] == [1, 1]
        assert "late#ephemeral" in [topic["topic_name"] for topic in answers[1].json["topics"]]


async def test_one_client_has_a_share_of_the_reads_that_are_under_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(api, "STATS_MAX", 4)
    async with http_server(tmp_path, trusted_proxy=("127.0.0.1",)) as server:
        populate(server.engine)
        real, is_free = server.engine.stats.figures_in_slices, False

        def in_slices(*given: Any, **named: Any) -> Generator[None, None, EngineFigures]:
            while not is_free:
                yield
            return (yield from real(*given, **named))

        monkeypatch.setattr(server.engine.stats, "figures_in_slices", in_slices)
        waiting = [asyncio.create_task(server.request("GET", "/stats")) for _ in range(2)]
        await wait_for_async("both to be asked", lambda: server.api._stats_shares.used == 2)
        refused = await server.request("GET", "/stats")
        assert (refused.status, refused.message) == (503, "BUSY")
        other = asyncio.create_task(server.request("GET", "/stats", headers={"X-Forwarded-For": "192.0.2.7"}))
        await wait_for_async("another client's", lambda: server.api._stats_shares.used == 3)
        is_free = True
        assert [answer.status for answer in await asyncio.gather(*waiting, other)] == [200, 200, 200]
        assert (await server.request("GET", "/stats")).status == 200


@pytest.mark.parametrize("path", ["/stats", "/metrics"])
async def test_requests_that_are_refused_for_their_query_take_no_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    monkeypatch.setattr(api, "STATS_MAX", 4)
    async with http_server(tmp_path) as server:
        answers = [await server.request("GET", f"{path}?topic=a;b") for _ in range(api.SCRAPES_MAX)]
        assert [answer.status for answer in answers] == [400] * api.SCRAPES_MAX
        assert (await server.request("GET", path)).status == 200


async def test_a_client_s_strange_words_do_not_break_the_answer(tmp_path: Path) -> None:
    async with http_server(tmp_path) as server:
        server.engine.add_client(Connection(dataclasses.replace(PRODUCER, user_agent="\ud800<script>")))
        answer = await server.request("GET", "/stats?format=json")
        assert rb'"user_agent":"\ud800<script>"' in answer.body
        assert answer.status == 200
        assert (await server.request("GET", "/stats")).status == 200
        assert orjson.loads(answer.body.replace(rb"\ud800", b""))["producers"][0]["user_agent"] == "<script>"


async def test_an_empty_server_in_text(tmp_path: Path) -> None:
    async with http_server(tmp_path) as server:
        answer = await server.request("GET", "/stats?include_mem=false")
        assert answer.headers[b"content-type"] == b"text/plain; charset=utf-8"
        lines = answer.body.decode().split("\n")
        assert lines[0].startswith(f"nsqd v{NSQ_VERSION} (built w/python3.")
        assert lines[1].startswith("start_time 2017-07-1")
        assert lines[2:] == ["uptime 0s", "", "Health: OK", "", "Topics: None", "", "Producers: None", ""]


async def test_figures_in_text(tmp_path: Path) -> None:
    async with http_server(tmp_path) as server:
        populate(server.engine)
        server.engine.acts.pause_topic("a")
        server.engine.acts.pause_channel("b", "x", by="anna", reason="bad\ndeploy", for_ms=7_200_000)
        server.clock.advance(ms=3_723_500)
        lines = (await server.request("GET", "/stats")).body.decode().split("\n")
        assert lines[2] == "uptime 1h2m3.5s"
        assert any(line.startswith("   heap_in_use_bytes        \t") for line in lines)
        channel = (
            "   *P [x                        ] depth: 3     be-depth: 0     inflt: 2    def: 0    re-q: 0     "
            "timeout: 0     msgs: 5        e2e%: "
        )
        consumer = (
            "        [V2 producer.example:5000 gnsq] state: 3 inflt: 2    rdy: 2    fin: 0        re-q: 0        "
            "msgs: 2        connected: 1h2m3s"
        )
        assert lines[lines.index("Topics:") :] == [
            "Topics:",
            "*P [a              ] depth: 1     be-depth: 0     msgs: 1        e2e%: ",
            "        paused: since 2017-07-14T02:40:00Z",
            "",
            "   [b              ] depth: 0     be-depth: 0     msgs: 5        e2e%: ",
            channel,
            "        paused: by anna since 2017-07-14T02:40:00Z until 2017-07-14T04:40:00Z: bad?deploy",
            consumer,
            "",
            "Producers:",
            "   [V2 producer.example:5000 pynsq/0.9?Topics: None] msgs: 4        topics: a=3,b=1 connected: 1h2m3s",
            "",
        ]


def finish_messages(server: Server) -> None:
    """Topic b: a hundred messages finished in each of its channels, after 3 ms and 250 ms in x, after 9 s in y. Topic c
    has no channel."""
    engine = server.engine

    def publish_and_finish(consumer: Consumer, count: int, latency_ms: int) -> None:
        engine.publish("b", [b"m"] * count)
        settle(engine)
        server.clock.advance(ms=latency_ms)
        assert consumer.finish(*(message.id for message in consumer.sink.received[-count:])) == []

    for topic in ("b", "c"):
        engine.acts.create_topic(topic)
    settle(engine)
    x = Consumer(engine, "b", "x", ready=1_000)
    publish_and_finish(x, 90, 3)
    publish_and_finish(x, 10, 250)
    publish_and_finish(Consumer(engine, "b", "y", ready=1_000), 100, 9_000)


async def test_percentiles_of_a_topic_are_those_of_all_its_channels_messages(tmp_path: Path) -> None:
    async with http_server(tmp_path, e2e_processing_latency_percentile=(0.5, 0.95)) as server:
        finish_messages(server)
        answer = (await server.request("GET", "/stats?format=json&topic=b")).json
        (topic,) = answer["topics"]
        x, y = (channel["e2e_processing_latency"] for channel in topic["channels"])
        together = topic["e2e_processing_latency"]
        assert (x["count"], y["count"], together["count"]) == (100, 100, 200)
        assert [one["quantile"] for one in x["percentiles"]] == [0.95, 0.5], "the largest first, as nsqd has them"

        def ms(one: dict[str, Any]) -> list[float]:
            return [entry["value"] / 1e6 for entry in one["percentiles"]]

        assert ms(x) == pytest.approx([250, 3], rel=0.021)
        assert ms(y) == pytest.approx([9_000, 9_000], rel=0.021)
        assert ms(together) == pytest.approx([9_000, 250], rel=0.021)
        # With one channel alone the topic's are still those of all.
        (filtered,) = (await server.request("GET", "/stats?format=json&topic=b&channel=x")).json["topics"]
        assert [one["channel_name"] for one in filtered["channels"]] == ["x"]
        assert filtered["e2e_processing_latency"] == together
        (without,) = (await server.request("GET", "/stats?format=json&topic=c")).json["topics"]
        assert without["e2e_processing_latency"] == {"count": 0, "percentiles": None}
        text = (await server.request("GET", "/stats?topic=b&channel=x")).body.decode()
        topic_line, channel_line = (line for line in text.splitlines() if "e2e%" in line)
        assert re.search(r"msgs: 200      e2e%: [89]\.\ds, 2[45]\d\.\dms$", topic_line)
        assert re.search(r"msgs: 200      e2e%: 2[45]\d\.\dms, 3\.\dms$", channel_line)


async def test_percentiles_end_with_their_window(tmp_path: Path) -> None:
    async with http_server(
        tmp_path, e2e_processing_latency_percentile=(0.5,), e2e_processing_latency_window_time_ms=60_000
    ) as server:
        finish_messages(server)
        for _ in range(61):
            server.clock.advance(ms=1_000)
            server.engine.stats.now(include_clients=False)
        (topic,) = (await server.request("GET", "/stats?format=json&topic=b")).json["topics"]
        for one in (topic, *topic["channels"]):
            empty = {"count": 0, "percentiles": [{"quantile": 0.5, "value": 0}]}
            assert one["e2e_processing_latency"] == empty


async def test_buckets_of_two_answers_add_up_to_the_topic_s(tmp_path: Path) -> None:
    """As a console of several servers does: the sum has the percentiles, whichever parts it is made of."""
    async with http_server(tmp_path) as server:
        finish_messages(server)
        (topic,) = (await server.request("GET", "/stats?format=json&topic=b&include_buckets=true")).json["topics"]
        sums: Counter[int] = Counter()
        for channel in topic["channels"]:
            assert channel["e2e_processing_latency"]["percentiles"] is None
            for end_ns, count in channel["e2e_processing_latency"]["buckets"]:
                sums[end_ns] += count
        assert sorted(sums.items()) == [tuple(one) for one in topic["e2e_processing_latency"]["buckets"]]
        assert topic["e2e_processing_latency"]["count"] == sums.total() == 200
        at = lambda ms: [count for end_ns, count in sums.items() if ms * 1e6 <= end_ns <= ms * 1e6 * 1.041]  # noqa: E731
        assert (at(3), at(250), at(9_000)) == ([90], [10], [100])
        # A channel's histogram counts since the start, the windows have moved on.
        latencies = [channel["e2e_processing_latency"] for channel in topic["channels"]]
        for _ in range(2_000):
            server.clock.advance(ms=1_000)
            server.engine.stats.now(include_clients=False)
        (topic,) = (await server.request("GET", "/stats?format=json&topic=b&include_buckets=true")).json["topics"]
        assert topic["e2e_processing_latency"] == {"count": 0, "percentiles": None, "buckets": []}
        for before, channel in zip(latencies, topic["channels"], strict=True):
            found = channel["e2e_processing_latency"]
            assert (found["buckets"], found["histogram"]) == ([], before["histogram"])
            numbers = found["histogram"][::2]
            assert [end_ns_of(number) for number in numbers] == [end_ns for end_ns, _ in before["buckets"]]
            assert found["histogram"][1::2] == [count for _, count in before["buckets"]]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0s"),
        (0.28549586, "285.49586ms"),
        (0.5, "500ms"),
        (1.0, "1s"),
        (12.5, "12.5s"),
        (62, "1m2s"),
        (3_600, "1h0m0s"),
        (90_061.25, "25h1m1.25s"),
    ],
)
def test_durations_are_written_as_go_does(seconds: float, text: str) -> None:
    assert stats._duration(seconds) == text


def test_latencies_are_written_for_people_as_nsqd_does() -> None:
    shown = [stats._for_people(one) for one in (0, 870, 12_500, 3_200_000, 61 * 10**9, 1_000)]
    assert shown == ["0.0ns", "870.0ns", "12.5us", "3.2ms", "61.0s", "1000.0ns"]


def test_pauses_of_the_collector_are_ranked() -> None:
    pauses = CollectorPauses()
    assert pauses.percentile_usec(99) == 0
    pauses._pauses_ns.extend(number * 1000 for number in range(100, 0, -1))
    assert [pauses.percentile_usec(percent) for percent in (95, 99, 100)] == [95, 99, 100]
