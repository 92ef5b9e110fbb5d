"""Answers to malformed requests, as Go's HTTP server gives them: plain text, and the end."""

import re
from http import HTTPStatus

import h11

from queue_engine.service.http.exchange.response import Response
from queue_engine.wire.error_answers import ErrorAnswer

# h11 shows the bytes it read as Python does.
_SHOWN_BYTES = re.compile(r"""bytearray\(b(['"].*['"])\)""", re.DOTALL)


def plain_response(status: int, why: str = "") -> Response:
    """An answer without any of nsqd's headers; with the reason, if there is one."""
    body = f"{status} {HTTPStatus(status).phrase}".encode()
    return Response(status, body, nsq_version=False, headers=ErrorAnswer("", why).headers())


def reason_of(error: h11.RemoteProtocolError) -> str:
    """The fault, in words that name no type of Python's."""
    return _SHOWN_BYTES.sub(r"\1", str(error))


def refusal_of(request: h11.Request) -> int | None:
    """The status for a request that is well-formed and can't be taken; None for one that can."""
    if not request.http_version.startswith(b"1."):
        return HTTPStatus.HTTP_VERSION_NOT_SUPPORTED
    expected = next((value for name, value in request.headers if name == b"expect"), b"")
    if expected and b"100-continue" not in tokens(expected):
        return HTTPStatus.EXPECTATION_FAILED
    return None


def asks_to_stay(request: h11.Request) -> bool:
    """Whether an HTTP/1.0 client asks for the connection to stay open, as `ab -k` does."""
    given = [token for name, value in request.headers if name == b"connection" for token in tokens(value)]
    return request.http_version == b"1.0" and b"keep-alive" in given and b"close" not in given


def tokens(value: bytes) -> list[bytes]:
    """The parts of a header's value, in lower case."""
    return [part.strip() for part in value.lower().split(b",")]
