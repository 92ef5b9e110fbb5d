"""nsqd's HTTP API over the engine: the same paths, parameters, status codes and error codes.

An error is `{"message": "CODE"}` with nsqd's code; many have a sentence in a header (`wire/error_answers.py`). Beyond
nsqd, the API refuses requests from other origins (`access.py`). This module routes requests by path and answers those
about the server itself; `publish.py`, `acts.py` and `reads.py` handle the others.
"""

import asyncio
import socket
import time
from collections.abc import Callable, Generator
from dataclasses import replace
from functools import cache, partial
from typing import Any, NamedTuple

import orjson

from queue_engine.delivery.stats import HEALTHY, ActRecord, EngineSnapshot
from queue_engine.engine.engine import Engine
from queue_engine.service.admission.creations import Creations
from queue_engine.service.admission.pending_bodies import PendingBodies
from queue_engine.service.admission.publish_quotas import PublishQuotas
from queue_engine.service.admission.refused_connections import RefusedConnections
from queue_engine.service.admission.refused_publishes import Reason
from queue_engine.service.admission.refused_requests import RefusedRequests
from queue_engine.service.http.access import FORBIDDEN_HOST, HostCheck
from queue_engine.service.http.acts import ActRoutes
from queue_engine.service.http.answer_thread import AnswerThread
from queue_engine.service.http.audit import HttpAudit
from queue_engine.service.http.exchange.connection import ConnectionLimits, HttpConnection, connection_pool
from queue_engine.service.http.exchange.handler import BodyLimit, Handler
from queue_engine.service.http.exchange.paced_steps import PacedSteps
from queue_engine.service.http.exchange.request import RequestHead
from queue_engine.service.http.exchange.response import Answer, Response, error_response, internal_error
from queue_engine.service.http.messages import MessageRoutes
from queue_engine.service.http.publish import PublishRoutes
from queue_engine.service.http.query import BOOLEANS, query_of, topic_patterns
from queue_engine.service.http.reads import ReadRoutes
from queue_engine.service.http.reference.content_types import JSON
from queue_engine.service.http.reference.document import Access, openapi_document
from queue_engine.service.http.reference.endpoints import ENDPOINTS, OWN_PATHS
from queue_engine.service.http.refusals import Refusal
from queue_engine.service.http.routing import misrouted
from queue_engine.service.http.rules import PATHS, Rule
from queue_engine.service.http.server_routes import ServerRoutes
from queue_engine.service.http.stats import Wanted, stats_json, stats_text
from queue_engine.service.http.token_check import RefusedRequest, TokenCheck, names_of
from queue_engine.service.http.trash import TrashRoutes
from queue_engine.service.identity.gate import Gate
from queue_engine.service.monitoring.console_figures import Console, NoConsole
from queue_engine.service.monitoring.exposition import CONTENT_TYPE as METRICS
from queue_engine.service.monitoring.metrics import SurroundingsReader, metrics_text
from queue_engine.service.monitoring.process_memory import COLLECTOR_PAUSES
from queue_engine.service.tls.validity import CertificateWatch
from queue_engine.vocabulary.client_key import UNIX, ClientKey, ClientKeys, TrustedAddresses
from queue_engine.vocabulary.clock import NS_PER_MS, NS_PER_S, SystemClock
from queue_engine.vocabulary.errors import InvalidOptionValueError
from queue_engine.vocabulary.options.options import Options
from queue_engine.vocabulary.shares import Shares
from queue_engine.vocabulary.version import NSQ_VERSION

WRITE_TIMEOUT_MS = 30_000
# A refused request's body is read up to this size while its answer waits.
REFUSED_BODY_BYTES_MAX = 64 << 10
# One after the other is made, and each has a snapshot of its own meanwhile.
SCRAPES_MAX = 8
# Requests for /stats that wait for each other. Clients that left are among them.
STATS_MAX = 256
PATH_SHOWN_MAX = 80  # characters of an unknown client's path in the audit list


def reference() -> dict[str, Any]:
    """The OpenAPI document of all paths."""
    return openapi_document({path: Access(one.methods, one.rule is not Rule.OPEN) for path, one in PATHS.items()})


@cache
def _document() -> Response:
    """Made when the first client reads it: that takes 30 ms, for which no start waits."""
    return Response(200, orjson.dumps(reference()), JSON)


class Ports(NamedTuple):
    """Where it listens. NO_PORT for a socket in the file system, 0 for not at all."""

    tcp: int
    http: int
    https: int = 0


class HttpApi:
    """Handles HTTP requests on the engine's loop. Give `protocol_factory` to `loop.create_server`."""

    def __init__(
        self,
        engine: Engine,
        *,
        ports: Callable[[], Ports],
        audit: HttpAudit,
        limits: ConnectionLimits | None = None,
        console: Console | None = None,
        refused: RefusedConnections | None = None,
        bodies: PendingBodies | None = None,
        creations: Creations | None = None,
        quotas: PublishQuotas | None = None,
        gate: Gate | None = None,
        client_keys: ClientKeys | None = None,
        certificates: CertificateWatch | None = None,
        takes_any_host: bool = False,
    ) -> None:
        """ports: the real ones. audit: gets every act, failures included. console: the one beside the
        engine, for /readyz and /metrics; None for none. takes_any_host: as of `HostCheck`.

        Each of the others has a default made from the options. limits: deadlines. refused: the limit on connections.
        bodies: the budget for unfinished bodies, shared with the TCP side. creations: reports topics that publishing
        creates. quotas: how fast each client may publish, shared with the TCP side. gate: knows the tokens.
        client_keys: who a limit counts. certificates: looks after that of the listeners.
        """
        self._engine = engine
        options = self._options = engine.options
        self._is_https_required = options.is_https_required  # no running server changes it
        self._ports = ports
        engine.config.ports = lambda: (ports().tcp, ports().http)
        self.console = console or NoConsole()
        self._answers = AnswerThread()
        self._steps = PacedSteps(worked_at_ns=lambda: engine.turned_at_ns)
        self._shared_stats: dict[Wanted, list[Callable[[bytes | None], None]]] = {}  # not begun; who gets each
        self._stats_shares = Shares(STATS_MAX)  # of requests for /stats that are being answered
        self.scrape_shares = Shares(SCRAPES_MAX)  # of requests for /metrics that are being answered
        self._surroundings = SurroundingsReader(options.data_path)
        self._connections = connection_pool(
            refused or RefusedConnections("http", options.max_connections, SystemClock())
        )
        self._certificates = certificates or CertificateWatch(None, (), SystemClock())
        self._bodies = bodies or PendingBodies(options.max_pending_body_bytes, options.command_timeout_ms)
        self._connection_limits = limits or ConnectionLimits(
            idle_timeout_ms=options.client_timeout_ms,
            read_timeout_ms=options.command_timeout_ms,
            write_timeout_ms=WRITE_TIMEOUT_MS,
        )
        self._audit = audit
        self._gate = gate or Gate(http_token=options.http_token)
        self._client_keys = client_keys or ClientKeys(TrustedAddresses.parse(options.trusted_proxy))
        self._token_check = TokenCheck(_listening(options), self._gate, audit)
        self._host_check = HostCheck(
            options.effective_broadcast_address,
            options.allowed_host,
            has_token=self._token_check.has_token,
            takes_any_host=takes_any_host,
        )
        self._refused_requests = RefusedRequests(engine.clock, engine.stats.refused_requests)
        self._publishing = PublishRoutes(
            engine,
            creations or Creations(engine, audit.tell),
            quotas or PublishQuotas(options.publish_quota, engine.clock),
        ).handlers
        self._handlers: dict[str, Handler] = {
            "/ping": self._ping,
            "/livez": self._live,
            "/readyz": self._ready,
            "/info": self._info,
            "/stats": self._stats,
            "/metrics": self._metrics,
            "/openapi.json": self._openapi,
            **self._publishing,
            **ReadRoutes(engine, audit).handlers,
            **ActRoutes(engine, audit).handlers,
            **MessageRoutes(engine, audit).handlers,
            **TrashRoutes(engine, audit).handlers,
            **ServerRoutes(engine, audit, self._answers).handlers,
        }
        COLLECTOR_PAUSES.watch()

    @property
    def paths(self) -> frozenset[str]:
        """Every path with a handler."""
        return frozenset(self._handlers)

    @property
    def connection_count(self) -> int:
        return len(self._connections)

    def protocol_factory(self) -> HttpConnection:
        """The protocol of one new connection."""
        return HttpConnection(self, self._connection_limits, self._connections, self._bodies)

    def close_connections(self) -> None:
        """Close every connection: now, or after its pending answer."""
        for connection in self._connections:
            connection.close_when_idle()
        self._answers.close()

    # RequestHandler: called by connections.

    def begin(self, head: RequestHead) -> BodyLimit | Response:
        keys = self._client_keys
        head.client_address = keys.address_of(head.remote_ip, head.forwarded_for if keys.has_proxies else "")
        # The pipeline's worker reads on loopback alone, with a token of its own.
        if self._is_https_required and not head.is_tls and not self._token_check.is_own(head):
            return self._tls_required()
        # No browser reaches a socket in the file system, so its clients may name any Host.
        foreign = self._host_check.refusal(head) if head.remote_address != UNIX else None
        if foreign is not None:
            return self._refuse_foreign(head, foreign)
        path = PATHS.get(head.route)
        if path is None or head.method not in path.methods:
            return misrouted(head)
        refusal = self._token_check.refusal(head)
        if refusal is not None:
            self._count_refused(head, Reason.FORBIDDEN)
            return refusal.response if not refusal.delay_s else self._refuse_later(head, refusal)
        if ENDPOINTS[head.route].is_value:
            limit = self._options.max_msg_size
            return BodyLimit(limit, partial(_too_big, InvalidOptionValueError.code, "value", head, limit))
        if ENDPOINTS[head.route].is_message:
            limit = self._options.max_msg_size
            return BodyLimit(limit, partial(_too_big, "MSG_TOO_BIG", "message", head, limit))
        limit = self._options.max_body_size
        return BodyLimit(limit, partial(_too_big, "BODY_TOO_BIG", "body", head, limit))

    def _refuse_foreign(self, head: RequestHead, foreign: Refusal) -> BodyLimit | Response:
        topic, channel = names_of(head)
        sentence = f"{head.method} {head.path[:PATH_SHOWN_MAX]} was refused: {foreign.detail}."
        self._audit.tell(ActRecord("foreign_request", topic, channel, head.remote_address, sentence, None))
        is_host = foreign.word == FORBIDDEN_HOST
        reason = Reason.HOST if is_host else Reason.ORIGIN
        self._refused_requests.note(reason, head.remote_address, sentence)
        self._count_refused(head, reason)
        # A token that counts lets any Host pass: so a wrong one is a guess.
        delay_s = self._token_check.guess_delay_s(head) if is_host else 0.0
        return self._refuse_later(head, RefusedRequest(foreign.response(), delay_s)) if delay_s else foreign.response()

    def _refuse_later(self, head: RequestHead, refusal: RefusedRequest) -> BodyLimit:
        head.refused = lambda answer: asyncio.get_running_loop().call_later(refusal.delay_s, answer, refusal.response)
        return BodyLimit(REFUSED_BODY_BYTES_MAX, lambda: refusal.response)

    def _tls_required(self) -> Response:
        body = f'{{"message": "TLS_REQUIRED", "https_port": {self._ports().https}}}'
        return Response(403, body.encode(), JSON)

    def is_nsqd_path(self, head: RequestHead) -> bool:
        return head.route not in OWN_PATHS

    def connection_key(self, peer: str) -> ClientKey:
        return self._client_keys.of_connection(peer)

    def client_of(self, head: RequestHead) -> ClientKey:
        return head.client

    def body_refused(self, head: RequestHead, *, is_crowded: bool) -> None:
        self._count_refused(head, Reason.BUSY if is_crowded else Reason.INVALID)

    def _count_refused(self, head: RequestHead, reason: Reason) -> None:
        if head.path in self._publishing:
            self._engine.stats.refused_publishes[reason.value] += 1

    def finish(self, head: RequestHead, body: bytes, answer: Answer) -> None:
        if head.refused is not None:
            head.refused(answer)
            return
        try:
            self._handlers[head.route](head, body, answer)
        except Refusal as refusal:
            answer(refusal.response())

    # The server itself.

    def _ping(self, head: RequestHead, body: bytes, answer: Answer) -> None:
        health = self._engine.stats.health
        answer(Response(200 if health == HEALTHY else 500, health.encode("utf-8", "replace"), nsq_version=False))

    def _live(self, head: RequestHead, body: bytes, answer: Answer) -> None:
        """For a probe that restarts the process when it fails: an answer shows that the loop runs."""
        answer(Response(200, b"OK", nsq_version=False))

    def _ready(self, head: RequestHead, body: bytes, answer: Answer) -> None:
        """For a probe that keeps clients away when it fails. The server stays ready while the disk refuses publishes,
        because consumers empty it; the lines after OK name such problems."""
        if self._engine.is_closing:
            answer(Response(503, b"STOPPING", nsq_version=False))
            return
        health = self._engine.stats.health
        lines = ["OK", *([] if health == HEALTHY else [health])]
        lines += self._gate.complaints()
        lines += self._certificates.warnings()
        if self._bodies.notice:
            lines.append(self._bodies.notice)
        lines += (*self._engine.warnings, *self.console.notices())
        answer(Response(200, "\n".join(lines).encode("utf-8", "replace"), nsq_version=False))

    def _info(self, head: RequestHead, body: bytes, answer: Answer) -> None:
        options = self._options
        ports = self._ports()
        info = {
            "version": NSQ_VERSION,
            "broadcast_address": options.effective_broadcast_address,
            "hostname": socket.gethostname(),
            "http_port": ports.http,
            "tcp_port": ports.tcp,
            "start_time": self._engine.started_at_ns // NS_PER_S,
            "max_heartbeat_interval": options.max_heartbeat_interval_ms * NS_PER_MS,
            "max_output_buffer_size": options.max_output_buffer_size,
            "max_output_buffer_timeout": options.max_output_buffer_timeout_ms * NS_PER_MS,
            "max_deflate_level": options.max_deflate_level,
            "topology_zone": "",
            "topology_region": "",
        }
        answer(Response(200, orjson.dumps(info), JSON))

    def _stats(self, head: RequestHead, body: bytes, answer: Answer) -> None:
        query = query_of(head.path, head.raw_query)
        wanted = Wanted(
            query.get("topic", ""),
            query.get("channel", ""),
            is_json=query.get("format") == "json",
            include_clients=BOOLEANS.get(query.get("include_clients", ""), True),
            include_mem=BOOLEANS.get(query.get("include_mem", ""), True),
            has_buckets=BOOLEANS.get(query.get("include_buckets", ""), False),
        )
        done = _take_place(self._stats_shares, head, "stats")

        def answered(response: Response) -> None:
            done()
            answer(response)

        def give(body: bytes | None) -> None:
            if body is None:
                answered(internal_error())
                return
            response = Response(200, body, JSON) if wanted.is_json else Response(200, body)
            self._answers.compress(head, response, answered)

        self._stats_for(wanted, give)

    def _stats_for(self, wanted: Wanted, give: Callable[[bytes | None], None]) -> None:
        """Hand the stats to `give`, None for an error. Requests that wait for the same share one result, which
        is begun after the last of them came."""
        if (waiting := self._shared_stats.get(wanted)) is not None:
            waiting.append(give)
            return
        receivers = self._shared_stats[wanted] = [give]

        def made() -> Generator[None, None, bytes]:
            del self._shared_stats[wanted]
            checked = replace(wanted, is_topic_there=wanted.topic in self._engine.topics)
            figures = yield from self._engine.stats.figures_in_slices(
                topic=wanted.topic,
                channel=wanted.channel,
                has_clients=wanted.include_clients,
                has_windows=wanted.has_buckets,
            )
            yield
            return (yield from (stats_json if wanted.is_json else stats_text)(figures, checked))

        def hand_over(body: bytes | None) -> None:
            for receive in receivers:
                receive(body)

        self._steps.add(made(), hand_over, lambda: hand_over(None))

    def _metrics(self, head: RequestHead, body: bytes, answer: Answer) -> None:
        engine_cpu_s = time.thread_time()
        patterns = topic_patterns(head.raw_query)
        series_max = self._options.metrics_series_max
        done = _take_place(self.scrape_shares, head, "/metrics")

        def made(snapshot: EngineSnapshot) -> Response:
            around = self._surroundings.read(self.console, self._certificates.expiries_s())
            text = metrics_text(snapshot, around, engine_cpu_s=engine_cpu_s, patterns=patterns, series_max=series_max)
            return Response(200, text, METRICS)

        def answered(response: Response) -> None:
            done()
            answer(response)

        self._steps.add(
            self._engine.stats.in_slices(lambda topic, channel: False),
            lambda snapshot: self._answers.make(head, lambda: made(snapshot), answered),
            lambda: answered(internal_error()),
        )

    def _openapi(self, head: RequestHead, body: bytes, answer: Answer) -> None:
        self._answers.make(head, _document, answer)


def _take_place(shares: Shares, head: RequestHead, answer: str) -> Callable[[], None]:
    """Count a request that is being answered; call the result once it is, so nothing may raise in between. Raises
    Refusal where its client has its share of such requests."""
    client = head.client
    if not shares.has_share_for(client):
        own = f", {shares.held_by(client)} of them for {' and '.join(client.parts)}"
        detail = f"{shares.used} of at most {shares.size} requests for {answer} are being answered{own}: try again"
        raise Refusal(503, "BUSY", detail)
    shares.take(client)
    return lambda: shares.give_back(client)


def _listening(options: Options) -> list[str]:
    """The addresses that it answers at."""
    return [options.http_address, *([options.https_address] if options.has_tls else [])]


def _too_big(word: str, thing: str, head: RequestHead, limit: int) -> Response:
    size = "more" if head.content_length is None else f"{head.content_length} bytes"
    return error_response(413, word, f"the {thing} has {size} and the most is {limit} bytes")
