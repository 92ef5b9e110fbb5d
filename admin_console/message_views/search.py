"""A search for a text in the bodies of a channel's messages, while it runs: its progress, its hits, Cancel.

A script reads the results again and again; without a script the browser reloads the page. A search that no page reads
ends by itself.
"""

from dataclasses import dataclass
from urllib.parse import urlencode

from django.contrib import messages
from django.http import HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_safe

from admin_console.answers.refusal import refusal, wants_fragment
from admin_console.audit.record import NotAuditedError
from admin_console.gateway.gateway import ReadRefusedError, SearchHit, SearchState
from admin_console.message_views import lists
from admin_console.message_views.lists import not_audited, note_look
from admin_console.message_views.sources import channel_of
from admin_console.messages.channel_snapshot import ChannelSnapshot
from admin_console.messages.message_filter import is_offset
from admin_console.messages.states import FINISHED, STATES, State
from admin_console.messages.visible import visible
from admin_console.permissions.allowed import CheckedRequest
from admin_console.views.standing import stands
from admin_console.vocabulary import units

RUNNING = "running"
_ENDS = {
    "full": "It stopped at the most results of one search. Continue from here for more.",
    "bounded": "It stopped at the most bytes of the log that one search reads. Continue from here for more.",
    "cancelled": "It was cancelled: by its button, or because no page was open for it.",
}


@dataclass(frozen=True, slots=True)
class Hit:
    """A message whose body has the text, and its surroundings in three parts."""

    url: str
    message_id: str
    offset: int | None
    state: State
    before: str
    found: str
    after: str


@require_safe
@stands("empty_channel")
def messages_or_search(request: CheckedRequest, topic: str, channel: str) -> HttpResponse:
    """The list of messages, or, with `?text=`, a search that begins; `in` is a state, or "all"."""
    text = request.GET.get("text", "")
    if not text or not request.may["message_search"]:
        return lists.channel_messages(request, topic, channel)
    try:
        snapshot = channel_of(request, topic, channel)
    except ReadRefusedError as exc:
        return refusal(request, str(exc), status=409)
    if snapshot is None:
        return refusal(request, f"There is no channel {topic}/{channel}.", status=404)
    state = request.GET.get("in", "")
    return begin(request, snapshot, text, "" if state == "all" else state)


def begin(request: CheckedRequest, snapshot: ChannelSnapshot, text: str, state: str) -> HttpResponse:
    """Begin a search, and go to its page."""
    first = request.GET.get("first", "")
    try:
        started = snapshot.source.start_search(
            snapshot.topic,
            snapshot.channel,
            text,
            state=state,
            first_offset=_first(first, state),
            user=request.user.get_username(),
        )
    except ReadRefusedError as exc:
        return refusal(request, str(exc), status=409)
    return HttpResponseRedirect(_url(snapshot, started.search_id))


def _first(text: str, state: str) -> int | None:
    """The offset at which a search begins: the given one, else at the log's oldest message where finished ones are
    wanted, else at the channel's first unfinished one."""
    if is_offset(text):
        return int(text)
    return 0 if state in ("", FINISHED) else None


@require_http_methods(["GET", "HEAD", "POST"])
@stands("empty_channel")
def message_search(request: CheckedRequest, topic: str, channel: str, search: str) -> HttpResponse:
    """GET shows a search, POST cancels it."""
    try:
        snapshot = channel_of(request, topic, channel)
    except ReadRefusedError as exc:
        return refusal(request, str(exc), status=409)
    if snapshot is None:
        return refusal(request, f"There is no channel {topic}/{channel}.", status=404)
    source = snapshot.source
    try:
        found = source.search_state(search)
        if (found.topic, found.channel) != (topic, channel):
            raise ReadRefusedError(f"{search} is a search in another channel.")
        if request.method == "POST":
            source.cancel_search(search)
            return HttpResponseRedirect(_url(snapshot, search))
        if found.hits:
            note_look(request, snapshot, [hit.row for hit in found.hits], detail=f"search for {found.text}")
    except ReadRefusedError:
        messages.warning(request, "That search has ended, and its results are gone: start it again.")
        return HttpResponseRedirect(snapshot.list_url)
    except NotAuditedError as exc:
        return not_audited(request, exc)
    context = {
        "topic": topic,
        "channel": channel,
        "node": snapshot.node,
        "list_url": snapshot.list_url,
        "search": found,
        "text": visible(found.text),
        "state": STATES.get(found.state),
        "hits": [_hit(snapshot, found, hit) for hit in found.hits],
        "is_running": found.status == RUNNING,
        "words": _words(found),
        "on_url": _on_url(snapshot, found),
        "search_url": _url(snapshot, search),
    }
    template = "messages/_search.html" if wants_fragment(request) else "pages/message_search.html"
    return render(request, template, context)


def _url(snapshot: ChannelSnapshot, search: str) -> str:
    return snapshot.at_node(reverse("message_search", args=(snapshot.topic, snapshot.channel, search)))


def _on_url(snapshot: ChannelSnapshot, found: SearchState) -> str:
    """The search that goes on where this one ended before its end."""
    if found.status == RUNNING or found.next_offset >= found.end_offset:
        return ""
    fields = {"text": found.text, "in": found.state or "all", "first": str(found.next_offset)}
    return snapshot.url_with(urlencode(fields))


def _words(found: SearchState) -> str:
    passed = f"{units.number(found.message_count)} of {units.plural(found.message_total, 'message')} looked at"
    read = f"{units.byte_count(found.scanned_bytes)} read"
    end = found.problem or _ENDS.get(found.status, "")
    return units.unbroken(f"{passed}, {read}. {end}".strip())


def _hit(snapshot: ChannelSnapshot, found: SearchState, hit: SearchHit) -> Hit:
    needle, around = found.text.encode(), hit.around
    at = max(0, around.find(needle))
    parts = (around[:at], around[at : at + len(needle)], around[at + len(needle) :])
    before, text, after = (visible(part.decode("utf-8", "replace")) for part in parts)
    row = hit.row
    return Hit(snapshot.message_url(row.message_id), row.message_id, row.offset, STATES[row.state], before, text, after)
