"""How long and how much of a topic the archive keeps: set on the topic's page, applied by housekeeping."""

import re
from typing import Any

from django.conf import settings
from django.http import HttpRequest

from admin_console.gateway.gateway import ActResult
from admin_console.gateway.pipeline import ArchivedTopic, ArchiveLimits, get_pipeline
from admin_console.gateway.sentences import counted
from admin_console.views.act_page import TOPIC, ActPage
from admin_console.views.audited_act import ComplaintError
from admin_console.views.question import Choice, Field, Question
from admin_console.vocabulary import units

DAY_MS = 86_400_000
DAYS_MAX = 36_500
GIB_MAX = 1_000_000
_DEFAULT, _OWN = "default", "own"
_DAYS = re.compile(r"[0-9]{1,6}")
_GIB = re.compile(r"[0-9]{1,7}(\.[0-9]{1,3})?")


class SetArchiveLimits(ActPage):
    """Set own limits, or return to those of the server's options."""

    routes = {"set_archive_limits": f"{TOPIC}/~archive-limits/"}

    def setup(self, request: HttpRequest, *args: Any, **kwargs: Any) -> None:
        super().setup(request, *args, **kwargs)
        self.pipeline = get_pipeline(settings.DATA_PATH)

    def question(self) -> Question:
        own, complaint = self.pipeline.archive_limits(self.topic)
        usual = self.pipeline.usual_limits
        posted = self.request.POST
        chosen = posted.get("which", _OWN if own is not None else _DEFAULT)
        limits = own or ArchiveLimits()
        return self.pose(
            f"Limits of the archive of {self.topic}",
            [
                *([complaint] if complaint else []),
                self._held(),
                "Messages beyond a limit leave the archive within minutes, oldest first. This can't be undone.",
                "Messages in the log and in channels stay.",
            ],
            [
                Field(
                    "which",
                    "Limits",
                    kind="select",
                    choices=(
                        Choice(_DEFAULT, f"the default of all topics: {worded(usual)}", chosen == _DEFAULT),
                        Choice(_OWN, "of this topic", chosen == _OWN),
                    ),
                ),
                Field(
                    "days",
                    "Keep for, days",
                    value=posted.get("days", _days(limits.keep_ms)),
                    length_max=6,
                    help="A whole number; empty: for ever.",
                ),
                Field(
                    "gib",
                    "Keep at most, GiB",
                    value=posted.get("gib", _gib(limits.keep_bytes)),
                    length_max=12,
                    help="Such as 0.5 or 20; empty: no limit.",
                ),
            ],
            button=f"Set limits of {self.topic}",
            is_dangerous=True,
        )

    def details(self) -> dict[str, Any]:
        posted = self.request.POST
        which, days, gib = (posted.get(name, "").strip() for name in ("which", "days", "gib"))
        if which not in (_DEFAULT, _OWN):
            raise ComplaintError(f"Limits: {which[:40]!r} is neither {_DEFAULT} nor {_OWN}. Nothing was done.")
        if which == _DEFAULT:
            return {"limits": None}
        complaints = []
        if days and not (_DAYS.fullmatch(days) and 1 <= int(days) <= DAYS_MAX):
            complaints.append(f"Keep for: {days[:40]!r} is not a whole number of days from 1 to {DAYS_MAX:,}.")
        if gib and not (_GIB.fullmatch(gib) and 0.001 <= float(gib) <= GIB_MAX):
            complaints.append(f"Keep at most: {gib[:40]!r} is not a number of GiB from 0.001 to {GIB_MAX:,}.")
        if complaints:
            raise ComplaintError(*complaints)
        keep_bytes = round(float(gib) * (1 << 30)) if gib else 0
        return {"limits": ArchiveLimits(int(days) * DAY_MS if days else 0, keep_bytes)}

    def audit_detail(self, details: dict[str, Any]) -> str:
        return worded(details["limits"]) if details["limits"] is not None else "as of all topics"

    def do(self, details: dict[str, Any]) -> ActResult:
        return self.done_beside(lambda: self.pipeline.set_archive_limits(self.topic, details["limits"]))

    def _held(self) -> str:
        """A sentence about the topic's archive now, with its oldest message, which a limit would remove first."""
        held = [one for one in self.pipeline.view().topics if one.topic == self.topic and one.rows]
        if not held:
            return "The archive has no messages of it yet."
        rows, size = sum(one.rows for one in held), sum(one.bytes for one in held)
        return f"The archive has {counted(rows, 'message')} of it, {units.byte_count(size)}{_since(held)}."


def worded(limits: ArchiveLimits) -> str:
    """`30 days, at most 20 GiB`."""
    parts = []
    if limits.keep_ms:
        whole = limits.keep_ms % DAY_MS == 0
        parts.append(counted(limits.keep_ms // DAY_MS, "day") if whole else units.duration(limits.keep_ms / 1000))
    if limits.keep_bytes:
        parts.append(f"at most {units.byte_count(limits.keep_bytes)}")
    return ", ".join(parts) or "no limit"


def _since(held: list[ArchivedTopic]) -> str:
    times = [one.first_time_ms for one in held if one.first_time_ms is not None]
    return f", the oldest published at {units.moment(min(times))} UTC" if times else ""


def _days(keep_ms: int) -> str:
    return str(-(-keep_ms // DAY_MS)) if keep_ms else ""


def _gib(keep_bytes: int) -> str:
    return f"{keep_bytes / (1 << 30):.3f}".rstrip("0").rstrip(".") if keep_bytes else ""
