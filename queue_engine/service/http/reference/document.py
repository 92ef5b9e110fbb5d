"""The OpenAPI 3.1 document of the HTTP API, made of the declarations."""

import re
from collections import defaultdict
from collections.abc import Mapping
from typing import Any, NamedTuple

from queue_engine.service.http.reference import errors, message_shapes, shapes, stats_shape
from queue_engine.service.http.reference.content_types import BINARY, JSON, NOTHING
from queue_engine.service.http.reference.declarations import Endpoint, Error, Success
from queue_engine.service.http.reference.endpoints import OWN_PATHS, SECTIONS
from queue_engine.vocabulary.acts.parameters import Parameter
from queue_engine.vocabulary.version import VERSION

_ABOUT = """nsqd's HTTP API, and Penstock's additions to it. An error is JSON with nsqd's word as `message`, and often a
sentence in the header X-Penstock-Detail; paths that nsqd does not have repeat it as `detail`. Parameters are in the
query of the URL, also of POST; others than those listed are ignored. Large answers of /stats, /metrics and
/openapi.json go as gzip to clients that accept it."""

_SCHEMAS = {
    "Error": shapes.ERROR,
    "NsqdError": shapes.NSQD_ERROR,
    "Info": shapes.INFO,
    "Stats": stats_shape.STATS,
    "Topic": stats_shape.TOPIC,
    "Channel": stats_shape.CHANNEL,
    "Pause": stats_shape.PAUSE,
    "Client": stats_shape.CLIENT,
    "Log": stats_shape.LOG,
    "Cursor": shapes.CURSOR,
    "EndedCursor": shapes.ENDED_CURSOR,
    "CreatedCursor": shapes.CREATED_CURSOR,
    "DeletedCursor": shapes.DELETED_CURSOR,
    "CursorList": shapes.CURSOR_LIST,
    "Trash": shapes.TRASH,
    "TrashAct": shapes.TRASH_ACT,
    "TrashEntry": shapes.TRASH_ENTRY,
    "TopicState": shapes.TOPIC_STATE,
    "LeasedFiles": shapes.LEASED_FILES,
    "WrittenBatch": shapes.WRITTEN_BATCH,
    "Message": shapes.MESSAGE,
    "MessagePage": shapes.MESSAGE_PAGE,
    "Seek": shapes.SEEK,
    "SeekPreview": shapes.SEEK_PREVIEW,
    "MessageRow": message_shapes.MESSAGE_ROW,
    "MessageRows": message_shapes.MESSAGE_ROWS,
    "OneMessage": message_shapes.ONE_MESSAGE,
    "MessageResults": message_shapes.MESSAGE_RESULTS,
    "Search": message_shapes.SEARCH,
}


class Access(NamedTuple):
    """How a path is requested. methods: the last of several is the one whose request has a body. needs_token: where
    the server has one."""

    methods: tuple[str, ...]
    needs_token: bool


def openapi_document(access: Mapping[str, Access]) -> dict[str, Any]:
    """The whole document. access: of each path in `SECTIONS`."""
    shared = _SharedResponses()
    paths = {
        path: {
            method.lower(): _operation(path, method, heading, endpoint, access[path], shared)
            for method in access[path].methods
        }
        for heading, section in SECTIONS.items()
        for path, endpoint in section.items()
    }
    return {
        "openapi": "3.1.0",
        "info": {"title": "Penstock's HTTP API", "version": VERSION, "description": _ABOUT.replace("\n", " ")},
        "tags": [{"name": heading} for heading in SECTIONS],
        "paths": paths,
        "components": {
            "schemas": _SCHEMAS,
            "responses": shared.responses,
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer", "description": "The token of --http-token, if it is set."}
            },
        },
    }


class _SharedResponses:
    """The responses that are errors alone: most paths have the same, so each is in the document once."""

    def __init__(self) -> None:
        self.responses: dict[str, Any] = {}

    def ref(self, status: int, words: list[str], response: Mapping[str, Any]) -> dict[str, str]:
        """A reference to `response`."""
        name, number = f"{status}.{'.'.join(words)}", 1
        # The same words may have other texts on another path.
        while self.responses.setdefault(name, response) != response:
            number += 1
            name = f"{status}.{'.'.join(words)}.{number}"
        return {"$ref": f"#/components/responses/{name}"}


def _operation(
    path: str, method: str, heading: str, endpoint: Endpoint, access: Access, shared: _SharedResponses
) -> dict[str, Any]:
    name = re.sub(r"[^a-z]+", "_", path.removesuffix(".json")).strip("_")
    is_last = method == access.methods[-1]
    operation: dict[str, Any] = {
        "operationId": name if is_last else f"{method.lower()}_{name}",
        "tags": [heading],
        "summary": endpoint.text,
        "parameters": [*_places_in(path), *(_parameter(one) for one in endpoint.parameters)],
        "responses": _responses(endpoint, access, shared, path in OWN_PATHS),
        # {}: a server without --http-token.
        "security": [{"token": []}, {}] if access.needs_token else [],
    }
    if endpoint.body and is_last:
        operation["requestBody"] = {
            "description": endpoint.body,
            "required": True,
            "content": {BINARY: {}},
        }
    return operation


def _places_in(path: str) -> list[dict[str, Any]]:
    return [
        {
            "name": name,
            "in": "path",
            "description": "the option, as nsqd names it",
            "required": True,
            "schema": shapes.TEXT,
        }
        for name in re.findall(r"\{(.*?)\}", path)
    ]


def _parameter(parameter: Parameter) -> dict[str, Any]:
    return {
        "name": parameter.name,
        "in": "query",
        "description": parameter.text,
        "required": parameter.is_required,
        "schema": parameter.schema,
    }


def _responses(endpoint: Endpoint, access: Access, shared: _SharedResponses, is_own: bool) -> dict[str, Any]:
    responses: dict[int, Any] = {}
    by_status: dict[int, list[Error]] = defaultdict(list)
    for error in errors.of_path(endpoint, needs_token=access.needs_token):
        by_status[error.status].append(error)
    answers: dict[int, list[Success]] = defaultdict(list)
    for answer in endpoint.answers:
        answers[answer.status].append(answer)
    for status in sorted({*by_status, *answers}):
        response = _response(answers[status], by_status[status], is_own)
        words = [error.word for error in by_status[status]]
        responses[status] = response if answers[status] else shared.ref(status, words, response)
    return {str(status): response for status, response in responses.items()}


def _response(answers: list[Success], refusals: list[Error], is_own: bool) -> dict[str, Any]:
    """The response of one status. is_own: the path is not nsqd's."""
    texts = [*(answer.text for answer in answers), *(f"{error.word}: {error.text}" for error in refusals)]
    content: dict[str, Any] = {
        answer.content_type: {"schema": answer.schema} if answer.schema else {}
        for answer in answers
        if answer.content_type != NOTHING
    }
    if refusals:
        words = list(dict.fromkeys(error.word for error in refusals))
        codes = list(dict.fromkeys(code for error in refusals for code in error.codes))
        narrowed: dict[str, Any] = {"message": {"enum": words}}
        if is_own:
            narrowed["code"] = {"enum": codes} if codes else False
        content[JSON] = {
            "schema": {"allOf": [shapes.ref("Error" if is_own else "NsqdError"), {"properties": narrowed}]}
        }
    headers: dict[str, Any] = {
        name: {"description": text, "required": True, "schema": shapes.COUNT}
        for answer in answers
        for name, text in answer.headers.items()
    }
    return {
        "description": texts[0] if len(texts) == 1 else "\n".join(f"- {text}" for text in texts),
        "content": content,
        **({"headers": headers} if headers else {}),
    }
