"""A redrive: a channel's quarantined messages wait again, so many a second. As topology.json and the stats have it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

# More would be a limit that no message meets.
MAX_ATTEMPTS_MOST = 1_000
# Messages a second. A redrive without a rate is slow enough for an operator to watch.
RATE_MAX = 10_000
RATE_DEFAULT = 100


@dataclass(frozen=True, slots=True)
class Redrive:
    """rate: messages a second. total: how many there were when it began. began_ms: Unix; messages quarantined later are
    not part of it. keeps_attempts: whether their deliveries so far count on. by: its author."""

    rate: int
    total: int
    began_ms: int
    keeps_attempts: bool = False
    by: str = ""

    def document(self) -> dict[str, Any]:
        return {
            "rate": self.rate,
            "total": self.total,
            "began_ms": self.began_ms,
            "keeps_attempts": self.keeps_attempts,
            "by": self.by,
        }


def redrive_of(document: Mapping[str, Any] | None) -> Redrive | None:
    """The redrive of a document of `Redrive.document`. Raises ValueError or TypeError."""
    if document is None:
        return None
    rate, total, began_ms = (document[key] for key in ("rate", "total", "began_ms"))
    if not all(isinstance(one, int) and one >= 0 for one in (rate, total, began_ms)) or not 0 < rate <= RATE_MAX:
        raise ValueError(f"redrive is {document!r}")
    return Redrive(rate, total, began_ms, bool(document.get("keeps_attempts")), str(document.get("by", "")))


@dataclass(frozen=True, slots=True)
class RedriveState:
    """How far a redrive has come. left: messages it still has to redrive. ended: "" while it goes on, else "done" or
    "cancelled"."""

    redrive: Redrive
    left: int
    ended: str = ""

    @property
    def done(self) -> int:
        return max(self.redrive.total - self.left, 0)

    def document(self) -> dict[str, Any]:
        return {**self.redrive.document(), "done": self.done, "left": self.left, "ended": self.ended}
