"""Shows messages without consuming them: a range of a topic, or a channel's next ones. Every look is audited."""

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_safe

from admin_console.answers.refusal import refusal
from admin_console.audit.models import Verdict
from admin_console.audit.record import NotAuditedError, record_look, require_room
from admin_console.gateway.gateway import MessagePage, ReadMessage, ReadRefusedError, Target, get_gateway
from admin_console.gateway.sentences import counted

PAGE_MESSAGES = 20
SHOWN_BYTES_MAX = 4_096
FORMS = ("auto", "text", "json", "hex")
HEX_LINE_BYTES = 16
OFFSET_DIGITS_MAX = 18


@dataclass(frozen=True, slots=True)
class Line:
    """One message as the page shows it."""

    offset: int
    message_id: str
    published_at: str
    due_at: str
    size: str
    form: str
    body: str
    cut: str


def is_offset(text: str) -> bool:
    """Whether it is a whole number from 0, in ASCII: `isdigit` alone takes "²", too, which is none."""
    return text.isascii() and text.isdigit() and len(text) <= OFFSET_DIGITS_MAX


@require_safe
def topic_messages(request: HttpRequest, topic: str) -> HttpResponse:
    """`?offset=` or `?at=` (UTC): a page from there on; without either the newest."""
    offset_text, at_text = _asked(request, "offset"), _asked(request, "at")
    complaint = ""
    target: Target | None = None
    if offset_text:
        if is_offset(offset_text):
            target = Target(offset=int(offset_text))
        else:
            complaint = f"{offset_text!r} is not an offset: a whole number from 0."
    elif at_text:
        try:
            target = Target(time_ns=time_ns_of(at_text))
        except ValueError as exc:
            complaint = str(exc)
    return _answer(request, topic, "", target, complaint)


@require_safe
def channel_messages(request: HttpRequest, topic: str, channel: str) -> HttpResponse:
    """The next messages of a channel."""
    return _answer(request, topic, channel, None, "")


def _asked(request: HttpRequest, name: str) -> str:
    return request.GET.get(name, "").strip()[:40]


def time_ns_of(text: str) -> int:
    """Unix ns of an ISO date and time; UTC unless it says otherwise. Raises ValueError with a sentence."""
    try:
        at = datetime.fromisoformat(text)
    except ValueError as exc:
        raise ValueError(f"{text!r} is not a time such as 2026-03-01T14:30 (UTC).") from exc
    return int(at.replace(tzinfo=at.tzinfo or UTC).timestamp() * 1_000) * 1_000_000


def _answer(request: HttpRequest, topic: str, channel: str, target: Target | None, complaint: str) -> HttpResponse:
    # The look is in the audit list before any message is shown.
    record = partial(
        record_look, request, "read_messages", topic=topic, channel=channel, detail=request.GET.urlencode()[:120]
    )
    try:
        require_room()
        try:
            page = _page_of(topic, channel, target)
        except ReadRefusedError as exc:
            record(verdict=Verdict.FAILED, message=str(exc))
            return refusal(request, str(exc), status=409)
        offsets = [message.offset for message in page.messages]
        counts = {"messages": len(offsets)}
        if offsets:
            counts |= {"first_offset": min(offsets), "last_offset": max(offsets)}
        record(message=f"Looked at {counted(len(offsets), 'message')} of {_name(topic, channel)}.", counts=counts)
    except NotAuditedError as exc:
        return refusal(request, f"No message was shown: {exc}. Free space on its disk and try again.", status=503)
    form = request.GET.get("form", "auto")
    form = form if form in FORMS else "auto"
    context = {
        "topic": topic,
        "channel": channel,
        "page": page,
        "lines": [line_of(message, form, is_of_channel=bool(channel)) for message in page.messages],
        "complaint": complaint,
        "form": form,
        "forms": FORMS,
        "asked": {"offset": _asked(request, "offset"), "at": _asked(request, "at")},
        **_links(topic, channel, page, form),
    }
    return render(request, "pages/messages.html", context, status=400 if complaint else 200)


def _page_of(topic: str, channel: str, target: Target | None) -> MessagePage:
    """target: where a topic's page begins; None for its newest messages. Raises ReadRefusedError."""
    gateway = get_gateway()
    if channel:
        return gateway.messages(topic, channel, None, PAGE_MESSAGES)
    if target is None:
        end = gateway.messages(topic, "", Target(word="end"), PAGE_MESSAGES)
        target = Target(offset=end.earlier_offset)
    return gateway.messages(topic, "", target, PAGE_MESSAGES)


def _name(topic: str, channel: str) -> str:
    return f"{topic}/{channel}" if channel else topic


def _links(topic: str, channel: str, page: MessagePage, form: str) -> dict[str, str]:
    if channel:
        return {}
    base = reverse("topic_messages", args=(topic,))
    first = page.messages[0].offset if page.messages else page.end_offset
    return {
        "older_url": f"{base}?{urlencode({'offset': page.earlier_offset, 'form': form})}"
        if page.earlier_offset < first
        else "",
        "newer_url": f"{base}?{urlencode({'offset': page.next_offset, 'form': form})}"
        if page.next_offset < page.end_offset
        else "",
    }


def line_of(message: ReadMessage, form: str, *, is_of_channel: bool = False) -> Line:
    """One message in the form asked for; "auto" is JSON where it is an object or a list, else text, else hex.

    is_of_channel: the channel delivers it next, so its due time has passed or it was released.
    """
    body = message.body
    shown_form, text = _shown(body, form)
    cut = f"the first {SHOWN_BYTES_MAX:,} of {len(body):,} bytes" if len(body) > SHOWN_BYTES_MAX else ""
    return Line(
        message.offset,
        message.message_id,
        _time(message.time_ns),
        _time(message.due_ns) if message.due_ns and not is_of_channel else "",
        counted(len(body), "byte"),
        shown_form,
        text,
        cut,
    )


def _shown(body: bytes, form: str) -> tuple[str, str]:
    if form == "hex":
        return "hex", _hex(body[:SHOWN_BYTES_MAX])
    if form in ("json", "auto") and len(body) <= SHOWN_BYTES_MAX:
        parsed = _parsed(body)
        if parsed is not None:
            return "json", json.dumps(parsed, indent=2, ensure_ascii=False)
    try:
        text = body.decode()
    except UnicodeDecodeError:
        if form == "auto":
            return "hex", _hex(body[:SHOWN_BYTES_MAX])
        text = body.decode("utf-8", "replace")
    return "text", text[:SHOWN_BYTES_MAX]


def _parsed(body: bytes) -> Any:
    if body[:1] not in (b"{", b"["):
        return None
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None


def _hex(body: bytes) -> str:
    lines = []
    for start in range(0, len(body), HEX_LINE_BYTES):
        piece = body[start : start + HEX_LINE_BYTES]
        signs = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in piece)
        lines.append(f"{start:08x}  {piece.hex(' '):<{HEX_LINE_BYTES * 3}} {signs}")
    return "\n".join(lines)


def _time(time_ns: int) -> str:
    return datetime.fromtimestamp(time_ns / 1e9, UTC).isoformat(sep=" ", timespec="milliseconds").replace("+00:00", "")
