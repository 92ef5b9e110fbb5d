"""Mends a table's log on a disk after a power cut.

delta-rs syncs nothing. `LakeTable` makes all commits before a new one durable first, so only the last commit can be
torn, and it was never acknowledged: it is renamed. A checkpoint counts as durable when `_last_checkpoint` has its
checksum, which is written after the checkpoint is synced:

    {"version":100, …, "tags":{"penstock.crc32c":"8a9136aa"}}

One without it may be torn anywhere: it is renamed when the commits that it stands for are still there, and read
as a whole when they are not, as of a table that another program cleaned up.

Other damage is an error that names the file; then nothing is changed.
"""

import io
import logging
import posixpath
import uuid
from dataclasses import replace

import crc32c
import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from queue_engine.lake.tables.log_files import (
    COMMIT_BYTES_MAX,
    LOG,
    LogListing,
    checkpoint_path,
    commit_path,
    is_whole_commit,
    last_checkpoint_path,
    log_listing,
    log_path,
    read_hint,
)
from queue_engine.lake.tables.storage import TableStorage
from queue_engine.vocabulary.errors import TableCheckpointError, TableDamagedError

logger = logging.getLogger(__name__)

CHECKSUM_TAG = "penstock.crc32c"


def mend_log(storage: TableStorage, table: str) -> int:
    """Mend the log of a table on a disk; only the holder of the lake may call it.

    Returns the version up to which commits are durable: that of the checkpoint which is, -1 for none. Raises
    TableDamagedError, TableCheckpointError, OSError.
    """
    if _list(storage, table).last < 0:
        return -1
    # Another process may be writing a checkpoint.
    with storage.locked(posixpath.join(table, LOG)):
        return _mend(storage, table)


def _mend(storage: TableStorage, table: str) -> int:
    listing = _list(storage, table)
    confirmed = confirmed_version(storage, table)
    base = _mend_checkpoints(storage, table, listing, confirmed)
    last = listing.last
    if last in listing.commits and last > base and not is_whole_commit(storage, table, last):
        _move_aside(storage, commit_path(table, last))
        listing = _list(storage, table)
    for version in range(base + 1, listing.last + 1):
        found = (
            "is missing"
            if version not in listing.commits
            else "can't be read"
            if not is_whole_commit(storage, table, version)
            else None
        )
        if found:
            raise TableDamagedError(
                f"{storage.at(commit_path(table, version))} {found}, and there are later commits: the table is damaged."
                " Restore the file from a backup, or move the table's directory away, so that a new one begins"
            )
    return base if base == confirmed else -1


def confirm_checkpoint(storage: TableStorage, table: str, version: int) -> None:
    """Make the checkpoint that delta-rs has just written durable, and write its checksum to `_last_checkpoint`. Raises
    OSError."""
    path = checkpoint_path(table, version)
    storage.sync([path])
    data = storage.read(path, COMMIT_BYTES_MAX) or b""
    hint = read_hint(storage, table)
    if hint.get("version") != version:
        hint = {"version": version, "size": pq.read_metadata(io.BytesIO(data)).num_rows, "sizeInBytes": len(data)}
    hint["tags"] = {CHECKSUM_TAG: f"{crc32c.crc32c(data):08x}"}
    storage.write(last_checkpoint_path(table), orjson.dumps(hint))


def _mend_checkpoints(storage: TableStorage, table: str, listing: LogListing, confirmed: int) -> int:
    """Returns the checkpoint from which the log is read; -1 for its begin. Later ones are renamed."""
    newest = max(listing.checkpoints, default=-1)
    hinted = read_hint(storage, table).get("version")
    if newest == confirmed and hinted in (None, newest):
        return newest
    bases = [confirmed, -1] if confirmed >= 0 else [-1]
    # When the commits behind one of them are all there, nothing is lost with the checkpoints behind it.
    base = next((one for one in bases if listing.first_missing(one) is None), None)
    if base is None:
        readable = (
            one
            for one in sorted(listing.checkpoints, reverse=True)
            if listing.first_missing(one) is None
            and not (one == hinted and _has_checksum(storage, table))
            and is_readable_checkpoint(storage, table, listing.checkpoints[one])
        )
        base = next(readable, None)
    if base is None:
        if newest < 0:
            return -1  # the missing commit is reported
        raise TableCheckpointError(
            f"{storage.at(checkpoint_path(table, newest))} is damaged, and the commits that it stands for are gone:"
            " restore it from a backup, or move the table's directory away, so that a new one begins"
        )
    for version in [one for one in listing.checkpoints if one > base]:
        for name in listing.checkpoints.pop(version):
            _move_aside(storage, log_path(table, name))
    if hinted != base and storage.remove([last_checkpoint_path(table)]):
        storage.sync_directory(posixpath.join(table, LOG))
    if base not in (-1, confirmed) and listing.checkpoints[base] == [posixpath.basename(checkpoint_path(table, base))]:
        confirm_checkpoint(storage, table, base)
    return base


def confirmed_version(storage: TableStorage, table: str) -> int:
    """The checkpoint whose checksum `_last_checkpoint` has; -1 when there is none, or it has another content."""
    hint = read_hint(storage, table)
    version = hint.get("version")
    if not isinstance(version, int) or not _has_checksum(storage, table):
        return -1
    data = storage.read(checkpoint_path(table, version), COMMIT_BYTES_MAX)
    return version if data is not None and hint["tags"] == {CHECKSUM_TAG: f"{crc32c.crc32c(data):08x}"} else -1


def _has_checksum(storage: TableStorage, table: str) -> bool:
    tags = read_hint(storage, table).get("tags")
    return isinstance(tags, dict) and CHECKSUM_TAG in tags


def is_readable_checkpoint(storage: TableStorage, table: str, names: list[str]) -> bool:
    """Whether every file of a checkpoint can be read as a whole."""
    for name in names:
        data = storage.read(log_path(table, name), COMMIT_BYTES_MAX) or b""
        try:
            if name.endswith(".parquet"):
                pq.read_table(io.BytesIO(data))
            else:
                for line in data.splitlines():
                    orjson.loads(line)
        except (ValueError, OSError, pa.ArrowException):
            return False
    return True


def _list(storage: TableStorage, table: str) -> LogListing:
    """The log of a table; other processes may commit meanwhile."""
    directory = posixpath.join(table, LOG)
    listing = log_listing(storage.names(directory))
    if listing.first_missing(min(listing.commits, default=listing.last)) is None:
        return listing
    # A directory is not listed at one moment: the list may have a commit, and not the one that was made before it. A
    # second list has all commits up to that one.
    again = log_listing(storage.names(directory))
    return replace(listing, commits=frozenset(one for one in again.commits if one <= listing.last))


def _move_aside(storage: TableStorage, path: str) -> None:
    torn_path = f"{path}.torn-{uuid.uuid4()}"
    logger.warning("torn file of a table's log renamed path=%s to=%s", storage.at(path), posixpath.basename(torn_path))
    storage.rename(path, torn_path)
