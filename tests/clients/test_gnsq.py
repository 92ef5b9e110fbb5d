"""gnsq, the gevent client: the real file, requeue, timeout, and a restart in mid-stream."""

from collections import Counter
from pathlib import Path

import pytest

from tests.clients.gnsq_process import GnsqConsumer, GnsqPublisher
from tests.support.processes.server import ServerProcess
from tests.support.waiting import wait_for

pytestmark = [pytest.mark.slow(reason="starts real servers"), pytest.mark.timeout(400)]


def wait_for_consumers(server: ServerProcess, topic: str, *channels: str) -> None:
    def are_subscribed() -> bool:
        try:
            return all(server.channel_stats(topic, channel)["client_count"] for channel in channels)
        except LookupError:
            return False

    wait_for("the consumers' subscriptions", are_subscribed)


@pytest.mark.parametrize("batch", [1, 100])
def test_every_line_arrives_byte_equal_on_both_channels(server: ServerProcess, lines: list[bytes], batch: int) -> None:
    topic = f"quakes_{batch}"
    with (
        GnsqConsumer(server.tcp_port, topic, "archive") as archive,
        GnsqConsumer(server.tcp_port, topic, "alerts") as alerts,
    ):
        wait_for_consumers(server, topic, "archive", "alerts")
        with GnsqPublisher(server.tcp_port, topic, lines, "--batch", batch) as publisher:
            publisher.wait()
        assert publisher.acknowledged_count == len(lines)
        for consumer in (archive, alerts):
            wait_for("every line", lambda consumer=consumer: len(consumer.lines) >= len(lines))
            assert Counter(consumer.bodies) == Counter(lines)
        wait_for(
            "every FIN", lambda: all(found["in_flight_count"] == 0 for found in server.topic_stats(topic)["channels"])
        )
    assert [channel["depth"] for channel in server.topic_stats(topic)["channels"]] == [0, 0]


def test_requeue_and_timeout_come_again_with_one_attempt_more(tmp_path: Path, lines: list[bytes]) -> None:
    """gnsq cannot ask for a message timeout: the server's own is short here, and longer than a machine's pause.

    One message, since gnsq goes with RDY 1 until a first FIN: each of several would wait for the one before.
    """
    some = lines[:1]
    with (
        ServerProcess(tmp_path / "data", options=["--msg-timeout=5s"]) as server,
        GnsqConsumer(server.tcp_port, "twice", "requeued", "--requeue-ms", 500) as requeued,
        GnsqConsumer(server.tcp_port, "twice", "timed_out", "--time-out") as timed_out,
    ):
        wait_for_consumers(server, "twice", "requeued", "timed_out")
        with GnsqPublisher(server.tcp_port, "twice", some) as publisher:
            publisher.wait()
        for consumer in (requeued, timed_out):
            wait_for("both attempts", lambda consumer=consumer: len(consumer.lines) == 2 * len(some), timeout_s=60)
            for attempts in (1, 2):
                bodies = [body for attempt, _, body in consumer.deliveries if attempt == attempts]
                assert Counter(bodies) == Counter(some)
        wait_for(
            "every FIN", lambda: all(found["in_flight_count"] == 0 for found in server.topic_stats("twice")["channels"])
        )
        shown = {found["channel_name"]: found for found in server.topic_stats("twice")["channels"]}
        assert (shown["requeued"]["requeue_count"], shown["requeued"]["timeout_count"]) == (len(some), 0)
        assert (shown["timed_out"]["requeue_count"], shown["timed_out"]["timeout_count"]) == (0, len(some))


def test_a_restart_in_mid_stream_loses_no_acknowledged_line(own_server: ServerProcess, lines: list[bytes]) -> None:
    """Publisher and consumers go on by themselves; a third channel is paused and keeps everything."""
    server = own_server
    server.http("POST", "/topic/create?topic=quakes")
    server.http("POST", "/channel/create?topic=quakes&channel=held")
    server.http("POST", "/channel/pause?topic=quakes&channel=held")
    with (
        GnsqConsumer(server.tcp_port, "quakes", "archive") as archive,
        GnsqConsumer(server.tcp_port, "quakes", "alerts") as alerts,
    ):
        wait_for_consumers(server, "quakes", "archive", "alerts")
        with GnsqPublisher(server.tcp_port, "quakes", lines, "--slow-until-lost") as publisher:
            wait_for("a part", lambda: publisher.acknowledged_count > 50)
            server.stop()
            # Not after the start: the publisher goes on as soon as the server listens, before the console does.
            assert publisher.acknowledged_count < len(lines), "the restart came too late to be in mid-stream"
            server.start()
            publisher.wait()
        for consumer in (archive, alerts):
            wait_for("every line", lambda consumer=consumer: set(consumer.bodies) == set(lines), timeout_s=60)
        held = server.channel_stats("quakes", "held")
        assert held["paused"] is True
        # What was under way when the server went may be there twice: its publisher heard no answer.
        assert len(lines) <= held["depth"] <= len(lines) + 2
