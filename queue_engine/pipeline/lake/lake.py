"""The lake: the directory that the pipeline's jobs write to, and when a file in it counts.

    pipeline/lock                     the holder of the lake (lake_lock.py)
    pipeline/generation               a number in digits, LF: each process that takes the lock adds one
    pipeline/staging/g<generation>/   unfinished work of that process; the next holder removes it
    pipeline/history/manifest.json    which files of the history count, and beside it the files

    manifest: JSON in one line LF
              CRC-32C of the line, without its LF, as 8 hex digits LF

A data file counts when a manifest names it, and never otherwise: no reader lists directories to find data. The file is
written to staging, synced, renamed to its place, and the directory is synced, before the manifest that names it
replaces the old one (tmp, fsync, rename, directory fsync). So a process that dies at any moment leaves the old manifest
or the new one, every file that this manifest names whole, and beside them at most files that no manifest names. Names
of data files begin with the generation of the process that made them (`data_name`): no process overwrites another one's
file, and the next holder tells leftovers of earlier processes from its own files. The lake must lie in one file system,
since rename is atomic only within one.

To change a manifest: give its content another "version", and read both.
"""

import itertools
import logging
import os
import re
import stat
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from queue_engine.disk.checked_line import decode_line, encode_line
from queue_engine.disk.files import Files
from queue_engine.pipeline.lake.lake_lock import LakeLock
from queue_engine.vocabulary.clock import NS_PER_S, Clock, SystemClock
from queue_engine.vocabulary.errors import LakeDamagedError, PipelineError

logger = logging.getLogger(__name__)

MANIFEST_NAME = "manifest.json"
HISTORY_MANIFEST = f"history/{MANIFEST_NAME}"
MANIFEST_BYTES_MAX = 1 << 28
# How long a file stays that no manifest names any longer.
RETIRED_NS = 60 * NS_PER_S
# Temporary files in these directories are the holder's; those in requests/ belong to the processes that write requests.
OWN_DIRECTORIES = ("", "history", "jobs")

_DATA_NAME = re.compile(r"g(\d{6,})-.+")


class Lake:
    """The lake in directory `path`. Every path given to a method is relative to it.

    generation: of this holder; 0 in a process that only reads. files: the seam to the disk. changes: a lock; a job
    holds it from reading a manifest or a table until its successor is written, since the jobs of one process run at the
    same time.
    """

    def __init__(self, path: str, *, files: Files | None = None, clock: Clock | None = None) -> None:
        self.path = os.fspath(path)
        self.generation = 0
        self.changes = threading.Lock()
        self.files = self._files = files or Files()
        self._clock = clock or SystemClock()
        self._names = itertools.count()
        self._known_directories: set[str] = set()
        self._retired: list[tuple[int, str]] = []

    def within(self, path: str) -> str:
        """The place of `path` in the file system."""
        return os.path.join(self.path, path) if path else self.path

    # The holder.

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Hold the lake as a new generation, and remove the leftovers of earlier ones.

        Raises LakeHeldError when another process (or another `Lake` in this one) holds it, LakeDamagedError,
        StorageError and OSError.
        """
        lock = LakeLock(self.path, clock=self._clock)
        try:
            self.begin()
            yield
        finally:
            self.generation = 0
            lock.release()

    def begin(self) -> None:
        """Begin a new generation. Only the holder may call this. Raises LakeDamagedError, OSError."""
        self._make_directory("")
        generation = self._read_generation() + 1
        self._files.replace(self.within("generation"), b"%d\n" % generation)
        # From here on no process gets this number again; files with a smaller one are leftovers.
        self.generation = generation
        self._clean()

    def staging(self) -> str:
        """This holder's directory for unfinished work; it exists. Raises PipelineError without the lock."""
        path = f"staging/g{self._own_generation():06d}"
        self._make_directory(path)
        return path

    def data_name(self, stem: str) -> str:
        """A name for a data file that no other file ever has: g<generation>-<number>-<stem>."""
        return f"g{self._own_generation():06d}-{next(self._names):06d}-{stem}"

    # Manifests.

    def read_manifest(self, path: str) -> dict[str, Any] | None:
        """The content of a manifest; None when there is none yet. Raises LakeDamagedError, OSError."""
        data = self._files.read_whole(self.within(path), MANIFEST_BYTES_MAX)
        if data is None:
            return None
        content = decode_line(data)
        if content is None:
            raise LakeDamagedError(f"manifest {self.within(path)} is damaged: its content is not what was written")
        return content

    def write_manifest(self, path: str, content: Mapping[str, Any]) -> None:
        """Replace a manifest, durably or not at all. Raises PipelineError without the lock, OSError."""
        self._own_generation()
        self._make_directory(os.path.dirname(path))
        self._files.replace(self.within(path), encode_line(content))

    # Data files.

    def publish(self, moves: Iterable[tuple[str, str]]) -> None:
        """Move staged files to their places, durably. moves: (path in staging, path that a manifest will name).

        Call it before the manifest is written. No file may exist at a new path. Raises PipelineError without the lock,
        OSError: then some files may be at their places, and none counts.
        """
        self._own_generation()
        listed = list(moves)
        for staged, _ in listed:
            # Its writer (Spark, pyarrow) has not synced it. After a crash a name without its bytes must not exist.
            fd = self._files.open(self.within(staged), os.O_RDONLY)
            try:
                self._files.sync(fd)
            finally:
                self._files.close_quietly(fd)
        for _, target in listed:
            self._make_directory(os.path.dirname(target))
        for staged, target in listed:
            self._files.rename(self.within(staged), self.within(target))
        for directory in sorted({os.path.dirname(path) for move in listed for path in move}):
            self._files.sync_directory(self.within(directory))

    def retire(self, paths: Iterable[str]) -> None:
        """Remove data files that no manifest names any longer, by the first call that comes RETIRED_NS later: a reader
        may just have read the old manifest. When this process ends before that, the next holder removes them."""
        self._own_generation()
        now_ns = self._clock.monotonic_ns()
        self._retired += [(now_ns, path) for path in paths]
        due = [path for at_ns, path in self._retired if now_ns - at_ns >= RETIRED_NS]
        self._retired = [(at_ns, path) for at_ns, path in self._retired if now_ns - at_ns < RETIRED_NS]
        self.remove(due)

    def remove(self, paths: Iterable[str]) -> None:
        """Remove data files that no manifest names any longer. Files that can't be removed stay as leftovers."""
        self._own_generation()
        for path in paths:
            try:
                self._files.unlink(self.within(path))
            except FileNotFoundError:
                pass
            except OSError as exc:
                logger.warning("data file not removed path=%s error=%s", path, exc)

    def remove_staged(self, path: str) -> None:
        """Remove a directory or file in `staging()` that belongs to finished work."""
        self._own_generation()
        self._remove_tree(path)

    def remove_tree(self, path: str) -> bool:
        """Remove a directory with all that is in it, which no manifest names any longer; of a symbolic link the link
        alone. Returns whether it is gone: what can't be removed is logged and stays."""
        self._own_generation()
        self._remove_tree(path)
        return self._files.status(self.within(path)) is None

    # Generations and leftovers.

    def _own_generation(self) -> int:
        if not self.generation:
            raise PipelineError(f"the lake {self.path} is not locked by this process: only its holder writes")
        return self.generation

    def _read_generation(self) -> int:
        data = self._files.read_whole(self.within("generation"), 100)
        if data is None:
            return 0
        if not data.strip().isdigit():
            raise LakeDamagedError(
                f"{self.within('generation')} is damaged: found {data[:20]!r}, expected a number; write one there that"
                " is greater than that of every file name of the lake"
            )
        return int(data)

    def _clean(self) -> None:
        """Remove the leftovers of processes that ended in the middle of their work. Files that count stay."""
        own = f"g{self.generation:06d}"
        for name in self._names_in("staging") or ():
            if name != own:
                self._remove_tree(f"staging/{name}")
        for directory in OWN_DIRECTORIES:
            self.remove(
                os.path.join(directory, name) for name in self._names_in(directory) or () if name.endswith(".tmp")
            )
        self._clean_folder("history")

    def _clean_folder(self, folder: str) -> None:
        """Remove the data files of earlier generations that the folder's manifest does not name.

        Without a manifest all files stay. Before the first manifest they are few, and are removed once there is one;
        and when a person has removed the manifest, they are all that is left of the data.
        """
        try:
            named = self._named_in(folder)
        except LakeDamagedError as exc:
            logger.error("leftovers not removed folder=%s error=%s", folder, exc)
            return
        if named is None:
            return
        leftovers = [path for path in self._files_below(folder) if path not in named and self._is_older(path)]
        if leftovers:
            logger.info("leftovers removed folder=%s files=%d", folder, len(leftovers))
            self.remove(leftovers)

    def _named_in(self, folder: str) -> set[str] | None:
        """The files that the folder's manifest names; None without one. Raises LakeDamagedError, OSError."""
        manifest = self.read_manifest(f"{folder}/{MANIFEST_NAME}")
        if manifest is None:
            return None
        files = manifest.get("files")
        paths = [one.get("path") if isinstance(one, dict) else None for one in files] if isinstance(files, list) else []
        if not isinstance(files, list) or not all(isinstance(path, str) and path for path in paths):
            raise LakeDamagedError(
                f"manifest {self.within(folder)}/{MANIFEST_NAME} is damaged: it does not say which files count"
            )
        return {f"{folder}/{path}" for path in paths}

    def _is_older(self, path: str) -> bool:
        """Whether this is a data file of an earlier holder, or a temporary file of an unfinished manifest."""
        name = os.path.basename(path)
        if name.startswith(f"{MANIFEST_NAME}.") and name.endswith(".tmp"):
            return True
        match = _DATA_NAME.fullmatch(name)
        return match is not None and int(match[1]) < self.generation

    def _files_below(self, path: str) -> Iterator[str]:
        for name in self._names_in(path) or ():
            below = f"{path}/{name}"
            if self._names_in(below) is None:
                yield below
            else:
                yield from self._files_below(below)

    def _remove_tree(self, path: str) -> None:
        status = self._files.status(self.within(path))
        is_link = status is not None and stat.S_ISLNK(status.st_mode)
        names = self._names_in(path)
        if names is None or is_link:
            self.remove([path])
            return
        for name in names:
            self._remove_tree(f"{path}/{name}")
        try:
            self._files.remove_directory(self.within(path))
        except OSError as exc:
            logger.warning("directory not removed path=%s error=%s", path, exc)
        self._known_directories.discard(path)

    def _names_in(self, path: str) -> list[str] | None:
        """The names in a directory; None when there is no such directory."""
        try:
            return self._files.listdir(self.within(path))
        except (FileNotFoundError, NotADirectoryError):
            return None

    def _make_directory(self, path: str) -> None:
        """Make a directory and those above it, durably: a file is lost when its directory's name is."""
        if path in self._known_directories:
            return
        if path:
            self._make_directory(os.path.dirname(path))
        if self._names_in(path) is None:
            self._files.make_directory(self.within(path))
            self._files.sync_directory(os.path.dirname(self.within(path)) or ".")
        self._known_directories.add(path)
