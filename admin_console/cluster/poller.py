"""Reads nsqlookupds and nodes, each in a task of its own: one that is slow or dead costs its own freshness alone.

    nsqlookupd   /nodes                               every period
    node         /info, when it may have restarted    /stats without clients, every period

A call that fails is repeated after 1, 2, 4 … times `Pace.retry_s`, at most `Pace.retry_max_s`. The answer before it
stays, with its age.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from admin_console.cluster.addresses import HttpAddress
from admin_console.cluster.members import Identity, Member, members_of, without_duplicates
from admin_console.cluster.node_http import NodeHttp
from admin_console.cluster.node_info import NodeInfo, node_info_in
from admin_console.cluster.node_rates import NO_RATES, NodeRates, Rates
from admin_console.cluster.node_stats import NodeStats, node_stats_in
from admin_console.cluster.nodes import NO_ANSWER, Answers, ClusterState, Lookupd, Node
from admin_console.cluster.options import PACE, Addresses, ClusterOptions, Pace
from admin_console.cluster.registrations import NO_REGISTRATIONS, Registrations, registrations_in
from admin_console.cluster.totals import NodeSums
from queue_engine.client.http_json import HttpRefusedError, UnreachableError, list_in

logger = logging.getLogger(__name__)

GONE_S = 24 * 3600  # how long a node that no nsqlookupd names any more is shown
GONE_MAX = 500
_Read = Callable[[HttpAddress], Awaitable[bool]]
STATS_QUERY = {"format": "json", "include_clients": "false"}


class AnswerError(Exception):
    """An answer of another form than the API's; the text is a sentence."""


@dataclass(slots=True)
class _LookupdReading:
    answers: Answers = NO_ANSWER
    registrations: Registrations = NO_REGISTRATIONS


@dataclass(slots=True)
class _NodeReading:
    answers: Answers = NO_ANSWER
    info: NodeInfo | None = None
    stats: NodeStats | None = None
    sums: NodeSums | None = None
    counted: NodeRates = field(default_factory=NodeRates)
    rates: Rates = NO_RATES


class Stretch:
    """How many times longer than `Pace.period_s` the period is, so that reading takes `Pace.cpu_share` of a core."""

    def __init__(self, pace: Pace) -> None:
        self._pace = pace
        self._noted: tuple[float, float] | None = None
        self.factor = 1.0

    def note(self, now_s: float, cpu_s: float) -> None:
        """now_s: monotonic. cpu_s: processor time of the thread since it began."""
        if self._noted is None:
            self._noted = now_s, cpu_s
        took_s = now_s - self._noted[0]
        if took_s >= self._pace.period_s * self.factor:
            share = (cpu_s - self._noted[1]) / took_s
            self.factor = max(1.0, self.factor * share / self._pace.cpu_share)
            self._noted = now_s, cpu_s


class ClusterPoller:
    """Belongs to one event loop; `state` may be read by any thread. own: the identity of the engine of this process,
    None without one. on_state: called with each new state, on the loop."""

    def __init__(
        self,
        options: ClusterOptions,
        addresses: Addresses,
        http: NodeHttp,
        *,
        own: Callable[[], Identity | None],
        pace: Pace = PACE,
        now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        self._options = options
        self._addresses = addresses
        self._http = http
        self._own = own
        self._pace = pace
        self._now_ms = now_ms
        self._tasks: dict[tuple[str, HttpAddress], asyncio.Task[None]] = {}
        self._lookupds: dict[HttpAddress, _LookupdReading] = {}
        self._nodes: dict[HttpAddress, _NodeReading] = {}
        self._members: tuple[Member, ...] = ()
        self._last: dict[HttpAddress, Node] = {}
        self._gone: dict[HttpAddress, Node] = {}
        self._stretch = Stretch(pace)
        self.state = ClusterState(addresses)

    def start(self) -> None:
        """Begin to read; call on the loop."""
        self._follow()

    async def stop(self) -> None:
        tasks = list(self._tasks.values())
        self._tasks.clear()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def change(self, addresses: Addresses) -> None:
        """Read these addresses from now on; call on the loop."""
        self._addresses = addresses
        self._http.rules = self._options.rules(addresses)
        self._last = {}  # what an admin removed is not gone
        self._follow()

    @property
    def period_s(self) -> float:
        """Between two readings of one address, as it is now."""
        return self._pace.period_s * self._stretch.factor

    def _follow(self) -> None:
        """Work out the members, and have a task for each address and for no other."""
        lookupds = self._addresses.lookupds
        self._lookupds = {one: self._lookupds.get(one) or _LookupdReading() for one in lookupds}
        named = {one: reading.registrations.nodes for one, reading in self._lookupds.items()}
        self._members = members_of(self._addresses.nsqds, named, self._http.rules)
        called = [member.target for member in self._members if not member.refusal]
        self._nodes = {target: self._nodes.get(target) or _NodeReading() for target in called}
        wanted: dict[tuple[str, HttpAddress], _Read] = {("lookupd", one): self._read_lookupd for one in lookupds}
        wanted.update({("node", one): self._read_node for one in called})
        for key in self._tasks.keys() - wanted.keys():
            self._tasks.pop(key).cancel()
        for key, read in wanted.items():
            if key not in self._tasks:
                self._tasks[key] = asyncio.create_task(self._repeat(key[1], read), name=f"{key[0]} {key[1]}")
        self._renew()

    async def _repeat(self, address: HttpAddress, read: _Read) -> None:
        failures = 0
        while True:
            try:
                is_answered = await read(address)
            except Exception:
                # A fault of ours with this one's answer: the others go on.
                logger.exception("the answer of %s can't be taken in", address)
                is_answered = False
            self._stretch.note(time.monotonic(), time.thread_time())
            failures = 0 if is_answered else failures + 1
            await asyncio.sleep(self.period_s if is_answered else self._pace.retry_after_s(failures))

    async def _read_lookupd(self, address: HttpAddress) -> bool:
        reading = self._lookupds[address]
        reading.answers, document = await self._called(
            f"nsqlookupd {address}", reading.answers, self._http.get_of_lookupd(address, "/nodes")
        )
        if document is not None:
            found = registrations_in(list_in(document, "producers"))
            is_changed = found != reading.registrations
            reading.registrations = found
            if is_changed:
                self._follow()
                return True
        self._renew()
        return reading.answers.is_answering

    async def _read_node(self, target: HttpAddress) -> bool:
        reading = self._nodes[target]
        reading.answers, stats = await self._called(f"node {target}", reading.answers, self._stats_of(target, reading))
        if stats is not None:
            reading.stats = stats
            reading.sums = NodeSums.of(stats)
            reading.rates = reading.counted.note(time.monotonic(), stats.started_s, reading.sums)
        self._renew()
        return reading.answers.is_answering

    async def _stats_of(self, target: HttpAddress, reading: _NodeReading) -> NodeStats | None:
        """None where the engine of this process answers. Raises AnswerError, or as NodeHttp."""
        if reading.info is None or reading.info.identity == self._own():
            reading.info = await self._info_of(target)
            if reading.info.identity == self._own():
                return None
        stats = node_stats_in(await self._http.get_of_node(target, "/stats", STATS_QUERY))
        if stats is None:
            raise AnswerError(f"{target.url}/stats answered with another document than an nsqd's")
        if reading.info.identity.started_s != stats.started_s:
            reading.info = await self._info_of(target)
        return stats

    async def _info_of(self, target: HttpAddress) -> NodeInfo:
        info = node_info_in(await self._http.get_of_node(target, "/info"))
        if info is None:
            raise AnswerError(f"{target.url}/info answered with another document than an nsqd's")
        return info

    async def _called(self, name: str, before: Answers, call: Awaitable[Any]) -> tuple[Answers, Any]:
        """Wait for a call; how its address answers now, and the answer, None where there is none."""
        began_s = time.monotonic()
        try:
            answer = await call
        except (HttpRefusedError, UnreachableError, AnswerError) as exc:
            if not before.error:
                logger.warning("%s does not answer: %s", name, exc)
            return replace(before, error=str(exc), failing_since_ms=before.failing_since_ms or self._now_ms()), None
        if before.error:
            logger.info("%s answers again", name)
        return Answers(self._now_ms(), round((time.monotonic() - began_s) * 1000)), answer

    def _renew(self) -> None:
        """Make the state anew."""
        identities = {target: one.info.identity for target, one in self._nodes.items() if one.info is not None}
        members, embedded = without_duplicates(self._members, identities, self._own())
        nodes = tuple(self._node(member) for member in members)
        self._note_gone(nodes, {member.target for member in embedded})
        self.state = ClusterState(
            self._addresses,
            tuple(
                Lookupd(address, one.answers, len(one.registrations.nodes), one.registrations.unusable)
                for address, one in self._lookupds.items()
            ),
            nodes,
            tuple(self._gone.values()),
            embedded,
        )

    def _node(self, member: Member) -> Node:
        one = self._nodes.get(member.target)
        if one is None:
            return Node(member)
        return Node(member, one.answers, one.info, one.stats, sums=one.sums, rates=one.rates)

    def _note_gone(self, nodes: Iterable[Node], embedded: set[HttpAddress]) -> None:
        now_ms = self._now_ms()
        there = {node.member.target: node for node in nodes}
        for target in self._last.keys() - there.keys() - embedded:
            last = self._last[target]
            # One that was never read, or is another address of a node that is there, has nothing to show.
            if (
                last.member.registrations
                and last.info is not None
                and all(node.info != last.info for node in there.values())
            ):
                self._gone[target] = replace(last, gone_since_ms=now_ms)
        self._gone = {
            target: node
            for target, node in list(self._gone.items())[-GONE_MAX:]
            if target not in there and now_ms - node.gone_since_ms < GONE_S * 1000
        }
        self._last = there
