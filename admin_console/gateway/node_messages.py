"""The messages of a topic or channel at a remote Penstock, by its API: listed, read and searched as those of this
server are.

Nothing is consumed. A row that can't be right costs itself alone.
"""

import base64
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, CancelledError, Future, wait
from contextlib import suppress
from dataclasses import replace
from typing import Any, Generic, TypeVar

import orjson

from admin_console.cluster.calls.node_http import NodeHttp
from admin_console.cluster.cluster import Cluster
from admin_console.cluster.reading.node_info import MESSAGE_PATH, PREVIEW_PATH
from admin_console.cluster.reading.nodes import Node, NotCallingError
from admin_console.gateway.gateway import (
    KeyPage,
    MessagePage,
    MessageQuery,
    MessageRow,
    MessageRows,
    OneMessage,
    ReadMessage,
    ReadRefusedError,
    SearchHit,
    SearchState,
    SeekPreview,
    Target,
)
from admin_console.gateway.node_requests import has_no_such_act, why_node_can_not, why_node_previews_nothing
from admin_console.pacing.pace import PACE
from queue_engine.client.http_json import HttpRefusedError, UnreachableError
from queue_engine.engine.messages.rows import STATES, Returned
from queue_engine.vocabulary.acts.table import ACTS, USES
from queue_engine.vocabulary.clock import NS_PER_MS

_TEXT_LENGTH_MAX = 1_000
_MESSAGE_ID = re.compile(r"[0-9a-f]{16}")
_URL = re.compile(r"^https?://\S+")
_SEARCH_ID = re.compile(r"[-a-zA-Z0-9_]{1,40}")  # as it is a part of a page's path


T = TypeVar("T")
U = TypeVar("U")


class Pending(Generic[T]):
    """A read that has begun. Calling it waits for the answer; it raises ReadRefusedError."""

    def __init__(self, future: "Future[Any]", take: Callable[[], T]) -> None:
        self._future = future
        self._take = take

    @property
    def is_done(self) -> bool:
        return self._future.done()

    def wait(self, timeout_s: float) -> None:
        """At most so long."""
        with PACE.away():
            wait([self._future], timeout_s)

    def __call__(self) -> T:
        return self._take()

    def then(self, make: Callable[[T], U]) -> "Pending[U]":
        return Pending(self._future, lambda: make(self._take()))


def as_they_end(begun: Sequence[Pending[T]], timeout_s: float = 10.0) -> Iterator[int]:
    """The positions of reads, those that end first before the others. timeout_s: with none that ends, the next one's
    turn: calling it has a deadline of its own."""
    left = list(range(len(begun)))
    while left:
        with PACE.away():
            wait([begun[one]._future for one in left], timeout_s, FIRST_COMPLETED)
        ended = [one for one in left if begun[one].is_done] or left[:1]
        left = [one for one in left if one not in ended]
        yield from ended


class NodeMessages:
    """One remote node. Any thread; each call waits for the node's answer, unless it begins a read."""

    def __init__(self, node: Node, cluster: Cluster, user: str = "") -> None:
        """user: who reads, for the node's audit list; "" for reads that show no contents."""
        self._node = node
        self._cluster = cluster
        self._user = user

    @property
    def capabilities(self) -> frozenset[str]:
        """Names of ACTS and USES that the node has."""
        return frozenset(name for name in (*ACTS, *USES) if not why_node_can_not(self._node, name))

    def message_rows(self, topic: str, channel: str, query: MessageQuery) -> MessageRows:
        """As `Gateway.message_rows`, but for keys where no body is shown: the node audits those who see contents."""
        return self.begin_message_rows(topic, channel, query)()

    def begin_message_rows(self, topic: str, channel: str, query: MessageQuery) -> Pending[MessageRows]:
        fields: dict[str, Any] = {
            "state": query.state,
            "sort": query.sort,
            "after": query.after,
            "limit": query.limit,
            "first_offset": query.first_offset,
            "end_offset": query.end_offset,
            "since_ms": None if query.since_ns is None else query.since_ns // NS_PER_MS,
            "until_ms": None if query.until_ns is None else query.until_ns // NS_PER_MS,
            "attempts_min": query.attempts_min or None,
            "key": query.key.decode(errors="replace"),
            "preview_bytes": query.preview_bytes,
            "keys": "" if query.preview_bytes or query.key else "false",
        }
        begun = self._begun("/channel/messages", topic, channel, fields)
        return begun.then(lambda document: self._rows(topic, channel, query, document))

    def _rows(self, topic: str, channel: str, query: MessageQuery, document: Mapping[str, Any]) -> MessageRows:
        listed = document.get("messages")
        rows = [_row(one) for one in (listed if isinstance(listed, list) else ())]
        counts = document.get("counts")
        return MessageRows(
            topic,
            channel,
            _text(document, "storage"),
            query.state,
            tuple(row for row in rows if row is not None),
            {
                state: number if type(number) is int else None
                for state, number in (counts.items() if isinstance(counts, dict) else ())
                if state in STATES
            },
            _text(document, "next_cursor"),
            document.get("bounded") is True,
            _text(document, "note"),
        )

    def message(self, topic: str, channel: str, *, message_id: str = "", offset: int | None = None) -> OneMessage:
        """As `Gateway.message`."""
        return self.begin_message(topic, channel, {"id": message_id, "offset": offset})()

    def begin_message(
        self, topic: str, channel: str, wanted: Mapping[str, Any], *, with_contents: bool = True
    ) -> Pending[OneMessage]:
        """wanted: `id` or `offset`. with_contents: the node audits it as a look at the body. Older versions audit each
        read."""
        info = self._node.info
        fields = dict(wanted)
        if not with_contents and info is not None and info.takes(MESSAGE_PATH, "contents"):
            fields["contents"] = "false"

        def one(document: Mapping[str, Any]) -> OneMessage:
            found = document.get("message")
            row = _row(found)
            if row is None:
                raise _refused(f" of {topic}", f"{self._node.name} answered with no message")
            return OneMessage(topic, channel, _text(document, "storage"), row, _bytes(found, "body"))

        return self._begun(MESSAGE_PATH, topic, channel, fields).then(one)

    def messages(self, topic: str, channel: str, target: Target | None, count_max: int) -> MessagePage:
        """As `Gateway.messages`."""
        document = self._read("/topic/messages", topic, channel, {"limit": count_max, **_place(target)})
        return _page(topic, document, count_max)

    def find_key(self, topic: str, key: bytes, count_max: int, *, before: int | None = None) -> KeyPage:
        """As `Gateway.find_key`."""
        return self.begin_find_key(topic, key, count_max, before=before)()

    def begin_find_key(self, topic: str, key: bytes, count_max: int, *, before: int | None = None) -> Pending[KeyPage]:
        if reason := why_node_can_not(self._node, "find_key"):
            # It would answer with its oldest messages.
            raise _refused(f" of {topic}", reason)
        fields = {"key": key.decode(errors="replace"), "limit": count_max, "before": before}

        def found(document: Mapping[str, Any]) -> KeyPage:
            page = _page(topic, document, count_max)
            upto, not_indexed = _count(document, "indexed_upto"), _count(document, "not_indexed_count")
            return KeyPage(page, _number(document, "next_before"), upto, not_indexed)

        return self._begun("/topic/messages", topic, "", fields).then(found)

    def begin_seek_preview(self, topic: str, channel: str, target: Target) -> Pending[SeekPreview]:
        """As `Gateway.seek_preview`."""
        if reason := why_node_previews_nothing(self._node):
            raise _refused(f" of {topic}", reason)

        def preview(document: Mapping[str, Any]) -> SeekPreview:
            names = ("offset", "next_offset", "oldest_offset", "end_offset", "depth", "depth_now")
            found = {name: number for name in names if (number := _number(document, name)) is not None and number >= 0}
            if len(found) < len(names):
                raise _refused(f" of {topic}", f"{self._node.name} answered with no preview")
            return SeekPreview(**found)

        return self._begun(PREVIEW_PATH, topic, channel, _place(target, word="to")).then(preview)

    def start_search(
        self,
        topic: str,
        channel: str,
        text: str,
        *,
        state: str = "",
        first_offset: int | None = None,
        end_offset: int | None = None,
        user: str = "",
    ) -> SearchState:
        """As `Gateway.start_search`; all users of this console share the searches of its token."""
        fields = {"text": text, "state": state, "first_offset": first_offset, "end_offset": end_offset}
        return self._searched("/channel/search", topic, {"channel": channel, **fields}, is_post=True)

    def search_state(self, search_id: str) -> SearchState:
        """As `Gateway.search_state`."""
        return self._searched("/channel/search/state", "", {"search": search_id})

    def cancel_search(self, search_id: str) -> SearchState:
        """As `Gateway.cancel_search`."""
        return self._searched("/channel/search/cancel", "", {"search": search_id}, is_post=True)

    def _searched(self, path: str, topic: str, fields: Mapping[str, Any], *, is_post: bool = False) -> SearchState:
        found = _search(self._begun(path, topic, "", fields, is_post=is_post)())
        if found is None:
            raise _refused("", f"{self._node.name} answered with no search")
        return found

    def _read(self, path: str, topic: str, channel: str, fields: Mapping[str, Any]) -> Mapping[str, Any]:
        return self._begun(path, topic, channel, fields)()

    def _begun(
        self, path: str, topic: str, channel: str, fields: Mapping[str, Any], *, is_post: bool = False
    ) -> Pending[Mapping[str, Any]]:
        query = {"topic": topic, "channel": channel, **fields}
        sent = {name: str(value) for name, value in query.items() if value not in (None, "")}
        target = self._node.member.target

        async def read(http: NodeHttp) -> Any:
            if is_post:
                return orjson.loads(await http.post_to_node(target, path, sent, user=self._user))
            return await http.get_of_node(target, path, sent, purpose="page", user=self._user)

        of = f" of {topic}" if topic else ""
        try:
            future = self._cluster.call(read)
        except NotCallingError as exc:
            raise _refused(of, str(exc).removesuffix(".")) from exc
        return Pending(future, lambda: self._answer(future, of))

    def _answer(self, future: "Future[Any]", of: str) -> Mapping[str, Any]:
        try:
            if future.done() and not future.cancelled():
                document = future.result()
            else:
                with PACE.away():
                    document = future.result(self._cluster.request_timeout_s + 1)
        except HttpRefusedError as exc:
            refused = f"{self._node.name} refused it: {exc.detail or exc.word or f'status {exc.status}'}"
            is_unknown = (exc.status, exc.word) == (404, "NOT_FOUND")
            raise _refused(of, has_no_such_act(self._node) if is_unknown else refused) from exc
        except orjson.JSONDecodeError as exc:
            raise _refused(of, f"{self._node.name} answered with no JSON") from exc
        except (UnreachableError, TimeoutError, CancelledError) as exc:
            future.cancel()
            # Nodes that fail alike are one sentence: each one's URL would be another reason.
            reason = _URL.sub(self._node.name, str(exc)) or f"{self._node.name} did not answer in time"
            raise _refused(of, reason) from exc
        return document if isinstance(document, dict) else {}


def _refused(of: str, reason: str) -> ReadRefusedError:
    return ReadRefusedError(f"Nothing was read{of}: {reason}.", reason)


def _place(target: Target | None, *, word: str = "from") -> dict[str, Any]:
    if target is None:
        return {}
    time_ms = None if target.time_ns is None else target.time_ns // NS_PER_MS
    return {word: target.word, "offset": target.offset, "time_ms": time_ms}


def _text(fields: Any, name: str) -> str:
    value = fields.get(name) if isinstance(fields, dict) else None
    return value[:_TEXT_LENGTH_MAX] if isinstance(value, str) else ""


def _number(fields: Any, name: str) -> int | None:
    value = fields.get(name) if isinstance(fields, dict) else None
    return value if type(value) is int and abs(value) < 1 << 63 else None


def _count(fields: Any, name: str) -> int:
    return max(0, _number(fields, name) or 0)


def _bytes(fields: Any, name: str) -> bytes:
    """The field where it is UTF-8, otherwise NAME_base64."""
    value, encoded = fields.get(name), fields.get(f"{name}_base64")
    if isinstance(value, str):
        return value.encode()
    with suppress(ValueError):
        return base64.b64decode(encoded, validate=True) if isinstance(encoded, str) else b""
    return b""


def _row(fields: Any) -> MessageRow | None:
    if (
        not isinstance(fields, dict)
        or fields.get("state") not in STATES
        or not _MESSAGE_ID.fullmatch(_text(fields, "id"))
    ):
        return None
    history = fields.get("history")
    return MessageRow(
        state=fields["state"],
        message_id=fields["id"],
        offset=_number(fields, "offset"),
        attempts=_number(fields, "attempts") or 0,
        published_at_ns=_number(fields, "timestamp"),
        body_bytes=_number(fields, "body_bytes"),
        key=_bytes(fields, "key"),
        body_start=_bytes(fields, "body"),
        client_key=_number(fields, "client_key"),
        client_id=_text(fields, "client_id"),
        client_address=_text(fields, "client_address"),
        deadline_ms=_number(fields, "deadline_ms"),
        held_ms=_number(fields, "held_ms"),
        touches=_number(fields, "touches") or 0,
        due_at_ns=_number(fields, "due"),
        quarantined_at_ns=_number(fields, "quarantined_at"),
        reason=_text(fields, "reason"),
        history=tuple(
            Returned(_number(one, "time") or 0, _text(one, "reason"), _text(one, "consumer"))
            for one in (history if isinstance(history, list) else ())
            if isinstance(one, dict)
        ),
        problem=_text(fields, "problem"),
    )


def _page(topic: str, document: Mapping[str, Any], count_max: int) -> MessagePage:
    listed = document.get("messages")
    found = [_published(one) for one in (listed if isinstance(listed, list) else ())]
    messages = tuple(one for one in found if one is not None)
    page = MessagePage(
        topic,
        topic_number=_count(document, "number"),
        id_base=_count(document, "id_base"),
        oldest_offset=_count(document, "oldest_offset"),
        end_offset=_count(document, "end_offset"),
        next_offset=_count(document, "next_offset"),
        messages=messages,
        damaged_count=_count(document, "damaged_count"),
    )
    earlier = _number(document, "earlier_offset")
    if earlier is None:
        # Older versions leave it out: where their log has a gap, the page has fewer messages.
        first = messages[0].offset if messages else page.end_offset
        earlier = max(page.oldest_offset, first - count_max)
    return replace(page, earlier_offset=max(0, earlier))


def _published(fields: Any) -> ReadMessage | None:
    offset, time_ns = _number(fields, "offset"), _number(fields, "timestamp")
    if offset is None or offset < 0 or time_ns is None or not _MESSAGE_ID.fullmatch(_text(fields, "id")):
        return None
    due_ns = _number(fields, "due") or 0
    return ReadMessage(offset, fields["id"], time_ns, due_ns, _bytes(fields, "body"), _bytes(fields, "key"))


def _search(document: Mapping[str, Any]) -> SearchState | None:
    search_id = _text(document, "search")
    if not _SEARCH_ID.fullmatch(search_id):
        return None
    listed = document.get("hits")
    hits = [_hit(one) for one in (listed if isinstance(listed, list) else ())]
    return SearchState(
        search_id,
        _text(document, "topic"),
        _text(document, "channel"),
        _text(document, "text"),
        _text(document, "state"),
        _text(document, "status"),
        first_offset=_count(document, "first_offset"),
        next_offset=_count(document, "next_offset"),
        end_offset=_count(document, "end_offset"),
        message_count=_count(document, "message_count"),
        message_total=_count(document, "message_total"),
        scanned_bytes=_count(document, "scanned_bytes"),
        hits=tuple(hit for hit in hits if hit is not None),
        problem=_text(document, "problem"),
    )


def _hit(fields: Any) -> SearchHit | None:
    row = _row(fields.get("message")) if isinstance(fields, dict) else None
    return None if row is None else SearchHit(row, _number(fields, "at") or 0, _bytes(fields, "around"))
