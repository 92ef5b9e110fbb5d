"""Logs a line instead of a traceback for refused database writes: the reason is clear, and may repeat with every
request."""

import logging

from admin_console.database.errors import Trouble, sqlite_error_of, trouble_of


class RefusedWriteFilter(logging.Filter):
    """Takes the traceback off a record that is about a refused or damaged database, and names the reason instead."""

    def filter(self, record: logging.LogRecord) -> bool:
        error = record.exc_info[1] if isinstance(record.exc_info, tuple) else None
        if error is not None and trouble_of(error) is not Trouble.NONE:
            record.msg = f"{record.getMessage()}: the console's database: {sqlite_error_of(error)}".replace("%", "%%")
            record.args = ()
            record.exc_info = record.exc_text = None
        return True
