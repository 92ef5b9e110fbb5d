"""The table of metrics."""

from queue_engine.service.monitoring.disk_usage import KINDS
from queue_engine.service.monitoring.families import FAMILIES
from tests.support.references.generated import code, table


def disk_kinds() -> list[str]:
    return table(("kind", "files"), [(code(kind), text) for kind, text in KINDS.items()])


def metrics() -> list[str]:
    return table(
        ("metric", "kind", "labels", "unit", "meaning"),
        [(code(one.name), one.kind, ", ".join(map(code, one.labels)), one.unit, one.help) for one in FAMILIES.values()],
    )
