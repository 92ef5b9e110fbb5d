"""The table of every path: its method, whether it needs a token and which permission, and its name in the audit list.

Where there are tokens, or `--http-token`, every request that publishes, changes something or reads topics of the log
needs one. Probes and requests for stats stay open: nsqadmin, nsq_stat and scrapers have no token to send. A path that
is not in the table is answered 404.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from queue_engine.identity.permission import Permission
from queue_engine.service.http.reference.endpoints import CONFIG


class Rule(Enum):
    """What a request must have."""

    OPEN = "nothing"
    CHANGES = "a token, where there are some"
    # As CHANGES; and without tokens the API answers them on loopback only.
    BODIES = "a token; on loopback only where there are some"
    # As BODIES; the process itself is shown.
    PROCESS = "a token that may administer; on loopback only where there are some"


# What a token must allow, where the path's row does not say it.
_PERMISSIONS = {
    Rule.OPEN: None,
    Rule.CHANGES: Permission.ADMINISTER,
    Rule.BODIES: Permission.CONSUME,
    Rule.PROCESS: Permission.ADMINISTER,
}


@dataclass(frozen=True, slots=True)
class Path:
    """method: GET or POST. rule: what a request must have. action: its name in the audit list; "" for requests
    without a row there: publishing is no act, and would flood the list. changed_by: a second method, which changes what
    the first one reads, and which alone has rows in the audit list; "" for none. publishes: a token must allow to
    publish, and no more."""

    method: str
    rule: Rule
    action: str = ""
    changed_by: str = ""
    publishes: bool = False

    @property
    def permission(self) -> Permission | None:
        """What a token must allow on the request's topic; None for nothing."""
        return Permission.PUBLISH if self.publishes else _PERMISSIONS[self.rule]

    @property
    def methods(self) -> tuple[str, ...]:
        return (self.method, self.changed_by) if self.changed_by else (self.method,)

    def is_act(self, method: str) -> bool:
        """Whether a request with this method has a row in the audit list."""
        return bool(self.action) and self.changed_by in ("", method)


PATHS: Mapping[str, Path] = {
    "/ping": Path("GET", Rule.OPEN),
    "/livez": Path("GET", Rule.OPEN),
    "/readyz": Path("GET", Rule.OPEN),
    "/info": Path("GET", Rule.OPEN),
    "/stats": Path("GET", Rule.OPEN),
    "/metrics": Path("GET", Rule.OPEN),
    "/openapi.json": Path("GET", Rule.OPEN),
    CONFIG: Path("GET", Rule.CHANGES, "change_option", changed_by="PUT"),
    "/debug/pprof/": Path("GET", Rule.PROCESS),
    "/debug/threads": Path("GET", Rule.PROCESS),
    "/debug/tasks": Path("GET", Rule.PROCESS),
    "/debug/memory": Path("GET", Rule.PROCESS),
    "/debug/gc": Path("GET", Rule.PROCESS),
    "/debug/freememory": Path("POST", Rule.PROCESS),
    "/debug/setblockrate": Path("PUT", Rule.PROCESS),
    "/pub": Path("POST", Rule.CHANGES, publishes=True),
    "/mpub": Path("POST", Rule.CHANGES, publishes=True),
    "/log/write": Path("POST", Rule.CHANGES, publishes=True),
    "/topic/create": Path("POST", Rule.CHANGES, "create_topic"),
    "/topic/delete": Path("POST", Rule.CHANGES, "delete_topic"),
    "/topic/empty": Path("POST", Rule.CHANGES, "empty_topic"),
    "/topic/pause": Path("POST", Rule.CHANGES, "pause_topic"),
    "/topic/unpause": Path("POST", Rule.CHANGES, "unpause_topic"),
    "/topic/retry": Path("POST", Rule.CHANGES, "retry_topic"),
    "/channel/create": Path("POST", Rule.CHANGES, "create_channel"),
    "/channel/delete": Path("POST", Rule.CHANGES, "delete_channel"),
    "/channel/empty": Path("POST", Rule.CHANGES, "empty_channel"),
    "/channel/pause": Path("POST", Rule.CHANGES, "pause_channel"),
    "/channel/unpause": Path("POST", Rule.CHANGES, "unpause_channel"),
    "/channel/retry": Path("POST", Rule.CHANGES, "retry_channel"),
    "/channel/max_attempts": Path("POST", Rule.CHANGES, "set_max_attempts"),
    "/channel/redrive": Path("POST", Rule.CHANGES, "redrive_channel"),
    "/channel/redrive/cancel": Path("POST", Rule.CHANGES, "cancel_redrive"),
    "/channel/seek": Path("POST", Rule.CHANGES, "rewind_channel"),
    "/channel/message/finish": Path("POST", Rule.CHANGES, "finish_messages"),
    "/channel/message/requeue": Path("POST", Rule.CHANGES, "requeue_messages"),
    "/channel/message/release": Path("POST", Rule.CHANGES, "release_messages"),
    "/channel/message/republish": Path("POST", Rule.CHANGES, "publish_again"),
    "/channel/message/quarantine": Path("POST", Rule.CHANGES, "quarantine_messages"),
    "/channel/message/redrive": Path("POST", Rule.CHANGES, "redrive_messages"),
    "/channel/messages": Path("GET", Rule.BODIES, "read_messages"),
    "/channel/message": Path("GET", Rule.BODIES, "read_messages"),
    "/channel/search": Path("POST", Rule.BODIES, "read_messages"),
    "/channel/search/state": Path("GET", Rule.BODIES, "read_messages"),
    "/channel/search/cancel": Path("POST", Rule.BODIES, "read_messages"),
    "/trash": Path("GET", Rule.CHANGES, "list_trash"),
    "/trash/restore": Path("POST", Rule.CHANGES, "restore_trash"),
    "/trash/delete": Path("POST", Rule.CHANGES, "delete_trash"),
    "/topic/messages": Path("GET", Rule.BODIES, "read_messages"),
    "/log/read": Path("GET", Rule.BODIES, "read_messages"),
    "/log/records": Path("GET", Rule.BODIES, "read_messages"),
    "/log/topic": Path("GET", Rule.BODIES, "read_messages"),
    "/log/lease": Path("POST", Rule.BODIES, "read_messages"),
    "/log/renew": Path("POST", Rule.BODIES, "read_messages"),
    "/log/release": Path("POST", Rule.BODIES, "read_messages"),
    "/cursor/create": Path("POST", Rule.BODIES, "create_cursor"),
    "/cursor/move": Path("POST", Rule.BODIES, "move_cursor"),
    "/cursor/delete": Path("POST", Rule.BODIES, "delete_cursor"),
    "/cursor/list": Path("GET", Rule.BODIES, "list_cursors"),
}
