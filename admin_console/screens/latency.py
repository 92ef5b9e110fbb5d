"""How long the messages of a channel or a topic took from publish to FIN lately, in a line on its page."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from admin_console.screens.cells import Cell
from admin_console.vocabulary import units

if TYPE_CHECKING:
    from admin_console.gateway.gateway import EngineSnapshot, LatencyWindow

# Where the server's options name none.
_QUANTILES = (0.5, 0.95, 0.99)
_P99 = 0.99


def texts(window: "LatencyWindow", snapshot: "EngineSnapshot") -> dict[str, str]:
    """The panel's texts. window: a channel's, or a topic's, which is of all messages of its channels together."""
    window_ms = snapshot.latency_window_ms
    # A console without an engine has no window of its own.
    lately = f"in the last {_span(window_ms)}" if window_ms else "lately"
    total = window.count
    if not total:
        return {"latency": "unknown: no message was finished", "latency_of": lately}
    quantiles = snapshot.percentiles[::-1] or _QUANTILES
    shown = zip(quantiles, window.percentiles_ns(quantiles), strict=True)
    return {
        "latency": " · ".join(f"{_share(quantile)} within {_duration(ns / 1e9)}" for quantile, ns in shown),
        "latency_of": f"of {units.plural(total, 'message')} finished {lately}{_worst(window)}",
    }


def at_node(window: "LatencyWindow", snapshot: "EngineSnapshot", answer: Mapping[str, Any]) -> dict[float, int]:
    """One node's percentiles in nanoseconds, by quantile; empty without any. answer: the node's own, which an nsqd
    gives without counts."""
    if any(window.counts().values()):
        quantiles = snapshot.percentiles or _QUANTILES
        return dict(zip(quantiles, window.percentiles_ns(quantiles), strict=True))
    found = answer.get("percentiles")
    return {
        float(one["quantile"]): int(one["value"])
        for one in (found if isinstance(found, list) else ())
        if isinstance(one, dict)
        and _is_number(one.get("quantile"))
        and _is_number(one.get("value"))
        and one["value"] > 0
    }


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < 1 << 63


def p99_cell(latencies: Mapping[float, int], *, worst_of: int = 0) -> Cell:
    """The 99th percentile, or the greatest there is. worst_of: how many nodes it is the greatest of: percentiles alone
    can't be merged."""
    if not latencies:
        return Cell(units.UNKNOWN, tone="muted")
    quantile = _P99 if _P99 in latencies else max(latencies)
    text = _duration(latencies[quantile] / 1e9)
    title = " · ".join(f"{_share(one)} within {_duration(ns / 1e9)}" for one, ns in sorted(latencies.items()))
    return Cell(f"worst of {worst_of}: {text}" if worst_of > 1 else text, title)


def worst(of_nodes: Sequence[Mapping[float, int]]) -> dict[float, int]:
    """The greatest of each quantile."""
    found: dict[float, int] = {}
    for latencies in of_nodes:
        for quantile, ns in latencies.items():
            found[quantile] = max(found.get(quantile, 0), ns)
    return found


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
