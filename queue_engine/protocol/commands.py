"""The commands of NSQ's protocol, one small type each. The parser checks their form; the session checks their state.

Names are valid; ids are the 16 bytes of the line; times are milliseconds.
"""

import re
from dataclasses import dataclass

from queue_engine.vocabulary.errors import ProtocolError

NUMBER_DIGITS_MAX = 19
_NUMBER = re.compile(rb"[0-9]{1,19}\Z")


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


def parse_number(digits: bytes) -> int:
    """Read a parameter as a number: digits and nothing else; no digits at all are 0, as in nsqd.

    int() would also take "1_0", " 7", "+1" and the digits of other scripts.
    Raises ValueError for those, and beyond NUMBER_DIGITS_MAX digits.
    """
    if not digits:
        return 0
    if _NUMBER.match(digits) is None:
        raise ValueError(f"not a number of at most {NUMBER_DIGITS_MAX} digits")
    return int(digits)


def text_of(raw: bytes) -> str:
    """A client's bytes for an error text; bytes that are not UTF-8 become U+FFFD."""
    return raw.decode("utf-8", "replace")


_ESCAPES = {
    "\a": r"\a",
    "\b": r"\b",
    "\f": r"\f",
    "\n": r"\n",
    "\r": r"\r",
    "\t": r"\t",
    "\v": r"\v",
    "\\": r"\\",
    '"': r"\"",
}


def quoted(raw: bytes) -> str:
    r"""Bytes in double quotes as Go's %q writes them: `"my topic"`, `"a\"b"`, `"\x00"`, `"\xff"`, `"\u200b"`."""
    parts = ['"']
    for char in raw.decode("utf-8", "surrogateescape"):
        code = ord(char)
        if char in _ESCAPES:
            parts.append(_ESCAPES[char])
        elif char.isprintable():
            parts.append(char)
        elif code < 0x20 or code == 0x7F:
            parts.append(f"\\x{code:02x}")
        elif 0xDC80 <= code <= 0xDCFF:  # a byte that was no part of valid UTF-8
            parts.append(f"\\x{code - 0xDC00:02x}")
        elif code < 0x10000:
            parts.append(f"\\u{code:04x}")
        else:
            parts.append(f"\\U{code:08x}")
    parts.append('"')
    return "".join(parts)


def invalid(description: str) -> ProtocolError:
    """The error of a command that is malformed or out of place; fatal."""
    return ProtocolError("E_INVALID", description)
