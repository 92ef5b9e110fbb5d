"""What a start found in the log and did about it, for the server's log and the console."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Damage:
    """Bytes below the durable mark that are not what was written. `lost` messages of `topic_number` (0: not known)
    are gone; with 0 lost, all of them could be saved; None: nobody knows how many there were. kept: where the bytes
    are now, as a part of a sentence, "" for nowhere."""

    position: int
    size: int
    topic_number: int
    first_offset: int
    lost: int | None
    reason: str
    kept: str = "the bytes are in quarantine"

    def sentence(self) -> str:
        if self.lost is None:
            what = "it can't be told how many messages are lost"
        elif self.lost:
            what = f"{self.lost} messages{f' of topic number {self.topic_number}' if self.topic_number else ''} lost"
        else:
            what = "no message lost"
        where = f"{self.size} bytes at position {self.position}: " if self.size else ""
        return f"Damage, {what}{', ' if self.kept else ''}{self.kept}. {where}{self.reason}."


@dataclass(frozen=True, slots=True)
class RecoveryReport:
    """scanned: what was read of the log. cut_bytes: of a tail that was being written when the process or the machine
    ended; nothing acknowledged is in it. lost_count: messages that are gone with damage, as far as they could be
    counted. unknown_records: of topics that were deleted. dropped_entries: progress that went beyond what is there.
    damaged_files: of channels' progress; what only they knew is delivered again. damaged_holds: the file of holds, set
    aside: they are lost. damaged_cursors: the same of pipeline cursors."""

    finished_at_ns: int
    took_ms: int
    was_clean: bool
    scanned_records: int
    scanned_bytes: int
    cut_bytes: int
    unknown_records: int
    dropped_entries: int
    damages: tuple[Damage, ...] = ()
    damaged_files: tuple[str, ...] = ()
    damaged_holds: str = ""
    damaged_cursors: str = ""

    @property
    def lost_count(self) -> int:
        return sum(damage.lost or 0 for damage in self.damages)

    @property
    def has_damage(self) -> bool:
        return bool(self.damages or self.damaged_files or self.damaged_holds or self.damaged_cursors)

    def sentences(self) -> Sequence[str]:
        """One sentence for each thing worth telling."""
        start = "Clean start" if self.was_clean else "Start after an unclean stop"
        read = f"{self.scanned_records} records, {self.scanned_bytes} bytes of the log read in {self.took_ms} ms"
        told = [f"{start}: {read}."]
        if self.cut_bytes:
            told.append(f"{self.cut_bytes} bytes of an unfinished write were cut off; nothing of it was acknowledged.")
        told += [damage.sentence() for damage in self.damages]
        told += [f"Damaged progress, what only it knew is delivered again: {path}." for path in self.damaged_files]
        if self.damaged_holds:
            told.append(f"Damaged list of holds, set aside; what was held has to be held again: {self.damaged_holds}.")
        if self.damaged_cursors:
            told.append(
                "Damaged list of pipeline cursors, set aside; nothing is kept for them, and no topic is archived until "
                f"that is switched on again: {self.damaged_cursors}."
            )
        return told
