"""The dashboard and the alert rules name metrics, labels and variables that there are."""

import itertools
import json
import re

import pytest

from queue_engine.service.monitoring.families import FAMILIES, HISTOGRAM, Family
from tests.support.monitoring_files import (
    DASHBOARD,
    alert_expressions,
    dashboard_expressions,
    grouped_labels_of,
    labels_of,
    metrics_of,
    panels,
)

# What Prometheus adds to each sample.
OF_TARGETS = {"instance", "job"}
WIDTH = 24


def family_of(metric: str) -> Family:
    """The family of a metric as expressions name it, such as X_bucket. Raises KeyError for one that there is not."""
    if metric in FAMILIES:
        assert FAMILIES[metric].kind != HISTOGRAM, f"{metric} is a histogram: it has _bucket, _sum and _count"
        return FAMILIES[metric]
    family = FAMILIES[re.sub("_(bucket|sum|count)$", "", metric)]
    assert family.kind == HISTOGRAM, metric
    return family


def labels_at(metric: str) -> set[str]:
    """The labels that samples of this metric have."""
    own = set(family_of(metric).labels) | OF_TARGETS
    return own | {"le"} if metric.endswith("_bucket") else own


@pytest.mark.parametrize("expressions", [dashboard_expressions(), alert_expressions()], ids=["dashboard", "alerts"])
def test_each_metric_and_label_that_is_named_exists(expressions: list[str]) -> None:
    assert len(expressions) > 20
    for expression in expressions:
        metrics = metrics_of(expression)
        assert metrics or "up{" in expression, expression
        for metric, label in labels_of(expression):
            assert label in labels_at(metric), f"{metric} has no label {label}: {expression}"
        for label in grouped_labels_of(expression):
            assert any(label in labels_at(metric) for metric in metrics), f"nothing has {label}: {expression}"


def test_no_label_is_one_that_prometheus_gives_to_targets() -> None:
    """Such a label would get another name (exported_job)."""
    assert [family.name for family in FAMILIES.values() if OF_TARGETS & set(family.labels)] == []


def test_counters_are_shown_as_rates_and_gauges_as_they_are() -> None:
    for expression in dashboard_expressions() + alert_expressions():
        for function, metric in re.findall(r"(\w+)\s*\(\s*((?:penstock|process)_[a-z_]+)", expression):
            counts = family_of(metric).kind != "gauge"
            if function in ("rate", "increase"):
                assert counts, f"{metric} is a gauge: {expression}"
        for metric in metrics_of(expression):
            if family_of(metric).kind != "gauge" and metric != "penstock_log_damaged_messages_total":
                assert re.search(rf"(rate|increase)\({metric}\b", expression), f"{metric} is a counter: {expression}"


def test_the_dashboard_uses_only_variables_that_it_has() -> None:
    board = json.loads(DASHBOARD.read_text())
    known = {one["name"] for one in board["templating"]["list"]} | {"__rate_interval"}
    used = set(re.findall(r"\$\{?(\w+)", DASHBOARD.read_text())) - {"__all"}
    assert used == known
    for one in board["templating"]["list"]:
        if one["type"] == "query":
            metric, label = re.fullmatch(r"label_values\((\w+)(?:\{.*\})?, (\w+)\)", one["definition"]).groups()
            assert label in labels_at(metric)
            assert one["query"]["query"] == one["definition"]


def test_panels_have_ids_titles_units_and_places_of_their_own() -> None:
    everything = json.loads(DASHBOARD.read_text())["panels"]
    assert len({panel["id"] for panel in everything}) == len(everything)
    titles = [panel["title"] for panel in everything]
    assert len(set(titles)) == len(titles)
    for panel in panels():
        assert panel["fieldConfig"]["defaults"]["unit"], panel["title"]
        assert [target["refId"] for target in panel["targets"]] == list("ABCDEFGH"[: len(panel["targets"])])
        assert panel["datasource"]["uid"] == "${datasource}"
    cells = [
        cell
        for x, y, width, height in ([panel["gridPos"][side] for side in "xywh"] for panel in everything)
        for cell in itertools.product(range(x, x + width), range(y, y + height))
    ]
    assert len(set(cells)) == len(cells), "panels overlap"
    assert max(x for x, _ in cells) < WIDTH


def test_legends_name_labels_that_the_series_have() -> None:
    for panel in panels():
        for target in panel["targets"]:
            expression = target["expr"]
            for label in re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]):
                grouped = grouped_labels_of(expression)
                has_groups = bool(grouped) or re.match(r"(sum|max|min)\(", expression)
                there = grouped if has_groups else set().union(*map(labels_at, metrics_of(expression)))
                assert label in there, f"{panel['title']}: no {label} in {expression}"
