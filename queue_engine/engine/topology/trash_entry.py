"""Why a channel or topic of topology.json is in the trash, and its JSON; `topology.py` draws the file."""

from dataclasses import dataclass
from typing import Any

from queue_engine.vocabulary.json_fields import number_of, object_of, text_of


@dataclass(frozen=True, slots=True)
class TrashEntry:
    """The reason why a topic or channel without a name exists. The channels that one act put into the trash have the
    same id.

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
    """The entry of a document by `TrashEntry.document`; None for None. Raises ValueError."""
    if document is None:
        return None
    given = object_of(document, "trash")
    numbers = {name: number_of(given, name) for name in _NUMBERS}
    upto = None if given.get("upto") is None else number_of(given, "upto")
    return TrashEntry(act=text_of(given, "act"), by=text_of(given, "by"), upto=upto, **numbers)
