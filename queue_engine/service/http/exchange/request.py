"""A request's first part, made of h11's event."""

from collections.abc import Callable
from dataclasses import dataclass, field
from urllib.parse import unquote

import h11

from queue_engine.service.http.exchange.malformed import plain_response, refusal_of
from queue_engine.service.http.exchange.response import Answer, Response
from queue_engine.service.http.reference.endpoints import route_of
from queue_engine.vocabulary.client_key import UNIX, ClientKey


@dataclass(slots=True)
class RequestHead:
    """A request's first part, before any of its body was read.

    route: the key of the path in the table of paths, also where the table has no such path: all options share one key.
    client_address: where the client is, by the connection or by a trusted proxy, without a port; the handler sets it.
    "" where the connection's address stands for many clients.
    actor: the name of its token, once that is checked; "" for none. on_behalf_of: the user for whom that token's
    program acts, by its claim (`wire/user_claim.py`); "" for none. may_read, may_administer: whether that token may
    read or administer a topic, "" for all of them; None without a token. is_own: whether a process of this server sends
    it. refused: answers a request that may not pass, after its body was dropped; None for the others.
    """

    method: str
    path: str  # percent-decoded
    raw_query: str  # as sent, without the question mark
    host: bytes | None  # of the target if it names one, else the Host header; None: neither
    headers: list[tuple[bytes, bytes]]  # names in lower case
    content_length: int | None  # 0 without a body; None when it comes in chunks
    remote_address: str  # HOST:PORT
    local_host: str  # the address of ours that the client connected to
    is_tls: bool = False
    client_address: str = ""
    actor: str = ""
    on_behalf_of: str = ""
    is_own: bool = False
    may_read: Callable[[str], bool] | None = None
    may_administer: Callable[[str], bool] | None = None
    refused: Callable[[Answer], object] | None = None
    route: str = field(init=False)

    def __post_init__(self) -> None:
        self.route = route_of(self.path)

    @property
    def author(self) -> str:
        """Who did an act of this request: the token's name, or the client's address."""
        return f"token {self.actor}" if self.actor else self.remote_address

    @property
    def act_author(self) -> str:
        """The author, with the user whom the token claims to act for."""
        return f"{self.author}, for {self.on_behalf_of}" if self.on_behalf_of else self.author

    @property
    def remote_ip(self) -> str:
        """The address of the connection; UNIX for a socket in the file system."""
        return self.remote_address.rpartition(":")[0].strip("[]") or self.remote_address

    @property
    def source_address(self) -> str:
        """The address that stands for the client, alone or with others."""
        return self.client_address or self.remote_ip

    @property
    def client(self) -> ClientKey:
        """Who a limit counts, once the token is checked."""
        return ClientKey.of(self.client_address or ("" if self.actor else self.remote_ip), self.actor)

    @property
    def forwarded_for(self) -> str:
        """X-Forwarded-For, of all such headers; whether to believe it is another question. "" for none."""
        found = [value.decode("latin-1") for name, value in self.headers if name == b"x-forwarded-for"]
        return ",".join(found)

    def header(self, name: bytes) -> bytes | None:
        """The first header of that name, which is in lower case."""
        return next((value for own, value in self.headers if own == name), None)


def head_of(event: h11.Request, remote_address: str, local_host: str, *, is_tls: bool) -> RequestHead | Response:
    """The first part of a request, or the answer to one that can't be taken."""
    refused = refusal_of(event)
    if refused is not None:
        return Response(refused, b"", nsq_version=False) if refused == 417 else plain_response(refused)
    headers = list(event.headers)
    names = [name for name, _ in headers]
    is_chunked = b"transfer-encoding" in names
    if is_chunked and b"content-length" in names:
        # They may disagree on where the body ends, and a proxy may believe the other one.
        return plain_response(400, "both Content-Length and Transfer-Encoding are given")
    host = next((value for name, value in headers if name == b"host"), None)
    target = event.target
    for scheme in (b"http://", b"https://"):  # a proxy's clients send the whole URL
        if target.lower().startswith(scheme):
            host, slash, rest = target[len(scheme) :].partition(b"/")
            target = slash + rest
    path, _, raw_query = target.decode("latin-1").partition("?")
    length = next((value for name, value in headers if name == b"content-length"), b"0")
    return RequestHead(
        method=event.method.decode("ascii"),
        path=unquote(path, errors="replace"),
        raw_query=raw_query,
        host=host,
        headers=headers,
        content_length=None if is_chunked else int(length),
        remote_address=remote_address,
        local_host=local_host,
        is_tls=is_tls,
    )


def join_address(address: object) -> str:
    """HOST:PORT of a socket's address; UNIX for a socket in the file system."""
    if isinstance(address, tuple) and len(address) >= 2:
        host = f"[{address[0]}]" if ":" in str(address[0]) else address[0]
        return f"{host}:{address[1]}"
    return UNIX


def host_of(address: object) -> str:
    return str(address[0]) if isinstance(address, tuple) and address else ""
