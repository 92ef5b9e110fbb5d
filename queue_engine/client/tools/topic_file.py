"""The file that a topic's messages are written to, one line each: its name, when the next one begins, its syncs.

A file is named by a pattern: <TOPIC>, <HOST>, <PID>, <DATETIME> (when it began, UTC) and <REV>, which is empty for the
first file of a name, then -000001, -000002 …. A file is made anew, or, where nothing but time begins a new one,
continued from its end. It is locked meanwhile: a second program writes the next revision.
"""

import contextlib
import fcntl
import io
import os
import socket
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import BinaryIO

FILENAME_DEFAULT = "<TOPIC>.<HOST><REV>.<DATETIME>.log"
DATETIME_DEFAULT = "%Y-%m-%d_%H"
REVISIONS_MAX = 1_000_000
# zlib's own number for gzip's header and trailer, with the largest window.
_GZIP_WBITS = 31


@dataclass(frozen=True, slots=True)
class FileLayout:
    """Where files go and when the next one begins. work_dir: where they are while they are written; "": output_dir.

    gzip_level: 1 to 9, 0 for plain files. rotate_bytes, rotate_interval_s: when a file is that large, or open that
    long, the next begins; 0: not for that.
    """

    output_dir: str
    work_dir: str = ""
    filename: str = FILENAME_DEFAULT
    datetime_format: str = DATETIME_DEFAULT
    host: str = ""
    gzip_level: int = 0
    rotate_bytes: int = 0
    rotate_interval_s: float = 0.0

    def check(self) -> None:
        """Raises ValueError for a pattern that two files could share, or that leads out of the directory."""
        for part in ("<TOPIC>", "<REV>"):
            if part not in self.filename:
                raise ValueError(f"--filename-format {self.filename!r} has no {part}: files would overwrite each other")
        shown = self.name("t", datetime.now(UTC), 0)
        if "\0" in shown or ".." in shown.split("/") or shown.startswith("/"):
            raise ValueError(f"--filename-format {self.filename!r} leads out of --output-dir")
        if not 0 <= self.gzip_level <= 9:
            raise ValueError(f"--gzip-level is {self.gzip_level}: it can be 1 to 9")

    def name(self, topic: str, began: datetime, revision: int) -> str:
        name = self.filename
        for part, text in (
            ("<TOPIC>", topic),
            ("<HOST>", self.host_name),
            ("<PID>", str(os.getpid())),
            ("<DATETIME>", began.strftime(self.datetime_format)),
            ("<REV>", f"-{revision:06}" if revision else ""),
        ):
            name = name.replace(part, text)
        return name + ".gz" if self.gzip_level and not name.endswith(".gz") else name

    @property
    def host_name(self) -> str:
        """The text for <HOST>."""
        return self.host or socket.gethostname().split(".")[0]

    @property
    def continues_files(self) -> bool:
        """Whether a file that is there already is continued."""
        return not (self.gzip_level or self.rotate_bytes or self.rotate_interval_s or self.work_dir)


class TopicFile:
    """One topic's current file. Not for several threads at a time. Every method may raise OSError.

    now: the time, UTC. Messages written before the last `sync` are on the disk.
    """

    def __init__(self, topic: str, layout: FileLayout, now: Callable[[], datetime]) -> None:
        self._topic = topic
        self._layout = layout
        self._now = now
        self._raw: BinaryIO | None = None
        # Of a gzip file, between the first write behind a sync and the next sync. gzip.GzipFile would leave an end
        # that `close` did not reach to its finalizer, which from Python 3.12 on runs behind the file's own close.
        self._member: zlib._Compress | None = None
        self._path = ""
        self._revision = 0
        self._began = now()

    @property
    def path(self) -> str:
        """Of the file that is being written; "" for none."""
        return self._path

    def write(self, body: bytes) -> None:
        """Add a line, in a new file when its time has come."""
        self.close_if_over()
        if self._raw is None:
            self._open()
        assert self._raw is not None
        line = body + b"\n"
        if self._layout.gzip_level:
            if self._member is None:
                self._member = zlib.compressobj(self._layout.gzip_level, wbits=_GZIP_WBITS)
            line = self._member.compress(line)
        self._raw.write(line)

    def sync(self) -> None:
        """Put the written messages on the disk. A gzip file is readable up to here, whatever happens then."""
        if self._raw is None:
            return
        if self._member is not None:
            self._raw.write(self._member.flush())  # ends the member; the next write begins another
            self._member = None
        self._raw.flush()
        os.fsync(self._raw.fileno())

    def close_if_over(self) -> None:
        """Close the file when its time is over, though nothing is to be written."""
        if self._raw is not None and self._is_over():
            self.close()

    def close(self) -> None:
        """Sync and close the file, and move it to where finished files are. Repeatable."""
        if self._raw is None:
            return
        self.sync()
        raw, path = self._raw, self._path
        self._raw, self._path = None, ""
        with raw:
            raw.flush()
            # It stays locked until it is moved: a run that begins would take it for one that a killed run has left.
            if self._layout.work_dir:
                self._move(path)

    def abandon(self) -> None:
        """Close the file where it is, after an error: it may end in the middle of a line. Repeatable, never raises."""
        if self._raw is not None:
            with contextlib.suppress(OSError):
                self._raw.close()
        self._raw, self._member, self._path = None, None, ""

    def _is_over(self) -> bool:
        layout, now = self._layout, self._now()
        assert self._raw is not None
        if layout.rotate_bytes and self._raw.tell() >= layout.rotate_bytes:
            return True
        if layout.rotate_interval_s and (now - self._began).total_seconds() >= layout.rotate_interval_s:
            return True
        return layout.name(self._topic, now, 0) != layout.name(self._topic, self._began, 0)

    def _open(self) -> None:
        now = self._now()
        if self._layout.name(self._topic, now, 0) != self._layout.name(self._topic, self._began, 0):
            self._revision = 0
        self._began = now
        directory = self._layout.work_dir or self._layout.output_dir
        for revision in range(self._revision, REVISIONS_MAX):
            name = self._layout.name(self._topic, now, revision)
            path = os.path.join(directory, name)
            finished = os.path.join(self._layout.output_dir, name)
            make_directories(os.path.dirname(path))
            if finished != path and os.path.lexists(finished):
                continue
            try:
                raw = open(path, "xb")  # noqa: SIM115 - closed by `close`
            except FileExistsError:
                if not self._layout.continues_files:
                    continue
                raw = open(path, "ab")  # noqa: SIM115
            if not (_is_locked(raw) and is_at(path, raw) and _ends_with_a_line(path)):
                raw.close()
                # Another program writes it, or has just moved or removed it; or a kill cut it off: its last line came
                # again.
                continue
            sync_directory(os.path.dirname(path))
            self._revision = revision
            self._raw, self._path = raw, path
            return
        raise OSError(f"{directory} has {REVISIONS_MAX} files of this name already")

    def _move(self, path: str) -> None:
        for revision in range(self._revision, REVISIONS_MAX):
            target = os.path.join(self._layout.output_dir, self._layout.name(self._topic, self._began, revision))
            make_directories(os.path.dirname(target))
            try:
                os.link(path, target)  # never over another file, as rename would
            except FileExistsError:
                continue
            os.unlink(path)
            sync_directory(os.path.dirname(target))
            return


def _is_locked(file: BinaryIO) -> bool:
    """Lock the file until it is closed; whether no other program has it locked."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        pass  # a file system without locks
    return True


def is_at(path: str, file: BinaryIO) -> bool:
    """Whether the open file is the one at the path: not another one, and not removed."""
    try:
        found, opened = os.stat(path), os.fstat(file.fileno())
    except FileNotFoundError:
        return False
    return (found.st_dev, found.st_ino) == (opened.st_dev, opened.st_ino)


def _ends_with_a_line(path: str) -> bool:
    with open(path, "rb") as file:
        if file.seek(0, io.SEEK_END) == 0:
            return True
        file.seek(-1, io.SEEK_END)
        return file.read(1) == b"\n"


def make_directories(path: str) -> None:
    """Have the directory there. Raises OSError."""
    os.makedirs(path, exist_ok=True)


def sync_directory(path: str) -> None:
    """Put the names in it on the disk. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
