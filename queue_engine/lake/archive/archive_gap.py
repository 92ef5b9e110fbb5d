"""A gap of an archive, and why it is there: the words are explained in `gaps.py`. Without pyarrow, for pages."""

from collections.abc import Iterable
from dataclasses import dataclass

DAMAGED = "damaged"
GONE = "gone"
OFF = "off"
REPLAYED = "replayed"
LOST = "lost"
BEGIN = "begin"


@dataclass(frozen=True, slots=True, order=True)
class ArchiveGap:
    """`count` of the messages from first_offset up to but not including next_offset are not in the archive. at_ms: when
    that was found, Unix."""

    first_offset: int
    next_offset: int
    reason: str
    at_ms: int
    count: int = -1

    def __post_init__(self) -> None:
        if self.count < 0:
            object.__setattr__(self, "count", self.next_offset - self.first_offset)


def joined_gaps(gaps: Iterable[ArchiveGap]) -> list[ArchiveGap]:
    """Gaps in order of offset; neighbours with the same reason are joined."""
    joined: list[ArchiveGap] = []
    for gap in sorted(gaps):
        last = joined[-1] if joined else None
        if last is not None and last.next_offset == gap.first_offset and last.reason == gap.reason:
            joined[-1] = ArchiveGap(last.first_offset, gap.next_offset, gap.reason, last.at_ms, last.count + gap.count)
        else:
            joined.append(gap)
    return joined
