"""A socket in the file system to listen on: a stale one is removed, its mode says who may connect."""

import os
import socket
import stat

from queue_engine.vocabulary.errors import PenstockError

# The server's account and its group.
MODE = 0o660


class UnixSocket:
    """One socket of this process. socket: bound, and not listening yet."""

    def __init__(self, path: str) -> None:
        """Bind to `path`. Raises PenstockError when something else is there, OSError when the path can't be used."""
        _remove_stale(path)
        self.path = path
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self.socket.bind(path)
            # Before it listens: until then no client can connect.
            os.chmod(path, MODE)
        except OSError:
            self.socket.close()
            raise
        self._inode = os.stat(path).st_ino

    def remove(self) -> None:
        """Remove the path, unless another process has put its own there."""
        try:
            if os.stat(self.path).st_ino == self._inode:
                os.unlink(self.path)
        except OSError:
            pass  # it is gone


def _remove_stale(path: str) -> None:
    """Remove a socket on which no process listens any more: a kill leaves it behind."""
    try:
        mode = os.lstat(path).st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(mode):
        raise PenstockError(f"can't listen on {path}: a file is there that is no socket; nothing was changed")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)
        try:
            probe.connect(path)
        except ConnectionRefusedError:
            os.unlink(path)
            return
        except BlockingIOError:
            pass  # its line is full: a process listens that is stopped, or hangs
        raise PenstockError(f"can't listen on {path}: another process listens there")
