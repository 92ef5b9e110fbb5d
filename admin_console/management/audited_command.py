"""Writes a command's acts to the audit list: the intent before an act, the result after it."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

from django.conf import settings
from django.core.management.base import CommandError
from django.db import DatabaseError

from admin_console.audit.models import Verdict
from admin_console.audit.record import begin_command
from admin_console.database.errors import Trouble, trouble_of
from admin_console.database.version import complaint_about_version
from queue_engine.vocabulary.errors import OutcomeUnknownError, PenstockError


@contextmanager
def audited(by: str, action: str, detail: str, *, topic: str = "") -> Iterator[list[str]]:
    """A context manager: write the intent, then the result of the act within: the last sentence in the list it yields.
    A directory without a console has no audit list. by: the account of the operating system. Raises CommandError where
    the list can't be written."""
    sentences: list[str] = []
    database = settings.DATABASES["default"]["NAME"]
    if not os.path.lexists(database):
        yield sentences
        return
    if complaint := complaint_about_version(database):
        raise CommandError(complaint)
    with _named_trouble("Nothing was changed."):
        act = begin_command(by, action, detail=detail, topic=topic)
    try:
        yield sentences
    except PenstockError as exc:
        with _named_trouble(f"{exc}."):
            act.finish(Verdict.UNKNOWN if isinstance(exc, OutcomeUnknownError) else Verdict.FAILED, str(exc))
        raise
    with _named_trouble("It was done, and the audit list has only that it was begun."):
        act.finish(Verdict.DONE, sentences[-1])


@contextmanager
def _named_trouble(consequence: str) -> Iterator[None]:
    """Turn errors of the database into a CommandError that names the database and the consequence."""
    try:
        yield
    except DatabaseError as exc:
        if trouble_of(exc) is Trouble.NONE:
            raise
        raise CommandError(f"The console's database can't be used: {exc}. {consequence}") from exc
