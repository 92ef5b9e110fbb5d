"""Django's SQLite backend, with an eye on every error, and without following a symbolic link.

Django finds it by its settings: `"ENGINE": "admin_console.database"`.
"""

import sqlite3
from pathlib import Path
from typing import Any

from django.db.backends.sqlite3 import base as sqlite
from django.db.utils import DatabaseErrorWrapper
from django.utils.functional import cached_property

from admin_console.database.condition import CONDITION
from admin_console.database.errors import NotAFileError
from admin_console.database.journals import JOURNALS
from admin_console.private_files import what_is_wrong


class DatabaseWrapper(sqlite.DatabaseWrapper):
    """One connection."""

    def get_new_connection(self, conn_params: dict[str, Any]) -> Any:
        name = str(self.settings_dict["NAME"])
        if not name.startswith("file:"):
            # SQLite would follow a link, and write where it points to.
            for ending in ("", *JOURNALS):
                if kind := what_is_wrong(Path(name + ending)):
                    raise NotAFileError(f"{name}{ending} is {kind}")
        return super().get_new_connection(conn_params)

    @cached_property
    def wrap_database_errors(self) -> "_WatchedErrors":
        return _WatchedErrors(self)


class _WatchedErrors(DatabaseErrorWrapper):
    """Django passes every error of the driver through here."""

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if isinstance(error, sqlite3.Error):
            CONDITION.saw(error)
        super().__exit__(kind, error, trace)
