"""The HTTP API's answers on topics of the log: messages to look at, bulk reads, and the places that queries name.

    GET  /topic/messages?topic=T[&channel=C | &offset=N | &time_ms=MS][&limit=N]     JSON; consumes nothing
    GET  /log/read?topic=T&offset=N[&max_bytes=N]                               binary: frames as consumers get them
    GET  /log/records?topic=T&offset=N[&max_bytes=N]                            binary: records as the log has them
    GET  /log/topic?topic=T[&time_ms=MS][&offset=N]     JSON: which topic, how far it goes, which offsets have messages
    POST /log/lease?topic=T&offset=N[&ttl_ms=MS][&segments=N]                   JSON: files, and what they hold
    POST /log/lease?lease=L[&offset=N][&ttl_ms=MS][&segments=N]                 keeps it longer, moves it
    POST /log/renew[?ttl_ms=MS], names of leases as body, one a line            keeps all of them longer, or none
    POST /log/release?lease=L                                                   gives it back
    POST /channel/seek?topic=T&channel=C&offset=N | &time_ms=MS | &to=start|end      rewinds the channel
    POST /channel/create?topic=T&channel=C&start=start|end | &start_time_ms=MS | &start_offset=N

Who may ask for them is said in `rules.py`.
"""

import base64
import re
from typing import Any

import orjson

from queue_engine.fetch.log_leases import Lease
from queue_engine.fetch.log_reader import Frames, MessagePage
from queue_engine.fetch.record_reader import Records
from queue_engine.log_acts import (
    END,
    LEASE_SEGMENTS_MAX,
    LEASE_TTL_MS_MAX,
    LEASE_TTL_MS_MIN,
    READ_BYTES_MAX,
    READ_MESSAGES_MAX,
    READ_RECORDS_BYTES,
    START,
    SeekPreview,
    Target,
)
from queue_engine.readers.leases import LEASES_MAX, NAME_BYTES_MAX
from queue_engine.service.http.connection import JSON, Response
from queue_engine.vocabulary.clock import NS_PER_MS
from queue_engine.wire.lease import LeasedFiles, read_lease_names
from queue_engine.wire.records import page_headers

DEFAULT_LIMIT = 10
DEFAULT_LEASE_TTL_MS = 60_000
TIME_MS_MAX = 1 << 43
OFFSET_MAX = (1 << 62) - 1
BINARY = "application/octet-stream"
_WHOLE_NUMBER = re.compile(r"[0-9]{1,19}\Z")


class QueryError(ValueError):
    """A parameter that is missing or wrong; the text names it, its value and what it can be."""


def whole_number(query: dict[str, str], name: str, default: int | None, most: int) -> int:
    """A parameter from 0 to `most`. Raises QueryError."""
    text = query.get(name)
    if text is None and default is not None:
        return default
    if text is None:
        raise QueryError(f"{name} is missing")
    if not _WHOLE_NUMBER.match(text) or int(text) > most:
        raise QueryError(f"{name}={text} is not a whole number from 0 to {most}")
    return int(text)


def target_of(query: dict[str, str], *, offset: str, time_ms: str, word: str) -> Target | None:
    """The place that a query names by one of three parameters; None when by none. Raises QueryError."""
    given = [name for name in (offset, time_ms, word) if name in query]
    if len(given) > 1:
        raise QueryError(f"{' and '.join(given)} name two places: give one")
    if not given:
        return None
    if given == [word]:
        if query[word] not in (START, END):
            raise QueryError(f"{word}={query[word]} can be {START} or {END}")
        return Target(word=query[word])
    if given == [offset]:
        return Target(offset=whole_number(query, offset, None, OFFSET_MAX))
    return Target(time_ns=whole_number(query, time_ms, None, TIME_MS_MAX) * NS_PER_MS)


def limit_of(query: dict[str, str]) -> int:
    return whole_number(query, "limit", DEFAULT_LIMIT, READ_MESSAGES_MAX)


def bytes_of(query: dict[str, str]) -> int:
    return whole_number(query, "max_bytes", 1 << 20, READ_BYTES_MAX)


def records_bytes_of(query: dict[str, str]) -> int:
    return whole_number(query, "max_bytes", READ_RECORDS_BYTES, READ_BYTES_MAX)


def time_of(query: dict[str, str]) -> int | None:
    """`time_ms` as Unix ns; None without it. Raises QueryError."""
    return whole_number(query, "time_ms", None, TIME_MS_MAX) * NS_PER_MS if "time_ms" in query else None


def ttl_of(query: dict[str, str]) -> int:
    ttl_ms = whole_number(query, "ttl_ms", DEFAULT_LEASE_TTL_MS, LEASE_TTL_MS_MAX)
    if ttl_ms < LEASE_TTL_MS_MIN:
        raise QueryError(f"ttl_ms={ttl_ms} is not a whole number from {LEASE_TTL_MS_MIN} to {LEASE_TTL_MS_MAX}")
    return ttl_ms


def leases_of(body: bytes) -> list[str]:
    """The names that a body tells, one a line."""
    names = read_lease_names(body)
    if not names:
        raise QueryError("the body names no lease; it tells one a line")
    if len(names) > LEASES_MAX:
        raise QueryError(f"the body names {len(names)} leases, more than {LEASES_MAX}")
    for name in names:
        if len(name) > NAME_BYTES_MAX:
            raise QueryError(f"lease {name[:20]}… has {len(name)} characters, more than {NAME_BYTES_MAX}")
    return names


def segments_of(query: dict[str, str]) -> int:
    return whole_number(query, "segments", LEASE_SEGMENTS_MAX, LEASE_SEGMENTS_MAX)


def page_response(page: MessagePage) -> Response:
    return Response(
        200,
        orjson.dumps(
            {
                "topic": page.topic,
                "number": page.topic_number,
                "id_base": page.id_base,
                "oldest_offset": page.oldest_offset,
                "end_offset": page.end_offset,
                "next_offset": page.next_offset,
                "damaged_count": page.damaged_count,
                "messages": [
                    {
                        "offset": one.offset,
                        "id": one.message_id,
                        "timestamp": one.time_ns,
                        "due": one.due_ns or None,
                        **_text("body", one.body),
                        **(_text("key", one.key) if one.key else {}),
                    }
                    for one in page.messages
                ],
            }
        ),
        JSON,
    )


def _text(name: str, data: bytes) -> dict[str, Any]:
    try:
        return {name: data.decode()}
    except UnicodeDecodeError:
        return {f"{name}_base64": base64.b64encode(data).decode()}


def frames_response(frames: Frames) -> Response:
    headers = page_headers(
        number=frames.topic_number,
        id_base=frames.id_base,
        first_offset=frames.first_offset,
        next_offset=frames.next_offset,
        synced_offset=frames.synced_offset,
        count=frames.count,
    )
    return Response(200, frames.frames, BINARY, headers=headers)


def records_response(records: Records) -> Response:
    headers = page_headers(
        number=records.topic_number,
        id_base=records.id_base,
        oldest_offset=records.oldest_offset,
        first_offset=records.first_offset,
        next_offset=records.next_offset,
        synced_offset=records.synced_offset,
        count=records.count,
    )
    return Response(200, records.records, BINARY, headers=headers)


def lease_response(lease: Lease) -> Response:
    files = LeasedFiles(
        lease=lease.reader.name,
        expires_ms=lease.reader.expires_ms,
        topic=lease.topic,
        number=lease.reader.topic_number,
        id_base=lease.id_base,
        oldest_offset=lease.oldest_offset,
        first_offset=lease.first_offset,
        next_offset=lease.next_offset,
        end_offset=lease.end_offset,
        segments=lease.segments,
    )
    return Response(200, files.encoded(), JSON)


def seek_response(preview: SeekPreview) -> Response:
    return Response(
        200,
        orjson.dumps(
            {
                "offset": preview.offset,
                "oldest_offset": preview.oldest_offset,
                "end_offset": preview.end_offset,
                "depth": preview.depth,
            }
        ),
        JSON,
    )
