"""Reads nsqlookupds and nodes, each in a task of its own: one that is slow or dead costs its own freshness alone.

A node's task is in `node_reading.py`. An nsqlookupd's `/nodes` is read every period; a call that fails is repeated as
there.
"""

import asyncio
import logging
import sys
import time
from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from admin_console.cluster.calls.addresses import HttpAddress
from admin_console.cluster.calls.node_http import NodeHttp
from admin_console.cluster.calls.options import PACE, Addresses, ClusterOptions, Pace
from admin_console.cluster.reading.members import Identity, Member, members_of, without_duplicates
from admin_console.cluster.reading.node_reading import NodeReading, called
from admin_console.cluster.reading.nodes import NO_ANSWER, Answers, ClusterState, Lookupd, Node
from admin_console.cluster.reading.registrations import NO_REGISTRATIONS, Registrations, registrations_in
from admin_console.cluster.reading.stretch import Stretch
from admin_console.cluster.reading.watches import Watch, Watches
from queue_engine.client.http_json import list_in

logger = logging.getLogger(__name__)

GONE_S = 24 * 3600  # how long a node that no nsqlookupd names any more is shown
GONE_MAX = 500
RENEWAL_S = 0.2


@dataclass(slots=True)
class _LookupdReading:
    answers: Answers = NO_ANSWER
    registrations: Registrations = NO_REGISTRATIONS


class ClusterPoller:
    """Belongs to one event loop; `state` may be read by any thread. own: the identity of the engine of this process,
    None without one."""

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
        self._now_ms = now_ms
        self._tasks: dict[tuple[str, HttpAddress], asyncio.Task[None]] = {}
        self._lookupds: dict[HttpAddress, _LookupdReading] = {}
        self._counted: tuple[HttpAddress, ...] = ()  # each nsqlookupd once, whatever its names
        self._nodes: dict[HttpAddress, NodeReading] = {}
        # Those that failed, and that an nsqlookupd names beyond its limit now: they have other turns.
        self._waiting: dict[HttpAddress, Answers] = {}
        self._members: tuple[Member, ...] = ()
        self._unnamed_ms: dict[HttpAddress, int] = {}  # since when no nsqlookupd names a member
        # Addresses of one node, by the renewal before; and those of them that still have the start before its restart,
        # with the time of that answer.
        self._twins: list[list[HttpAddress]] = []
        self._overtaken: dict[HttpAddress, int] = {}
        self._last: dict[HttpAddress, Node] = {}
        self._gone: dict[HttpAddress, Node] = {}
        self._unnamed_for_ms = pace.unnamed_s * 1_000
        self._stretch = Stretch(pace)
        self._watches = Watches()
        self._renewal: asyncio.TimerHandle | None = None
        self.state = ClusterState(addresses)

    def start(self) -> None:
        """Begin to read; call on the loop."""
        self._follow()

    async def stop(self) -> None:
        if self._renewal is not None:
            self._renewal.cancel()
        tasks = list(self._tasks.values())
        self._tasks.clear()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def change(self, addresses: Addresses) -> None:
        """Read these addresses from now on; call on the loop."""
        self._addresses = addresses
        self._http.rules = self._options.rules(addresses)
        self._members, self._last = (), {}  # what an admin removed is not gone
        self._follow()

    def newest(self) -> ClusterState:
        """The state with all answers of this moment; call on the loop."""
        if self._renewal is not None:
            self._renew()
        return self.state

    @property
    def stretch(self) -> Stretch:
        return self._stretch

    @property
    def period_s(self) -> float:
        """Between two readings of one address, as it is now."""
        return self._stretch.period_s

    def watch(self, watch: Watch) -> None:
        """A page shows it; call on the loop."""
        if self._watches.note(watch):
            self._wake()

    def watch_clients(self, node: str) -> None:
        """A page shows all clients of a node, of all for ""; call on the loop."""
        if self._watches.note_clients(node):
            self._wake()

    def note_emptied(self, target: HttpAddress, topic: str, channel: str, count: int) -> None:
        """As `NodeStats.with_emptied`, of the node at `target`, by whichever of its addresses it is read; call on the
        loop."""
        for one in self._of_node(target):
            one.note_emptied(topic, channel, count)

    def read_soon(self, target: HttpAddress) -> None:
        """All topics of the node at `target`, by whichever of its addresses it is read; call on the loop."""
        for one in self._of_node(target):
            one.read_soon()

    def _of_node(self, target: HttpAddress) -> list[NodeReading]:
        there = self._nodes.get(target)
        if there is None or there.info is None:
            return []
        readings = self._nodes.values()
        return [one for one in readings if one.info is not None and one.info.identity == there.info.identity]

    @property
    def watched(self) -> list[str]:
        """The topics that pages show."""
        return [one.topic for one in self._watches.topics()]

    def _wake(self) -> None:
        for one in self._nodes.values():
            one.wake()

    def _follow(self) -> None:
        """Work out the members, and have a task for each address and for no other."""
        lookupds = self._addresses.lookupds
        self._lookupds = {one: self._lookupds.get(one) or _LookupdReading() for one in lookupds}
        self._counted = self._http.without_twins(lookupds)
        named = {one: self._lookupds[one].registrations.nodes for one in self._counted}
        members = members_of(self._addresses.nsqds, named, self._http.rules)
        self._members = (*members, *self._unnamed({member.target for member in members}))
        called_ones = [member for member in self._members if not member.refusal]
        before, self._nodes = self._nodes, {}
        for member in called_ones:
            reading = self._nodes[member.target] = before.get(member.target) or self._begun(member)
            reading.member = member
        self._note_waiting(before)
        wanted: dict[tuple[str, HttpAddress], Callable[[], Coroutine[Any, Any, None]]] = {
            **{("lookupd", one): partial(self._repeat_lookupd, one) for one in lookupds},
            **{("node", one): reading.run for one, reading in self._nodes.items()},
        }
        for key in self._tasks.keys() - wanted.keys():
            self._tasks.pop(key).cancel()
            if key[1] not in self._waiting:
                self._http.forget(key[1])
        for key, run in wanted.items():
            if key not in self._tasks:
                self._tasks[key] = asyncio.create_task(run(), name=f"{key[0]} {key[1]}")
        self._renew()

    def _note_waiting(self, before: Mapping[HttpAddress, NodeReading]) -> None:
        """Of those that were read before, too. What their last call was like counts at their next turn."""
        answers = [self._lookupds[one].registrations for one in self._counted]
        left_out = {self._http.rules.target_of(one) for answer in answers for one in answer.left_out}
        failed = {target: one.answers for target, one in before.items() if one.info is None and one.answers.failures}
        failed = {**self._waiting, **failed}
        self._waiting = {target: failed[target] for target in (failed.keys() & left_out) - self._nodes.keys()}
        for target in failed.keys() - self._waiting.keys() - self._nodes.keys():
            self._http.forget(target)

    def _unnamed(self, there: Collection[HttpAddress]) -> list[Member]:
        """Nodes that answered, and that no nsqlookupd names any more for a short while. there: the named ones."""
        now_ms, before = self._now_ms(), self._unnamed_ms
        self._unnamed_ms = {
            member.target: before.get(member.target, now_ms)
            for member in self._members
            if member.target not in there and member.target in self._nodes and self._nodes[member.target].info
        }
        self._unnamed_ms = {
            target: since_ms
            for target, since_ms in self._unnamed_ms.items()
            if now_ms - since_ms < self._unnamed_for_ms
        }
        return [replace(member, registrations={}) for member in self._members if member.target in self._unnamed_ms]

    def _is_unnamed_too_long(self) -> bool:
        return min(self._unnamed_ms.values(), default=1 << 63) + self._unnamed_for_ms <= self._now_ms()

    def _begun(self, member: Member) -> NodeReading:
        reading = NodeReading(
            member,
            self._http,
            self._watches,
            self._stretch,
            own=self._own,
            now_ms=self._now_ms,
            on_change=self._renew_soon,
        )
        reading.answers = self._waiting.get(member.target, NO_ANSWER)
        return reading

    async def _repeat_lookupd(self, address: HttpAddress) -> None:
        failures = 0
        while True:
            try:
                is_answered = await self._read_lookupd(address)
            except Exception:
                # A fault of ours with this one's answer: the others go on.
                logger.exception("the answer of nsqlookupd %s can't be taken in", address)
                is_answered = False
            self._stretch.note()
            failures = 0 if is_answered else failures + 1
            await asyncio.sleep(self._stretch.retry_after_s(failures) if failures else self._stretch.period_s)

    async def _read_lookupd(self, address: HttpAddress) -> bool:
        reading = self._lookupds[address]
        reading.answers, answer = await called(
            f"nsqlookupd {address}", reading.answers, self._http.read_lookupd(address, "/nodes"), self._now_ms
        )
        if answer is not None:
            found = registrations_in(list_in(answer.document, "producers"), self._rank)
            is_changed = found != reading.registrations or self._is_unnamed_too_long()
            is_changed |= self._counted != self._http.without_twins(self._addresses.lookupds)
            reading.registrations = found
            if is_changed:
                self._follow()
                return True
        self._renew_soon()
        return reading.answers.is_answering

    def _rank(self, named: HttpAddress) -> int:
        """Of a node that an nsqlookupd names by this address, among too many: one that has answered stays, and one that
        the rules refuse is left out first. The others have turns: one without a call so far, then the one whose failed
        call is the oldest."""
        target = self._http.rules.target_of(named)
        reading = self._nodes.get(target)
        if reading is not None and reading.info is not None:
            return 0
        if self._http.rules.refusal(target):
            return sys.maxsize
        answers = self._waiting.get(target, NO_ANSWER) if reading is None else reading.answers
        return 1 + answers.failed_at_ms

    def _renew_soon(self) -> None:
        """Once for all answers of a short while: each state looks at all nodes."""
        if self._renewal is None:
            self._renewal = asyncio.get_running_loop().call_later(RENEWAL_S, self._renew)

    def _renew(self) -> None:
        """Make the state anew."""
        if self._renewal is not None:
            self._renewal.cancel()
            self._renewal = None
        members, embedded = without_duplicates(self._members, self._identities(), self._own())
        nodes = tuple(self._node(member) for member in members)
        self._note_gone(nodes, {member.target for member in embedded})
        self.state = ClusterState(
            self._addresses,
            tuple(
                Lookupd(address, one.answers, len(one.registrations.nodes), one.registrations.unusable)
                for address in self._counted
                if (one := self._lookupds[address])
            ),
            nodes,
            tuple(self._gone.values()),
            embedded,
        )

    def _identities(self) -> dict[HttpAddress, Identity]:
        """By address. Where a node that two addresses reach was read at one of them after a restart, the other has
        that start, too, until its own next answer, which it is called for at once: the node would count twice."""
        found = {target: one.info.identity for target, one in self._nodes.items() if one.info is not None}
        before, self._overtaken = self._overtaken, {}
        for twins in self._twins:
            there = [target for target in twins if target in found]
            newest = max((found[target] for target in there), key=lambda one: one.started_s, default=None)
            for target in there:
                if newest is None or found[target] == newest:
                    continue
                if replace(found[target], started_s=newest.started_s) != newest:
                    continue
                reading = self._nodes[target]
                answered_at_ms = reading.answers.answered_at_ms
                if target not in before:
                    reading.read_now()
                if before.get(target, answered_at_ms) == answered_at_ms:
                    self._overtaken[target] = answered_at_ms
                    found[target] = newest
        same: dict[Identity, list[HttpAddress]] = {}
        for target, identity in found.items():
            same.setdefault(identity, []).append(target)
        self._twins = [targets for targets in same.values() if len(targets) > 1]
        return found

    def _node(self, member: Member) -> Node:
        one = self._nodes.get(member.target)
        # A member that several addresses reach has the registrations of all of them.
        return Node(member) if one is None else one.node_of(member)

    def _note_gone(self, nodes: Iterable[Node], embedded: set[HttpAddress]) -> None:
        now_ms = self._now_ms()
        there = {node.member.target: node for node in nodes}
        for target in self._last.keys() - there.keys() - embedded:
            last = self._last[target]
            # One that was never read, or is another address of a node that is there, has nothing to show.
            if (
                not last.member.is_configured
                and last.info is not None
                and all(node.info != last.info for node in there.values())
            ):
                self._gone[target] = replace(last, gone_since_ms=now_ms, stats=None)
        self._gone = {
            target: node
            for target, node in list(self._gone.items())[-GONE_MAX:]
            if target not in there and now_ms - node.gone_since_ms < GONE_S * 1000
        }
        self._last = there
