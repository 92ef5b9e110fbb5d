"""Publishes the messages of topics to other servers, and finishes each when a server has taken it."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from queue_engine.client.connection import RefusedError
from queue_engine.client.nodes import Node
from queue_engine.client.producer_pool import NoServerError, ProducerPool
from queue_engine.client.subscription import Delivery, Subscription
from queue_engine.client.tools.connecting import Connecting
from queue_engine.client.tools.retries import ATTEMPTS_MAX, BACKOFF_S_MAX, Failure, Retries, touching
from queue_engine.client.tools.running import Counts, Stopping, together

WORKERS_MAX = 100


@dataclass(frozen=True, slots=True)
class ForwardOptions:
    """destination_topic: "" for the topic that a message came from. required_field: only JSON objects that have it are
    forwarded, and only with required_value where that is not None. kept_fields: the only ones that are forwarded, of
    JSON objects; () for all, as they are. attempts_max, backoff_s_max: as `Retries` has them."""

    topics: Sequence[str]
    channel: str
    destinations: Sequence[Node]
    destination_topic: str = ""
    max_in_flight: int = 200
    required_field: str = ""
    required_value: str | None = None
    kept_fields: Sequence[str] = ()
    attempts_max: int = ATTEMPTS_MAX
    backoff_s_max: float = BACKOFF_S_MAX


class Forward:
    """One run of the tool."""

    def __init__(self, connecting: Connecting, options: ForwardOptions) -> None:
        self._connecting = connecting
        self._options = options
        self.counts = Counts("received", "forwarded", "left out", "requeued", "given up")
        self.retries = Retries(options.attempts_max, options.backoff_s_max)

    async def run(self, stopping: Stopping) -> None:
        """Forward until the stop. A message that no server takes is requeued, and less comes until one takes some."""
        pool = ProducerPool(self._options.destinations, self._connecting.identity("forward", is_named=True))
        try:
            async with self._connecting.source() as source:
                await together(self._forward_topic(topic, source, pool, stopping) for topic in self._options.topics)
        finally:
            await pool.close()

    async def _forward_topic(self, topic: str, source: Any, pool: ProducerPool, stopping: Stopping) -> None:
        options = self._options
        async with Subscription(
            topic,
            options.channel,
            source,
            self._connecting.identity("forward"),
            options.max_in_flight,
            poll_s=self._connecting.poll_s,
        ) as subscription:
            with stopping.calling(subscription.stop), self.retries.backoff.holding(subscription):
                workers = min(WORKERS_MAX, options.max_in_flight)
                await together(self._forward_forever(subscription, pool) for _ in range(workers))

    async def _forward_forever(self, subscription: Subscription, pool: ProducerPool) -> None:
        async for delivery in subscription:
            self.counts.add("received")
            body = self._body_of(delivery)
            if body is None:
                delivery.finish()
                self.counts.add("left out")
                continue
            try:
                with touching(delivery):
                    await pool.publish(self._options.destination_topic or delivery.topic, body)
            except RefusedError as exc:
                # The pool raises it for a bad message, and for nothing else.
                self.counts.add(self.retries.failed(delivery, str(exc), Failure.REFUSED))
                continue
            except NoServerError as exc:
                failure = Failure.UNCLEAR if exc.is_lost else Failure.DOWN
                self.counts.add(self.retries.failed(delivery, str(exc), failure))
                continue
            delivery.finish()
            self.counts.add("forwarded")
            self.retries.succeeded(delivery)

    def _body_of(self, delivery: Delivery) -> bytes | None:
        """The forwarded part of a message; None for a message that is left out."""
        options, body = self._options, delivery.message.body
        if not options.required_field and not options.kept_fields:
            return body
        try:
            document = json.loads(body)
        except (ValueError, RecursionError):
            document = None
        if not isinstance(document, dict):
            return None
        if options.required_field:
            if options.required_field not in document:
                return None
            value = document[options.required_field]
            if options.required_value is not None and options.required_value != (
                value if isinstance(value, str) else json.dumps(value)
            ):
                return None
        if not options.kept_fields:
            return body
        selected = {name: document[name] for name in options.kept_fields if name in document}
        return json.dumps(selected, ensure_ascii=False, separators=(",", ":")).encode()
