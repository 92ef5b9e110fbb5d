"""One node being read, in a task of its own: it makes one call at a time, so no answer overtakes a newer one.

    /info, when it may have restarted; of a Penstock /openapi.json, too
    /stats of all topics              every period; with clients while a page shows all of them
    /stats of a topic that it has     every second, while a page shows that topic

A call that fails is repeated after 1, 2, 4 … times `Pace.retry_s`, at most `Pace.retry_max_s`; from the second one on
no other is made until one is answered. The answer before it stays, with its age.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from zlib import crc32

from admin_console.cluster.calls.addresses import HttpAddress
from admin_console.cluster.calls.node_clock import ClockOffset
from admin_console.cluster.calls.node_http import NodeAnswer, NodeHttp
from admin_console.cluster.reading.members import Identity, Member
from admin_console.cluster.reading.node_info import NodeInfo, node_info_in, paths_in
from admin_console.cluster.reading.node_rates import NO_RATES, NodeRates
from admin_console.cluster.reading.node_stats import NodeStats, node_stats_in
from admin_console.cluster.reading.nodes import NO_ANSWER, Answers, Node
from admin_console.cluster.reading.stretch import Stretch
from admin_console.cluster.reading.totals import NodeSums
from admin_console.cluster.reading.watches import PRODUCERS_S, Watch, Watches
from queue_engine.client.http_json import HttpRefusedError, UnreachableError

logger = logging.getLogger(__name__)

# Of a core, for taking in the answers of one node: one with names without end makes its own period longer.
NODE_CPU_SHARE = 0.02
LOOK_S = 5.0  # between two looks at whether the engine has become idle
SPREAD_SHARE = 0.75  # of the first period
# An nsqd need not stop to measure its memory; a Penstock adds its latencies as histograms.
_STATS_QUERY = {"format": "json", "include_mem": "false", "include_buckets": "true"}


class AnswerError(Exception):
    """An answer of another form than the API's; the text is a sentence."""


async def called(
    name: str, before: Answers, call: Awaitable[NodeAnswer], now_ms: Callable[[], int]
) -> tuple[Answers, NodeAnswer | None]:
    """Wait for a call; how its address answers now, and the answer, None where there is none."""
    try:
        answer = await call
    except (HttpRefusedError, UnreachableError, AnswerError) as exc:
        after = before.after_failure(str(exc), now_ms())
        if after.error and not before.error:
            logger.warning("%s does not answer: %s", name, exc)
        return after, None
    if before.error:
        logger.info("%s answers again", name)
    return Answers(now_ms(), answer.took_ms), answer


class NodeReading:
    """Belongs to one event loop. member: may be replaced. own: the identity of the engine of this process.
    on_change: called after each answer."""

    def __init__(
        self,
        member: Member,
        http: NodeHttp,
        watches: Watches,
        stretch: Stretch,
        *,
        own: Callable[[], Identity | None],
        now_ms: Callable[[], int],
        on_change: Callable[[], None],
    ) -> None:
        self.member = member
        self._target: HttpAddress = member.target
        self._http = http
        self._watches = watches
        self._stretch = stretch
        self._own = own
        self._now_ms = now_ms
        self._on_change = on_change
        self._is_woken = asyncio.Event()
        self._begun_s = 0.0  # the newest reading of all topics
        self._due_s = 0.0  # the next one, beside an idle engine
        self._is_spread = False
        self._all_cpu_s = 0.0  # what taking in the newest of these took
        self._watched_s: dict[str, float] = {}  # topic → the begin of its newest reading alone
        self._producers_s: dict[str, float] = {}  # of those with clients
        self.answers = NO_ANSWER
        self.info: NodeInfo | None = None
        self.stats: NodeStats | None = None
        self.clock: ClockOffset | None = None
        self._sums: NodeSums | None = None
        self._counted = NodeRates()
        self._rates = NO_RATES
        self._made: Node | None = None

    def node_of(self, member: Member) -> Node:
        """As it is now: the same object until an answer comes."""
        made = self._made
        if made is None or (made.member is not member and made.member != member):
            made = self._made = Node(
                member,
                self.answers,
                self.info,
                self.stats,
                sums=self._sums,
                rates=self._rates,
                clock=self.clock,
            )
        return made

    def wake(self) -> None:
        """A page shows what no page showed before."""
        self._is_woken.set()

    def read_now(self) -> None:
        """All topics, before their period is over."""
        self._due_s = 0.0
        self._is_woken.set()

    def read_soon(self) -> None:
        """All topics, a second after the reading before at the earliest: acts one after the other cost one."""
        earliest_s = self._begun_s + max(self._stretch.watched_s, self._all_cpu_s / NODE_CPU_SHARE)
        self._due_s = min(self._due_s, earliest_s)
        self._is_woken.set()

    def note_emptied(self, topic: str, channel: str, count: int) -> None:
        """As `NodeStats.with_emptied`."""
        if self.stats is not None:
            self.stats = self.stats.with_emptied(topic, channel, count)

    async def run(self) -> None:
        """Read until it is cancelled."""
        failures = 0
        while True:
            now_s = time.monotonic()
            watch, watch_s = self._next_watch()
            if now_s >= self._all_due_s():
                self._begun_s, self._due_s = now_s, now_s + self._stretch.period_s * self._stretch.left
                is_answered = await self._taken_in(self._read_all)
                self._due_s = max(self._due_s, now_s + self._all_cpu_s / NODE_CPU_SHARE)
                if not self._is_spread and is_answered:
                    # All nodes are read at once when the reading begins, and from then on one after the other.
                    fraction = crc32(str(self._target).encode()) / (1 << 32)
                    self._due_s -= SPREAD_SHARE * fraction * (self._due_s - now_s)
                    self._is_spread = True
            elif watch is not None and now_s >= watch_s:
                is_answered = await self._taken_in(partial(self._read_alone, watch))
            else:
                await self._wait(min(self._all_due_s() - now_s, watch_s - now_s, LOOK_S))
                continue
            self._stretch.note()
            failures = 0 if is_answered else failures + 1
            if failures:
                self._due_s = time.monotonic() + self._stretch.retry_after_s(failures)

    async def _wait(self, seconds: float) -> None:
        self._is_woken.clear()
        try:
            async with asyncio.timeout(seconds):
                await self._is_woken.wait()
        except TimeoutError:
            pass

    def _all_due_s(self) -> float:
        is_well = self.answers.is_answering and self.stats is not None
        lacks_clients = is_well and self._shows_clients() and self.stats is not None and not self.stats.has_clients
        # Later while the engine is busy, from the moment on at which it is.
        return 0.0 if lacks_clients else self._begun_s + (self._due_s - self._begun_s) / self._stretch.left

    def _shows_clients(self) -> bool:
        return self._watches.shows_clients_of(self.member.named.bare)

    def _next_watch(self) -> tuple[Watch | None, float]:
        """Of the topics that pages show and the node has, that whose turn is next; and when."""
        if not self.answers.is_answering or self.stats is None or self._is_embedded:
            return None, float("inf")
        shown = [one for one in self._watches.topics() if self._has(one.topic)]
        begun_s = self._watched_s = {one.topic: self._watched_s.get(one.topic, float("-inf")) for one in shown}
        if not shown:
            return None, float("inf")
        first = min(shown, key=lambda one: begun_s[one.topic])
        return first, begun_s[first.topic] + self._stretch.watched_s

    def _has(self, topic: str) -> bool:
        named = (one.topics for one in self.member.registrations.values())
        return (self.stats is not None and topic in self.stats.topics) or any(topic in topics for topics in named)

    @property
    def _is_embedded(self) -> bool:
        return self.info is not None and self.info.identity == self._own()

    async def _taken_in(self, read: Callable[[], Awaitable[NodeAnswer]]) -> bool:
        """Whether there was an answer that could be taken in."""
        try:
            self.answers, answer = await called(f"node {self._target}", self.answers, read(), self._now_ms)
        except Exception:
            # A fault of ours with this one's answer: the others go on.
            logger.exception("the answer of node %s can't be taken in", self._target)
            self.answers = self.answers.after_failure(
                "its answer can't be taken in: the log has the fault", self._now_ms()
            )
            answer = None
        if answer is not None and answer.clock is not None:
            self.clock = answer.clock if self.clock is None else self.clock.narrowed(answer.clock)
        self._made = None
        self._on_change()
        return answer is not None

    async def _read_all(self) -> NodeAnswer:
        """Raises AnswerError, or as NodeHttp. Only its /info where the engine of this process answers."""
        if self.info is None or self._is_embedded:
            answer = await self._read_info()
            if self._is_embedded:
                return answer
        with_clients = self._shows_clients()
        answer, stats = await self._read_stats(with_clients=with_clients)
        assert self.info is not None
        is_same = self.info.identity.started_s == stats.started_s and stats.version in ("", self.info.version)
        if not is_same:
            await self._read_info()
        began_s = time.thread_time()
        self.stats = stats.after(self.stats, () if with_clients else self._watches.with_clients())
        self._sums = NodeSums.of(self.stats)  # with the backlogs of earlier readings
        self._rates = self._counted.note(time.monotonic(), stats.started_s, self._sums)
        self._all_cpu_s += time.thread_time() - began_s
        return answer

    async def _read_alone(self, watch: Watch) -> NodeAnswer:
        """Raises as `_read_all`."""
        topic, now_s = watch.topic, time.monotonic()
        self._watched_s[topic] = now_s
        before = self.stats
        assert before is not None
        had = before.topics.get(topic)
        # A node that lacks the channel may get it: the whole topic shows that.
        channel = watch.channel if had is not None and watch.channel in had.channels else ""
        with_clients = watch.clients and (
            bool(channel) or now_s - self._producers_s.get(topic, float("-inf")) >= PRODUCERS_S
        )
        if with_clients:
            self._producers_s = {one: at_s for one, at_s in self._producers_s.items() if one in self._watched_s}
            self._producers_s[topic] = now_s
        answer, stats = await self._read_stats(topic, channel, with_clients=with_clients)
        assert self.stats is not None
        if stats.started_s != before.started_s:
            self._due_s = 0.0  # it has restarted: all topics are read at once
        else:
            keeps_clients = watch.clients or self._shows_clients()
            # Not `before`: acts note what they empty meanwhile.
            self.stats = self.stats.with_topic(stats, topic, channel, keeps_clients=keeps_clients)
            if self._sums is not None:
                self._sums = self._sums.with_topic(had, self.stats.topics.get(topic))
        return answer

    async def _read_stats(
        self, topic: str = "", channel: str = "", *, with_clients: bool
    ) -> tuple[NodeAnswer, NodeStats]:
        query: Mapping[str, str] = {**_STATS_QUERY, "include_clients": "true" if with_clients else "false"}
        if topic:
            query = {**query, "topic": topic}
        if channel:
            query = {**query, "channel": channel}
        answer = await self._http.read_node(self._target, "/stats", query)
        began_s = time.thread_time()
        stats = node_stats_in(answer.document, with_clients=with_clients, topic=topic, read_at_ms=self._now_ms())
        if not topic:
            self._all_cpu_s = time.thread_time() - began_s
        if stats is None:
            raise AnswerError(f"{self._target.url}/stats answered with another document than an nsqd's")
        return answer, stats

    async def _read_info(self) -> NodeAnswer:
        answer = await self._http.read_node(self._target, "/info")
        info = node_info_in(answer.document)
        if info is None:
            raise AnswerError(f"{self._target.url}/info answered with another document than an nsqd's")
        if info.is_penstock and info.identity != self._own():
            # Without its paths an act of a later version is refused when it is sent.
            with suppress(HttpRefusedError, UnreachableError):
                paths = paths_in((await self._http.read_node(self._target, "/openapi.json")).document)
                info = replace(info, paths=paths)
        self.info = info
        return answer
