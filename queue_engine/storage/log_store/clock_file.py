"""The log's note of a clock that is far ahead, for the next start.

    log/clock.json    {"version": 1, "known_ms": …, "leapt_ms": …}, as vocabulary/trusted_time.py has them, and its
                      checksum (disk/checked_line.py)

The file is there only while the clock is not believed. Without it a start would believe a clock that was ahead when the
newest record was written.
"""

import logging
import os

from queue_engine.storage.disk.background import Background
from queue_engine.storage.disk.background_job import BackgroundJob
from queue_engine.storage.disk.checked_line import decode_line, encode_line
from queue_engine.storage.disk.files import Files
from queue_engine.vocabulary.trusted_time import TrustedTime

logger = logging.getLogger(__name__)

NAME = "clock.json"
VERSION = 1
_FILE_BYTES_MAX = 1 << 12


class ClockFile:
    """Belongs to the engine's thread."""

    def __init__(self, directory: str, files: Files, worker: Background) -> None:
        self._path = os.path.join(directory, NAME)
        self._files = files
        self._worker = worker
        self._written = (0, 0)  # the file's content; (0, 0): there is no file
        self._is_writing = False

    def read(self) -> tuple[int, int]:
        """known_ms and leapt_ms of an earlier process; (0, 0) when it believed the clock, or its file is damaged.
        Raises OSError."""
        data = self._files.read_whole(self._path, _FILE_BYTES_MAX)
        content = decode_line(data) if data is not None else None
        if content is not None and content.get("version") == VERSION:
            self._written = int(content["known_ms"]), int(content["leapt_ms"])
        elif data is not None:
            logger.warning("%s is not usable, and is removed", self._path)
            self._written = -1, -1
            return 0, 0
        return self._written

    def keep(self, time: TrustedTime) -> None:
        """Update the file when it does not state whether the clock is believed."""
        wanted = (time.believed_ms, time.leapt_ms) if time.leapt_ms else (0, 0)
        if wanted == self._written or self._is_writing:
            return
        self._is_writing = True

        def done(error: Exception | None) -> None:
            self._is_writing = False
            if error is None:
                self._written = wanted
            else:
                # The next call tries it again.
                logger.warning("%s not written: %s", self._path, error)

        content = encode_line({"version": VERSION, "known_ms": wanted[0], "leapt_ms": wanted[1]})
        write = (lambda: self._files.replace(self._path, content)) if time.leapt_ms else self._remove
        BackgroundJob(write, then=done).start(self._worker)

    def _remove(self) -> None:
        if self._files.size_of(self._path) is not None:
            self._files.unlink(self._path)
