"""The commands of NSQ's protocol, one small type each. The parser checks their form; the session checks their state.

Names are valid; ids are the 16 bytes of the line; times are milliseconds.
"""

from dataclasses import dataclass


@dataclass(slots=True)
class Identify:
    """The client's name and the settings it requests: JSON, not yet decoded."""

    body: bytes


@dataclass(slots=True)
class Auth:
    """The client's secret."""

    secret: bytes


@dataclass(slots=True)
class Sub:
    """Consume the channel on this connection."""

    topic: str
    channel: str


@dataclass(slots=True)
class Rdy:
    """The number of messages that may be in flight to this connection: 0 to --max-rdy-count."""

    count: int


@dataclass(slots=True)
class Pub:
    """Publish one message; the body has 1 to --max-msg-size bytes."""

    topic: str
    body: bytes


@dataclass(slots=True)
class Mpub:
    """Publish one or more messages, all or none; each body is as PUB's."""

    topic: str
    bodies: list[bytes]


@dataclass(slots=True)
class Dpub:
    """Publish one message, deferred by `defer_ms`: 0 to --max-req-timeout, or the parser refuses it."""

    topic: str
    defer_ms: int
    body: bytes


@dataclass(slots=True)
class Fin:
    """Finish messages, in the client's order: those of one FIN line, or of a series of them."""

    ids: list[bytes]


@dataclass(slots=True)
class Req:
    """Requeue a message, deferred by `timeout_ms`; a value above --max-req-timeout becomes that."""

    id: bytes
    timeout_ms: int


@dataclass(slots=True)
class Touch:
    """Begin a message's timeout anew."""

    id: bytes


@dataclass(slots=True)
class Cls:
    """Deliver nothing more; messages in flight can still be finished, requeued and touched."""


@dataclass(slots=True)
class Nop:
    """The answer to a heartbeat."""


Command = Identify | Auth | Sub | Rdy | Pub | Mpub | Dpub | Fin | Req | Touch | Cls | Nop

CLS = Cls()
NOP = Nop()
