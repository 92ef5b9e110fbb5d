"""The table of metrics."""

import re

from queue_engine.service.monitoring.disk_usage import KINDS
from queue_engine.service.monitoring.families import FAMILIES
from tests.support.references.generated import ROOT, code, table

_ALERTS = ROOT / "queue_engine" / "service" / "monitoring" / "alerts.yaml"


def disk_kinds() -> list[str]:
    return table(("kind", "files"), [(code(kind), text) for kind, text in KINDS.items()])


def alerts() -> list[str]:
    rows = re.findall(
        r'- alert: (\w+)\n(?:(?!- alert).)*?severity: (\w+).*?summary: "(.*?)"\n +action: "(.*?)"\n',
        _ALERTS.read_text(),
        re.DOTALL,
    )
    return table(
        ("alert", "severity", "when", "what to do"),
        [(name, severity, _in_words(summary), action) for name, severity, summary, action in rows],
    )


def _in_words(summary: str) -> str:
    """A rule's summary without the server, its labels as …"""
    text = summary.partition(": ")[2]
    text = re.sub(r"\{\{ \$labels\.(\w+) \}\}", r"*\1*", text)
    return re.sub(r"\{\{ \$value.*?\}\}", "…", text)


def metrics() -> list[str]:
    return table(
        ("metric", "kind", "labels", "unit", "meaning"),
        [(code(one.name), one.kind, ", ".join(map(code, one.labels)), one.unit, one.help) for one in FAMILIES.values()],
    )
