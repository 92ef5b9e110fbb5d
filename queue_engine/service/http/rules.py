"""Every path: its method, whether it needs a token and which permission, and its name in the audit list. The paths of
acts come from the acts' own table (`vocabulary/acts/table.py`).

Where there are tokens, or `--http-token`, every request that publishes, changes something or reads topics of the log
needs one. Probes and requests for stats stay open: nsqadmin, nsq_stat and scrapers have no token to send. A path that
is not in the table is answered 404.

Each row answers one question as its `harm`: what can the holder of the permission destroy, or keep others from? A token
for some topics does that on these topics alone. Over TCP, `consume` also finishes messages and creates channels by SUB,
which hold the log until they are deleted.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from queue_engine.service.http.reference.endpoints import CONFIG
from queue_engine.vocabulary.acts.act import Act, OverHttp
from queue_engine.vocabulary.acts.table import ACTS, OWN_READERS
from queue_engine.vocabulary.permission import Permission


class Rule(Enum):
    """The token that a request needs."""

    OPEN = "nothing"
    CHANGES = "a token, where there are some"
    # As CHANGES; and without tokens the API answers them on loopback only.
    BODIES = "a token; on loopback only where there are some"
    # As BODIES; the process itself is shown.
    PROCESS = "a token that may administer; on loopback only where there are some"


# The permission that a token needs, unless the path's row says it.
_PERMISSIONS = {
    Rule.OPEN: None,
    Rule.CHANGES: Permission.ADMINISTER,
    Rule.BODIES: Permission.CONSUME,
    Rule.PROCESS: Permission.ADMINISTER,
}

_NONE = "nothing"
_SHOWS = "nothing; shows bodies and keys, audited"
_PUBLISHES = "fills the disk to its limit, where all publishes are refused; makes topics up to --max-topics"


@dataclass(frozen=True, slots=True)
class Path:
    """method: GET or POST. rule: the token that a request needs. action: its name in the audit list; "" for requests
    without a row there: publishing is no act, and would flood the list. changed_by: a second method, which changes the
    value that the first one reads, and which alone has rows in the audit list; "" for none. publishes: a token must
    allow to publish, and no more. any_host: the daemon answers whatever Host the request names (`access.py`). harm: the
    harm that its holder can do."""

    method: str
    rule: Rule
    action: str = ""
    changed_by: str = ""
    publishes: bool = False
    any_host: bool = False
    harm: str = field(kw_only=True)
    methods: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        # Once for all requests: the class is frozen.
        object.__setattr__(self, "methods", (self.method, self.changed_by) if self.changed_by else (self.method,))

    @property
    def permission(self) -> Permission | None:
        """The permission that a token needs on the request's topic; None for none."""
        return Permission.PUBLISH if self.publishes else _PERMISSIONS[self.rule]

    def is_act(self, method: str) -> bool:
        """Whether a request with this method has a row in the audit list."""
        return bool(self.action) and self.changed_by in ("", method)


def _of_act(act: Act, http: OverHttp) -> Path:
    rule = Rule.BODIES if http.permission is Permission.CONSUME else Rule.CHANGES
    return Path("POST", rule, act.name, harm=http.harm)


PATHS: Mapping[str, Path] = {
    **{act.http.path: _of_act(act, act.http) for act in ACTS.values() if act.http is not None},
    "/ping": Path("GET", Rule.OPEN, any_host=True, harm=_NONE),
    "/livez": Path("GET", Rule.OPEN, any_host=True, harm=_NONE),
    "/readyz": Path("GET", Rule.OPEN, any_host=True, harm=_NONE),
    "/info": Path("GET", Rule.OPEN, any_host=True, harm=_NONE),
    "/stats": Path(
        "GET",
        Rule.OPEN,
        any_host=True,
        harm="nothing; shows names of topics and addresses of clients; its work is paced",
    ),
    "/metrics": Path("GET", Rule.OPEN, harm="nothing; shows names of topics; its work is paced"),
    "/openapi.json": Path("GET", Rule.OPEN, harm=_NONE),
    CONFIG: Path(
        "GET",
        Rule.CHANGES,
        "change_option",
        changed_by="PUT",
        harm="verbose logging fills the disk of the log; lower limits refuse clients; until the next start",
    ),
    "/debug/pprof/": Path("GET", Rule.PROCESS, harm=_NONE),
    "/debug/threads": Path("GET", Rule.PROCESS, harm="nothing; shows code and stacks"),
    "/debug/tasks": Path("GET", Rule.PROCESS, harm="nothing; shows code and stacks"),
    "/debug/memory": Path("GET", Rule.PROCESS, harm="nothing; the look takes a moment of the engine's time"),
    "/debug/gc": Path("GET", Rule.PROCESS, harm="nothing; shows types of objects"),
    "/debug/freememory": Path("POST", Rule.PROCESS, harm="all clients wait for the length of a collection"),
    "/debug/setblockrate": Path("PUT", Rule.PROCESS, harm="nothing: not supported"),
    "/pub": Path("POST", Rule.CHANGES, publishes=True, harm=_PUBLISHES),
    "/mpub": Path("POST", Rule.CHANGES, publishes=True, harm=_PUBLISHES),
    "/log/write": Path(
        "POST",
        Rule.CHANGES,
        publishes=True,
        harm=f"{_PUBLISHES}; pushes out the oldest batch keys of all topics: a late retry of those is written twice",
    ),
    "/channel/messages": Path("GET", Rule.BODIES, "read_messages", harm=_SHOWS),
    "/channel/message": Path("GET", Rule.BODIES, "read_messages", harm=_SHOWS),
    "/channel/search": Path(
        "POST", Rule.BODIES, "read_messages", harm=f"{_SHOWS}; a place among the searches that run at once"
    ),
    "/channel/search/state": Path("GET", Rule.BODIES, "read_messages", harm=_SHOWS),
    "/channel/search/cancel": Path("POST", Rule.BODIES, "read_messages", harm="a search whose random name it has"),
    "/channel/seek/preview": Path("GET", Rule.CHANGES, harm="nothing; shows offsets and counts"),
    "/trash": Path("GET", Rule.CHANGES, "list_trash", harm="nothing; shows names"),
    "/topic/messages": Path("GET", Rule.BODIES, "read_messages", harm=_SHOWS),
    "/log/read": Path("GET", Rule.BODIES, "read_messages", harm=_SHOWS),
    "/log/records": Path("GET", Rule.BODIES, "read_messages", harm=_SHOWS),
    "/log/topic": Path("GET", Rule.BODIES, "read_messages", harm=_NONE),
    "/log/lease": Path("POST", Rule.BODIES, "read_messages", harm=f"{_SHOWS}; {OWN_READERS}"),
    "/log/renew": Path("POST", Rule.BODIES, "read_messages", harm=OWN_READERS),
    "/log/release": Path("POST", Rule.BODIES, "read_messages", harm="its own leases: their reader begins anew"),
    "/cursor/list": Path("GET", Rule.BODIES, "list_cursors", harm="nothing; shows names"),
}
