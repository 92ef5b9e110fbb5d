"""Answers requests that publish: /pub and /mpub as nsqd has them, and batches and single messages with a key.

    POST /pub?topic=T&key=KEY                                           KEY: 1 to 255 bytes of text
    POST /log/write?topic=T&batch_key=K[&replayed=true][&number=N]      K: 32 hex digits, not all of them 0;
                                                                        body and answer: `wire/batch.py`

The answer comes once the messages are as durable as --sync makes them. Beyond nsqd: a binary /mpub must be exactly as
long as its messages say.
"""

from collections.abc import Callable

from queue_engine.delivery.stats import VIA_HTTP
from queue_engine.engine.engine import Engine
from queue_engine.service.admission.creations import Creations
from queue_engine.service.admission.publish_quotas import PublishQuotas
from queue_engine.service.admission.refused_publishes import reason_of
from queue_engine.service.http import log_queries
from queue_engine.service.http.exchange.handler import Handler
from queue_engine.service.http.exchange.request import RequestHead
from queue_engine.service.http.exchange.response import Answer, Response
from queue_engine.service.http.query import BOOLEANS, defer_ms_of, publish_topic, query_of
from queue_engine.service.http.reference.content_types import JSON
from queue_engine.service.http.refusals import Refusal, publish_refusal
from queue_engine.vocabulary.errors import PenstockError, ProtocolError, QuotaError, ReservedTopicError
from queue_engine.vocabulary.names import is_reserved
from queue_engine.vocabulary.ticket import DONE, Ticket
from queue_engine.wire.batch import BatchFormatError, split_batch
from queue_engine.wire.protocol.mpub_body import mpub_count_refused, split_messages

_OK = Response(200, b"OK")


class PublishRoutes:
    """Handles publishing, and answers when the messages are durable."""

    def __init__(self, engine: Engine, creations: Creations, quotas: PublishQuotas) -> None:
        self._engine = engine
        self._options = engine.options
        self._creations = creations
        self._quotas = quotas
        self._refused = engine.stats.refused_publishes
        self.handlers: dict[str, Handler] = {
            "/pub": self._counting(self._pub),
            "/mpub": self._counting(self._mpub),
            "/log/write": self._counting(self._write),
        }

    def _counting(self, handle: Handler) -> Handler:
        """The handler, with its refusals counted. `_refused_by` counts those that come after it has returned."""

        def counting(head: RequestHead, body: bytes, answer: Answer) -> None:
            try:
                handle(head, body, answer)
            except Refusal as refusal:
                cause = refusal.__cause__
                self._refused[reason_of(cause if isinstance(cause, PenstockError) else None).value] += 1
                raise
            except Exception as exc:
                self._refused[reason_of(exc).value] += 1
                raise

        return counting

    def _refused_by(self, error: Exception) -> Response:
        self._refused[reason_of(error).value] += 1
        return publish_refusal(error).response()

    def _pub(self, head: RequestHead, body: bytes, answer: Answer) -> None:
        if not body:
            raise Refusal(400, "MSG_EMPTY")
        query = query_of(head.path, head.raw_query)
        topic = publish_topic(query)
        defer_ms = 0
        if "defer" in query:
            defer_ms = defer_ms_of(query["defer"], self._options.max_req_timeout_ms)
        key = log_queries.message_key_of(query)
        if key is not None:
            self._answer_ok(lambda: self._publish_keyed(head, topic, body, key), answer)
        else:
            self._publish(head, topic, [body], defer_ms, answer)

    def _take_quota(self, head: RequestHead, topic: str, bodies: list[bytes]) -> None:
        """Take the messages from the client's quotas; the server's own processes have none. Raises Refusal."""
        if not self._quotas.has_any or head.is_own:
            return
        try:
            self._quotas.take(head.actor, head.source_address, topic, len(bodies), sum(map(len, bodies)))
        except QuotaError as exc:
            raise publish_refusal(exc) from exc

    def _publish_keyed(self, head: RequestHead, topic: str, body: bytes, key: bytes) -> Ticket:
        self._take_quota(head, topic, [body])
        return self._noted(head, topic, lambda: self._engine.log.publish_keyed(topic, body, key))

    def _noted(self, head: RequestHead, topic: str, publish: Callable[[], Ticket]) -> Ticket:
        """Publish, and report a topic that this creates to the audit list."""
        missing = self._creations.missing(topic)
        ticket = publish()
        if missing:
            self._creations.note(missing, ticket, head.remote_address, via=VIA_HTTP)
        return ticket

    def _mpub(self, head: RequestHead, body: bytes, answer: Answer) -> None:
        query = query_of(head.path, head.raw_query)
        topic = publish_topic(query)
        # nsqd takes an unknown value for true.
        is_binary = "binary" in query and BOOLEANS.get(query["binary"], True)
        bodies = self._split_binary(body) if is_binary else self._split_lines(body)
        self._publish(head, topic, bodies, 0, answer)

    def _split_binary(self, body: bytes) -> list[bytes]:
        options = self._options
        count = int.from_bytes(body[:4], "big", signed=True)
        if len(body) < 4 or not 0 < count <= (options.max_body_size - 4) // 5:
            shown = f"the message count is {count}" if len(body) >= 4 else f"{len(body)} bytes hold no message count"
            raise Refusal(413, "BAD_BODY", f"{shown}; it must be 1 to {(options.max_body_size - 4) // 5}")
        self._check_count(count)
        try:
            return split_messages(body, 0, len(body), options.max_msg_size)
        except ProtocolError as exc:
            raise Refusal(413, exc.code.removeprefix("E_"), exc.description) from exc

    def _split_lines(self, body: bytes) -> list[bytes]:
        # Without empty lines, by loops in C: all of the body may be newlines.
        while b"\n\n" in body:
            body = body.replace(b"\n\n", b"\n")
        body = body.strip(b"\n")
        if not body:
            return []
        self._check_count(body.count(b"\n") + 1)
        bodies = body.split(b"\n")
        longest = max(map(len, bodies), default=0)
        if longest > self._options.max_msg_size:
            limit = self._options.max_msg_size
            raise Refusal(413, "MSG_TOO_BIG", f"a message has {longest} bytes and the most is {limit} bytes")
        return bodies

    def _check_count(self, count: int) -> None:
        if count > self._options.max_mpub_messages:
            why = mpub_count_refused(count, self._options.max_mpub_messages)
            raise Refusal(413, "BAD_BODY", f"the body {why}")

    def _publish(self, head: RequestHead, topic: str, bodies: list[bytes], defer_ms: int, answer: Answer) -> None:
        engine = self._engine

        def publish() -> Ticket:
            # A body of empty lines has no message, and still creates the topic, as in nsqd.
            return engine.publish(topic, bodies, defer_ms=defer_ms) if bodies else engine.acts.create_topic(topic)[1]

        if is_reserved(topic):
            raise publish_refusal(ReservedTopicError(topic))
        self._take_quota(head, topic, bodies)
        self._answer_ok(lambda: self._noted(head, topic, publish), answer)

    def _write(self, head: RequestHead, body: bytes, answer: Answer) -> None:
        query = query_of(head.path, head.raw_query)
        topic = publish_topic(query)
        parameters = log_queries.write_query_of(query)
        try:
            bodies, keys = split_batch(body, self._options.max_msg_size, self._options.max_mpub_messages)
        except BatchFormatError as exc:
            raise Refusal(400, "INVALID_REQUEST", str(exc)) from exc
        self._take_quota(head, topic, bodies)

        def write() -> tuple[Response, Ticket]:
            written, ticket = self._engine.log.write_batch(
                topic,
                bodies,
                batch_key=parameters.batch_key,
                keys=keys,
                is_replayed=parameters.is_replayed,
                number=parameters.number,
            )
            return Response(200, written.encoded(), JSON), ticket

        def ready(done: Ticket) -> None:
            if done.error is not None:
                answer(self._refused_by(done.error))
                return
            try:
                response, ticket = write()
            except PenstockError as exc:
                answer(self._refused_by(exc))
                return
            ticket.when_done(lambda done: answer(response if done.error is None else self._refused_by(done.error)))

        try:
            is_there = DONE
            if parameters.number is None:
                is_there = self._noted(head, topic, lambda: self._engine.log.topic_ready(topic))
        except PenstockError as exc:
            raise publish_refusal(exc) from exc
        is_there.when_done(ready)

    def _answer_ok(self, publish: Callable[[], Ticket], answer: Answer) -> None:
        """Publish, and answer once the ticket is done. Raises Refusal."""
        try:
            ticket = publish()
        except PenstockError as exc:
            raise publish_refusal(exc) from exc
        ticket.when_done(lambda done: answer(_OK if done.error is None else self._refused_by(done.error)))
