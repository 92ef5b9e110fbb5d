"""A client of a node as the stats that pages read: `ClientStats`, as the embedded engine has them."""

from typing import Any

from admin_console.cluster.node_stats import Figures
from queue_engine.delivery.stats import ClientStats
from queue_engine.vocabulary.figures import CLIENT, in_stats

# Of a connection in a page's path: an address as all others than hostile nodes write it.
KEY = r"[A-Za-z0-9\[][A-Za-z0-9._:%\[\]-]{0,99}"
# Attribute of the stats → key in the node's answer, and what stands for none; `pub_counts` is read apart. Of two keys
# with one attribute the first counts.
_FIELDS = frozenset(ClientStats.__dataclass_fields__)
_MISSING: dict[Any, Any] = {int: 0, bool: False, str: ""}
_NAMES: dict[str, tuple[str, Any]] = {
    row.attribute: (row.name, _MISSING[row.type])
    for row in reversed(in_stats(CLIENT))
    if row.type in _MISSING and row.attribute in _FIELDS
}


def client_stats(figures: Figures, client_key: int = 0) -> ClientStats:
    """What the node's answer lacks is 0, False or "": an nsqd counts no timeouts of a client and reports no message
    timeout."""
    found: dict[str, Any] = {attribute: figures.get(name) or missing for attribute, (name, missing) in _NAMES.items()}
    counts = figures.get("pub_counts")
    found["pub_counts"] = tuple(counts.items()) if isinstance(counts, dict) else ()
    return ClientStats(client_key=client_key, **found)
