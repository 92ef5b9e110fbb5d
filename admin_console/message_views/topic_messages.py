"""The messages of a topic, as they were published: nothing is consumed, and every view is audited."""

import heapq
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import NoReturn
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from admin_console.answers.refusal import refusal
from admin_console.audit.models import Verdict
from admin_console.audit.record import NotAuditedError, record_look, require_room
from admin_console.gateway.gateway import (
    KEY_BYTES_MAX,
    EngineUnavailableError,
    KeyPage,
    MessagePage,
    ReadMessage,
    ReadRefusedError,
    Target,
    get_gateway,
)
from admin_console.gateway.sentences import counted
from admin_console.message_views.sources import all_of, node_links, node_named_by, topic_of
from admin_console.messages import bodies
from admin_console.messages.channel_snapshot import BeginsReads, TopicMessages
from admin_console.messages.lines import NODE_COLUMN, Fact, MessageLine, columns_of, published_facts, utc
from admin_console.messages.message_filter import is_offset, time_ns_of
from admin_console.messages.states import FINISHED
from admin_console.views.on_nodes import NODE
from admin_console.views.standing import stands
from admin_console.vocabulary.times import field_time

PAGE_MESSAGES = 20


@dataclass(frozen=True, slots=True)
class _Shown:
    """The messages of the page, each with the node that has it, and the parts of the page beside them. range_text: the
    offsets that the topic has; "" for those of several nodes. notes: sentences."""

    messages: Sequence[tuple[TopicMessages, ReadMessage]]
    range_text: str = ""
    notes: Sequence[str] = ()
    links: Sequence["_Link"] = ()


@dataclass(frozen=True, slots=True)
class _Link:
    label: str
    url: str
    rel: str


@require_safe
@stands("publish")
def topic_messages(request: HttpRequest, topic: str) -> HttpResponse:
    """`?offset=` or `?at=` (UTC): a page from there on; `?key=`: those with this key, the newest first, `&before=` an
    offset; without any of them the newest. `?whole=1` shows the one at the offset in whole, `?as=file` sends its body
    as a file."""
    try:
        one = topic_of(request, topic)
    except ReadRefusedError as exc:
        return refusal(request, str(exc), status=409)
    if key_text := _key_of(request):
        return _by_key(request, one, key_text)
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
    return _at_place(request, one, target, complaint)


def _at_place(request: HttpRequest, one: TopicMessages, target: Target | None, complaint: str) -> HttpResponse:
    is_file = _field(request, "as") == "file" and target is not None
    is_whole = _field(request, "whole") == "1" and target is not None

    def read() -> _Shown:
        page = _page_of(one, target, 1 if is_file or is_whole else PAGE_MESSAGES)
        notes = [f"{page.damaged_count} damaged: their bodies are lost."] if page.damaged_count else []
        links = _links(one, page, _form_of(request))
        return _Shown(
            [(one, each) for each in page.messages], f"{page.oldest_offset} to {page.end_offset}", notes, links
        )

    return _answer(request, one, read, complaint, is_whole=is_whole, is_file=is_file)


def _by_key(request: HttpRequest, one: TopicMessages, text: str) -> HttpResponse:
    """At the node that the request names, else at all that show the topic's messages."""
    key, before = text.encode(errors="replace"), _field(request, "before")
    if len(key) > KEY_BYTES_MAX:
        return _at_place(request, one, None, f"The key has {len(key)} bytes; the most is {KEY_BYTES_MAX}.")
    if before and not is_offset(before):
        return _at_place(request, one, None, f"{before!r} is not an offset: a whole number from 0.")
    is_at_one = bool(node_named_by(request))
    places = [one] if is_at_one else all_of(request, one.topic)
    if len(places) > 1:
        return _answer(request, one, lambda: _of_all(places, key, text, _form_of(request)), of_all=places)
    url = partial(_url_at if is_at_one else TopicMessages.url, one)

    def read() -> _Shown:
        found = one.source.find_key(one.topic, key, PAGE_MESSAGES, before=int(before) if before else None)
        form, links = _form_of(request), []
        if found.next_before is not None:
            links.append(_Link("Older", url(key=text, before=str(found.next_before), form=form), "prev"))
        if before:
            links.append(_Link("Newest", url(key=text, form=form), "next"))
        page, notes = found.page, [_not_indexed(found)] if found.not_indexed_count else []
        return _Shown(
            [(one, each) for each in page.messages], f"{page.oldest_offset} to {page.end_offset}", notes, links
        )

    return _answer(request, one, read)


def _of_all(places: Sequence[TopicMessages], key: bytes, text: str, form: str) -> _Shown:
    """The newest messages with the key, of all nodes together; a node that fails costs its own. Raises ReadRefusedError
    where all do."""
    waits = [_begun(one, key) for one in places]
    found: dict[TopicMessages, Sequence[ReadMessage]] = {}
    notes: list[str] = []
    more: set[TopicMessages] = set()
    for one, wait in zip(places, waits, strict=True):
        try:
            answer = wait()
        except (ReadRefusedError, EngineUnavailableError) as exc:
            notes.append(str(exc))
            continue
        found[one] = answer.page.messages
        if answer.not_indexed_count:
            notes.append(f"{_name_of(one)}: {_not_indexed(answer)}")
        if answer.next_before is not None:
            more.add(one)
    if not found:
        raise ReadRefusedError(" ".join(notes))
    listed = [[(one, each) for each in messages] for one, messages in found.items()]
    shown = list(islice(heapq.merge(*listed, key=lambda each: -each[1].time_ns), PAGE_MESSAGES))
    links = []
    for one, messages in found.items():
        offsets = [each.offset for owner, each in shown if owner is one]
        if one in more or len(offsets) < len(messages):
            before = {"before": str(offsets[-1])} if offsets else {}
            links.append(_Link(f"Older at {_name_of(one)}", _url_at(one, key=text, form=form, **before), "prev"))
    return _Shown(shown, notes=notes, links=links)


def _begun(one: TopicMessages, key: bytes) -> Callable[[], KeyPage]:
    """Begin at a remote node; this server's engine is read when its answer is waited for."""
    if isinstance(one.source, BeginsReads):
        try:
            return one.source.begin_find_key(one.topic, key, PAGE_MESSAGES)
        except ReadRefusedError as exc:
            return partial(_raise, exc)
    return lambda: one.source.find_key(one.topic, key, PAGE_MESSAGES)


def _raise(error: ReadRefusedError) -> NoReturn:
    raise error


def _name_of(one: TopicMessages) -> str:
    return one.node or get_gateway().node().name


def _url_at(one: TopicMessages, **query: str) -> str:
    """A link that names its node, this server too."""
    return one.url(**({} if one.node else {NODE: _name_of(one)}), **query)


def _not_indexed(found: KeyPage) -> str:
    still = counted(found.not_indexed_count, "message")
    return f"{still} from offset {found.indexed_upto} on are not indexed yet and may be missing here."


def _key_of(request: HttpRequest) -> str:
    return request.GET.get("key", "").strip()


def _field(request: HttpRequest, name: str) -> str:
    """One that is short: an offset, a time, a word."""
    return request.GET.get(name, "").strip()[:40]


def _form_of(request: HttpRequest) -> str:
    form = request.GET.get("form", "auto")
    return form if form in bodies.FORMS else "auto"


def _answer(
    request: HttpRequest,
    one: TopicMessages,
    read: Callable[[], _Shown],
    complaint: str = "",
    *,
    of_all: Sequence[TopicMessages] = (),
    is_whole: bool = False,
    is_file: bool = False,
) -> HttpResponse:
    """of_all: the nodes of a list of several."""
    # The look is in the audit list before any message is shown.
    topic = one.topic
    record = partial(record_look, request, "read_messages", topic=topic, detail=request.GET.urlencode()[:120])
    where = f" at {counted(len(of_all), 'node')}" if of_all else f" at {one.node}" if one.node else ""
    try:
        require_room()
        try:
            shown = read()
        except ReadRefusedError as exc:
            record(verdict=Verdict.FAILED, message=str(exc))
            return refusal(request, str(exc), status=409)
        offsets = [message.offset for _, message in shown.messages]
        counts = {"messages": len(offsets)}
        if offsets and not of_all:
            counts |= {"first_offset": min(offsets), "last_offset": max(offsets)}
        record(message=f"Looked at {counted(len(offsets), 'message')} of {topic}{where}.", counts=counts)
    except NotAuditedError as exc:
        return refusal(request, f"No message was shown: {exc}. Free space on its disk and try again.", status=503)
    if is_file and shown.messages:
        return _file(topic, shown.messages[0][1])
    form, key, at = _form_of(request), _key_of(request), _field(request, "at")
    columns = columns_of(FINISHED, with_key=True)
    columns = (NODE_COLUMN, *columns) if of_all else columns
    address = {name: value for name, value in (("at", at), ("key", key), ("form", _field(request, "form"))) if value}
    nodes = node_links(
        one, urlencode(address), with_all=bool(key and (of_all or node_named_by(request))), is_all=bool(of_all)
    )
    context = {
        "topic": topic,
        "node": _name_of(one) if node_named_by(request) else "",
        "at_node": one.node,
        "nodes": nodes,
        "range_text": shown.range_text,
        "columns": columns,
        "width": len(columns) + 1,
        "lines": [
            _line(owner, message, form, is_whole=is_whole, with_node=bool(of_all)) for owner, message in shown.messages
        ],
        "can_see_contents": True,
        "is_open": is_whole,
        "can_find_key": one.can_find_key,
        "complaint": complaint,
        "notes": shown.notes,
        "form": form,
        "forms": bodies.FORMS,
        "filters": {"offset": _field(request, "offset"), "at": field_time(at), "key": key},
        "found_key": key if not complaint else "",
        "links": shown.links,
    }
    return render(request, "pages/messages.html", context, status=400 if complaint else 200)


def _page_of(one: TopicMessages, target: Target | None, count_max: int) -> MessagePage:
    """target: where the page begins; None for the newest messages. Raises ReadRefusedError."""
    if target is None:
        end = one.source.messages(one.topic, "", Target(word="end"), count_max)
        target = Target(offset=end.earlier_offset)
    return one.source.messages(one.topic, "", target, count_max)


def _links(one: TopicMessages, page: MessagePage, form: str) -> list[_Link]:
    first = page.messages[0].offset if page.messages else page.end_offset
    older, newer = page.earlier_offset, page.next_offset
    found = [_Link("Older", one.url(offset=str(older), form=form), "prev")] if older < first else []
    return [
        *found,
        *([_Link("Newer", one.url(offset=str(newer), form=form), "next")] if newer < page.end_offset else []),
    ]


def _line(one: TopicMessages, message: ReadMessage, form: str, *, is_whole: bool, with_node: bool) -> MessageLine:
    offset, body = str(message.offset), message.body
    bytes_max = bodies.WHOLE_BYTES_MAX if is_whole else bodies.SHOWN_BYTES_MAX
    # A list of several nodes names each, this server too.
    url = partial(_url_at if with_node else TopicMessages.url, one)
    return MessageLine(
        message.message_id,
        None,
        url(offset=offset),
        message.offset,
        (
            *([Fact(NODE_COLUMN, _name_of(one))] if with_node else []),
            *published_facts(len(body), message.time_ns, message.key, time.time_ns()),
        ),
        bodies.shown(body, form, bytes_max=bytes_max),
        url(offset=offset, **{"as": "file"}),
        "" if is_whole else url(offset=offset, form=form, whole="1"),
        note=f"published to be deferred until {utc(message.due_ns)} UTC" if message.due_ns else "",
    )


def _file(topic: str, message: ReadMessage) -> HttpResponse:
    answer = HttpResponse(message.body, content_type="application/octet-stream")
    name = f"{topic}-{message.message_id}.bin".replace("#", "-")
    answer["Content-Disposition"] = f'attachment; filename="{name}"'
    return answer
