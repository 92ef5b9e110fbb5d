"""Which acts a node can do; their requests to its HTTP API, and the outcome by the answers and its figures."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import orjson

from admin_console.cluster.reading.node_info import (
    MESSAGES_PATH,
    PREVIEW_PATH,
    PUBLISH_PATH,
    PUBLISHED_PATH,
    NodeInfo,
)
from admin_console.cluster.reading.nodes import Node
from admin_console.gateway.gateway import ActOrder
from admin_console.gateway.held import Held
from admin_console.gateway.sentences import and_list, in_one_phrase
from queue_engine.delivery.stats import MessageResult, Outcome
from queue_engine.engine.acts.log_acts import Target
from queue_engine.engine.messages.rows import DEFERRED, IN_FLIGHT, QUARANTINED, WAITING
from queue_engine.vocabulary.acts.parameters import Duration, Parameter, Position
from queue_engine.vocabulary.acts.table import ACTS, USES, kinds_of
from queue_engine.vocabulary.clock import NS_PER_MS
from queue_engine.vocabulary.options.durations import format_duration

_TEXT_LENGTH_MAX = 200
_NAMED_MAX = 6  # paths and parameters that a version lacks
# This console ends the pause and compares the counts itself; without the last two the act is the same.
_CAN_LACK = frozenset({"for", "until", "expected", "reason", "ramp"})


def why_node_can_not(node: Node, action: str) -> str:
    """Why a node can't do an act or use, as a sentence without its full stop; "" where it can."""
    if node.info is None:
        return f"{node.name} has not answered yet"
    reason = kinds_of(action).nsqd
    if reason and not node.info.is_penstock:
        return f"{node.name} is an nsqd and {reason}"
    # An act without a role is one over HTTP alone, on a path of its own.
    if action in ACTS and ACTS[action].role is not None and not path_of(action):
        return f"{node.name} does this at its own console alone"
    if (path := path_of(action)) and not node.info.has_path(path):
        return has_no_such_act(node)
    if action == "find_key" and not node.info.takes(PUBLISHED_PATH, "key"):
        return f"{node.name} runs {node.info.product}, which finds no messages by key"
    return ""


def why_node_lists_keys(node: Node) -> str:
    """Why a Penstock lists no messages without their keys, a look at contents which it audits; "" where it does."""
    if node.info is None or node.info.takes(MESSAGES_PATH, "keys"):
        return ""
    return f"{node.name} runs {node.info.product}, which lists no messages without their keys"


def why_node_previews_nothing(node: Node) -> str:
    """Why a node gives no preview of a rewind; "" where it does."""
    if reason := why_node_can_not(node, "rewind_channel"):
        return reason
    if node.info is None or node.info.has_path(PREVIEW_PATH):
        return ""
    return f"{node.name} runs {node.info.product}, which has no such preview"


def has_no_such_act(node: Node) -> str:
    """The same, of a node whose version lacks the act."""
    product = node.info.product if node.info is not None else "another version"
    return f"{node.name} runs {product}, which has no such act"


def lacking(node: Node) -> str:
    """Acts and uses of this console that a node lacks, as its page shows them; "" where it has all. Of many the first
    ones: the question of each act names its own."""
    info = node.info
    if info is None:
        return ""
    if not info.is_penstock:
        return in_one_phrase(filter(None, (kinds_of(name).nsqd for name in (*ACTS, *USES))))
    found = []
    for http in (act.http for act in ACTS.values() if act.http is not None):
        if not info.has_path(http.path):
            found.append(http.path)
        else:
            names = [one.name for each in http.parameters for one in _single(each)]
            found += [f"{name} of {http.path}" for name in names if not info.takes(http.path, name)]
    more = [f"{len(found) - _NAMED_MAX:,} more"] if len(found) > _NAMED_MAX else []
    return f"its version has no {and_list([*found[:_NAMED_MAX], *more])}" if found else ""


def _single(parameter: Parameter | Position) -> tuple[Parameter, ...]:
    return tuple(parameter) if isinstance(parameter, Position) else (parameter,)


def path_of(action: str) -> str:
    """Of an act or use in a node's API; "" where it has none."""
    if action not in ACTS:
        return MESSAGES_PATH if action == "list_messages" else ""
    http = ACTS[action].http
    return PUBLISH_PATH if action == "publish" else http.path if http is not None else ""


def lacks_a_parameter(node: Node, order: ActOrder) -> str:
    """Why a Penstock can't do an order as it is: it would ignore a parameter that its version lacks. A sentence without
    its full stop; "" where it can."""
    info, path = node.info, path_of(order.action)
    if info is None or not info.is_penstock:
        return ""
    for name, value in _query_of(order).items():
        if name not in _CAN_LACK and value not in ("", "0", "false") and not info.takes(path, name):
            return f"{node.name} runs {info.product}, which has no “{name}” for it"
    return ""


def requests_of(order: ActOrder, before: Held | None, info: NodeInfo | None) -> list[tuple[str, dict[str, str], bytes]]:
    """Path, query and body of each that the act needs. before: the figures of its object."""
    details = order.details
    path, query = path_of(order.action), {"topic": order.topic}
    if order.channel:
        query["channel"] = order.channel
    if order.action == "publish":
        key = details.get("key", b"").decode()
        defer = {"defer": str(details["defer_ms"])} if details.get("defer_ms") else {}
        return [(path, query | defer | ({"key": key} if key else {}), body) for body in details["bodies"]]
    if info is not None and info.is_penstock:
        query |= {name: value for name, value in _query_of(order).items() if info.takes(path, name)}
    if "ids" in details or "offsets" in details:
        ids = b"\n".join(one.encode() for one in details.get("ids", ()))
        by_offset = [(path, query | {"offset": str(one)}, b"") for one in details.get("offsets", ())]
        return [*([(path, query, ids)] if ids else []), *by_offset]
    requests = [(path, query, b"")]
    if details.get("channels_too") and before is not None:
        requests += [("/channel/empty", {**query, "channel": name}, b"") for name in before.channel_names]
    return requests


def outcome_of(order: ActOrder, before: Held | None, bodies: Sequence[bytes]) -> Outcome:
    """By the figures before the act; nsqd answers with nothing. bodies: of the answers."""
    action = order.action
    if action.startswith("create_"):
        return Outcome(created=before is None)
    if before is None:
        return Outcome()
    if action in ("pause_topic", "pause_channel"):
        return Outcome(before.depth, before.in_flight, before.deferred, created=not before.paused)
    if action in ("unpause_topic", "unpause_channel"):
        return Outcome(before.depth, already=not before.paused)
    if action == "requeue_channel":
        return Outcome(in_flight=before.in_flight)
    if action == "release_deferred":
        return Outcome(deferred=before.deferred)
    if action == "redrive_channel":
        return Outcome(quarantined=before.quarantined)
    if action == "cancel_redrive":
        return Outcome(quarantined=before.quarantined, channels=1)
    if action == "set_max_attempts":
        return Outcome(already=before.max_attempts == order.details["max_attempts"])
    if action == "rewind_channel":
        return Outcome(depth=number_in(bodies[0], "depth") if bodies else 0)
    if action.endswith("_messages") or action == "publish_again":
        return _outcome_of_results(bodies)
    is_all = action == "delete_topic" or order.details.get("channels_too")
    held = before.in_all if is_all else before
    clients = held.clients if action.startswith("delete_") else 0
    channels = len(before.channels) if is_all else 0
    return Outcome(held.depth, held.in_flight, held.deferred, held.quarantined, channels, clients)


def _query_of(order: ActOrder) -> dict[str, str]:
    """The parameters of the act's row beside the names, as a Penstock reads them."""
    http = ACTS[order.action].http
    query: dict[str, str] = {}
    for parameter in http.parameters if http is not None else ():
        keyword = parameter.word.keyword if isinstance(parameter, Position) else parameter.keyword
        value = order.details.get(keyword)
        if value is None:
            continue
        if isinstance(value, Target):
            assert isinstance(parameter, Position)
            query |= _place(parameter, value)
        elif isinstance(parameter, Parameter):
            query[parameter.name] = _text_of(parameter, value)
    return query


def _place(parameter: Position, target: Target) -> dict[str, str]:
    if target.word:
        return {parameter.word.name: target.word}
    if target.offset is not None:
        return {parameter.offset.name: str(target.offset)}
    return {parameter.time_ms.name: str((target.time_ns or 0) // NS_PER_MS)}


def _text_of(parameter: Parameter, value: Any) -> str:
    if isinstance(parameter, Duration):
        return format_duration(value)
    return str(value).lower() if isinstance(value, bool) else str(value)


def _document_in(body: bytes) -> Mapping[str, Any]:
    with suppress(orjson.JSONDecodeError):
        document = orjson.loads(body)
        if isinstance(document, dict):
            return document
    return {}


def number_in(body: bytes, name: str) -> int:
    value = _document_in(body).get(name)
    return value if type(value) is int else 0


def _outcome_of_results(bodies: Sequence[bytes]) -> Outcome:
    """Of an act on single messages, as a Penstock answers it."""
    listed = [_document_in(body).get("results") for body in bodies]
    rows = [row for one in listed if isinstance(one, list) for row in one]
    results: list[MessageResult] = []
    counts = dict.fromkeys((WAITING, IN_FLIGHT, DEFERRED, QUARANTINED), 0)
    for row in rows:
        if not isinstance(row, dict):
            continue
        texts = {
            name: str(row.get(name) or "")[:_TEXT_LENGTH_MAX] for name in ("asked", "was", "code", "text", "new_id")
        }
        offset, new_offset = row.get("offset"), row.get("new_offset")
        results.append(
            MessageResult(
                texts["asked"],
                offset if type(offset) is int else None,
                texts["was"],
                texts["code"],
                texts["text"],
                texts["new_id"],
                new_offset if type(new_offset) is int else None,
            )
        )
        if not texts["code"] and texts["was"] in counts:
            counts[texts["was"]] += 1
    return Outcome(
        counts[WAITING],
        counts[IN_FLIGHT],
        counts[DEFERRED],
        counts[QUARANTINED],
        results=tuple(results),
    )
