"""An archive of before there were tables, as an earlier version made it part of one: its rows have no server."""

from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from queue_engine.lake.archive.archive_gap import REPLAYED, ArchiveGap
from queue_engine.lake.archive.archive_table import FILE_COLUMNS, PARTITION, ArchivedIdentity, archive_path
from queue_engine.lake.archive.archives import Archives, Commit
from queue_engine.lake.directory.lake import Lake
from queue_engine.lake.tables.parquet_files import existing_data_file
from queue_engine.lake.tables.tables import LakeTables
from queue_engine.vocabulary.clock import Clock

AT = datetime(2026, 3, 1, 14, 30, tzinfo=UTC)
DATE = "2026-03-01"


def converted_archive(lake: Lake, tables: LakeTables, clock: Clock, identity: ArchivedIdentity) -> None:
    """30 messages from offset 10 to 50 in two files, with gaps; beside them the manifest, which nothing reads."""
    folder = f"{identity.number}-{identity.id_base:016x}"
    table = archive_path(identity.topic)
    files = []
    for hour, first, after in ((14, 10, 20), (15, 25, 45)):
        path = f"{folder}/date={DATE}/hour={hour}/g000001-000000-{first}-{after}-000.parquet"
        place = Path(lake.within(f"{table}/{path}"))
        place.parent.mkdir(parents=True, exist_ok=True)
        offsets = list(range(first, after))
        columns = [
            offsets,
            [AT.replace(hour=hour)] * len(offsets),
            [f"{identity.id_base + offset:016x}" for offset in offsets],
            [b"k" if offset % 2 else None for offset in offsets],
            [b"%d" % offset for offset in offsets],
            [False] * len(offsets),
        ]
        schema = pa.schema([field for field in FILE_COLUMNS if field.name != "server"])
        pq.write_table(pa.table(dict(zip(schema.names, columns, strict=True)), schema=schema), place)
        files.append(existing_data_file(tables.storage, table, path, FILE_COLUMNS, {PARTITION: DATE}))
    Path(lake.within(f"{table}/{folder}/manifest.json")).write_bytes(b"of an earlier version")
    at_ms = int(AT.timestamp() * 1000)
    gaps = [ArchiveGap(20, 25, "retention", at_ms), ArchiveGap(10, 50, REPLAYED, at_ms, 5)]
    commit = Commit(identity, 10, 50, True, files, gaps)
    assert Archives(lake, tables, identity.server, clock).commit([commit]) == {identity: None}
