"""Writes the time of each log-in, and leaves it out while the disk refuses it."""

import logging
from typing import Any

from django.db import DatabaseError
from django.utils import timezone

from admin_console.accounts.models import User
from admin_console.database.errors import Trouble, trouble_of

logger = logging.getLogger(__name__)


def note_last_login(user: User, **_: Any) -> None:
    """The receiver of Django's signal `user_logged_in`."""
    user.last_login = timezone.now()
    try:
        user.save(update_fields=["last_login"])
    except DatabaseError as exc:
        if trouble_of(exc) is not Trouble.REFUSED:
            raise
        logger.warning("the time of a log-in is not written: user=%s error=%s", user.username, exc)
