"""What a client may say, once read: one small type a command, checked for form but not for state.

Names are text of valid form; ids are the 16 bytes that stood on the line; times are milliseconds.
"""

import re
from dataclasses import dataclass

from queue_engine.vocabulary.errors import ProtocolError

NUMBER_DIGITS_MAX = 19
_NUMBER = re.compile(rb"[0-9]{1,19}\Z")


@dataclass(slots=True)
class Identify:
    """What the client says of itself and asks for: JSON, not yet decoded."""

    body: bytes


@dataclass(slots=True)
class Auth:
    """The client's secret."""

    secret: bytes


@dataclass(slots=True)
class Sub:
    """From now on this connection consumes the channel."""

    topic: str
    channel: str


@dataclass(slots=True)
class Rdy:
    """How many messages may be in flight to this connection; 0 to the largest RDY."""

    count: int


@dataclass(slots=True)
class Pub:
    """One message; the body is 1 byte to the largest message long."""

    topic: str
    body: bytes


@dataclass(slots=True)
class Mpub:
    """Several messages, all or none; at least one, each as long as PUB allows."""

    topic: str
    bodies: list[bytes]


@dataclass(slots=True)
class Dpub:
    """One message that waits `defer_ms` first; within the range, or the parser had refused it."""

    topic: str
    defer_ms: int
    body: bytes


@dataclass(slots=True)
class Fin:
    """Messages done with, in the order told: one FIN line, or as many as followed each other."""

    ids: list[bytes]


@dataclass(slots=True)
class Req:
    """A message given back, to come again after `timeout_ms`; what was above the limit is the limit."""

    id: bytes
    timeout_ms: int


@dataclass(slots=True)
class Touch:
    """A message whose timeout begins anew."""

    id: bytes


@dataclass(slots=True)
class Cls:
    """No more messages, please; what is in flight is still answered."""


@dataclass(slots=True)
class Nop:
    """The answer to a heartbeat."""


Command = Identify | Auth | Sub | Rdy | Pub | Mpub | Dpub | Fin | Req | Touch | Cls | Nop

CLS = Cls()
NOP = Nop()


def parse_number(digits: bytes) -> int:
    """The number that a parameter spells: digits and nothing else; no digits at all are 0, as in nsqd.

    int() would also take "1_0", " 7", "+1" and the digits of other scripts.
    Raises ValueError for those, and beyond NUMBER_DIGITS_MAX digits.
    """
    if not digits:
        return 0
    if _NUMBER.match(digits) is None:
        raise ValueError(f"not a number of at most {NUMBER_DIGITS_MAX} digits")
    return int(digits)


def text_of(raw: bytes) -> str:
    """Client bytes as they go into an error text; what is not UTF-8 becomes U+FFFD, so that any text can be sent."""
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
    r"""Client bytes in double quotes as Go's %q writes them: `"my topic"`, `"a\"b"`, `"\x00"`, `"\xff"`, `"\u200b"`."""
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
