"""How the figures of a topic that rests go on while only messages are published to it."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

LATEST_NS = (1 << 63) - 1


class WentOn(NamedTuple):
    """Figures of this moment. disk_bytes: of the topic, then of each channel. backend_depths: of each channel, as
    `Backlog.backend_depth`; None where all that waits is on disk. earliest_ns: a message that came since may be the
    oldest of a channel whose oldest is younger than that, Unix; LATEST_NS for none."""

    disk_bytes: Sequence[int]
    backend_depths: Sequence[int] | None
    earliest_ns: int


# Called with how many messages were published since; returns None when other things happened to a channel, too, or a
# reader came.
RestingFigures = Callable[[int], WentOn | None]
