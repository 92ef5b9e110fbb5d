"""Why a channel or topic of topology.json is in the trash, and its JSON; `topology.py` draws the file."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class TrashEntry:
    """What a topic or channel without a name is kept for. The channels that one act put into the trash have the same
    id.

    id: of the topic, or of the first of these channels. act: as in the audit list. by: who did it, "" when that is
    unknown. at_ms, until_ms: when, and until when it can be restored, Unix ms. waiting, in_flight, deferred,
    quarantined: messages at that moment. channels: of a topic, at that moment. upto: of a channel, the offset from
    which on a channel of its name speaks for itself; None while there is none.
    """

    id: int
    act: str
    by: str = ""
    at_ms: int = 0
    until_ms: int = 0
    waiting: int = 0
    in_flight: int = 0
    deferred: int = 0
    quarantined: int = 0
    channels: int = 0
    upto: int | None = None

    def document(self) -> dict[str, Any]:
        document: dict[str, Any] = {name: getattr(self, name) for name in _NUMBERS}
        document |= {"act": self.act, "by": self.by}
        if self.upto is not None:
            document["upto"] = self.upto
        return document


_NUMBERS = ("id", "at_ms", "until_ms", "waiting", "in_flight", "deferred", "quarantined", "channels")


def trash_of(document: object) -> TrashEntry | None:
    """What `TrashEntry.document` made; None for None. Raises ValueError."""
    if document is None:
        return None
    if not isinstance(document, dict):
        raise ValueError(f"trash is {document!r} and not an object")
    numbers = {name: _count(document, name) for name in _NUMBERS}
    upto = None if document.get("upto") is None else _count(document, "upto")
    return TrashEntry(act=_text(document, "act"), by=_text(document, "by"), upto=upto, **numbers)


def _text(document: Mapping[str, Any], key: str) -> str:
    text = document.get(key, "")
    if not isinstance(text, str):
        raise ValueError(f"{key} is {text!r} and not a text")
    return text


def _count(document: Mapping[str, Any], key: str) -> int:
    count = document.get(key, 0)
    if not isinstance(count, int) or isinstance(count, bool) or count < 0:
        raise ValueError(f"{key} is {count!r} and not a number from 0 up")
    return count
