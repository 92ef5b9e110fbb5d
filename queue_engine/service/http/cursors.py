"""Handles the requests about pipeline cursors: readers of a topic of the log, which retains the messages behind them.

    POST /cursor/create?topic=T&cursor=C[&start=start|end | &start_offset=N]    JSON: the cursor and "created";
                                            [&anew=true]                        one that exists begins there again
    POST /cursor/move?topic=T&cursor=C&number=N&offset=O[&lake=L]               JSON: the cursor; it never moves back
    POST /cursor/delete?topic=T&cursor=C                                        JSON: "given_up", and its offsets
    GET  /cursor/list[?topic=T]                                                 JSON: "cursors", "ended" and "server"

`wire/cursor.py` draws a cursor. An answer comes when its result is durable.
"""

from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import orjson

from queue_engine.delivery.stats import Outcome
from queue_engine.engine.acts.cursor_acts import stats_of_topic
from queue_engine.engine.acts.log_acts import Target
from queue_engine.engine.engine import Engine
from queue_engine.service.http.audit import Done
from queue_engine.service.http.exchange.response import Response
from queue_engine.service.http.log_queries import QueryError, target_of, text_of, whole_number
from queue_engine.service.http.query import Query
from queue_engine.service.http.reference.content_types import JSON
from queue_engine.storage.readers.cursors import EndedCursor
from queue_engine.storage.readers.reader_registry import Maker
from queue_engine.vocabulary.acts.parameters import (
    CURSOR_ANEW,
    CURSOR_LAKE,
    CURSOR_NUMBER,
    CURSOR_OFFSET,
    CURSOR_START_PLACE,
    START,
)
from queue_engine.vocabulary.ticket import DONE
from queue_engine.wire.cursor import CursorStats, encode_cursor_list


def create(engine: Engine, query: Query, maker: Maker) -> Done:
    """Create a cursor. maker: whose request it is. This and the next three raise QueryError or PenstockError."""
    topic, cursor = names_of(query)
    begin = engine.cursors.restart if _is_anew(engine, query) else engine.cursors.create
    outcome, ticket = begin(topic, cursor=cursor, start=_start_of(query), maker=maker)
    shown = {**asdict(engine.cursors.one(topic, cursor)), "created": outcome.created}
    return _json(shown), ticket, outcome, {}


def move(engine: Engine, query: Query, maker: Maker) -> Done:
    topic, cursor = names_of(query)
    number = whole_number(query, CURSOR_NUMBER)
    offset = whole_number(query, CURSOR_OFFSET)
    lake = text_of(query, CURSOR_LAKE)
    stats, ticket = engine.cursors.move(topic, cursor=cursor, number=number, offset=offset, lake=lake, maker=maker)
    return _json(stats), ticket, Outcome(depth=stats.depth), {"offset": stats.offset}


def delete(engine: Engine, query: Query, maker: Maker) -> Done:
    topic, cursor = names_of(query)
    before = engine.cursors.one(topic, cursor)
    outcome, ticket = engine.cursors.delete(topic, cursor=cursor, maker=maker)
    shown = {"given_up": outcome.depth, "first_offset": before.offset, "next_offset": before.end_offset}
    return _json(shown), ticket, outcome, {}


def list_all(engine: Engine, query: Query, maker: Maker) -> Done:
    found = engine.cursors.all(query.get("topic", ""))
    listed = encode_cursor_list(found.cursors, [_ended_json(one) for one in found.ended], found.server)
    return Response(200, listed, JSON), DONE, Outcome(), {}


ACTS: dict[str, Callable[[Engine, Query, Maker], Done]] = {
    "/cursor/create": create,
    "/cursor/move": move,
    "/cursor/delete": delete,
    "/cursor/list": list_all,
}


def _start_of(query: Query) -> Target:
    if "start_time_ms" in query:
        raise QueryError("a cursor starts at start, end, or an offset: no start_time_ms")
    return target_of(query, CURSOR_START_PLACE) or Target(word=START)


def begins_or_ends(engine: Engine, action: str, query: Query) -> bool:
    """Whether an act creates a cursor that does not exist, or deletes one that does. Raises QueryError."""
    if action not in ("create_cursor", "delete_cursor"):
        return False
    topic, cursor = names_of(query)
    _start_of(query)
    if engine.topics.get(topic) is None:
        return False
    if _is_anew(engine, query):
        return True
    return _is_there(engine, topic, cursor) == (action == "delete_cursor")


def _is_anew(engine: Engine, query: Query) -> bool:
    """Whether a cursor that exists is to be made anew. Raises QueryError."""
    text = query.get(CURSOR_ANEW.name, CURSOR_ANEW.default)
    if text not in CURSOR_ANEW.words:
        raise QueryError(f"{CURSOR_ANEW.name}={text} can be {' or '.join(CURSOR_ANEW.words)}")
    return text == "true" and _is_there(engine, *names_of(query))


def _is_there(engine: Engine, topic: str, cursor: str) -> bool:
    found = engine.topics.get(topic)
    return found is not None and any(one.cursor == cursor for one in stats_of_topic(found))


def names_of(query: Query) -> tuple[str, str]:
    """The names of topic and cursor. Raises QueryError when one is missing."""
    for name in ("topic", "cursor"):
        if not query.get(name):
            raise QueryError(f"{name} is missing")
    return query["topic"], query["cursor"]


def _ended_json(ended: EndedCursor) -> dict[str, Any]:
    cursor = ended.cursor
    return {
        "cursor": cursor.name,
        "topic": cursor.topic,
        "number": cursor.topic_number,
        "id_base": cursor.id_base,
        "first_offset": cursor.offset,
        "next_offset": ended.next_offset,
        "reason": ended.reason,
        "at_ms": ended.at_ms,
        "created_ms": cursor.created_ms,
        "maker": cursor.maker,
        "gaps": [asdict(one) for one in cursor.gaps],
    }


def _json(shown: CursorStats | dict[str, Any]) -> Response:
    return Response(200, orjson.dumps(shown), JSON)
