"""The real server on a data directory that holds so many bytes.

    python -m tests.support.processes.small_disk BYTES serve …

Writes through `Files` beyond that fail as on a full disk. Blocks are of 4 KiB, and files that other processes put into
the directory count as well. The console's database does not go through `Files`: it counts, and never fails.
"""

import errno
import os
import sys

from queue_engine.storage.disk.files import Files
from tests.support.processes.server import ROOT, ServerProcess

BLOCK_BYTES = 4_096

_limit_bytes = 0
_directory = ""
_write_at = Files.write_at


class SmallDiskServer(ServerProcess):
    """The server on a data directory that holds `limit_bytes`."""

    limit_bytes = 0

    def _command(self) -> list[str]:
        return ["-m", "tests.support.processes.small_disk", str(self.limit_bytes), *super()._command()[1:]]

    def fill(self, left_bytes: int) -> None:
        """Somebody else's file takes what is free but for so much."""
        size = self.limit_bytes - used_bytes(str(self.data_path)) - left_bytes
        (self.data_path / "filler").write_bytes(bytes(max(0, size)))


def used_bytes(directory: str) -> int:
    """Whole blocks of all files below `directory`."""
    total = 0
    for folder, _, names in os.walk(directory):
        for name in names:
            try:
                total += _blocks(os.stat(os.path.join(folder, name)).st_size)
            except FileNotFoundError:
                continue
    return total


def _blocks(size: int) -> int:
    return -(-size // BLOCK_BYTES) * BLOCK_BYTES


def _free_bytes(self: Files, directory: str) -> int:
    return max(0, _limit_bytes - used_bytes(_directory))


def _total_bytes(self: Files, directory: str) -> int:
    return _limit_bytes


def _small_write_at(self: Files, fd: int, data: bytes | memoryview, position: int) -> int:
    has = _blocks(os.fstat(fd).st_size)
    if _blocks(position + len(data)) > has:
        data = data[: max(0, has + _free_bytes(self, "") - position)]
        if not data:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    return _write_at(self, fd, data, position)


def main() -> None:
    global _limit_bytes, _directory
    _limit_bytes = int(sys.argv[1])
    _directory = next(one.partition("=")[2] for one in sys.argv if one.startswith("--data-path="))
    Files.write_at = _small_write_at
    Files.free_bytes = _free_bytes
    Files.total_bytes = _total_bytes
    sys.argv = ["manage.py", *sys.argv[2:]]
    sys.path.insert(0, str(ROOT))
    import manage

    manage.main()


if __name__ == "__main__":
    main()
