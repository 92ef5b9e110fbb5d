"""Prints the messages of topics as they come."""

import contextlib
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from queue_engine.client.subscription import Subscription, finish_all
from queue_engine.client.tools.connecting import Connecting
from queue_engine.client.tools.running import Stopping, together


@dataclass(frozen=True, slots=True)
class TailOptions:
    """count: how many messages to print in all, 0 for no end."""

    topics: Sequence[str]
    channel: str
    count: int = 0
    print_topic: bool = False
    max_in_flight: int = 200


def own_channel() -> str:
    """A channel that is gone with its consumer: tailing takes messages away from no other consumer."""
    return f"tail{random.randrange(1_000_000):06}#ephemeral"  # noqa: S311 - a name, not a secret


async def tail(connecting: Connecting, options: TailOptions, write: Callable[[bytes], None], stopping: Stopping) -> int:
    """Write each message as a line until the stop, or until `count` are written; returns how many were.

    A message is finished once it is written. Raises RefusedError when the only server refuses, and the errors of
    `write`.
    """
    in_flight = min(options.max_in_flight, options.count) if options.count else options.max_in_flight
    printed = 0

    async def print_topic(topic: str) -> None:
        nonlocal printed
        head = f"{topic} | ".encode() if options.print_topic else b""
        subscription = Subscription(topic, options.channel, source, identity, in_flight, poll_s=connecting.poll_s)
        async with subscription:
            with stopping.calling(subscription.stop):
                while deliveries := await subscription.receive_all():
                    if options.count:
                        del deliveries[max(0, options.count - printed) :]  # not finished: they are for other consumers
                    write(b"".join([head + delivery.message.body + b"\n" for delivery in deliveries]))
                    finish_all(deliveries)
                    printed += len(deliveries)
                    if printed == options.count:
                        stopping.request_end()

    identity = connecting.identity("tail")
    async with contextlib.AsyncExitStack() as stack:
        source = await stack.enter_async_context(connecting.source())
        await together(map(print_topic, options.topics))
    return printed
