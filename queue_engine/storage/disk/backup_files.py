"""The files of a data directory at one moment: which of them a backup needs, and how they stay until it ends.

A file that only grows, or is only replaced as a whole, gets a second name (a hard link) in the staging directory, and
its length is noted: bytes appended later are not copied. The few files that are written in their midst are small, and
are read at once. Consume queues and checkpoints are derived from the log; a start rebuilds them. The pipeline's tables
have rules of their own (backup_tables.py).

    DATA/backup-staging/ID.request            a backup command's request; the command touches it while it runs
    DATA/backup-staging/ID.error              one sentence: why there is no backup
    DATA/backup-staging/ID/files/…            the files, by their paths in the data directory
    DATA/backup-staging/ID/files.json         written last: {"version": 1, "files": [[path, length], …]}

To change files.json: the next version number; an unknown version is refused.
"""

import json
import os
import re
import shutil
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress

from queue_engine.storage.disk.backup_tables import (
    HINT,
    LOG,
    NotedTable,
    data_files,
    has_checkpoint,
    hinted_version,
    is_whole,
    log_names,
    noted_table,
)
from queue_engine.vocabulary.errors import StorageError

DIRECTORY = "backup-staging"
LIST_NAME = "files.json"
FILES = "files"
VERSION = 1
INCOMPLETE_NAME = "BACKUP-INCOMPLETE"
COMPLETE_NAME = "backup.json"
DATABASE_NAME = "console.sqlite3"
# No file of Penstock that is read at once is larger than this: the largest are the batch keys, 16 MB.
READ_BYTES_MAX = 64 << 20

_EXCLUDED = (DIRECTORY, "static", INCOMPLETE_NAME, COMPLETE_NAME, DATABASE_NAME, "pipeline/scratch")
_PIPELINE = "pipeline"
# Left out of the walk at that moment: the pipeline has rules of its own; queues are derived, with a folder a topic.
_NOT_WALKED = (_PIPELINE, "log/queues", "samples/queues", "log/keys")
_DERIVED = re.compile(
    r"(?:log|samples)/(?:queues/.*|keys/.*|checkpoint|progress/reserve)|pipeline/(?:checkpoints|staging)/.*"
)
# A table whose log another process shortens is listed again so often.
_TRIES = 5
_LINKED = re.compile(
    r"(?:log|samples)/(?:segments/.*|quarantine/.*|progress/.*\.index(?:\.unread\d+)?)|pipeline/.*|.*\.bad"
)
_OURS = re.compile(r"[0-9a-f]{16}(\.request|\.error|\.error\.tmp)?")
_QUEUE_FILE = re.compile(r"[^/]*\.diskqueue\.[^/]*")


def remove_staged(directory: str) -> None:
    """Remove the files that an earlier process staged; other files stay."""
    try:
        names = os.listdir(os.path.join(directory, DIRECTORY))
    except OSError:
        return  # nothing was staged
    for name in names:
        place = os.path.join(directory, DIRECTORY, name)
        if _OURS.fullmatch(name) and os.path.isdir(place):
            shutil.rmtree(place, ignore_errors=True)
        elif _OURS.fullmatch(name):
            with suppress(OSError):
                os.unlink(place)


def refuse_incomplete(directory: str) -> None:
    """Raises StorageError when `directory` is a backup that was not finished."""
    if os.path.lexists(os.path.join(directory, INCOMPLETE_NAME)):
        raise StorageError(
            f"{directory} is a backup that was not finished ({INCOMPLETE_NAME} is in it): files are missing. "
            "Nothing was changed; take another backup"
        )


def wanted_files(directory: str, *, is_running: bool, below: str = "", left_out: tuple[str, ...] = ()) -> Iterator[str]:
    """The files that a backup of `directory` needs, as paths in it, the console's database left out.

    is_running: a server changes the files: derived files are left out, and disk queues, whose files the server writes
    for the backup. below: look in this folder of it alone. left_out: folders that are not looked in.
    """
    without = {*_EXCLUDED, *left_out}
    for folder, folders, names in os.walk(os.path.join(directory, below)):
        inside = os.path.relpath(folder, directory)
        prefix = "" if inside == "." else f"{inside}/"
        folders[:] = [name for name in folders if f"{prefix}{name}" not in without]
        for name in names:
            path = f"{prefix}{name}"
            if path in _EXCLUDED or path.startswith(f"{DATABASE_NAME}-") or name.endswith(".tmp"):
                continue
            if is_running and (_DERIVED.fullmatch(path) or (_QUEUE_FILE.fullmatch(path) and not path.endswith(".bad"))):
                continue
            try:
                mode = os.lstat(os.path.join(folder, name)).st_mode
            except FileNotFoundError:
                continue  # another process removed it
            if stat.S_ISREG(mode):
                yield path


class Staging:
    """One staging directory: filled at one moment, while the engine rests; then finished."""

    def __init__(self, data_path: str, name: str) -> None:
        self._data_path = data_path
        self.directory = os.path.join(data_path, DIRECTORY, name)
        self.files_path = os.path.join(self.directory, FILES)
        self._lengths: dict[str, int] = {}
        self._tables: list[NotedTable] = []
        self._made: set[str] = set()
        os.makedirs(self.files_path, mode=0o700)

    def take(self, log_ends: Mapping[str, int]) -> None:
        """Take all files as they are now, but for disk queues and tables. log_ends: by each log's directory in the data
        directory, the position at which its copy ends. Raises OSError."""
        for path in wanted_files(self._data_path, is_running=True, left_out=_NOT_WALKED):
            self._take_one(path, log_ends)
        self._take_pipeline()

    def take_tables(self, is_over: Callable[[], bool]) -> None:
        """Take the pipeline's tables as they were at `take`. The engine may go on. is_over: whether the backup has
        ended. Raises OSError."""
        for table in self._tables:
            self._take_log(table)
            for path in data_files(self._data_path, table.path):
                if is_over():
                    return
                # Gone: no commit of the last day needs it.
                self._link_if_there(path)

    def _take_one(self, path: str, log_ends: Mapping[str, int]) -> None:
        log, _, rest = path.partition("/segments/")
        if rest and log in log_ends and rest.endswith(".log"):
            left = log_ends[log] - int(rest.removesuffix(".log"))
            if left > 0:
                self.link(path, left)
        elif _LINKED.fullmatch(path) or os.lstat(os.path.join(self._data_path, path)).st_size > READ_BYTES_MAX:
            self.link(path)  # a larger file is not one of Penstock's
        else:
            self._read_now(path)

    def _take_pipeline(self) -> None:
        """Take the pipeline's files beside its tables. Its worker is a process of its own, which only replaces them
        as a whole or removes them."""
        for folder, folders, _ in os.walk(os.path.join(self._data_path, _PIPELINE)):
            if LOG in folders:
                self._tables.append(noted_table(self._data_path, os.path.relpath(folder, self._data_path)))
                folders.clear()
        tables = tuple(table.path for table in self._tables)
        for path in wanted_files(self._data_path, is_running=True, below=_PIPELINE, left_out=tables):
            self._link_if_there(path)

    def _take_log(self, table: NotedTable) -> None:
        """Take a table's log up to the noted version. A log that has a gap all the time is damaged, and taken as it
        is."""
        log = f"{table.path}/{LOG}"
        version = table.version
        for tries_left in reversed(range(_TRIES)):
            names = log_names(os.path.join(self._data_path, log), version)
            taken = [name for name in names if self._link_if_there(f"{log}/{name}")]
            if HINT in taken and not has_checkpoint(taken, hinted_version(os.path.join(self.files_path, log))):
                self._leave_out(f"{log}/{HINT}")
                taken.remove(HINT)
            if is_whole(taken) or not tries_left:
                return
            for name in taken:
                self._leave_out(f"{log}/{name}")
            version = None

    def _link_if_there(self, path: str) -> bool:
        try:
            self.link(path)
        except FileNotFoundError:
            return False
        return True

    def _leave_out(self, path: str) -> None:
        del self._lengths[path]
        os.unlink(os.path.join(self.files_path, path))

    def link(self, path: str, length_max: int | None = None) -> None:
        """Give a file a second name here, and note its length, at most `length_max`. Raises OSError."""
        target = self._place(path)
        os.link(os.path.join(self._data_path, path), target, follow_symlinks=False)
        size = os.lstat(target).st_size
        self._lengths[path] = size if length_max is None else min(size, length_max)

    def _read_now(self, path: str) -> None:
        with open(os.path.join(self._data_path, path), "rb") as source:
            self.write(path, source.read())

    def write(self, path: str, content: bytes) -> None:
        """Write a file with this content, and note its length. Raises OSError."""
        with open(self._place(path), "wb", opener=_private) as target:
            target.write(content)
        self._lengths[path] = len(content)

    def part(self, path: str) -> None:
        """Replace a linked file by a copy of its noted length. Raises OSError."""
        place = os.path.join(self.files_path, path)
        if os.lstat(place).st_nlink == 1:
            return
        left = self._lengths[path]
        with open(place, "rb") as source, open(f"{place}.tmp", "wb", opener=_private) as target:
            while left and (data := source.read(min(left, 1 << 20))):
                target.write(data)
                left -= len(data)
        os.rename(f"{place}.tmp", place)

    def note(self, path: str) -> None:
        """Note the length of a file that the caller has made in `files_path`."""
        self._lengths[path] = os.lstat(os.path.join(self.files_path, path)).st_size

    def _place(self, path: str) -> str:
        place = os.path.join(self.files_path, path)
        folder = os.path.dirname(place)
        if folder not in self._made:
            os.makedirs(folder, mode=0o700, exist_ok=True)
            self._made.add(folder)
        return place

    def finish(self) -> None:
        """Write the list of files: the staging directory is complete. Raises OSError."""
        path = os.path.join(self.directory, LIST_NAME)
        with open(f"{path}.tmp", "w", opener=_private) as target:
            json.dump({"version": VERSION, "files": sorted(self._lengths.items())}, target)
        os.rename(f"{path}.tmp", path)


def read_list(directory: str) -> list[tuple[str, int]] | None:
    """The files of a finished staging directory, with their lengths; None while there is no list. Raises
    StorageError."""
    path = os.path.join(directory, LIST_NAME)
    try:
        with open(path, "rb") as source:
            document = json.load(source)
    except FileNotFoundError:
        return None
    if document["version"] != VERSION:
        raise StorageError(f"{path} has version {document['version']}, and this version of Penstock knows {VERSION}")
    return [(path, length) for path, length in document["files"]]


def _private(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_CLOEXEC, 0o600)
