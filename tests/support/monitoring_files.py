"""The dashboard and the alert rules, and what their expressions name."""

import json
import re
from collections.abc import Iterator
from typing import Any

from tests.support.processes.server import ROOT

MONITORING = ROOT / "queue_engine" / "service" / "monitoring"
ALERTS = MONITORING / "alerts.yaml"
DASHBOARD = MONITORING / "dashboard.json"

_METRIC = re.compile(r"\b((?:penstock|process)_[a-z_]+)(?:\{([^}]*)\})?")
_LABEL = re.compile(r"([a-z_]+)\s*(?:=~|!~|!=|=)")
_GROUPED = re.compile(r"\b(?:by|without)\s*\(([^)]*)\)")


def alert_expressions() -> list[str]:
    """Of each rule, in their order."""
    text = ALERTS.read_text()
    found = re.findall(r"^ +expr: (?:>-\n)?((?:.|\n)+?)\n +(?:for|labels):", text, re.MULTILINE)
    return [" ".join(expression.split()) for expression in found]


def panels() -> list[dict[str, Any]]:
    """Each panel of the dashboard that shows something."""

    def inside(listed: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
        for panel in listed:
            yield from inside(panel.get("panels", []))
            if panel["type"] != "row":
                yield panel

    return list(inside(json.loads(DASHBOARD.read_text())["panels"]))


def dashboard_expressions() -> list[str]:
    """Of each query of each panel."""
    return [target["expr"] for panel in panels() for target in panel["targets"]]


def metrics_of(expression: str) -> set[str]:
    return {name for name, _ in _METRIC.findall(expression)}


def labels_of(expression: str) -> set[tuple[str, str]]:
    """Metric and label, of each that the expression selects by."""
    return {(name, label) for name, inner in _METRIC.findall(expression) for label in _LABEL.findall(inner)}


def grouped_labels_of(expression: str) -> set[str]:
    """The labels that the expression groups by."""
    return {label.strip() for inner in _GROUPED.findall(expression) for label in inner.split(",")}
