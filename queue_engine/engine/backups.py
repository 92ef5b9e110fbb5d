"""Backups of a running server: for one moment nothing is written, and every file gets a second name (a hard link).

The backup command leaves a request in the data directory (drawn in `storage/disk/backup_files.py`), so only users with
access to that directory can make one. The background threads pause between two jobs and the engine's thread links the
files, so all files are of one moment: they are as a kill would leave them. Of the pipeline's tables, which can have
very many files, the engine's thread notes the versions, and another thread links the files. Messages that disk queues
have in memory are written beside them, as a clean stop does. The staged files are removed when the request was not
touched for LEASE_NS.
"""

import contextlib
import logging
import os
import shutil
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from queue_engine.engine.catalog.catalog import Catalog
from queue_engine.engine.catalog.stores import LOG_DIRECTORY, Stores
from queue_engine.engine.samples.sample_log import DIRECTORY as SAMPLES_DIRECTORY
from queue_engine.engine.samples.sampler import Sampler
from queue_engine.storage.disk.background import Background
from queue_engine.storage.disk.background_job import BackgroundJob
from queue_engine.storage.disk.backup_files import DIRECTORY, Staging, remove_staged
from queue_engine.storage.disk_queue.backup import QueueCopy
from queue_engine.storage.disk_queue.store import DiskQueueStore
from queue_engine.storage.log_store.log_store import LogStore
from queue_engine.vocabulary.clock import NS_PER_MS, NS_PER_S, Clock

logger = logging.getLogger(__name__)

LOOK_INTERVAL_NS = NS_PER_S
LEASE_NS = 60 * NS_PER_S
# A paused thread continues after so long even if the others never paused.
BARRIER_S = 30.0


class BackedUp(Protocol):
    """The files that a running server writes in its data directory."""

    @property
    def is_closing(self) -> bool: ...

    def logs(self) -> dict[str, LogStore]:
        """The logs by their directories in the data directory."""
        ...

    def queue_copies(self) -> Iterator[QueueCopy]:
        """All durable disk queues, each with its messages in memory."""
        ...


class EngineFiles:
    """A BackedUp: the files of an engine. stores, sampler: each has a log there, or none."""

    def __init__(self, catalog: Catalog, stores: Stores, sampler: Sampler) -> None:
        self._catalog = catalog
        self._stores = stores
        self._sampler = sampler

    @property
    def is_closing(self) -> bool:
        return self._catalog.is_closing

    def logs(self) -> dict[str, LogStore]:
        found = {LOG_DIRECTORY: self._stores.log, SAMPLES_DIRECTORY: self._sampler.log}
        return {name: log for name, log in found.items() if log is not None}

    def queue_copies(self) -> Iterator[QueueCopy]:
        for topic in self._catalog.topics.values():
            store = topic.store
            if not isinstance(store, DiskQueueStore):
                continue
            copies = [store.copy()]
            copies += [store.copy_channel(name, channel.held.runs()) for name, channel in topic.channels.items()]
            yield from (copy for copy in copies if copy is not None)


class _Barrier:
    """Pauses background threads between two jobs, but not while the engine closes."""

    def __init__(self, files: "BackedUp") -> None:
        self._files = files
        self._engine_thread = threading.get_ident()
        self._open = threading.Event()
        self._waiting = 0
        self._lock = threading.Lock()
        self.is_broken = False  # a thread continued before `open`

    def hold(self) -> None:
        """A background's job."""
        with self._lock:
            self._waiting += 1
        if threading.get_ident() == self._engine_thread:
            return  # there is no other thread
        ends_at = time.monotonic() + BARRIER_S
        while not self._open.wait(0.1):
            if self._files.is_closing or time.monotonic() > ends_at:
                self.is_broken = True
                return

    def holds(self, count: int) -> bool:
        return self._waiting == count and not self.is_broken

    def open(self) -> None:
        self._open.set()


@dataclass(slots=True)
class _Backup:
    name: str
    barrier: _Barrier | None
    touched: int  # the request file's modification time
    ends_ns: int
    others: dict[str, int]  # the other requests, and their times
    writer: threading.Thread | None = None  # links tables, writes the messages that disk queues have in memory
    error: Exception | None = None  # of the writer
    is_over: bool = False


class Backups:
    """Takes backups, at most one at a time. Belongs to the engine's thread.

    backgrounds: all that write to the data directory. files: those that are written there.
    """

    def __init__(
        self,
        data_path: str,
        clock: Clock,
        *,
        backgrounds: Sequence[Background],
        files: BackedUp,
    ) -> None:
        self._data_path = data_path
        self._directory = os.path.join(data_path, DIRECTORY)
        self._clock = clock
        self._backgrounds = list(dict.fromkeys(backgrounds))
        self._files = files
        self._look_at_ns = 0
        self._now: _Backup | None = None

    def open(self) -> None:
        """Remove the staged files of another process."""
        remove_staged(self._data_path)

    def tick(self, now_ns: int) -> None:
        """Look for requests, and go on with the present one. now_ns: monotonic."""
        one = self._now
        if one is not None and one.barrier is not None:
            if one.barrier.is_broken:
                one.barrier = None
                self._fail(one, TimeoutError(f"the disk was busy for {BARRIER_S:g} s"))
            elif one.barrier.holds(len(self._backgrounds)):
                self._take(one, one.barrier)
        if one is not None and one.error is not None:
            error, one.error = one.error, None
            self._fail(one, error)
        if now_ns < self._look_at_ns:
            return
        self._look_at_ns = now_ns + LOOK_INTERVAL_NS
        if one is not None:
            self._keep(one, now_ns)
        elif os.path.isdir(self._directory):
            self._look(now_ns)

    def _look(self, now_ns: int) -> None:
        waiting: dict[str, int] = {}
        for file_name in sorted(os.listdir(self._directory)):
            name, end = os.path.splitext(file_name)
            touched = self._touched(name) if end == ".request" else None
            if touched is not None and not os.path.exists(os.path.join(self._directory, f"{name}.error")):
                waiting[name] = touched
        if not waiting:
            return
        # A waiting command touches its request again and again: the newest was not left by a killed command.
        name = max(waiting, key=waiting.__getitem__)
        touched = waiting.pop(name)
        logger.info("backup %s was requested", name)
        barrier = _Barrier(self._files)
        self._now = _Backup(name, barrier, touched, now_ns + LEASE_NS, waiting)
        for log in self._files.logs().values():
            log.retention.is_frozen = True
        for background in self._backgrounds:
            BackgroundJob(barrier.hold).start(background)

    def _touched(self, name: str) -> int | None:
        try:
            return os.stat(os.path.join(self._directory, f"{name}.request")).st_mtime_ns
        except OSError:
            return None

    def _keep(self, one: _Backup, now_ns: int) -> None:
        touched = self._touched(one.name)
        if touched is not None and touched != one.touched:
            one.touched, one.ends_ns = touched, now_ns + LEASE_NS
        if touched is None or now_ns >= one.ends_ns:
            ending = "is over" if touched is None else "was given up: its request was not touched"
            logger.info("backup %s %s", one.name, ending)
            self._end(one)
            if touched is not None:
                # Requests that were not touched in all that time either were left by killed commands.
                for name in [name for name, before in one.others.items() if self._touched(name) == before]:
                    os.unlink(os.path.join(self._directory, f"{name}.request"))

    def _end(self, one: _Backup) -> None:
        self._now = None
        if one.barrier is not None:
            one.barrier.open()
        for log in self._files.logs().values():
            log.retention.is_frozen = False
        one.is_over = True
        for end in (".request", ".error"):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(os.path.join(self._directory, f"{one.name}{end}"))

        def remove() -> None:
            if one.writer is not None:
                one.writer.join()
            shutil.rmtree(os.path.join(self._directory, one.name), ignore_errors=True)

        threading.Thread(target=remove, name="penstock-backup", daemon=True).start()

    def _take(self, one: _Backup, barrier: _Barrier) -> None:
        """Link the files. All other threads are paused, so nothing else writes now."""
        began_ns = self._clock.monotonic_ns()
        copies: list[QueueCopy] = []
        try:
            staging = Staging(self._data_path, one.name)
            staging.take({name: log.log.visible_end for name, log in self._files.logs().items()})
            for copy in self._files.queue_copies():
                copy.stage(staging)
                copies.append(copy)
            if barrier.is_broken:
                raise TimeoutError(f"taking its files lasted longer than {BARRIER_S:g} s")
        except Exception as exc:
            logger.exception("backup %s was not taken", one.name)
            self._fail(one, exc)
            return
        finally:
            one.barrier = None
            barrier.open()
        took_ms = (self._clock.monotonic_ns() - began_ns) // NS_PER_MS
        logger.info("backup %s: its files were taken in %d ms, in which nothing else was done", one.name, took_ms)

        def write() -> None:
            try:
                staging.take_tables(lambda: one.is_over)
                for copy in copies:
                    if one.is_over:
                        return
                    copy.write(staging)
                staging.finish()
            except Exception as exc:
                one.error = exc  # the next tick reports it

        # In another thread, so that other disk work goes on.
        one.writer = threading.Thread(target=write, name="penstock-backup", daemon=True)
        one.writer.start()

    def _fail(self, one: _Backup, error: Exception) -> None:
        path = os.path.join(self._directory, f"{one.name}.error")
        with open(f"{path}.tmp", "w") as target:
            target.write(f"the server could not take it: {error}\n")
        os.rename(f"{path}.tmp", path)
