"""A Delta table, and commits to it that count exactly once.

    <table>/_delta_log/00000000000000000007.json                  commit 7: files added and removed, the transaction
    <table>/_delta_log/00000000000000000100.checkpoint.parquet    all that counts after commit 100
    <table>/_delta_log/_last_checkpoint                           which checkpoint is the last
    <table>/date=2026-11-22/part-<uuid>.parquet                   data files

A commit carries a transaction: an app id, which names who writes what, and a version, which says how far it has come
(an archive: the topic's identity and the next offset). The table keeps the last version of each app id for ever, so a
step that is tried again after a kill, a conflict or a lost answer finds out whether it is in the table. delta-rs alone
refuses only racing repeats, not later ones; so each try compares first, on the table as it is then.

Order of a commit on a disk, whatever is cut off where:

    1. the data files are seen with their sizes and made durable, their names included
    2. the commits before this one, which perhaps another process wrote, are made durable
    3. delta-rs links the commit under its number, unless another writer has that number: then from the comparison on
    4. the commit and its name are made durable; then it is acknowledged

So a commit that a power cut tore is the last one, and was never acknowledged (log_repair.py moves it aside).
"""

import enum
import posixpath
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from queue_engine.pipeline.tables.parquet_files import DataFile
from queue_engine.pipeline.tables.storage import TableStorage
from queue_engine.vocabulary.clock import Clock, SystemClock


class CommitResult(enum.Enum):
    """COMMITTED: this call made the commit. KNOWN: the table had it, or one that goes further, and nothing changed.
    Either way it is durable."""

    COMMITTED = "committed"
    KNOWN = "known"


@dataclass(frozen=True, slots=True)
class TableFile:
    """A data file that counts at the table's version.

    path: relative to the table. size: bytes. partition: column → value, as text. minimum, maximum: column → Python value
    (int, float, str, datetime with UTC, date), of columns that have one. nulls: column → count. modified_ms: Unix ms.
    """

    path: str
    size: int
    rows: int
    partition: dict[str, str]
    minimum: dict[str, Any]
    maximum: dict[str, Any]
    nulls: dict[str, int]
    modified_ms: int
