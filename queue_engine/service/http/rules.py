"""The table of every path: its method, whether it needs the token, and its name in the audit list.

With `--http-token`, every request that publishes, changes something or reads topics of the log needs the token. Probes
and requests for stats stay open: nsqadmin, nsq_stat and scrapers have no token to send. A path that is not in the table
is answered 404.
"""

import hmac
import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from queue_engine.delivery.stats import ActRecord
from queue_engine.service.http.audit import HttpAudit
from queue_engine.service.http.connection import RequestHead, Response
from queue_engine.service.http.query import parse_query
from queue_engine.service.http.reference.endpoints import CONFIG, route_of
from queue_engine.service.http.refusals import Refusal

WORD = "TOKEN_REQUIRED"


class Rule(Enum):
    """What a request must have."""

    OPEN = "nothing"
    CHANGES = "the token, where there is one"
    # As CHANGES; and without a token the API answers them on loopback only.
    BODIES = "the token; on loopback only where there is one"
    # As BODIES; the process itself is shown.
    PROCESS = "the token of an administrator; on loopback only where there is one"


@dataclass(frozen=True, slots=True)
class Path:
    """method: GET or POST. rule: what a request must have. action: its name in the audit list; "" for requests
    without a row there: publishing is no act, and would flood the list. changed_by: a second method, which changes what
    the first one reads, and which alone has rows in the audit list; "" for none."""

    method: str
    rule: Rule
    action: str = ""
    changed_by: str = ""

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
    "/pub": Path("POST", Rule.CHANGES),
    "/mpub": Path("POST", Rule.CHANGES),
    "/log/write": Path("POST", Rule.CHANGES),
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


class TokenCheck:
    """Checks a request's token before its body is read."""

    def __init__(self, http_address: str, token: str, audit: HttpAudit) -> None:
        """http_address: the HOST:PORT on which the API listens. token: "" for none."""
        self._expected = b"Bearer " + token.encode() if token else b""
        self._is_loopback = _is_loopback(http_address.rpartition(":")[0].strip("[]"))
        self._audit = audit

    def refusal(self, head: RequestHead) -> Response | None:
        """The refusal of a request, which it reports to the audit list; None for a request that may pass."""
        complaint = self._complaint(head)
        if not complaint:
            return None
        if PATHS[route_of(head.path)].is_act(head.method):
            self._tell(head, complaint)
        return Refusal(403, WORD, complaint).response()

    def _tell(self, head: RequestHead, complaint: str) -> None:
        error = f"{WORD}: {complaint}"
        topic, channel = names_of(head)
        self._audit.tell(ActRecord(PATHS[route_of(head.path)].action, topic, channel, head.remote_address, error, None))

    def _complaint(self, head: RequestHead) -> str:
        rule = PATHS[route_of(head.path)].rule
        if rule is Rule.OPEN:
            return ""
        if not self._expected:
            if rule is Rule.CHANGES or self._is_loopback:
                return ""
            what = "the process is" if rule is Rule.PROCESS else "bodies are"
            return f"{what} shown over this address only with a token: --http-token"
        # In constant time, so that the duration says nothing about the token.
        if hmac.compare_digest(head.header(b"authorization") or b"", self._expected):
            return ""
        return "the token is missing or wrong: Authorization: Bearer …"


def names_of(head: RequestHead) -> tuple[str, str]:
    """The topic and the channel or cursor of a request; "" for one without."""
    try:
        query = parse_query(head.raw_query)
    except Refusal:
        return "", ""
    return query.get("topic", ""), query.get("channel", query.get("cursor", ""))


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
