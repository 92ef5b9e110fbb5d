"""The messages of a channel, state by state, and one message. Nothing is consumed; looks at contents are audited."""

import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from django.http import HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_safe

from admin_console.answers.refusal import refusal
from admin_console.audit.record import NotAuditedError, record_look, require_room
from admin_console.gateway.gateway import EngineUnavailableError, MessageRow, MessageRows, OneMessage, ReadRefusedError
from admin_console.gateway.sentences import counted, merged_sentences
from admin_console.message_views.sources import channel_of, node_links, other_channels_of
from admin_console.messages import bodies
from admin_console.messages.channel_snapshot import BeginsReads, ChannelSnapshot
from admin_console.messages.lines import MessageLine, columns_of, facts_of
from admin_console.messages.message_filter import SORTS, MessageFilter, filter_of, is_message_id, is_offset
from admin_console.messages.single_acts import acts_in, as_sentence, likely_act
from admin_console.messages.states import FINISHED, STATES, State
from admin_console.permissions.allowed import CheckedRequest
from admin_console.permissions.table import ACTS, CONTENTS
from admin_console.views.standing import stands
from admin_console.vocabulary import units
from admin_console.vocabulary.times import field_time

PAGE_MESSAGES = 25
PREVIEW_BYTES = 1_024  # of each body in the list
FIND_NODES_MAX = 100  # that are read for an id; with 16 calls at once, all of them silent take half a minute


@dataclass(frozen=True, slots=True)
class Tab:
    """A state above the list. count: its figure, "" where nothing counts it; why_not: why it can't be opened."""

    label: str
    url: str
    count: str = ""
    is_current: bool = False
    why_not: str = ""


@dataclass(frozen=True, slots=True)
class Choice:
    value: str
    label: str
    is_chosen: bool
    url: str = ""


@require_safe
def channel_messages(request: CheckedRequest, topic: str, channel: str) -> HttpResponse:
    """A page of a channel's messages: `?state=` and the fields of MessageFilter, `?cursor=` of a page.

    `?find=` redirects to the message of that offset at its node, or of that id at the node that has it.
    """
    try:
        snapshot = channel_of(request, topic, channel)
    except ReadRefusedError as exc:
        return refusal(request, str(exc), status=409)
    if snapshot is None:
        return refusal(request, f"There is no channel {topic}/{channel}.", status=404)
    message_filter = filter_of(request.GET.dict())
    if find := request.GET.get("find", "").strip()[:40]:
        try:
            if is_message_id(find):
                return HttpResponseRedirect(at_holder(request, snapshot, find).message_url(find))
            if is_offset(find):
                return HttpResponseRedirect(snapshot.message_url(find))
            complaint = f"{find!r} is neither a message id of 16 hex digits nor an offset, a whole number from 0."
        except ReadRefusedError as exc:
            complaint = str(exc)
        message_filter = replace(message_filter, complaint=complaint)
    return answer_list(request, snapshot, message_filter)


def answer_list(
    request: CheckedRequest,
    snapshot: ChannelSnapshot,
    message_filter: MessageFilter,
    *,
    chosen: frozenset[str] = frozenset(),
    status: int = 200,
    **more: Any,
) -> HttpResponse:
    """The list as it is at this moment. chosen: ids of messages that are selected; `more` is for the template."""
    can_see = request.may.see_contents
    if message_filter.query.key and not can_see:
        needs = request.why_not.line({CONTENTS: "Looking for a key"})
        message_filter = MessageFilter(
            {**message_filter.fields, "key": ""},
            replace(message_filter.query, key=b""),
            f"{message_filter.complaint} {needs}".strip(),
        )
    query = replace(message_filter.query, limit=PAGE_MESSAGES, preview_bytes=PREVIEW_BYTES if can_see else 0)
    try:
        found = snapshot.source.message_rows(snapshot.topic, snapshot.channel, query)
        # "No message has this key" is a fact about the key, too.
        if can_see and (found.rows or query.key):
            note_look(request, snapshot, found.rows)
    except ReadRefusedError as exc:
        return refusal(request, str(exc), status=409)
    except NotAuditedError as exc:
        return not_audited(request, exc)
    state = STATES[message_filter.query.state]
    columns = columns_of(state.name, with_key=can_see)
    cannot_search = as_sentence(reason) if (reason := snapshot.why_not("search_messages")) else ""
    context = {
        "topic": snapshot.topic,
        "channel": snapshot.channel,
        "node": snapshot.node,
        "nodes": node_links(snapshot, f"state={state.name}", state=state.name),
        "state": state,
        "tabs": _tabs(found, snapshot, message_filter),
        "filters": message_filter.fields,
        "times": {name: field_time(message_filter.fields[name]) for name in ("from", "to")},
        "complaint": message_filter.complaint,
        "forms": bodies.FORMS,
        "form": message_filter.form,
        "sorts": [
            Choice(value, label, value == message_filter.query.sort)
            for value, label in SORTS.items()
            if value != "attempts" or state.name != FINISHED
        ],
        "has_offsets": found.storage == "log",
        "has_filter": message_filter.has_filter,
        "cannot_search": cannot_search,
        "can_see_contents": can_see,
        "columns": columns,
        "width": len(columns) + 3,
        "lines": [
            replace(line, is_chosen=line.message_id in chosen)
            for line in _lines(snapshot, found.rows, message_filter.form, with_body=can_see, with_key=can_see)
        ],
        **_acts(request, snapshot, state),
        "notes": [*_notes(found), *([cannot_search] if can_see and cannot_search else [])],
        "empty": _empty(snapshot, state, message_filter),
        "here": request.get_full_path(),
        "first_url": snapshot.url_with(message_filter.address()) if message_filter.query.after else "",
        "next_url": snapshot.url_with(message_filter.address(cursor=found.next_cursor)) if found.next_cursor else "",
        "refresh_url": snapshot.url_with(message_filter.address(cursor=message_filter.query.after)),
        "read_at": units.moment(units.now_ms()),
        **more,
    }
    return render(request, "pages/channel_messages.html", context, status=400 if message_filter.complaint else status)


@require_safe
@stands("empty_channel")
def channel_message(request: CheckedRequest, topic: str, channel: str, message: str) -> HttpResponse:
    """One message, by its id or offset: its state, and its body where the user may see it; `?whole=1` all of that."""
    try:
        snapshot = channel_of(request, topic, channel)
    except ReadRefusedError as exc:
        return refusal(request, str(exc), status=409)
    if snapshot is None:
        return refusal(request, f"There is no channel {topic}/{channel}.", status=404)
    return answer_one(request, snapshot, message)


def answer_one(request: CheckedRequest, snapshot: ChannelSnapshot, message: str, **more: Any) -> HttpResponse:
    """The message's page as it is at this moment; `more` is for its template."""
    can_see = request.may.see_contents
    try:
        found = read_one(snapshot, message, with_contents=can_see)
        if can_see:
            note_look(request, snapshot, (found.row,), detail=f"message {found.row.message_id}")
    except ReadRefusedError as exc:
        return refusal(request, str(exc), status=404)
    except NotAuditedError as exc:
        return not_audited(request, exc)
    form, is_whole = request.GET.get("form", ""), request.GET.get("whole") == "1"
    form = form if form in bodies.FORMS else bodies.FORMS[0]
    [line] = _lines(snapshot, (found.row,), form, with_body=False, with_key=can_see)
    if can_see and not found.row.problem:
        bytes_max = bodies.WHOLE_BYTES_MAX if is_whole else bodies.SHOWN_BYTES_MAX
        line = replace(line, body=bodies.shown(found.body, form, bytes_max=bytes_max))
    whole = "&whole=1" if is_whole else ""
    context = {
        "topic": snapshot.topic,
        "channel": snapshot.channel,
        "node": snapshot.node,
        "nodes": node_links(snapshot, ""),
        "line": line,
        "state": line.state,
        **_acts(request, snapshot, line.state),
        "list_url": snapshot.url_with(f"state={found.row.state}"),
        "can_see_contents": can_see,
        "body_needs": request.why_not.line({CONTENTS: "Looking at bodies and keys"}),
        "here": request.get_full_path(),
        "form_choices": [
            Choice(one, one, one == form, snapshot.message_url(line.message_id, address=f"form={one}{whole}"))
            for one in bodies.FORMS
        ],
        "whole_url": ""
        if is_whole or line.body is None or not line.body.cut
        else snapshot.message_url(line.message_id, address=f"form={form}&whole=1"),
        **more,
    }
    return render(request, "pages/channel_message.html", context)


@dataclass(frozen=True, slots=True)
class OfferedAct:
    """An act as the page offers it. why_not: why it is disabled, "" where it is not."""

    name: str
    label: str
    verb: str
    url: str
    consequences: tuple[str, ...]
    asks: bool
    why_not: str


def _acts(request: CheckedRequest, snapshot: ChannelSnapshot, state: State | None) -> dict[str, Any]:
    """The acts on messages of this state, and the act that each row offers."""
    assert state is not None, "only the page of a topic has none"
    offered = [
        OfferedAct(
            act.name,
            act.label,
            act.verb,
            snapshot.at_node(reverse(act.name, args=(snapshot.topic, snapshot.channel))),
            act.consequences,
            act.asks,
            request.why_not[act.name] or snapshot.why_not(act.name),
        )
        for act in acts_in(state.name)
        if act.name in ACTS
    ]
    can = {act.name: act for act in offered if not act.why_not}
    return {
        "acts": offered,
        "row_act": can.get(likely_act(state.name)),
        "file_url": snapshot.at_node(reverse("message_file", args=(snapshot.topic, snapshot.channel)))
        if request.may["message_file"]
        else "",
        "why_nots": _why_nots(request, snapshot, offered),
    }


def _why_nots(request: CheckedRequest, snapshot: ChannelSnapshot, offered: Sequence[OfferedAct]) -> str:
    """The reasons of the disabled acts for readers without a pointer, each once."""
    reasons = {act.name: snapshot.why_not(act.name) for act in offered}
    role_line = request.why_not.line({act.name: act.verb for act in offered if not reasons[act.name]})
    return " ".join([*([role_line] if role_line else []), *merged_sentences(reasons.values())])


def read_one(snapshot: ChannelSnapshot, message: str, *, with_contents: bool = True) -> OneMessage:
    """The message of this id or offset. with_contents: a remote node audits the look. Raises ReadRefusedError."""
    topic, channel, source = snapshot.topic, snapshot.channel, snapshot.source
    if not with_contents and isinstance(source, BeginsReads):
        wanted = {"id": message} if is_message_id(message) else {"offset": message}
        return source.begin_message(topic, channel, wanted, with_contents=False)()
    if is_message_id(message):
        return source.message(topic, channel, message_id=message)
    return source.message(topic, channel, offset=int(message))


def at_holder(request: CheckedRequest, snapshot: ChannelSnapshot, message_id: str) -> ChannelSnapshot:
    """The channel at the node that has the message: this one, else another that answers with it, all read at once; this
    one, too, where none does, whose page has the reason. Raises ReadRefusedError for too many nodes."""
    others = other_channels_of(request, snapshot)
    if not others:
        return snapshot
    with suppress(ReadRefusedError, EngineUnavailableError):
        read_one(snapshot, message_id, with_contents=False)
        return snapshot
    if len(others) > FIND_NODES_MAX:
        raise ReadRefusedError(
            f"Message {message_id} is not at {snapshot.node or 'this server'}. {len(others):,} other nodes list "
            f"messages of {snapshot.name}, and a find reads {FIND_NODES_MAX} at most: choose the message's node."
        )
    # Here: a server without other nodes starts without an HTTP client.
    from admin_console.gateway.node_messages import NodeMessages, Pending, as_they_end

    at: list[ChannelSnapshot] = []
    begun: list[Pending[OneMessage]] = []
    for other in others:
        with suppress(ReadRefusedError, EngineUnavailableError):
            if isinstance(other.source, NodeMessages):
                wanted = {"id": message_id}
                begun.append(other.source.begin_message(other.topic, other.channel, wanted, with_contents=False))
                at.append(other)
            else:
                read_one(other, message_id)
                return other
    for number in as_they_end(begun):
        with suppress(ReadRefusedError):
            begun[number]()
            return at[number]
    return snapshot


def note_look(
    request: CheckedRequest, snapshot: ChannelSnapshot, rows: Sequence[MessageRow], *, detail: str = ""
) -> None:
    """Audit that the bodies and keys of these are looked at, before any is shown. Raises NotAuditedError."""
    require_room()
    offsets = [row.offset for row in rows if row.offset is not None]
    counts = {"messages": len(rows)}
    at = f" at {snapshot.node}" if snapshot.node else ""
    if offsets:
        counts |= {"first_offset": min(offsets), "last_offset": max(offsets)}
    record_look(
        request,
        "read_messages",
        topic=snapshot.topic,
        channel=snapshot.channel,
        detail=detail or request.GET.urlencode()[:120],
        message=f"Looked at {counted(len(rows), 'message')} of {snapshot.name}{at}.",
        counts=counts,
    )


def not_audited(request: CheckedRequest, error: Exception) -> HttpResponse:
    return refusal(request, f"No message was shown: {error}. Free space on its disk and try again.", status=503)


def _lines(
    snapshot: ChannelSnapshot, rows: Sequence[MessageRow], form: str, *, with_body: bool, with_key: bool
) -> list[MessageLine]:
    at_ns = time.time_ns()
    return [
        MessageLine(
            row.message_id,
            STATES[row.state],
            snapshot.message_url(row.message_id),
            row.offset,
            facts_of(row, at_ns, with_key=with_key),
            bodies.shown(row.body_start, form, bytes_max=PREVIEW_BYTES, size=row.body_bytes)
            if with_body and row.body_bytes is not None and not row.problem
            else None,
            snapshot.message_url(row.message_id, "message_body"),
            snapshot.message_url(row.message_id),
            problem=row.problem,
        )
        for row in rows
    ]


def _tabs(found: MessageRows, snapshot: ChannelSnapshot, message_filter: MessageFilter) -> list[Tab]:
    """A tab for each state that this server reports; the links carry the filters."""
    tabs = []
    for state in STATES.values():
        if state.name not in found.counts:
            continue
        count = found.counts[state.name]
        url, is_current = (
            snapshot.url_with(message_filter.address(state=state.name)),
            state.name == message_filter.query.state,
        )
        tabs.append(Tab(state.label, url, "" if count is None else units.number(count), is_current))
    return tabs


def _notes(found: MessageRows) -> list[str]:
    notes = [found.note] if found.note else []
    if found.is_bounded:
        notes.append("Only the first 10,000 messages of this state were looked at; later ones are not searched.")
    return notes


def _empty(snapshot: ChannelSnapshot, state: State, message_filter: MessageFilter) -> dict[str, str]:
    """Why there is no row: filtered out, gone meanwhile, or none there at all."""
    if message_filter.has_filter:
        return {
            "title": "No message of this state passes the filters",
            "text": "",
            "href": snapshot.url_with(f"state={state.name}"),
            "link": "Clear the filters",
        }
    if message_filter.query.after:
        return {
            "title": "No more messages in this state",
            "text": "The messages of this page have changed their state since.",
            "href": snapshot.url_with(f"state={state.name}"),
            "link": "Back to the first page",
        }
    return {"title": state.empty[0], "text": state.empty[1]}
