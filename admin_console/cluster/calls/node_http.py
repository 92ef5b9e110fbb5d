"""Calls to nodes and nsqlookupds: within deadlines and sizes, never to an address that the rules refuse."""

import asyncio
import socket
import ssl
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

import orjson
from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.resolver import ThreadedResolver

from admin_console.cluster.calls.addresses import HttpAddress, ip_of
from admin_console.cluster.calls.node_clock import ClockOffset
from admin_console.cluster.calls.node_rules import NodeRules
from admin_console.cluster.calls.node_tokens import NodeTokens
from admin_console.cluster.calls.options import ClientTls, ClusterOptions
from queue_engine.client.http_json import HttpJson, HttpRefusedError, JsonAnswer, UnreachableError
from queue_engine.client.tools.connecting import tls_context
from queue_engine.wire.user_claim import HEADER, encoded

# Of all nodes together, apart by their kind: more at once would only make each of them slower.
CALLS_MAX = 16
Purpose = Literal["poll", "page", "act"]
"""Of a read: the poller's own; one that a request waits for; one that an operator's act needs."""
# Of the poller's reads, by the last one of the node: answered in SLOW_S; none so far, as of the thousands of nodes that
# an nsqlookupd may name at once; failed, or took longer. None of them takes the turns of the others.
QUICK_CALLS_MAX, NEW_CALLS_MAX, SLOW_CALLS_MAX = 8, 4, 4
SLOW_S = 1.0
# /stats of ten thousand channels has 9 MB.
ANSWER_BYTES_MAX = 32 << 20


class CheckedResolver(AbstractResolver):
    """Resolves names, and drops the addresses that the rules refuse: the check and the connection see the same
    address, whatever the name resolves to the next time."""

    def __init__(self, rules: NodeRules) -> None:
        self.rules = rules
        self._trusted: Counter[tuple[str, int]] = Counter()
        self._found: dict[tuple[str, int], frozenset[str]] = {}  # of nsqlookupds, as they were resolved last
        self._system = ThreadedResolver()

    @contextmanager
    def trusting(self, address: HttpAddress) -> Iterator[None]:
        """While an nsqlookupd is called: no other program names it, but the options, or the engine that registers with
        it."""
        key = address.host, address.port
        self._trusted[key] += 1
        try:
            yield
        finally:
            self._trusted[key] -= 1
            self._trusted += Counter()  # without those at 0

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """Raises OSError with the rule's sentence where no address is left."""
        found = await self._system.resolve(host, port, family)
        allowed: list[ResolveResult] = []
        refusal = ""
        for one in found:
            ip = ip_of(one["host"].partition("%")[0])
            reason = "it resolves to no IP address" if ip is None else self.rules.refusal_of_resolved(host, port, ip)
            if reason and (host, port) not in self._trusted:
                refusal = reason
            else:
                allowed.append(one)
        if not allowed:
            raise OSError(refusal or f"{host} has no address")
        if (host, port) in self._trusted:
            self._found[host, port] = frozenset(one["host"] for one in allowed)
        return allowed

    def found(self, address: HttpAddress) -> frozenset[str]:
        """The IP addresses of an nsqlookupd; empty before its first call."""
        ip = ip_of(address.host)
        return self._found.get((address.host, address.port), frozenset()) if ip is None else frozenset((str(ip),))

    async def close(self) -> None:
        await self._system.close()


@dataclass(frozen=True, slots=True)
class NodeAnswer:
    """took_ms: without the wait for its turn. clock: None where the answer has no date."""

    document: Any
    took_ms: int
    clock: ClockOffset | None


class NodeHttp:
    """`async with NodeHttp(…) as http`; belongs to the event loop that runs when it is made. rules may be replaced at
    any time. tokens: returns those of now."""

    def __init__(
        self, options: ClusterOptions, rules: NodeRules, tls: ssl.SSLContext, tokens: Callable[[], NodeTokens]
    ) -> None:
        self._resolver = CheckedResolver(rules)
        self._tokens = tokens
        self._quick_calls = asyncio.Semaphore(QUICK_CALLS_MAX)
        self._new_calls = asyncio.Semaphore(NEW_CALLS_MAX)
        self._slow_calls = asyncio.Semaphore(SLOW_CALLS_MAX)
        self._is_quick: dict[HttpAddress, bool] = {}  # absent: not called so far
        self._pages = asyncio.Semaphore(CALLS_MAX)
        self._acts = asyncio.Semaphore(CALLS_MAX)  # an operator's act does not wait behind reads of silent nodes
        self._http = HttpJson(
            timeout_s=options.request_timeout_s,
            connect_timeout_s=options.connect_timeout_s,
            tls=tls,
            resolver=self._resolver,
            redirects_max=0,
            answer_bytes_max=ANSWER_BYTES_MAX,
        )
        # Nodes that answer on http with 403 and the port of their https, as nsqd does with --tls-required.
        self._https: dict[HttpAddress, HttpAddress] = {}

    @property
    def rules(self) -> NodeRules:
        return self._resolver.rules

    @rules.setter
    def rules(self, rules: NodeRules) -> None:
        self._resolver.rules = rules

    def without_twins(self, lookupds: Iterable[HttpAddress]) -> tuple[HttpAddress, ...]:
        """Each nsqlookupd once: of several names of one, that with the fewest IP addresses stays, and an IP address
        before a name: 127.0.0.1 beside localhost, whatever ::1 is. A name with several addresses of a family is that of
        several nsqlookupds: it goes only where others have all of them."""
        listed = list(lookupds)
        stay, taken = set[HttpAddress](), set[tuple[str, int]]()
        for one in sorted(listed, key=lambda one: (len(self._resolver.found(one)), ip_of(one.host) is None)):
            at = {(ip, one.port) for ip in self._resolver.found(one)}
            is_of_one = len(at) == len({":" in ip for ip, _ in at})
            if taken.isdisjoint(at) if is_of_one else not at <= taken:
                stay.add(one)
                taken |= at
        return tuple(one for one in listed if one in stay)

    async def __aenter__(self) -> "NodeHttp":
        await self._http.__aenter__()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self._http.__aexit__(*exc)

    def forget(self, target: HttpAddress) -> None:
        """A node that is not called any more: an nsqlookupd may name others without end."""
        self._is_quick.pop(target, None)
        self._https.pop(target, None)

    async def get_of_lookupd(self, address: HttpAddress, path: str, query: Mapping[str, str] | None = None) -> Any:
        """The document of `read_lookupd`."""
        return (await self.read_lookupd(address, path, query)).document

    async def read_lookupd(self, address: HttpAddress, path: str, query: Mapping[str, str] | None = None) -> NodeAnswer:
        """An nsqlookupd's answer. Raises as `HttpJson.get`."""
        with self._resolver.trusting(address):
            return await self._in_turn(address, lambda: self._http.dated(f"{address.url}{path}", query))

    async def get_of_node(
        self,
        target: HttpAddress,
        path: str,
        query: Mapping[str, str] | None = None,
        *,
        purpose: Purpose = "poll",
        user: str = "",
    ) -> Any:
        """The document of a node's answer, as `read_node` has it."""
        return (await self.read_node(target, path, query, purpose=purpose, user=user)).document

    async def read_node(
        self,
        target: HttpAddress,
        path: str,
        query: Mapping[str, str] | None = None,
        *,
        purpose: Purpose = "poll",
        user: str = "",
    ) -> NodeAnswer:
        """A node's answer; by https where the node names its port. user: as of `post_to_node`. Raises as
        `HttpJson.get`."""

        async def get(url: str, token: str) -> JsonAnswer:
            return await self._http.dated(f"{url}{path}", query, token=token, headers=_claim(user, token))

        return await self._in_turn(target, lambda: self._of_node(target, get), purpose=purpose)

    async def _in_turn(
        self, target: HttpAddress, call: Callable[[], Awaitable[JsonAnswer]], *, purpose: Purpose = "poll"
    ) -> NodeAnswer:
        async with self._turn_of(target, purpose):
            began_s, sent_ms = time.monotonic(), _now_ms()
            self._is_quick[target] = False
            answer = await call()
            took_s = time.monotonic() - began_s
            if took_s < SLOW_S:
                self._is_quick[target] = True
            return NodeAnswer(answer.document, round(took_s * 1000), ClockOffset.of(answer.date, sent_ms, _now_ms()))

    def _turn_of(self, target: HttpAddress, purpose: Purpose) -> asyncio.Semaphore:
        if purpose == "poll":
            is_quick = self._is_quick.get(target)
            return self._new_calls if is_quick is None else self._quick_calls if is_quick else self._slow_calls
        return self._acts if purpose == "act" else self._pages

    async def post_to_lookupd(self, address: HttpAddress, path: str, query: Mapping[str, str]) -> bytes:
        """Have an nsqlookupd do an act. Raises as `HttpJson.post`."""
        with self._resolver.trusting(address):
            async with self._acts:
                return await self._http.post(f"{address.url}{path}", query)

    async def post_to_node(
        self, target: HttpAddress, path: str, query: Mapping[str, str], body: bytes = b"", *, user: str = ""
    ) -> bytes:
        """Have a node do an act; by https where the node names its port. user: who wants it, for the node's audit
        list; sent beside a token alone. Raises as `HttpJson.post`."""

        async def post(url: str, token: str) -> bytes:
            return await self._http.post(f"{url}{path}", query, body=body, token=token, headers=_claim(user, token))

        async with self._acts:
            answer: bytes = await self._of_node(target, post)
            return answer

    async def _of_node(self, target: HttpAddress, call: Callable[[str, str], Awaitable[Any]]) -> Any:
        """call: gets the URL's beginning and the token."""
        called = self._https.get(target, target)
        token = self._tokens().of(target)
        try:
            return await call(called.url, token)
        except HttpRefusedError as exc:
            port = _https_port(exc)
            if exc.status != 403 or called.is_tls or not port:
                raise
        except UnreachableError as exc:
            # It may have been restarted without TLS.
            if not exc.is_sent:
                self._https.pop(target, None)
            raise
        self._https[target] = HttpAddress(target.host, port, is_tls=True)
        return await call(self._https[target].url, token)


def _claim(user: str, token: str) -> dict[str, str] | None:
    return {HEADER: encoded(user)} if user and token else None


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _https_port(refused: HttpRefusedError) -> int:
    try:
        document = orjson.loads(refused.body)
    except orjson.JSONDecodeError:
        return 0
    port = document.get("https_port") if isinstance(document, dict) else None
    return port if isinstance(port, int) and 0 < port < 65536 else 0


def tls_of(tls: ClientTls) -> ssl.SSLContext:
    """Raises ValueError with a sentence where a file can't be used."""
    try:
        return tls_context(tls.root_ca_file, tls.cert, tls.key, is_checked=tls.is_checked)
    except OSError as exc:  # an ssl.SSLError, too
        files = ", ".join(filter(None, (tls.root_ca_file, tls.cert, tls.key)))
        raise ValueError(f"{files} can't be used for TLS to nodes: {exc.strerror or exc}") from exc
