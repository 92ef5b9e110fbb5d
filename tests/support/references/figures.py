"""The table of the figures of topics, channels and clients."""

from queue_engine.vocabulary.figures import CHANNEL, CLIENT, TOPIC, in_stats
from tests.support.references.generated import code, table


def figures() -> list[str]:
    """A row for each key of /stats, in its order, with its names elsewhere."""
    of = {"topic": TOPIC, "channel": CHANNEL, "client": CLIENT}
    return table(
        ("of", "key", "", "unit", "metric", "statsd", "sample", "meaning"),
        [
            (name, code(row.name), row.kind.value, row.unit, *map(code, (row.metric, row.statsd, row.sample)), row.text)
            for name, rows in of.items()
            for row in in_stats(rows)
        ],
    )
