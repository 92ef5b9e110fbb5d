"""Answers requests about single messages of a channel: lists by state, one message, acts on them, and searches.

    GET  /channel/messages?topic=T&channel=C[&state=S][&sort=attempts|age][&after=CURSOR][&limit=N][filters]
    GET  /channel/message?topic=T&channel=C&id=ID | &offset=N[&contents=false]
    POST /channel/message/finish | requeue | release | republish | quarantine | redrive
                                                                   ?topic=T&channel=C&id=ID | &offset=N, or ids as body
    POST /channel/search?topic=T&channel=C&text=X, then GET /channel/search/state?search=S, POST /channel/search/cancel

A look at bodies or keys is audited as reading messages is, acts as all acts are.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import orjson

from queue_engine.delivery.stats import Outcome
from queue_engine.engine.engine import Engine
from queue_engine.engine.engine_calls import ENGINE_ACTS
from queue_engine.engine.messages.rows import MessageQuery, MessageRow, SearchState
from queue_engine.service.http.act_queries import details_of, of_act
from queue_engine.service.http.audit import Done, HttpAudit
from queue_engine.service.http.exchange.handler import Handler
from queue_engine.service.http.exchange.request import RequestHead
from queue_engine.service.http.exchange.response import Answer, Response
from queue_engine.service.http.log_answers import text_of
from queue_engine.service.http.log_queries import QueryError, message_key_of, whole_number
from queue_engine.service.http.query import Query, publish_topic, query_of
from queue_engine.service.http.reference import parameters
from queue_engine.service.http.reference.content_types import JSON
from queue_engine.service.http.refusals import Refusal, act_refusal
from queue_engine.service.http.rules import PATHS
from queue_engine.service.http.token_check import NOT_ALLOWED
from queue_engine.vocabulary.acts import parameters as act_parameters
from queue_engine.vocabulary.acts.parameters import WholeNumber, Word
from queue_engine.vocabulary.clock import NS_PER_MS
from queue_engine.vocabulary.errors import PenstockError


class MessageRoutes:
    """Handles them."""

    def __init__(self, engine: Engine, audit: HttpAudit) -> None:
        self._engine = engine
        self._audit = audit
        self.handlers: dict[str, Handler] = {
            "/channel/messages": self._list,
            "/channel/message": self._one,
            "/channel/message/finish": self._act,
            "/channel/message/requeue": self._act,
            "/channel/message/release": self._act,
            "/channel/message/republish": self._act,
            "/channel/message/quarantine": self._act,
            "/channel/message/redrive": self._act,
            "/channel/search": self._search,
            "/channel/search/state": self._search_state,
            "/channel/search/cancel": self._search_cancel,
        }

    # Reads.

    def _list(self, head: RequestHead, body: bytes, answer: Answer) -> None:
        self._audit.require_room()
        query = query_of(head.path, head.raw_query)
        topic, channel = _names(query)
        wanted = MessageQuery(
            state=_word(query, parameters.STATE),
            sort=_word(query, parameters.SORT),
            after=query.get("after", ""),
            limit=whole_number(query, parameters.ROWS),
            first_offset=_optional(query, parameters.FIRST_OFFSET),
            end_offset=_optional(query, parameters.END_OFFSET),
            since_ns=_time_ns(query, parameters.SINCE_MS),
            until_ns=_time_ns(query, parameters.UNTIL_MS),
            attempts_min=whole_number(query, parameters.ATTEMPTS_MIN),
            key=message_key_of(query) or b"",
            preview_bytes=whole_number(query, parameters.PREVIEW_BYTES),
        )
        shows_keys = _word(query, parameters.ROW_KEYS) == "true"
        page = _done(lambda: self._engine.messages.list(topic, channel, wanted))
        if not shows_keys:
            page = replace(page, rows=tuple(replace(row, key=b"") if row.key else row for row in page.rows))
        if wanted.preview_bytes or wanted.key or any(row.key for row in page.rows):
            self._audit.report_read(head, topic, channel, len(page.rows))
        document = {
            "topic": topic,
            "number": page.topic_number,
            "channel": channel,
            "channel_number": page.channel_number,
            "storage": page.storage,
            "state": page.state,
            "counts": page.counts,
            "next_cursor": page.next_cursor,
            "bounded": page.is_bounded,
            "note": page.note,
            "messages": [_row(row, row.body_start if wanted.preview_bytes else None) for row in page.rows],
        }
        answer(Response(200, orjson.dumps(document), JSON))

    def _one(self, head: RequestHead, body: bytes, answer: Answer) -> None:
        self._audit.require_room()
        query = query_of(head.path, head.raw_query)
        topic, channel = _names(query)
        message_id, offset = query.get("id", ""), _optional(query, act_parameters.MESSAGE_OFFSET)
        shows_contents = _word(query, parameters.CONTENTS) == "true"
        found = _done(lambda: self._engine.messages.one(topic, channel, message_id=message_id, offset=offset))
        if shows_contents:
            self._audit.report_read(head, topic, channel, 1)
            message = _row(found.row, found.body)
        else:
            message = _row(replace(found.row, key=b""), None)
        document = {"topic": topic, "channel": channel, "storage": found.storage, "message": message}
        answer(Response(200, orjson.dumps(document), JSON))

    # Searches.

    def _search(self, head: RequestHead, body: bytes, answer: Answer) -> None:
        self._audit.require_room()
        query = query_of(head.path, head.raw_query)
        topic, channel = _names(query)
        state = _word(query, parameters.SEARCH_STATE)
        first = _optional(query, parameters.SEARCH_FROM)
        end = _optional(query, parameters.END_OFFSET)
        start, text = self._engine.message_search.start, query.get("text", "")
        client = head.client
        found = _done(
            lambda: start(topic, channel, text, state=state, first_offset=first, end_offset=end, client=client)
        )
        self._audit.report_read(head, topic, channel, found.message_total)
        answer(_search_response(found))

    def _search_state(self, head: RequestHead, body: bytes, answer: Answer) -> None:
        self._answer_search(head, answer, self._engine.message_search.state)

    def _search_cancel(self, head: RequestHead, body: bytes, answer: Answer) -> None:
        self._answer_search(head, answer, self._engine.message_search.cancel)

    def _answer_search(self, head: RequestHead, answer: Answer, read: Callable[[str], SearchState]) -> None:
        """The matches of a search have parts of bodies: the request is audited like those for bodies."""
        self._audit.require_room()
        name = query_of(head.path, head.raw_query).get("search", "")
        if head.may_read is not None and not head.may_read(""):
            topic = _done(lambda: self._engine.message_search.state(name)).topic
            if not head.may_read(topic):
                raise Refusal(403, NOT_ALLOWED, f"the token {head.actor} does not allow to consume on topic {topic}")
        found = _done(lambda: read(name))
        if found.hits:
            self._audit.report_read(head, found.topic, found.channel, len(found.hits))
        answer(_search_response(found))

    # Acts.

    def _act(self, head: RequestHead, body: bytes, answer: Answer) -> None:
        action = PATHS[head.path].action
        topic = channel = ""

        def refuse(refusal: Refusal, act_id: str = "") -> None:
            self._audit.refuse(head, action, topic, channel, refusal, answer, act_id)

        try:
            query = query_of(head.path, head.raw_query)
            topic, channel = query.get("topic", ""), query.get("channel", "")
            _names(query)
            details = {**_named(query, body), **details_of(of_act(action), query, head.act_author)}
        except Refusal as refusal:
            refuse(refusal)
            return

        def act() -> Done:
            outcome, ticket = ENGINE_ACTS[action].on(self._engine)(topic, channel, **details)
            to = {"to": details["to"]} if "to" in details else {}
            return _results_response(outcome), ticket, outcome, to

        if self._audit.asks_first:
            try:
                self._engine.catalog.channel(topic, channel)  # no act begins that can't be done
            except PenstockError as exc:
                refuse(act_refusal(exc))
                return
        self._audit.begin(head, action, topic, channel, answer, act)


def _done(read: Callable[[], Any]) -> Any:
    try:
        return read()
    except PenstockError as exc:
        raise act_refusal(exc) from exc


def _names(query: Query) -> tuple[str, str]:
    topic, channel = publish_topic(query), query.get("channel")
    if channel is None:
        raise Refusal(400, "MISSING_ARG_CHANNEL")
    return topic, channel


def _optional(query: Query, parameter: WholeNumber) -> int | None:
    return whole_number(query, parameter) if parameter.name in query else None


def _time_ns(query: Query, parameter: WholeNumber) -> int | None:
    time_ms = _optional(query, parameter)
    return None if time_ms is None else time_ms * NS_PER_MS


def _word(query: Query, parameter: Word) -> str:
    text = query.get(parameter.name, parameter.default)
    if text and text not in parameter.words:
        raise QueryError(f"{parameter.name}={text} can be {' or '.join(parameter.words)}")
    return text


def _named(query: Query, body: bytes) -> dict[str, list[Any]]:
    """The messages that an act names, as its arguments."""
    if "id" in query and "offset" in query:
        raise QueryError("id and offset name two messages: give one")
    if "id" in query:
        return {"ids": [query["id"]]}
    if "offset" in query:
        return {"offsets": [whole_number(query, act_parameters.MESSAGE_OFFSET)]}
    ids = body.decode("ascii", "replace").split()
    if not ids:
        raise QueryError("no message is named: give id or offset, or ids as body, one a line")
    return {"ids": ids}


def _row(row: MessageRow, body: bytes | None) -> dict[str, Any]:
    """body: as much of it as is shown; None for nothing."""
    return {
        "state": row.state,
        "id": row.message_id,
        "offset": row.offset,
        "attempts": row.attempts,
        "timestamp": row.published_at_ns,
        "body_bytes": row.body_bytes,
        "due": row.due_at_ns,
        "quarantined_at": row.quarantined_at_ns,
        "reason": row.reason,
        "history": [{"time": one.time_ns, "reason": one.reason, "consumer": one.consumer} for one in row.history],
        "client_key": row.client_key,
        "client_id": row.client_id,
        "client_address": row.client_address,
        "deadline_ms": row.deadline_ms,
        "held_ms": row.held_ms,
        "touches": row.touches,
        "problem": row.problem,
        **({} if body is None else text_of("body", body)),
        **(text_of("key", row.key) if row.key else {}),
    }


def _results_response(outcome: Outcome) -> Response:
    results = [
        {
            "asked": one.reference,
            "offset": one.offset,
            "was": one.was,
            "code": one.code,
            "text": one.text,
            "new_id": one.new_id,
            "new_offset": one.new_offset,
        }
        for one in outcome.results
    ]
    done = sum(not one.code for one in outcome.results)
    return Response(200, orjson.dumps({"done": done, "results": results}), JSON)


def _search_response(search: SearchState) -> Response:
    document = {
        "search": search.search_id,
        "topic": search.topic,
        "channel": search.channel,
        "text": search.text,
        "state": search.state,
        "status": search.status,
        "first_offset": search.first_offset,
        "next_offset": search.next_offset,
        "end_offset": search.end_offset,
        "message_count": search.message_count,
        "message_total": search.message_total,
        "scanned_bytes": search.scanned_bytes,
        "problem": search.problem,
        "hits": [
            {"message": _row(hit.row, None), "at": hit.at, **text_of("around", hit.around)} for hit in search.hits
        ],
    }
    return Response(200, orjson.dumps(document), JSON)
