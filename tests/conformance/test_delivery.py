"""Channels, topics and consumers: nsqd's own tests of them as conversations."""

import time

import pytest

from tests.conformance.conftest import StartNsq
from tests.conformance.server import NsqServer, new_name
from tests.support.nsq_socket import mpub_body, sized
from tests.support.waiting import wait_for


def act(nsq: NsqServer, path: str, topic: str, channel: str = "") -> None:
    answer = nsq.http("POST", f"{path}?topic={topic}" + (f"&channel={channel}" if channel else ""))
    assert (answer.status, answer.body) == (200, b"")


def test_a_message_has_attempts_one_an_id_and_its_body(nsq: NsqServer, topic: str) -> None:
    consumer = nsq.client()
    consumer.subscribe(topic, "c", rdy=1)
    before_ns = time.time_ns()
    nsq.client().publish(topic, b"test body")
    message = consumer.read_message()
    assert (message.attempts, message.body) == (1, b"test body")
    assert len(bytes.fromhex(message.id.decode())) == 8
    assert abs(message.timestamp_ns - before_ns) < 60_000_000_000


def test_every_channel_gets_a_copy_with_the_same_id(nsq: NsqServer, topic: str) -> None:
    consumers = [nsq.client(), nsq.client()]
    for number, consumer in enumerate(consumers):
        consumer.subscribe(topic, f"c{number}", rdy=1)
    nsq.client().publish(topic, b"x")
    first, second = (consumer.read_message() for consumer in consumers)
    assert (first.id, first.body, first.attempts) == (second.id, second.body, second.attempts)


def test_the_first_channel_gets_what_waited_and_a_put_without_channels_waits(nsq: NsqServer, topic: str) -> None:
    nsq.client().publish(topic, b"early")
    assert nsq.topic(topic)["depth"] == 1
    consumer = nsq.client()
    consumer.subscribe(topic, "c", rdy=1)
    assert consumer.read_message().body == b"early"
    act(nsq, "/channel/delete", topic, "c")
    nsq.client().publish(topic, b"late")
    assert (nsq.topic(topic)["depth"], nsq.topic(topic)["channels"]) == (1, [])


def test_what_is_not_finished_in_time_comes_again_and_a_late_fin_is_told(nsq: NsqServer, topic: str) -> None:
    consumer = nsq.client()
    answer = consumer.identify(msg_timeout=1_000, feature_negotiation=True)
    assert answer["msg_timeout"] == 1_000
    consumer.subscribe(topic, "c", rdy=1)
    nsq.client().publish(topic, b"slow")
    first = consumer.read_message()
    consumer.send(b"RDY 0\n")
    wait_for("the timeout", lambda: nsq.channel(topic, "c")["timeout_count"] == 1)
    assert nsq.channel(topic, "c")["depth"] == 1
    consumer.finish(first)
    assert consumer.read_error() == f"E_FIN_FAILED FIN {first.id.decode()} failed ID not in flight"
    consumer.send(b"RDY 1\n")
    again = consumer.read_message()
    assert (again.id, again.attempts) == (first.id, 2)  # and the connection has gone on
    assert nsq.channel(topic, "c")["requeue_count"] == 0


@pytest.mark.slow(reason="waits for a message's timeout to pass")
def test_touch_extends(nsq: NsqServer) -> None:
    def is_held_beyond_its_timeout() -> bool:
        """On a machine that stalls not at each try."""
        topic = new_name()
        consumer = nsq.client()
        consumer.identify(msg_timeout=1_000)
        consumer.subscribe(topic, "c", rdy=1)
        nsq.client().publish(topic, b"x")
        message = consumer.read_message()
        ends_s = time.monotonic() + 1.4
        while time.monotonic() < ends_s:
            consumer.send(b"TOUCH " + message.id + b"\nRDY 0\n")
            try:
                consumer.read_frame(0.1)
            except TimeoutError:
                continue
            return False
        return nsq.channel(topic, "c")["timeout_count"] == 0

    wait_for("a message to be held", is_held_beyond_its_timeout)


def test_a_delay_of_req_beyond_the_longest_is_clamped(start_nsq: StartNsq, topic: str) -> None:
    nsq = start_nsq(max_req_timeout="100ms")
    consumer = nsq.client()
    consumer.subscribe(topic, "c", rdy=1)
    nsq.client().publish(topic, b"x")
    consumer.send(b"REQ " + consumer.read_message().id + b" 3600000\n")
    assert consumer.read_message().attempts == 2
    assert nsq.channel(topic, "c")["requeue_count"] == 1


def test_dpub_waits_as_deferred(nsq: NsqServer, topic: str) -> None:
    act(nsq, "/topic/create", topic)
    act(nsq, "/channel/create", topic, "c")
    publisher = nsq.client()
    publisher.send(b"DPUB %s 60000\n" % topic.encode() + sized(b"later"))
    publisher.expect_ok()
    wait_for("the deferral", lambda: nsq.channel(topic, "c")["deferred_count"] == 1)
    found = nsq.channel(topic, "c")
    assert (found["depth"], found["message_count"]) == (0, 1)


def test_a_paused_channel_pushes_nothing_and_unpause_pushes(nsq: NsqServer, topic: str) -> None:
    consumer, publisher = nsq.client(), nsq.client()
    consumer.subscribe(topic, "c", rdy=10)
    publisher.publish(topic, b"before")
    consumer.finish(consumer.read_message())
    act(nsq, "/channel/pause", topic, "c")
    assert nsq.channel(topic, "c")["paused"] is True
    publisher.publish(topic, b"held")
    wait_for("the message in the channel", lambda: nsq.channel(topic, "c")["depth"] == 1)
    consumer.expect_silence(0.2)
    act(nsq, "/channel/unpause", topic, "c")
    assert consumer.read_message().body == b"held"


def test_a_paused_topic_passes_nothing_on(nsq: NsqServer, topic: str) -> None:
    act(nsq, "/topic/create", topic)
    act(nsq, "/channel/create", topic, "c")
    act(nsq, "/topic/pause", topic)
    nsq.client().publish(topic, b"held")
    assert (nsq.topic(topic)["depth"], nsq.channel(topic, "c")["depth"]) == (1, 0)
    act(nsq, "/topic/unpause", topic)
    wait_for("the message to be passed on", lambda: nsq.channel(topic, "c")["depth"] == 1)
    assert nsq.topic(topic)["depth"] == 0


def test_emptying_a_channel_drops_what_waits_is_deferred_and_is_in_flight(nsq: NsqServer, topic: str) -> None:
    consumer, publisher = nsq.client(), nsq.client()
    consumer.subscribe(topic, "c", rdy=25)
    publisher.send(b"MPUB %s\n" % topic.encode() + sized(mpub_body([b"x"] * 50)))
    publisher.expect_ok()
    messages = [consumer.read_message() for _ in range(25)]
    consumer.send(b"RDY 0\nREQ " + messages[0].id + b" 60000\n")
    wait_for("the deferral", lambda: nsq.channel(topic, "c")["deferred_count"] == 1)
    found = nsq.channel(topic, "c")
    assert (found["in_flight_count"], found["clients"][0]["in_flight_count"]) == (24, 24)
    assert found["depth"] == 25
    act(nsq, "/channel/empty", topic, "c")
    found = nsq.channel(topic, "c")
    assert (found["depth"], found["in_flight_count"], found["deferred_count"]) == (0, 0, 0)
    assert found["clients"][0]["in_flight_count"] == 0
    publisher.publish(topic, b"next")
    consumer.send(b"RDY 1\n")
    assert consumer.read_message().body == b"next"


def test_deleting_a_channel_closes_its_consumers(nsq: NsqServer, topic: str) -> None:
    consumer = nsq.client()
    consumer.subscribe(topic, "c", rdy=1)
    act(nsq, "/channel/delete", topic, "c")
    consumer.expect_closed()
    assert nsq.topic(topic)["channels"] == []
    act(nsq, "/topic/delete", topic)
    assert nsq.stats(f"topic={topic}")["topics"] is None


def test_an_ephemeral_channel_and_its_topic_go_with_the_last_client(nsq: NsqServer, topic: str) -> None:
    name = f"{topic}#ephemeral"
    consumer = nsq.client()
    consumer.subscribe(name, "c#ephemeral", rdy=1)
    nsq.client().publish(name, b"x")
    consumer.finish(consumer.read_message())
    escaped = name.replace("#", "%23")
    assert [one["topic_name"] for one in nsq.stats(f"topic={escaped}")["topics"]] == [name]
    consumer.close()
    wait_for("the topic to go", lambda: nsq.stats(f"topic={escaped}")["topics"] is None)


def test_cls_stops_deliveries_and_still_settles(nsq: NsqServer, topic: str) -> None:
    consumer, publisher = nsq.client(), nsq.client()
    consumer.subscribe(topic, "c", rdy=2)
    publisher.publish(topic, b"one", b"two")
    messages = [consumer.read_message() for _ in range(2)]
    consumer.send(b"CLS\n")
    assert consumer.read_response() == b"CLOSE_WAIT"
    publisher.publish(topic, b"three")
    consumer.send(b"RDY 5\nTOUCH " + messages[0].id + b"\nREQ " + messages[0].id + b" 0\n")
    consumer.finish(messages[1])
    consumer.expect_open()
    wait_for("all to wait", lambda: nsq.channel(topic, "c")["depth"] == 2)
    assert nsq.channel(topic, "c")["in_flight_count"] == 0


def test_consumers_share_a_channel(nsq: NsqServer, topic: str) -> None:
    consumers = [nsq.client() for _ in range(4)]
    for consumer in consumers:
        consumer.subscribe(topic, "c", rdy=1)
    nsq.client().publish(topic, *[b"%d" % number for number in range(4)])
    bodies = {consumer.read_message().body for consumer in consumers}
    assert bodies == {b"0", b"1", b"2", b"3"}


def test_a_line_may_end_with_carriage_return_and_numbers_may_be_missing(nsq: NsqServer, topic: str) -> None:
    consumer = nsq.client()
    consumer.send(b"SUB %s c\r\n" % topic.encode())
    consumer.expect_ok()
    consumer.send(b"RDY\r\nNOP\r\n")
    nsq.client().publish(topic, b"one", b"two")
    message = consumer.read_message()
    consumer.expect_silence(0.1)  # RDY without a number is 1
    consumer.finish(message)
    assert consumer.read_message().body == b"two"
