"""The disk fills: when nothing is free if it goes on so. Found for the whole engine, and for channels that grow."""

from typing import TYPE_CHECKING

from admin_console.diagnosis import falling_behind, words
from admin_console.diagnosis.finding import CALM, DANGER, WARNING, Finding, Kind, Sentences
from admin_console.diagnosis.vitals import Vitals
from admin_console.vocabulary import units

if TYPE_CHECKING:
    from admin_console.gateway.gateway import DiskSpace, EngineSnapshot

# A burst of publishes fills no disk: the time to fill swings, and what it says has to last.
FILLING = Kind("disk filling", begins_after_s=10, ends_after_s=30)

DANGER_S = 3_600
WARNING_S = 24 * 3_600


def find(vitals: Vitals) -> Finding | None:
    """A channel that grows while the disk fills: what waits in it is part of that."""
    disk = vitals.moment.disk
    full_in_s = _soon(disk)
    if disk is None or full_in_s is None or not vitals.is_growing:
        return None
    if (vitals.oldest_s or 0) < falling_behind.AGEING_S:
        return None  # a channel that keeps up gives its room back
    return Finding(
        FILLING,
        _level(full_in_s),
        lambda: Sentences(
            "▲ disk fills",
            f"The disk fills: it is full in {units.about(full_in_s)} if this goes on.",
            f"{room(disk)} {words.depth(vitals)}.{words.growth(vitals)} When the disk is full, publishes are refused. "
            "Drain the channel, or free space.",
            f"the disk is full in {units.about(full_in_s)} if this goes on",
        ),
    )


def find_broker(snapshot: "EngineSnapshot") -> Finding | None:
    """The same of the data directory's disk, whatever fills it; None while it does not, or not soon."""
    disk = snapshot.disk
    full_in_s = _soon(disk)
    if disk is None or full_in_s is None:
        return None
    return Finding(
        FILLING,
        _level(full_in_s),
        lambda: Sentences(
            "▲ disk fills",
            f"The disk fills: it is full in {units.about(full_in_s)} if this goes on.",
            f"{room(disk)} When it is full, publishes are refused, and consuming goes on. Free space, or drain the "
            "channels that grow.",
            f"the disk is full in {units.about(full_in_s)} if this goes on",
        ),
    )


def room(disk: "DiskSpace") -> str:
    """A sentence: how much is free, and how fast it goes."""
    free = f"{units.byte_count(disk.free_bytes)} of the disk's {units.byte_count(disk.total_bytes)} are free"
    if not disk.fill_bytes_per_s:
        return f"{free}."
    return f"{free} and become less by {units.byte_count(disk.fill_bytes_per_s)}/s."


def level_of(disk: "DiskSpace") -> int:
    """How urgent the room that is left is."""
    full_in_s = _soon(disk)
    return CALM if full_in_s is None else _level(full_in_s)


def _soon(disk: "DiskSpace | None") -> float | None:
    full_in_s = disk.full_in_s if disk is not None else None
    return full_in_s if full_in_s is not None and full_in_s <= WARNING_S else None


def _level(full_in_s: float) -> int:
    return DANGER if full_in_s <= DANGER_S else WARNING
