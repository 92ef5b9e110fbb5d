"""A node's `/info`: who it is, and which program; of a Penstock also the acts that its version has."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from admin_console.cluster.reading.members import Identity
from queue_engine.vocabulary.acts.table import ACTS

_TEXT_LENGTH_MAX = 255
_SECONDS_MAX = 1 << 40
_OWN_MARK = "+penstock."  # queue_engine/vocabulary/version.py
# The one version of Penstock that reports its own version alone; an nsqd of that number has no /info.
_WITHOUT_MARK = "0.1.0"

PUBLISH_PATH, MESSAGES_PATH, PUBLISHED_PATH = "/pub", "/channel/messages", "/topic/messages"
PREVIEW_PATH, MESSAGE_PATH = "/channel/seek/preview", "/channel/message"
_PATHS = frozenset(
    {act.http.path for act in ACTS.values() if act.http is not None}
    | {PUBLISH_PATH, MESSAGES_PATH, MESSAGE_PATH, PUBLISHED_PATH, PREVIEW_PATH}
)
_PARAMETERS_MAX = 50


@dataclass(frozen=True, slots=True)
class NodeInfo:
    """identity: who it is. version: as it reports it; that of a Penstock names nsqd's version and its own. paths: those
    of the acts of a Penstock, each with its parameters; None where it names none."""

    identity: Identity
    version: str
    zone: str = ""
    region: str = ""
    paths: Mapping[str, frozenset[str]] | None = None

    @property
    def is_penstock(self) -> bool:
        return _OWN_MARK in self.version or self.version == _WITHOUT_MARK

    @property
    def product(self) -> str:
        """Whose program it is, and which version of it: "nsqd 1.3.0", "Penstock 0.2.0"."""
        before, mark, own = self.version.partition(_OWN_MARK)
        if self.is_penstock:
            return f"Penstock {own if mark else before}"
        return f"nsqd {before}"

    def has_path(self, path: str) -> bool:
        """Whether its API has the path of an act. True for a Penstock that names no paths: it refuses the act then."""
        return self.paths is None or path in self.paths

    def takes(self, path: str, parameter: str) -> bool:
        """Whether an act of a Penstock knows a parameter beside the names; one that does not would ignore it."""
        return self.is_penstock and (self.paths is None or parameter in self.paths.get(path, ()))


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


def paths_in(document: Any) -> Mapping[str, frozenset[str]] | None:
    """The paths of acts in the answer to `/openapi.json`, with the parameters of each; None for another form."""
    listed = document.get("paths") if isinstance(document, dict) else None
    if not isinstance(listed, dict):
        return None
    return {path: frozenset(_parameters_of(listed[path])) for path in _PATHS & listed.keys()}


def _parameters_of(operations: Any) -> set[str]:
    found: set[str] = set()
    for operation in operations.values() if isinstance(operations, dict) else ():
        parameters = operation.get("parameters") if isinstance(operation, dict) else None
        for one in parameters[:_PARAMETERS_MAX] if isinstance(parameters, list) else ():
            if isinstance(one, dict) and isinstance(name := one.get("name"), str):
                found.add(name[:_TEXT_LENGTH_MAX])
    return found
