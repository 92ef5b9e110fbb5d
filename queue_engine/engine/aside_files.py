"""Keeps the files that were set aside for a time, then removes them.

Penstock renames a damaged file, or copies damaged bytes away, and goes on without it. A person may still get messages,
users or audit rows out of it, so it stays for the retention. These are all of them; other files are left alone:

    DATA/TOPIC[:CHANNEL].diskqueue.NUMBER.dat.bad           a file of a disk queue: damaged, or of a former one
    DATA/console.sqlite3.bad-N, with -wal, -shm, -journal   the console's database; so for its other files (….bad-N)
    DATA/samples.bad-N/                                     the samples
    DATA/log/NAME.bad, DATA/log/segments/POSITION.log.bad   files of the log, and the same in DATA/samples
    DATA/log/quarantine/POSITION.bin                        damaged bytes of the log, and the same in DATA/samples
    DATA/log/segments/POSITION.log.aside                    set aside by --set-aside-segment: counted, never removed
    DATA/NAME.NUMBER.tmp, and in log, samples, quarantine   a write that a kill ended: the old file stands. Stays for a
                                                            day, and not counted

A file's own times don't tell since when it is set aside: a renamed file has the time of its last write, and a backup's
hard link changes the others. So each scan notes the files in DATA/set-aside.json, and adds the time since the scan
before, a day at most: a clock that is set forward removes nothing early. Without that file all of them are new.

    {"version": 1, "at_ms": time of the scan, "files": [[path in DATA, "INODE SIZE MTIME_NS", age in ms], …]} LF
    CRC-32C of the line before, without its LF, as 8 hex digits LF

To change the file: the next version number; an unknown version counts as no file.
"""

import logging
import os
import re
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from queue_engine.storage.aside_stats import AsideStats
from queue_engine.storage.disk.background import Background
from queue_engine.storage.disk.background_job import BackgroundJob
from queue_engine.storage.disk.checked_line import decode_line, encode_line
from queue_engine.storage.disk.files import Files
from queue_engine.vocabulary.clock import NS_PER_MS, NS_PER_S, Clock

logger = logging.getLogger(__name__)

LIST_NAME = "set-aside.json"
VERSION = 1
SCAN_EVERY_NS = 3600 * NS_PER_S
# The first scan comes when the start's own work is over.
FIRST_SCAN_AFTER_NS = 10 * NS_PER_S
# Longer than any write takes.
UNFINISHED_KEPT_MS = 24 * 3_600_000
# The most that one scan adds to a file's age: more is a clock that was set, or a server that did not run.
STEP_MS_MAX = 24 * 3_600_000
# One job removes few files, since other disk work waits behind it; the next tick starts another.
REMOVED_AT_ONCE_MAX = 16
# The list stays below 3 MB. Files beyond it are counted, and noted once there is room.
NOTED_MAX = 10_000
_LIST_BYTES_MAX = 8 << 20

_LOGS = ("log", "samples")
_CONSOLE_FILES = r"(?:console\.sqlite3|secret-key|audit-head|admin-password|upgrade-notes)"
_UNFINISHED_SUFFIX = ".tmp"
# As Files.replace names them. Topics' names have no such ending: their files end in .dat.
_UNFINISHED = r"[a-z_-]+(?:\.[a-z]+)*\.\d+\.tmp"
# By folder in the data directory: which of its names were set aside.
_NAMES = {
    "": re.compile(
        rf"{_UNFINISHED}|{_CONSOLE_FILES}\.[0-9a-f]{{8}}\.tmp"
        rf"|[.a-zA-Z0-9_:#-]+\.diskqueue\.\d{{6,18}}\.dat\.bad|samples\.bad-\d+"
        rf"|{_CONSOLE_FILES}(?:-wal|-shm|-journal)?\.bad-\d+(?:-wal|-shm|-journal)?"
    ),
    **{log: re.compile(rf"[a-z_.]+\.bad|{_UNFINISHED}") for log in _LOGS},
    **{f"{log}/progress": re.compile(_UNFINISHED) for log in _LOGS},
    **{f"{log}/segments": re.compile(r"\d+\.log\.(?:bad|aside)") for log in _LOGS},
    **{f"{log}/quarantine": re.compile(r"\d{20}\.bin(?:\.\d+\.tmp)?") for log in _LOGS},
}
_KEPT_SUFFIX = ".log.aside"


@dataclass(slots=True)
class _Found:
    """A file or directory that was set aside. identity: changes when another one takes its name."""

    path: str
    identity: str
    bytes: int
    age_ms: int = 0

    @property
    def is_unfinished(self) -> bool:
        """Whether it is the rest of a write that a kill ended."""
        return self.path.endswith(_UNFINISHED_SUFFIX)

    @property
    def is_a_persons(self) -> bool:
        """Whether a person set it aside, and may put it back."""
        return self.path.endswith(_KEPT_SUFFIX)


class AsideFiles:
    """Looks after the files set aside in one data directory. Belongs to the engine's thread; a background does the
    work.

    on_scan: gets the stats after each scan, on the engine's thread.
    """

    def __init__(
        self,
        data_path: str,
        retention_ms: int,
        *,
        files: Files,
        clock: Clock,
        background: Background,
        on_scan: Callable[[AsideStats], None],
    ) -> None:
        """retention_ms: how long each stays; 0 for ever."""
        self._data_path = data_path
        self._retention_ms = retention_ms
        self._files = files
        self._clock = clock
        self._background = background
        self._on_scan = on_scan
        self._is_scanning = False
        self._scan_at_ns = clock.monotonic_ns() + FIRST_SCAN_AFTER_NS
        self._stats = AsideStats(retention_ms=retention_ms)
        # Of the background's job, which is alone with them while it runs.
        self._noted: dict[tuple[str, str], int] | None = None
        self._noted_ms = 0
        self._has_more = False

    def tick(self, now_ns: int) -> None:
        """Start a scan when one is due. now_ns: monotonic."""
        if self._is_scanning or now_ns < self._scan_at_ns:
            return
        self._is_scanning = True
        BackgroundJob(self._scan, then=self._ended).start(self._background)

    def _ended(self, error: Exception | None) -> None:
        self._is_scanning = False
        wait_ns = 0 if self._has_more and error is None else SCAN_EVERY_NS
        self._scan_at_ns = self._clock.monotonic_ns() + wait_ns
        if error is not None:
            logger.warning("files set aside not looked after directory=%s error=%s", self._data_path, error)
            self._stats = replace(self._stats, error=str(error))
        self._on_scan(self._stats)

    # On the background's thread.

    def _scan(self) -> None:
        errors: list[str] = []
        found = self._found(errors)
        self._age(found)
        late = [one for one in found if self._is_late(one)]
        removed = [one for one in late[:REMOVED_AT_ONCE_MAX] if self._remove(one, errors)]
        # Those that can't be removed are tried again by the next hour's scan.
        self._has_more = len(late) > REMOVED_AT_ONCE_MAX and bool(removed)
        gone = {one.path for one in removed}
        left = [one for one in found if one.path not in gone]
        self._note(left, errors)
        removed, left = ([one for one in some if not one.is_unfinished] for some in (removed, left))
        self._stats = AsideStats(
            count=len(left),
            bytes=sum(one.bytes for one in left),
            oldest_kept_ms=max((one.age_ms for one in left if not one.is_a_persons), default=0),
            retention_ms=self._retention_ms,
            removed_count=self._stats.removed_count + len(removed),
            removed_bytes=self._stats.removed_bytes + sum(one.bytes for one in removed),
            error=errors[0] if errors else "",
        )

    def _found(self, errors: list[str]) -> list[_Found]:
        found = []
        for folder, names in _NAMES.items():
            try:
                listed = self._files.listdir(os.path.join(self._data_path, folder))
            except (FileNotFoundError, NotADirectoryError):
                continue
            except OSError as exc:
                errors.append(f"{folder or self._data_path} can't be listed: {exc.strerror or exc}")
                continue
            for name in sorted(listed):
                if not names.fullmatch(name):
                    continue
                path = os.path.join(folder, name)
                if (status := self._files.status(os.path.join(self._data_path, path))) is None:
                    continue
                is_directory = stat.S_ISDIR(status.st_mode)
                size = self._bytes_below(path) if is_directory else status.st_size
                # A directory's own size and time change with its files.
                identity = f"{status.st_ino}" if is_directory else f"{status.st_ino} {size} {status.st_mtime_ns}"
                found.append(_Found(path, identity, size))
        return found

    def _is_late(self, one: _Found) -> bool:
        if one.is_unfinished:
            return one.age_ms >= UNFINISHED_KEPT_MS
        return not one.is_a_persons and 0 < self._retention_ms <= one.age_ms

    def _bytes_below(self, path: str) -> int:
        found = 0
        for each, is_directory in self._entries(path):
            status = None if is_directory else self._files.status(os.path.join(self._data_path, each))
            found += status.st_size if status is not None else 0
        return found

    def _age(self, found: list[_Found]) -> None:
        """Add the time since the last scan to each file that it saw."""
        if self._noted is None:
            self._read_list()
        assert self._noted is not None, "reading the list sets it"
        now_ms = self._clock.time_ns() // NS_PER_MS
        step_ms = min(max(now_ms - self._noted_ms, 0), STEP_MS_MAX)
        self._noted_ms = now_ms
        for one in found:
            if (age_ms := self._noted.get((one.path, one.identity))) is not None:
                one.age_ms = age_ms + step_ms

    def _read_list(self) -> None:
        self._noted = {}
        path = os.path.join(self._data_path, LIST_NAME)
        try:
            data = self._files.read_whole(path, _LIST_BYTES_MAX)
        except OSError as exc:
            logger.warning("list of files set aside not read path=%s error=%s", path, exc)
            return
        content = decode_line(data) if data is not None else None
        if content is None or content.get("version") != VERSION:
            if data is not None:
                logger.warning("list of files set aside is not usable path=%s: all of them count as new", path)
            return
        self._noted_ms = content["at_ms"]
        self._noted = {(name, identity): age_ms for name, identity, age_ms in content["files"]}

    def _note(self, found: list[_Found], errors: list[str]) -> None:
        noted = {(one.path, one.identity): one.age_ms for one in found[:NOTED_MAX]}
        if not noted and not self._noted:
            return  # most servers never set anything aside
        self._noted = noted
        files = [[path, identity, age_ms] for (path, identity), age_ms in noted.items()]
        content = encode_line({"version": VERSION, "at_ms": self._noted_ms, "files": files})
        try:
            self._files.replace(os.path.join(self._data_path, LIST_NAME), content)
        except OSError as exc:
            # The next scan goes on with the ages in memory; a start before that counts a little less.
            errors.append(f"{LIST_NAME} can't be written: {exc.strerror or exc}")

    def _remove(self, one: _Found, errors: list[str]) -> bool:
        """Whether the file is gone."""
        path = os.path.join(self._data_path, one.path)
        try:
            if (status := self._files.status(path)) is None:
                return True
            if stat.S_ISDIR(status.st_mode):
                for each, is_directory in self._entries(one.path):
                    below = os.path.join(self._data_path, each)
                    (self._files.remove_directory if is_directory else self._files.unlink)(below)
                self._files.remove_directory(path)
            else:
                self._files.unlink(path)  # a symbolic link itself, not its target
        except FileNotFoundError:
            return self._files.status(path) is None
        except OSError as exc:
            errors.append(f"{one.path} can't be removed: {exc.strerror or exc}")
            logger.warning("file set aside not removed path=%s error=%s", path, exc)
            return False
        days = one.age_ms // 86_400_000
        kind = "unfinished file" if one.is_unfinished else "file set aside"
        logger.info("%s removed path=%s bytes=%d kept_days=%d", kind, path, one.bytes, days)
        return True

    def _entries(self, path: str) -> Iterator[tuple[str, bool]]:
        """The entries below a directory, each with whether it is a directory: the deepest first."""
        for name in self._files.listdir(os.path.join(self._data_path, path)):
            each = os.path.join(path, name)
            status = self._files.status(os.path.join(self._data_path, each))
            if status is None:
                continue
            is_directory = stat.S_ISDIR(status.st_mode)
            if is_directory:
                yield from self._entries(each)
            yield each, is_directory
