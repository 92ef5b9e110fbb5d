"""The OpenAPI document against the code: paths, parameters, what is served; and that the check of answers checks."""

from pathlib import Path
from typing import Any

import pytest
from openapi_spec_validator import validate

from queue_engine.service.http.reference.endpoints import ENDPOINTS
from queue_engine.service.http.rules import PATHS, Rule
from queue_engine.vocabulary.acts.parameters import Parameter
from tests.service.http.documented import check_answer, check_some_answer, document
from tests.service.http.good_requests import BODIES, prepared
from tests.service.http.server import http_server

# A path of nsqd's that this server has only to say why it can't do it.
REFUSED = {"/debug/setblockrate"}
# Where another value than "x" tells whether a parameter is read.
TELLING_VALUES = {
    "topic": "$",
    "channel": "$",
    "key": "",
    "include_clients": "false",
    "include_mem": "true",
    "include_buckets": "true",
    "reason": "x" * 201,
}


@pytest.mark.slow(reason="the validator takes seconds to read OpenAPI's own schema")
def test_the_document_is_valid_openapi() -> None:
    validate(document())


def test_every_path_of_the_rules_is_in_the_document_with_its_method_and_the_reverse() -> None:
    found = {path: [method.upper() for method in methods] for path, methods in document()["paths"].items()}
    assert found == {path: list(entry.methods) for path, entry in PATHS.items()}


def test_the_document_says_which_paths_need_the_token() -> None:
    for path, entry in PATHS.items():
        for operation in document()["paths"][path].values():
            assert bool(operation["security"]) == (entry.rule is not Rule.OPEN), path


async def test_the_document_is_served_to_clients_without_the_token(tmp_path: Path) -> None:
    async with http_server(tmp_path, http_token="secret") as server:
        answer = await server.request("GET", "/openapi.json")
        assert (answer.status, answer.headers[b"content-type"]) == (200, b"application/json; charset=utf-8")
        assert answer.json == document()
        assert len(answer.body) < 200_000


async def test_each_path_is_answered_200(tmp_path: Path) -> None:
    async with http_server(tmp_path, debug_endpoints=True) as server:
        good = await prepared(server)
        # What deletes is sent last.
        for path in sorted(
            PATHS, key=lambda path: (path.endswith("/delete") or path == "/log/release", path.startswith("/topic"))
        ):
            answer = await good.send(path)
            assert answer.status == (501 if path in REFUSED else 200), (path, answer.body)


@pytest.mark.parametrize("path", [path for path, endpoint in ENDPOINTS.items() if endpoint.parameters])
async def test_each_documented_parameter_is_read(tmp_path: Path, path: str) -> None:
    """A request whose parameter is missing or has another value has another answer."""
    async with http_server(tmp_path) as server:
        good = await prepared(server)
        answers: dict[str, list[Any]] = {}
        for parameter in ENDPOINTS[path].parameters:
            changed = [{parameter.name: TELLING_VALUES.get(parameter.name, "x")}]
            if parameter.is_required:
                changed.append({parameter.name: None})
            answers[parameter.name] = [
                await good.send(path, body=_other_body(path, parameter), **change) for change in changed
            ]
        before = await good.send(path)
        assert before.status == 200
        for name, others in answers.items():
            for other in others:
                assert (other.status, other.body) != (before.status, before.body), name


def _other_body(path: str, parameter: Parameter) -> bytes | None:
    """With `binary` the good body, which is text, has a wrong count."""
    return BODIES[path] if parameter.name == "binary" else None


def test_code_reads_queries_by_the_reference_alone() -> None:
    """`query_of` leaves out what the document does not have; the audit list's names are read as they are."""
    folder = Path(__file__).resolve().parents[3] / "queue_engine/service/http"
    using = {path.name for path in folder.rglob("*.py") if "parse_query(" in path.read_text()}
    assert using == {"query.py", "token_check.py"}


TEXT = {b"content-type": b"text/plain; charset=utf-8"}
JSON = {b"content-type": b"application/json; charset=utf-8"}


@pytest.mark.parametrize(
    ("target", "status", "headers", "body"),
    [
        ("GET /ping", 204, TEXT, b""),
        ("GET /ping", 200, {b"content-type": b"text/html"}, b"OK"),
        ("GET /info", 200, JSON, b"{}"),
        ("GET /nothing", 200, TEXT, b"OK"),
        ("POST /pub?topic=t", 400, JSON, b'{"message":"MADE_UP"}'),
        ("POST /pub?topic=t", 400, JSON, b'{"message":"MSG_EMPTY","code":"MADE_UP"}'),
        ("POST /pub?topic=t", 400, JSON, b'{"message":"MSG_EMPTY","more":1}'),
        ("POST /pub", 200, TEXT, b"OK"),
        ("POST /pub?topic=%24", 200, TEXT, b"OK"),
        ("POST /log/renew?ttl_ms=5", 200, TEXT, b""),
        ("GET /log/read?topic=t&offset=0", 200, {b"content-type": b"application/octet-stream"}, b""),
    ],
)
def test_an_answer_that_the_document_does_not_state_fails_a_test(
    target: str, status: int, headers: dict[bytes, bytes], body: bytes
) -> None:
    method, _, path = target.partition(" ")
    with pytest.raises((AssertionError, KeyError)):
        check_answer(method, path, status, headers, body)


@pytest.mark.parametrize(
    ("status", "headers", "body"),
    [(400, JSON, b'{"message":"MADE_UP"}'), (204, TEXT, b"OK"), (401, JSON, b'{"message":"NOT_FOUND"}')],
)
def test_an_answer_that_no_path_has_fails_a_test(status: int, headers: dict[bytes, bytes], body: bytes) -> None:
    with pytest.raises(AssertionError):
        check_some_answer(status, headers, body)
