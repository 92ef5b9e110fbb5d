"""The log that topics of storage kind `log` share: its sync policy, its size, the report of the last start; and the
files that were set aside, of both storage kinds and the console."""

from typing import TYPE_CHECKING

from admin_console.hub.hub import LiveState
from admin_console.screens.cells import Cell
from admin_console.screens.parts import Column, Empty, Table
from admin_console.vocabulary import units

if TYPE_CHECKING:
    from admin_console.gateway.gateway import AsideStats, DiskSpace, LogStats

_COLUMNS = (Column("item", "Item", "text"), Column("value", "Now", "text"))
_PROMISES = {
    "always": "always: OK is sent once the message is on the disk",
    "interval": "interval: a power cut can lose the newest messages, a killed process none",
    "os": "os: the operating system decides; a power cut can lose messages, a killed process none",
}
# Longer than a healthy disk takes, and longer than any sensible --sync-interval.
UNSYNCED_LATE_MS = 5_000
DAY_MS = 86_400_000
LEASES_SHOWN = 3
LOG_OF = "shared by all topics of storage kind log"


def log_table(live: LiveState | None) -> Table:
    """One row for each fact; empty where no topic has storage kind log."""
    log = live.snapshot.log if live is not None else None
    rows = _rows(log) if log is not None else []
    if live is not None and log is not None and live.snapshot.disk is not None:
        rows.insert(1, ("disk", (Cell("Disk"), _disk(live.snapshot.disk))))
    if live is not None and is_anything_aside(live.snapshot.aside):
        rows.append(("aside", (Cell("Set aside"), _aside(live.snapshot.aside))))
    return Table.build("log", "The log", _COLUMNS, rows, Empty("", "No topic is of storage kind log."))


def is_anything_aside(aside: "AsideStats") -> bool:
    """Whether the row about files that were set aside is shown."""
    return bool(aside.count or aside.removed_count or aside.error)


def _rows(log: "LogStats") -> list[tuple[str, tuple[Cell, Cell]]]:
    rows = [
        ("state", Cell("State"), _state(log)),
        ("sync", Cell("Sync policy"), Cell(_PROMISES.get(log.sync, log.sync))),
        ("unsynced", Cell("Oldest unsynced"), _unsynced(log)),
        (
            "size",
            Cell("On disk"),
            _size(log),
        ),
        (
            "syncs",
            Cell("Syncs since start"),
            Cell(f"{units.number(log.sync_count)} for {units.plural(log.group_count, 'write')}"),
        ),
    ]
    if log.leases:
        rows.append(("leases", Cell("Leases"), _leases(log)))
    if log.damaged_count:
        lost = f"{units.plural(log.damaged_count, 'message')} passed over: their bodies are lost"
        rows.append(("damaged", Cell("Damage"), Cell(lost, tone="danger")))
    if log.is_progress_out_of_room:
        rows.append(("room", Cell("Channels' progress"), Cell("▲ in memory alone, the disk is full", tone="danger")))
    if log.progress_fault_count:
        rows.append(("progress", Cell("Channels' progress"), _progress_faults(log)))
    if log.key_index_missing or log.key_index_error:
        rows.append(("keys", Cell("Key index"), _key_index(log)))
    if log.recovery is not None:
        for index, sentence in enumerate(log.recovery.sentences()):
            tone = "danger" if index and sentence.startswith("Damage") else ""
            rows.append((f"recovery{index}", Cell("Last start" if index == 0 else ""), Cell(sentence, tone=tone)))
    return [(key, (label, value)) for key, label, value in rows]


def _state(log: "LogStats") -> Cell:
    if log.error:
        return Cell(f"▲ {log.error}", tone="danger")
    if log.is_full:
        return Cell("▲ refuses publishes: the disk is full; accepts them again once there is room", tone="danger")
    return Cell("accepts messages", tone="ok")


def _disk(disk: "DiskSpace") -> Cell:
    # Only the banner has the time at which it is full.
    text = f"{units.byte_count(disk.free_bytes)} free of {units.byte_count(disk.total_bytes)}"
    return Cell(text, f"{disk.free_bytes:,} of {disk.total_bytes:,} bytes", "warning" if disk.is_low else "")


def _size(log: "LogStats") -> Cell:
    text = f"{units.byte_count(log.bytes)} in {units.plural(log.segment_count, 'segment')}"
    if log.hole_bytes:
        text += f"; {units.byte_count(log.hole_bytes)} freed inside them"
    return Cell(text, f"{log.bytes:,} bytes")


def _key_index(log: "LogStats") -> Cell:
    text = f"{units.plural(log.key_index_missing, 'message')} of the log not indexed yet"
    if not log.key_index_error:
        return Cell(text)
    return Cell(f"can't be written now: {log.key_index_error}; {text}", tone="warning")


def _progress_faults(log: "LogStats") -> Cell:
    at = units.moment(log.progress_fault_ms)
    count = units.plural(log.progress_fault_count, "error")
    text = f"{count} of the disk since start, the last at {at} UTC: {log.progress_fault}. "
    text += "Progress is not on the disk now." if log.error else "A new journal was begun, and nothing is lost."
    return Cell(text, tone="danger" if log.error else "warning")


def _leases(log: "LogStats") -> Cell:
    shown = [f"{one.topic} from offset {one.offset:,}" for one in log.leases[:LEASES_SHOWN]]
    more = len(log.leases) - len(shown)
    text = ", ".join(shown) + (f" and {more:,} more" if more else "")
    return Cell(text, ", ".join(one.name for one in log.leases))


def _unsynced(log: "LogStats") -> Cell:
    if not log.oldest_unsynced_ms:
        return Cell("everything is on the disk")
    is_late = log.sync != "os" and log.oldest_unsynced_ms > UNSYNCED_LATE_MS
    return Cell(units.duration(log.oldest_unsynced_ms / 1000), tone="warning" if is_late else "")


def _aside(aside: "AsideStats") -> Cell:
    text = f"{units.plural(aside.count, 'damaged file')}, {units.byte_count(aside.bytes)}"
    if aside.count and aside.retention_ms:
        # Each scan adds a part of a day.
        age, retention = (f"{ms / DAY_MS:.3g}" for ms in (aside.oldest_kept_ms, aside.retention_ms))
        text += f", the oldest set aside {age} of {retention} days ago"
    elif aside.count:
        text += ", until you remove them"
    if aside.removed_count:
        removed = units.plural(aside.removed_count, "file")
        text += f"; {removed} removed since start, {units.byte_count(aside.removed_bytes)}"
    if aside.error:
        text += f". ▲ {aside.error}"
    hint = f"{aside.bytes:,} bytes; each is removed at the age of --set-aside-retention"
    return Cell(text, hint, "warning" if aside.error else "")
