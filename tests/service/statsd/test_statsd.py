"""The stats that a statsd daemon gets: names, values and packets, and what happens while it can't be reached."""

import asyncio
import logging
import socket
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from queue_engine.engine.engine import Engine
from queue_engine.service.runner import EngineRunner
from queue_engine.service.statsd import push as push_module
from queue_engine.service.statsd.lines import packets_of
from queue_engine.service.statsd.push import StatsdPush, look_up
from queue_engine.vocabulary.options.options import Options
from tests.support.clock import ManualClock
from tests.support.engine import Client, make_engine, settle
from tests.support.statsd import StatsdReceiver, statsd_receiver
from tests.support.waiting import wait_for

PREFIX = "nsq.queue_example_4151."


def complaints(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What statsd's sender has logged."""
    return [record.getMessage() for record in caplog.records if record.name == push_module.logger.name]


class Pushed:
    """An engine whose stats go to a receiver."""

    def __init__(self, directory: Path, receiver: StatsdReceiver, **options: Any) -> None:
        self.clock = ManualClock()
        given = {"statsd_address": receiver.address, "broadcast_address": "queue.example", **options}
        self.engine: Engine = make_engine(directory, self.clock, **given)
        self.push = StatsdPush(self.engine, self.clock, lambda: 4151)

    def topic(self, name: str, channel: str) -> Client:
        self.engine.acts.create_topic(name)
        settle(self.engine)
        return Client(self.engine, name, channel, ready=3)


async def test_counters_are_what_was_added_gauges_what_there_is(tmp_path: Path) -> None:
    with statsd_receiver() as receiver:
        one = Pushed(tmp_path, receiver, e2e_processing_latency_percentile=(0.99, 0.5))
        client = one.topic("orders.eu", "billing")
        one.engine.publish("orders.eu", [b"12345"] * 5)
        settle(one.engine)
        one.clock.advance(ms=20)
        client.finish(client.sink.received[0].id)
        await one.push.push_once()
        first = receiver.values()
        start, channel = f"{PREFIX}topic.orders.eu.", f"{PREFIX}topic.orders.eu.channel.billing."
        latencies = {name: value for name, value in first.items() if "_latency_" in name}
        assert latencies.keys() == {f"{at}e2e_processing_latency_{of}" for at in (start, channel) for of in (99, 50)}
        assert all(19_500_000 <= int(value.removesuffix("|g")) <= 20_500_000 for value in latencies.values())
        told = {name: value for name, value in first.items() if name not in latencies and ".mem." not in name}
        assert told == {
            f"{start}message_count": "5|c",
            f"{start}message_bytes": "25|c",
            f"{start}depth": "0|g",
            f"{start}backend_depth": "0|g",
            f"{channel}message_count": "5|c",
            f"{channel}requeue_count": "0|c",
            f"{channel}timeout_count": "0|c",
            f"{channel}depth": "1|g",
            f"{channel}backend_depth": first[f"{channel}backend_depth"],
            f"{channel}in_flight_count": "3|g",
            f"{channel}deferred_count": "0|g",
            f"{channel}clients": "1|g",
        }
        memory = {name.removeprefix(f"{PREFIX}mem."): value for name, value in first.items() if ".mem." in name}
        assert list(memory) == [
            *("heap_objects", "heap_idle_bytes", "heap_in_use_bytes", "heap_released_bytes", "gc_pause_usec_100"),
            *("gc_pause_usec_99", "gc_pause_usec_95", "next_gc_bytes", "gc_runs"),
        ]
        assert memory["gc_runs"].endswith("|c")
        assert int(memory["heap_in_use_bytes"].removesuffix("|g")) > 1 << 20

        receiver.packets.clear()
        one.engine.publish("orders.eu", [b"1"])
        settle(one.engine)
        await one.push.push_once()
        second = receiver.values()
        assert (second[f"{start}message_count"], second[f"{start}message_bytes"]) == ("1|c", "1|c")
        assert (second[f"{channel}message_count"], second[f"{channel}depth"]) == ("1|c", "2|g")
        assert second.keys() == first.keys()
        one.engine.close()


async def test_a_topic_that_was_made_anew_counts_from_nothing(tmp_path: Path) -> None:
    with statsd_receiver() as receiver:
        one = Pushed(tmp_path, receiver, statsd_mem_stats=False)
        for count in (5, 2):
            one.engine.acts.create_topic("orders")
            settle(one.engine)
            one.engine.publish("orders", [b"x"] * count)
            settle(one.engine)
            receiver.packets.clear()
            await one.push.push_once()
            assert receiver.values()[f"{PREFIX}topic.orders.message_count"] == f"{count}|c"
            one.engine.acts.delete_topic("orders")
            settle(one.engine)
        assert not any(".mem." in name for name in receiver.values())
        one.engine.close()


async def test_ephemeral_ones_are_left_out_where_that_is_wanted(tmp_path: Path) -> None:
    for excluded in (False, True):
        with statsd_receiver() as receiver:
            directory = tmp_path / str(excluded)
            directory.mkdir()
            one = Pushed(directory, receiver, statsd_exclude_ephemeral=excluded)
            one.topic("orders", "tail#ephemeral")
            one.topic("passing#ephemeral", "billing")
            one.topic("kept", "billing")
            await one.push.push_once()
            told = receiver.values()
            assert any("#ephemeral" in name for name in told) is not excluded
            assert f"{PREFIX}topic.orders.depth" in told
            assert f"{PREFIX}topic.kept.channel.billing.clients" in told
            one.engine.close()


async def test_packets_have_whole_lines_and_at_most_their_size(tmp_path: Path) -> None:
    with statsd_receiver() as receiver:
        one = Pushed(tmp_path, receiver, statsd_udp_packet_size=200)
        for number in range(12):
            one.topic(f"topic-{number}", "billing")
        await one.push.push_once()
        packets = receiver.receive()
        assert len(packets) > 20
        assert max(map(len, packets)) <= 200
        assert len(receiver.values()) == 12 * (4 + 8) + 9
        one.engine.close()


def test_a_line_longer_than_a_packet_is_one_of_its_own() -> None:
    assert packets_of(["a" * 6, "b" * 3, "c" * 3, "d" * 90, "e"], 8) == [
        b"aaaaaa\n",
        b"bbb\nccc\n",
        b"d" * 90 + b"\n",
        b"e\n",
    ]
    assert packets_of(["aaaa", "bbb"], 8) == [b"aaaa\n", b"bbb\n"], "one byte too many"
    assert packets_of([], 8) == []


@pytest.mark.parametrize(
    ("pattern", "host", "prefix"),
    [
        ("nsq.%s", "queue.example", "nsq.queue_example_4151."),
        ("nsq.%s.", "10.0.0.7", "nsq.10_0_0_7_4151."),
        ("%s", "::1", "[__1]_4151."),
        ("plain", "queue.example", "plain."),
        ("", "queue.example", ""),
    ],
)
def test_the_prefix_names_the_server_without_dots_and_colons(pattern: str, host: str, prefix: str) -> None:
    assert Options(statsd_prefix=pattern).effective_statsd_prefix(host, 4151) == prefix


async def test_a_host_that_is_not_known_is_one_line_a_minute_and_loses_no_count(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with statsd_receiver() as receiver:
        one = Pushed(tmp_path, receiver)
        one.topic("orders", "billing")
        one.engine.publish("orders", [b"x"] * 7)
        settle(one.engine)
        is_known = False

        def resolve(host: str, port: int) -> Any:
            if not is_known:
                raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
            return look_up(host, port)

        one.push = StatsdPush(one.engine, one.clock, lambda: 4151, resolve=resolve)
        with caplog.at_level(logging.WARNING):
            for _ in range(3):
                await one.push.push_once()
            sentence = f"statsd gets no stats: {receiver.address} can't be looked up: Name or service not known"
            assert complaints(caplog) == [sentence]
            one.clock.advance(ms=60_000)
            await one.push.push_once()
            assert complaints(caplog) == [sentence] * 2
        assert receiver.receive() == []
        is_known = True
        await one.push.push_once()
        assert receiver.values()[f"{PREFIX}topic.orders.message_count"] == "7|c"
        one.engine.close()


async def test_a_name_server_that_does_not_answer_holds_up_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The loop goes on meanwhile, and there is one waiting thread, however often the stats are due."""
    monkeypatch.setattr(push_module, "LOOKED_UP_WITHIN_S", 0.01)
    answers, asked = threading.Event(), []
    with statsd_receiver() as receiver:
        one = Pushed(tmp_path, receiver)

        def resolve(host: str, port: int) -> Any:
            asked.append(host)
            answers.wait()
            return look_up(host, port)

        one.push = StatsdPush(one.engine, one.clock, lambda: 4151, resolve=resolve)
        rounds = 0

        async def other_work() -> None:
            nonlocal rounds
            while True:
                rounds += 1
                await asyncio.sleep(0)

        other = asyncio.create_task(other_work())
        try:
            with caplog.at_level(logging.WARNING):
                for _ in range(3):
                    await one.push.push_once()
            assert rounds >= 3
            assert len(asked) == 1
            assert [line.partition(": ")[2] for line in complaints(caplog)] == [
                f"{receiver.address} can't be looked up: no answer within 0.01 s"
            ]
            answers.set()
            monkeypatch.setattr(push_module, "LOOKED_UP_WITHIN_S", 60)
            await one.push.push_once()
            assert receiver.receive() != []
        finally:
            answers.set()
            other.cancel()
        one.engine.close()


async def test_nobody_at_the_port_is_one_line_in_the_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with statsd_receiver() as receiver:
        address = receiver.address
        one = Pushed(tmp_path, receiver, statsd_udp_packet_size=100)
        one.topic("orders", "billing")
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            await one.push.push_once()
    (line,) = complaints(caplog)
    assert f"packets were not sent to {address}: Connection refused" in line
    one.engine.close()


def test_a_running_server_sends_its_stats_at_intervals(tmp_path: Path) -> None:
    with statsd_receiver() as receiver:
        options = Options(
            tcp_address="127.0.0.1:0",
            http_address="127.0.0.1:0",
            data_path=str(tmp_path),
            broadcast_address="queue.example",
            statsd_address=receiver.address,
            statsd_interval_ms=1_000,
        )
        runner = EngineRunner(options)
        runner.start()
        try:
            runner.calls.create_topic("orders").result(timeout=30)
            prefix = f"nsq.queue_example_{runner.listeners.http[1]}."
            wait_for("the topic's figures", lambda: f"{prefix}topic.orders.depth" in receiver.values(), timeout_s=60)
            began_s = time.monotonic()
        finally:
            runner.stop()
        assert time.monotonic() - began_s < 30
