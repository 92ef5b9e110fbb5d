"""Acts on pipeline cursors: switching a topic's archive on and off, and deleting a cursor."""

from typing import Any

from django.conf import settings
from django.http import HttpRequest

from admin_console.gateway.gateway import ARCHIVE_CURSOR, CursorStats, Maker, Target, TopicStats
from admin_console.gateway.pipeline import get_pipeline
from admin_console.gateway.sentences import counted, given_up
from admin_console.screens.cursors import lost_archive
from admin_console.views.act_page import TOPIC, ActPage
from admin_console.views.audited_act import ComplaintError, NotThereError
from admin_console.views.question import Choice, Field, Question, typed_name_field
from admin_console.views.risky_acts import EXPECTED, expected_of
from admin_console.vocabulary import units

_STARTS = {"start": "the oldest message in the log", "end": "messages published from now on"}


class _CursorAct(ActPage):
    """An act on one cursor of a topic. Acts that give up messages require its typed name."""

    cursor = ""

    def setup(self, request: HttpRequest, *args: Any, **kwargs: Any) -> None:
        super().setup(request, *args, **kwargs)
        self.cursor = kwargs.get("cursor", self.cursor)

    @property
    def name(self) -> str:
        return f"{self.topic}/{self.cursor}"

    @property
    def part(self) -> str:
        return f"cursor {self.cursor}"

    def logged_topic(self) -> TopicStats:
        """The topic at this moment. Raises NotThereError, also when it is not of the log."""
        topic = self.topic_stats()
        if topic.storage != "log":
            raise NotThereError(
                f"Topic {self.topic} has storage kind {topic.storage}: only topics of the log can be archived."
            )
        return topic

    def cursor_stats(self) -> CursorStats:
        """The cursor at this moment. Raises NotThereError."""
        for cursor in self.logged_topic().cursors:
            if cursor.cursor == self.cursor:
                return cursor
        raise NotThereError(
            f"The archive of {self.topic} is off."
            if self.cursor == ARCHIVE_CURSOR
            else f"Topic {self.topic} has no pipeline cursor {self.cursor}."
        )

    def ending(self, title: str, button: str) -> Question:
        """The question before the cursor is deleted."""
        cursor = self.cursor_stats()
        lost = (
            f"This gives up {given_up(cursor.depth, self.cursor)}."
            if cursor.depth
            else "Nothing is lost: it has read every message."
        )
        consequence = (
            f"The log keeps {units.byte_count(cursor.lag_bytes)} for it now; deleting it frees what no channel needs."
        )
        return self.pose(
            title,
            [
                lost,
                *([consequence] if cursor.lag_bytes else []),
                "The topic's channels keep their messages. Archived messages stay in the archive.",
            ],
            [Field(EXPECTED, "", kind="hidden", value=str(cursor.depth)), typed_name_field(self.name)],
            button=button,
            is_dangerous=True,
        )

    def audit_detail(self, details: dict[str, Any]) -> str:
        return f"cursor {self.cursor}"


class DeleteCursor(_CursorAct):
    routes = {"delete_cursor": f"{TOPIC}/~cursors/<name:cursor>/~delete/"}

    def question(self) -> Question:
        return self.ending(f"Delete the pipeline cursor {self.name}", f"Delete {self.name}")

    def details(self) -> dict[str, Any]:
        self.check_typed_name()
        return {"cursor": self.cursor, **expected_of(self.request.POST.get(EXPECTED, ""))}


class ArchiveOff(DeleteCursor):
    routes = {"archive_off": f"{TOPIC}/~archive-off/"}

    cursor = ARCHIVE_CURSOR

    def question(self) -> Question:
        return self.ending(f"Stop archiving {self.topic}", f"Stop archiving {self.topic}")


class ArchiveOn(_CursorAct):
    routes = {"archive_on": f"{TOPIC}/~archive-on/"}

    cursor = ARCHIVE_CURSOR

    def setup(self, request: HttpRequest, *args: Any, **kwargs: Any) -> None:
        super().setup(request, *args, **kwargs)
        self.complaint = get_pipeline(settings.DATA_PATH).complaint_about_place()

    def question(self) -> Question:
        topic = self.logged_topic()
        if self.complaint:
            return self.pose(f"Archive {self.topic}", [self.complaint], [self.start_field()])
        archive = next((one for one in topic.cursors if one.cursor == ARCHIVE_CURSOR), None)
        if archive is None:
            consequences = [
                "The log keeps every message of the topic until it is archived.",
                "Its channels and consumers are not affected.",
            ]
        else:
            to_archive = counted(archive.depth, "message")
            consequences = [f"It is on already, with {to_archive} still to be archived; nothing will change."]
        return self.pose(f"Archive {self.topic}", consequences, [self.start_field()])

    def start_field(self) -> Field:
        chosen = self.request.POST.get("start", "start")
        choices = tuple(Choice(value, label, value == chosen) for value, label in _STARTS.items())
        return Field("start", "Archive from", kind="select", choices=choices)

    def details(self) -> dict[str, Any]:
        if self.complaint:
            raise ComplaintError(f"{self.complaint} Nothing was done.")
        start = self.request.POST.get("start", "start")
        if start not in _STARTS:
            raise ComplaintError(f"{start[:40]!r} is neither start nor end. Nothing was done.")
        return {"cursor": ARCHIVE_CURSOR, "start": Target(word=start), "maker": Maker(self.request.user.get_username())}

    def audit_detail(self, details: dict[str, Any]) -> str:
        return f"from {_STARTS[details['start'].word]}"


class ArchiveAgain(ArchiveOn):
    """For an archive whose table is gone, was put back to an earlier state, or lacks files."""

    routes = {"archive_again": f"{TOPIC}/~archive-again/"}

    def question(self) -> Question:
        self.cursor_stats()
        lost = lost_archive(self.logged_topic(), get_pipeline(settings.DATA_PATH).view())
        if lost is not None and lost.is_partial:
            return self.pose(
                f"Write missing files of {self.topic}",
                [
                    lost.error,
                    "If the files are restored, the archive continues by itself.",
                    "From the oldest message: messages of these files that the log still has are written again, once.",
                    "From now on: these messages are given up for good, and those that are not archived yet, too.",
                    "The view archive_gaps lists lost messages.",
                    "Channels keep their messages.",
                ],
                [self.start_field(), typed_name_field(self.name)],
                button=f"Write missing files of {self.topic}",
                is_dangerous=True,
            )
        return self.pose(
            f"New table for {self.topic}",
            [
                "For a table that is lost or was restored to an earlier state.",
                "If its last state is restored, the archive continues by itself.",
                "From the oldest message: all messages still in the log are archived again, each once.",
                "From now on: messages that are not archived yet are given up, too.",
                "The view archive_gaps lists lost messages and the start of the new table.",
                "Channels keep their messages.",
            ],
            [self.start_field(), typed_name_field(self.name)],
            button=f"New table for {self.topic}",
            is_dangerous=True,
        )

    def details(self) -> dict[str, Any]:
        self.check_typed_name()
        return super().details()
