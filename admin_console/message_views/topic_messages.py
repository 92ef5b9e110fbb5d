"""The messages of a topic, as they were published: nothing is consumed, and every view is audited."""

import time
from functools import partial
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_safe

from admin_console.answers.refusal import refusal
from admin_console.audit.models import Verdict
from admin_console.audit.record import NotAuditedError, record_look, require_room
from admin_console.gateway.gateway import (
    KEY_BYTES_MAX,
    KeyPage,
    MessagePage,
    ReadMessage,
    ReadRefusedError,
    Target,
    get_gateway,
)
from admin_console.gateway.sentences import counted
from admin_console.messages import bodies
from admin_console.messages.lines import MessageLine, columns_of, published_facts, utc
from admin_console.messages.message_filter import is_offset, time_ns_of
from admin_console.messages.states import FINISHED
from admin_console.views.standing import stands
from admin_console.vocabulary.times import field_time

PAGE_MESSAGES = 20


class _KeyLook:
    """A look at the messages of a topic that have a key, the newest first. text: the key as it was typed. before: an
    offset, None for the newest."""

    def __init__(self, text: str, key: bytes, before: int | None) -> None:
        self._text = text
        self._key = key
        self._before = before
        self._found: KeyPage | None = None

    def page_of(self, topic: str, count_max: int) -> MessagePage:
        """Raises ReadRefusedError."""
        self._found = get_gateway().find_key(topic, self._key, count_max, before=self._before)
        return self._found.page

    def links(self, topic: str, form: str) -> dict[str, str]:
        """The parts of the page beside the messages."""
        found = self._found
        assert found is not None
        url = reverse("topic_messages", args=(topic,))
        older = {"key": self._text, "before": str(found.next_before), "form": form}
        still = counted(found.not_indexed_count, "message")
        return {
            "found_key": self._text,
            "older_url": "" if found.next_before is None else f"{url}?{urlencode(older)}",
            "newer_url": "" if self._before is None else f"{url}?{urlencode({'key': self._text, 'form': form})}",
            "not_indexed": f"{still} from offset {found.indexed_upto} on are not indexed yet and may be missing here."
            if found.not_indexed_count
            else "",
        }


@require_safe
@stands("publish")
def topic_messages(request: HttpRequest, topic: str) -> HttpResponse:
    """`?offset=` or `?at=` (UTC): a page from there on; `?key=`: those with this key, the newest first, `&before=` an
    offset; without any of them the newest. `?whole=1` shows the one at the offset in whole, `?as=file` sends its body
    as a file."""
    key_text = request.GET.get("key", "").strip()
    if key_text:
        return _by_key(request, topic, key_text)
    offset_text, at_text = _field(request, "offset"), _field(request, "at")
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
    return _answer(request, topic, target, complaint)


def _by_key(request: HttpRequest, topic: str, text: str) -> HttpResponse:
    key, before = text.encode(errors="replace"), _field(request, "before")
    if len(key) > KEY_BYTES_MAX:
        return _answer(request, topic, None, f"The key has {len(key)} bytes; the most is {KEY_BYTES_MAX}.")
    if before and not is_offset(before):
        return _answer(request, topic, None, f"{before!r} is not an offset: a whole number from 0.")
    return _answer(request, topic, None, "", find=_KeyLook(text, key, int(before) if before else None))


def _field(request: HttpRequest, name: str) -> str:
    return request.GET.get(name, "").strip()[:40]


def _answer(
    request: HttpRequest, topic: str, target: Target | None, complaint: str, *, find: _KeyLook | None = None
) -> HttpResponse:
    # The look is in the audit list before any message is shown.
    record = partial(record_look, request, "read_messages", topic=topic, detail=request.GET.urlencode()[:120])
    is_file = _field(request, "as") == "file" and target is not None
    is_whole = _field(request, "whole") == "1" and target is not None
    try:
        require_room()
        try:
            if find is not None:
                page = find.page_of(topic, PAGE_MESSAGES)
            else:
                page = _page_of(topic, target, 1 if is_file or is_whole else PAGE_MESSAGES)
        except ReadRefusedError as exc:
            record(verdict=Verdict.FAILED, message=str(exc))
            return refusal(request, str(exc), status=409)
        offsets = [message.offset for message in page.messages]
        counts = {"messages": len(offsets)}
        if offsets:
            counts |= {"first_offset": min(offsets), "last_offset": max(offsets)}
        record(message=f"Looked at {counted(len(offsets), 'message')} of {topic}.", counts=counts)
    except NotAuditedError as exc:
        return refusal(request, f"No message was shown: {exc}. Free space on its disk and try again.", status=503)
    if is_file and page.messages:
        return _file(topic, page.messages[0])
    form = request.GET.get("form", "auto")
    form = form if form in bodies.FORMS else "auto"
    columns = columns_of(FINISHED, with_key=True)
    context = {
        "topic": topic,
        "page": page,
        "columns": columns,
        "width": len(columns) + 1,
        "lines": [_line(topic, message, form, is_whole=is_whole) for message in page.messages],
        "can_see_contents": True,
        "is_open": is_whole,
        "can_find_key": "find_key" in get_gateway().node().capabilities,
        "complaint": complaint,
        "form": form,
        "forms": bodies.FORMS,
        "filters": {
            "offset": _field(request, "offset"),
            "at": field_time(_field(request, "at")),
            "key": request.GET.get("key", ""),
        },
        **(_links(topic, page, form) if find is None else find.links(topic, form)),
    }
    return render(request, "pages/messages.html", context, status=400 if complaint else 200)


def _page_of(topic: str, target: Target | None, count_max: int) -> MessagePage:
    """target: where the page begins; None for the newest messages. Raises ReadRefusedError."""
    gateway = get_gateway()
    if target is None:
        end = gateway.messages(topic, "", Target(word="end"), count_max)
        target = Target(offset=end.earlier_offset)
    return gateway.messages(topic, "", target, count_max)


def _links(topic: str, page: MessagePage, form: str) -> dict[str, str]:
    first = page.messages[0].offset if page.messages else page.end_offset
    older, newer = page.earlier_offset, page.next_offset
    return {
        "older_url": _url(topic, offset=str(older), form=form) if older < first else "",
        "newer_url": _url(topic, offset=str(newer), form=form) if newer < page.end_offset else "",
    }


def _url(topic: str, **query: str) -> str:
    return f"{reverse('topic_messages', args=(topic,))}?{urlencode(query)}"


def _line(topic: str, message: ReadMessage, form: str, *, is_whole: bool) -> MessageLine:
    offset, body = str(message.offset), message.body
    bytes_max = bodies.WHOLE_BYTES_MAX if is_whole else bodies.SHOWN_BYTES_MAX
    return MessageLine(
        message.message_id,
        None,
        _url(topic, offset=offset),
        message.offset,
        published_facts(len(body), message.time_ns, message.key, time.time_ns()),
        bodies.shown(body, form, bytes_max=bytes_max),
        _url(topic, offset=offset, **{"as": "file"}),
        "" if is_whole else _url(topic, offset=offset, form=form, whole="1"),
        note=f"published to be deferred until {utc(message.due_ns)} UTC" if message.due_ns else "",
    )


def _file(topic: str, message: ReadMessage) -> HttpResponse:
    answer = HttpResponse(message.body, content_type="application/octet-stream")
    name = f"{topic}-{message.message_id}.bin".replace("#", "-")
    answer["Content-Disposition"] = f'attachment; filename="{name}"'
    return answer
