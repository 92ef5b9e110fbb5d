"""Checks a request's token before its body is read: whether there is one, and its permissions on the topic.

The table of `rules.py` has the permission of each path. A request whose token is wrong waits for its answer, the longer
the more its address has sent (`identity/guesses.py`).
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import partial

from queue_engine.delivery.stats import ActRecord
from queue_engine.service.http.audit import HttpAudit
from queue_engine.service.http.exchange.request import RequestHead
from queue_engine.service.http.exchange.response import Response
from queue_engine.service.http.query import Query, parse_query, query_of
from queue_engine.service.http.refusals import Refusal
from queue_engine.service.http.rules import PATHS, Rule
from queue_engine.service.identity.authorization import Authorization
from queue_engine.service.identity.gate import Gate
from queue_engine.storage.readers.reader_registry import ANY_MAKER, Maker
from queue_engine.vocabulary.options.addresses import is_loopback, is_socket_path, split_address
from queue_engine.vocabulary.permission import Permission
from queue_engine.wire.user_claim import HEADER, claimed_user

MISSING = "TOKEN_REQUIRED"
NOT_ALLOWED = "NOT_ALLOWED"
_BEARER = b"bearer "
_CLAIM = HEADER.lower().encode()
# These name no topic: their handlers look at that of the lease, or of the search.
_OF_A_HANDLE = ("/log/renew", "/log/release", "/channel/search/state", "/channel/search/cancel")


@dataclass(frozen=True, slots=True)
class RefusedRequest:
    """The answer to a request that may not pass. delay_s: how long the answer waits."""

    response: Response
    delay_s: float = 0.0


class TokenCheck:
    """Checks requests by their path, their token and their topic."""

    def __init__(self, addresses: Iterable[str], gate: Gate, audit: HttpAudit) -> None:
        """addresses: on which the API listens, HOST:PORT or a path. gate: knows the tokens."""
        self._gate = gate
        self._is_loopback = all(is_socket_path(one) or is_loopback(split_address(one)[0]) for one in addresses)
        self._audit = audit

    def refusal(self, head: RequestHead) -> RefusedRequest | None:
        """The refusal of a request, which is reported to the audit list; None for a request that may pass. Sets its
        `actor`."""
        path = PATHS[head.route]
        secret = _secret_of(head)
        if path.rule is Rule.OPEN:
            return None
        authorization = self._gate.find(secret) if secret else None
        if authorization is not None:
            head.actor = authorization.identity
            head.on_behalf_of = claimed_user(head.header(_CLAIM) or b"")
            head.is_own = self._gate.is_own(secret)
            head.may_read = partial(authorization.may, Permission.CONSUME)
            head.may_administer = partial(authorization.may, Permission.ADMINISTER)
            if complaint := _complaint_about_rights(head, authorization):
                return RefusedRequest(self._refuse(head, NOT_ALLOWED, complaint))
            return None
        if self._gate.is_required_by_http:
            complaint = "the token is missing or wrong: Authorization: Bearer …"
            delay_s = self._gate.wrong(head.source_address, "http") if secret else 0.0
            return RefusedRequest(self._refuse(head, MISSING, complaint), delay_s)
        if path.rule in (Rule.BODIES, Rule.PROCESS) and not self._is_loopback:
            shown = "the process is" if path.rule is Rule.PROCESS else "bodies are"
            complaint = f"{shown} shown over this address only with a token: penstock token create, or --http-token"
            return RefusedRequest(self._refuse(head, MISSING, complaint))
        return None

    def has_token(self, head: RequestHead) -> bool:
        """Whether the request has a token that counts, whatever it allows."""
        secret = _secret_of(head)
        return bool(secret) and self._gate.find(secret) is not None

    def guess_delay_s(self, head: RequestHead) -> float:
        """How long the answer to a request waits that is refused without a token that counts: 0 where it has none."""
        return self._gate.wrong(head.source_address, "http") if _secret_of(head) else 0.0

    def is_own(self, head: RequestHead) -> bool:
        """Whether a process of this server sends it, on this machine."""
        secret = _secret_of(head)
        return bool(secret) and self._gate.is_own(secret) and is_loopback(head.remote_ip)

    def _refuse(self, head: RequestHead, word: str, complaint: str) -> Response:
        path = PATHS[head.route]
        if path.is_act(head.method):
            topic, channel = names_of(head)
            error = f"{word}: {complaint}"
            record = ActRecord(path.action, topic, channel, head.remote_address, error, None, actor=head.actor)
            self._audit.tell(replace(record, on_behalf_of=head.on_behalf_of))
        return Refusal(403, word, complaint).response()


def _secret_of(head: RequestHead) -> bytes:
    given = head.header(b"authorization") or b""
    length = len(_BEARER)
    return given[length:] if given[:length].lower() == _BEARER else b""


def _complaint_about_rights(head: RequestHead, authorization: Authorization) -> str:
    """The complaint about a permission that the token lacks for this request; "" where it lacks none."""
    route = head.route
    permission = PATHS[route].permission
    assert permission is not None
    # The parameters that the handler sees, and no others.
    query = _read_query(route, head)
    if route in _OF_A_HANDLE or (route == "/log/lease" and "lease" in query):
        if authorization.holds(permission):
            return ""
        return f"the token {authorization.identity} does not allow to {permission}"
    topics = [query.get("topic", "")]
    if "to" in query and route == "/channel/message/republish":
        topics.append(query["to"])
    for topic in topics:
        if not authorization.may(permission, topic, query.get("channel", "")):
            where = f"on topic {topic[:64]}" if topic else "on all topics, which this needs"
            return f"the token {authorization.identity} does not allow to {permission} {where}"
    return ""


def maker_of(head: RequestHead, topic: str) -> Maker:
    """Who makes or changes a lease or cursor of the topic by this request, whose token is checked."""
    if head.may_administer is None:
        return ANY_MAKER
    return Maker(head.author, is_limited=not head.may_administer(topic))


def _read_query(route: str, head: RequestHead) -> Query:
    try:
        return query_of(route, head.raw_query)
    except Refusal:
        return {}  # its handler refuses it


def names_of(head: RequestHead) -> tuple[str, str]:
    """The topic and the channel or cursor of a request; "" for one without."""
    try:
        query = parse_query(head.raw_query)
    except Refusal:
        return "", ""
    return query.get("topic", ""), query.get("channel", query.get("cursor", ""))
