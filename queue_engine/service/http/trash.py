"""Handles the requests about the trash: emptied and deleted topics and channels of the log, until they expire.

    GET  /trash                               JSON: "entries", newest first, and the "bytes" that they alone keep
    POST /trash/restore?id=ID[&swap=true]     JSON: the messages that come back
    POST /trash/delete?id=ID                  deletes an entry for good

An answer comes when its result is durable. The acts are audited.
"""

from dataclasses import asdict
from typing import Any

import orjson

from queue_engine.engine.engine import Engine
from queue_engine.engine.engine_calls import ENGINE_ACTS
from queue_engine.service.http.audit import Done, HttpAudit
from queue_engine.service.http.exchange.handler import Handler
from queue_engine.service.http.exchange.request import RequestHead
from queue_engine.service.http.exchange.response import Answer, Response
from queue_engine.service.http.log_queries import QueryError, whole_number
from queue_engine.service.http.query import Query, query_of
from queue_engine.service.http.reference.content_types import JSON
from queue_engine.service.http.refusals import Refusal, act_refusal
from queue_engine.service.http.rules import PATHS
from queue_engine.vocabulary.acts.parameters import TRASH_ID, TRASH_SWAP
from queue_engine.vocabulary.errors import PenstockError


class TrashRoutes:
    """Handles them on the engine's thread."""

    def __init__(self, engine: Engine, audit: HttpAudit) -> None:
        self._engine = engine
        self._audit = audit
        self.handlers: dict[str, Handler] = {
            "/trash": self._list,
            "/trash/restore": self._act,
            "/trash/delete": self._act,
        }

    def _list(self, head: RequestHead, body: bytes, answer: Answer) -> None:
        trash = self._engine.trash
        try:
            shown = {"entries": [asdict(one) for one in trash.list()], "bytes": trash.bytes}
        except PenstockError as exc:
            answer(act_refusal(exc).response())
            return
        answer(Response(200, orjson.dumps(shown), JSON))

    def _act(self, head: RequestHead, body: bytes, answer: Answer) -> None:
        action = PATHS[head.path].action
        topic = channel = ""
        options: dict[str, Any] = {}
        try:
            query: Query = query_of(head.path, head.raw_query)
            number = whole_number(query, TRASH_ID)
            if action == "restore_trash":
                options = {"swap": _swaps(query), "by": head.act_author}
            topic, channel = self._engine.trash.names_of(number)
        except Refusal as refusal:
            self._audit.refuse(head, action, topic, channel, refusal, answer)
            return
        except PenstockError as exc:
            self._audit.refuse(head, action, topic, channel, act_refusal(exc), answer)
            return

        def act() -> Done:
            outcome, ticket = ENGINE_ACTS[action].on(self._engine)(topic, trash=number, **options)
            shown: dict[str, Any] = {
                "name": outcome.name,
                "waiting": outcome.depth,
                "deferred": outcome.deferred,
                "quarantined": outcome.quarantined,
                "channels": outcome.channels,
            }
            return Response(200, orjson.dumps(shown), JSON), ticket, outcome, {"trash": number}

        self._audit.begin(head, action, topic, channel, answer, act)


def _swaps(query: Query) -> bool:
    """Raises QueryError."""
    given = query.get(TRASH_SWAP.name, TRASH_SWAP.default)
    if given not in TRASH_SWAP.words:
        raise QueryError(f"{TRASH_SWAP.name}={given} is neither true nor false")
    return given == "true"
