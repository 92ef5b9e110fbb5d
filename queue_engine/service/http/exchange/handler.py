"""The handler of connections' requests: the seam between HTTP itself and the paths of an API."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from queue_engine.service.http.exchange.request import RequestHead
from queue_engine.service.http.exchange.response import Answer, Response
from queue_engine.vocabulary.client_key import ClientKey


@dataclass(frozen=True, slots=True)
class BodyLimit:
    """The largest body that a request may have. too_big: makes the answer to a larger one."""

    bytes_max: int
    too_big: Callable[[], Response]


# Handles the requests of one path.
Handler = Callable[[RequestHead, bytes, Answer], None]


class RequestHandler(Protocol):
    """Handles a connection's requests. The methods run on the loop and return at once."""

    def begin(self, head: RequestHead) -> BodyLimit | Response:
        """The limit of the request's body, or a refusal before the body is read."""
        ...

    def is_nsqd_path(self, head: RequestHead) -> bool:
        """Whether errors of this path have nsqd's body: those of our own paths have the detail in it, too."""
        ...

    def connection_key(self, peer: str) -> ClientKey:
        """Who the limit on connections counts. peer: the IP address of the connection, or UNIX."""
        ...

    def client_of(self, head: RequestHead) -> ClientKey:
        """Who a limit counts for this request, which `begin` has let pass."""
        ...

    def body_refused(self, head: RequestHead, *, is_crowded: bool) -> None:
        """The connection refuses the body: it is too large, or, if `is_crowded`, unfinished bodies leave no room."""
        ...

    def finish(self, head: RequestHead, body: bytes, answer: Answer) -> None:
        """Handle a whole request; call `answer` once, at once or later, on the loop's thread."""
        ...
