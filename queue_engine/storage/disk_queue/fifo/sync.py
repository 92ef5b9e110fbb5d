"""Makes one state of a disk queue durable: data first, then the meta file, and only then old files go.

A job runs on the worker for a running queue, and on the engine's thread when the queue closes. Meanwhile the engine may
write, and even empty, delete or close the queue: the job has its own descriptors, and it changes no name in the
directory any more once the queue's `QueueGeneration` is another than the job's.
"""

import errno
import logging
import os
import threading
from contextlib import suppress
from dataclasses import dataclass

from queue_engine.storage.disk.files import Files, temporary_name
from queue_engine.storage.disk_queue.fifo.format import Meta, data_file_name, meta_file_name

logger = logging.getLogger(__name__)


class QueueGeneration:
    """The generation of a queue's files: emptying, deleting and closing begin the next one. Jobs of an older generation
    must not change names in the directory.

    lock: held for one rename or unlink at a time, so that the two threads never do so at once and the engine waits no
    longer than that.
    """

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.number = 0
        # The first error of a data file's sync: its bytes may not be on the disk, and the system reports such an error
        # only once.
        self.data_error: OSError | None = None
        self._data_since = 0

    def begin_next(self) -> None:
        """From now on jobs that were made before change no name."""
        with self.lock:
            self.number += 1

    def data_failed(self, error: OSError, generation: int) -> None:
        """A data file could not be synced, as `generation` had it."""
        with self.lock:
            if generation >= self._data_since:
                self.data_error = self.data_error or error

    def forget_data(self) -> None:
        """All data files are removed: forget their error, and ignore errors that jobs still report of them."""
        with self.lock:
            self._data_since = self.number
            self.data_error = None


@dataclass(slots=True)
class WrittenFile:
    """A data file whose last bytes may not be on the disk.

    fd: owned by this object's owner; None when it is opened by name. cut_to: its valid length when bytes behind it
    could not be removed so far.
    """

    number: int
    fd: int | None
    cut_to: int | None = None


class SyncJob:
    """One sync. `run` may be called from any thread, once; it closes every descriptor it was given.

    Its results: `is_durable`, whether its state is on the disk, even if old files could not be removed; `unsynced`, the
    files to be tried again; and `removed`, the names that are gone (or did not exist).
    """

    def __init__(
        self,
        name: str,
        directory: str,
        files: Files,
        generation: QueueGeneration,
        *,
        meta: Meta,
        written: list[WrittenFile],
        passed: list[str],
        set_aside: list[str],
    ) -> None:
        """written: data files to sync. passed: names to remove once the meta file no longer needs them.
        set_aside: names to rename to `.bad`."""
        self._name = name
        self._directory = directory
        self._files = files
        self._generation = generation
        self._number = generation.number
        self._meta = meta
        self.written = written
        self._passed = passed
        self._set_aside = set_aside
        self._is_meta_fixed = False
        self.is_durable = False
        self.unsynced: list[WrittenFile] = []
        self.removed: set[str] = set()

    @property
    def is_outdated(self) -> bool:
        """Whether the queue was emptied, deleted or closed since the job was made."""
        return self._generation.number != self._number

    def leave_meta(self) -> None:
        """Sync the data, and change no name, because the meta file could not be read."""
        self._is_meta_fixed = True
        self._passed, self._set_aside = [], []

    def run(self) -> None:
        """Do all of it. Raises OSError: the first that happened, after everything else was tried."""
        if self.write():
            self._files.sync_directory(self._directory)
            self.is_durable = True
        self.remove()

    def write(self) -> bool:
        """The first part: the data and the meta file, all but the directory, which many jobs may have synced together;
        then comes `remove`. Returns whether the directory is to be synced. Raises OSError."""
        self._sync_data()
        return self._is_meta_fixed or self._write_meta()

    def _sync_data(self) -> None:
        error: OSError | None = None
        for file in self.written:
            fd = file.fd
            try:
                if fd is None:
                    path = os.path.join(self._directory, data_file_name(self._name, file.number))
                    fd = self._files.open(path, os.O_RDWR)
                if file.cut_to is not None:
                    error = error or self._cut(fd, file)
                self._files.sync_data(fd)
            except FileNotFoundError:
                pass  # removed meanwhile, since it was emptied or read to its end
            except OSError as exc:
                error = error or exc
                if fd is None:
                    self.unsynced.append(file)
                else:
                    # Never tried again on this descriptor: the system may have dropped the bytes already.
                    self._generation.data_failed(exc, self._number)
            finally:
                if fd is not None:
                    self._files.close_quietly(fd)
        if error is not None:
            # The meta file must not count on bytes that may not be there.
            raise error

    def _cut(self, fd: int, file: WrittenFile) -> OSError | None:
        """Remove the bytes of a failed write. Where that fails again they stay, behind the file's valid end."""
        assert file.cut_to is not None
        try:
            self._files.truncate(fd, file.cut_to)
        except OSError as exc:
            self.unsynced.append(WrittenFile(file.number, None, file.cut_to))
            return exc
        return None

    def _write_meta(self) -> bool:
        path = os.path.join(self._directory, meta_file_name(self._name))
        temporary = temporary_name(path)
        if self.is_outdated:
            return False
        try:
            self._files.write_synced(temporary, self._meta.encode())
        except OSError as exc:
            if exc.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
            return self._overwrite_meta(path, exc)
        is_renamed = False
        try:
            with self._generation.lock:
                if not self.is_outdated:
                    self._files.rename(temporary, path)
                    is_renamed = True
        finally:
            if not is_renamed:
                self._discard(temporary)
        return is_renamed

    def _overwrite_meta(self, path: str, no_room: OSError) -> bool:
        """The disk has no room for a further file: write over the meta file that is there, which needs none.

        Else the files that were read could not go, and the disk would stay full for ever. The first byte is wrong until
        all others are there: after a kill in between the file counts as damaged, and never as a mixture."""
        fd: int | None = None
        try:
            with self._generation.lock:
                if self.is_outdated:
                    return False
                with suppress(FileNotFoundError):
                    fd = self._files.open(path, os.O_WRONLY)
                    self._write_over(fd)
            if fd is not None:
                self._files.sync(fd)
        finally:
            if fd is not None:
                self._files.close_quietly(fd)
        if fd is None:
            # Without a meta file reading begins at the first file there is: no other state needs those before it.
            with suppress(OSError):
                self.remove()
            raise no_room
        return True

    def _write_over(self, fd: int) -> None:
        content = self._meta.encode()
        self._files.write_all(fd, b"?", 0)
        self._files.write_all(fd, content[1:], 1)
        self._files.truncate(fd, len(content))
        self._files.write_all(fd, content[:1], 0)

    def _discard(self, path: str) -> None:
        try:
            self._files.unlink(path)
        except OSError:
            pass  # gone with an emptied queue, or found and removed at the next start

    def remove(self) -> None:
        """The last part, once the directory is synced: remove files that the meta file no longer needs. Raises
        OSError."""
        error: OSError | None = None
        for name in self._passed + self._set_aside:
            path = os.path.join(self._directory, name)
            with self._generation.lock:
                if self.is_outdated:
                    return
                try:
                    remove_file(self._files, path, is_bad=name in self._set_aside)
                except OSError as exc:
                    error = error or exc
                    continue
            self.removed.add(name)
        if error is not None:
            raise error


def remove_file(files: Files, path: str, *, is_bad: bool) -> None:
    """Remove a file, or rename it to .bad; nothing when there is none. Raises OSError."""
    try:
        if is_bad:
            files.rename(path, f"{path}.bad")
        else:
            files.unlink(path)
    except FileNotFoundError:
        pass
