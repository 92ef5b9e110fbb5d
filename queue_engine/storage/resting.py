"""How the figures of a topic that rests go on while only messages are published to it."""

from collections.abc import Callable, Sequence
from typing import NamedTuple


class WentOn(NamedTuple):
    """Figures of this moment. disk_bytes: of the topic, then of each channel. backend_depths: of each channel, as
    `Backlog.backend_depth`; None where all that waits is on disk."""

    disk_bytes: Sequence[int]
    backend_depths: Sequence[int] | None


# Called with how many messages were published since; returns None when other things happened to a channel, too.
RestingFigures = Callable[[int], WentOn | None]
