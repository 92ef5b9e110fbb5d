"""How far a node's clock is from this one's: each of its HTTP answers has its time, to the second."""

import calendar
from dataclasses import dataclass
from email.utils import parsedate


@dataclass(frozen=True, slots=True)
class ClockOffset:
    """A node's clock is ahead of this one's by `least_ms` to `most_ms`; negative where it is behind."""

    least_ms: int
    most_ms: int

    @property
    def differs_ms(self) -> int:
        """The clocks differ by so much at least; negative where the node's is behind, 0 where they may agree."""
        return self.least_ms if self.least_ms > 0 else min(self.most_ms, 0)

    @classmethod
    def of(cls, date: str, sent_ms: int, received_ms: int) -> "ClockOffset | None":
        """date: of an answer. sent_ms, received_ms: of its request and its last byte, by this clock; Unix. None for no
        date."""
        parsed = parsedate(date)
        if parsed is None:
            return None
        try:
            date_ms = calendar.timegm(parsed) * 1000
        except (ValueError, OverflowError):
            return None
        return cls(date_ms - received_ms, date_ms + 1000 - sent_ms)

    def narrowed(self, newer: "ClockOffset") -> "ClockOffset":
        """By a newer answer. One that does not fit counts alone: a clock was set."""
        least_ms, most_ms = max(self.least_ms, newer.least_ms), min(self.most_ms, newer.most_ms)
        return ClockOffset(least_ms, most_ms) if least_ms <= most_ms else newer
