"""Answers requests that read a topic of the log without consuming: messages, records, leases and pipeline cursors.

    GET  /topic/messages?topic=T[&channel=C | &offset=N | &time_ms=MS][&limit=N]     JSON
    GET  /topic/messages?topic=T&key=KEY[&before=N][&limit=N]                   JSON, the newest first
    GET  /log/read?topic=T&offset=N[&max_bytes=N]                               binary: frames as consumers get them
    GET  /log/records?topic=T&offset=N[&max_bytes=N]                            binary: `wire/records.py`
    GET  /log/topic?topic=T[&time_ms=MS][&offset=N]                             JSON: `wire/topic_state.py`
    POST /log/lease?topic=T&offset=N[&ttl_ms=MS][&segments=N]                   JSON: `wire/lease.py`
    POST /log/lease?lease=L[&offset=N][&ttl_ms=MS][&segments=N]                 renews it, moves it
    POST /log/renew[?ttl_ms=MS], names of leases as body, one a line            renews all of them, or none
    POST /log/release?lease=L

`rules.py` says which of them need the token; `cursors.py` has the paths of cursors.
"""

from collections.abc import Callable
from functools import partial

from queue_engine.delivery.stats import Outcome
from queue_engine.engine.acts.log_acts import Target
from queue_engine.engine.engine import Engine
from queue_engine.service.http import cursors as http_cursors
from queue_engine.service.http import log_answers, log_queries
from queue_engine.service.http.audit import HttpAudit
from queue_engine.service.http.exchange.handler import Handler
from queue_engine.service.http.exchange.request import RequestHead
from queue_engine.service.http.exchange.response import Answer, Response
from queue_engine.service.http.log_queries import whole_number
from queue_engine.service.http.query import Query, publish_topic, query_of
from queue_engine.service.http.reference import parameters
from queue_engine.service.http.reference.content_types import JSON
from queue_engine.service.http.refusals import Refusal, act_refusal
from queue_engine.service.http.rules import PATHS
from queue_engine.service.http.token_check import NOT_ALLOWED, maker_of
from queue_engine.vocabulary.acts import parameters as act_parameters
from queue_engine.vocabulary.acts.parameters import START
from queue_engine.vocabulary.errors import PenstockError
from queue_engine.vocabulary.ticket import DONE, Ticket

_Read = tuple[Response, Ticket]  # the answer, and the ticket that has to be done before it is sent

_EMPTY = Response(200, b"")


class ReadRoutes:
    """Handles the requests of readers, after `rules.py` has checked the token."""

    def __init__(self, engine: Engine, audit: HttpAudit) -> None:
        self._engine = engine
        self._audit = audit
        self.handlers: dict[str, Handler] = {
            "/topic/messages": self._messages,
            "/log/read": self._read_log,
            "/log/records": self._read_records,
            "/log/topic": self._log_topic,
            "/log/lease": self._lease,
            "/log/renew": self._renew,
            "/log/release": self._release,
            **dict.fromkeys(http_cursors.ACTS, self._cursor_act),
        }

    def _messages(self, head: RequestHead, body: bytes, answer: Answer) -> None:
        self._audit.require_room()

        def read(query: Query) -> _Read:
            topic = publish_topic(query)
            count_max = whole_number(query, parameters.LIMIT)
            target = log_queries.target_of(query, parameters.FROM_PLACE)
            wanted = log_queries.wanted_key_of(query)
            if wanted is not None:
                found = self._engine.log.find_key(topic, wanted[0], count_max, before=wanted[1])
                self._audit.report_read(head, topic, "", len(found.page.messages))
                return log_answers.key_response(found), DONE
            channel = query.get("channel", "")
            if channel and target is not None:
                raise log_queries.QueryError("a channel shows its next messages: no offset, time_ms or from with it")
            if channel:
                page = self._engine.log.peek_channel(topic, channel, count_max)
            else:
                page = self._engine.log.read_messages(topic, target or Target(word=START), count_max)
            self._audit.report_read(head, topic, channel, len(page.messages))
            return log_answers.page_response(page), DONE

        self._answer_read(head, answer, read)

    def _read_log(self, head: RequestHead, body: bytes, answer: Answer) -> None:
        self._audit.require_room()

        def read(query: Query) -> _Read:
            topic = publish_topic(query)
            offset = whole_number(query, act_parameters.OFFSET)
            frames = self._engine.log.read_frames(topic, offset, whole_number(query, parameters.MAX_BYTES))
            self._audit.report_read(head, topic, "", frames.count)
            return log_answers.frames_response(frames), DONE

        self._answer_read(head, answer, read)

    def _read_records(self, head: RequestHead, body: bytes, answer: Answer) -> None:
        self._audit.require_room()

        def read(query: Query) -> _Read:
            topic = publish_topic(query)
            offset = whole_number(query, act_parameters.OFFSET)
            records = self._engine.log.read_records(topic, offset, whole_number(query, parameters.MAX_RECORD_BYTES))
            self._audit.report_read(head, topic, "", records.message_count)
            return log_answers.records_response(records), DONE

        self._answer_read(head, answer, read)

    def _log_topic(self, head: RequestHead, body: bytes, answer: Answer) -> None:
        def read(query: Query) -> _Read:
            topic, time_ns = publish_topic(query), log_queries.time_of(query)
            from_offset = whole_number(query, parameters.FROM_OFFSET)
            state = self._engine.log.topic_state(topic, time_ns, from_offset=from_offset)
            return Response(200, state.encoded(), JSON), DONE

        self._answer_read(head, answer, read)

    def _lease(self, head: RequestHead, body: bytes, answer: Answer) -> None:
        self._audit.require_room()

        def read(query: Query) -> _Read:
            ttl_ms, segments_max = (
                whole_number(query, parameters.TTL_MS),
                whole_number(query, parameters.SEGMENTS),
            )
            offset = whole_number(query, parameters.LEASE_OFFSET) if "offset" in query else None
            if "lease" in query:
                self._require_lease(head, query["lease"])
                lease, ticket = self._engine.log.renew_lease(
                    query["lease"], ttl_ms=ttl_ms, offset=offset, segments_max=segments_max
                )
            else:
                topic = publish_topic(query)
                if offset is None:
                    raise log_queries.QueryError("offset is missing")
                lease, ticket = self._engine.log.lease(
                    topic, offset, ttl_ms=ttl_ms, segments_max=segments_max, maker=maker_of(head, topic)
                )
            self._audit.report_read(head, lease.topic, "", lease.message_count)
            return log_answers.lease_response(lease), ticket

        self._answer_read(head, answer, read)

    def _renew(self, head: RequestHead, body: bytes, answer: Answer) -> None:
        def read(query: Query) -> _Read:
            leases = log_queries.leases_of(body)
            for lease in leases:
                self._require_lease(head, lease)
            return _EMPTY, self._engine.log.renew_leases(leases, ttl_ms=whole_number(query, parameters.TTL_MS))

        self._answer_read(head, answer, read)

    def _release(self, head: RequestHead, body: bytes, answer: Answer) -> None:
        self._audit.require_room()
        lease = query_of(head.path, head.raw_query).get("lease", "")

        def refuse(topic: str, refusal: Refusal) -> None:
            self._audit.refuse(head, "release_lease", topic, "", refusal, answer)

        if not lease:
            refuse("", Refusal(400, "INVALID_REQUEST", "lease is missing"))
            return
        try:
            self._require_lease(head, lease)
            topic = self._engine.log.topic_of_lease(lease)
            ticket = self._engine.log.release_lease(lease)
        except Refusal as refusal:
            refuse("", refusal)
            return
        except PenstockError as exc:
            refuse("", act_refusal(exc))
            return

        def settled(done: Ticket) -> None:
            if done.error is not None:
                refuse(topic, act_refusal(done.error))
                return
            self._audit.report(head, "release_lease", topic, "", Outcome(), {"lease": lease})
            answer(_EMPTY)

        ticket.when_done(settled)

    def _require_lease(self, head: RequestHead, lease: str) -> None:
        """Check that the request's token may read the lease's topic, and has made the lease or may administer: /stats
        shows the names of leases to all clients.

        Raises Refusal, or PenstockError for an unknown lease or another's."""
        if head.may_read is None:
            return
        topic = self._engine.log.topic_of_lease(lease)
        if not head.may_read(topic):
            raise Refusal(403, NOT_ALLOWED, f"the token {head.actor} does not allow to consume on topic {topic}")
        self._engine.log.check_owns_lease(lease, maker_of(head, topic))

    def _answer_read(self, head: RequestHead, answer: Answer, read: Callable[[Query], _Read]) -> None:
        """Call `read`, and answer when its ticket is done."""
        query = query_of(head.path, head.raw_query)
        try:
            response, ticket = read(query)
        except PenstockError as exc:
            raise act_refusal(exc) from exc

        def settled(done: Ticket) -> None:
            answer(response if done.error is None else act_refusal(done.error).response())

        ticket.when_done(settled)

    def _cursor_act(self, head: RequestHead, body: bytes, answer: Answer) -> None:
        act, action = http_cursors.ACTS[head.path], PATHS[head.path].action
        query = query_of(head.path, head.raw_query)
        names = (query.get("topic", ""), query.get("cursor", ""))
        do = partial(act, self._engine, query, maker_of(head, names[0]))
        if head.method != "POST":  # a list changes nothing, and has no row
            try:
                response = do()[0]
                answer(response() if callable(response) else response)
            except PenstockError as exc:
                raise act_refusal(exc) from exc
            return
        self._audit.require_room()
        try:
            begins_or_ends = http_cursors.begins_or_ends(self._engine, action, query)
        except Refusal as refusal:
            self._audit.refuse(head, action, *names, refusal, answer)
            return
        carry_out = self._audit.begin if begins_or_ends else self._audit.carry_out
        carry_out(head, action, *names, answer, do)
