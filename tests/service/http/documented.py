"""Checks answers of the HTTP API against its OpenAPI document: what it does not state fails the test.

Of an answer: status, content type, headers, and JSON by its schema. Of a request that was answered 200: its parameters.
"""

import gzip
import json
from collections.abc import Mapping
from functools import cache
from http import HTTPStatus
from typing import Any, cast
from urllib.parse import parse_qs, unquote, urlsplit

import orjson
from jsonschema import Draft202012Validator

from queue_engine.service.http.api import reference
from queue_engine.service.http.reference import errors
from queue_engine.service.http.reference.content_types import JSON, TEXT
from queue_engine.service.http.reference.endpoints import OWN_PATHS, route_of


@cache
def document() -> dict[str, Any]:
    """As a client gets it."""
    return cast(dict[str, Any], orjson.loads(orjson.dumps(reference())))


def check_answer(method: str, target: str, status: int, headers: Mapping[bytes, bytes], body: bytes) -> None:
    """Raises AssertionError for an answer that the document does not state. headers: names in lower case."""
    if b"location" in headers:
        assert status in (301, 307), f"{method} {target}: {status}"
        return
    parts = urlsplit(target)
    path = unquote(parts.path, errors="replace")
    operation = document()["paths"].get(route_of(path), {}).get(method.lower())
    where = f"{method} {target}: {status}"
    assert (status == 405) == (b"allow" in headers) or method == "OPTIONS", where
    if method == "OPTIONS" and status == 200:
        return
    if headers.get(b"content-encoding") == b"gzip":
        body = gzip.decompress(body)
    if operation is None:
        assert headers[b"content-type"] == JSON.encode(), f"{where}: an unknown request gets an error"
        known = {(error.status, error.word) for error in (*errors.ALWAYS, errors.NOT_FOUND)}
        assert (status, _json(body)["message"]) in known, f"{where} {body[:200]!r}"
        return
    assert str(status) in operation["responses"], f"{where} {body[:200]!r}: the document has no such status"
    if status >= 400 and path in OWN_PATHS and headers[b"content-type"] == JSON.encode():
        _check_details(where, headers, _json(body))
    _check_response(where, _resolved(operation["responses"][str(status)]), headers, body)
    if status == 200:
        _check_parameters(where, operation["parameters"], parts.query)


def _check_details(where: str, headers: Mapping[bytes, bytes], answer: Mapping[str, str]) -> None:
    """The headers of an error say the same as its body, on paths of our own; nsqd's have them in headers alone."""
    detail = unquote(headers.get(b"x-penstock-detail", b"").decode("ascii"))
    assert detail == answer.get("detail", "").strip(), where
    assert headers.get(b"x-penstock-code", b"").decode("ascii") == answer.get("code", ""), where


def check_some_answer(status: int, headers: Mapping[bytes, bytes], body: bytes) -> None:
    """The same for an answer to bytes that may be no request: it has to be that of some path, or that there is none."""
    assert (b"content-type" in headers) or headers[b"content-length"] == b"0"
    if not body or status in (301, 307):
        return
    if status in errors.MALFORMED and headers[b"content-type"] == TEXT.encode():
        assert body == f"{status} {HTTPStatus(status).phrase}".encode()
        assert b"x-nsq-content-type" not in headers
        return
    if headers[b"content-type"] == JSON.encode() and status != 200:
        assert (status, _json(body)["message"]) in _errors_of_all_paths(), f"{status} {body!r} is no documented error"
    else:
        found = {
            (int(status), content_type)
            for methods in document()["paths"].values()
            for operation in methods.values()
            for status, response in operation["responses"].items()
            for content_type in _resolved(response)["content"]
        }
        assert (status, headers[b"content-type"].decode()) in found


@cache
def _errors_of_all_paths() -> set[tuple[int, str]]:
    return {(404, errors.NOT_FOUND.word)} | {
        (int(status), word)
        for methods in document()["paths"].values()
        for operation in methods.values()
        for status, response in operation["responses"].items()
        for word in words_of(_resolved(response))
    }


def words_of(response: Mapping[str, Any]) -> list[str]:
    """The errors' words that a response may have; none for one without errors."""
    schema = next((one.get("schema", {}) for kind, one in response["content"].items() if "json" in kind), {})
    return list(schema["allOf"][1]["properties"]["message"]["enum"]) if "allOf" in schema else []


def _resolved(response: Mapping[str, Any]) -> Mapping[str, Any]:
    if "$ref" in response:
        return cast(Mapping[str, Any], document()["components"]["responses"][response["$ref"].rpartition("/")[2]])
    return response


def _check_response(where: str, response: Mapping[str, Any], headers: Mapping[bytes, bytes], body: bytes) -> None:
    if not body and b"content-type" not in headers:
        assert response["content"] == {}, where
        return
    content_type = headers[b"content-type"].decode()
    assert content_type in response["content"], f"{where}: the document has no {content_type}"
    schema = response["content"][content_type].get("schema")
    if schema is not None:
        found = _validator(orjson.dumps(schema)).iter_errors(_json(body))
        faults = [f"{fault.json_path}: {fault.message}" for fault in found]
        assert faults == [], f"{where} {body[:500]!r}"
    for name, header in response.get("headers", {}).items():
        value = headers[name.lower().encode()].decode()
        assert _validator(orjson.dumps(header["schema"])).is_valid(int(value)), f"{where}: {name}: {value}"


def _check_parameters(where: str, parameters: list[dict[str, Any]], raw_query: str) -> None:
    given = parse_qs(raw_query, keep_blank_values=True)
    for parameter in (one for one in parameters if one["in"] == "query"):
        name, schema = parameter["name"], parameter["schema"]
        assert name in given or not parameter["required"], f"{where} without {name}"
        if name in given:
            values = given[name]
            kind = schema.get("type")
            value = values if kind == "array" else int(values[0]) if kind == "integer" else values[0]
            assert _validator(orjson.dumps(schema)).is_valid(value), f"{where}: {name}={value} is not {schema}"


def _json(body: bytes) -> Any:
    return json.loads(body)  # orjson refuses a lone surrogate, which a client's name may have


@cache
def _validator(schema: bytes) -> Draft202012Validator:
    # References begin at the document's top.
    return Draft202012Validator({**orjson.loads(schema), "components": document()["components"]})
