"""The calls to one nsqlookupd: its lists, and the acts on them.

/topics    every topic, also without a producer         /nodes   the producers that ping, with their topics
/debug     every producer of each topic and channel     /channels?topic=…   every channel, also without a producer
"""

import asyncio
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from admin_console.cluster.calls.addresses import HttpAddress
from admin_console.cluster.calls.node_http import NodeHttp
from admin_console.cluster.lookupds.lookupd_answers import LookupdOutcome, LookupdProducer, LookupdReport, LookupdTopic
from admin_console.cluster.reading.registrations import Registration, registrations_in
from queue_engine.client.http_json import HttpRefusedError, UnreachableError, list_in
from queue_engine.vocabulary.names import is_valid_name

# Of one nsqlookupd: how many topics are taken in, and of how many the channels are read, each with a call.
TOPICS_MAX = 20_000
CHANNELS_OF_TOPICS_MAX = 300
# Of these calls at once: more would take the turns of the nodes, where the nsqlookupd hangs.
CHANNEL_CALLS_MAX = 2
NOT_FOUND = 404


async def read_registered(http: NodeHttp, address: HttpAddress) -> tuple[tuple[Registration, ...], list[str]]:
    """The producers that ping, and every topic, also without one. Raises as `NodeHttp.get_of_lookupd`."""
    nodes, topics = await asyncio.gather(*(http.get_of_lookupd(address, path) for path in ("/nodes", "/topics")))
    return registrations_in(list_in(nodes, "producers")).nodes, _names(list_in(topics, "topics"))


async def read_report(http: NodeHttp, address: HttpAddress) -> LookupdReport:
    """The list of the nsqlookupd. Raises as `NodeHttp.get_of_lookupd`."""
    answers = read_registered(http, address), http.get_of_lookupd(address, "/debug")
    (registered, names), debug = await asyncio.gather(*answers)
    listed = _Listed(debug)
    producers: dict[str, list[LookupdProducer]] = {name: [] for name in names}
    for one in registered:
        for topic in one.topics:
            pinged_at_ms = listed.pings.get(one.remote_address, 0)
            named = LookupdProducer(one.address.bare, topic in one.tombstoned, pinged_at_ms=pinged_at_ms)
            producers.setdefault(topic, []).append(named)
    for topic, found in listed.silent(registered):
        producers.setdefault(topic, []).append(found)
    # Those without a producer first: these alone have nothing but their channels.
    order = sorted(producers, key=lambda topic: (bool(producers[topic]), topic))[:TOPICS_MAX]
    channels = await _channels_of(http, address, order[:CHANNELS_OF_TOPICS_MAX])
    return LookupdReport(
        address,
        tuple(
            LookupdTopic(
                topic,
                tuple(sorted(listed.channels.get(topic, ()))),
                tuple(sorted(producers[topic], key=lambda one: one.node)),
                tuple(sorted(channels.get(topic, frozenset()) - listed.channels.get(topic, frozenset()))),
            )
            for topic in sorted(order)
        ),
        len(registered),
    )


async def timed_report(http: NodeHttp, address: HttpAddress) -> tuple[LookupdReport, float]:
    """`read_report`, and when it came, monotonic."""
    report = await read_report(http, address)
    return replace(report, answered_at_ms=time.time_ns() // 1_000_000), time.monotonic()


async def act_at(http: NodeHttp, address: HttpAddress, path: str, query: Mapping[str, str]) -> LookupdOutcome:
    """Do one act at one nsqlookupd; a name that was deleted before counts as done."""
    try:
        await http.post_to_lookupd(address, path, query)
    except HttpRefusedError as exc:
        if exc.status == NOT_FOUND and path.endswith("/delete"):
            return LookupdOutcome(address)
        return LookupdOutcome(address, str(exc))
    except UnreachableError as exc:
        return LookupdOutcome(address, str(exc), may_be_done=exc.is_sent)
    return LookupdOutcome(address)


async def _channels_of(http: NodeHttp, address: HttpAddress, topics: list[str]) -> dict[str, frozenset[str]]:
    """By topic, all channels that are registered; a topic that went meanwhile has none. The first call without an
    answer ends the others. Raises UnreachableError."""
    found: dict[str, frozenset[str]] = {}
    left = iter(topics)

    async def read_on() -> None:
        for topic in left:
            try:
                answer = await http.get_of_lookupd(address, "/channels", {"topic": topic})
            except HttpRefusedError:
                answer = None
            found[topic] = frozenset(_names(list_in(answer, "channels")))

    readers = [asyncio.create_task(read_on()) for _ in range(CHANNEL_CALLS_MAX)]
    try:
        await asyncio.gather(*readers)
    finally:
        for reader in readers:
            reader.cancel()
    return found


class _Listed:
    """An answer to `/debug`. pings: by address of the connection. channels: by topic, those that a producer has. An
    entry that can't be read costs itself alone."""

    def __init__(self, document: Any) -> None:
        self.pings: dict[str, int] = {}
        self.channels: dict[str, set[str]] = {}
        self._topics: list[tuple[str, list[Any]]] = []
        for key, entries in document.items() if isinstance(document, dict) else ():
            category, topic, channel = (*key.split(":", 2), "", "")[:3]
            if not isinstance(entries, list) or not entries:
                continue
            if category == "client":
                self.pings.update((one["id"], _pinged_ms(one)) for one in entries if _has_id(one))
            elif category == "channel" and _is_name(topic) and _is_name(channel):
                self.channels.setdefault(topic, set()).add(channel)
            elif category == "topic" and _is_name(topic):
                self._topics.append((topic, entries))

    def silent(self, active: tuple[Registration, ...]) -> Iterator[tuple[str, LookupdProducer]]:
        """Each topic with a producer of it that sends no PING any more: `/nodes` does not name it."""
        heard = {one.remote_address for one in active}
        for topic, entries in self._topics:
            lost = [one for one in entries if _has_id(one) and one["id"] not in heard]
            for entry in lost:
                for one in registrations_in([{**entry, "topics": [topic]}]).nodes:
                    yield topic, LookupdProducer(one.address.bare, is_inactive=True, pinged_at_ms=_pinged_ms(entry))


def _has_id(entry: Any) -> bool:
    return isinstance(entry, dict) and isinstance(entry.get("id"), str)


def _pinged_ms(entry: Mapping[str, Any]) -> int:
    at_ns = entry.get("last_update")
    return at_ns // 1_000_000 if type(at_ns) is int and 0 < at_ns < 1 << 63 else 0


def _is_name(value: Any) -> bool:
    return isinstance(value, str) and is_valid_name(value)


def _names(values: list[Any]) -> list[str]:
    return [one for one in values[:TOPICS_MAX] if _is_name(one)]
