"""SUB, RDY, FIN, REQ, TOUCH over a socket, on both storage kinds, beside what conformance/ asks for."""

import time
from collections.abc import Callable

import pytest

from tests.support.nsq_socket import FRAME_MESSAGE
from tests.support.processes.running_engine import RunningEngine
from tests.support.waiting import wait_for

StartEngine = Callable[..., RunningEngine]

UNKNOWN_ID = b"0123456789abcdef"


def test_the_ok_of_sub_comes_before_the_first_message_even_when_rdy_follows_at_once(engine: RunningEngine) -> None:
    engine.client().subscribe("t", "c")  # now that the channel exists, its OK waits for nothing
    engine.client().publish("t", b"early")
    client = engine.client()
    client.send(b"SUB t c\nRDY 1\n")
    assert client.read_response() == b"OK"
    assert client.read_message().body == b"early"


def test_rdy_bounds_what_is_in_flight_and_fin_makes_room(engine: RunningEngine) -> None:
    client = engine.client()
    client.subscribe("t", "c", rdy=2)
    engine.client().publish("t", b"1", b"2", b"3")
    first, second = client.read_message(), client.read_message()
    client.expect_silence(0.2)
    found = engine.channel_stats("t", "c")
    assert (found["in_flight_count"], found["depth"]) == (2, 1)
    client.finish(first)
    third = client.read_message()
    assert third.body == b"3"
    client.finish(second)
    client.finish(third)
    wait_for("all finished", lambda: engine.channel_stats("t", "c")["in_flight_count"] == 0)


def test_req_brings_it_back_at_once_with_one_attempt_more(engine: RunningEngine) -> None:
    client = engine.client()
    client.subscribe("t", "c", rdy=1)
    engine.client().publish("t", b"again")
    first = client.read_message()
    client.send(b"REQ " + first.id + b" 0\n")
    second = client.read_message()
    assert (second.id, second.body, second.attempts) == (first.id, b"again", 2)
    assert second.timestamp_ns == first.timestamp_ns
    found = engine.channel_stats("t", "c")
    assert (found["requeue_count"], found["timeout_count"], found["message_count"]) == (1, 0, 1)


def test_req_with_a_delay_defers(engine: RunningEngine) -> None:
    """One message is deferred for an hour, one for a moment: no pause of the machine is longer than both."""
    client = engine.client()
    client.subscribe("t", "c", rdy=2)
    engine.client().publish("t", b"in an hour", b"soon")
    first, second = client.read_message(), client.read_message()
    client.send(b"REQ " + first.id + b" 3600000\n")
    wait_for("the deferral", lambda: engine.channel_stats("t", "c")["deferred_count"] == 1)
    requeued_at_s = time.monotonic()
    client.send(b"REQ " + second.id + b" 200\n")
    again = client.read_message()
    assert (again.id, again.attempts) == (second.id, 2)
    assert time.monotonic() - requeued_at_s >= 0.2
    assert engine.channel_stats("t", "c")["deferred_count"] == 1


def test_timeout_brings_it_back_and_a_late_fin_is_told_so(start_engine: StartEngine) -> None:
    """It times out with one consumer, on a slow machine more than once, and comes to another with time enough."""
    engine = start_engine(msg_timeout_ms=200, queue_scan_interval_ms=20)
    late, other = engine.client(), engine.client()
    other.identify(msg_timeout=600_000)
    late.subscribe("t", "c", rdy=1)
    engine.client().publish("t", b"slow")
    first = late.read_message()
    late.send(b"RDY 0\n")
    other.subscribe("t", "c", rdy=1)
    second = other.read_message()
    assert second.id == first.id
    assert second.attempts > 1
    found = engine.channel_stats("t", "c")
    assert (found["timeout_count"], found["requeue_count"]) == (second.attempts - 1, 0)
    late.finish(first)
    for _ in range(first.attempts, second.attempts - 1):
        assert late.read_message().id == first.id
    assert late.read_error() == f"E_FIN_FAILED FIN {first.id.decode()} failed client does not own message"
    other.finish(second)
    other.finish(second)
    assert other.read_error() == f"E_FIN_FAILED FIN {second.id.decode()} failed ID not in flight"
    late.expect_open()
    other.expect_open()


def test_touch_prolongs(engine: RunningEngine) -> None:
    client = engine.client()
    client.subscribe("t", "c", rdy=1)
    engine.client().publish("t", b"long work")
    message = client.read_message()

    def allowed_ms() -> int:
        """From its delivery to its deadline."""
        (found,) = engine.in_flight("t", "c")
        return found.held_ms + found.deadline_in_ms

    untouched_ms = allowed_ms()

    def has_gained() -> bool:
        client.send(b"TOUCH " + message.id + b"\n")
        return allowed_ms() > untouched_ms + 50

    wait_for("time gained by TOUCH", has_gained)
    client.finish(message)
    wait_for("the end", lambda: engine.channel_stats("t", "c")["in_flight_count"] == 0)


@pytest.mark.slow(reason="waits for the better part of a second")
def test_touch_does_not_prolong_beyond_the_longest_timeout(start_engine: StartEngine) -> None:
    """Touched far more often than its timeout asks for, it comes again all the same."""
    engine = start_engine(msg_timeout_ms=500, max_msg_timeout_ms=800, queue_scan_interval_ms=20)
    client = engine.client()
    client.subscribe("t", "c", rdy=1)
    engine.client().publish("t", b"too long")
    message = client.read_message()

    def comes_again() -> bool:
        client.send(b"TOUCH " + message.id + b"\n")
        try:
            kind, _ = client.read_frame(timeout_s=0.02)
        except TimeoutError:
            return False
        return kind == FRAME_MESSAGE

    wait_for("the message to come again", comes_again)
    assert engine.channel_stats("t", "c")["timeout_count"] >= 1


def test_a_lost_consumers_messages_come_back_at_once(engine: RunningEngine) -> None:
    lost, other = engine.client(), engine.client()
    lost.subscribe("t", "c", rdy=1)
    engine.client().publish("t", b"orphan")
    message = lost.read_message()
    lost.close()
    other.subscribe("t", "c", rdy=1)
    again = other.read_message()
    assert (again.id, again.attempts) == (message.id, 2)


def test_valid_names_are_taken(engine: RunningEngine) -> None:
    for name in (b"a", b"n" * 64, b"A.b-c_9", b"x#ephemeral", b"n" * 54 + b"#ephemeral"):
        client = engine.client()
        client.send(b"SUB " + name + b" " + name + b"\n")
        client.expect_ok()


def test_the_servers_own_topic_is_reserved(engine: RunningEngine) -> None:
    for verb, behind in ((b"SUB", b" c\n"), (b"PUB", b"\n"), (b"MPUB", b"\n"), (b"DPUB", b" 1\n")):
        client = engine.client()
        client.send(verb + b" _penstock.samples" + behind)
        topic = 'topic name "_penstock.samples" is reserved for the server\'s own samples'
        assert client.read_error() == f"E_BAD_TOPIC {verb.decode()} {topic}"
        client.expect_closed()


def test_an_unknown_id_among_many_fins_gets_its_own_error_and_the_rest_are_finished(engine: RunningEngine) -> None:
    client = engine.client()
    client.subscribe("t", "c", rdy=10)
    engine.client().publish("t", *(b"%d" % number for number in range(5)))
    messages = [client.read_message() for _ in range(5)]
    ids = [message.id for message in messages]
    ids.insert(2, UNKNOWN_ID)
    ids.append(ids[0])
    client.send(b"".join(b"FIN " + one + b"\n" for one in ids))
    assert client.read_error() == f"E_FIN_FAILED FIN {UNKNOWN_ID.decode()} failed ID not in flight"
    assert client.read_error() == f"E_FIN_FAILED FIN {ids[0].decode()} failed ID not in flight"
    client.expect_open()
    assert engine.channel_stats("t", "c")["in_flight_count"] == 0
