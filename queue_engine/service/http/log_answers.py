"""Makes the answers about topics of the log: messages, frames, records and leases."""

import base64
from dataclasses import asdict
from typing import Any

import orjson

from queue_engine.delivery.stats import Outcome
from queue_engine.engine.acts.log_acts import SeekPreview
from queue_engine.service.http.exchange.response import Response
from queue_engine.service.http.reference.content_types import BINARY, JSON
from queue_engine.storage.fetch.key_search import KeyPage
from queue_engine.storage.fetch.log_leases import Lease
from queue_engine.storage.fetch.log_reader import Frames, MessagePage
from queue_engine.storage.fetch.record_reader import Records
from queue_engine.wire.lease import LeasedFiles
from queue_engine.wire.records import page_headers


def page_response(page: MessagePage) -> Response:
    return Response(200, orjson.dumps({**_fields(page), "earlier_offset": page.earlier_offset}), JSON)


def key_response(found: KeyPage) -> Response:
    of_index = {
        "next_before": found.next_before,
        "indexed_upto": found.indexed_upto,
        "not_indexed_count": found.not_indexed_count,
    }
    return Response(200, orjson.dumps({**_fields(found.page), **of_index}), JSON)


def _fields(page: MessagePage) -> dict[str, Any]:
    return {
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
                **text_of("body", one.body),
                **(text_of("key", one.key) if one.key else {}),
            }
            for one in page.messages
        ],
    }


def text_of(name: str, data: bytes) -> dict[str, Any]:
    """The field `name` where the bytes are UTF-8, otherwise `name`_base64."""
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


def preview_response(preview: SeekPreview) -> Response:
    return Response(200, orjson.dumps(asdict(preview)), JSON)


def seek_response(preview: SeekPreview, done: Outcome) -> Response:
    return Response(
        200,
        orjson.dumps(
            {
                "offset": preview.offset,
                "oldest_offset": preview.oldest_offset,
                "end_offset": preview.end_offset,
                "depth": done.depth + done.deferred,
            }
        ),
        JSON,
    )
