"""The identity of a lake, so that no topic is divided between two.

    <lake>/penstock_lake.json    {"version": 1, "lake": "0b7f…"} LF, and its CRC-32C (storage/disk/checked_line.py)

The identity is that of the table `archive_gaps`: a table is made by one writer alone, on every store, so two servers
that begin a lake at the same time find the same. The file stays valid when the table is made anew.
"""

import pyarrow as pa

from queue_engine.lake.archive.gaps import Gaps
from queue_engine.lake.tables.storage import TableStorage
from queue_engine.lake.tables.store_errors import table_error
from queue_engine.storage.disk.checked_line import decode_line, encode_line
from queue_engine.vocabulary.errors import LakeDamagedError

NAME = "penstock_lake.json"
VERSION = 1
_BYTES_MAX = 1 << 16


def lake_identity(storage: TableStorage, gaps: Gaps) -> str:
    """The lake's identity, made when it has none. Raises LakeDamagedError, StoreError, TableError."""
    try:
        data = storage.read(NAME, _BYTES_MAX)
    except (OSError, pa.ArrowException) as exc:
        raise table_error(exc, storage.at(NAME)) from exc
    if data is not None:
        content = decode_line(data)
        if content is None or content.get("version") != VERSION or not isinstance(content.get("lake"), str):
            raise LakeDamagedError(
                f"{storage.at(NAME)} is damaged, so the lake's identity can't be read: remove it when the lake is "
                "the right one, and it is made anew"
            )
        return str(content["lake"])
    identity = gaps.table_id
    try:
        storage.write(NAME, encode_line({"version": VERSION, "lake": identity}))
    except (OSError, pa.ArrowException) as exc:
        raise table_error(exc, storage.at(NAME)) from exc
    return identity
