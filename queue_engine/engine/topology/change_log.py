"""Writes changes of topics and channels: appends them to topology.changes, many in one write and sync, and merges them.

A change is in force when its ticket is done: then it is on the disk, and `state` has it. A change that the disk refuses
is neither. After a failed sync it is unknown whether the change is on the disk: the ticket is rejected with
OutcomeUnknownError, further changes are refused, and a merge writes the state before the change, tried each second.
"""

import logging
import os
import secrets
from collections.abc import Callable, Sequence

from queue_engine.engine.topology.files import (
    CHANGES_NAME,
    FILE_NAME,
    PREVIOUS_SUFFIX,
    FoundTopology,
    TopologyFiles,
    encode_changes,
    encode_header,
)
from queue_engine.engine.topology.nsqd_writer import NsqdWriter
from queue_engine.engine.topology.topology import Change, Topology
from queue_engine.storage.commit_log.refusal import is_disk_full
from queue_engine.storage.disk.background import Background
from queue_engine.storage.disk.background_job import BackgroundJob
from queue_engine.storage.disk.files import Files
from queue_engine.vocabulary.clock import NS_PER_S
from queue_engine.vocabulary.errors import OutcomeUnknownError, StorageError, TopologyError
from queue_engine.vocabulary.ticket import Ticket, failed

logger = logging.getLogger(__name__)

RETRY_NS = NS_PER_S
# Merged when the changes are as long as this, and twice as long as the file that they change.
MERGE_BYTES_MIN = 1 << 20
_IDENTITY_BYTES = 16
# The files of topics and channels that are ours.
TOPOLOGY_NAMES = tuple(f"{name}{end}" for name in (FILE_NAME, CHANGES_NAME) for end in ("", PREVIOUS_SUFFIX))


def read_topology(directory: str, files: Files) -> FoundTopology:
    """The content of the files of a directory that no process uses. Raises TopologyError; nothing is changed."""
    return TopologyFiles(directory, files).read()


class ChangeLog:
    """The files of one data directory while the engine runs. Belongs to the engine's thread.

    state: as on the disk. error: why the newest write failed; None after one that did not. make_room: called when
    the disk is full; returns whether a write may find room now.
    """

    def __init__(self, directory: str, files: Files, background: Background) -> None:
        self.state = Topology()
        self.error: TopologyError | None = None
        self.make_room: Callable[[], bool] = lambda: False
        self._paths = TopologyFiles(directory, files)
        self._files = files
        self._background = background
        self._nsqd = NsqdWriter(self._paths.nsqd_path, files, background, self.append)
        self._nsqd_crc = ""  # of nsqd.dat as it was read
        self._fd = -1
        self._at = 0  # bytes of topology.changes that are valid
        self._base_bytes = 0
        self._sequence = 0  # of the newest line, written or not
        self._waiting: list[tuple[Sequence[Change], Ticket]] = []  # for the next line
        self._is_writing = False
        self._needs_merge = True  # the files are of the old format, or their state is unknown: nothing is appended
        self._retry_ns = 0
        self._torn_bytes = 0
        self._last_line = b""  # a merge writes it to topology.changes.previous, behind the valid lines

    # Start and stop.

    def read(self) -> FoundTopology:
        """Read the files. Raises TopologyError; nothing on the disk is changed."""
        found = self._paths.read()
        self.state = found.state
        self._sequence = found.state.sequence
        self._needs_merge = not found.is_new_format
        self._nsqd_crc = found.nsqd_crc
        if found.changes is not None:
            self._at, self._torn_bytes = found.changes.size, found.changes.torn_bytes
        return found

    def begin(self, changes: Sequence[Change]) -> None:
        """The engine has opened every queue: write these changes, in this thread. Raises TopologyError; then `tick`
        tries again."""
        assert not self._is_writing
        self._nsqd.begin(self.state, self._nsqd_crc)
        try:
            if not self._needs_merge:
                self._continue()
                self._append_now(changes)
                return
        except OSError as exc:
            # The files stay as they are; the next try writes everything, these changes included.
            self._fail(exc)
            self._needs_merge = True
            for change in changes:
                self.state.apply(change)
            assert self.error is not None
            raise self.error from exc
        for change in changes:
            self.state.apply(change)
        try:
            self._merge_files()
            if self.state.sequence == 0:
                # From here on a start notices when topology.changes is missing.
                self._sequence = self.state.sequence = 1
                self.state.nsqd_upto = 1 if self.state.nsqd_upto == 0 else -1
                self._files.replace(self._paths.path, self.state.to_json())
        except OSError as exc:
            self._fail(exc)
            assert self.error is not None
            raise self.error from exc
        self._merged()

    def _continue(self) -> None:
        fd = self._files.open(self._paths.changes_path, os.O_RDWR)
        try:
            if self._torn_bytes:
                self._files.truncate(fd, self._at)
            # The last process may have written lines without syncing them.
            self._files.sync_data(fd)
        except OSError:
            self._files.close_quietly(fd)
            raise
        self._fd = fd
        self._base_bytes = self._files.size_of(self._paths.path) or 0

    def _append_now(self, changes: Sequence[Change]) -> None:
        if not changes:
            return
        line = self._line(changes)
        self._sequence += 1
        self._last_line = line
        self._files.write_all(self._fd, line, self._at)
        self._files.sync_data(self._fd)
        self._last_line = b""
        self._appended(line, changes)

    def close(self, finish: Callable[[Topology], None]) -> None:
        """Merge everything, in this thread. finish: replaces the numbers that the state reserves by those that were
        given. Raises TopologyError."""
        if self._is_writing:
            raise TopologyError(f"{self._paths.path} is still being written")
        self._nsqd.stop()
        finish(self.state)
        try:
            if self._needs_merge:
                self._merge_files()  # nsqd.dat has nothing that our files do not have before
            # It comes before topology.json, which has its checksum: after a crash in between the next start knows the
            # file as ours by its version.
            self._nsqd.write_now(self.state)
            self._merge_files()
        except OSError as exc:
            self._fail(exc)
            assert self.error is not None
            raise self.error from exc
        finally:
            self._close_descriptor()

    def abandon(self) -> None:
        """Close the file, and write nothing."""
        self._nsqd.stop()
        self._close_descriptor()

    def _close_descriptor(self) -> None:
        if self._fd >= 0:
            self._files.close_quietly(self._fd)
            self._fd = -1

    # Changes.

    def append(self, *changes: Change) -> Ticket:
        """Append changes, all or none; the ticket is done when they are durable and in `state`."""
        if self._needs_merge:
            return failed(self._refusal())
        ticket = Ticket()
        self._waiting.append((changes, ticket))
        if not self._is_writing:
            self._start()
        return ticket

    def tick(self, now_ns: int) -> None:
        """Retry a write that the disk refused, and let nsqd.dat follow. now_ns: monotonic."""
        if self.error is None and not self._needs_merge:
            self._nsqd.tick(now_ns, self.state)
        if self.error is None or now_ns < self._retry_ns:
            return
        self._retry_ns = now_ns + RETRY_NS
        if self._needs_merge:
            if not self._is_writing:
                self._start_merge()
        elif not self._is_writing:
            self.append()  # an empty line: whether the disk takes one again

    def _refusal(self) -> TopologyError:
        return TopologyError(
            f"nothing is created, deleted or changed until {self._paths.path} can be written, which is tried each "
            f"second: {self.error}"
        )

    def _line(self, changes: Sequence[Change]) -> bytes:
        return encode_changes(self._sequence + 1, changes)

    def _void_line(self) -> bytes:
        """Replaces the newest line, which may be on the disk and is not in force."""
        return encode_changes(self._sequence, ())

    def _start(self) -> None:
        waiting, self._waiting = self._waiting, []
        changes = [change for one, _ in waiting for change in one]
        line, fd, at = self._line(changes), self._fd, self._at
        self._sequence += 1
        self._is_writing = True
        job: BackgroundJob

        def done(error: Exception | None) -> None:
            if error is not None and not job.steps_done and is_disk_full(error) and self.make_room():
                begin()
                return
            try:
                if error is None:
                    self._appended(line, changes)
                    for _, ticket in waiting:
                        ticket.resolve()
                else:
                    self._refused(error, waiting, is_written=job.steps_done > 0)
            finally:
                # Changes that came meanwhile, and those that these tickets led to, share the next line.
                self._is_writing = False
                self._go_on()

        def begin() -> None:
            nonlocal job
            job = BackgroundJob(
                lambda: self._files.write_all(fd, line, at), lambda: self._files.sync_data(fd), then=done
            )
            job.start(self._background)

        begin()

    def _go_on(self) -> None:
        if self._is_writing:
            return
        if self._needs_merge:
            waiting, self._waiting = self._waiting, []
            for _, ticket in waiting:
                ticket.reject(self._refusal())
        elif self._at > MERGE_BYTES_MIN and self._at > 2 * self._base_bytes:
            self._start_merge()
        elif self._waiting:
            self._start()

    def _appended(self, line: bytes, changes: Sequence[Change]) -> None:
        self._at += len(line)
        for change in changes:
            self.state.apply(change)
            self._nsqd.note(change, self.state)
        self.state.sequence = self._sequence
        self.error = None

    def _refused(
        self, error: Exception, waiting: Sequence[tuple[Sequence[Change], Ticket]], *, is_written: bool
    ) -> None:
        self._fail(error)
        assert self.error is not None
        failure: StorageError = self.error
        if is_written:
            # The system has the whole line in memory; whether it is on the disk is unknown.
            self._last_line = self._void_line()
            self._needs_merge = True
            failure = OutcomeUnknownError(
                f"outcome unknown: the change was written to {self._paths.changes_path}, and syncing it failed "
                f"({error}). The server goes on as before it; look again after the next start"
            )
        else:
            # A part of the line may be there: it has no valid checksum, and the next line is written over it.
            self._sequence -= 1
            try:
                self._files.truncate(self._fd, self._at)
            except OSError:
                self._needs_merge = True
        for _, ticket in waiting:
            ticket.reject(failure)

    def _fail(self, error: Exception) -> None:
        logger.error("topology not written path=%s error=%s", self._paths.path, error)
        self.error = TopologyError(f"{self._paths.path} can't be written: {error}")

    # Merging.

    def _start_merge(self) -> None:
        self._is_writing = True

        def done(error: Exception | None) -> None:
            if error is not None and is_disk_full(error) and self.make_room():
                self._start_merge()
                return
            self._is_writing = False
            if error is None:
                self._merged()
            else:
                # It is unknown which steps were done: the open file may have lost its name, so nothing is appended.
                self._needs_merge = True
                self._fail(error)
            self._go_on()

        # Nothing is appended meanwhile, so the state that the job reads does not change.
        BackgroundJob(self._merge_files, then=done).start(self._background)

    def _merge_files(self) -> None:
        """Raises OSError."""
        state, paths, files = self.state, self._paths, self._files
        state.identity = state.identity or secrets.token_hex(_IDENTITY_BYTES)
        knows_all = self._nsqd.is_current or state.nsqd_upto == state.sequence
        # A start passes over a line that is on the disk and not in force.
        state.sequence = max(state.sequence, self._sequence)
        state.nsqd_upto = state.sequence if knows_all else -1
        before, content = self._read(paths.path), state.to_json()
        if before and before != content:
            files.replace(paths.previous_path, before)
        files.replace(paths.path, content)
        changes, header = self._read(paths.changes_path), encode_header(state.identity, state.sequence)
        if changes and changes != header:
            files.replace(paths.previous_changes_path, changes[: self._at] + self._last_line)
        files.replace(paths.changes_path, header)

    def _read(self, path: str) -> bytes:
        try:
            return self._paths.read_bytes(path) or b""
        except TopologyError as exc:
            raise OSError(str(exc)) from exc

    def _merged(self) -> None:
        self._close_descriptor()
        self._sequence = self.state.sequence
        self._last_line = b""
        try:
            self._fd = self._files.open(self._paths.changes_path, os.O_RDWR)
            self._at = self._files.size(self._fd)
        except OSError as exc:
            self._needs_merge = True
            self._fail(exc)
            return
        self._base_bytes = self._files.size_of(self._paths.path) or 0
        self._needs_merge = False
        self.error = None
