"""JSON schemas of answers. A dataclass that is encoded as it is makes its own schema."""

import types
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any, Union, get_args, get_origin, get_type_hints

from queue_engine.wire.cursor import CursorStats
from queue_engine.wire.lease import LeasedFiles
from queue_engine.wire.topic_state import TopicState
from queue_engine.wire.trash import TrashStats

Schema = Mapping[str, Any]

TEXT: Schema = {"type": "string"}
COUNT: Schema = {"type": "integer", "minimum": 0}
NUMBER: Schema = {"type": "integer"}
YES_OR_NO: Schema = {"type": "boolean"}


def nullable(schema: Schema) -> Schema:
    return {**schema, "type": [schema["type"], "null"]}


def array(items: Schema) -> Schema:
    return {"type": "array", "items": items}


def ref(name: str) -> Schema:
    """A schema of the document's components."""
    return {"$ref": f"#/components/schemas/{name}"}


def record(properties: Mapping[str, Schema], *, optional: tuple[str, ...] = (), text: str = "") -> Schema:
    """An object with these properties and no other. optional: those that it may lack."""
    schema = {
        "type": "object",
        "properties": dict(properties),
        "required": [name for name in properties if name not in optional],
        "additionalProperties": False,
    }
    return {**schema, "description": text} if text else schema


def record_of(kind: type, *, only: tuple[str, ...] = (), optional: tuple[str, ...] = (), text: str = "") -> Schema:
    """The object that a dataclass is encoded as. only: the fields of it, () for all."""
    hints = get_type_hints(kind)
    names = [one.name for one in fields(kind) if not only or one.name in only]
    return record({name: _schema_of(hints[name]) for name in names}, optional=optional, text=text)


def _schema_of(hint: Any) -> Schema:
    if hint in _PLAIN:
        return _PLAIN[hint]
    if isinstance(hint, type) and is_dataclass(hint):
        return record_of(hint)
    arguments = get_args(hint)
    if get_origin(hint) in (Union, types.UnionType):
        return nullable(_schema_of(next(one for one in arguments if one is not type(None))))
    assert get_origin(hint) is tuple, hint
    if arguments[-1] is Ellipsis:
        return array(_schema_of(arguments[0]))
    prefix = [_schema_of(one) for one in arguments]
    return {"type": "array", "prefixItems": prefix, "minItems": len(prefix), "maxItems": len(prefix)}


_PLAIN: dict[Any, Schema] = {str: TEXT, int: NUMBER, bool: YES_OR_NO}

NSQD_ERROR = record({"message": TEXT}, text="message: the error's word.")

ERROR = record(
    {"message": TEXT, "detail": TEXT, "code": TEXT},
    optional=("detail", "code"),
    text="message: the error's word. detail: a sentence for people. code: a finer word.",
)

INFO = record(
    {
        "version": TEXT,
        "broadcast_address": TEXT,
        "hostname": TEXT,
        "http_port": COUNT,
        "tcp_port": COUNT,
        "start_time": COUNT,
        "max_heartbeat_interval": COUNT,
        "max_output_buffer_size": COUNT,
        "max_output_buffer_timeout": COUNT,
        "max_deflate_level": COUNT,
        "topology_zone": TEXT,
        "topology_region": TEXT,
    },
    text="start_time: Unix seconds. Intervals and timeouts: nanoseconds. max_output_buffer_size: bytes.",
)

CURSOR = record_of(
    CursorStats,
    text=(
        "A pipeline cursor. offset: everything before it is passed. depth: messages that are not passed. lag_bytes: of "
        "the log that it holds. lake: the identity of the lake that its reader writes to. maker: who "
        "created it. expires_ms: when it ends unless it is moved, 0 for never. Times are Unix milliseconds."
    ),
)
_CURSOR_PROPERTIES: Mapping[str, Schema] = CURSOR["properties"]
CREATED_CURSOR = record({**_CURSOR_PROPERTIES, "created": YES_OR_NO}, text="A cursor, and whether it is new.")
DELETED_CURSOR = record(
    {"given_up": COUNT, "first_offset": COUNT, "next_offset": COUNT},
    text="The messages that the cursor had not passed: their count, and the range of their offsets.",
)
ENDED_CURSOR = record(
    {
        "cursor": TEXT,
        "topic": TEXT,
        "number": COUNT,
        "id_base": COUNT,
        "first_offset": COUNT,
        "next_offset": nullable(COUNT),
        "reason": TEXT,
        "at_ms": COUNT,
        "created_ms": COUNT,
        "maker": TEXT,
        "gaps": _CURSOR_PROPERTIES["gaps"],
    },
    text="A cursor that was deleted, and the range of the offsets that it had not passed (null: its end is unknown).",
)
CURSOR_LIST = record(
    {"cursors": array(ref("Cursor")), "ended": array(ref("EndedCursor")), "server": TEXT},
    text="server: the identity of the data directory.",
)

TOPIC_STATE = record_of(
    TopicState,
    optional=("time_offset",),
    text=(
        "number and id_base: the topic's identity. synced_offset: the offset up to which messages are certain to be on "
        "the disk. ranges: the offsets that have messages, each as first and next, complete up to ranges_end. "
        "time_offset: the offset of time_ms, if the request has it."
    ),
)
LEASED_FILES = record_of(
    LeasedFiles,
    text=(
        "A lease. expires_ms: Unix milliseconds. segments: complete files with the topic's messages from first_offset "
        "to next_offset, the latter excluded; first_byte and end_byte are positions in the file."
    ),
)
WRITTEN_BATCH = record(
    {"topic": TEXT, "number": COUNT, "id_base": COUNT, "first_offset": COUNT, "count": COUNT, "known": YES_OR_NO},
    text="The place of the batch. known: an earlier request with the same key and content has written it.",
)
MESSAGE = record(
    {
        "offset": COUNT,
        "id": TEXT,
        "timestamp": COUNT,
        "due": nullable(COUNT),
        "body": TEXT,
        "body_base64": TEXT,
        "key": TEXT,
        "key_base64": TEXT,
    },
    optional=("body", "body_base64", "key", "key_base64"),
    text=(
        "timestamp: of publishing, Unix nanoseconds. due: until when it was deferred, null for not. body, or "
        "body_base64 where it is not UTF-8; so the key, if there is one."
    ),
)
MESSAGE_PAGE = record(
    {
        "topic": TEXT,
        "number": COUNT,
        "id_base": COUNT,
        "oldest_offset": COUNT,
        "end_offset": COUNT,
        "next_offset": COUNT,
        "earlier_offset": COUNT,
        "damaged_count": COUNT,
        "messages": array(ref("Message")),
        "next_before": nullable(COUNT),
        "indexed_upto": COUNT,
        "not_indexed_count": COUNT,
    },
    optional=("earlier_offset", "next_before", "indexed_upto", "not_indexed_count"),
    text=(
        "next_offset: where the next page begins; earlier_offset, without key: where a page of as many messages before "
        "this one does. damaged_count: messages left out, because their bodies are lost. "
        "With key: next_before, where the next page begins, null at the end; indexed_upto: the index has all messages "
        "before this offset; not_indexed_count: messages from there on that it does not have yet, 0 when it is "
        "complete."
    ),
)
SEEK = record(
    {"offset": COUNT, "oldest_offset": COUNT, "end_offset": COUNT, "depth": COUNT},
    text="offset: where the channel goes on. depth: the messages that it delivers from there on.",
)
SEEK_PREVIEW = record(
    dict.fromkeys(("offset", "next_offset", "oldest_offset", "end_offset", "depth", "depth_now"), COUNT),
    text=(
        "offset: where the channel would go on; next_offset: from there on it has neither delivered nor "
        "finished a message. depth: the messages from offset on; depth_now: those that wait, are deferred or in flight "
        "now."
    ),
)

TRASH = record(
    {"entries": array(ref("TrashEntry")), "bytes": COUNT},
    text="bytes: of the log that would be removed if the trash were empty, whole segments only.",
)
TRASH_ENTRY = record_of(
    TrashStats,
    text=(
        "The topic or channel that one act removed. channel: empty for a topic. waiting, in_flight, deferred, "
        "quarantined: messages at the act. restorable: messages that a restore brings back now. bytes: of the segments "
        "of the log that would stay for this entry alone; a segment that two entries need counts for both, and one "
        "that a channel, a cursor, a lease or the retention needs anyway for none. Times are Unix milliseconds."
    ),
)
TRASH_ACT = record(
    {"name": TEXT, "waiting": COUNT, "deferred": COUNT, "quarantined": COUNT, "channels": COUNT},
    text="name: of the topic or channel, as it is now. Messages and channels that the act concerned.",
)
