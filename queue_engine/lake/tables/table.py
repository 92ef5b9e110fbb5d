"""A Delta table, and commits to it that count exactly once.

    <table>/_delta_log/00000000000000000007.json                  commit 7: files added and removed, the transaction
    <table>/_delta_log/00000000000000000100.checkpoint.parquet    all that counts after commit 100
    <table>/_delta_log/_last_checkpoint                           which checkpoint is the last
    <table>/date=2026-11-22/part-<uuid>.parquet                   data files

A commit carries a transaction: an app id, which names the writer and its subject, and a version, its progress
(an archive: the topic's identity and the next offset). The table has the last version of each app id for ever, so a
step that is tried again after a kill, a conflict or a lost answer finds out whether it is in the table. delta-rs alone
refuses only racing repeats, not later ones; so each try compares first, on the table as it is then.

Order of a commit on a disk, whatever is cut off where:

    1. the data files are seen with their sizes and made durable, their names included
    2. the commits before this one, which perhaps another process wrote, are made durable
    3. delta-rs links the commit under its number, unless another writer has that number: then from the comparison on
    4. the commit and its name are made durable; then it is acknowledged

So a commit that a power cut tore is the last one, and was never acknowledged.
"""

import enum
import logging
import posixpath
import threading
import time
import zlib
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable, Schema
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
from deltalake.transaction import (
    AddAction,
    CommitProperties,
    PostCommitHookProperties,
    RemoveAction,
    Transaction,
)

from queue_engine.lake.tables.log_files import (
    ACTIONS_KEY,
    LOG,
    check_commits,
    checkpoint_path,
    commit_path,
    last_checkpoint,
    read_hint,
)
from queue_engine.lake.tables.log_mending import confirm_checkpoint, confirmed_version, mend_log
from queue_engine.lake.tables.parquet_files import DataFile
from queue_engine.lake.tables.storage import TableStorage
from queue_engine.lake.tables.store_errors import first_line, is_worth_trying_again, table_error
from queue_engine.lake.tables.table_files import TableFile, table_files
from queue_engine.vocabulary.clock import NS_PER_MS, NS_PER_S, Clock, SystemClock
from queue_engine.vocabulary.errors import (
    CommitUnknownError,
    DataFileMissingError,
    PipelineError,
    StoreBusyError,
    StoreError,
    StoreUnreachableError,
    TableDamagedError,
    TableFormatError,
    TableMissingError,
    TableSchemaError,
    TableTransactionError,
)

logger = logging.getLogger(__name__)

# Of commits that other writers come before, and of requests that the store did not answer well; the libraries have
# tried each of those a few times already.
TRIES = 8
STORE_TRIES = 3
# No try begins so long after the first one of a store that gives no answer: each may take as long again, and the job
# comes back by itself.
AGAIN_WITHIN_S = 20
# Between two tries, doubled each time.
WAIT_S = 0.05
# Opening reads the commits behind the last checkpoint.
CHECKPOINT_COMMITS = 50
MS_PER_HOUR = 3_600_000
# Of a table with other columns, as many as a sentence can name.
DIFFERENCES_MAX = 3
# A file that was written so long before its commit is refused; a vacuum removes leftovers that are twice as old.
FILE_AGE_MS_MAX = 12 * MS_PER_HOUR
_NO_HOOKS = PostCommitHookProperties(create_checkpoint=False, cleanup_expired_logs=False)


class CommitResult(enum.Enum):
    """COMMITTED: this call made the commit. UNCHANGED: the table had it, or one that goes further, and nothing changed.
    Either way it is durable."""

    COMMITTED = "committed"
    UNCHANGED = "unchanged"


@dataclass(frozen=True, slots=True)
class Move:
    """The move of a commit for one app id: it goes from version `after` (None for none) to `version`."""

    app_id: str
    version: int
    after: int | None


class LakeTable:
    """One table, as it was at the last refresh. Made by `LakeTables.open`; several threads may use it.

    Methods that reach the store raise StoreError and its classes, and wait between tries as `wait` does; TableError and
    its classes when the table itself is not as it should be.
    """

    def __init__(
        self,
        storage: TableStorage,
        path: str,
        schema: pa.Schema,
        partition_by: Sequence[str] = ("date",),
        *,
        later: Collection[str] = (),
        is_holder: bool = True,
        clock: Clock | None = None,
        wait: Callable[[float], None] = time.sleep,
    ) -> None:
        """path: of the table, in the storage. schema: all columns, those of the partition last; of types that Delta
        has. later: nullable columns that tables of earlier versions lack, and that the next commit adds. is_holder:
        whether this process holds the lake: then it mends the log after a power cut (log_mending.py). wait: sleeps so
        many seconds."""
        self.storage = storage
        self.path = path
        self.schema = schema
        self.partition_by = tuple(partition_by)
        self.later = frozenset(later)
        # Those of them that the opened table lacks.
        self._lacking: list[str] = []
        self._delta_schema = Schema.from_arrow(schema)
        self._is_holder = is_holder
        self.clock = clock or SystemClock()
        self._wait = wait
        self._lock = threading.RLock()
        self._delta: DeltaTable | None = None
        # Of the opened table, about; None while it is closed.
        self.file_count: int | None = None
        self._checked_schema = ""
        self._phase = zlib.crc32(path.encode()) % CHECKPOINT_COMMITS
        # The oldest file of the log on a disk that the opened table may read.
        self._oldest_needed = ""
        # Commits up to this version are durable, their names included.
        self._durable_version = -1
        # In an object store, commits up to this version were whole when they were read.
        self._whole_version = -1

    @property
    def place(self) -> str:
        """The absolute path or URL of the table, for messages."""
        return self.storage.at(self.path)

    def close(self) -> bool:
        """Give the memory of the opened table back; the next use opens it again. False while it is being used."""
        if not self._lock.acquire(blocking=False):
            return False
        try:
            self._delta = None
            self.file_count = None
            return True
        finally:
            self._lock.release()

    @property
    def identity(self) -> str:
        """Made with the table, and never changed. Raises TableError when there is no table."""
        return str(self._opened().metadata().id)

    # Reading.

    def exists(self) -> bool:
        """Whether there is a table: a commit that counts."""
        with self._lock:
            return self._delta is not None or self._tried(self._open)

    def refresh(self) -> int:
        """Load the commits of other writers. Returns the version. Raises TableMissingError when there is no
        table."""
        with self._lock:
            self._tried(self._refresh)
            return self.version

    @property
    def version(self) -> int:
        """Of the last refresh or commit."""
        return self._opened().version()

    def transaction(self, app_id: str) -> int | None:
        """The last version that a commit of this app id carried, on the table as it is now; None when there is none,
        or no table."""
        return self.transactions([app_id])[0]

    def transactions(self, app_ids: Sequence[str]) -> list[int | None]:
        """As `transaction`, of several app ids at one moment."""
        with self._lock:
            if not self._tried(self._refresh):
                return [None] * len(app_ids)
            return [self._opened().transaction_version(one) for one in app_ids]

    def files(self) -> list[TableFile]:
        """The data files that count at `version`, by path."""
        return table_files(self._opened(), self.partition_by, self.place, is_local=self.storage.is_local)

    def replaced_files(self, retention_ms: int) -> tuple[set[str], set[str]]:
        """Paths of data files that do not count any longer: (since more than retention_ms, the others).

        Rounded up to hours."""
        hours = -(-retention_ms // MS_PER_HOUR)

        def expired(since_hours: int) -> set[str]:
            return set(self._opened().vacuum(since_hours, dry_run=True, enforce_retention_duration=False))

        with self._lock:
            found: set[str] = self._tried(lambda: expired(hours))
            replaced: set[str] = self._tried(lambda: expired(0))
            return found, replaced - found

    def at(self, file: TableFile | DataFile) -> str:
        """The absolute path or URL of a data file."""
        return self.storage.at(posixpath.join(self.path, file.path))

    def at_filesystem(self, file: TableFile | DataFile) -> str:
        """The name of a data file on `storage.filesystem`."""
        return self.storage.at_filesystem(posixpath.join(self.path, file.path))

    # Commits.

    def create(self) -> None:
        """Make the table, durably, unless there is one. Raises TableSchemaError when that has other columns."""
        with self._lock:
            if not self.exists():
                self._tried(self._create)

    def commit(
        self,
        files: Iterable[DataFile],
        app_id: str,
        version: int,
        *,
        after: int | None,
        remove: Iterable[str] = (),
        changes_data: bool = True,
    ) -> CommitResult:
        """Commit data files, durably and exactly once. Without `after` the table is created when there is none; with it
        TableMissingError is raised then.

        app_id: the writer and its subject, such as "<server>/<number>-<id base>". version: how far it comes with these
        files. after: the version of app_id that the files begin behind, None for none. remove: paths of files that
        these replace; all must count. No files at all only move the version. changes_data: False when the same rows are
        in other files. A file older than FILE_AGE_MS_MAX is refused, since a vacuum may just remove it.

        When the table has `version` or a higher one, nothing is changed: UNCHANGED. When it has `after`, the files are
        committed. Between them or below: another writer has moved on, TableTransactionError. Never remove `files`
        after UNCHANGED: this very commit may have made it before its answer was lost; files without a commit are
        removed by age.

        Raises DataFileMissingError, CommitUnknownError and the errors of the class; after an error the same call may
        be made again.
        """
        moves = [Move(app_id, version, after)]
        removed = list(remove)
        return self._transact(list(files), lambda: removed, moves, changes_data=changes_data)

    def commit_moves(
        self, files: Iterable[DataFile], moves: Sequence[Move], *, remove: Iterable[str] = ()
    ) -> CommitResult:
        """As `commit`, of several app ids at once: all of them are moved, or none."""
        removed = list(remove)
        return self._transact(list(files), lambda: removed, moves)

    def overwrite(
        self, partition: dict[str, str], files: Iterable[DataFile], app_id: str, version: int, *, after: int | None
    ) -> CommitResult:
        """As `commit`, and all files that the partition has at that moment are replaced by these.

        partition: column → value, such as {"date": "2026-11-22"}.
        """
        added = list(files)
        return self._transact(added, lambda: self._paths_in(partition), [Move(app_id, version, after)])

    def checkpoint(self) -> bool:
        """Write a checkpoint of the table as it is now, durably. Returns False when there is one of this version, or no
        table. `commit` does so each CHECKPOINT_COMMITS commits."""
        with self._lock:
            if not self._tried(self._refresh):
                return False
            if self.storage.exists(checkpoint_path(self.path, self.version)):
                if self.storage.is_local and confirmed_version(self.storage, self.path) != self.version:
                    # Its writer was cut off before it was durable.
                    self._tried(lambda: confirm_checkpoint(self.storage, self.path, self.version))
                return False
            self._tried(self._checkpoint)
            return True

    def make_durable(self) -> None:
        """Make the commits up to `version` durable, of any writer: before the files go that they replaced. A
        process may have died between its commit and the sync behind it."""
        with self._lock:
            self._tried(self._sync_log)

    # Inside; all with the lock.

    def _transact(
        self,
        added: list[DataFile],
        removed: Callable[[], list[str]],
        moves: Sequence[Move],
        *,
        changes_data: bool = True,
    ) -> CommitResult:
        with self._lock:
            if all(move.after is None for move in moves):
                self.create()
            is_prepared = False
            # Whether a try may have made the commit, though its answer was lost.
            is_unknown = False
            error: PipelineError | None = None
            begun_ns = self.clock.monotonic_ns()
            for number in range(TRIES):
                if number:
                    self._wait(WAIT_S * (1 << (number - 1)))
                is_committing = False
                try:
                    self._tried(self._refresh)
                    self._check_is_there()
                    if self._has_moves(moves):
                        self._sync_log()
                        return CommitResult.UNCHANGED
                    if self._lacking:
                        self._add_columns()
                    if not is_prepared:
                        self._tried(lambda: self._prepare(added))
                        is_prepared = True
                    self._sync_log()
                    is_committing = True
                    self._commit_once(added, removed(), moves, changes_data)
                    self._checkpoint_when_due()
                    return CommitResult.COMMITTED
                except CommitFailedError as exc:
                    refusal = table_error(exc, self.place)
                    if isinstance(refusal, TableFormatError):
                        # A feature that this version can ignore as a reader alone: trying again changes nothing.
                        error = refusal
                        break
                    error = StoreBusyError(
                        f"{self.place}: {TRIES} commits were refused, since other writers committed before each, or the"
                        f" store had other reasons ({first_line(str(exc))}); the job waits and goes on by itself"
                    )
                except (DeltaError, OSError, StoreError) as exc:
                    error = table_error(exc, self.place)
                    is_unknown = is_unknown or is_committing
                    if not self._is_tried_again(error, begun_ns) or number >= STORE_TRIES:
                        break
            assert error is not None
            if is_unknown:
                reason = str(error).removeprefix(f"{self.place}: ")
                raise CommitUnknownError(
                    f"{self.place}: whether the commit up to {moves[0].version} is in the table is unclear, and the"
                    f" job finds out before it goes on: {reason}"
                ) from error
            raise error

    def _check_is_there(self) -> None:
        """Raises TableMissingError where the log of the opened table is gone: delta-rs would begin another one in its
        midst. A clean-up leaves the last commit, or its checkpoint."""
        names = (commit_path(self.path, self.version), checkpoint_path(self.path, self.version))
        if not any(self.storage.exists(name) for name in names):
            self._delta = None
            raise TableMissingError(f"there is no table at {self.place} any more")

    def _has_moves(self, moves: Sequence[Move]) -> bool:
        """Whether the table has all of the moves. Raises TableTransactionError when it is elsewhere."""
        versions = [self._opened().transaction_version(move.app_id) for move in moves]
        if all(found is not None and found >= move.version for move, found in zip(moves, versions, strict=True)):
            return True
        for move, found in zip(moves, versions, strict=True):
            if found != move.after:
                raise TableTransactionError(
                    f"{self.place} has transaction {found} of {move.app_id}, and this commit goes from {move.after} to"
                    f" {move.version}: another writer commits for it; see that only one server archives here"
                )
        return False

    def _add_columns(self) -> None:
        """Give the table the columns that a later version has: a commit of its own, whose rows come with the next."""
        table = self._opened()
        table.alter.add_columns(
            [one for one in self._delta_schema.fields if one.name in self._lacking],
            # Of the table's metadata alone.
            commit_properties=CommitProperties(custom_metadata={ACTIONS_KEY: 1}, max_commit_retries=0),
            post_commithook_properties=_NO_HOOKS,
        )
        logger.info("table gets columns table=%s columns=%s", self.place, ",".join(self._lacking))
        self._check(table)

    def _commit_once(
        self, added: list[DataFile], removed: list[str], moves: Sequence[Move], changes_data: bool
    ) -> None:
        """Make the next commit, or raise CommitFailedError when another writer has; then make it durable."""
        table = self._opened()
        counting = {one.path: one for one in self.files()} if removed else {}
        gone = [path for path in removed if path not in counting]
        if gone:
            raise DataFileMissingError(
                f"{self.place}: {gone[0]} does not count any longer, so nothing can replace it; the work is planned"
                " anew"
            )
        replaced = [counting[path] for path in removed]
        now_ms = self.clock.time_ns() // NS_PER_MS
        actions: list[AddAction | RemoveAction] = [
            AddAction(one.path, one.size, one.partition, one.modified_ms, changes_data, one.statistics) for one in added
        ]
        actions += [RemoveAction(one.path, changes_data, now_ms, one.size, {**one.partition}) for one in replaced]
        table.create_write_transaction(
            actions,
            mode="append",
            schema=self._delta_schema,
            partition_by=list(self.partition_by),
            commit_properties=CommitProperties(
                custom_metadata={ACTIONS_KEY: len(actions) + len(moves)},
                max_commit_retries=0,
                app_transactions=[Transaction(move.app_id, move.version) for move in moves],
            ),
            post_commithook_properties=_NO_HOOKS,
        )
        if self._whole_version == table.version():
            self._whole_version += 1
        table.update_incremental()
        self.file_count = (self.file_count or 0) + len(added) - len(removed)
        self._sync_log()

    def _checkpoint(self) -> None:
        self._sync_log()
        with self.storage.locked(posixpath.join(self.path, LOG)):
            self._opened().create_checkpoint()
            if self.storage.is_local:
                confirm_checkpoint(self.storage, self.path, self.version)

    def _checkpoint_when_due(self) -> None:
        # Not all tables of a round at the same version: the round would take longer each time.
        if (self.version + self._phase) % CHECKPOINT_COMMITS:
            return
        try:
            self._checkpoint()
        except (DeltaError, OSError, StoreError) as exc:
            # The commit stands, and reading goes on without a checkpoint.
            logger.warning("no checkpoint written table=%s error=%s", self.place, table_error(exc, self.place))

    def _prepare(self, added: list[DataFile]) -> None:
        """See each file with its size, and make it durable."""
        oldest_ms = self.clock.time_ns() // NS_PER_MS - FILE_AGE_MS_MAX
        for one in added:
            if one.modified_ms < oldest_ms:
                raise DataFileMissingError(
                    f"{self.at(one)} was written more than {FILE_AGE_MS_MAX // MS_PER_HOUR} hours ago, and may be"
                    " removed as a leftover: it is not committed; the step is made again"
                )
        paths = [posixpath.join(self.path, one.path) for one in added]
        for one, size in zip(added, self.storage.sizes_of(paths), strict=True):
            if size != one.size:
                found = "is not there" if size is None else f"has {size} bytes"
                raise DataFileMissingError(
                    f"{self.at(one)} {found}, and was written with {one.size}: it is not committed; the step is made"
                    " again"
                )
        self.storage.sync(paths)

    def _sync_log(self) -> None:
        """Make the commits up to the loaded version durable."""
        last = self._opened().version()
        if last <= self._durable_version:
            return
        if self.storage.is_local:
            paths = (commit_path(self.path, number) for number in range(self._durable_version + 1, last + 1))
            self.storage.sync_again(path for path in paths if self.storage.exists(path))
        self._durable_version = last

    def _create(self) -> None:
        self.storage.make_directory(posixpath.join(self.path, LOG))
        try:
            DeltaTable.create(
                self.place,
                schema=self._delta_schema,
                mode="error",
                partition_by=list(self.partition_by),
                storage_options=self.storage.options or None,
                commit_properties=CommitProperties(max_commit_retries=0),
                post_commithook_properties=_NO_HOOKS,
            )
        except DeltaError:
            # Another writer was first, or the outcome is unknown.
            if not self._open():
                raise
        self._refresh()
        self._sync_log()

    def _open(self) -> bool:
        """Open the table; False when there is none."""
        if self._is_holder and self.storage.is_local:
            self._durable_version = mend_log(self.storage, self.path)
        self._note_oldest_needed()
        try:
            delta = DeltaTable(self.place, storage_options=self.storage.options or None)
        except TableNotFoundError:
            return False
        self._check(delta)
        if not self.storage.is_local:
            self._whole_version = last_checkpoint(self.storage, self.path, delta.version())
            self._check_commits(delta)
        self._delta = delta
        self.file_count = len(delta.file_uris())
        self._sync_loaded_log()
        return True

    def _refresh(self) -> bool:
        if self._delta is None:
            return self._open()
        if self._is_newest(self._delta.version()):
            self._sync_loaded_log()
            return True
        self._note_oldest_needed()
        try:
            self._delta.update_incremental()
        except DeltaError:
            # The log that the next version needs is gone, when this table was not used for long.
            self._delta = None
            return self._open()
        self._check(self._delta)
        if not self.storage.is_local:
            self._check_commits(self._delta)
        self._sync_loaded_log()
        return True

    def _is_newest(self, version: int) -> bool:
        """Whether no commit follows the loaded `version`, as far as a disk shows without a list: delta-rs lists the
        whole log, which has 13,000 names after a week."""
        # The oldest files are cleaned up first: while this one is there, so are all that delta-rs reads.
        return (
            self.storage.is_local
            and not self.storage.exists(commit_path(self.path, version + 1))
            and self.storage.exists(self._oldest_needed)
        )

    def _note_oldest_needed(self) -> None:
        """Call it before the log is read: the table then needs this file of the log, or newer ones."""
        if self.storage.is_local:
            hinted = read_hint(self.storage, self.path).get("version")
            self._oldest_needed = (
                checkpoint_path(self.path, hinted) if isinstance(hinted, int) else commit_path(self.path, 0)
            )

    def _check_commits(self, delta: DeltaTable) -> None:
        """On a disk a power cut damages the last commit alone, and log_mending.py looks at it."""
        try:
            check_commits(self.storage, self.path, range(self._whole_version + 1, delta.version() + 1))
        except PipelineError:
            # Opened anew the next time, and checked then.
            self._delta = None
            raise
        self._whole_version = delta.version()

    def _sync_loaded_log(self) -> None:
        # A process that was killed may have left a commit that is not durable: the state that the holder reads must
        # last, since cursors move and files are removed by it.
        if self._is_holder:
            self._sync_log()

    def _check(self, delta: DeltaTable) -> None:
        text = delta.schema().to_json()
        if text == self._checked_schema:
            return
        found = pa.schema(delta.schema().to_arrow())
        parts = tuple(delta.metadata().partition_columns)
        has = {one.name: one.type for one in found}
        self._lacking = [one.name for one in self.schema if one.name in self.later - has.keys()]
        if has != {one.name: one.type for one in self.schema if one.name not in self._lacking} or (
            parts != self.partition_by
        ):
            self._delta = None
            raise TableSchemaError(
                f"{self.place} is not as this version writes it: {self._difference(found, parts)}. Undo that change, or"
                " move the table away, so that a new one begins"
            )
        self._checked_schema = text

    def _difference(self, found: pa.Schema, parts: tuple[str, ...]) -> str:
        """The differences of a table with these columns and partitions."""
        wanted = {one.name: one.type for one in self.schema}
        has = {one.name: one.type for one in found}
        differences = [f"the column {name} is missing" for name in wanted if name not in has.keys() | self.later]
        differences += [f"the column {name} is new" for name in has if name not in wanted]
        differences += [
            f"the column {name} is {has[name]}, not {kind}"
            for name, kind in wanted.items()
            if has.get(name, kind) != kind
        ]
        if parts != self.partition_by:
            differences.append(
                f"it is partitioned by {', '.join(parts) or 'nothing'}, not {', '.join(self.partition_by)}"
            )
        return ", ".join(differences[:DIFFERENCES_MAX])

    def _opened(self) -> DeltaTable:
        with self._lock:
            if self._delta is None and not self.exists():
                raise TableMissingError(f"there is no table at {self.place}")
            assert self._delta is not None
            return self._delta

    def _paths_in(self, partition: dict[str, str]) -> list[str]:
        return [one.path for one in self.files() if one.partition == partition]

    def _tried(self, work: Callable[[], Any]) -> Any:
        """The result of `work`, tried again while the store may do better the next time."""
        begun_ns = self.clock.monotonic_ns()
        for number in range(STORE_TRIES):
            if number:
                self._wait(WAIT_S * (1 << (number - 1)))
            try:
                return work()
            except (DeltaError, OSError, StoreError) as exc:
                error = table_error(exc, self.place)
                # The text of a store's answer does not become the cause: a log would show it.
                cause = exc if self.storage.is_local else None
            # delta-rs takes a list of the log as damage that misses a commit which is made at this moment.
            if not self._is_tried_again(error, begun_ns) and not (
                self.storage.is_local and isinstance(error, TableDamagedError)
            ):
                break
        raise error from cause

    def _is_tried_again(self, error: PipelineError, begun_ns: int) -> bool:
        """Whether the call is worth another try. begun_ns: of the first one."""
        if isinstance(error, StoreUnreachableError):
            return self.clock.monotonic_ns() - begun_ns < AGAIN_WITHIN_S * NS_PER_S
        return is_worth_trying_again(error)
