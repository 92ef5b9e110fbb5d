"""A cache of a few open descriptors, by path; closes those unused for half a minute."""

from collections import OrderedDict

from queue_engine.storage.disk.files import Files
from queue_engine.vocabulary.clock import NS_PER_S

# Owners call `close_idle` this often.
IDLE_INTERVAL_NS = 30 * NS_PER_S


class DescriptorCache:
    """The `count_max` descriptors used last, by path. Not locked: for one thread at a time."""

    def __init__(self, files: Files, count_max: int) -> None:
        self._files = files
        self._count_max = count_max
        self._open_fds: OrderedDict[str, int] = OrderedDict()
        self._used: set[str] = set()  # since the last `close_idle`

    def get(self, path: str, flags: int) -> int:
        """A descriptor of `path`, opened with `flags` when there is none. Raises OSError."""
        self._used.add(path)
        fd = self._open_fds.get(path)
        if fd is not None:
            self._open_fds.move_to_end(path)
            return fd
        while len(self._open_fds) >= self._count_max:
            self._files.close_quietly(self._open_fds.popitem(last=False)[1])
        fd = self._open_fds[path] = self._files.open(path, flags)
        return fd

    def close(self, path: str) -> None:
        """Close the descriptor of `path`, if there is one."""
        fd = self._open_fds.pop(path, None)
        if fd is not None:
            self._files.close_quietly(fd)

    def close_idle(self) -> None:
        """Close descriptors that were not used since the last call."""
        for path in [path for path in self._open_fds if path not in self._used]:
            self.close(path)
        self._used.clear()

    def close_all(self) -> None:
        for path in list(self._open_fds):
            self.close(path)
