"""Whether a connection that is not read from has sent anything meanwhile."""

import array
import asyncio
import fcntl
import termios

# A layer answers whether it holds bytes that were read from the socket and not passed on.
_HOLDS_UNREAD = "holds_unread"


_MANY = 1 << 30


def has_unread_bytes(transport: asyncio.BaseTransport | None) -> bool:
    """Whether bytes lie in the socket or a layer, to be read. True where there is no socket to look at."""
    return unread_bytes(transport) > 0


def unread_bytes(transport: asyncio.BaseTransport | None) -> int:
    """How many bytes lie in the socket, to be read; very many where a layer holds some, or there is no socket."""
    given = None if transport is None else transport.get_extra_info("socket")
    if given is None or (transport is not None and transport.get_extra_info(_HOLDS_UNREAD)):
        return _MANY
    count = array.array("i", [0])
    try:
        fcntl.ioctl(given.fileno(), termios.FIONREAD, count)
    except (OSError, ValueError):
        return _MANY  # closed meanwhile: its end is about to be noticed
    return count[0]
