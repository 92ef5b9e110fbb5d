"""`penstock backup DIR`: a consistent copy of the data directory, of a running server or of none."""

import contextlib
import json
import os
import secrets
import sqlite3
import time
from argparse import ArgumentParser
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import CommandError

from admin_console.gateway.sentences import counted
from admin_console.management.command import PlainCommand
from queue_engine.storage.disk import backup_files
from queue_engine.storage.disk.backup_copy import CopiedFile, check_files, copy_files, sync_directories
from queue_engine.storage.disk.dirlock import DirectoryLock
from queue_engine.vocabulary.byte_sizes import byte_count
from queue_engine.vocabulary.errors import DirectoryLockedError, PenstockError
from queue_engine.vocabulary.version import VERSION

ANSWER_TIMEOUT_S = 120.0  # the server writes its disk queues' memory to the disk before it answers
RENEWED_EVERY_S = 10.0
PRINT_EVERY_S = 1.0


class Command(PlainCommand):
    uses_data_path = True
    help = "Copy the data directory to DIR, which must not exist or be empty; the server may run meanwhile."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "target", metavar="DIR", help="target directory; a server started on it has all messages of this moment"
        )

    def handle(self, *, target: str, **_: Any) -> None:
        try:
            _Backup(settings.DATA_PATH, Path(target).absolute(), self._print).run()
        except sqlite3.Error as exc:
            raise CommandError(f"{settings.DATA_PATH / backup_files.DATABASE_NAME} can't be copied: {exc}") from exc
        except (PenstockError, OSError) as exc:
            raise CommandError(str(exc)) from exc

    def _print(self, line: str) -> None:
        self.stdout.write(line)
        self.stdout.flush()


class _Backup:
    """One backup, from its checks to its last sync."""

    def __init__(self, data_path: Path, target: Path, print_line: Any) -> None:
        self._data_path = data_path
        self._target = target
        self._print = print_line
        self._request: Path | None = None
        self._bytes = 0
        self._total = 0
        self._printed_at = time.monotonic()
        self._renewed_at = time.monotonic()

    def run(self) -> None:
        """Raises PenstockError, OSError or sqlite3.Error; then the target's manifest marks it as incomplete."""
        if self._target.is_relative_to(self._data_path):
            raise PenstockError(f"{self._target} is in the data directory {self._data_path}: choose another place")
        if self._target.exists() and (not self._target.is_dir() or any(self._target.iterdir())):
            raise PenstockError(f"{self._target} exists and is not an empty directory: nothing was changed")
        self._target.mkdir(mode=0o700, parents=True, exist_ok=True)
        incomplete = self._target / backup_files.INCOMPLETE_NAME
        incomplete.write_text("This backup was begun and is not finished: files are missing.\n")
        with self._source() as (source, files):
            self._total = sum(_length(source, path, length) for path, length in files)
            copied = copy_files(str(source), str(self._target), files, self._advanced)
        self._copy_database()
        self._print(f"Copied {counted(len(copied), 'file')}, {byte_count(self._total)}; reading them back")
        self._bytes = 0
        check_files(str(self._target), copied, self._advanced)
        self._write_list(copied)
        sync_directories(str(self._target))
        incomplete.unlink()
        sync_directories(str(self._target))
        self._print(f"The backup is complete: {self._target}")

    @contextmanager
    def _source(self) -> "Iterator[tuple[Path, list[tuple[str, int | None]]]]":
        """The files and their directory; no process changes them meanwhile."""
        try:
            lock = DirectoryLock(str(self._data_path))
        except DirectoryLockedError:
            with self._asked() as (source, files):
                yield source, files
            return
        with lock:
            self._print("No server runs on the data directory: it is copied as it is")
            names = sorted(backup_files.wanted_files(str(self._data_path), is_running=False))
            yield self._data_path, [(name, None) for name in names]

    @contextmanager
    def _asked(self) -> "Iterator[tuple[Path, list[tuple[str, int | None]]]]":
        """Have the server stage the files; they are removed at the end."""
        name = secrets.token_hex(8)
        directory = self._data_path / backup_files.DIRECTORY
        directory.mkdir(mode=0o700, exist_ok=True)
        self._request = directory / f"{name}.request"
        self._request.touch(0o600)
        if os.geteuid() == 0:
            # The server, which may run as another user, reads the one and removes the other.
            owner = self._data_path.stat()
            for path in (directory, self._request):
                os.chown(path, owner.st_uid, owner.st_gid)
        try:
            yield directory / name / backup_files.FILES, self._answer(directory, name)
        finally:
            self._request.unlink(missing_ok=True)
            self._request = None

    def _answer(self, directory: Path, name: str) -> list[tuple[str, int | None]]:
        self._print("The server prepares its files")
        ends_at = time.monotonic() + ANSWER_TIMEOUT_S
        while time.monotonic() < ends_at:
            with contextlib.suppress(FileNotFoundError):
                raise PenstockError((directory / f"{name}.error").read_text().strip())
            files = backup_files.read_list(str(directory / name))
            if files is not None:
                return [*files]
            self._renew()
            time.sleep(0.1)
        raise PenstockError(
            f"the server on {self._data_path} did not answer within {ANSWER_TIMEOUT_S:g} s: "
            "another backup may be under way, or the server is older than this command"
        )

    def _advanced(self, count: int) -> None:
        self._bytes += count
        self._renew()
        if time.monotonic() - self._printed_at >= PRINT_EVERY_S:
            self._printed_at = time.monotonic()
            self._print(f"{byte_count(self._bytes)} of {byte_count(self._total)}")

    def _renew(self) -> None:
        """Renew the request, so that the server does not remove the staged files."""
        if self._request is not None and time.monotonic() - self._renewed_at >= RENEWED_EVERY_S:
            self._renewed_at = time.monotonic()
            os.utime(self._request)

    def _copy_database(self) -> None:
        """The console's users, sessions and audit list, by SQLite's own way of copying one in use."""
        path = self._data_path / backup_files.DATABASE_NAME
        if not path.exists():
            return
        target = self._target / backup_files.DATABASE_NAME
        target.touch(0o600)
        with (
            contextlib.closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True, timeout=30)) as source,
            contextlib.closing(sqlite3.connect(target)) as copy,
        ):
            source.backup(copy, pages=1_000)
            answer = copy.execute("PRAGMA integrity_check").fetchone()[0]
        if answer != "ok":
            raise PenstockError(f"the copy of {path} is damaged: {answer}")

    def _write_list(self, copied: list[CopiedFile]) -> None:
        document = {
            "version": backup_files.VERSION,
            "penstock": VERSION,
            "files": [[one.path, one.length, one.crc] for one in copied],
        }
        path = self._target / backup_files.COMPLETE_NAME
        path.touch(0o600)
        path.write_text(json.dumps(document, indent=0) + "\n")


def _length(source: Path, path: str, length: int | None) -> int:
    return (source / path).stat().st_size if length is None else length
