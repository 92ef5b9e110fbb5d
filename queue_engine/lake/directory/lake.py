"""The lake: the directory that the pipeline's jobs write to, and its manifests.

    pipeline/lock    the holder of the lake (lake_lock.py)

    manifest: JSON in one line LF
              CRC-32C of the line, without its LF, as 8 hex digits LF

A manifest is replaced as a whole (tmp, fsync, rename, directory fsync): a process that dies at any moment leaves the
old one or the new one. Data files count when a table names them (`tables/`), and never by a manifest.

To change a manifest: give its content another "version", and read both.
"""

import logging
import os
import shutil
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from queue_engine.lake.directory.lake_lock import LakeLock
from queue_engine.storage.disk.checked_line import decode_line, encode_line
from queue_engine.storage.disk.files import Files
from queue_engine.vocabulary.clock import Clock, SystemClock
from queue_engine.vocabulary.errors import LakeDamagedError, NotConvertedError, PipelineError

logger = logging.getLogger(__name__)

MANIFEST_NAME = "manifest.json"
MANIFEST_BYTES_MAX = 1 << 28
# The last one that makes tables of the manifests which the first versions wrote: no release wrote such manifests.
CONVERTING_COMMIT = "a84e6062"
# Temporary files in these directories are the holder's; those in requests/ belong to the processes that write requests.
OWN_DIRECTORIES = ("", "history", "jobs")


def not_converted(subject: str, manifest: str) -> NotConvertedError:
    """The refusal to read or write files below a manifest of the first versions. subject: such as "the history"."""
    return NotConvertedError(
        f"{subject} has a format of before release 0.2.0, named by {manifest}; nothing was changed. Penstock at commit"
        f" {CONVERTING_COMMIT} converts it by `penstock pipeline convert`; to go on without it, move its folder away"
    )


class Lake:
    """The lake in directory `path`. Every path given to a method is relative to it.

    files: the seam to the disk. changes: a lock; a job holds it from reading a manifest or a table until its successor
    is written, since the jobs of one process run at the same time.
    """

    def __init__(self, path: str, *, files: Files | None = None, clock: Clock | None = None) -> None:
        self.path = os.fspath(path)
        self.changes = threading.Lock()
        self.files = files or Files()
        self._is_held = False
        self._clock = clock or SystemClock()
        self._known_directories: set[str] = set()

    def within(self, path: str) -> str:
        """The place of `path` in the file system."""
        return os.path.join(self.path, path) if path else self.path

    # The holder.

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Hold the lake, and remove the leftovers of earlier holders.

        Raises LakeHeldError when another process (or another `Lake` in this one) holds it, StorageError and OSError.
        """
        lock = LakeLock(self.path, clock=self._clock)
        try:
            self.begin()
            yield
        finally:
            self._is_held = False
            lock.release()

    def begin(self) -> None:
        """Begin to write. Only the holder may call this. Raises OSError."""
        self._make_directory("")
        self._is_held = True
        self._clean()

    # Manifests.

    def read_manifest(self, path: str) -> dict[str, Any] | None:
        """The content of a manifest; None when there is none yet. Raises LakeDamagedError, OSError."""
        data = self.files.read_whole(self.within(path), MANIFEST_BYTES_MAX)
        if data is None:
            return None
        content = decode_line(data)
        if content is None:
            raise LakeDamagedError(f"manifest {self.within(path)} is damaged: its content is not the one written")
        return content

    def write_manifest(self, path: str, content: Mapping[str, Any]) -> None:
        """Replace a manifest, durably or not at all. Raises PipelineError without the lock, OSError."""
        self._check_held()
        self._make_directory(os.path.dirname(path))
        self.files.replace(self.within(path), encode_line(content))

    # Other files.

    def remove(self, paths: Iterable[str]) -> None:
        """Remove files. Those that can't be removed are logged and stay."""
        self._check_held()
        for path in paths:
            try:
                self.files.unlink(self.within(path))
            except FileNotFoundError:
                pass
            except OSError as exc:
                logger.warning("file not removed path=%s error=%s", path, exc)

    def remove_tree(self, path: str) -> bool:
        """Remove a directory with all that is in it; of a symbolic link the link alone. Returns whether it is gone:
        files that can't be removed are logged and stay."""
        self._check_held()
        place = self.within(path)
        if os.path.islink(place) or not os.path.isdir(place):
            self.remove([path])
        else:
            try:
                shutil.rmtree(place)
            except OSError as exc:
                logger.warning("directory not removed path=%s error=%s", path, exc)
        self._known_directories.clear()
        return not os.path.lexists(place)

    def _check_held(self) -> None:
        if not self._is_held:
            raise PipelineError(f"the lake {self.path} is not locked by this process: only its holder writes")

    def _clean(self) -> None:
        """Remove the leftovers of processes that ended in the middle of their work."""
        # Of earlier versions, which wrote their data files there first.
        self.remove_tree("staging")
        for directory in OWN_DIRECTORIES:
            self.remove(
                os.path.join(directory, name) for name in self._names_in(directory) or () if name.endswith(".tmp")
            )

    def _names_in(self, path: str) -> list[str] | None:
        """The names in a directory; None when there is no such directory."""
        try:
            return self.files.listdir(self.within(path))
        except (FileNotFoundError, NotADirectoryError):
            return None

    def _make_directory(self, path: str) -> None:
        """Make a directory and those above it, durably: a file is lost when its directory's name is."""
        if path in self._known_directories:
            return
        if path:
            self._make_directory(os.path.dirname(path))
        if self._names_in(path) is None:
            self.files.make_directory(self.within(path))
            self.files.sync_directory(os.path.dirname(self.within(path)) or ".")
        self._known_directories.add(path)
