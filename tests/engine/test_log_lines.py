"""What a line of the log looks like, and how often the same one is written."""

import io
import json
import logging
import sys
from datetime import UTC, datetime

import pytest

from queue_engine.vocabulary.log_lines import REMEMBERED_MAX, WithoutRepeats, formatter_of, level_of
from tests.support.clock import ManualClock

AT_S = datetime(2026, 11, 22, 18, 42, 3, 120_000, tzinfo=UTC).timestamp()


def record_of(message: str, *args: object, level: int = logging.INFO, error: bool = False) -> logging.LogRecord:
    record = logging.LogRecord("queue_engine.x", level, "", 0, message, args, sys.exc_info() if error else None)
    record.created = AT_S
    return record


class Log:
    """A log with the filter, on a clock that the test moves."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self._stream = io.StringIO()
        handler = logging.StreamHandler(self._stream)
        handler.addFilter(WithoutRepeats(lambda: self.clock.monotonic_ns() / 1e9))
        self._logger = logging.Logger("queue_engine.x")
        self._logger.addHandler(handler)

    def write(self, message: str, *args: object, times: int = 1) -> list[str]:
        """The lines that come of it."""
        self._stream.seek(0)
        self._stream.truncate()
        for _ in range(times):
            self._logger.warning(message, *args)
        return self._stream.getvalue().splitlines()


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
    log.clock.advance(ms=59_999)
    assert log.write("refused path=%s", "/a") == []
    log.clock.advance(ms=1)
    assert log.write("refused path=%s", "/a", times=2) == [
        "refused path=/a (the same line 5 times more since it was last written)"
    ]
    log.clock.advance(ms=60_000)
    assert log.write("refused path=%s", "/b") == ["refused path=/b"]


def test_a_call_whose_arguments_do_not_fit_is_no_error_of_the_caller(capsys: pytest.CaptureFixture[str]) -> None:
    assert Log().write("%d messages", "many") == []
    assert "Logging error" in capsys.readouterr().err


def test_many_different_lines_take_no_more_memory() -> None:
    log = Log()
    for number in range(REMEMBERED_MAX + 1):
        assert log.write("line %d", number) == [f"line {number}"]
    assert log.write("line 0") == ["line 0"], "it was forgotten"
    assert log.write(f"line {REMEMBERED_MAX}") == []
