"""A pause of a topic or channel: who made it, why, since when, until when; and the ramp that may follow it.

Both are stored by `engine/topology/topology.py`, which draws them.
"""

from dataclasses import dataclass
from typing import Any

from queue_engine.vocabulary.json_fields import number_of, object_of, text_of

REASON_CHARACTERS_MAX = 200
# A pause that ends later than this is a mistake of units.
PAUSE_MS_MAX = 366 * 86_400_000
RAMP_MS_MAX = 3_600_000


@dataclass(frozen=True, slots=True)
class Pause:
    """One pause, from its first act to the act that ends it.

    by: who paused it; "" when that is unknown. reason: in the words of who paused; "" for none. since_ms, until_ms:
    Unix milliseconds; until_ms 0: it has no end. depth: messages that waited when it began. changed_by, changed_ms: who
    changed its reason or end last, and when; "" and 0 when it is unchanged.
    """

    by: str = ""
    reason: str = ""
    since_ms: int = 0
    until_ms: int = 0
    depth: int = 0
    changed_by: str = ""
    changed_ms: int = 0

    def overdue_ms(self, now_ms: int, limit_ms: int) -> int:
        """For how long it has outlived its time: its end, or `limit_ms` where it has none (0: no limit). 0: it has
        not. now_ms: Unix."""
        if not self.since_ms and not self.until_ms:
            return 0  # its beginning is unknown
        end_ms = self.until_ms or (self.since_ms + limit_ms if limit_ms else now_ms)
        return max(now_ms - end_ms, 0)

    def document(self) -> dict[str, Any]:
        """The pause as topology.json and HTTP have it: without empty fields."""
        document: dict[str, Any] = {
            "by": self.by,
            "reason": self.reason,
            "since_ms": self.since_ms,
            "until_ms": self.until_ms,
            "depth": self.depth,
        }
        if self.changed_ms:
            document |= {"changed_by": self.changed_by, "changed_ms": self.changed_ms}
        return document


@dataclass(frozen=True, slots=True)
class Ramp:
    """A channel that was resumed delivers slowly at first: from `from_ms` on ever faster, and without a limit from
    `until_ms` on. Both are Unix milliseconds."""

    from_ms: int
    until_ms: int

    def document(self) -> dict[str, Any]:
        return {"from_ms": self.from_ms, "until_ms": self.until_ms}


def pause_of(document: object) -> Pause | None:
    """The pause of a document of `Pause.document`; None for None. Raises ValueError."""
    if document is None:
        return None
    given = object_of(document, "pause")
    return Pause(
        by=text_of(given, "by"),
        reason=text_of(given, "reason"),
        since_ms=number_of(given, "since_ms"),
        until_ms=number_of(given, "until_ms"),
        depth=number_of(given, "depth"),
        changed_by=text_of(given, "changed_by"),
        changed_ms=number_of(given, "changed_ms"),
    )


def ramp_of(document: object) -> Ramp | None:
    """The ramp of a document of `Ramp.document`; None for None. Raises ValueError."""
    if document is None:
        return None
    given = object_of(document, "ramp")
    return Ramp(number_of(given, "from_ms"), number_of(given, "until_ms"))
