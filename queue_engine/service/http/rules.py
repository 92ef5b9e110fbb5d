"""Who may ask for what over HTTP: one table of every path. A path without a rule needs the token, and fails a test.

With `--http-token`, whatever reads a body or changes something needs it. What only tells figures stays open: nsqadmin,
nsq_stat, probes and scrapers have no token to send.
"""

import hmac
import ipaddress
from collections.abc import Mapping
from enum import Enum

from queue_engine.delivery.stats import ActRecord
from queue_engine.service.http import cursors as http_cursors
from queue_engine.service.http.audit import HttpAudit
from queue_engine.service.http.connection import RequestHead, Response
from queue_engine.service.http.query import parse_query
from queue_engine.service.http.refusals import Refusal

WORD = "TOKEN_REQUIRED"


class Rule(Enum):
    """What a request must bring."""

    OPEN = "nothing"
    CHANGES = "the token, where there is one"
    # As CHANGES; and over an address that is not loopback nobody is answered while there is no token.
    BODIES = "the token; on loopback only where there is one"


RULES: Mapping[str, Rule] = {
    "/ping": Rule.OPEN,
    "/livez": Rule.OPEN,
    "/readyz": Rule.OPEN,
    "/info": Rule.OPEN,
    "/stats": Rule.OPEN,
    "/metrics": Rule.OPEN,
    "/pub": Rule.CHANGES,
    "/mpub": Rule.CHANGES,
    "/log/write": Rule.CHANGES,
    "/topic/create": Rule.CHANGES,
    "/topic/delete": Rule.CHANGES,
    "/topic/empty": Rule.CHANGES,
    "/topic/pause": Rule.CHANGES,
    "/topic/unpause": Rule.CHANGES,
    "/topic/retry": Rule.CHANGES,
    "/channel/create": Rule.CHANGES,
    "/channel/delete": Rule.CHANGES,
    "/channel/empty": Rule.CHANGES,
    "/channel/pause": Rule.CHANGES,
    "/channel/unpause": Rule.CHANGES,
    "/channel/retry": Rule.CHANGES,
    "/channel/seek": Rule.CHANGES,
    "/topic/messages": Rule.BODIES,
    "/log/read": Rule.BODIES,
    "/log/records": Rule.BODIES,
    "/log/topic": Rule.BODIES,
    "/log/lease": Rule.BODIES,
    "/log/renew": Rule.BODIES,
    "/log/release": Rule.BODIES,
    "/cursor/create": Rule.BODIES,
    "/cursor/move": Rule.BODIES,
    "/cursor/delete": Rule.BODIES,
    "/cursor/list": Rule.BODIES,
}

# Publishing is no act, and would flood the audit list.
_NOT_AUDITED = frozenset({"/pub", "/mpub", "/log/write"})


class TokenCheck:
    """Holds requests against the table, before any of their body is read."""

    def __init__(self, http_address: str, token: str, audit: HttpAudit) -> None:
        """http_address: HOST:PORT that is listened on. token: "" for none."""
        self._expected = b"Bearer " + token.encode() if token else b""
        self._is_loopback = _is_loopback(http_address.rpartition(":")[0].strip("[]"))
        self._audit = audit

    def refusal(self, head: RequestHead) -> Response | None:
        """The answer to a request that must not pass, which the audit hears of; None for one that may."""
        complaint = self._complaint(head)
        if not complaint:
            return None
        if head.path not in _NOT_AUDITED:
            self._tell(head, complaint)
        return Refusal(403, WORD, complaint).response()

    def _tell(self, head: RequestHead, complaint: str) -> None:
        error = f"{WORD}: {complaint}"
        topic, channel = names_of(head)
        self._audit.tell(ActRecord(_action_of(head.path), topic, channel, head.remote_address, error, None))

    def _complaint(self, head: RequestHead) -> str:
        rule = RULES.get(head.path, Rule.CHANGES)
        if rule is Rule.OPEN:
            return ""
        if not self._expected:
            if rule is Rule.CHANGES or self._is_loopback:
                return ""
            return "bodies are shown over this address only with a token: --http-token"
        # In constant time: how long it takes tells nothing of how much was right.
        if hmac.compare_digest(head.header(b"authorization") or b"", self._expected):
            return ""
        return "the token is missing or wrong: Authorization: Bearer …"


def _action_of(path: str) -> str:
    """The audit's word: /topic/empty → empty_topic; of what reads bodies read_messages."""
    if path == "/channel/seek":
        return "rewind_channel"
    if path in http_cursors.ACTS:
        return http_cursors.ACTS[path][1]
    thing, _, verb = path.strip("/").partition("/")
    return f"{verb}_{thing}" if thing in ("topic", "channel") and verb != "messages" else "read_messages"


def names_of(head: RequestHead) -> tuple[str, str]:
    """Topic, and channel or cursor, that a request names; "" where it names none."""
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
