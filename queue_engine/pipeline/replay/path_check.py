"""Checks the paths of an expression against a sample of the archive: a path that can match nothing is refused.

A path such as `lines.0.sku` is right by the grammar, and null for every message where `lines` is an array. So before
the archive is searched, a path is refused at which every message of the sample that has its beginning has something
else than the path needs. A name that no message of the sample has may still be in another one: it is refused once the
search has found nothing. The error has the path that exists, of names that are in half of the sample or more, which
makes them names of the format and not of somebody.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from typing import Any, NoReturn

import orjson

from queue_engine.pipeline.expression.nodes import JsonPath, path_text
from queue_engine.vocabulary.errors import ExpressionError

# A sample's size: JSON of a thousand small messages is parsed in some milliseconds.
SAMPLE_ROWS = 1_000
NAMES_SHOWN_MAX = 12
_KINDS = {list: "an array", dict: "an object", str: "a text", int: "a number", float: "a number", bool: "true or false"}
_ABSENT = object()


class PathCheck:
    """The paths of one expression, and the messages that were looked at."""

    def __init__(self, paths: Iterable[JsonPath], bodies: Iterable[bytes]) -> None:
        self._paths = tuple(paths)
        self._count = 0
        self._documents: list[Any] = []
        for body in bodies:
            self._count += 1
            try:
                self._documents.append(orjson.loads(body))
            except orjson.JSONDecodeError:
                continue

    def refuse_impossible(self) -> None:
        """Raises ExpressionError for a path that the messages have no room for."""
        for path in self._paths:
            if self._count and not self._documents:
                raise ExpressionError(
                    f"{path_text(path)} can match nothing: none of {_messages(self._count)} that were looked at is JSON"
                )
            at, values = self._end(path)
            if values and at < len(path) and _ABSENT not in values:
                self._refuse_kind(path, at, values)

    def refuse_unseen(self) -> None:
        """Raises ExpressionError for a path that no message of the sample has: the search has found nothing."""
        for path in self._paths:
            at, values = self._end(path)
            if not values or at == len(path):
                continue
            if _ABSENT not in values:
                self._refuse_kind(path, at, values)
            self._refuse_name(path, at)

    def _end(self, path: JsonPath) -> tuple[int, list[Any]]:
        """How many parts of a path the messages have that have most of it, and what is there in each: _ABSENT where an
        object has no such name or an array no such element. All parts: then it is in a message."""
        ends = [_walked(path, document) for document in self._documents]
        furthest = max((at for at, _ in ends), default=0)
        return furthest, [value for at, value in ends if at == furthest]

    def _refuse_kind(self, path: JsonPath, at: int, values: Sequence[Any]) -> NoReturn:
        kinds = " or ".join(sorted({_KINDS.get(type(value), "null") for value in values}))
        where = path_text(path[:at]) if at else "the body"
        sentence = (
            f"{path_text(path)} can match nothing: {where} is {kinds} in all {_messages(len(values))} that have it"
        )
        raise ExpressionError(f"{sentence}, of {self._count:,} that were looked at{self._instead(path, at, values)}")

    def _instead(self, path: JsonPath, at: int, values: Sequence[Any]) -> str:
        """The path that exists, as the end of a sentence; "" for none."""
        part, rest = path[at], path[at + 1 :]
        if not isinstance(values[0], list):
            return ""
        index = int(part) if isinstance(part, str) and part.isdecimal() else 0
        spelled = (*path[:at], index, *(rest if str(part).isdecimal() else path[at:]))
        if self._end(spelled)[0] == len(spelled):
            return f"; the path that exists is {path_text(spelled)}"
        names = self._names((*path[:at], index))
        return f"; its elements begin at {path_text((*path[:at], 0))}" + (f", and have {names}" if names else "")

    def _refuse_name(self, path: JsonPath, at: int) -> NoReturn:
        part, where = path[at], path[:at]
        names = self._common_names(where)
        close = get_close_matches(str(part), names, 1)
        spelled = (*where, *close, *path[at + 1 :])
        sentence = f"nothing matches, and none of {_messages(self._count)} that were looked at has "
        sentence += path_text(path[: at + 1])
        if close and self._end(spelled)[0] == len(spelled):
            raise ExpressionError(f"{sentence}; the path that exists is {path_text(spelled)}")
        have = self._names(where)
        there = path_text(where) if where else "the body"
        raise ExpressionError(f"{sentence}; {there} has {have}" if have else sentence)

    def _common_names(self, where: JsonPath) -> list[str]:
        found = [value for at, value in (_walked(where, one) for one in self._documents) if at == len(where)]
        counts = Counter(name for value in found if isinstance(value, dict) for name in value)
        return [name for name, count in counts.most_common() if 2 * count >= len(found)]

    def _names(self, where: JsonPath) -> str:
        names = self._common_names(where)
        more = f" and {len(names) - NAMES_SHOWN_MAX} more" if len(names) > NAMES_SHOWN_MAX else ""
        return ", ".join(names[:NAMES_SHOWN_MAX]) + more


def _walked(path: JsonPath, document: Any) -> tuple[int, Any]:
    """How many parts of a path a document has, and what is there; _ABSENT where the next name or element is missing."""
    value = document
    for at, part in enumerate(path):
        if value is None:
            return at, _ABSENT  # there may be more in another message
        if isinstance(part, int):
            if not isinstance(value, list):
                return at, value
            if part >= len(value):
                return at, _ABSENT
        else:
            if not isinstance(value, dict):
                return at, value
            if part not in value:
                return at, _ABSENT
        value = value[part]
    return len(path), value


def _messages(count: int) -> str:
    return f"{count:,} message{'' if count == 1 else 's'}"
