"""What becomes of messages that a destination does not take: the backoff of go-nsq, and when one is given up."""

import logging
from collections.abc import Callable
from typing import Any

import pytest

from queue_engine.client.consumer import Message
from queue_engine.client.nodes import Node
from queue_engine.client.subscription import Delivery
from queue_engine.client.tools.retries import UNCLEAR_AS_OFTEN, Backoff, Failure, Retries


class Rests:
    """Stands in for the loop's timers: rests end when the test says so."""

    def __init__(self) -> None:
        self.lengths: list[float] = []
        self._pending: list[Callable[[], None]] = []

    def call_later(self, delay_s: float, callback: Callable[[], None]) -> "Rests":
        self.lengths.append(delay_s)
        self._pending.append(callback)
        return self

    def cancel(self) -> None:
        self._pending.clear()

    def end(self) -> None:
        self._pending.pop()()

    @property
    def count(self) -> int:
        return len(self._pending)


class HeldCounts:
    """Stands in for a subscription."""

    def __init__(self) -> None:
        self.counts: list[int | None] = []

    def hold(self, count: int | None) -> None:
        self.counts.append(count)


class FakeConsumer:
    """Notes what is sent of each message."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, bytes]] = []

    def finish(self, message: Message) -> None:
        self.sent.append(("FIN", message.id))

    def requeue(self, message: Message, *, delay_ms: int) -> None:
        self.sent.append((f"REQ {delay_ms}", message.id))


def test_a_failing_destination_gets_one_message_after_each_rest_and_all_when_it_works() -> None:
    rests, held = Rests(), HeldCounts()
    backoff = Backoff(10.0, rests.call_later)
    with backoff.holding(held):
        for _ in range(5):
            backoff.failed()
            backoff.failed()  # what was in flight fails with it, and makes no rest longer
            assert rests.count == 1
            rests.end()
        assert rests.lengths == [2.0, 4.0, 8.0, 10.0, 10.0]
        assert held.counts == [None, *(0, 1) * 5]
        for _ in range(3):
            backoff.succeeded()
            backoff.succeeded()
            rests.end()
        backoff.succeeded()
        assert rests.lengths[5:] == [8.0, 4.0, 2.0]
        assert held.counts[11:] == [0, 1, 0, 1, 0, 1, None]
        backoff.succeeded()
        assert (held.counts[-1], len(held.counts), rests.count) == (None, 18, 0)


def test_a_subscription_that_joins_during_a_rest_is_held_too_and_the_last_one_ends_the_rest() -> None:
    rests, first, second = Rests(), HeldCounts(), HeldCounts()
    backoff = Backoff(120.0, rests.call_later)
    with backoff.holding(first):
        backoff.failed()
        with backoff.holding(second):
            assert second.counts == [0]
        assert rests.count == 1
    assert rests.count == 0


def test_without_a_backoff_nothing_is_held_back() -> None:
    rests, held = Rests(), HeldCounts()
    backoff = Backoff(0.0, rests.call_later)
    with backoff.holding(held):
        backoff.failed()
        backoff.succeeded()
    assert (held.counts, rests.lengths) == ([None], [])


def test_a_message_that_is_refused_again_and_again_is_given_up_with_its_id(caplog: pytest.LogCaptureFixture) -> None:
    consumer: Any = FakeConsumer()
    retries = Retries(3, 0.0)

    def fail(number: int, attempts: int, failure: Failure) -> str:
        message = Message(b"%016d" % number, 0, attempts, b"")
        delivery = Delivery("t", Node("h", 1), message, consumer)
        return retries.failed(delivery, "answered 400", failure)

    with caplog.at_level(logging.WARNING):
        assert [fail(1, attempts, Failure.DOWN) for attempts in range(1, 9)] == ["requeued"] * 8
        assert [fail(1, attempts, Failure.REFUSED) for attempts in (9, 10, 11)] == ["requeued", "requeued", "given up"]
        assert fail(2, 400, Failure.REFUSED) == "requeued"  # attempts while it was down are none that it refused
    assert consumer.sent[:3] == [(f"REQ {delay}", b"%016d" % 1) for delay in (1_000, 4_000, 9_000)]
    assert consumer.sent[-2:] == [("FIN", b"%016d" % 1), ("REQ 256000", b"%016d" % 2)]
    (line,) = [record.getMessage() for record in caplog.records if "given up" in record.getMessage()]
    assert line == "a message is given up topic=t id=0000000000000001 attempts=11 reason='answered 400'"


def test_a_message_that_was_taken_is_not_counted_any_more() -> None:
    consumer: Any = FakeConsumer()
    retries = Retries(2, 0.0)
    delivery = Delivery("t", Node("h", 1), Message(b"%016d" % 1, 0, 1, b""), consumer)
    assert retries.failed(delivery, "answered 400", Failure.REFUSED) == "requeued"
    retries.succeeded(delivery)
    assert retries.failed(delivery, "answered 400", Failure.REFUSED) == "requeued"


def test_without_a_limit_a_refused_message_comes_again_for_ever() -> None:
    consumer: Any = FakeConsumer()
    retries = Retries(0, 0.0)
    delivery = Delivery("t", Node("h", 1), Message(b"%016d" % 1, 0, 1, b""), consumer)
    assert {retries.failed(delivery, "answered 400", Failure.REFUSED) for _ in range(20)} == {"requeued"}


def a_delivery(number: int, consumer: Any) -> Delivery:
    return Delivery("t", Node("h", 1), Message(b"%016d" % number, 0, 1, b""), consumer)


def test_a_message_at_which_a_destination_fails_that_takes_others_is_given_up_in_the_end() -> None:
    consumer: Any = FakeConsumer()
    retries = Retries(3, 0.0)
    poison, good = a_delivery(1, consumer), a_delivery(2, consumer)
    said = []
    for _ in range(3 * UNCLEAR_AS_OFTEN + 1):
        said.append(retries.failed(poison, "broke the connection", Failure.UNCLEAR))
        retries.succeeded(good)
    assert said == ["requeued"] * 3 * UNCLEAR_AS_OFTEN + ["given up"]
    assert consumer.sent[-1] == ("FIN", poison.message.id)


def test_a_destination_that_fails_with_everything_costs_no_message() -> None:
    consumer: Any = FakeConsumer()
    retries = Retries(1, 0.0)
    retries.succeeded(a_delivery(9, consumer))
    for _ in range(10 * UNCLEAR_AS_OFTEN):
        for number in (1, 2):
            assert retries.failed(a_delivery(number, consumer), "answered 500", Failure.UNCLEAR) == "requeued"
    retries.succeeded(a_delivery(1, consumer))  # it works again
    assert retries.failed(a_delivery(2, consumer), "answered 500", Failure.UNCLEAR) == "requeued"


@pytest.mark.parametrize(
    ("one", "other", "both"),
    [
        (Failure.REFUSED, Failure.REFUSED, Failure.REFUSED),
        (Failure.REFUSED, Failure.UNCLEAR, Failure.UNCLEAR),
        (Failure.UNCLEAR, Failure.DOWN, Failure.DOWN),
        (Failure.REFUSED, Failure.DOWN, Failure.DOWN),
    ],
)
def test_what_two_destinations_say_together(one: Failure, other: Failure, both: Failure) -> None:
    assert one.combined_with(other) is other.combined_with(one) is both
