"""The trash: emptied or deleted messages of topics of the log, which can be restored or deleted for good."""

import re
from dataclasses import dataclass
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_safe

from admin_console.gateway.gateway import TrashStats, format_duration, get_gateway
from admin_console.gateway.sentences import counted, message_counts
from admin_console.permissions.allowed import CheckedRequest
from admin_console.views.act_page import TOPIC, ActPage
from admin_console.views.audited_act import ComplaintError, NotThereError
from admin_console.views.question import Choice, Field, Question
from admin_console.views.standing import stands
from admin_console.vocabulary import units
from admin_console.vocabulary.times import column_time

PAGE_ENTRIES = 50
# Of an entry of 0 bytes.
COSTS_NOTHING = (
    "0 B on disk: the log keeps no segment for the entry alone. Its messages are in a segment that is still written, "
    "which a full disk completes and removes, or in one that channels, cursors or the retention keep anyway."
)
_ACT_WORDS = {
    "empty_topic": "Emptied",
    "empty_channel": "Emptied",
    "delete_topic": "Deleted",
    "delete_channel": "Deleted",
}


@dataclass(frozen=True, slots=True)
class TrashLine:
    """One entry as the page shows it. act_word: the act in a word; left: until it is deleted for good."""

    entry: TrashStats
    act_word: str
    at: str
    left: str
    until: str
    counts: str
    size: str
    size_title: str


@require_safe
@stands("delete_trash", "The trash")
def trash_page(request: CheckedRequest) -> HttpResponse:
    """`?before=TIME-ID`: time (Unix ms) and id of the entry that the page begins below, which may be gone."""
    gateway = get_gateway()
    before = _place_of(request.GET.get("before", ""))
    page = gateway.trash(PAGE_ENTRIES, before=before)
    node = gateway.node()
    last = page.entries[-1] if page.entries else None
    context = {
        "lines": [_line(entry) for entry in page.entries],
        "here": _page_url(before),
        "age": format_duration(node.trash_age_ms) if node.trash_age_ms else "",
        "reason": request.why_not.line({"restore_trash": "Restore", "delete_trash": "Delete"}) if page.entries else "",
        "count": _entries(page.count),
        "size": units.byte_count(page.bytes),
        "size_title": f"{page.bytes} bytes: the log would be smaller by so much without the trash. Segments that "
        "several entries need count once.",
        "costs_nothing": COSTS_NOTHING,
        "has_free": any(entry.restorable and not entry.bytes for entry in page.entries),
        "is_empty": not page.count,
        "page_words": f"{_entries(len(page.entries))} of {page.count:,}",
        "older_url": _page_url((last.at_ms, last.id)) if last and page.has_older else "",
        "newest_url": _page_url(None) if before else "",
    }
    return render(request, "pages/trash.html", context)


def _place_of(text: str) -> tuple[int, int] | None:
    found = re.fullmatch(r"([0-9]{1,18})-([0-9]{1,18})", text, re.ASCII)
    return (int(found[1]), int(found[2])) if found else None


def _page_url(before: tuple[int, int] | None) -> str:
    return reverse("trash") if before is None else f"{reverse('trash')}?before={before[0]}-{before[1]}"


def _entries(count: int) -> str:
    return "1 entry" if count == 1 else f"{count:,} entries"


def _line(entry: TrashStats) -> TrashLine:
    return TrashLine(
        entry,
        _ACT_WORDS.get(entry.act, entry.act),
        column_time(entry.at_ms),
        units.duration(max(0, entry.until_ms - units.now_ms()) / 1_000),
        units.moment(entry.until_ms),
        message_counts(entry.waiting, entry.in_flight, entry.deferred, entry.quarantined) or "no messages",
        units.byte_count(entry.bytes),
        f"{entry.bytes} bytes" if entry.bytes else COSTS_NOTHING if entry.restorable else "It has no messages.",
    )


def _name_of(entry: TrashStats) -> str:
    return f"{entry.topic}/{entry.channel}" if entry.channel else entry.topic


class _TrashAct(ActPage):
    """An act on one entry; its topic is in the path, since a role may be for some topics alone."""

    def setup(self, request: HttpRequest, *args: Any, **kwargs: Any) -> None:
        super().setup(request, *args, **kwargs)
        self.trash: int = kwargs["trash"]

    @property
    def part(self) -> str:
        return f"trash {self.trash}"

    @property
    def page_url(self) -> str:
        return reverse("trash")

    def entry(self) -> TrashStats:
        """Raises NotThereError with the likely reason."""
        entry = self.gateway.trash_entry(self.trash, self.topic)
        if entry is not None:
            return entry
        raise NotThereError(
            f"The trash has nothing of {self.topic} under the number {self.trash} any more: it was restored, deleted "
            "for good, expired, or given up because the disk was full."
        )

    def details(self) -> dict[str, Any]:
        self.channel = ""
        return {"trash": self.trash}

    def audit_detail(self, details: dict[str, Any]) -> str:
        return f"trash entry {self.trash}"


class RestoreTrash(_TrashAct):
    routes = {"restore_trash": f"{TOPIC}/~trash/<int:trash>/~restore/"}

    def question(self) -> Question:
        entry = self.entry()
        lives = any(topic.topic_name == entry.topic for topic in self.gateway.exact(entry.topic).topics)
        is_topic = entry.act == "delete_topic"
        name = _name_of(entry)
        fields = []
        back = (
            f"{counted(entry.restorable, 'message')} will come back, with their attempts and due times. Finished "
            "messages stay finished."
            if entry.restorable
            else "It has no messages to restore."
        )
        if is_topic and lives:
            consequence = f"Another topic is named {entry.topic} now."
            fields.append(
                Field(
                    "swap",
                    "Its name",
                    kind="radio",
                    choices=(
                        Choice("false", f"Restore it beside that one, as {entry.topic}.restored", True),
                        Choice("true", "Swap places: that one goes to the trash, and its consumers are disconnected"),
                    ),
                )
            )
        elif is_topic:
            channels = "channel" if entry.channels == 1 else counted(entry.channels, "channel")
            its = f" and its {channels}" if entry.channels else ""
            consequence = f"The topic{its} will exist again."
        elif entry.act == "delete_channel":
            consequence = (
                "If it was created again, the messages are added to it; messages in flight stay with their consumers."
            )
        else:
            consequence = "The messages come before all messages in the queue now."
        return self.pose(f"Restore {name}", [back, consequence], fields, button=f"Restore {name}")

    def details(self) -> dict[str, Any]:
        swap = self.request.POST.get("swap", "false")
        if swap not in ("true", "false"):
            raise ComplaintError(f"{swap[:40]!r} is neither true nor false. Nothing was done.")
        by = self.request.user.get_username()
        return {**super().details(), "swap": swap == "true", "by": by}


class DeleteTrash(_TrashAct):
    routes = {"delete_trash": f"{TOPIC}/~trash/<int:trash>/~delete/"}

    def question(self) -> Question:
        entry = self.entry()
        counts = message_counts(entry.waiting, entry.in_flight, entry.deferred, entry.quarantined) or "no messages"
        return self.pose(
            f"Delete {_name_of(entry)} for good",
            [
                f"This entry of the trash, with {counts}, will be deleted. This can't be undone.",
                "A topic or channel that has its name now stays as it is.",
                f"The disk gets {units.byte_count(entry.bytes)} back where no other entry needs it."
                if entry.bytes
                else "This frees no disk space now.",
            ],
            is_dangerous=True,
        )
