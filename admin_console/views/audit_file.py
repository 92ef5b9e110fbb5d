"""The acts of the HTTP API while no console ran: shown beside the audit list, and named as such."""

from dataclasses import dataclass
from urllib.parse import urlencode

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse

from admin_console.audit.engine_acts import FileRow, file_rows
from admin_console.audit.models import AuditRow, Verdict
from admin_console.vocabulary.times import column_time
from admin_console.vocabulary.units import UNKNOWN

PAGE_ROWS = 50


@dataclass(frozen=True, slots=True)
class FileLine:
    """One line of the file as the page shows it."""

    number: int | None
    verdict: str
    tone: str
    row: AuditRow | None = None
    at: str = ""  # HTML
    action: str = ""


def url_of_file() -> str:
    return f"{reverse('audit')}?from=file"


def file_page(request: HttpRequest) -> HttpResponse:
    """`?from=file&before=`: the number that the page begins below."""
    before = request.GET.get("before", "")
    start = int(before) if before.isascii() and before.isdigit() and len(before) < 19 else 0
    complaint = ""
    found: list[FileRow] = []
    has_older = False
    try:
        found, has_older = file_rows(settings.DATA_PATH, before=start, count=PAGE_ROWS)
    except OSError as exc:
        complaint = str(exc)
    oldest = next((one.number for one in reversed(found) if one.number is not None), None)
    context = {
        "lines": [_line(one) for one in found],
        "complaint": complaint,
        "newest_url": url_of_file() if start else "",
        "older_url": f"{reverse('audit')}?{urlencode({'from': 'file', 'before': oldest})}"
        if has_older and oldest
        else "",
    }
    return render(request, "audit/file.html", context)


def _line(one: FileRow) -> FileLine:
    row = one.row
    if row is None:
        return FileLine(None, "damaged", "danger", at=UNKNOWN)
    verdict, tone = {
        Verdict.DONE: ("done", ""),
        Verdict.PENDING: ("no result", "warning"),
    }.get(Verdict(row.verdict), ("failed", "danger"))
    return FileLine(one.number, verdict, tone, row, column_time(row.at_ms), row.action.replace("_", " "))
