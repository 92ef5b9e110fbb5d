"""Writes a commit of a table on a disk: the file of its log that delta-rs would write.

delta-rs lists the whole log twice for each commit it makes, and a log of a week has 13,000 names: that took most of a
commit's time. Nothing of the list is needed here, since the link that makes the commit fails when another writer has
its number.

    {"commitInfo":{"timestamp":1795647878041,"operation":"WRITE",…,"penstockActions":3}}
    {"add":{"path":"date=2026-11-22/part-<uuid>.parquet","partitionValues":{"date":"2026-11-22"},"size":1232,…}}
    {"remove":{"path":"date=2026-11-22/part-<uuid>.parquet","deletionTimestamp":1795647878040,…}}
    {"txn":{"appId":"<server>/7-00000000004c4b40","version":1500}}

`can_write` says whether a commit is as plain as that; delta-rs makes all others.
"""

import errno
import os
import re
import secrets
from collections.abc import Iterable, Sequence
from typing import Any

import orjson
from deltalake import DeltaTable

from queue_engine.pipeline.tables.log_files import ACTIONS_KEY, commit_path
from queue_engine.pipeline.tables.parquet_files import DataFile
from queue_engine.pipeline.tables.storage import TableStorage
from queue_engine.pipeline.tables.table_files import TableFile

# The first version without table features, generated columns, checks of rows or change data.
WRITER_VERSION_MAX = 2
# Delta writes other signs in another way.
_PLAIN_PATH = re.compile(r"[A-Za-z0-9._=/-]+")


def can_write(storage: TableStorage, table: DeltaTable, paths: Iterable[str]) -> bool:
    """Whether `write_commit` may make this commit: on a disk, to a table that no program gave properties or
    features. paths: of its data files."""
    return (
        storage.is_local
        and table.protocol().min_writer_version <= WRITER_VERSION_MAX
        and not table.metadata().configuration
        and all(_PLAIN_PATH.fullmatch(path) for path in paths)
    )


def write_commit(storage: TableStorage, table: str, version: int, data: bytes) -> None:
    """Make commit `version`, which the caller makes durable. Raises FileExistsError when another writer may have made
    it: then the table tells. Raises OSError, and the commit may be there."""
    path = storage.at(commit_path(table, version))
    # Named as delta-rs names its unfinished files, which readers pass over and a clean-up of the log removes.
    unfinished = f"{path}#{secrets.randbits(63)}"
    fd = storage.files.open(unfinished, os.O_CREAT | os.O_EXCL | os.O_WRONLY)
    try:
        try:
            storage.files.write_all(fd, data, 0)
        finally:
            storage.files.close_quietly(fd)
        storage.files.link(unfinished, path)
    except OSError:
        storage.files.unlink_quietly(unfinished)
        raise
    storage.files.unlink_quietly(unfinished)
    if not storage.exists(commit_path(table, version - 1)):
        # The log was cleaned up since the table was looked at, and this number may have been used before.
        raise FileExistsError(errno.EEXIST, "the log was cleaned up meanwhile", path)


def encode_commit(
    added: Sequence[DataFile],
    removed: Sequence[TableFile],
    moves: Sequence[tuple[str, int]],
    *,
    partition_by: Sequence[str],
    changes_data: bool,
    now_ms: int,
) -> bytes:
    """The lines of a commit. moves: app id and version. now_ms: Unix ms."""
    information = {
        "timestamp": now_ms,
        "operation": "WRITE",
        "operationParameters": {"mode": "Append", "partitionBy": orjson.dumps(list(partition_by)).decode()},
        "engineInfo": "penstock",
        ACTIONS_KEY: len(added) + len(removed) + len(moves),
    }
    lines: list[dict[str, Any]] = [{"commitInfo": information}]
    lines += [
        {
            "add": {
                "path": one.path,
                "partitionValues": one.partition,
                "size": one.size,
                "modificationTime": one.modified_ms,
                "dataChange": changes_data,
                "stats": one.statistics,
            }
        }
        for one in added
    ]
    lines += [
        {
            "remove": {
                "path": one.path,
                "dataChange": changes_data,
                "deletionTimestamp": now_ms,
                "extendedFileMetadata": True,
                "partitionValues": one.partition,
                "size": one.size,
            }
        }
        for one in removed
    ]
    lines += [{"txn": {"appId": app_id, "version": version}} for app_id, version in moves]
    return b"\n".join(orjson.dumps(line) for line in lines)
