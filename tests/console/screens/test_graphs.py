"""Graphs: every empty figure is one that plotly takes, has the lines its page sends, and wears the page's colours."""

import gzip
import json
import re
from importlib import resources
from pathlib import Path

import plotly.graph_objects as go
import pytest
from django.conf import settings

from admin_console.graphs.empty_figures import KINDS, figures_json
from admin_console.graphs.plotly_asset import plotly_style_ids, prepare
from admin_console.hub.hub import Hub
from admin_console.screens import graphs
from tests.support import fake_nsqd
from tests.support.pages.clusters import HubOfCluster, nsqd
from tests.support.pages.snapshots import START_S, channel, snapshot, topic

STYLES = (settings.BASE_DIR / "static" / "penstock.css").read_text()


def plans_of(page: str) -> tuple[graphs.GraphPlan, ...]:
    if page == "overview":
        hub = Hub()
        hub.write(snapshot(topic("t", *(channel("t", f"c{index}") for index in range(9))), second=START_S))
        return graphs.overview_plans(hub.live)
    if page == "nodes":
        cluster = HubOfCluster()
        live = cluster.see(snapshot(), *(nsqd(f"n{index}", fake_nsqd.topic("t")) for index in range(10)))
        return graphs.node_plans(live, "t")
    return graphs.topic_plans("t") if page == "topic" else graphs.channel_plans("t", "c")


@pytest.mark.parametrize("page", KINDS)
def test_empty_figures_are_valid(page: str) -> None:
    for name, empty in figures_json(page).items():
        figure = go.Figure(json.loads(json.dumps(empty)))
        assert {trace.type for trace in figure.data} == {"scatter"}, name
        assert all(trace.connectgaps is False for trace in figure.data), "an unknown second stays a gap"
        assert len(json.dumps(empty)) < 4_000, "plotly's own template is left out"


@pytest.mark.parametrize("page", KINDS)
def test_a_page_has_a_figure_for_each_of_its_graphs_and_a_trace_for_each_line(page: str) -> None:
    plans = {plan.name: plan for plan in plans_of(page)}
    assert plans.keys() == KINDS[page].keys()
    for name, (series, unit) in KINDS[page].items():
        assert tuple(line.series for line in plans[name].lines) == series
        assert plans[name].unit == unit
        assert plans[name].title.endswith({"messages": ", messages", "per second": ", messages/s"}[unit])


@pytest.mark.parametrize("page", KINDS)
def test_colours_are_names_that_the_style_sheet_knows(page: str) -> None:
    for name in re.findall(r"var\((--[a-z0-9-]+)\)", json.dumps(figures_json(page))):
        assert f"  {name}: light-dark(#" in STYLES, name
    assert not re.search(r"#[0-9a-fA-F]{3,8}\b", json.dumps(figures_json(page)))


def test_columns_are_fifteen_minutes_of_every_line() -> None:
    hub = Hub()
    for index in range(3):
        hub.write(snapshot(topic("t", channel("t", "c", depth=index)), second=START_S + index))
    columns = graphs.columns_of(hub.live, graphs.channel_plans("t", "c"))
    assert columns["depth"][-4:] == [None, 0, 1, 2]
    assert {len(values) for values in columns.values()} == {900}
    assert graphs.columns_of(hub.live, graphs.channel_plans("t", "gone"))["depth"] == []


def test_plotly_is_prepared_once_compressed_and_under_its_hash(tmp_path: Path) -> None:
    stale = tmp_path / "static" / "plotly-0123456789abcdef.min.js"
    stale.parent.mkdir()
    stale.write_text("old")
    name = prepare(tmp_path)
    assert re.fullmatch(settings.WHITENOISE_IMMUTABLE_FILE_TEST, f"/static/{name}"), "browsers keep it for good"
    content = (resources.files("plotly") / "package_data" / "plotly.min.js").read_bytes()
    plain = tmp_path / "static" / name
    assert plain.read_bytes() == content
    assert gzip.decompress(plain.with_name(f"{name}.gz").read_bytes()) == content
    assert not stale.exists()
    before = plain.stat().st_mtime_ns
    assert prepare(tmp_path) == name
    assert plain.stat().st_mtime_ns == before, "the second start compresses nothing"


def test_styles_that_plotly_would_add_are_known_by_id() -> None:
    """Each is refused by the policy; the page keeps them out by having an element of that id."""
    source = (resources.files("plotly") / "package_data" / "plotly.min.js").read_text()
    ids = plotly_style_ids().split()
    assert ids
    assert all(source.count(identity) == 2 for identity in ids)
