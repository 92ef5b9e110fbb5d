"""How long the messages of a channel or a topic took from publish to FIN lately, in a line on its page."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from admin_console.gateway.gateway import format_duration
from admin_console.gateway.latency import percentiles_s
from admin_console.vocabulary import units

if TYPE_CHECKING:
    from admin_console.gateway.gateway import EngineSnapshot

# Where the server's options name none.
_QUANTILES = (0.5, 0.95, 0.99)


def texts(counts: Mapping[int, int], snapshot: "EngineSnapshot") -> dict[str, str]:
    """The panel's texts. counts: of messages finished, by bucket; a topic's are those of all its channels."""
    window_ms = snapshot.latency_window_ms
    lately = f"in the last {format_duration(window_ms // 2)} to {format_duration(window_ms)}"
    total = sum(counts.values())
    if not total:
        return {"latency": "unknown: no message was finished", "latency_of": lately}
    quantiles = sorted(snapshot.percentiles) or _QUANTILES
    shown = zip(quantiles, percentiles_s(counts, quantiles), strict=True)
    return {
        "latency": " · ".join(f"{_share(quantile)} within {_duration(seconds)}" for quantile, seconds in shown),
        "latency_of": f"of {units.plural(total, 'message')} finished {lately}",
    }


def _share(quantile: float) -> str:
    return {0.5: "half", 1.0: "all"}.get(quantile, f"{quantile * 100:g}\N{NO-BREAK SPACE}%")


def _duration(seconds: float) -> str:
    return f"{seconds * 1000:.1f} ms" if seconds < 0.01 else units.duration(seconds)
