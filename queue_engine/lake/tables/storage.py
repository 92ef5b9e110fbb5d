"""Where tables lie: a local directory, or a place in an object store.

    /srv/lake                        a directory
    s3://bucket/prefix               AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN, or the machine's role;
                                     AWS_REGION or AWS_DEFAULT_REGION; AWS_ENDPOINT_URL, also with http://
    gs://bucket/prefix               GOOGLE_APPLICATION_CREDENTIALS; not tried
    az://container/prefix            AZURE_STORAGE_ACCOUNT_NAME, AZURE_STORAGE_ACCOUNT_KEY; not tried

Credentials come from the environment, where both libraries, pyarrow and delta-rs, look for them by themselves: they are
in no attribute, option or argument here. A storage can be pickled; the process that gets it uses its own environment.
"""

import errno
import fcntl
import os
import posixpath
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from pyarrow import fs

from queue_engine.lake.tables.store_errors import sentences
from queue_engine.lake.tables.store_options import delta_options, scheme_of, store_filesystem
from queue_engine.storage.disk.files import Files
from queue_engine.vocabulary.clock import NS_PER_MS
from queue_engine.vocabulary.lake_place import check_directory

NAMED_MAX = 50_000


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file in a storage. path: relative to the storage's place, with "/". modified_ms: Unix ms."""

    path: str
    size: int
    modified_ms: int


class TableStorage:
    """The place `place`: a local path, or a URL. Every path given to a method is relative to it, with "/".

    Making one sends no request; raises StorePlaceError for an invalid URL, and for a
    directory whose name delta-rs takes for another one. The methods raise the OSError
    of the system; for an object store StoreError and its classes. All may be called by several threads.

    place: as text, for messages; it never has credentials. is_local: whether it is a directory of this machine.
    """

    def __init__(self, place: str | os.PathLike[str], *, files: Files | None = None) -> None:
        """files: the seam to the disk, for a local place."""
        text = os.fspath(place)
        self._scheme = scheme_of(text)
        self.is_local = self._scheme == ""
        self.place = os.path.abspath(text) if self.is_local else text.rstrip("/")
        if self.is_local:
            check_directory(self.place)
        self.files = files or Files()
        # path of a directory → its number, of those whose name is durable.
        self._named: dict[str, int] = {}
        self._is_place_named = False
        # Files whose sync failed.
        self._failed: set[str] = set()

    def __repr__(self) -> str:
        return f"TableStorage({self.place!r})"

    def __reduce__(self) -> tuple[type["TableStorage"], tuple[str]]:
        return TableStorage, (self.place,)

    # For the libraries.

    def at(self, path: str = "") -> str:
        """The absolute path or URL of `path`, as delta-rs takes it."""
        return posixpath.join(self.place, path) if path else self.place

    @cached_property
    def filesystem(self) -> Any:
        """pyarrow's file system, on which `at_filesystem` names are valid."""
        return fs.LocalFileSystem() if self.is_local else store_filesystem(self._scheme)

    def at_filesystem(self, path: str = "") -> str:
        """The name of `path` on `filesystem`: an absolute path, or bucket/key."""
        return self.at(path) if self.is_local else self.at(path).partition("://")[2]

    @cached_property
    def options(self) -> dict[str, str]:
        """delta-rs's storage options; without credentials, which it reads from the environment."""
        return {} if self.is_local else delta_options(self._scheme)

    # Files.

    @contextmanager
    def sentences(self) -> Iterator[None]:
        """For work on `filesystem`: an object store's errors become StoreError and its classes."""
        if self.is_local:
            yield
            return
        with sentences(self.place):
            yield

    def size_of(self, path: str) -> int | None:
        """Bytes of the file at `path`; None when there is none. A symbolic link is no file."""
        return self.sizes_of([path])[0]

    def sizes_of(self, paths: Iterable[str]) -> list[int | None]:
        """As `size_of`, for many."""
        if self.is_local:
            return [self.files.size_of(self.at(path)) for path in paths]
        with sentences(self.place):
            found = self.filesystem.get_file_info([self.at_filesystem(path) for path in paths])
        return [one.size if one.type == fs.FileType.File else None for one in found]

    def exists(self, path: str) -> bool:
        return self.size_of(path) is not None

    def list_files(self, path: str = "") -> Iterator[StoredFile]:
        """Every file below `path`, in no order; none when there is no such directory."""
        cut = len(self.at_filesystem()) + 1
        for one in self._found(path, recursive=True):
            if one.type == fs.FileType.File:
                yield StoredFile(one.path[cut:], one.size, one.mtime_ns // NS_PER_MS)

    def directories(self, path: str = "") -> list[str]:
        """The names of the directories right below `path`, sorted; none when there is no such directory."""
        return sorted(one.base_name for one in self._found(path) if one.type == fs.FileType.Directory)

    def names(self, path: str) -> list[str]:
        """The names of the files right in the directory `path`, in no order; none when there is no such directory."""
        if self.is_local:
            try:
                return self.files.listdir(self.at(path))
            except FileNotFoundError:
                return []
        return [one.base_name for one in self._found(path) if one.type == fs.FileType.File]

    def _found(self, path: str, *, recursive: bool = False) -> list[Any]:
        selector = fs.FileSelector(self.at_filesystem(path), recursive=recursive, allow_not_found=True)
        with sentences(self.place):
            return list(self.filesystem.get_file_info(selector))

    def read(self, path: str, bytes_max: int) -> bytes | None:
        """The bytes of a small file, at most `bytes_max` of them; None when there is none."""
        if self.is_local:
            return self.files.read_whole(self.at(path), bytes_max)
        try:
            with (
                sentences(self.place),
                self.filesystem.open_input_stream(self.at_filesystem(path)) as stream,
            ):
                return bytes(stream.read(bytes_max))
        except FileNotFoundError:
            return None

    def write(self, path: str, data: bytes) -> None:
        """Replace a small file as a whole; it is durable when this returns."""
        if self.is_local:
            self.make_directory(posixpath.dirname(path))
            self.files.replace(self.at(path), data)
            self._failed.discard(path)
            return
        with sentences(self.place), self.filesystem.open_output_stream(self.at_filesystem(path)) as stream:
            stream.write(data)

    def remove(self, paths: Iterable[str]) -> int:
        """Remove files; returns how many were there."""
        removed = 0
        for path in paths:
            try:
                if self.is_local:
                    self.files.unlink(self.at(path))
                else:
                    with sentences(self.place):
                        self.filesystem.delete_file(self.at_filesystem(path))
                removed += 1
            except FileNotFoundError:
                pass
        return removed

    def rename(self, path: str, to: str) -> None:
        """Rename a file of a local place, durably."""
        self.files.rename(self.at(path), self.at(to))
        self.files.sync_directory(os.path.dirname(self.at(to)))

    @contextmanager
    def locked(self, path: str) -> Iterator[None]:
        """Hold a directory of a local place, which exists, against other processes and threads that do the same."""
        if not self.is_local:
            yield
            return
        fd = self.files.open(self.at(path), os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            yield
        finally:
            self.files.close_quietly(fd)

    def make_directory(self, path: str) -> None:
        """Make a directory and those above it, durably; nothing on an object store, which has none."""
        if not self.is_local or os.path.isdir(self.at(path)):
            return
        place = self.at(path)
        missing = [place]
        while not os.path.isdir(above := os.path.dirname(missing[-1])):
            missing.append(above)
        self.files.make_directory(place)
        for made in reversed(missing):
            self.files.sync_directory(os.path.dirname(made))
        if len(self._named) > NAMED_MAX:
            self._named.clear()

    def sync(self, paths: Iterable[str]) -> None:
        """Make files durable: their bytes, their names, and the names of the directories above them up to the place.
        Nothing on an object store, which has done so. Raises OSError, also for a file whose sync has failed before,
        until it is written anew (`write`); a symbolic link is refused."""
        if not self.is_local:
            return
        directories: set[str] = set()
        for path in paths:
            if path in self._failed:
                # The system reports a lost write once: a second sync would succeed, and the bytes be lost.
                raise OSError(errno.EIO, "an earlier sync of it failed", self.at(path))
            fd = self.files.open(self.at(path), os.O_RDONLY)
            try:
                self.files.sync(fd)
            except OSError as exc:
                self._failed.add(path)
                exc.filename = exc.filename or self.at(path)
                raise
            finally:
                self.files.close_quietly(fd)
            directories.add(posixpath.dirname(path))
        for directory in sorted(directories):
            self.sync_directory(directory)

    def sync_again(self, paths: Iterable[str]) -> None:
        """As `sync`, of small files that can't be made anew: a file whose sync failed before is written again."""
        listed = list(paths)
        for path in self._failed.intersection(listed):
            data = self.read(path, self.size_of(path) or 0)
            self.write(path, data or b"")
        self.sync(listed)

    def sync_directory(self, path: str) -> None:
        """Make the names in a directory durable, and its own name, with those above it up to the place."""
        self.files.sync_directory(self.at(path))
        while path and not self._is_named(path):
            above = posixpath.dirname(path)
            self.files.sync_directory(self.at(above))
            self._named[path] = self._number_of(path)
            path = above
        if not self._is_place_named:
            self._sync_above_place()
            self._is_place_named = True

    def _sync_above_place(self) -> None:
        """A process that was killed may have made the place, and directories above it, without syncing their names."""
        above = os.path.dirname(self.place)
        while True:
            try:
                self.files.sync_directory(above)
            except OSError:
                return  # not ours, or of a file system that syncs no directories
            if above == os.path.dirname(above):
                return
            above = os.path.dirname(above)

    def _is_named(self, path: str) -> bool:
        """Whether the directory's name is durable. Compares its inode, since it may be removed and made anew."""
        return self._named.get(path) == self._number_of(path)

    def _number_of(self, path: str) -> int:
        found = self.files.status(self.at(path))
        return found.st_ino if found else 0
