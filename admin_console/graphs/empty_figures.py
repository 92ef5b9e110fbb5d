"""The empty Plotly figure of every kind of graph: axes, colours, hover, no data. The API and the socket send the data.

Colours are names of the page's own custom properties, `var(--series-1)`; the script in the page reads their values
in the theme that is on, and again when it changes. So a line has the colour of its legend in both.
"""

from functools import cache, lru_cache

import plotly.graph_objects as go

# How many lines each graph of a page may have, and the unit of its numbers.
KINDS: dict[str, dict[str, tuple[tuple[int, ...], str]]] = {
    "overview": {"flow": ((1, 2), "per second"), "waiting": ((1, 2, 3, 4), "messages")},
    "topic": {
        "depth": ((1, 3), "messages"),
        "rates": ((1, 2), "per second"),
        "in_flight": ((1, 3), "messages"),
        "trouble": ((2, 4), "per second"),
    },
    "channel": {
        "depth": ((1,), "messages"),
        "in_flight": ((1, 3), "messages"),
        "rates": ((1, 2), "per second"),
        "trouble": ((2, 4), "per second"),
    },
    # Of a topic or channel that is at several nodes, beside its page's own.
    "nodes": {
        "depth_nodes": ((1, 2, 4, 5, 6, 7, 8, 3, 9), "messages"),
        "rate_nodes": ((1, 2, 4, 5, 6, 7, 8, 3, 9), "per second"),
    },
}

# Graphs that only a range of the past has: the rings have no seconds of them.
PAST_KINDS: dict[str, dict[str, tuple[tuple[int, ...], str]]] = {"channel": {"latency": ((1, 3, 2), "milliseconds")}}


@cache
def _trace(number: int, unit: str) -> dict[str, object]:
    """A line without points in the colour `number`."""
    # The script in the page words durations: 340 ms, 14m 02s.
    hover = {"per second": "%{y:,.4~g}/s", "messages": "%{y:,.0f}", "milliseconds": "%{text}"}[unit]
    trace = go.Scatter(
        x=[],
        y=[],
        mode="lines",
        # A second without a snapshot is a gap.
        connectgaps=False,
        line=go.scatter.Line(color=f"var(--series-{number})", width=1.5),
        hovertemplate=hover,
    )
    made: dict[str, object] = trace.to_plotly_json()
    return made


@cache
def _layout() -> dict[str, object]:
    """The layout of every graph. Plotly takes some milliseconds to check one, so all graphs share it."""
    axis = {"color": "var(--muted)", "zeroline": False, "showline": False, "tickfont": {"size": 11}}
    layout = go.Layout(
        # Without this plotly adds its own look, seven kilobytes of it.
        template=go.layout.Template(),
        margin=go.layout.Margin(l=52, r=8, t=8, b=24),
        paper_bgcolor="var(--panel)",
        plot_bgcolor="var(--panel)",
        font=go.layout.Font(color="var(--ink)", size=12),
        showlegend=False,
        hovermode="x unified",
        hoverlabel={
            "bgcolor": "var(--panel)",
            "bordercolor": "var(--line-strong)",
            "font": {"color": "var(--ink)", "size": 12},
        },
        dragmode="zoom",
        xaxis=go.layout.XAxis(
            # Unix seconds: static/time_axis.js writes them in the zone of the page.
            type="linear",
            tickmode="array",
            showgrid=False,
            ticklabeloverflow="allow",
            showspikes=True,
            spikemode="across",
            spikethickness=1,
            spikedash="solid",
            spikecolor="var(--line-strong)",
            **axis,
        ),
        yaxis=go.layout.YAxis(
            rangemode="tozero",
            nticks=5,
            gridcolor="var(--line)",
            gridwidth=1,
            tickformat="~s",
            fixedrange=True,  # a drag chooses a time and nothing else
            **axis,
        ),
        modebar=go.layout.Modebar(
            bgcolor="var(--panel)", color="var(--muted)", activecolor="var(--accent)", orientation="h"
        ),
        uirevision="penstock",  # a zoom stays while seconds are added
    )
    made: dict[str, object] = layout.to_plotly_json()
    return made


@lru_cache(maxsize=len(KINDS))
def figures_json(page: str) -> dict[str, object]:
    """All figures of a page by the graph's name, as plain JSON values; made once a process."""
    kinds = KINDS[page] | PAST_KINDS.get(page, {})
    return {
        name: {"data": [_trace(number, unit) for number in series], "layout": _layout()}
        for name, (series, unit) in kinds.items()
    }


def warm() -> None:
    """Make all figures now, so that no page waits for plotly's import."""
    for page in KINDS:
        figures_json(page)
