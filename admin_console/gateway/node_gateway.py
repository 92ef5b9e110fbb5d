"""Acts on one remote node by its HTTP API: a Penstock's or a Go nsqd's.

An act is sent once. The node's figures are read before it: nsqd answers an act with nothing, and they are the counts of
its sentence. Where the answer stays out, they are read once more, and the result says whether they show the act.
"""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from dataclasses import replace
from typing import Any

from admin_console.cluster.calls.node_http import NodeHttp
from admin_console.cluster.cluster import Cluster
from admin_console.cluster.reading.node_stats import node_stats_in
from admin_console.cluster.reading.nodes import Node, NotCallingError
from admin_console.gateway.act_sentences import sentence_of
from admin_console.gateway.gateway import (
    DONE,
    FAILED,
    NO_AUTHOR,
    UNKNOWN,
    ActOrder,
    ActResult,
    Asker,
    SeekPreview,
    Target,
)
from admin_console.gateway.held import Held, has_grown, now_and_then
from admin_console.gateway.node_messages import NodeMessages
from admin_console.gateway.node_requests import (
    has_no_such_act,
    lacks_a_parameter,
    number_in,
    outcome_of,
    path_of,
    requests_of,
    why_node_can_not,
)
from admin_console.gateway.sentences import act_in_words, outcome_counts
from admin_console.pacing.pace import PACE
from queue_engine.client.http_json import HttpRefusedError, UnreachableError
from queue_engine.vocabulary.acts.table import ACTS, USES

# Figures before, the act, figures after: each has the time of one call (--http-client-request-timeout).
CALLS_OF_AN_ACT = 3
# Parameter → the detail that the sentence leaves out where the node does not take it.
_WITHOUT = {"for": "for_ms", "until": "until_ms", "ramp": "ramp_ms"}


class NodeGateway:
    """One remote node. Any thread."""

    def __init__(self, node: Node, cluster: Cluster) -> None:
        self._node = node
        self._cluster = cluster

    @property
    def name(self) -> str:
        return self._node.name

    @property
    def ends_pauses(self) -> bool:
        return self._node.info is not None and self._node.info.takes("/channel/pause", "for")

    def why_not(self, action: str) -> str:
        return why_node_can_not(self._node, action)

    @property
    def capabilities(self) -> frozenset[str]:
        """Names of ACTS and USES that the node has."""
        return frozenset(name for name in (*ACTS, *USES) if not self.why_not(name))

    def act(self, action: str, topic: str, channel: str = "", asker: Asker = NO_AUTHOR, **details: Any) -> ActResult:
        """As `Gateway.act`."""
        return self.begin(ActOrder(action, topic, channel, asker, details))()

    def begin(self, order: ActOrder) -> Callable[[], ActResult]:
        """Begin an act; the function that is returned waits for its result."""
        try:
            future = self._cluster.call(lambda http: _Doing(self._node, http, order, self._cluster).act())
        except NotCallingError as exc:
            sentence = f"Nothing was done to {_name_of(order)}: {exc}"
            return lambda: ActResult(FAILED, sentence, "UNREACHABLE")
        return lambda: self._result_of(order, future)

    def begin_seek_preview(self, topic: str, channel: str, target: Target) -> Callable[[], SeekPreview]:
        return NodeMessages(self._node, self._cluster).begin_seek_preview(topic, channel, target)

    def _result_of(self, order: ActOrder, future: "Future[ActResult]") -> ActResult:
        if future.done() and not future.cancelled():
            return future.result()
        timeout_s = self._cluster.request_timeout_s * CALLS_OF_AN_ACT + 1
        try:
            with PACE.away():
                return future.result(timeout_s)
        except (TimeoutError, CancelledError):
            future.cancel()
            return _unknown(order, f"{self.name} gave no answer within {timeout_s:g} s")


class _Doing:
    """One act on a node, on the cluster's thread."""

    def __init__(self, node: Node, http: NodeHttp, order: ActOrder, cluster: Cluster) -> None:
        self._node = node
        self._http = http
        self._order = order
        self._cluster = cluster
        self._unconfirmed = ("", 0)  # a channel, and its messages that a request without an answer removes

    async def act(self) -> ActResult:
        verdict = UNKNOWN
        try:
            result = await self._result()
            verdict = result.verdict
            return result
        finally:
            channel, count = self._unconfirmed
            if count and verdict != DONE:
                self._note_emptied(channel, -count)
            if verdict != FAILED:
                self._cluster.read_soon(self._node.member.target)

    async def _result(self) -> ActResult:
        order = self._order
        if reason := why_node_can_not(self._node, order.action) or lacks_a_parameter(self._node, order):
            return self._failed(reason, "NOT_SUPPORTED")
        try:
            topic, before = await self._figures()
        except (HttpRefusedError, UnreachableError) as exc:
            return self._failed(str(exc), "UNREACHABLE")
        if before is None and not order.action.startswith("create_") and order.action != "publish":
            kind = "channel" if order.channel and topic is not None else "topic"
            return self._failed(f"{self._node.name} has no such {kind}", f"{kind.upper()}_NOT_FOUND")
        if complaint := self._complaint_about_counts(before):
            return self._failed(complaint, "COUNTS_CHANGED")
        try:
            requests = requests_of(order, before, self._node.info)
        except UnicodeDecodeError:
            return self._failed(f"its key is not UTF-8, and {self._node.name} takes no other by HTTP", "INVALID_KEY")
        bodies: list[bytes] = []
        try:
            for sent in requests:
                bodies.append(await self._emptied(before, *sent))
        except HttpRefusedError as exc:
            if exc.status in (500, 502, 504):
                # 502 and 504 are a proxy's: the node may still work on it.
                is_over = exc.status == 500 and not bodies
                return await self._read_back(before, f"{_so_far(bodies, requests)}{exc}", is_over=is_over)
            if bodies:
                return self._partly(bodies, f"{_so_far(bodies, requests)}{self._why_refused(exc)}")
            return self._refused(exc)
        except UnreachableError as exc:
            if exc.is_sent:
                return await self._read_back(before, f"{_so_far(bodies, requests)}{exc}")
            if bodies:
                return self._partly(bodies, f"{_so_far(bodies, requests)}{exc}")
            return self._failed(str(exc), "UNREACHABLE")
        return self._done(before, bodies)

    async def _figures(self) -> tuple[Held | None, Held | None]:
        """The topic's, and those of the act's object; None for one that the node lacks. Raises as `HttpJson.get`."""
        order = self._order
        query = {"format": "json", "include_clients": "false", "include_mem": "false", "topic": order.topic}
        document = await self._http.get_of_node(self._node.member.target, "/stats", query, purpose="act")
        if isinstance(document, dict) and document.get("topics", 0) is None:
            return None, None  # as nsqd answers for a topic that it lacks
        stats = node_stats_in(document)
        if stats is None:
            raise UnreachableError(f"{self._node.name} answered /stats with another document than an nsqd's")
        topic = stats.topics.get(order.topic)
        if topic is None:
            return None, None
        one = topic.channels.get(order.channel) if order.channel else topic
        return Held.of(topic), None if one is None else Held.of(one)

    def _complaint_about_counts(self, before: Held | None) -> str:
        """nsqd compares no counts: the figures of this moment stand in for it."""
        expected = self._order.details.get("expected")
        if expected is None or before is None or self._takes("expected"):
            return ""
        is_all = self._order.action == "delete_topic" or self._order.details.get("channels_too")
        count = (before.in_all if is_all else before).messages
        return now_and_then(count, expected) if has_grown(count, expected) else ""

    def _takes(self, parameter: str) -> bool:
        return self._node.info is not None and self._node.info.takes(path_of(self._order.action), parameter)

    async def _emptied(self, before: Held | None, path: str, query: Mapping[str, str], body: bytes) -> bytes:
        """As `_sent`, with a note of what it empties. The note comes first: a reading may overtake the answer."""
        if path == "/channel/empty" and before is not None:
            channel = query["channel"]
            count = (before if self._order.channel else before.in_channel(channel)).messages
            self._note_emptied(channel, count)
            self._unconfirmed = (channel, count)
        answer = await self._sent(path, query, body)
        self._unconfirmed = ("", 0)
        return answer

    def _note_emptied(self, channel: str, count: int) -> None:
        self._cluster.note_emptied(self._node.member.target, self._order.topic, channel, count)

    async def _sent(self, path: str, query: Mapping[str, str], body: bytes) -> bytes:
        try:
            user = self._order.asker.by
            return await self._http.post_to_node(self._node.member.target, path, query, body, user=user)
        except HttpRefusedError as exc:
            is_of_topic = path == "/channel/empty" and self._order.action == "empty_topic"
            if is_of_topic and exc.status == 404 and exc.word.endswith("_NOT_FOUND"):
                return b""  # the channel was deleted meanwhile, with its messages
            raise

    # Results.

    def _done(self, before: Held | None, bodies: Sequence[bytes]) -> ActResult:
        outcome = outcome_of(self._order, before, bodies)
        return ActResult(
            DONE,
            sentence_of(self._order.action, self._order.topic, self._order.channel, self._details(bodies), outcome),
            counts=outcome_counts(outcome),
            results=outcome.results,
            created=outcome.created,
            already=outcome.already,
        )

    def _details(self, bodies: Sequence[bytes]) -> Mapping[str, Any]:
        """Those that the node has done."""
        details = self._order.details
        if self._order.action == "rewind_channel":
            return {"target": Target(offset=number_in(bodies[0], "offset"))} if bodies else {}
        left_out = {keyword for name, keyword in _WITHOUT.items() if not self._takes(name)}
        return {name: value for name, value in details.items() if name not in left_out}

    def _failed(self, reason: str, code: str) -> ActResult:
        return ActResult(FAILED, f"Nothing was done to {_name_of(self._order)}: {reason}.", code)

    def _refused(self, refused: HttpRefusedError) -> ActResult:
        code = refused.word or f"HTTP_{refused.status}"
        if refused.status == 404 and refused.word == "NOT_FOUND":
            return self._failed(has_no_such_act(self._node), "NOT_SUPPORTED")
        return self._failed(self._why_refused(refused), code)

    def _why_refused(self, refused: HttpRefusedError) -> str:
        return f"{self._node.name} refused it: {refused.detail or refused.word or refused}"

    def _partly(self, bodies: Sequence[bytes], reason: str) -> ActResult:
        """A part was done, the rest was not. bodies: of the answers."""
        results = outcome_of(self._order, Held(), bodies).results
        return replace(_unknown(self._order, reason), results=results)

    async def _read_back(self, before: Held | None, reason: str, *, is_over: bool = False) -> ActResult:
        """No answer came, or one without a result. is_over: the node does not work on it any more."""
        is_shown = None
        with suppress(HttpRefusedError, UnreachableError):
            is_shown = self._is_shown((await self._figures())[1])
        if is_shown:
            done = self._done(before, ())
            sentence = f"{done.message} {self._node.name} did not confirm it ({reason}); its figures show it."
            return ActResult(DONE, sentence, counts=done.counts, created=done.created, already=done.already)
        if is_shown is None:
            return _unknown(self._order, reason)
        if is_over:
            return self._failed(f"{reason}; its figures do not show it", "INTERNAL_ERROR")
        return _unknown(self._order, f"{reason}; its figures do not show it so far")

    def _is_shown(self, now: Held | None) -> bool | None:
        """Whether the figures are as the act leaves them; None where they can't show it."""
        action = self._order.action
        if action.startswith("delete_"):
            return now is None
        if now is None:
            return False
        if action.startswith("create_"):
            return True
        if action.startswith("pause_"):
            return now.paused
        if action.startswith("unpause_"):
            return not now.paused
        if action.startswith("empty_"):
            # Others publish meanwhile: messages do not show that it was not done.
            return True if not (now.in_all if self._order.details.get("channels_too") else now).messages else None
        if action == "set_max_attempts":
            return bool(now.max_attempts == self._order.details["max_attempts"])
        return None


def _name_of(order: ActOrder) -> str:
    return f"{order.topic}/{order.channel}" if order.channel else order.topic


def _so_far(bodies: Sequence[bytes], requests: Sequence[object]) -> str:
    """The start of a reason: which part of an act of several requests was done."""
    if not bodies:
        return ""
    verb = "was" if len(bodies) == 1 else "were"
    return f"{len(bodies):,} of its {len(requests):,} requests {verb} done, then "


def _unknown(order: ActOrder, reason: str) -> ActResult:
    done = act_in_words(order.action)
    return ActResult(UNKNOWN, f"{done} of {_name_of(order)} may have been done: {reason}.", "OUTCOME_UNKNOWN")
