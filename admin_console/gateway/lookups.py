"""Reads the nsqlookupds that this server registers with, over HTTP in the background, so that no page waits for a
silent nsqlookupd. Also sets tombstones in them."""

import http.client
import logging
import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlencode, urlsplit

import orjson

from admin_console.gateway.gateway import DONE, FAILED, ActResult
from admin_console.gateway.sentences import counted

logger = logging.getLogger(__name__)

# A page waits so long for the first answer, and uses an answer that is not older.
PAGE_WAIT_S = 0.5
FRESH_S = 2.0
# One nsqlookupd has so long for all its answers.
ANSWER_S_MAX = 5.0
ANSWER_BYTES_MAX = 8 << 20
_THREADS = 4


@dataclass(frozen=True, slots=True)
class LookupdProducer:
    """A server that registered a topic. node: its broadcast address and HTTP port. is_inactive: it sent no PING for
    longer than the nsqlookupd waits. pinged_at_ms: its last one, Unix; 0 where the nsqlookupd does not report it."""

    node: str
    is_tombstoned: bool = False
    is_inactive: bool = False
    pinged_at_ms: int = 0


@dataclass(frozen=True, slots=True)
class LookupdTopic:
    """A topic with those of its channels that a producer has."""

    topic: str
    channels: tuple[str, ...]
    producers: tuple[LookupdProducer, ...]


@dataclass(frozen=True, slots=True)
class LookupdReport:
    """The answer of an nsqlookupd. error: why it did not answer; then the rest is of its last answer."""

    address: str
    topics: tuple[LookupdTopic, ...] = ()
    server_count: int = 0
    error: str = ""


@dataclass(slots=True)
class _Entry:
    report: LookupdReport | None = None
    read_s: float = 0.0  # monotonic, when its newest report came
    reading: "Future[None] | None" = None


class LookupReports:
    """The newest report of each nsqlookupd. Any thread; nothing here blocks longer than PAGE_WAIT_S."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._entries: dict[str, _Entry] = {}
        self._threads: ThreadPoolExecutor | None = None

    def of(self, addresses: Sequence[str]) -> list[LookupdReport | None]:
        """One for each HTTP address; None for one that has not answered yet. Others are forgotten."""
        with self._lock:
            self._entries = {address: self._entries.get(address) or _Entry() for address in addresses}
            entries = list(self._entries.items())
            for address, entry in entries:
                if entry.reading is None and time.monotonic() - entry.read_s > FRESH_S:
                    if self._threads is None:
                        self._threads = ThreadPoolExecutor(_THREADS, "penstock-lookup-reports")
                    entry.reading = self._threads.submit(self._read, address, entry)
            reading = [entry.reading for _, entry in entries if entry.reading is not None]
        wait(reading, PAGE_WAIT_S)
        return [entry.report for _, entry in entries]

    def expire(self) -> None:
        """Read all anew for the next page: an act changed something there."""
        with self._lock:
            for entry in self._entries.values():
                entry.read_s = -FRESH_S

    def _read(self, address: str, entry: _Entry) -> None:
        try:
            report = read_report(address)
        except Exception as exc:
            if not isinstance(exc, OSError | http.client.HTTPException | ValueError):
                logger.warning("nsqlookupd at %s gave an answer that can't be read", address, exc_info=exc)
            report = replace(entry.report or LookupdReport(address), error=str(exc) or type(exc).__name__)
        with self._lock:
            entry.report, entry.read_s, entry.reading = report, time.monotonic(), None


def read_report(address: str) -> LookupdReport:
    """Read the HTTP API of the nsqlookupd at HOST:PORT.

    Raises OSError, HTTPException or ValueError; for an answer of another form also KeyError, TypeError, AttributeError.
    """
    deadline_s = time.monotonic() + ANSWER_S_MAX
    names: list[str] = _get(address, "/topics", deadline_s)["topics"]
    nodes: list[dict[str, Any]] = _get(address, "/nodes", deadline_s)["producers"]
    debug: dict[str, list[dict[str, Any]]] = _get(address, "/debug", deadline_s)
    pinged_at_ms = {one["id"]: one["last_update"] // 1_000_000 for one in debug.get("client::", ())}
    producers: dict[str, list[LookupdProducer]] = {name: [] for name in names}
    active = set()
    for node in nodes:
        active.add(node["remote_address"])
        tombstones = node.get("tombstones") or [False] * len(node["topics"])
        for topic, is_tombstoned in zip(node["topics"], tombstones, strict=True):
            at_ms = pinged_at_ms.get(node["remote_address"], 0)
            producers.setdefault(topic, []).append(
                LookupdProducer(_node_of(node), is_tombstoned=bool(is_tombstoned), pinged_at_ms=at_ms)
            )
    channels: dict[str, list[str]] = {}
    for key, found in debug.items():
        category, topic, channel = key.split(":", 2)
        if category == "channel":
            channels.setdefault(topic, []).append(channel)
        elif category == "topic":
            for one in found:
                if one["id"] not in active:
                    at_ms = one["last_update"] // 1_000_000
                    producers.setdefault(topic, []).append(
                        LookupdProducer(_node_of(one), is_inactive=True, pinged_at_ms=at_ms)
                    )
    topics = tuple(
        LookupdTopic(
            topic, tuple(sorted(channels.get(topic, ()))), tuple(sorted(found, key=lambda producer: producer.node))
        )
        for topic, found in sorted(producers.items())
    )
    return LookupdReport(address, topics, len(nodes))


def tombstone(addresses: Sequence[str], topic: str, node: str) -> ActResult:
    """Have the nsqlookupds at these HTTP addresses hide `node` from consumers that look up the topic. Waits ASK_S at
    most."""
    path = f"/topic/tombstone?{urlencode({'topic': topic, 'node': node})}"
    deadline_s = time.monotonic() + ANSWER_S_MAX

    def tombstone_at(address: str) -> str:
        try:
            _request("POST", address, path, deadline_s)
        except (OSError, http.client.HTTPException, ValueError) as exc:
            return f"{address}: {exc or type(exc).__name__}"
        return ""

    with ThreadPoolExecutor(max(1, len(addresses)), "penstock-tombstones") as threads:
        failures = [failure for failure in threads.map(tombstone_at, addresses) if failure]
    _reports.expire()
    done = len(addresses) - len(failures)
    sentence = f"Tombstoned {node} as a producer of {topic} at {counted(done, 'nsqlookupd')}."
    if not failures:
        return ActResult(DONE, sentence)
    sentence = sentence if done else f"{node} was not tombstoned as a producer of {topic}."
    return ActResult(FAILED, f"{sentence} Without an answer: {'; '.join(failures)}.")


def _node_of(fields: dict[str, Any]) -> str:
    return f"{fields['broadcast_address']}:{fields['http_port']}"


def _get(address: str, path: str, deadline_s: float) -> Any:
    return orjson.loads(_request("GET", address, path, deadline_s))


def _request(method: str, address: str, path: str, deadline_s: float) -> bytes:
    parts = urlsplit(f"//{address}")
    left_s = deadline_s - time.monotonic()
    if left_s <= 0:
        raise TimeoutError(f"no answer in {ANSWER_S_MAX:g} s")
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=left_s)
    try:
        connection.request(method, path)
        answer = connection.getresponse()
        data = bytearray()
        while chunk := answer.read1(1 << 16):
            data += chunk
            if len(data) > ANSWER_BYTES_MAX:
                raise ValueError(f"{path} has more than {ANSWER_BYTES_MAX} bytes")
            if time.monotonic() > deadline_s:
                raise TimeoutError(f"no answer in {ANSWER_S_MAX:g} s")
    finally:
        connection.close()
    if answer.status != 200:
        raise ValueError(f"{path} was answered with status {answer.status}")
    return bytes(data)


_reports = LookupReports()


def get_lookup_reports() -> LookupReports:
    """The reports of this process."""
    return _reports
