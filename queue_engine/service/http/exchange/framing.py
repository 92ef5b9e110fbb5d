"""Checks a request's framing, against request smuggling: h11 accepts requests that a proxy may end at another byte."""

import h11


def check_framing(event: object, read: bytes) -> None:
    """Raises h11.RemoteProtocolError for a line that ends with LF alone, and for a body in chunks of HTTP/1.0.

    read: the bytes of the event, for a head and for the end of a body in chunks; otherwise empty.
    """
    if read.count(b"\n") != read.count(b"\r\n"):
        raise h11.RemoteProtocolError("a line ends with LF alone; lines end with CRLF")
    if isinstance(event, h11.Request) and event.http_version < b"1.1" and is_chunked(event):
        raise h11.RemoteProtocolError("a body in chunks needs HTTP/1.1")


def is_chunked(request: h11.Request) -> bool:
    return any(name == b"transfer-encoding" for name, _ in request.headers)
