"""The audit list, newest first, by actor, action and object."""

from dataclasses import dataclass
from urllib.parse import urlencode

from django.conf import settings
from django.db.models import Exists, OuterRef, Q, QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_safe

from admin_console.audit.chain import COLUMNS
from admin_console.audit.engine_acts import has_file_rows
from admin_console.audit.models import ACTOR_WORDS, AuditRow, Phase, Verdict
from admin_console.audit.upkeep import ChainState, ListSize, chain_state, list_size
from admin_console.audit.verification import AGEING, StoredRow, complaint_about
from admin_console.gateway.gateway import ACTS
from admin_console.views.audit_file import file_page, url_of_file
from admin_console.views.notices import waiting_rows
from admin_console.vocabulary.times import column_time
from admin_console.vocabulary.units import UNKNOWN, byte_count, moment

PAGE_ROWS = 25

_FURTHER_ACTIONS = (
    "foreign_request",
    "log_in",
    "log_out",
    "change_password",
    "add_user",
    "change_role",
    "set_password",
    "disable_user",
    "enable_user",
    "query_archive",
    AGEING,
)
# Older rows keep the old name of an act: rows are never changed.
_NEW_NAMES = {"seek_channel": "rewind_channel"}
# Counts that are no numbers of things.
_PLACES = ("first_offset", "last_offset")
# Shown for an intent without a result: the process ended in between.
_WITHOUT_RESULT = "no result"


@dataclass(frozen=True, slots=True)
class AuditLine:
    """One row as the page shows it."""

    row: AuditRow
    at: str  # HTML; "–" where the row has no valid time
    action: str
    verdict: str
    tone: str
    counts: str
    is_as_written: bool  # its hash fits its content


@require_safe
def audit_list(request: HttpRequest) -> HttpResponse:
    """`?actor=&action=&object=&before=`: filters, and the id that the page begins below. `?from=file`: another list."""
    if request.GET.get("from") == "file":
        return file_page(request)
    wanted = {name: request.GET.get(name, "").strip()[:140] for name in ("actor", "action", "object")}
    before = request.GET.get("before", "")
    rows = list(_rows(**{f"{name}_text": text for name, text in wanted.items()}, before=before)[: PAGE_ROWS + 1])
    page = rows[:PAGE_ROWS]
    filters = {name: text for name, text in wanted.items() if text}
    base = reverse("audit")
    context = {
        "lines": [_line(row) for row in page],
        "wanted": wanted,
        "actions": sorted({*ACTS, *_FURTHER_ACTIONS}),
        "is_filtered": bool(filters),
        "file_url": url_of_file() if has_file_rows(settings.DATA_PATH) else "",
        "rows_wait": waiting_rows() is not None,
        "chain": _chain_sentence(chain_state()),
        "size": _size_sentence(list_size(), chain_state()),
        "page_words": _page_words(page),
        "older_url": f"{base}?{urlencode({**filters, 'before': page[-1].pk})}" if len(rows) > PAGE_ROWS else "",
        "newest_url": f"{base}?{urlencode(filters)}" if before else "",
    }
    return render(request, "audit/list.html", context)


def _rows(*, actor_text: str, action_text: str, object_text: str, before: str) -> "QuerySet[AuditRow]":
    """Results, events and refusals; and intents that have no result."""
    results = AuditRow.objects.filter(act_id=OuterRef("act_id"), phase=Phase.RESULT)
    rows = AuditRow.objects.filter(~Q(phase=Phase.INTENT) | ~Exists(results)).order_by("-id")
    if actor_text:
        word, _, name = actor_text.partition(" ")
        via = next((via for via, found in ACTOR_WORDS.items() if found == word and name), "")
        rows = rows.filter(actor=name, via=via) if via else rows.filter(actor=actor_text)
    if action_text:
        rows = rows.filter(action__in=[action_text, *(old for old, new in _NEW_NAMES.items() if new == action_text)])
    if object_text:
        topic, slash, channel = object_text.partition("/")
        # A replay's detail has its request behind its name, and an act's on a named cluster begins "cluster prod, ".
        about = Q(detail=topic) | Q(detail__startswith=f"{topic}: ") | Q(detail__startswith=f"{topic}, ")
        rows = rows.filter(topic=topic, channel=channel) if slash else rows.filter(Q(topic=topic) | about)
    if before.isascii() and before.isdigit() and len(before) < 19:
        rows = rows.filter(pk__lt=int(before))
    return rows


def _page_words(page: list[AuditRow]) -> str:
    """Which rows these are, by their numbers in the list."""
    return "" if not page else f"rows {page[0].pk:,} to {page[-1].pk:,}"


def _chain_sentence(state: ChainState | None) -> str:
    """Whether the rows are as they were written, as far as they are checked; "" before the first check."""
    if state is None or not state.checked_ms:
        return ""
    if state.faults:
        return f"Not as it was written: {state.faults[0]}"
    rows = "1 row" if state.row_count == 1 else f"{state.row_count:,} rows"
    if not state.is_complete:
        return f"Checking whether a row was changed: {rows} so far, none was."
    at = moment(state.checked_ms)
    return f"No row was changed or removed: {rows}, checked up to row {state.last_id:,} at {at} UTC."


def _size_sentence(size: ListSize | None, state: ChainState | None) -> str:
    """How large the list is, how large it may become, and where it begins; "" before it was measured."""
    if size is None:
        return ""
    limit = f"of at most {byte_count(size.bytes_max)}" if size.bytes_max else "without a limit"
    sentence = f"The list takes {byte_count(size.bytes)} {limit}"
    if size.oldest_ms:
        sentence += f"; its oldest row is of {moment(size.oldest_ms)} UTC"
    if size.bytes_max and size.bytes > size.bytes_max and state is not None and state.faults:
        return f"{sentence}. No row is removed while it is not as it was written."
    return f"{sentence}."


_TONES: dict[str, str] = {
    Verdict.DONE: "",
    Verdict.FAILED: "danger",
    Verdict.UNKNOWN: "warning",
    Verdict.REFUSED: "warning",
}


def _line(row: AuditRow) -> AuditLine:
    """One line for any row: a row written past Penstock may have no valid verdict, time or number."""
    is_orphan = row.phase == Phase.INTENT
    return AuditLine(
        row=row,
        at=column_time(row.at_ms) if isinstance(row.at_ms, int) else UNKNOWN,
        action=_NEW_NAMES.get(row.action, row.action).replace("_", " "),
        verdict=_WITHOUT_RESULT if is_orphan else row.verdict,
        tone="warning" if is_orphan else _TONES.get(row.verdict, ""),
        is_as_written=not complaint_about(
            StoredRow(row.pk, row.previous_hash, row.hash, {name: getattr(row, name) for name in COLUMNS})
        ),
        counts=_counts(row.counts),
    )


def _counts(counts: object) -> str:
    if not isinstance(counts, dict):
        return ""
    # Times are in the sentence.
    numbers = [(name, n) for name, n in sorted(counts.items()) if isinstance(n, int) and not name.endswith("_ms")]
    return ", ".join(
        f"{name.replace('_', ' ')} {n:,}" if name in _PLACES else f"{n:,} {name.replace('_', ' ')}"
        for name, n in numbers
    )
