"""The reference of the HTTP API."""

from collections.abc import Iterator, Mapping
from typing import Any

from queue_engine.service.http.reference import errors
from queue_engine.service.http.reference.declarations import Endpoint, Error
from queue_engine.service.http.reference.endpoints import ENDPOINTS, SECTIONS
from queue_engine.service.http.rules import PATHS, Rule
from queue_engine.vocabulary.acts.parameters import Duration, Name, Parameter
from queue_engine.vocabulary.options.durations import format_duration
from tests.support.references.generated import code, table

_TOKEN = {
    Rule.OPEN: "",
    Rule.CHANGES: " Needs the token, where there is one.",
    Rule.BODIES: " Needs the token; without one it is answered on loopback alone.",
    Rule.PROCESS: " Needs the token; without one it is answered on loopback alone.",
}


def paths() -> Iterator[str]:
    """Every path: what it takes, what it answers, and the words of its own errors."""
    for heading, section in SECTIONS.items():
        yield f"## {heading}"
        for path, endpoint in section.items():
            yield ""
            yield f"### `{', '.join(PATHS[path].methods)} {path}`"
            yield ""
            yield endpoint.text + _TOKEN[PATHS[path].rule]
            yield ""
            yield from _endpoint(endpoint)
        yield ""


def _endpoint(endpoint: Endpoint) -> Iterator[str]:
    if endpoint.parameters:
        yield from table(("parameter", "values", "default", ""), [_row(one) for one in endpoint.parameters])
        yield ""
    if endpoint.body:
        yield f"- body: {endpoint.body}"
    for answer in endpoint.answers:
        schema = f", {answer.schema['$ref'].rpartition('/')[2]}" if answer.schema and "$ref" in answer.schema else ""
        kind = code(answer.content_type) if answer.content_type else "no body"
        yield f"- {answer.status}, {kind}{schema}: {answer.text}"
        if answer.headers:
            yield f"- headers: {', '.join(f'{code(name)} ({text})' for name, text in answer.headers.items())}"
    own = sorted({(error.status, error.word) for error in endpoint.errors})
    if own:
        yield f"- errors: {', '.join(f'{status} {code(word)}' for status, word in own)}"


def _row(parameter: Parameter) -> tuple[str, ...]:
    required = ", required" if parameter.is_required else ""
    return (
        f"{code(parameter.name)}{required}",
        _values(parameter),
        str(parameter.schema.get("default", "")),
        parameter.text,
    )


def _values(parameter: Parameter) -> str:
    schema: Mapping[str, Any] = parameter.schema
    if isinstance(parameter, Name):
        return "a name"
    if "enum" in schema:
        return ", ".join(schema["enum"])
    if schema["type"] == "integer":
        most = schema.get("maximum")
        return f"{schema['minimum']} or more" if most is None else f"{schema['minimum']} to {most}"
    if isinstance(parameter, Duration):
        return f"a duration up to {format_duration(parameter.most_ms)}"
    longest = schema.get("maxLength")
    return f"{schema.get('minLength', 0)} to {longest} characters" if longest else "text"


def error_words() -> list[str]:
    """Every error with when it comes; those of all paths first."""
    refusals = (errors.BODY_TOO_BIG, errors.TOKEN_REQUIRED, errors.NOT_ALLOWED, errors.NOT_FOUND)
    common = (*errors.ALWAYS, errors.PARAMETER_WRONG, *refusals)
    own = {error: None for endpoint in ENDPOINTS.values() for error in endpoint.errors}
    return [
        "Of all paths:",
        "",
        *_errors(common),
        "",
        "Of the paths that list them:",
        "",
        *_errors(tuple(error for error in own if error not in common)),
    ]


def _errors(listed: tuple[Error, ...]) -> list[str]:
    rows = [
        (str(error.status), code(error.word), ", ".join(map(code, error.codes)), error.text)
        for error in sorted(listed, key=lambda error: (error.status, error.word))
    ]
    return table(("status", "message", "code", "when"), rows)
