"""SUB, RDY, FIN, REQ, TOUCH, CLS: delivery as a consumer sees it, and every way to get it wrong."""

import time
from collections.abc import Callable

import pytest

from tests.support.nsq_socket import FRAME_MESSAGE, sized
from tests.support.processes.running_engine import RunningEngine
from tests.support.waiting import wait_for

StartEngine = Callable[..., RunningEngine]

UNKNOWN_ID = b"0123456789abcdef"


def test_a_message_comes_with_attempts_one_its_id_and_body(engine: RunningEngine) -> None:
    client = engine.client()
    client.subscribe("t", "c", rdy=1)
    engine.client().publish("t", b"test body")
    message = client.read_message()
    assert (message.attempts, message.body) == (1, b"test body")
    assert len(message.id) == 16
    assert set(message.id) <= set(b"0123456789abcdef")


def test_the_ok_of_sub_comes_before_the_first_message_even_when_rdy_follows_at_once(engine: RunningEngine) -> None:
    engine.client().subscribe("t", "c")  # now that the channel exists, its OK waits for nothing
    engine.client().publish("t", b"early")
    client = engine.client()
    client.send(b"SUB t c\nRDY 1\n")
    assert client.read_response() == b"OK"
    assert client.read_message().body == b"early"


def test_every_channel_gets_the_same_message_under_the_same_id(engine: RunningEngine) -> None:
    first, second = engine.client(), engine.client()
    first.subscribe("t", "one", rdy=1)
    second.subscribe("t", "two", rdy=1)
    engine.client().publish("t", b"for both")
    got = [first.read_message(), second.read_message()]
    assert got[0] == got[1]
    assert got[0].body == b"for both"


def test_consumers_of_one_channel_share_its_messages(engine: RunningEngine) -> None:
    first, second = engine.client(), engine.client()
    first.subscribe("t", "c", rdy=1)
    second.subscribe("t", "c", rdy=1)
    engine.client().publish("t", b"1", b"2")
    assert {first.read_message().body, second.read_message().body} == {b"1", b"2"}


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


def test_rdy_without_a_number_is_one_and_zero_stops(engine: RunningEngine) -> None:
    client = engine.client()
    client.subscribe("t", "c")
    client.send(b"RDY\n")
    engine.client().publish("t", b"1", b"2")
    message = client.read_message()
    client.expect_silence(0.2)
    client.send(b"RDY 0\n")
    client.finish(message)
    client.expect_silence(0.2)
    client.send(b"RDY 1\n")
    assert client.read_message().body == b"2"


def test_largest_rdy_is_told_and_taken_and_one_more_is_refused(start_engine: StartEngine) -> None:
    engine = start_engine(max_rdy_count=50)
    client = engine.client()
    assert client.identify(feature_negotiation=True)["max_rdy_count"] == 50
    client.subscribe("t", "c", rdy=50)
    client.expect_open()
    client.send(b"RDY 51\n")
    assert client.read_error() == "E_INVALID RDY count 51 out of range 0-50"
    client.expect_closed()


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


@pytest.mark.slow(reason="waits for the better part of a second")
def test_req_beyond_the_longest_delay_is_clamped_to_it(start_engine: StartEngine) -> None:
    engine = start_engine(max_req_timeout_ms=300)
    client = engine.client()
    client.subscribe("t", "c", rdy=1)
    engine.client().publish("t", b"clamped")
    client.send(b"REQ " + client.read_message().id + b" 86400000\n")
    assert client.read_message().attempts == 2


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


@pytest.mark.slow(reason="waits for the better part of a second")
def test_the_clients_own_msg_timeout_counts(engine: RunningEngine) -> None:
    """Neither earlier nor, by the server's own of a minute, much later."""
    client = engine.client()
    client.identify(msg_timeout=1_000)
    client.subscribe("t", "c", rdy=1)
    published_at_s = time.monotonic()
    engine.client().publish("t", b"slow")
    first = client.read_message()
    assert client.read_message().id == first.id
    assert time.monotonic() - published_at_s >= 1.0
    assert engine.channel_stats("t", "c")["timeout_count"] >= 1


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


@pytest.mark.slow(reason="waits for the better part of a second")
def test_a_lost_consumers_messages_wait_for_their_timeout_if_so_told(start_engine: StartEngine) -> None:
    engine = start_engine(requeue_on_disconnect=False, msg_timeout_ms=500, queue_scan_interval_ms=20)
    lost, other = engine.client(), engine.client()
    lost.subscribe("t", "c", rdy=1)
    published_at_s = time.monotonic()
    engine.client().publish("t", b"orphan")
    lost.read_message()
    lost.close()
    other.subscribe("t", "c", rdy=1)
    assert other.read_message().attempts > 1
    assert time.monotonic() - published_at_s >= 0.5
    assert engine.channel_stats("t", "c")["timeout_count"] >= 1


def test_cls_answers_close_wait_and_still_takes_fin(engine: RunningEngine) -> None:
    client = engine.client()
    client.subscribe("t", "c", rdy=1)
    engine.client().publish("t", b"1", b"2")
    message = client.read_message()
    client.send(b"CLS\n")
    assert client.read_response() == b"CLOSE_WAIT"
    client.send(b"RDY 5\n")
    client.finish(message)
    client.expect_silence(0.2)
    found = engine.channel_stats("t", "c")
    assert (found["in_flight_count"], found["depth"]) == (0, 1)


def test_a_paused_channel_pushes_nothing_and_unpause_pushes(engine: RunningEngine) -> None:
    client = engine.client()
    client.subscribe("t", "c", rdy=1)
    engine.http("POST", "/channel/pause?topic=t&channel=c")
    engine.client().publish("t", b"held")
    client.expect_silence(0.2)
    assert engine.channel_stats("t", "c")["depth"] == 1
    engine.http("POST", "/channel/unpause?topic=t&channel=c")
    assert client.read_message().body == b"held"


def test_a_paused_topic_gives_its_channels_nothing(engine: RunningEngine) -> None:
    client = engine.client()
    client.subscribe("t", "c", rdy=1)
    engine.http("POST", "/topic/pause?topic=t")
    engine.client().publish("t", b"held")
    client.expect_silence(0.2)
    assert (engine.topic_stats("t")["depth"], engine.channel_stats("t", "c")["depth"]) == (1, 0)
    engine.http("POST", "/topic/unpause?topic=t")
    assert client.read_message().body == b"held"


def test_emptying_a_channel_frees_its_consumers(engine: RunningEngine) -> None:
    client = engine.client()
    client.subscribe("t", "c", rdy=2)
    publisher = engine.client()
    publisher.publish("t", b"1", b"2", b"3")
    old = [client.read_message(), client.read_message()]
    engine.http("POST", "/channel/empty?topic=t&channel=c")
    found = engine.channel_stats("t", "c")
    assert (found["depth"], found["in_flight_count"]) == (0, 0)
    client.finish(old[0])
    assert client.read_error() == f"E_FIN_FAILED FIN {old[0].id.decode()} failed ID not in flight"
    publisher.publish("t", b"4", b"5")
    assert [client.read_message().body for _ in range(2)] == [b"4", b"5"]


def test_deleting_a_channel_closes_its_consumers(engine: RunningEngine) -> None:
    client = engine.client()
    client.subscribe("t", "c", rdy=1)
    engine.http("POST", "/channel/delete?topic=t&channel=c")
    client.expect_closed()


def test_one_consumer_too_many_is_refused(start_engine: StartEngine) -> None:
    engine = start_engine(max_channel_consumers=1)
    engine.client().subscribe("t", "c")
    second = engine.client()
    second.send(b"SUB t c\n")
    assert second.read_error() == "E_SUB_FAILED SUB failed consumers for t:c exceeds limit of 1"
    second.expect_closed()


def test_an_ephemeral_channel_goes_with_its_last_client(engine: RunningEngine) -> None:
    client = engine.client()
    client.subscribe("t", "passing#ephemeral")
    assert [found["channel_name"] for found in engine.topic_stats("t")["channels"]] == ["passing#ephemeral"]
    client.close()
    wait_for("the channel to go", lambda: engine.topic_stats("t")["channels"] == [])


def test_an_ephemeral_topic_goes_with_its_last_channel(engine: RunningEngine) -> None:
    client = engine.client()
    client.subscribe("t#ephemeral", "c#ephemeral", rdy=1)
    engine.client().publish("t#ephemeral", b"passing")
    assert client.read_message().body == b"passing"
    client.close()
    wait_for("the topic to go", lambda: engine.stats()["topics"] == [])


@pytest.mark.parametrize(
    "name", [b"a", b"n" * 64, b"A.b-c_9", b"x#ephemeral", b"n" * 54 + b"#ephemeral"], ids=lambda name: str(len(name))
)
def test_valid_names_are_taken(engine: RunningEngine, name: bytes) -> None:
    client = engine.client()
    client.send(b"SUB " + name + b" " + name + b"\n")
    client.expect_ok()


@pytest.mark.parametrize(
    ("sent", "error"),
    [
        (b"SUB t\n", "E_INVALID SUB insufficient number of parameters"),
        (b"SUB a$b c\n", 'E_BAD_TOPIC SUB topic name "a$b" is not valid'),
        (b"SUB t:ephemeral c\n", 'E_BAD_TOPIC SUB topic name "t:ephemeral" is not valid'),
        (
            b"SUB _penstock.samples c\n",
            'E_BAD_TOPIC SUB topic name "_penstock.samples" is reserved for the server\'s own samples',
        ),
        (b"SUB .. c\n", 'E_BAD_TOPIC SUB topic name ".." is not valid'),
        (b"SUB t a$b\n", 'E_BAD_CHANNEL SUB channel name "a$b" is not valid'),
        (b"SUB t \n", 'E_BAD_CHANNEL SUB channel name "" is not valid'),
        (b"RDY 1\n", "E_INVALID cannot RDY in current state"),
        (b"FIN " + UNKNOWN_ID + b"\n", "E_INVALID cannot FIN in current state"),
        (b"REQ " + UNKNOWN_ID + b" 0\n", "E_INVALID cannot REQ in current state"),
        (b"TOUCH " + UNKNOWN_ID + b"\n", "E_INVALID cannot TOUCH in current state"),
        (b"CLS\n", "E_INVALID cannot CLS in current state"),
    ],
)
def test_refused_before_sub(engine: RunningEngine, sent: bytes, error: str) -> None:
    client = engine.client()
    client.send(sent)
    assert client.read_error() == error
    client.expect_closed()


@pytest.mark.parametrize(
    ("sent", "error"),
    [
        (b"SUB t c\n", "E_INVALID cannot SUB in current state"),
        (b"AUTH\n" + sized(b"x"), "E_INVALID cannot AUTH in current state"),
        (b"RDY -1\n", "E_INVALID RDY could not parse count -1"),
        (b"RDY +1\n", "E_INVALID RDY could not parse count +1"),
        (b"RDY 1_0\n", "E_INVALID RDY could not parse count 1_0"),
        (b"RDY many\n", "E_INVALID RDY could not parse count many"),
        (b"RDY 2501\n", "E_INVALID RDY count 2501 out of range 0-2500"),
        (b"FIN\n", "E_INVALID FIN insufficient number of params"),
        (b"FIN 123\n", "E_INVALID invalid message ID"),
        (b"REQ " + UNKNOWN_ID + b"\n", "E_INVALID REQ insufficient number of params"),
        (b"REQ 123 0\n", "E_INVALID invalid message ID"),
        (b"REQ " + UNKNOWN_ID + b" soon\n", "E_INVALID REQ could not parse timeout soon"),
        (b"TOUCH\n", "E_INVALID TOUCH insufficient number of params"),
        (b"TOUCH 123\n", "E_INVALID invalid message ID"),
    ],
)
def test_refused_after_sub(engine: RunningEngine, sent: bytes, error: str) -> None:
    client = engine.client()
    client.subscribe("t", "c")
    client.send(sent)
    assert client.read_error() == error
    client.expect_closed()


@pytest.mark.parametrize(("verb", "more"), [(b"FIN", b""), (b"REQ", b" 0"), (b"TOUCH", b"")])
def test_settling_what_is_not_ones_own_is_refused_and_the_connection_stays(
    engine: RunningEngine, verb: bytes, more: bytes
) -> None:
    owner, other = engine.client(), engine.client()
    owner.subscribe("t", "c", rdy=1)
    engine.client().publish("t", b"mine")
    message = owner.read_message()
    other.subscribe("t", "c")
    name = verb.decode()
    other.send(verb + b" " + message.id + more + b"\n")
    assert other.read_error() == f"E_{name}_FAILED {name} {message.id.decode()} failed client does not own message"
    other.send(verb + b" " + UNKNOWN_ID + more + b"\n")
    assert other.read_error() == f"E_{name}_FAILED {name} {UNKNOWN_ID.decode()} failed ID not in flight"
    other.expect_open()
    owner.finish(message)
    wait_for("the owner's FIN", lambda: engine.channel_stats("t", "c")["in_flight_count"] == 0)


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
