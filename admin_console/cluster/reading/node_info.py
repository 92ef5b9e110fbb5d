"""A node's `/info`: who it is, and which program."""

from dataclasses import dataclass
from typing import Any

from admin_console.cluster.reading.members import Identity

_TEXT_LENGTH_MAX = 255
_SECONDS_MAX = 1 << 40
_OWN_MARK = "+penstock."  # queue_engine/vocabulary/version.py


@dataclass(frozen=True, slots=True)
class NodeInfo:
    """identity: who it is. version: as it reports it; that of a Penstock names nsqd's version and its own."""

    identity: Identity
    version: str
    zone: str = ""
    region: str = ""

    @property
    def is_penstock(self) -> bool:
        return _OWN_MARK in self.version

    @property
    def product(self) -> str:
        """Whose program it is, and which version of it: "nsqd 1.3.0", "Penstock 0.2.0"."""
        before, mark, own = self.version.partition(_OWN_MARK)
        return f"Penstock {own}" if mark else f"nsqd {before}"


def node_info_in(document: Any) -> NodeInfo | None:
    """The answer to `/info`, also that of an nsqd before 1.0; None for another form."""
    fields = document.get("data", document) if isinstance(document, dict) else None
    if not isinstance(fields, dict) or not isinstance(fields.get("version"), str):
        return None

    def text(key: str) -> str:
        value = fields.get(key)
        return value[:_TEXT_LENGTH_MAX] if isinstance(value, str) else ""

    def number(key: str, most: int) -> int:
        value = fields.get(key)
        return value if type(value) is int and 0 <= value <= most else 0

    identity = Identity(
        text("hostname"),
        text("broadcast_address"),
        number("tcp_port", 65535),
        number("http_port", 65535),
        number("start_time", _SECONDS_MAX),
    )
    return NodeInfo(identity, text("version"), text("topology_zone"), text("topology_region"))
