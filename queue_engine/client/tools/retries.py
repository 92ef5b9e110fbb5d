"""Handles messages whose destination fails: they are requeued, and fewer come until one is taken.

The backoff is go-nsq's: after a failure nothing may be in flight for 2 s; then one message. Each further failure
doubles the rest, each success halves it, and behind the last rest the whole max_in_flight comes again.

A destination that refuses a message for its content, again and again, costs that message: it is given up, which is
logged with its id. So does one that fails with this message four times as often, and takes others in between. While a
destination is down, no message is given up, however often it comes.
"""

import asyncio
import contextlib
import logging
import math
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Any, Protocol

from queue_engine.client.nodes import Node
from queue_engine.client.subscription import Delivery

logger = logging.getLogger(__name__)

DELAY_MS = 1_000  # after the first attempt; it grows with the square of the attempts
_DELAY_MS_MAX = 15 * 60_000
BACKOFF_STEP_S = 1.0  # the first rest is twice as long
BACKOFF_S_MAX = 120.0
ATTEMPTS_MAX = 5
# A failure that may be about the message may as well be about the moment: it takes so many times as many of them.
UNCLEAR_AS_OFTEN = 4
# So many messages that failed are counted; beyond them the oldest is forgotten, and tried more often.
_COUNTED_MAX = 10_000


class Failure(Enum):
    """The kinds of failed attempts. REFUSED: the destination answered, and does not take this message. DOWN: it does
    not work now, whatever the message. UNCLEAR: it was reached and failed, at this message or at any."""

    REFUSED = "refused"
    UNCLEAR = "unclear"
    DOWN = "down"

    def combined_with(self, other: "Failure") -> "Failure":
        """The kind of the failures of two destinations together."""
        both = {self, other}
        return Failure.DOWN if Failure.DOWN in both else Failure.UNCLEAR if Failure.UNCLEAR in both else Failure.REFUSED


@dataclass(slots=True)
class _Failed:
    """Of one message. refusals, unclear: how many failures count. taken: how many messages the destination had taken at
    its last failure."""

    refusals: int = 0
    unclear: int = 0
    taken: int = 0


class Held(Protocol):
    """The part of a subscription that a backoff limits."""

    def hold(self, count: int | None) -> None:
        """Let at most `count` be in flight; None for no limit of the backoff's."""


class Backoff:
    """Holds back the servers' messages while a destination fails. Belongs to one event loop.

    duration_s_max: the longest rest; 0 holds nothing back. call_later: calls a function after so many seconds, and
    returns a handle with `cancel`; None for the running loop's.
    """

    def __init__(
        self, duration_s_max: float, call_later: Callable[[float, Callable[[], None]], Any] | None = None
    ) -> None:
        self._duration_s_max = duration_s_max
        self._call_later = call_later
        self._level = 0
        self._timer: Any = None
        self._held: list[Held] = []

    @contextlib.contextmanager
    def holding(self, subscription: Held) -> Iterator[None]:
        """Hold back the messages of this subscription, too."""
        self._held.append(subscription)
        self._limit(subscription)
        try:
            yield
        finally:
            self._held.remove(subscription)
            if not self._held and self._timer is not None:
                self._timer.cancel()

    @property
    def is_resting(self) -> bool:
        return self._timer is not None

    @property
    def rest_s(self) -> float:
        """How long the rest of this level is; 0.0 when nothing is held back."""
        return min(BACKOFF_STEP_S * 2.0**self._level, self._duration_s_max) if self._level else 0.0

    def failed(self) -> None:
        """Rest, longer than the last time. Failures during a rest belong to the failure before it."""
        if self.is_resting or not self._duration_s_max:
            return
        if self.rest_s < self._duration_s_max:
            self._level += 1
        self._rest()

    def succeeded(self) -> None:
        """Rest shorter, or no more."""
        if self.is_resting or not self._level:
            return
        self._level -= 1
        if self._level:
            self._rest()
        else:
            self._limit_all()

    def _rest(self) -> None:
        call_later = self._call_later or asyncio.get_running_loop().call_later
        self._timer = call_later(self.rest_s, self._try_one)
        self._limit_all()

    def _try_one(self) -> None:
        self._timer = None
        self._limit_all()

    def _limit_all(self) -> None:
        for subscription in self._held:
            self._limit(subscription)

    def _limit(self, subscription: Held) -> None:
        subscription.hold(0 if self.is_resting else 1 if self._level else None)


@contextlib.contextmanager
def touching(delivery: Delivery) -> Iterator[None]:
    """Keep the message in flight meanwhile, as long as the server lets it be: else a destination that takes longer than
    the message timeout would get it again and again, and each FIN would come too late."""
    every_s = delivery.consumer.msg_timeout_s / 2
    if every_s == math.inf:
        yield
        return
    loop = asyncio.get_running_loop()
    timer: asyncio.TimerHandle

    def touch() -> None:
        nonlocal timer
        delivery.touch()
        timer = loop.call_later(every_s, touch)

    # Messages that waited here for their turn have less time left.
    timer = loop.call_at(min(loop.time() + every_s, (loop.time() + delivery.expires_at) / 2), touch)
    try:
        yield
    finally:
        timer.cancel()


class Retries:
    """Decides for the messages of a tool. Belongs to one event loop.

    attempts_max: how often a message is tried that the destination refuses; 0: for ever. One at which it fails is given
    up after UNCLEAR_AS_OFTEN times as many failures, each with another message that was taken since the one before.
    """

    def __init__(self, attempts_max: int = ATTEMPTS_MAX, backoff_s_max: float = BACKOFF_S_MAX) -> None:
        self.backoff = Backoff(backoff_s_max)
        self._attempts_max = attempts_max
        self._failed: OrderedDict[tuple[str, Node, bytes], _Failed] = OrderedDict()
        self._taken_count = 0
        self._is_failing = False

    def succeeded(self, delivery: Delivery) -> None:
        """The destination has taken the message."""
        if self._is_failing:
            self._is_failing = False
            logger.info("the destination takes messages again")
        self._taken_count += 1
        if self._failed:
            self._failed.pop(_key(delivery), None)
        self.backoff.succeeded()

    def failed(self, delivery: Delivery, reason: str, failure: Failure) -> str:
        """Requeue the message, later the more often it was tried, or finish it; returns "requeued" or "given up"."""
        was_resting = self.backoff.is_resting
        self.backoff.failed()
        message = delivery.message
        if failure is not Failure.DOWN and self._is_last(delivery, failure):
            delivery.finish()
            logger.warning(
                "a message is given up topic=%s id=%s attempts=%d reason=%r",
                delivery.topic,
                message.id.decode("latin-1"),
                message.attempts,
                reason,
            )
            return "given up"
        attempts = min(message.attempts, 16)
        delivery.requeue(min(DELAY_MS * attempts * attempts, _DELAY_MS_MAX))
        # Messages that fail together make one log line, and without a backoff only the first one does.
        if not was_resting and (self.backoff.rest_s or not self._is_failing):
            logger.warning("a message is requeued reason=%r rest_s=%g", reason, self.backoff.rest_s)
        self._is_failing = True
        return "requeued"

    def _is_last(self, delivery: Delivery, failure: Failure) -> bool:
        """Count the failure; whether there were as many as may be."""
        if not self._attempts_max:
            return False
        key = _key(delivery)
        one = self._failed.pop(key, None) or _Failed(taken=self._taken_count)
        if failure is Failure.REFUSED:
            one.refusals += 1
        elif self._taken_count > one.taken:
            one.unclear += 1
        one.taken = self._taken_count
        if one.refusals >= self._attempts_max or one.unclear >= UNCLEAR_AS_OFTEN * self._attempts_max:
            return True
        self._failed[key] = one
        if len(self._failed) > _COUNTED_MAX:
            self._failed.popitem(last=False)
        return False


def _key(delivery: Delivery) -> tuple[str, Node, bytes]:
    """Ids are unique within a topic of a server."""
    return delivery.topic, delivery.node, delivery.message.id
