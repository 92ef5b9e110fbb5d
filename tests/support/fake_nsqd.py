"""An nsqd with a state, behind the same HTTP API: topics and channels that acts change, as nsqd 1.3 answers."""

import copy
import re
import time
from dataclasses import dataclass, field
from typing import Any

from tests.support.fake_node import Answer, FakeNode, Request, info

_NAME = re.compile(r"[.a-zA-Z0-9_-]{1,64}(#ephemeral)?")
_LATENCY: dict[str, Any] = {"count": 0, "percentiles": None}


def client(client_id: str = "billing-1", *, hostname: str = "billing-1.example", **figures: Any) -> dict[str, Any]:
    """A connection, as in /stats."""
    return {
        "client_id": client_id,
        "hostname": hostname,
        "version": "V2",
        "remote_address": "127.0.0.1:57944",
        "state": 3,
        "ready_count": 10,
        "in_flight_count": 0,
        "message_count": 0,
        "finish_count": 0,
        "requeue_count": 0,
        "connect_ts": 1_700_000_000,
        "sample_rate": 0,
        "deflate": False,
        "snappy": False,
        "user_agent": "recorder/1.0",
        "tls": False,
        "tls_cipher_suite": "",
        "tls_version": "",
        "tls_negotiated_protocol": "",
        "tls_negotiated_protocol_is_mutual": False,
        **figures,
    }


def channel(name: str, *, clients: tuple[dict[str, Any], ...] = (), **figures: Any) -> dict[str, Any]:
    """A channel, as in /stats."""
    return {
        "channel_name": name,
        "depth": 0,
        "backend_depth": 0,
        "in_flight_count": 0,
        "deferred_count": 0,
        "message_count": 0,
        "requeue_count": 0,
        "timeout_count": 0,
        "client_count": len(clients),
        "clients": list(clients),
        "paused": False,
        "e2e_processing_latency": dict(_LATENCY),
        **figures,
    }


def topic(name: str, *channels: dict[str, Any], **figures: Any) -> dict[str, Any]:
    """A topic, as in /stats."""
    return {
        "topic_name": name,
        "channels": list(channels),
        "depth": 0,
        "backend_depth": 0,
        "message_count": 0,
        "message_bytes": 0,
        "paused": False,
        "e2e_processing_latency": dict(_LATENCY),
        **figures,
    }


@dataclass
class FakeNsqd(FakeNode):
    """topics: as `topic` makes them; acts change them, and so may the test. producers: connections, each with its
    `pub_counts`. An entry of `answers` counts before the state."""

    topics: dict[str, dict[str, Any]] = field(default_factory=dict)
    producers: list[dict[str, Any]] = field(default_factory=list)
    version: str = "1.3.0"
    started_s: int = 1_700_000_000

    @classmethod
    def of(cls, *topics: dict[str, Any], **fields: Any) -> "FakeNsqd":
        return cls(topics={one["topic_name"]: one for one in topics}, **fields)

    def __enter__(self) -> "FakeNsqd":
        super().__enter__()
        return self

    def channel(self, topic_name: str, name: str) -> dict[str, Any]:
        """Raises KeyError."""
        for one in self.topics[topic_name]["channels"]:
            if one["channel_name"] == name:
                found: dict[str, Any] = one
                return found
        raise KeyError(name)

    def restart(self) -> None:
        """Counters at 0, messages as they were, those in flight among those that wait, no connections."""
        self.started_s = max(self.started_s + 1, int(time.time() + self.clock_s))
        self.producers.clear()
        for one in self.topics.values():
            one.update(message_count=0, message_bytes=0)
            for each in one["channels"]:
                waiting = each["depth"] + each["in_flight_count"]
                each.update(depth=waiting, in_flight_count=0, message_count=0, requeue_count=0, timeout_count=0)
                each.update(client_count=0, clients=[])

    def answer_to(self, request: Request) -> Answer:
        if request.path in self.answers:
            return self.answers[request.path]
        if request.path == "/ping":
            return b"OK"
        if request.path == "/info":
            return info(self.port, version=self.version, started_s=self.started_s)
        if request.path == "/stats":
            return self._stats(request.query)
        if request.path in ("/pub", "/mpub") or request.path.startswith(("/topic/", "/channel/")):
            return self._act(request)
        return _refused(404, "NOT_FOUND")

    def _stats(self, query: dict[str, str]) -> Answer:
        """nsqd answers null for a topic that it lacks, and no topic where it lacks the channel."""
        name, only = query.get("topic", ""), query.get("channel", "")
        has_clients = query.get("include_clients") != "false"
        found: list[dict[str, Any]] | None = [] if not name or name in self.topics else None
        for one in list(self.topics.values()):
            if name in ("", one["topic_name"]) and found is not None:
                copied = copy.deepcopy(one)
                copied["channels"] = [each for each in copied["channels"] if only in ("", each["channel_name"])]
                if only and not copied["channels"]:
                    continue
                for each in copied["channels"]:
                    if not has_clients:
                        each["clients"] = None
                found.append(copied)
        producers = [one for one in self.producers if not name or name in {pub["topic"] for pub in one["pub_counts"]}]
        return {
            "version": self.version,
            "health": "OK",
            "start_time": self.started_s,
            "topics": found,
            "producers": producers or None,
        }

    def _act(self, request: Request) -> Answer:
        if request.method != "POST":
            return _refused(405, "METHOD_NOT_ALLOWED")
        name = request.query.get("topic")
        if name is None:
            return _refused(400, "MISSING_ARG_TOPIC")
        if not _NAME.fullmatch(name):
            return _refused(400, "INVALID_TOPIC")
        if request.path == "/pub":
            return self._publish(name, request.body)
        if request.path == "/mpub":
            for line in filter(None, request.body.split(b"\n")):
                self._publish(name, line)
            return b"OK"
        kind, verb = request.path.strip("/").split("/", 1)
        if kind == "topic":
            if verb == "create":
                self.topics.setdefault(name, topic(name))
            elif name not in self.topics:
                return _refused(404, "TOPIC_NOT_FOUND")
            elif verb == "delete":
                del self.topics[name]
            else:
                return _changed(self.topics[name], verb)
            return b""
        return self._act_on_channel(name, request.query.get("channel"), verb)

    def _act_on_channel(self, name: str, channel_name: str | None, verb: str) -> Answer:
        if channel_name is None:
            return _refused(400, "MISSING_ARG_CHANNEL")
        if not _NAME.fullmatch(channel_name):
            return _refused(400, "INVALID_CHANNEL")
        if name not in self.topics:
            return _refused(404, "TOPIC_NOT_FOUND")
        channels = self.topics[name]["channels"]
        found = next((one for one in channels if one["channel_name"] == channel_name), None)
        if verb == "create":
            if found is None:
                channels.append(channel(channel_name))
            return b""
        if found is None:
            return _refused(404, "CHANNEL_NOT_FOUND")
        if verb == "delete":
            channels.remove(found)
            return b""
        return _changed(found, verb)

    def _publish(self, name: str, body: bytes) -> Answer:
        if not body:
            return _refused(400, "MSG_EMPTY")
        found = self.topics.setdefault(name, topic(name))
        found["message_count"] += 1
        found["message_bytes"] += len(body)
        for one in found["channels"] or [found]:
            one["depth"] += 1
            if one is not found:
                one["message_count"] += 1
        return b"OK"


def _changed(one: dict[str, Any], verb: str) -> Answer:
    """Of a topic or channel: its answer to the rest of the acts."""
    if verb in ("pause", "unpause"):
        one["paused"] = verb == "pause"
    elif verb == "empty":
        one.update(depth=0, backend_depth=0)
        for key in one.keys() & {"in_flight_count", "deferred_count"}:
            one[key] = 0
        for each in one.get("clients", ()):
            each["in_flight_count"] = 0
    else:
        return _refused(404, "NOT_FOUND")
    return b""


def _refused(status: int, message: str) -> Answer:
    return status, {"Content-Type": "application/json; charset=utf-8"}, f'{{"message":"{message}"}}'.encode()
