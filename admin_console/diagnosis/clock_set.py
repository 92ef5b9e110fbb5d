"""The server's clock was set: times on the pages jump; pauses, delays and timeouts run by elapsed time."""

from typing import TYPE_CHECKING

from admin_console.diagnosis.finding import HELD, Finding, FindingKind, Sentences
from admin_console.vocabulary import units

if TYPE_CHECKING:
    from admin_console.gateway.gateway import EngineSnapshot

CLOCK_SET = FindingKind("clock set")
# The graphs of an hour show the step; then it is no news.
SHOWN_NS = 3_600 * 1_000_000_000


def find_broker(snapshot: "EngineSnapshot") -> Finding | None:
    """None from an hour after it on."""
    jump = snapshot.clock_jump
    if jump is None or snapshot.monotonic_ns - jump.at_ns > SHOWN_NS:
        return None
    size = units.about(abs(jump.step_ms) / 1000)
    way = "forward" if jump.step_ms > 0 else "back"
    return Finding(
        CLOCK_SET,
        HELD,
        lambda: Sentences(
            "◷ clock set",
            f"The server's clock was set {way} by {size}.",
            "Pauses, ramps, leases and trash entries from before it count elapsed time: they end at another time than "
            "their pages show. Later ones end at the time shown. If the clock is wrong now, correct it.",
            f"the clock was set {way} by {size}",
        ),
    )
