"""An entry of the trash, as `/trash` answers it."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TrashStats:
    """One entry of the trash. channel: "" for a topic, and for messages that waited at a topic itself; channels: how
    many that act concerned. waiting, in_flight, deferred, quarantined: messages at the act. restorable: messages that a
    restore would bring back now. bytes: of the segments of the log that would stay on the disk for this entry alone; a
    segment that two entries need counts for both."""

    id: int
    act: str
    topic: str
    channel: str
    by: str
    at_ms: int
    until_ms: int
    waiting: int
    in_flight: int
    deferred: int
    quarantined: int
    channels: int
    restorable: int
    bytes: int


@dataclass(frozen=True, slots=True)
class FreedBytes:
    """The bytes of the log's segments that an act would free, the trash apart. holder: the topic that needs the first
    record of the rest; "" where none does."""

    bytes: int = 0
    holder: str = ""


@dataclass(frozen=True, slots=True)
class TrashPage:
    """A part of the trash, newest first. count, bytes: of the whole trash; bytes: of the segments of
    the log that would be removed if it were empty, each counted once."""

    entries: tuple[TrashStats, ...]
    has_older: bool
    count: int
    bytes: int
