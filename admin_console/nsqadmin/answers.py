"""Answers in nsqadmin's form: JSON with `message`, "" where all went well."""

import json
from collections.abc import Callable, Iterable
from typing import Any

import orjson
from django.http import HttpRequest, HttpResponse


def answer(document: Any, *, status: int = 200) -> HttpResponse:
    """`document` as JSON."""
    return HttpResponse(
        _json_of(document),
        status=status,
        content_type="application/json; charset=utf-8",
        headers={"X-NSQ-Content-Type": "nsq; version=1.0", "Cache-Control": "no-store"},
    )


def _json_of(document: Any) -> bytes:
    try:
        return orjson.dumps(document)
    except TypeError:  # sums of nodes' figures may have more than 64 bits
        return json.dumps(document, separators=(",", ":")).encode()


def plain(text: str) -> HttpResponse:
    """A text as it is."""
    return HttpResponse(
        text,
        content_type="text/plain; charset=utf-8",
        headers={"X-NSQ-Content-Type": "nsq; version=1.0", "Cache-Control": "no-store"},
    )


def complaint(code: str, *, status: int) -> HttpResponse:
    """nsqadmin's word for a refusal."""
    return answer({"message": code}, status=status)


def too_large(body: bytes, bytes_max: int) -> str:
    """Why the body of a request is not read; "" where it is."""
    if len(body) <= bytes_max:
        return ""
    return f"the body has {len(body):,} bytes, and the most is {bytes_max:,}; nothing was done"


def warned(document: dict[str, Any], failures: Iterable[str]) -> HttpResponse:
    """The document, with a warning that has a line for each that did not answer, or not do it."""
    listed = "\n".join(failures)
    return answer({**document, "message": f"WARNING: {listed}" if listed else ""})


def not_found_upstream(word: str) -> str:
    """nsqadmin's sentence for the 404 of another program."""
    return f'got response 404 Not Found "{{\\"message\\":\\"{word}\\"}}"'


def refused_upstream(word: str) -> str:
    """The same for a 400."""
    return f'got response 400 Bad Request "{{\\"message\\":\\"{word}\\"}}"'


def upstream(program: str, failures: Iterable[str]) -> HttpResponse:
    """None that was called has answered, with a line for each. program: nsqd or nsqlookupd."""
    listed = "\n".join(failures)
    return complaint(f"UPSTREAM_ERROR: failed to query any {program}: {listed}", status=502)


View = Callable[..., HttpResponse]


def by_method(**views: View) -> View:
    """One view of several, by the method; OPTIONS is answered, others are refused with the list."""
    allowed = ", ".join(sorted([*views, "OPTIONS"]))

    def view(request: HttpRequest, **names: str) -> HttpResponse:
        method = "GET" if request.method == "HEAD" else str(request.method)
        if method in views:
            return views[method](request, **names)
        if method == "OPTIONS":
            return HttpResponse(headers={"Allow": allowed})
        refused = complaint("METHOD_NOT_ALLOWED", status=405)
        refused["Allow"] = allowed
        return refused

    return view
