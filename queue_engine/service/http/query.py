"""Parses a request's query as nsqd does."""

import re
from collections.abc import Iterator
from urllib.parse import unquote_plus

from queue_engine.service.http.reference.endpoints import ENDPOINTS
from queue_engine.service.http.reference.parameters import METRICS_TOPIC
from queue_engine.service.http.refusals import Refusal
from queue_engine.vocabulary.names import is_valid_name

Query = dict[str, str]

BOOLEANS = {"true": True, "1": True, "false": False, "0": False}
_BAD_ESCAPE = re.compile(r"%(?![0-9a-fA-F]{2})")
_WHOLE_NUMBER = re.compile(r"[+-]?[0-9]{1,19}\Z")


def parse_query(raw: str) -> Query:
    """The first value of each parameter. Raises Refusal for a bad escape or a semicolon, as Go's parser does."""
    query: Query = {}
    for name, value in _parameters(raw):
        query.setdefault(name, value)
    return query


def _parameters(raw: str) -> Iterator[tuple[str, str]]:
    for part in raw.split("&"):
        if ";" in part or _BAD_ESCAPE.search(part):
            raise Refusal(400, "INVALID_REQUEST")
        if part:
            name, _, value = part.partition("=")
            yield unquote_plus(name, errors="replace"), unquote_plus(value, errors="replace")


def topic_patterns(raw: str) -> list[str]:
    """Each `topic` of the query of /metrics, which may have * and ?. Raises Refusal as `parse_query`, and for too many:
    each is compared with every topic."""
    name, times_max = METRICS_TOPIC.name, METRICS_TOPIC.times_max
    patterns = [value for given, value in _parameters(raw) if given == name and value]
    if len(patterns) > times_max:
        raise Refusal(400, "INVALID_REQUEST", f"{name} is given {len(patterns)} times and the most is {times_max}")
    return patterns


def query_of(path: str, raw: str) -> Query:
    """The parameters that the path has, out of a request's query. Raises Refusal as `parse_query`.

    The code sees no others, so each parameter that it reads has its entry in the reference.
    """
    names = ENDPOINTS[path].names
    return {name: value for name, value in parse_query(raw).items() if name in names}


def publish_topic(query: Query) -> str:
    topic = query.get("topic")
    if topic is None:
        raise Refusal(400, "MISSING_ARG_TOPIC")
    if not is_valid_name(topic):
        raise Refusal(400, "INVALID_TOPIC")
    return topic


def defer_ms_of(text: str, limit_ms: int) -> int:
    defer_ms = int(text) if _WHOLE_NUMBER.match(text) else -1
    if not 0 <= defer_ms <= limit_ms:
        raise Refusal(400, "INVALID_DEFER", f"defer={text} is not a whole number of milliseconds from 0 to {limit_ms}")
    return defer_ms
