"""Checks the paths of an expression against a sample of the archive, once its search has found nothing.

A path such as `lines.0.sku` is right by the grammar, and null for every message where `lines` is an array; a plan of
no message would not say so. A path that no message of the sample has is refused instead. A sample proves nothing of the
rest: where the search finds messages, paths are not looked at. The error has the path that exists, of names that are in
half of the sample or more, which makes them names of the format and not a person's.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from difflib import get_close_matches
from typing import Any, NoReturn

import orjson

from queue_engine.lake.expression.nodes import JsonPath, path_text
from queue_engine.vocabulary.errors import ExpressionError

# A sample's size, whichever comes first: JSON of a thousand small messages is parsed in some milliseconds.
SAMPLE_ROWS = 1_000
SAMPLE_BYTES = 8 << 20
NAMES_SHOWN_MAX = 12
_KINDS = {list: "an array", dict: "an object", str: "a text", int: "a number", float: "a number", bool: "true or false"}
_ABSENT = object()


class PathCheck:
    """The paths of one expression, and the bodies that were looked at."""

    def __init__(self, paths: Iterable[JsonPath], bodies: Sequence[bytes]) -> None:
        self._paths = tuple(paths)
        self._bodies = bodies

    def refuse_unmatched(self) -> None:
        """Raises ExpressionError for a path that no message of the sample has."""
        for path in self._paths:
            at, kinds = self._end(path)
            if not kinds and self._bodies:
                raise ExpressionError(f"{self._none_sentence('is')} JSON, which {path_text(path)} needs")
            if not kinds or at == len(path):
                continue
            if _ABSENT in kinds:
                self._refuse_name(path, at)
            self._refuse_kind(path, at, kinds)

    def _documents(self) -> Iterator[Any]:
        """The bodies as JSON, one at a time: parsed, they take many times the memory."""
        for body in self._bodies:
            try:
                yield orjson.loads(body)
            except orjson.JSONDecodeError:
                continue

    def _end(self, path: JsonPath) -> tuple[int, list[Any]]:
        """How many parts of a path the messages have that have most of it, and the type that is there in each: _ABSENT
        where an object has no such name or an array no such element. All parts: then it is in a message."""
        furthest = 0
        kinds: list[Any] = []
        for document in self._documents():
            at, value = _walked(path, document)
            if at > furthest:
                furthest, kinds = at, []
            if at == furthest:
                kinds.append(_ABSENT if value is _ABSENT else type(value))
        return furthest, kinds

    def _none_sentence(self, verb: str) -> str:
        return f"nothing matches, and none of {_messages(len(self._bodies))} that were looked at {verb}"

    def _refuse_kind(self, path: JsonPath, at: int, kinds: Sequence[Any]) -> NoReturn:
        words = " or ".join(sorted({_KINDS.get(kind, "null") for kind in kinds}))
        where = path_text(path[:at]) if at else "the body"
        sentence = (
            f"{self._none_sentence('has')} {path_text(path)}: {where} is {words} in all {len(kinds):,} that have it"
        )
        raise ExpressionError(f"{sentence}{self._suggestion(path, at, kinds)}")

    def _suggestion(self, path: JsonPath, at: int, kinds: Sequence[Any]) -> str:
        """The path that exists, as the end of a sentence; "" for none."""
        part, rest = path[at], path[at + 1 :]
        if kinds[0] is not list:
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
        sentence = f"{self._none_sentence('has')} {path_text(path[: at + 1])}"
        if close and self._end(spelled)[0] == len(spelled):
            raise ExpressionError(f"{sentence}; the path that exists is {path_text(spelled)}")
        have = self._names(where)
        there = path_text(where) if where else "the body"
        raise ExpressionError(f"{sentence}; {there} has {have}" if have else sentence)

    def _common_names(self, where: JsonPath) -> list[str]:
        count, counts = 0, Counter[str]()
        for document in self._documents():
            at, value = _walked(where, document)
            count += at == len(where)
            if at == len(where) and isinstance(value, dict):
                counts.update(value.keys())
        return [name for name, times in counts.most_common() if 2 * times >= count]

    def _names(self, where: JsonPath) -> str:
        names = self._common_names(where)
        more = f" and {len(names) - NAMES_SHOWN_MAX} more" if len(names) > NAMES_SHOWN_MAX else ""
        return ", ".join(names[:NAMES_SHOWN_MAX]) + more


def _walked(path: JsonPath, document: Any) -> tuple[int, Any]:
    """How many parts of a path a document has, and the value there; _ABSENT where the next name or element is
    missing."""
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
