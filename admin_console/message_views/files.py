"""Bodies as files: one as it is, or a selection as NDJSON. Each is a look, audited before anything is sent."""

import base64
import json
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_POST, require_safe

from admin_console.answers.refusal import refusal
from admin_console.audit.record import NotAuditedError
from admin_console.gateway.gateway import OneMessage, ReadRefusedError
from admin_console.message_views.lists import not_audited, note_look, read_one
from admin_console.message_views.sources import channel_of
from admin_console.messages.channel_snapshot import ChannelSnapshot
from admin_console.messages.lines import utc
from admin_console.messages.message_filter import is_message_id, is_offset
from admin_console.permissions.allowed import CheckedRequest

FILE_MESSAGES_MAX = 100
FILE_BYTES_MAX = 64 << 20  # of bodies in one file


class _BadFileError(Exception):
    """The file that is wanted can't be made; the text is a sentence."""


@require_safe
def message_body(request: CheckedRequest, topic: str, channel: str, message: str) -> HttpResponse:
    """The body of one message, byte for byte."""
    return _answer(request, topic, channel, [message], is_list=False)


@require_POST
def message_file(request: CheckedRequest, topic: str, channel: str) -> HttpResponse:
    """The messages of `id`, one or several, as NDJSON: a JSON object a line. The form of the list posts them."""
    return _answer(request, topic, channel, list(dict.fromkeys(request.POST.getlist("id"))), is_list=True)


def _answer(request: CheckedRequest, topic: str, channel: str, wanted: list[str], *, is_list: bool) -> HttpResponse:
    try:
        snapshot = channel_of(request, topic, channel)
    except ReadRefusedError as exc:
        return refusal(request, str(exc), status=409)
    if snapshot is None:
        return refusal(request, f"There is no channel {topic}/{channel}.", status=404)
    if not wanted:
        return refusal(request, "Select the messages first: none is named.", status=400)
    try:
        found = _read(snapshot, wanted)
        detail = "" if is_list else f"message {found[0].row.message_id}, its file"
        note_look(request, snapshot, [one.row for one in found], detail=detail or f"a file of {len(found)}")
    except ReadRefusedError as exc:
        return refusal(request, str(exc), status=404)
    except _BadFileError as exc:
        return refusal(request, str(exc), status=400)
    except NotAuditedError as exc:
        return not_audited(request, exc)
    if is_list:
        lines = "".join(json.dumps(_as_json(one), ensure_ascii=True) + "\n" for one in found)
        return _file(request, lines.encode(), "application/x-ndjson", f"{topic}-{channel}-messages.ndjson")
    return _file(request, found[0].body, "application/octet-stream", f"{topic}-{found[0].row.message_id}.bin")


def _read(snapshot: ChannelSnapshot, wanted: list[str]) -> list[OneMessage]:
    """Raises ReadRefusedError, _BadFileError."""
    for one in wanted:
        if not is_message_id(one) and not is_offset(one):
            raise _BadFileError(f"{one[:40]!r} is neither a message id of 16 hex digits nor an offset.")
    if len(wanted) > FILE_MESSAGES_MAX:
        raise _BadFileError(f"{len(wanted)} messages are too many for one file: it has {FILE_MESSAGES_MAX} at most.")
    found, size = [], 0
    for one in wanted:
        found.append(read_one(snapshot, one))
        size += len(found[-1].body)
        if size > FILE_BYTES_MAX:
            raise _BadFileError(
                f"The bodies of these {len(wanted)} messages have more than {FILE_BYTES_MAX >> 20} MiB: select fewer."
            )
    return found


def _as_json(one: OneMessage) -> dict[str, Any]:
    """A body that is no UTF-8 is `body_base64` instead of `body`; so are keys."""
    row = one.row
    fields: dict[str, Any] = {
        "topic": one.topic,
        "channel": one.channel,
        "id": row.message_id,
        "offset": row.offset,
        "state": row.state,
        "attempts": row.attempts,
        "published_at": None if row.published_at_ns is None else f"{utc(row.published_at_ns).replace(' ', 'T')}Z",
    }
    for name, value in (("key", row.key), ("body", one.body)):
        try:
            fields[name] = value.decode()
        except UnicodeDecodeError:
            fields[f"{name}_base64"] = base64.b64encode(value).decode()
    return fields


def _file(request: HttpRequest, content: bytes, kind: str, name: str) -> HttpResponse:
    answer = HttpResponse(content, content_type=kind)
    # Names of topics and channels have no sign that a header gives a meaning, but for the # of ephemeral ones.
    answer["Content-Disposition"] = f'attachment; filename="{name.replace("#", "-")}"'
    return answer
