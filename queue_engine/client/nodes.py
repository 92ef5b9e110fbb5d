"""Where the servers of a topic are: named addresses, or the answers of nsqlookupds."""

import asyncio
import logging
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

from queue_engine.client.http_json import HttpJson, HttpRefusedError, UnreachableError, list_in

logger = logging.getLogger(__name__)


class Node(NamedTuple):
    """A server, by its NSQ protocol's address."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class NodeSource(Protocol):
    """Finds the servers that have a topic."""

    changes: bool
    """Whether a later answer may be another one."""

    async def nodes(self, topic: str) -> frozenset[Node]:
        """The servers to consume `topic` from; empty while none has it. Never raises for a source that is down."""
        ...


class NamedNodes:
    """Servers named on the command line: always the same, whether they have the topic or not."""

    changes = False

    def __init__(self, nodes: Sequence[Node]) -> None:
        self._nodes = frozenset(nodes)

    async def nodes(self, topic: str) -> frozenset[Node]:
        return self._nodes


class LookedUpNodes:
    """Servers that at least one of several nsqlookupds names.

    One that does not answer counts with its last answer, so that its restart ends no consumer.
    """

    changes = True

    def __init__(self, http: HttpJson, urls: Sequence[str]) -> None:
        """urls: such as http://127.0.0.1:4161, one for each nsqlookupd."""
        self._http = http
        self._urls = list(urls)
        self._last: dict[tuple[str, str], frozenset[Node]] = {}
        self._failing: dict[str, str] = {}  # URL → the error that was logged

    async def nodes(self, topic: str) -> frozenset[Node]:
        answers = await asyncio.gather(*(self._query(url, topic) for url in self._urls))
        return frozenset().union(*answers)

    async def topics(self) -> list[str]:
        """The topics of all nsqlookupds, sorted. Raises UnreachableError when none answers."""
        found: set[str] = set()
        errors: list[str] = []
        for url in self._urls:
            try:
                document = await self._http.get(f"{url}/topics")
            except (HttpRefusedError, UnreachableError) as exc:
                errors.append(str(exc))
                continue
            found.update(name for name in list_in(document, "topics") if isinstance(name, str))
        if len(errors) == len(self._urls):
            raise UnreachableError("no nsqlookupd answers: " + "; ".join(errors))
        return sorted(found)

    async def _query(self, url: str, topic: str) -> frozenset[Node]:
        key = (url, topic)
        try:
            document = await self._http.get(f"{url}/lookup", {"topic": topic})
        except HttpRefusedError as exc:
            if exc.status != 404:
                return self._failed(url, str(exc), key)
            document = {}  # no server has the topic yet
        except UnreachableError as exc:
            return self._failed(url, str(exc), key)
        if self._failing.pop(url, ""):
            logger.info("nsqlookupd answers again url=%s", url)
        self._last[key] = frozenset(_nodes_in(document))
        return self._last[key]

    def _failed(self, url: str, reason: str, key: tuple[str, str]) -> frozenset[Node]:
        if self._failing.get(url) != reason:  # once, and not at each poll
            self._failing[url] = reason
            logger.warning("nsqlookupd does not answer url=%s reason=%r", url, reason)
        return self._last.get(key, frozenset())


def _nodes_in(document: Any) -> list[Node]:
    """The producers of an answer to /lookup, which stand below "data" in that of an nsqlookupd before 1.0."""
    found = []
    for producer in list_in(document, "producers"):
        if not isinstance(producer, dict):
            continue
        host, port = producer.get("broadcast_address"), producer.get("tcp_port")
        if isinstance(host, str) and host and type(port) is int and 0 < port < 65536:
            found.append(Node(host, port))
    return found
