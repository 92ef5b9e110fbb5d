"""The table of metrics."""

from queue_engine.service.monitoring.families import FAMILIES
from tests.support.references.generated import code, table


def metrics() -> list[str]:
    return table(
        ("metric", "kind", "labels", "unit", "meaning"),
        [(code(one.name), one.kind, ", ".join(map(code, one.labels)), one.unit, one.help) for one in FAMILIES.values()],
    )
