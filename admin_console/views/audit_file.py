"""The acts of the HTTP API while no console ran: shown beside the audit list, and named as such."""

from dataclasses import dataclass
from urllib.parse import urlencode

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse

from admin_console.audit.models import who_of
from admin_console.gateway.act_file import FileAct, file_acts
from admin_console.vocabulary.times import column_time
from admin_console.vocabulary.units import UNKNOWN

PAGE_ROWS = 50


@dataclass(frozen=True, slots=True)
class FileLine:
    """One line of the file as the page shows it."""

    act: FileAct
    who: str
    at: str  # HTML
    action: str
    verdict: str
    tone: str


def url_of_file() -> str:
    return f"{reverse('audit')}?from=file"


def file_page(request: HttpRequest) -> HttpResponse:
    """`?from=file&before=`: the number that the page begins below."""
    before = request.GET.get("before", "")
    start = int(before) if before.isascii() and before.isdigit() and len(before) < 19 else 0
    complaint = ""
    acts: list[FileAct] = []
    has_older = False
    try:
        acts, has_older = file_acts(settings.DATA_PATH, before=start, count=PAGE_ROWS)
    except OSError as exc:
        complaint = str(exc)
    oldest = next((act.number for act in reversed(acts) if act.number is not None), None)
    context = {
        "lines": [_line(act) for act in acts],
        "complaint": complaint,
        "newest_url": url_of_file() if start else "",
        "older_url": f"{reverse('audit')}?{urlencode({'from': 'file', 'before': oldest})}"
        if has_older and oldest
        else "",
    }
    return render(request, "audit/file.html", context)


def _line(act: FileAct) -> FileLine:
    if act.number is None:
        return FileLine(act, "", UNKNOWN, "", "damaged", "danger")
    verdict, tone = ("done", "") if act.is_done else ("failed", "danger") if act.is_over else ("no result", "warning")
    at = column_time(act.at_ms)
    return FileLine(act, who_of(act.actor, act.via), at, act.action.replace("_", " "), verdict, tone)
