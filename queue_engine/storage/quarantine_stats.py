"""The limits of a channel's quarantine, and its content, for pages, `/stats` and metrics."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class QuarantineLimits:
    """Of one channel. age_ms_max: after which a quarantined message waits again; 0: never."""

    count_max: int = 10_000
    bytes_max: int = 256 << 20
    age_ms_max: int = 0


@dataclass(frozen=True, slots=True)
class QuarantineStats:
    """max_attempts: deliveries after which a message that comes back is quarantined; 0: off. bytes: of the bodies.
    oldest_ns: since when the first of them is, Unix. full: which limit is reached, so that messages wait again instead;
    "" while there is room. reasons: how their last deliveries ended, in words, and how many of each, most first."""

    max_attempts: int = 0
    count: int = 0
    bytes: int = 0
    oldest_ns: int | None = None
    full: str = ""
    reasons: tuple[tuple[str, int], ...] = ()


NO_QUARANTINE = QuarantineStats()
