"""How long the messages of a channel or a topic took from publish to FIN lately, in a line on its page."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from admin_console.screens import partial
from admin_console.screens.cells import Cell
from admin_console.vocabulary import units

if TYPE_CHECKING:
    from admin_console.gateway.gateway import EngineSnapshot, LatencyWindow

# Where the server's options name none.
_QUANTILES = (0.5, 0.95, 0.99)


def texts(window: "LatencyWindow", snapshot: "EngineSnapshot", silent: Sequence[str] = ()) -> dict[str, str]:
    """The panel's texts. window: a channel's, or a topic's, which is of all messages of its channels together.
    silent: nodes whose messages are not in it: a percentile may be less or more with them."""
    window_ms = snapshot.latency_window_ms
    # A console without an engine has no window of its own.
    lately = f"in the last {_span(window_ms)}" if window_ms else "lately"
    total = window.count
    if not total:
        return {"latency": "unknown: no message was finished", "latency_of": lately}
    quantiles = snapshot.percentiles[::-1] or _QUANTILES
    shown = zip(quantiles, window.percentiles_ns(quantiles), strict=True)
    count = partial.least(units.plural(total, "message"), is_partial=bool(silent))
    without = f", without {partial.listed(silent)}" if silent else ""
    return {
        "latency": " · ".join(f"{_share(quantile)} within {_duration(ns / 1e9)}" for quantile, ns in shown),
        "latency_of": f"of {count} finished {lately}{_worst(window)}{without}",
    }


def p99_cell(window: "LatencyWindow") -> Cell:
    """The 99th percentile; the others in the tooltip."""
    if not window.count:
        return Cell(units.UNKNOWN, tone="muted")
    found = [_duration(ns / 1e9) for ns in window.percentiles_ns(_QUANTILES)]
    title = " · ".join(f"{_share(one)} within {text}" for one, text in zip(_QUANTILES, found, strict=True))
    return Cell(f"worst of {window.worst_of}: {found[-1]}" if window.worst_of else found[-1], title)


def is_known(window: "LatencyWindow") -> bool:
    """Whether messages were finished lately; without any there is no panel."""
    return window.count > 0


def _worst(window: "LatencyWindow") -> str:
    """Percentiles of several nodes do not add up."""
    return f", each of the worst of {window.worst_of} nodes" if window.worst_of else ""


def _span(window_ms: int) -> str:
    """The time that the window covers, from half of it to all of it: "5 to 10 min", "30 to 60 s"."""
    size_ms, unit = (60_000, "min") if window_ms >= 120_000 else (1_000, "s")
    return f"{window_ms / 2 / size_ms:g} to {window_ms / size_ms:g} {unit}"


def _share(quantile: float) -> str:
    return {0.5: "half", 1.0: "all"}.get(quantile, f"{quantile * 100:g}\N{NO-BREAK SPACE}%")


def _duration(seconds: float) -> str:
    return f"{seconds * 1000:.1f} ms" if seconds < 0.01 else units.duration(seconds)
