"""What a start found in the log and did about it, for the server's log and the console."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Damage:
    """Bytes below the durable mark that are not what was written. `lost` messages of `topic_number` (0: not known)
    are gone; with 0 lost, all of them could be saved."""

    position: int
    size: int
    topic_number: int
    first_offset: int
    lost: int
    reason: str


@dataclass(frozen=True, slots=True)
class RecoveryReport:
    """scanned: what was read of the log. cut_bytes: of a tail that was being written when the process or the machine
    ended; nothing acknowledged is in it. lost_count: messages that are gone with damage. unknown_records: of topics
    that were deleted. dropped_entries: progress that went beyond what is there. damaged_files: of channels' progress;
    what only they knew is delivered again. damaged_holds: the file of holds, set aside: they are lost."""

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

    @property
    def lost_count(self) -> int:
        return sum(damage.lost for damage in self.damages)

    @property
    def has_damage(self) -> bool:
        return bool(self.damages or self.damaged_files or self.damaged_holds)

    def sentences(self) -> Sequence[str]:
        """One sentence for each thing worth telling."""
        start = "Clean start" if self.was_clean else "Start after an unclean stop"
        read = f"{self.scanned_records} records, {self.scanned_bytes} bytes of the log read in {self.took_ms} ms"
        told = [f"{start}: {read}."]
        if self.cut_bytes:
            told.append(f"{self.cut_bytes} bytes of an unfinished write were cut off; nothing of it was acknowledged.")
        for damage in self.damages:
            where = f"{damage.size} bytes at position {damage.position}: {damage.reason}"
            if damage.lost:
                topic = f" of topic number {damage.topic_number}" if damage.topic_number else ""
                told.append(f"Damage, {damage.lost} messages{topic} lost, the bytes are in quarantine. {where}.")
            else:
                told.append(f"Damage, no message lost, the bytes are in quarantine. {where}.")
        told += [f"Damaged progress, what only it knew is delivered again: {path}." for path in self.damaged_files]
        if self.damaged_holds:
            told.append(f"Damaged list of holds, set aside; what was held has to be held again: {self.damaged_holds}.")
        return told
