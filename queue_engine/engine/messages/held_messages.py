"""Lists of the messages that a channel's consumers hold."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Protocol

from queue_engine.delivery.channel import Channel
from queue_engine.delivery.in_flight import Delivery
from queue_engine.delivery.stats import ClientStats
from queue_engine.engine.messages.disk_queue_messages import attempts_of, check_query, row_of
from queue_engine.engine.messages.log_messages import LogMessages
from queue_engine.engine.messages.pages import page_of
from queue_engine.engine.messages.rows import BY_AGE, BY_ATTEMPTS, IN_FLIGHT, Listed, MessageQuery, MessageRow

NS_PER_MS = 1_000_000

Item = tuple[bytes, Delivery]


class Client(Protocol):
    def stats(self) -> ClientStats: ...


class HeldMessages:
    """Made for one read, and forgotten. log: of a channel of the log; None for a disk queue. clients: by key."""

    def __init__(self, channel: Channel, log: LogMessages | None, clients: Mapping[int, Client], now_ns: int) -> None:
        self._channel = channel
        self._log = log
        self._clients = clients
        self._now_ns = now_ns

    def listed(self, query: MessageQuery) -> Listed:
        held = self._channel.held
        if self._log is None:
            check_query(query)
        items = ((one, delivery) for delivery in held.deliveries() for one in held.remaining_ids(delivery))
        page = page_of(items, query, self._matching(query), self._sort_key(query))
        return Listed(
            tuple(self.row(*item, query.preview_bytes) for item in page.items), page.next_cursor, page.is_bounded
        )

    def row(self, message_id: bytes, delivery: Delivery, preview_bytes: int = 0) -> MessageRow:
        if self._log is not None:
            row = self._log.row(self._log.offset_of(message_id.decode()), IN_FLIGHT, preview_bytes)
        else:
            row = row_of(IN_FLIGHT, message_id, frame_of(message_id, delivery), None, preview_bytes)
        key = delivery.consumer.key
        client = self._clients.get(key)
        stats = None if client is None else client.stats()
        return replace(
            row,
            client_key=key,
            client_id="" if stats is None else stats.client_id,
            client_address="" if stats is None else stats.remote_address,
            deadline_ms=(delivery.deadline_ns - self._now_ns) // NS_PER_MS,
            held_ms=(self._now_ns - delivery.sent_ns) // NS_PER_MS,
            touches=delivery.touches,
        )

    def _attempts(self, message_id: bytes, delivery: Delivery) -> int:
        if self._log is not None:
            return self._log.attempts(self._log.offset_of(message_id.decode()))
        return attempts_of(frame_of(message_id, delivery))

    def _matching(self, query: MessageQuery) -> Callable[[Item], bool]:
        if not query.has_filter:
            return lambda item: True
        log = self._log
        bounds = log.bounds(query) if log is not None else (0, 0)

        def matches(item: Item) -> bool:
            message_id, delivery = item
            if log is not None and not bounds[0] <= log.offset_of(message_id.decode()) < bounds[1]:
                return False
            if log is None:
                time_ns = _time_of(item)
                if query.since_ns is not None and time_ns < query.since_ns:
                    return False
                if query.until_ns is not None and time_ns >= query.until_ns:
                    return False
            return self._attempts(message_id, delivery) >= query.attempts_min

        return matches

    def _sort_key(self, query: MessageQuery) -> Callable[[Item], Any] | None:
        if query.sort == BY_ATTEMPTS:
            return lambda item: (-self._attempts(*item), item[0])
        return (lambda item: (_time_of(item), item[0])) if query.sort == BY_AGE else None


def frame_of(message_id: bytes, delivery: Delivery) -> bytes:
    """The frame of a message in flight of a disk queue."""
    return delivery.run.frame_at(delivery.run.index()[message_id])


def _time_of(item: Item) -> int:
    message_id, delivery = item
    return delivery.run.time_at(delivery.run.index()[message_id])
