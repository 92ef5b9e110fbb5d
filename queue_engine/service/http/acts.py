"""Answers requests for acts on topics and channels: nsqd's, rewinding a channel of the log, and retrying after a fence.

    POST /channel/create?topic=T&channel=C[&start=start|end | &start_time_ms=MS | &start_offset=N]
    POST /channel/max_attempts?topic=T&channel=C&max_attempts=N     redrive?rate=R, redrive/cancel: the quarantine
    POST /channel/seek?topic=T&channel=C&offset=N | &time_ms=MS | &to=start|end      rewinds the channel
    GET  /channel/seek/preview?…                                                     JSON: what a rewind would deliver

All acts are audited.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

from queue_engine.delivery.stats import Outcome
from queue_engine.engine.acts.log_acts import SeekPreview
from queue_engine.engine.engine import Engine
from queue_engine.engine.engine_calls import ENGINE_ACTS
from queue_engine.service.http import log_answers, log_queries
from queue_engine.service.http.act_queries import details_of, of_act
from queue_engine.service.http.audit import Done, HttpAudit
from queue_engine.service.http.exchange.handler import Handler
from queue_engine.service.http.exchange.request import RequestHead
from queue_engine.service.http.exchange.response import Answer, Response
from queue_engine.service.http.query import Query, query_of
from queue_engine.service.http.refusals import Refusal, act_refusal
from queue_engine.service.http.rules import PATHS, Rule
from queue_engine.vocabulary.acts.parameters import SEEK_PLACE
from queue_engine.vocabulary.errors import PenstockError, ReservedTopicError
from queue_engine.vocabulary.names import is_reserved, is_valid_name

_EMPTY = Response(200, b"")


class ActRoutes:
    """Handles acts, and answers them when they are durable."""

    def __init__(self, engine: Engine, audit: HttpAudit) -> None:
        self._engine = engine
        self._audit = audit
        acts = [path for path, entry in PATHS.items() if entry.rule is Rule.CHANGES]
        self.handlers: dict[str, Handler] = {
            **{path: self._topic_act for path in acts if path.startswith("/topic/")},
            **{path: self._channel_act for path in acts if path.startswith("/channel/")},
            "/channel/seek": self._seek,
            "/channel/seek/preview": self._seek_preview,
        }

    def _topic_act(self, head: RequestHead, body: bytes, answer: Answer) -> None:
        action = PATHS[head.path].action
        query = self._act_query(head, action, answer)
        if query is None:
            return
        topic = query.get("topic")
        if topic is None:
            self._audit.refuse(head, action, "", "", Refusal(400, "MISSING_ARG_TOPIC"), answer)
        # The other acts answer TOPIC_NOT_FOUND to such a name.
        elif action in ("create_topic", "empty_topic") and not is_valid_name(topic):
            self._audit.refuse(head, action, topic, "", Refusal(400, "INVALID_TOPIC"), answer)
        else:
            try:
                details = details_of(of_act(action), query, head.act_author)
            except Refusal as refusal:
                self._audit.refuse(head, action, topic, "", refusal, answer)
                return
            self._act(head, action, topic, "", answer, **details)

    def _channel_act(self, head: RequestHead, body: bytes, answer: Answer) -> None:
        action = PATHS[head.path].action
        query = self._act_query(head, action, answer)
        if query is None:
            return
        topic, channel = query.get("topic"), query.get("channel")
        word = ""
        if topic is None:
            word = "MISSING_ARG_TOPIC"
        elif not is_valid_name(topic):
            word = "INVALID_ARG_TOPIC"
        elif channel is None:
            word = "MISSING_ARG_CHANNEL"
        elif not is_valid_name(channel):
            word = "INVALID_ARG_CHANNEL"
        if word:
            self._audit.refuse(head, action, topic or "", channel or "", Refusal(400, word), answer)
        else:
            assert topic is not None
            assert channel is not None
            try:
                details = details_of(of_act(action), query, head.act_author)
            except Refusal as refusal:
                self._audit.refuse(head, action, topic, channel, refusal, answer)
                return
            self._act(head, action, topic, channel, answer, **details)

    def _seek(self, head: RequestHead, body: bytes, answer: Answer) -> None:
        query = self._act_query(head, "rewind_channel", answer)
        if query is None:
            return
        topic, channel = query.get("topic", ""), query.get("channel", "")
        try:
            details = details_of(of_act("rewind_channel"), query, head.act_author)
            preview = self._preview(query)
        except Refusal as refusal:
            self._audit.refuse(head, "rewind_channel", topic, channel, refusal, answer)
            return
        # The act counts what is left: with keep_finished that is less than the preview's.
        self._act(
            head, "rewind_channel", topic, channel, answer, partial(log_answers.seek_response, preview), **details
        )

    def _seek_preview(self, head: RequestHead, body: bytes, answer: Answer) -> None:
        answer(log_answers.preview_response(self._preview(query_of(head.path, head.raw_query))))

    def _preview(self, query: Query) -> SeekPreview:
        """Raises Refusal."""
        target = log_queries.target_of(query, SEEK_PLACE)
        if target is None:
            raise log_queries.QueryError("where to is missing: offset, time_ms or to=start|end")
        try:
            return self._engine.log.seek_preview(query.get("topic", ""), query.get("channel", ""), target)
        except PenstockError as exc:
            raise act_refusal(exc) from exc

    def _act_query(self, head: RequestHead, action: str, answer: Answer) -> Query | None:
        try:
            return query_of(head.path, head.raw_query)
        except Refusal as refusal:
            self._audit.refuse(head, action, "", "", refusal, answer)
            return None

    def _act(
        self,
        head: RequestHead,
        action: str,
        topic: str,
        channel: str,
        answer: Answer,
        respond: Callable[[Outcome], Response] | None = None,
        **details: Any,
    ) -> None:
        names = (topic, channel) if channel else (topic,)

        def act() -> Done:
            outcome, ticket = ENGINE_ACTS[action].on(self._engine)(*names, **details)
            shown = details if of_act(action).is_detailed else {}
            return (lambda: respond(outcome)) if respond is not None else _EMPTY, ticket, outcome, shown

        if not self._audit.asks_first:
            self._audit.carry_out(head, action, topic, channel, answer, act)
            return
        try:
            changes = self._changes_something(action, topic, channel)
        except PenstockError as exc:
            self._audit.refuse(head, action, topic, channel, act_refusal(exc), answer)
            return
        if changes:
            self._audit.begin(head, action, topic, channel, answer, act)
        else:
            self._audit.require_room()
            self._audit.carry_out(head, action, topic, channel, answer, act)

    def _changes_something(self, action: str, topic: str, channel: str) -> bool:
        """Whether an act needs a row before it begins: creating an existing topic or channel needs none. Raises
        PenstockError when the other acts' topic or channel does not exist, so that no act begins that can't be done."""
        engine = self._engine
        if action == "create_topic":
            if is_reserved(topic):
                raise ReservedTopicError(topic)
            return topic not in engine.topics
        owner = engine.catalog.topic(topic)
        if action == "create_channel":
            return channel not in owner.channels
        if channel:
            engine.catalog.channel(topic, channel)
        return True
