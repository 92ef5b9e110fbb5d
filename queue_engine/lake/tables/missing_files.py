"""Data files that count in a table and are not there: a person, a disk or a store's own rule has removed them.

A commit goes on without them, so the archive job looks for them from time to time; a reader that misses one names it.
"""

import posixpath
from urllib.parse import unquote

from queue_engine.lake.tables.store_errors import table_error
from queue_engine.lake.tables.table import LakeTable
from queue_engine.lake.tables.table_files import TableFile
from queue_engine.vocabulary.errors import DataFileMissingError


def missing_files(table: LakeTable) -> list[TableFile]:
    """The data files that count at the newest version and are not there, by one list of the table's directory. One that
    a commit replaced, and a vacuum removed, does not count. Raises as the class LakeTable."""
    cut = len(table.path) + 1
    try:
        # Listed first: replaced files that are removed behind the list no longer count below.
        there = {one.path[cut:] for one in table.storage.list_files(table.path)}
        table.refresh()
        gone = [one for one in table.files() if one.path not in there]
        # Committed behind the list, or under a name with escapes.
        gone = [one for one in gone if not _is_there(table, one)]
    except OSError as exc:
        raise table_error(exc, table.place) from exc
    if not gone:
        return []
    table.refresh()
    counting = {one.path for one in table.files()}
    return [one for one in gone if one.path in counting]


def missing_file_error(place: str, path: str) -> DataFileMissingError:
    """The error of a reader that misses a file which counts. place: of the table, as text; path: relative to it."""
    above, _, topic = place.rpartition("/")
    # The tables of archives can be mended from the log.
    again = (
        f", or have the log's messages of it written again: penstock pipeline rearchive {topic}"
        if posixpath.basename(above) == "archive"
        else ""
    )
    return DataFileMissingError(
        f"{posixpath.join(place, path)} counts in the table, and is not there: restore it from a backup{again}"
    )


def _is_there(table: LakeTable, file: TableFile) -> bool:
    forms = {posixpath.join(table.path, path) for path in (file.path, unquote(file.path))}
    return any(size is not None for size in table.storage.sizes_of(sorted(forms)))
