"""Requests of tests to a running engine's HTTP API."""

import urllib.request
from contextlib import AbstractContextManager, ExitStack
from typing import Any

import orjson

ANSWER_TIMEOUT_S = 60.0  # what is durable waits for a disk, and no machine's stalls for longer


class EngineApi:
    """Requests to the HTTP API on the loopback port `http_port`, which the subclass knows."""

    http_port: int

    def __init__(self) -> None:
        self._clients = ExitStack()

    def lend(self, client: AbstractContextManager[Any]) -> Any:
        """Close the client with this engine."""
        return self._clients.enter_context(client)

    def http(self, method: str, path: str, body: bytes | None = None, *, token: str = "") -> bytes:
        """One request; the body of its answer. Raises HTTPError from 400 up."""
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        request = urllib.request.Request(f"http://127.0.0.1:{self.http_port}{path}", body, headers, method=method)
        with urllib.request.urlopen(request, timeout=ANSWER_TIMEOUT_S) as answer:
            data: bytes = answer.read()
            return data

    def stats(self, topic: str = "", channel: str = "") -> dict[str, Any]:
        """`/stats?format=json`, decoded."""
        answer: dict[str, Any] = orjson.loads(self.http("GET", f"/stats?format=json&topic={topic}&channel={channel}"))
        return answer

    def topic_stats(self, topic: str) -> dict[str, Any]:
        """One topic of /stats. Raises LookupError when there is none."""
        for found in self.stats(topic)["topics"] or ():  # null when it is unknown
            if found["topic_name"] == topic:
                answer: dict[str, Any] = found
                return answer
        raise LookupError(f"no topic {topic} in /stats")

    def channel_stats(self, topic: str, channel: str) -> dict[str, Any]:
        """One channel of /stats. Raises LookupError when there is none."""
        for found in self.topic_stats(topic)["channels"]:
            if found["channel_name"] == channel:
                answer: dict[str, Any] = found
                return answer
        raise LookupError(f"no channel {topic}/{channel} in /stats")
