"""The figures of a topic, of a channel or of the totals, each with its window.

Cards, rows, legends, banners and findings read a figure here and nowhere else, so two statements about one thing agree:

    flow    arrivals, finished messages, change of the depth: messages/s over the last FLOW_S seconds. All three have
    one window, so that the growth is arrivals less finished messages.
    counts  requeues, timeouts and finished messages of the last minute

A figure of something younger than its window covers the whole life of it. None is unknown. All take the rings of the
thing, None where it has none, and the second they are of (the rings' newest without it).
"""

from dataclasses import dataclass

from admin_console.rings.rings import SECONDS, Rings

FLOW_S = 30
MINUTE_S = 60
# The window that shows whether deliveries end at all.
RECENT_S = 15


@dataclass(frozen=True, slots=True)
class Figure:
    """The change of a column over a window. Where the column is a depth, the jumps that acts made are left out."""

    column: str
    span_s: int

    def change(self, rings: Rings | None, at: int | None = None) -> tuple[float, float] | None:
        """How much it changed, and over how many seconds, at most the window."""
        return None if rings is None else rings.change(self.column, self.span_s, at)

    def count(self, rings: Rings | None, at: int | None = None) -> float | None:
        """In all."""
        change = self.change(rings, at)
        return None if change is None else change[0]

    def rate(self, rings: Rings | None, at: int | None = None) -> float | None:
        """Per second."""
        change = self.change(rings, at)
        return None if change is None else change[0] / change[1]


class _Depth(Figure):
    __slots__ = ()

    def change(self, rings: Rings | None, at: int | None = None) -> tuple[float, float] | None:
        return None if rings is None else rings.depth_change(self.column, self.span_s, at)


# "waiting" is the depth of a topic with its channels, and a channel's own depth.
GROWTH: Figure = _Depth("waiting", FLOW_S)
ARRIVED = Figure("messages", FLOW_S)  # published to a topic, received by a channel
FINISHED = Figure("finished", FLOW_S)
REQUEUED_MIN = Figure("requeued", MINUTE_S)
TIMEOUTS_MIN = Figure("timeouts", MINUTE_S)
FINISHED_MIN = Figure("finished", MINUTE_S)
# The longest average: of all seconds that the rings hold.
ARRIVED_LONG = Figure("messages", SECONDS - 1)
FINISHED_LONG = Figure("finished", SECONDS - 1)
ENDED_RECENTLY = tuple(Figure(column, RECENT_S) for column in ("finished", "requeued", "timeouts"))
