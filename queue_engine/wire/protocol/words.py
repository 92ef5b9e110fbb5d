"""The words of a command's line: numbers, names and message ids, and how an error quotes them."""

import re
from functools import lru_cache

from queue_engine.vocabulary.errors import ProtocolError
from queue_engine.vocabulary.message import ID_BYTES
from queue_engine.vocabulary.names import NAME_LENGTH_MAX, is_reserved, is_valid_name

NUMBER_DIGITS_MAX = 19
_NUMBER = re.compile(rb"[0-9]{1,19}\Z")


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


def valid_name(raw: bytes) -> str | None:
    """The bytes as a name of a topic or channel; None when it is not valid."""
    return _valid_short_name(raw) if len(raw) <= NAME_LENGTH_MAX else None


def topic_name(verb: str, raw: bytes) -> str | None:
    """The same for a topic. Raises ProtocolError for the name of the server's own topic."""
    name = valid_name(raw)
    if name is not None and is_reserved(name):
        raise ProtocolError("E_BAD_TOPIC", f"{verb} topic name {quoted(raw)} is reserved for the server's own samples")
    return name


@lru_cache(maxsize=1024)  # clients repeat few names, none of them long
def _valid_short_name(raw: bytes) -> str | None:
    try:
        name = raw.decode("ascii")
    except UnicodeDecodeError:
        return None
    return name if is_valid_name(name) else None


def checked_id(raw: bytes) -> bytes:
    """The bytes of a message id. Raises ProtocolError when there are more or fewer."""
    if len(raw) != ID_BYTES:
        raise invalid("invalid message ID")
    return raw
