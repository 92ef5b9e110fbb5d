"""Every path with its parameters and answers. `rules.py` has the same paths, with their methods."""

from collections.abc import Mapping

from queue_engine.service.http.reference.act_paths import paths_of_acts
from queue_engine.service.http.reference.declarations import Endpoint
from queue_engine.service.http.reference.message_paths import MESSAGES
from queue_engine.service.http.reference.publish_paths import PUBLISHING
from queue_engine.service.http.reference.read_paths import CURSORS, PREVIEWS, READING, TRASH
from queue_engine.service.http.reference.server_paths import DEBUG, SERVER

# Heading → its paths.
SECTIONS: Mapping[str, Mapping[str, Endpoint]] = {
    "The server": SERVER,
    "Looking into the process": DEBUG,
    "Publishing": PUBLISHING,
    "Topics and channels": {**paths_of_acts("/topic/", "/channel/"), **PREVIEWS},
    "Single messages of a channel": MESSAGES,
    "The trash": {**TRASH, **paths_of_acts("/trash/")},
    "Reading, leases": READING,
    "Pipeline cursors": {**paths_of_acts("/cursor/"), **CURSORS},
}
ENDPOINTS: Mapping[str, Endpoint] = {
    path: endpoint for section in SECTIONS.values() for path, endpoint in section.items()
}
# One path for all options: the part behind its slash is the option's name.
CONFIG = "/config/{opt}"
_CONFIG_START = CONFIG.removesuffix("{opt}")


def route_of(path: str) -> str:
    """The entry of a request's path: the path itself, or that of the options."""
    option = option_of(path)
    return CONFIG if option and "/" not in option else path


def option_of(path: str) -> str:
    """The option that a path names; "" for none."""
    return path.removeprefix(_CONFIG_START) if path.startswith(_CONFIG_START) else ""


# The paths that nsqd has as well: their errors have nsqd's body.
_NSQD_PATHS = {
    *("/ping", "/info", "/stats", "/pub", "/mpub", CONFIG, "/debug/pprof/", "/debug/freememory", "/debug/setblockrate"),
    *(f"/topic/{act}" for act in ("create", "delete", "empty", "pause", "unpause")),
    *(f"/channel/{act}" for act in ("create", "delete", "empty", "pause", "unpause")),
}
# The paths that Penstock alone has: their errors have the detail and the finer code in the body, too.
OWN_PATHS = frozenset(ENDPOINTS.keys() - _NSQD_PATHS)
