"""The messages of a channel at a remote Penstock, by its API: listed and read as those of this server are.

Nothing is consumed. A row that can't be right costs itself alone.
"""

import base64
import re
from collections.abc import Mapping
from concurrent.futures import CancelledError
from contextlib import suppress
from typing import Any

from admin_console.cluster.calls.node_http import NodeHttp
from admin_console.cluster.cluster import Cluster
from admin_console.cluster.reading.nodes import Node, NotCallingError
from admin_console.gateway.gateway import MessageQuery, MessageRow, MessageRows, OneMessage, ReadRefusedError
from admin_console.gateway.node_requests import why_node_can_not
from admin_console.pacing.pace import PACE
from queue_engine.client.http_json import HttpRefusedError, UnreachableError
from queue_engine.engine.messages.rows import STATES, Returned
from queue_engine.vocabulary.acts.table import ACTS, USES
from queue_engine.vocabulary.clock import NS_PER_MS

_TEXT_LENGTH_MAX = 1_000
_MESSAGE_ID = re.compile(r"[0-9a-f]{16}")
# Its own pages search.
_NOT_HERE = frozenset({"search_messages"})


class NodeMessages:
    """One remote node. Any thread; each call waits for the node's answer."""

    def __init__(self, node: Node, cluster: Cluster) -> None:
        self._node = node
        self._cluster = cluster

    @property
    def capabilities(self) -> frozenset[str]:
        """Names of ACTS and USES that the node has."""
        return frozenset(name for name in (*ACTS, *USES) if not why_node_can_not(self._node, name)) - _NOT_HERE

    def message_rows(self, topic: str, channel: str, query: MessageQuery) -> MessageRows:
        """As `Gateway.message_rows`."""
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
        }
        document = self._read("/channel/messages", topic, channel, fields)
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
        document = self._read("/channel/message", topic, channel, {"id": message_id, "offset": offset})
        found = document.get("message")
        row = _row(found)
        if row is None:
            raise ReadRefusedError(f"Nothing was read of {topic}: {self._node.name} answered with no message.")
        return OneMessage(topic, channel, _text(document, "storage"), row, _bytes(found, "body"))

    def _read(self, path: str, topic: str, channel: str, fields: Mapping[str, Any]) -> Mapping[str, Any]:
        query = {"topic": topic, "channel": channel}
        query |= {name: str(value) for name, value in fields.items() if value not in (None, "")}
        target, timeout_s = self._node.member.target, self._cluster.request_timeout_s + 1

        async def read(http: NodeHttp) -> Any:
            return await http.get_of_node(target, path, query, purpose="page")

        try:
            with PACE.away():
                document = self._cluster.call(read).result(timeout_s)
        except HttpRefusedError as exc:
            reason = f"{self._node.name} refused it: {exc.detail or exc.word or exc}"
            raise ReadRefusedError(f"Nothing was read of {topic}: {reason}.") from exc
        except (UnreachableError, NotCallingError, TimeoutError, CancelledError) as exc:
            reason = str(exc) or f"{self._node.name} did not answer in time"
            raise ReadRefusedError(f"Nothing was read of {topic}: {reason}.") from exc
        return document if isinstance(document, dict) else {}


def _text(fields: Any, name: str) -> str:
    value = fields.get(name)
    return value[:_TEXT_LENGTH_MAX] if isinstance(value, str) else ""


def _number(fields: Any, name: str) -> int | None:
    value = fields.get(name)
    return value if type(value) is int and abs(value) < 1 << 63 else None


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
