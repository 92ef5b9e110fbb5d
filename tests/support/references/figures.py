"""The table of the figures of topics, channels and clients."""

from queue_engine.vocabulary.figures import CHANNEL, CLIENT, TOPIC, Figure, in_stats
from tests.support.references.generated import code, table


def elsewhere(row: Figure) -> tuple[str, str, str]:
    return row.metric, row.statsd, row.sample


def figures() -> list[str]:
    """A row for each key of /stats, in its order, with its names elsewhere."""
    return table(
        ("of", "key", "", "unit", "metric", "statsd", "sample", "meaning"),
        [
            (
                of,
                code(row.name),
                row.kind.value,
                row.unit,
                *map(code, (row.metric, row.statsd, row.sample)),
                row.meaning,
            )
            for of, rows in {"topic": TOPIC, "channel": CHANNEL, "client": CLIENT}.items()
            for row in in_stats(rows)
        ],
    )
