"""The report of a start: damage, losses and repairs of the log, for the server's log and the console."""

from collections.abc import Sequence
from dataclasses import dataclass

# So many files and channels are named; the others are counted.
SHOWN_MAX = 10


@dataclass(frozen=True, slots=True)
class LostMessages:
    """`count` messages of one topic that are gone, among the offsets from `first_offset` up to but not including
    `next_offset`. topic: its name, "" where only the number exists."""

    topic_number: int
    first_offset: int
    next_offset: int
    count: int
    topic: str = ""

    def phrase(self) -> str:
        topic = f"topic {self.topic}" if self.topic else f"topic number {self.topic_number}"
        last = self.next_offset - 1
        offsets = f"offset {last}" if last == self.first_offset else f"offsets {self.first_offset} to {last}"
        return f"{self.count} of {topic} ({offsets})"


@dataclass(frozen=True, slots=True)
class Damage:
    """Bytes below the durable mark that changed or are missing.

    losses: the messages that are gone, by topic; empty when all of them could be saved. is_exact: whether `losses` are
    all; otherwise there may be more. action: where the start put the bytes, as a part of a sentence, "" for nowhere.
    is_absent: there is no file that should have them.
    """

    position: int
    size: int
    reason: str
    losses: tuple[LostMessages, ...] = ()
    is_exact: bool = True
    action: str = "the bytes are in quarantine"
    is_absent: bool = False

    @property
    def lost(self) -> int | None:
        """How many messages are gone; None when that is unknown."""
        count = sum(one.count for one in self.losses)
        return count if count or self.is_exact else None

    def sentence(self) -> str:
        if self.lost is None:
            loss = "the number of lost messages is unknown"
        elif self.lost:
            sentences = [one.phrase() for one in self.losses[:SHOWN_MAX]]
            if len(self.losses) > SHOWN_MAX:
                sentences.append(f"{sum(one.count for one in self.losses[SHOWN_MAX:])} more")
            least = "" if self.is_exact else "at least "
            loss = f"{least}{self.lost} message{'' if self.lost == 1 else 's'} lost: {', '.join(sentences)}"
        else:
            loss = "no message lost"
        where = f"{self.size} bytes at position {self.position}: " if self.size else ""
        return f"Damage, {loss}{'; ' if self.action else ''}{self.action}. {where}{self.reason}."


def lost_ranges(damages: Sequence[Damage], topic_number: int) -> list[tuple[int, int]]:
    """The ranges (first, next) of a topic's offsets whose messages are all lost, ascending."""
    losses = [one for damage in damages for one in damage.losses if one.topic_number == topic_number]
    return sorted(
        (one.first_offset, one.next_offset) for one in losses if one.count == one.next_offset - one.first_offset
    )


@dataclass(frozen=True, slots=True)
class ProgressLoss:
    """A channel that delivers `count` finished messages again, since its progress files are damaged. is_exact: whether
    a clean stop had counted them; otherwise it is at most that many."""

    topic: str
    channel: str
    count: int
    is_exact: bool

    def sentence(self) -> str:
        count = f"{'' if self.is_exact else 'at most '}{self.count}"
        return f"Damaged progress: channel {self.topic}/{self.channel} delivers {count} finished messages again."


@dataclass(frozen=True, slots=True)
class RecoveryReport:
    """scanned: the part of the log that was read. cut_bytes: of a tail that was being written when the process or the
    machine ended; nothing acknowledged is in it. lost_count: messages that are gone with damage, as far as they could
    be counted. unknown_records: of topics that were deleted. dropped_entries: progress beyond a topic's end.
    progress_damages: files of channels' progress, each with its fault. progress_losses: the cost.
    damaged_leases: the file of leases, set aside: they are lost. damaged_cursors: the same of pipeline cursors."""

    finished_at_ns: int
    took_ms: int
    was_clean: bool
    scanned_records: int
    scanned_bytes: int
    cut_bytes: int
    unknown_records: int
    dropped_entries: int
    damages: tuple[Damage, ...] = ()
    progress_damages: tuple[str, ...] = ()
    progress_losses: tuple[ProgressLoss, ...] = ()
    damaged_leases: str = ""
    damaged_cursors: str = ""

    @property
    def lost_count(self) -> int:
        return sum(damage.lost or 0 for damage in self.damages)

    @property
    def has_damage(self) -> bool:
        return bool(
            self.damages or self.progress_damages or self.progress_losses or self.damaged_leases or self.damaged_cursors
        )

    @property
    def redelivered_count(self) -> int:
        """Finished messages that come again, at most."""
        return sum(loss.count for loss in self.progress_losses)

    def warnings(self) -> Sequence[str]:
        """The sentences about damage."""
        return [sentence for sentence in self.sentences()[1:] if sentence.startswith("Damage")]

    def _of_progress(self) -> list[str]:
        sentences = [f"Damaged progress: {damage}." for damage in self.progress_damages[:SHOWN_MAX]]
        if len(self.progress_damages) > SHOWN_MAX:
            sentences.append(f"Damaged progress: {len(self.progress_damages) - SHOWN_MAX} more files.")
        sentences += [loss.sentence() for loss in self.progress_losses[:SHOWN_MAX]]
        rest = self.progress_losses[SHOWN_MAX:]
        if rest:
            count = sum(loss.count for loss in rest)
            sentences.append(
                f"Damaged progress: {len(rest)} more channels deliver at most {count} finished messages again."
            )
        if sentences and not self.progress_losses:
            sentences.append(
                "Damaged progress: nothing finished is delivered again; attempts and due times may be older."
            )
        return sentences

    def sentences(self) -> Sequence[str]:
        """The report as sentences."""
        start = "Clean start" if self.was_clean else "Start after an unclean stop"
        if self.has_damage:
            start = "Start after a clean stop, with damage" if self.was_clean else f"{start}, with damage"
        read = f"{self.scanned_records} records, {self.scanned_bytes} bytes of the log read in {self.took_ms} ms"
        sentences = [f"{start}: {read}."]
        if self.cut_bytes:
            sentences.append(
                f"{self.cut_bytes} bytes of an unfinished write were cut off; nothing of it was acknowledged."
            )
        sentences += [damage.sentence() for damage in self.damages]
        sentences += self._of_progress()
        if self.damaged_leases:
            sentences.append(
                f"Damaged list of leases, set aside; their readers have to take them again: {self.damaged_leases}."
            )
        if self.damaged_cursors:
            sentences.append(
                "Damaged list of pipeline cursors, set aside; the log keeps nothing for them, and no topic is archived "
                f"until its archive is switched on again: {self.damaged_cursors}."
            )
        return sentences
