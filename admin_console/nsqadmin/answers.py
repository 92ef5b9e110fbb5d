"""Answers in nsqadmin's form: JSON with `message`, "" where all went well."""

from collections.abc import Iterable
from typing import Any

import orjson
from django.http import HttpResponse


def answer(document: Any, *, status: int = 200) -> HttpResponse:
    """`document` as JSON."""
    return HttpResponse(
        orjson.dumps(document),
        status=status,
        content_type="application/json; charset=utf-8",
        headers={"X-NSQ-Content-Type": "nsq; version=1.0", "Cache-Control": "no-store"},
    )


def complaint(code: str, *, status: int) -> HttpResponse:
    """nsqadmin's word for a refusal."""
    return answer({"message": code}, status=status)


def partial(document: dict[str, Any], failures: Iterable[str]) -> HttpResponse:
    """The document, with a warning that names each that did not answer."""
    listed = "; ".join(failures)
    return answer({**document, "message": f"WARNING: {listed}" if listed else ""})


def upstream(sentence: str) -> HttpResponse:
    """Nothing that was called has answered."""
    return complaint(f"UPSTREAM_ERROR: {sentence}", status=502)
