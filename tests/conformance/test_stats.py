"""/stats, its text, its counters and filters; percentiles, and what a statsd daemon gets, in nsqd's words."""

import re
from collections.abc import Iterator

import pytest

from tests.conformance.conftest import StartNsq
from tests.conformance.server import NSQD, NsqServer, new_name
from tests.support.nsq_socket import NsqSocket
from tests.support.statsd import StatsdReceiver, statsd_receiver
from tests.support.waiting import wait_for

DURATION = r"([0-9]+h)?([0-9]+m)?[0-9.]+(s|ms|µs)"


@pytest.fixture
def receiver() -> Iterator[StatsdReceiver]:
    with statsd_receiver() as found:
        yield found


def identified(nsq: NsqServer, name: str) -> NsqSocket:
    client = nsq.client()
    client.identify(client_id=name, hostname=f"{name}.example", user_agent=f"{name}/1.0")
    return client


def test_the_text_is_laid_out_in_nsqd_s_columns(nsq: NsqServer, topic: str) -> None:
    producer, consumer = identified(nsq, "producer"), identified(nsq, "consumer")
    producer.publish(topic, b"one", b"two", b"three")
    consumer.subscribe(topic, "billing", rdy=1)
    consumer.finish(consumer.read_message())
    consumer.read_message()

    def finished() -> bool:
        return b" fin: 1 " in nsq.http("GET", f"/stats?topic={topic}").body

    wait_for("the FIN to be counted", finished)
    lines = nsq.http("GET", f"/stats?topic={topic}").body.decode().split("\n")
    names = "heap_objects heap_idle_bytes heap_in_use_bytes heap_released_bytes gc_pause_usec_100 gc_pause_usec_99 "
    names += "gc_pause_usec_95 next_gc_bytes gc_total_runs"
    channel = rf"      \[{'billing':<25}\] depth: 1     be-depth: [01]     inflt: 1    def: 0    re-q: 0     "
    client = r"        \[V2 consumer\.example:[0-9]+ consumer/1\.0\s*\] state: 3 inflt: 1    rdy: 1    fin: 1        "
    expected = [
        r"nsqd v[0-9]\S* \(built w/\S+\)",
        r"start_time [0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(Z|[+-][0-9]{2}:[0-9]{2})",
        f"uptime {DURATION}",
        "",
        "Health: OK",
        "",
        "Memory:",
        *(rf"   {name:<25}\t[0-9]+" for name in names.split()),
        "",
        "Topics:",
        rf"   \[{topic:<15}\] depth: 0     be-depth: 0     msgs: 3        e2e%: ",
        channel + "timeout: 0     msgs: 3        e2e%: ",
        client + f"re-q: 0        msgs: 2        connected: {DURATION}",
        "",
        "Producers:",
        rf"   \[V2 producer\.example:[0-9]+ producer/1\.0\s*\] msgs: 3        topics: {topic}=3 connected: {DURATION}",
        "",
    ]
    assert len(lines) == len(expected), lines
    for line, form in zip(lines, expected, strict=True):
        assert re.fullmatch(form, line), (line, form)


def test_counters_count_what_nsqd_s_count(nsq: NsqServer, topic: str) -> None:
    """message_count of a channel is without redeliveries, that of a client with them; REQ and timeouts are apart."""
    patient, hasty = nsq.client(), nsq.client()
    hasty.identify(msg_timeout=1_000)
    patient.subscribe(topic, "c", rdy=1)
    nsq.client().publish(topic, b"message")
    first = patient.read_message()
    patient.send(b"RDY 0\nREQ %b 0\n" % first.id)  # requeued
    hasty.subscribe(topic, "c", rdy=1)
    assert hasty.read_message().attempts == 2
    hasty.send(b"RDY 0\n")  # times out; on a machine that stalls it may have come once more before that
    patient.send(b"RDY 1\n")
    last = patient.read_message()
    patient.finish(last)
    wait_for("the FIN", lambda: nsq.channel(topic, "c")["in_flight_count"] == 0)
    found = nsq.channel(topic, "c")
    counted = {name: found[name] for name in ("message_count", "requeue_count", "timeout_count", "depth")}
    timeouts = last.attempts - 2
    assert timeouts >= 1
    assert counted == {"message_count": 1, "requeue_count": 1, "timeout_count": timeouts, "depth": 0}
    (one,) = (client for client in found["clients"] if client["finish_count"])
    assert (one["message_count"], one["finish_count"], one["requeue_count"]) == (2, 1, 1)
    assert sum(client["message_count"] for client in found["clients"]) == last.attempts
    whole = nsq.topic(topic)
    assert (whole["message_count"], whole["message_bytes"]) == (1, len(b"message"))


def test_clients_and_memory_are_left_out_where_they_are_not_wanted(nsq: NsqServer, topic: str) -> None:
    producer, consumer = identified(nsq, "producer"), identified(nsq, "consumer")
    producer.publish(topic, b"one")
    consumer.subscribe(topic, "billing")
    for wanted in ("true", "1", "", "maybe"):
        found = nsq.stats(f"topic={topic}&include_clients={wanted}&include_mem={wanted}")
        (channel,) = found["topics"][0]["channels"]
        assert [one["hostname"] for one in channel["clients"]] == ["consumer.example"]
        assert [one["hostname"] for one in found["producers"]] == ["producer.example"]
        assert found["memory"]["heap_objects"] > 0
    for unwanted in ("false", "0"):
        found = nsq.stats(f"topic={topic}&include_clients={unwanted}&include_mem={unwanted}")
        (channel,) = found["topics"][0]["channels"]
        assert (channel["clients"], channel["client_count"]) == (None, 1)
        assert found["producers"] is None
        assert "memory" not in found


def test_no_producer_is_null(start_nsq: StartNsq) -> None:
    server = start_nsq()
    assert server.stats()["producers"] is None
    assert server.http("POST", "/pub?topic=over-http", b"x").status == 200
    for query in ("", "topic=over-http", "topic=none", "include_clients=false"):
        assert server.stats(query)["producers"] is None, query


def test_filters_leave_one_topic_or_one_channel(nsq: NsqServer, topic: str) -> None:
    client = nsq.client()
    client.publish(topic, b"x")
    client.publish(other := new_name(), b"x")
    for name in ("a", "b"):
        assert nsq.http("POST", f"/channel/create?topic={topic}&channel={name}").status == 200
    every = [one["topic_name"] for one in nsq.stats()["topics"]]
    assert {topic, other} <= set(every)
    assert every == sorted(every)
    assert [one["topic_name"] for one in nsq.stats(f"topic={topic}")["topics"]] == [topic]
    assert [one["channel_name"] for one in nsq.topic(topic)["channels"]] == ["a", "b"]
    (found,) = nsq.stats(f"topic={topic}&channel=b")["topics"]
    assert [one["channel_name"] for one in found["channels"]] == ["b"]


def test_a_producer_is_told_with_each_topic_it_publishes_to(nsq: NsqServer, topic: str) -> None:
    producer = identified(nsq, "producer")
    producer.publish(topic, b"x", b"y")
    producer.publish(other := new_name(), b"z")

    def counts(asked: str) -> dict[str, int]:
        (found,) = nsq.stats(f"topic={asked}")["producers"]
        return {one["topic"]: one["count"] for one in found["pub_counts"]}

    assert (counts(topic)[topic], counts(other)[other]) == (2, 1)
    text = nsq.http("GET", f"/stats?topic={topic}").body.decode()
    assert f"topics: {topic}=2" in text
    if not NSQD:  # which tells one topic of those alone
        (whole,) = (one for one in nsq.stats()["producers"] if {"topic": other, "count": 1} in one["pub_counts"])
        # In the order it began to publish to them: a name made later may sort before one made earlier.
        assert whole["pub_counts"] == [{"topic": topic, "count": 2}, {"topic": other, "count": 1}]


def test_messages_in_flight_go_on_while_the_stats_are_read(nsq: NsqServer, topic: str) -> None:
    producer, consumer = nsq.client(), nsq.client()
    producer.publish(topic, *(b"%d" % number for number in range(25)))
    consumer.subscribe(topic, "c", rdy=25)
    held = [consumer.read_message() for _ in range(25)]
    for left, message in zip(range(25, 0, -1), held, strict=True):
        assert nsq.channel(topic, "c")["in_flight_count"] in (left, left + 1)
        consumer.finish(message)
    wait_for("all to be finished", lambda: nsq.channel(topic, "c")["in_flight_count"] == 0)


def test_percentiles_come_in_stats_and_to_statsd(start_nsq: StartNsq, receiver: StatsdReceiver) -> None:
    nsq = start_nsq(
        e2e_processing_latency_percentile="0.5,0.99",
        statsd_address=receiver.address,
        statsd_interval="1s",
        statsd_prefix="nsq.here",
    )
    topic = new_name()
    producer, consumer = nsq.client(), nsq.client()
    consumer.subscribe(topic, "c", rdy=5)
    producer.publish(topic, b"1", b"2", b"3")
    for _ in range(3):
        consumer.finish(consumer.read_message())
    wait_for("the FINs", lambda: nsq.channel(topic, "c")["e2e_processing_latency"]["count"] == 3)
    whole = nsq.topic(topic)
    for one in (whole, *whole["channels"]):
        found = one["e2e_processing_latency"]
        assert found["count"] == 3
        assert [entry["quantile"] for entry in found["percentiles"]] == [0.99, 0.5]
        high, low = (entry["value"] for entry in found["percentiles"])
        assert 0 < low <= high < 60e9
    start, channel = f"nsq.here.topic.{topic}.", f"nsq.here.topic.{topic}.channel.c."
    wait_for("the figures", lambda: receiver.values().get(f"{channel}message_count") == "3|c")
    wait_for("those of the memory", lambda: "nsq.here.mem.gc_runs" in receiver.values())
    told = receiver.values()
    assert told[f"{start}message_count"] == "3|c"
    assert told[f"{start}message_bytes"] == "3|c"
    assert told[f"{channel}clients"] == "1|g"
    of_topic = {name.removeprefix(start) for name in told if name.startswith(start)}
    latencies = {"e2e_processing_latency_99", "e2e_processing_latency_50"}
    own = {"message_count", "message_bytes", "depth", "backend_depth", *latencies}
    theirs = {"message_count", "requeue_count", "timeout_count", "depth", "backend_depth", "in_flight_count"}
    theirs |= {"deferred_count", "clients", *latencies}
    assert of_topic - {"channel.c.zone_local_msg_count", "channel.c.region_local_msg_count"} == own | {
        f"channel.c.{name}" for name in theirs
    }
    assert max(map(len, receiver.packets)) <= 508


def test_without_percentiles_there_are_none(nsq: NsqServer, topic: str) -> None:
    nsq.client().publish(topic, b"x")
    assert nsq.topic(topic)["e2e_processing_latency"] == {"count": 0, "percentiles": None}
