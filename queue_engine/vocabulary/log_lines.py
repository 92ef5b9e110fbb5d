"""What a line of the log looks like: the same in the server, the console, the worker and the demo.

    text   2026-11-22T18:42:03.120Z INFO queue_engine.service.runner: listening tcp=127.0.0.1:4150 …
    json   {"time":"2026-11-22T18:42:03.120Z","level":"INFO","logger":"queue_engine.service.runner","message":"…"}

Times are in UTC. A traceback follows a text line, and is `traceback` of a JSON one.
"""

import logging
import threading
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime

import orjson

LEVELS = ("debug", "info", "warning", "error")
FORMATS = ("text", "json")
LEVEL_DEFAULT = "info"
FORMAT_DEFAULT = "text"
LEVEL_VARIABLE = "PENSTOCK_LOG_LEVEL"
FORMAT_VARIABLE = "PENSTOCK_LOG_FORMAT"

REPEATED_EVERY_S = 60.0
# Different lines that are remembered to be recognized: about 300 KB.
REMEMBERED_MAX = 1_000


def level_of(environment: Mapping[str, str]) -> str:
    """The level as `logging` names it; the default for what is none: `serve` refuses that with a sentence."""
    text = environment.get(LEVEL_VARIABLE, LEVEL_DEFAULT)
    return (text if text in LEVELS else LEVEL_DEFAULT).upper()


def formatter_of(environment: Mapping[str, str]) -> logging.Formatter:
    """The formatter that the environment names."""
    return JsonLines() if is_json(environment) else TextLines()


def is_json(environment: Mapping[str, str]) -> bool:
    return environment.get(FORMAT_VARIABLE) == "json"


def configure(environment: Mapping[str, str]) -> None:
    """For processes that have no Django: lines to standard error."""
    handler = logging.StreamHandler()
    handler.setFormatter(formatter_of(environment))
    handler.addFilter(WithoutRepeats())
    logging.basicConfig(level=level_of(environment), handlers=[handler])


def line_of(logger: logging.Logger, message: str) -> str:
    """A line as JSON that is written whatever the level is: what the start has to say to its user."""
    return JsonLines().format(logging.LogRecord(logger.name, logging.INFO, "", 0, message, None, None))


class TextLines(logging.Formatter):
    """A line for people."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")

    def formatTime(self, record: logging.LogRecord, datefmt: str | None = None) -> str:
        return _time_of(record)


class JsonLines(logging.Formatter):
    """An object for programs, in one line."""

    def format(self, record: logging.LogRecord) -> str:
        fields = {
            "time": _time_of(record),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            fields["traceback"] = self.formatException(record.exc_info)
        # A lone surrogate, as in a file name that is not UTF-8, is none of JSON's characters.
        fields = {name: text.encode(errors="replace").decode() for name, text in fields.items()}
        return orjson.dumps(fields).decode()


class WithoutRepeats(logging.Filter):
    """Passes the same line at most once a minute; the next one that passes says how many were left out before it."""

    def __init__(self, monotonic_s: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._monotonic_s = monotonic_s
        self._mutex = threading.Lock()
        # Line → when it last passed, and how many were left out since. The oldest first.
        self._passed: dict[tuple[str, int, str], tuple[float, int]] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        try:
            text = record.getMessage()
        except Exception:
            return True  # the handler reports a call whose arguments don't fit
        line = (record.name, record.levelno, text)
        now_s = self._monotonic_s()
        with self._mutex:
            passed_s, left_out = self._passed.get(line, (-REPEATED_EVERY_S, 0))
            if now_s - passed_s < REPEATED_EVERY_S:
                self._passed[line] = (passed_s, left_out + 1)
                return False
            self._passed.pop(line, None)
            self._passed[line] = (now_s, 0)
            if len(self._passed) > REMEMBERED_MAX:
                del self._passed[next(iter(self._passed))]
        if left_out:
            record.msg, record.args = f"{text} (the same line {left_out:,} times more since it was last written)", None
        return True


def _time_of(record: logging.LogRecord) -> str:
    return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
