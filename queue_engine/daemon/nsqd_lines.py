"""Lines of the log in nsqd's form.

[nsqd] 2026/11/22 18:42:03.120345 INFO: TCP: listening on 127.0.0.1:4150
prefix local time                 level: message
"""

import logging
from datetime import datetime

from queue_engine.vocabulary.log_lines import TextLines


class NsqdLines(TextLines):
    """prefix: the text before each line, a blank at its end included."""

    def __init__(self, prefix: str) -> None:
        super().__init__()
        self._prefix = prefix

    def head(self, record: logging.LogRecord) -> str:
        time = datetime.fromtimestamp(record.created).strftime("%Y/%m/%d %H:%M:%S.%f")
        level = "FATAL" if record.levelno >= logging.CRITICAL else record.levelname
        return f"{self._prefix}{time} {level}: "
