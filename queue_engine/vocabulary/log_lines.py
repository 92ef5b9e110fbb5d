"""The form of a log line: the same in the server, the console, the worker and the demo.

    text   2026-11-22T18:42:03.120Z INFO queue_engine.service.runner: listening tcp=127.0.0.1:4150 …
    json   {"time":"2026-11-22T18:42:03.120Z","level":"INFO","logger":"queue_engine.service.runner","message":"…"}

Times are in UTC. A traceback follows a text line, indented, and is `traceback` of a JSON one.
"""

import contextlib
import logging
import re
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TextIO

import orjson

LEVELS = ("debug", "info", "warning", "error")
FORMATS = ("text", "json")
LEVEL_DEFAULT = "info"
FORMAT_DEFAULT = "text"
LEVEL_VARIABLE = "PENSTOCK_LOG_LEVEL"
FORMAT_VARIABLE = "PENSTOCK_LOG_FORMAT"

REPEATED_EVERY_S = 60.0
# How long after its minute a line may come again and bring its count with it.
PATIENCE_S = 5.0
# Different lines that are remembered to be recognized: about 300 KB.
REMEMBERED_MAX = 1_000
# Control characters, and others that some terminals or editors take for the end of a line or turn text around with.
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def level_of(environment: Mapping[str, str]) -> str:
    """The level as `logging` names it; the default for an unknown one: `serve` refuses that with a sentence."""
    text = environment.get(LEVEL_VARIABLE, LEVEL_DEFAULT)
    return (text if text in LEVELS else LEVEL_DEFAULT).upper()


def formatter_of(environment: Mapping[str, str]) -> logging.Formatter:
    """The formatter that the environment names."""
    return JsonLines() if is_json(environment) else TextLines()


def is_json(environment: Mapping[str, str]) -> bool:
    return environment.get(FORMAT_VARIABLE) == "json"


def configure(environment: Mapping[str, str]) -> None:
    """For processes that have no Django: lines to standard error."""
    handler = LineHandler()
    handler.setFormatter(formatter_of(environment))
    logging.basicConfig(level=level_of(environment), handlers=[handler])


def log_uncaught() -> None:
    """Have errors that nothing has caught logged as every other line, instead of printed: those of threads, of objects
    that are being removed, and the one that ends the process."""

    def log(logger_name: str, error: BaseException | None, text: str) -> None:
        if error is not None and not isinstance(error, SystemExit | KeyboardInterrupt):
            logging.getLogger(logger_name).critical("%s", text, exc_info=error)

    threading.excepthook = lambda event: log(
        "threading", event.exc_value, f"a thread ended with an error: {event.thread.name if event.thread else '?'}"
    )
    sys.unraisablehook = lambda event: log("sys", event.exc_value, event.err_msg or "an error was ignored")
    sys.excepthook = lambda kind, error, trace: log("sys", error, "the process ends with an error")


def line_of(logger: logging.Logger, message: str, environment: Mapping[str, str], level: int = logging.INFO) -> str:
    """A line that is written at any level: a message of the start to its user."""
    return formatter_of(environment).format(logging.LogRecord(logger.name, level, "", 0, message, None, None))


class TextLines(logging.Formatter):
    """A line for people. Text in a name or an error can't look like a line of its own: control characters of the
    message are escaped, a traceback is indented."""

    def format(self, record: logging.LogRecord) -> str:
        lines = [self.head(record) + _escaped(record.getMessage())]
        if record.exc_info:
            lines += ["    " + _escaped(line) for line in self.formatException(record.exc_info).split("\n")]
        return "\n".join(lines)

    def head(self, record: logging.LogRecord) -> str:
        """The part before the message."""
        return f"{_time_of(record)} {record.levelname} {record.name}: "


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


def _start_timer(delay_s: float, then: Callable[[], None]) -> None:
    timer = threading.Timer(delay_s, then)
    timer.daemon = True
    with contextlib.suppress(RuntimeError):  # the process ends, and `close` is called
        timer.start()


@dataclass(slots=True)
class _Written:
    """A line that was written. until_s: it is left out before that time."""

    until_s: float
    left_out: int = 0


# Logger, level, message, and the error with its place: two errors with the same message are two lines.
_Line = tuple[str, int, str, tuple[str, ...]]


class LineHandler(logging.StreamHandler[TextIO]):
    """Writes lines to standard error, the same one at most once a minute. How often it was left out stands behind it
    the next time, or in a line of its own: when it does not come again for some seconds, and when the log is closed.

    monotonic_s: the time. start_timer: calls a function on a thread of its own after a delay in seconds.
    """

    def __init__(
        self,
        stream: TextIO | None = None,
        *,
        monotonic_s: Callable[[], float] = time.monotonic,
        start_timer: Callable[[float, Callable[[], None]], None] = _start_timer,
    ) -> None:
        super().__init__(stream)
        self._monotonic_s = monotonic_s
        self._start_timer = start_timer
        self._written: dict[_Line, _Written] = {}  # the one that came last at the end
        self._is_timer_set = False

    def emit(self, record: logging.LogRecord) -> None:
        """Called with the handler's lock held."""
        try:
            line = (record.name, record.levelno, record.getMessage(), _error_of(record))
        except Exception:
            super().emit(record)  # which reports a call whose arguments don't fit
            return
        now_s = self._monotonic_s()
        written = self._written.pop(line, None)
        if written is not None and now_s < written.until_s:
            written.left_out += 1
            self._written[line] = written
            self._set_timer(written.until_s - now_s)
            return
        self._written[line] = _Written(now_s + REPEATED_EVERY_S)
        if written is not None and written.left_out:
            record = copy(record)
            record.msg, record.args = _with_count(line, written), None
        super().emit(record)
        if len(self._written) > REMEMBERED_MAX:
            oldest = next(iter(self._written))
            self._write_count(oldest, self._written.pop(oldest))

    def close(self) -> None:
        """Write the counts of omitted lines."""
        with self._locked():
            for line, written in self._written.items():
                self._write_count(line, written)
            self._written.clear()
        super().close()

    def _set_timer(self, delay_s: float) -> None:
        if not self._is_timer_set:
            self._is_timer_set = True
            self._start_timer(delay_s + PATIENCE_S, self._write_counts)

    def _write_counts(self) -> None:
        """On the timer's thread: write the counts of lines that have not come again since their minute ended."""
        with self._locked():
            self._is_timer_set = False
            now_s = self._monotonic_s()
            for line, written in list(self._written.items()):
                if written.until_s <= now_s:
                    del self._written[line]
                    self._write_count(line, written)
            waiting = [written.until_s for written in self._written.values() if written.left_out]
            if waiting:
                self._set_timer(min(waiting) - now_s)

    def _write_count(self, line: _Line, written: _Written) -> None:
        if written.left_out:
            name, level, *_ = line
            super().emit(logging.LogRecord(name, level, "", 0, _with_count(line, written), None, None))

    @contextmanager
    def _locked(self) -> Iterator[None]:
        self.acquire()
        try:
            yield
        finally:
            self.release()


def _with_count(line: _Line, written: _Written) -> str:
    times = "time" if written.left_out == 1 else "times"
    return f"{line[2]} (the same line {written.left_out:,} {times} more since it was last written)"


def _error_of(record: logging.LogRecord) -> tuple[str, ...]:
    """A text that identifies an error: the error itself would hold all that its frames hold."""
    error = record.exc_info[1] if record.exc_info else None
    if error is None:
        return ()
    frames = traceback.extract_tb(error.__traceback__)
    place = f"{frames[-1].filename}:{frames[-1].lineno}" if frames else ""
    return (type(error).__name__, str(error), place)


def _escaped(text: str) -> str:
    """The text with each character that ends a line or moves the cursor written as in Python."""
    return text if text.isprintable() else _CONTROL.sub(lambda found: repr(found[0])[1:-1], text)


def _time_of(record: logging.LogRecord) -> str:
    return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
