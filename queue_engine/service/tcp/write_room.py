"""How many bytes of messages the next run to a client may have: many while its socket has room for them, and no more
than its output buffer takes when the socket is nearly full.

A run that a socket takes in part stays in memory whole. So a client that stops reading costs its output buffer and one
message, whatever size runs have for the others.
"""

import array
import asyncio
import fcntl
import socket
import termios

from queue_engine.delivery.channel import RUN_BYTES_MAX
from queue_engine.wire.protocol.identify import DEFAULT_OUTPUT_BUFFER_SIZE

# Of one connection, in the kernel and not sent yet: enough for a fast consumer until the loop comes back to it. Without
# the limit the kernel takes up to 4 MB for a consumer that does not read, and those messages are in flight to it.
UNSENT_BYTES_MAX = 256 << 10
# The socket is looked at again when less is left of the last look: one system call for 32 KiB of messages.
_LOOK_AGAIN_BYTES = RUN_BYTES_MAX // 2


class WriteRoom:
    """How many bytes of messages one connection may get."""

    __slots__ = ("_buffer_bytes", "_output_buffer_bytes", "_socket_bytes")

    def __init__(self) -> None:
        self._output_buffer_bytes = DEFAULT_OUTPUT_BUFFER_SIZE
        self._socket_bytes = 0  # the socket takes at least so many more
        self._buffer_bytes = 0  # the socket's buffer has at least so many: it grows, and never shrinks

    def agree(self, output_buffer_bytes: int) -> None:
        self._output_buffer_bytes = output_buffer_bytes

    def written(self, count: int) -> None:
        """So many bytes of messages were handed on."""
        self._socket_bytes -= count

    def run_bytes_max(self, transport: asyncio.Transport | None, gathered_bytes: int) -> int:
        """At least 1, which is one message of any size. gathered_bytes: of messages that are not written yet."""
        if self._socket_bytes >= _LOOK_AGAIN_BYTES:
            return self._socket_bytes
        waiting_bytes = 0 if transport is None else transport.get_write_buffer_size()
        if transport is None or waiting_bytes:
            self._socket_bytes = 0
        else:
            self._socket_bytes = min(self._look(transport) - gathered_bytes, RUN_BYTES_MAX)
        return max(self._socket_bytes, self._output_buffer_bytes - gathered_bytes - waiting_bytes, 1)

    def _look(self, transport: asyncio.Transport) -> int:
        """How many bytes the socket takes at least; 0 where the system does not report it."""
        given = transport.get_extra_info("socket")
        if given is None:
            return 0
        held = array.array("i", [0])
        try:
            fcntl.ioctl(given.fileno(), termios.TIOCOUTQ, held)
            if not held[0]:
                return RUN_BYTES_MAX  # every system lets an empty socket take so much
            if self._buffer_bytes - held[0] < RUN_BYTES_MAX:
                # The system counts its own overhead, too: up to as much again.
                size: int = given.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF)
                self._buffer_bytes = min(size // 2, UNSENT_BYTES_MAX)
        except (OSError, ValueError):
            return 0  # closed meanwhile, or a system without the call
        return self._buffer_bytes - held[0]
