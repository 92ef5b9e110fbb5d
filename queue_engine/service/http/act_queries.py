"""Reads the query of an act by the parameters of its row."""

from typing import Any

from queue_engine.service.http.log_queries import QueryError, target_of, whole_number
from queue_engine.service.http.query import Query
from queue_engine.vocabulary.acts.act import OverHttp
from queue_engine.vocabulary.acts.parameters import (
    PAUSE_FOR,
    PAUSE_UNTIL,
    Duration,
    Parameter,
    Position,
    WholeNumber,
    Word,
)
from queue_engine.vocabulary.acts.table import ACTS
from queue_engine.vocabulary.options.durations import format_duration, parse_duration_ms


def of_act(action: str) -> OverHttp:
    """How requests do an act that has a path."""
    found = ACTS[action].http
    assert found is not None, action
    return found


def details_of(http: OverHttp, query: Query, by: str) -> dict[str, Any]:
    """The arguments of the engine's method beside the names. by: the author. Raises QueryError."""
    details: dict[str, Any] = {"by": by} if http.takes_author else {}
    if PAUSE_FOR in http.parameters and PAUSE_FOR.name in query and PAUSE_UNTIL.name in query:
        raise QueryError("for and until are both given: they name two ends")
    for parameter in http.parameters:
        if isinstance(parameter, Position):
            target = target_of(query, parameter)
            if target is not None:
                details[parameter.word.keyword] = target
        elif parameter.name in query or parameter.is_required or _has_default(parameter):
            details[parameter.keyword] = _value_of(query, parameter)
    return details


def _has_default(parameter: Parameter) -> bool:
    return isinstance(parameter, WholeNumber) and parameter.default is not None


def _value_of(query: Query, parameter: Parameter) -> Any:
    """The method's argument. A word or name goes to the engine as it is, which refuses an unknown one."""
    if isinstance(parameter, WholeNumber):
        return whole_number(query, parameter)
    if isinstance(parameter, Duration):
        return _duration_ms(query, parameter)
    text = query[parameter.name]
    if isinstance(parameter, Word) and parameter.words == ("true", "false"):
        if text not in parameter.words:
            raise QueryError(f"{parameter.name}={text} can be {' or '.join(parameter.words)}")
        return text == "true"
    if parameter.longest is not None and len(text) > parameter.longest:
        raise QueryError(f"{parameter.name} has {len(text)} characters and the most is {parameter.longest}")
    return text


def _duration_ms(query: Query, parameter: Duration) -> int:
    text = query[parameter.name]
    try:
        duration_ms = parse_duration_ms(text)
    except ValueError as exc:
        raise QueryError(f"{parameter.name}={text} is not a duration such as 90s or 1h30m") from exc
    if duration_ms > parameter.most_ms:
        raise QueryError(f"{parameter.name}={text} is longer than {format_duration(parameter.most_ms)}")
    return duration_ms
