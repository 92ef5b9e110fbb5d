"""The disk fills, or has little room. Found for the server alone: its channels share one disk."""

from typing import TYPE_CHECKING

from admin_console.diagnosis.finding import DANGER, WARNING, Finding, FindingKind, Sentences
from admin_console.vocabulary import units

if TYPE_CHECKING:
    from admin_console.gateway.gateway import DiskSpace, EngineSnapshot

# The engine reports a fall that has lasted for minutes, so the first look counts. A page that has shown it shows it for
# a further minute after the figures have changed.
FILLING = FindingKind("disk filling", begins_after_s=0, ends_after_s=60)

DANGER_S = 3_600
WARNING_S = 24 * 3_600
# The finding ends, or becomes less urgent, when the time until the disk is full is so much longer than its limit.
ENDS_AT = 1.5


def find_broker(snapshot: "EngineSnapshot", before: Finding | None = None) -> Finding | None:
    """The finding about the data directory's disk, whichever program fills it; None while it lasts for a day, and when
    it is full, which the engine's health reports. before: the finding of the previous snapshot."""
    disk = snapshot.disk
    if disk is None or (snapshot.log is not None and snapshot.log.is_full):
        return None
    level = _level(disk.full_in_s, 0 if before is None else before.level)
    if not level and not disk.is_low:
        return None
    also = "little room is left on the disk"
    title = f"The disk has little room: {units.byte_count(disk.free_bytes)} are free."
    if level:
        assert disk.full_in_s is not None
        also = f"the disk is full in {units.about(disk.full_in_s)} if this goes on"
        title = f"The disk fills: it is full in {units.about(disk.full_in_s)} if this goes on."
    return Finding(
        FILLING,
        max(level, WARNING),
        lambda: Sentences(
            "▲ disk fills",
            title,
            f"{room(disk)} When it is full, publishes are refused; consumers still receive messages. {_advice(disk)}",
            also,
        ),
    )


def _level(full_in_s: float | None, before: int) -> int:
    """How urgent a trend is; 0 for not at all."""
    if full_in_s is None:
        return 0
    for level, limit_s in ((DANGER, DANGER_S), (WARNING, WARNING_S)):
        if full_in_s <= limit_s * (ENDS_AT if before >= level else 1):
            return level
    return 0


def room(disk: "DiskSpace") -> str:
    """Sentences: free space, its fall a second, and the topics' share of that."""
    sentence = f"{units.byte_count(disk.free_bytes)} of the disk's {units.byte_count(disk.total_bytes)} are free"
    if disk.fill_bytes_per_s:
        sentence += f" and shrink by {units.byte_count(disk.fill_bytes_per_s)}/s"
        if disk.own_bytes_per_s is not None:
            own = min(disk.own_bytes_per_s, disk.fill_bytes_per_s)
            sentence += f"; topics add {units.byte_count(own)}/s of that" if own else "; topics add nothing of that"
    sentence += "."
    if disk.own_minute_bytes and disk.is_low:
        sentence += f" In the last minute topics added {units.byte_count(disk.own_minute_bytes)}."
    return sentence


def _advice(disk: "DiskSpace") -> str:
    if not disk.own_minute_bytes and not disk.own_bytes_per_s:
        return "Free space on this disk: other files take it."
    return "Free space, or drain the channels that grow."
