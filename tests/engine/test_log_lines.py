"""What a line of the log looks like, and how often the same one is written."""

import io
import json
import logging
import sys
import threading
from collections.abc import Callable
from datetime import UTC, datetime

import pytest

from queue_engine.vocabulary.log_lines import REMEMBERED_MAX, LineHandler, formatter_of, level_of, log_uncaught
from tests.support.clock import ManualClock

AT_S = datetime(2026, 11, 22, 18, 42, 3, 120_000, tzinfo=UTC).timestamp()


def record_of(message: str, *args: object, level: int = logging.INFO, error: bool = False) -> logging.LogRecord:
    record = logging.LogRecord("queue_engine.x", level, "", 0, message, args, sys.exc_info() if error else None)
    record.created = AT_S
    return record


class Log:
    """A log on a clock that the test moves, which calls what was to be called by then."""

    def __init__(self) -> None:
        self._clock = ManualClock()
        self._due: list[tuple[float, Callable[[], None]]] = []
        self._stream = io.StringIO()
        self.handler = LineHandler(self._stream, monotonic_s=self._now_s, start_timer=self._start_timer)
        self._logger = logging.Logger("queue_engine.x")
        self._logger.addHandler(self.handler)

    def _now_s(self) -> float:
        return self._clock.monotonic_ns() / 1e9

    def _start_timer(self, delay_s: float, then: Callable[[], None]) -> None:
        self._due.append((self._now_s() + delay_s, then))

    def lines(self) -> list[str]:
        """What was written since the last call."""
        written = self._stream.getvalue()
        self._stream.seek(0)
        self._stream.truncate()
        return written.splitlines()

    def advance(self, ms: int) -> None:
        self._clock.advance(ms=ms)
        due = [one for one in self._due if one[0] <= self._now_s()]
        self._due = [one for one in self._due if one not in due]
        for _, then in due:
            then()

    def write(self, message: str, *args: object, times: int = 1, error: Exception | None = None) -> list[str]:
        """The lines that come of it."""
        for _ in range(times):
            self._logger.warning(message, *args, exc_info=error)
        return self.lines()


def test_a_line_of_text_has_its_time_in_utc() -> None:
    line = formatter_of({}).format(record_of("listening tcp=%s", "127.0.0.1:4150"))
    assert line == "2026-11-22T18:42:03.120Z INFO queue_engine.x: listening tcp=127.0.0.1:4150"


def test_a_line_of_json_has_the_traceback_in_it() -> None:
    try:
        raise ValueError("broken \udcff")
    except ValueError:
        line = formatter_of({"PENSTOCK_LOG_FORMAT": "json"}).format(record_of('say "%s"\n', "it", error=True))
    assert "\n" not in line
    told = json.loads(line)
    assert told.pop("traceback").endswith("ValueError: broken ?")
    assert told == {
        "time": "2026-11-22T18:42:03.120Z",
        "level": "INFO",
        "logger": "queue_engine.x",
        "message": 'say "it"\n',
    }


@pytest.mark.parametrize(("given", "level"), [({}, "INFO"), ({"PENSTOCK_LOG_LEVEL": "debug"}, "DEBUG")])
def test_the_level_comes_from_the_environment(given: dict[str, str], level: str) -> None:
    assert level_of(given) == level


def test_the_same_line_is_written_once_a_minute_and_the_next_tells_how_many_were_left_out() -> None:
    log = Log()
    assert log.write("refused path=%s", "/a", times=5) == ["refused path=/a"]
    assert log.write("refused path=%s", "/b") == ["refused path=/b"]
    log.advance(ms=59_999)
    assert log.write("refused path=%s", "/a") == []
    log.advance(ms=1)
    assert log.write("refused path=%s", "/a", times=2) == [
        "refused path=/a (the same line 5 times more since it was last written)"
    ]
    log.advance(ms=59_000)
    assert log.write("refused path=%s", "/b") == ["refused path=/b"]
    log.advance(ms=6_000)
    assert log.lines() == ["refused path=/a (the same line 1 time more since it was last written)"]


def test_a_call_whose_arguments_do_not_fit_is_no_error_of_the_caller(capsys: pytest.CaptureFixture[str]) -> None:
    assert Log().write("%d messages", "many") == []
    assert "Logging error" in capsys.readouterr().err


def test_many_different_lines_take_no_more_memory() -> None:
    log = Log()
    for number in range(REMEMBERED_MAX + 1):
        assert log.write("line %d", number) == [f"line {number}"]
    assert log.write("line 0") == ["line 0"], "it was forgotten"
    assert log.write(f"line {REMEMBERED_MAX}") == []


MORE = "(the same line {} times more since it was last written)"


def test_a_burst_that_never_comes_again_has_its_count_written_after_its_minute() -> None:
    log = Log()
    log.write("refused", times=5)
    log.advance(ms=30_000)
    log.write("lost", times=3)
    log.advance(ms=34_999)
    assert log.lines() == []
    log.advance(ms=1)
    assert log.lines() == [f"refused {MORE.format(4)}"]
    log.advance(ms=30_000)
    assert log.lines() == [f"lost {MORE.format(2)}"]
    log.advance(ms=600_000)
    assert log.lines() == []
    assert log.write("refused") == ["refused"]


def test_the_end_of_the_log_writes_all_counts() -> None:
    log = Log()
    log.write("refused", times=3)
    log.write("lost")
    log.handler.close()
    log.handler.close()
    assert log.lines() == [f"refused {MORE.format(2)}"]


def raised(kind: type[Exception], text: str) -> Exception:
    try:
        raise kind(text)
    except Exception as exc:
        return exc


def test_the_same_line_with_another_error_is_another_line() -> None:
    log = Log()
    first = raised(ValueError, "one")
    assert log.write("failed", error=first)[-1] == "ValueError: one"
    assert log.write("failed", error=raised(ValueError, "one")) == []
    for other in (raised(ValueError, "two"), raised(KeyError, "one"), ValueError("one")):
        assert log.write("failed", error=other)[0] == "failed"
    assert log.write("failed") == ["failed"]
    assert log.write("failed", error=first) == []


def test_a_line_that_repeats_is_remembered_longer_than_those_that_do_not() -> None:
    log = Log()
    log.write("refused")
    for number in range(REMEMBERED_MAX + 10):
        log.write("line %d", number)
        assert log.write("refused") == []
    log.write("refused", times=2)
    for number in range(REMEMBERED_MAX - 1):
        assert log.write("next %d", number) == [f"next {number}"]
    count = f"{REMEMBERED_MAX + 12:,}"
    assert log.write("one more") == ["one more", f"refused {MORE.format(count)}"]


def test_an_error_that_nothing_catches_is_a_line_of_the_log(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    for module, hook in ((threading, "excepthook"), (sys, "unraisablehook"), (sys, "excepthook")):
        monkeypatch.setattr(module, hook, getattr(module, hook))  # puts it back afterwards
    log_uncaught()
    error = raised(ValueError, "torn")

    def fail() -> None:
        raise error

    thread = threading.Thread(target=fail, name="upkeep")
    thread.start()
    thread.join()
    sys.excepthook(ValueError, error, error.__traceback__)
    sys.excepthook(KeyboardInterrupt, KeyboardInterrupt(), None)
    messages = [(record.levelname, record.getMessage(), record.exc_info) for record in caplog.records]
    assert [(level, message) for level, message, _ in messages] == [
        ("CRITICAL", "a thread ended with an error: upkeep"),
        ("CRITICAL", "the process ends with an error"),
    ]
    assert all(told is not None and told[1] is error for *_, told in messages)
    assert capsys.readouterr().err == ""


def test_a_line_of_text_can_not_be_forged_by_what_is_in_it() -> None:
    forged = "no\n2026-11-22T18:42:03.120Z ERROR x: y\r\x1b[2K\x85\u2028\u202etab\t\x00é\\n"
    line = formatter_of({}).format(record_of("topic=%s", forged))
    assert line == (
        "2026-11-22T18:42:03.120Z INFO queue_engine.x: topic=no\\n2026-11-22T18:42:03.120Z ERROR x: y\\r\\x1b[2K\\x85"
        "\\u2028\\u202etab\\t\\x00é\\n"
    )


def test_a_traceback_is_indented_and_its_text_forges_no_line() -> None:
    try:
        raise ValueError("no\n2026-11-22T18:42:03.120Z ERROR x: y\r")
    except ValueError:
        first, *others = formatter_of({}).format(record_of("failed", error=True)).split("\n")
    assert first == "2026-11-22T18:42:03.120Z INFO queue_engine.x: failed"
    assert others[0] == "    Traceback (most recent call last):"
    assert others[-2:] == ["    ValueError: no", "    2026-11-22T18:42:03.120Z ERROR x: y\\r"]
    assert all(line.startswith("    ") for line in others)
