"""Django's SQLite backend, with an eye on every error and on the file's place, and without following a symbolic link.

Django finds it by its settings: `"ENGINE": "admin_console.database"`.
"""

import os
import sqlite3
from pathlib import Path
from typing import Any

from django.db.backends.sqlite3 import base as sqlite
from django.db.utils import DatabaseErrorWrapper
from django.utils.functional import cached_property

from admin_console.database.condition import CONDITION
from admin_console.database.errors import NotAFileError
from admin_console.database.journals import JOURNALS
from admin_console.vocabulary.private_files import file_defect


class DatabaseWrapper(sqlite.DatabaseWrapper):
    """One connection."""

    _opened_file: tuple[int, int] | None = None

    def get_new_connection(self, conn_params: dict[str, Any]) -> Any:
        name = str(self.settings_dict["NAME"])
        if not name.startswith("file:"):
            # SQLite would follow a link, and write where it points to.
            for ending in ("", *JOURNALS):
                if kind := file_defect(Path(name + ending)):
                    raise NotAFileError(f"{name}{ending} is {kind}")
        opened = super().get_new_connection(conn_params)
        self._opened_file = self._file_now()
        return opened

    def close_if_file_moved(self) -> None:
        """Close the connection unless its file still lies where it was opened.

        For threads that keep their connection: a damaged database is set aside while the server runs, and later writes
        to it would be lost.
        """
        if self.connection is not None and self._file_now() != self._opened_file:
            self.close()

    def _file_now(self) -> tuple[int, int] | None:
        """Device and inode of the file that the settings name; None for a database in memory, or where none is."""
        try:
            stat = os.stat(str(self.settings_dict["NAME"]))
        except OSError:
            return None
        return stat.st_dev, stat.st_ino

    @cached_property
    def wrap_database_errors(self) -> "_WatchedErrors":
        return _WatchedErrors(self)


class _WatchedErrors(DatabaseErrorWrapper):
    """Django passes every error of the driver through here."""

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if isinstance(error, sqlite3.Error):
            CONDITION.saw(error)
        super().__exit__(kind, error, trace)
