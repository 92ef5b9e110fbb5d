"""Ends a process's work at its n-th sync, as a kill does: what was done before it stays, and no handler runs."""

from queue_engine.storage.disk.files import Files


class Kill(BaseException):
    """No code that handles errors handles this."""


class DyingFiles(Files):
    """Dies at its sync number `left`, counted from 1."""

    def __init__(self, left: int) -> None:
        super().__init__()
        self.left = left

    def sync(self, fd: int) -> None:
        self.left -= 1
        if self.left == 0:
            raise Kill
        super().sync(fd)
