"""The archived topic that a replay reads, the ones that it leaves out, a sample of the messages; without Spark."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from queue_engine.lake.archive.archive_files import (
    ArchiveFile,
    file_error,
    files_of,
    newest_first,
    row_counts,
)
from queue_engine.lake.archive.archive_table import ArchivedIdentity, archive_table
from queue_engine.lake.archive.gaps import Gaps
from queue_engine.lake.archive.old_manifest import check_converted
from queue_engine.lake.archive.summary import ArchivedIncarnation
from queue_engine.lake.job.context import JobContext
from queue_engine.lake.replay.path_check import SAMPLE_BYTES, SAMPLE_ROWS
from queue_engine.lake.replay.request import ReplayRequest
from queue_engine.lake.tables.table import LakeTable
from queue_engine.lake.tables.tables import LakeTables
from queue_engine.vocabulary.errors import PipelineError

# Bodies of one file are much alike; each file more is one to open.
SAMPLE_FILES = 8


def archived_identities(context: JobContext, tables: LakeTables, request: ReplayRequest) -> list[ArchivedIdentity]:
    """All topics of the request's name of which messages were archived."""
    check_converted(context.lake, tables, context.engine.server())
    return [
        one
        for one in Gaps(tables).read(request.topic)
        if archive_table(tables, one.topic).transaction(one.app_id) is not None
    ]


def source_of(context: JobContext, archived: Sequence[ArchivedIdentity], request: ReplayRequest) -> ArchivedIdentity:
    """The newest of the topics that the request may mean; of several servers in one lake, this one's first."""
    found = [
        one
        for one in archived
        if request.server in ("", one.server)
        and request.number in (None, one.number)
        and request.id_base in (None, one.id_base)
    ]
    if not found:
        which = "" if request.number is None else f" with the number {request.number}"
        where = f" of the server {request.server[:80]}" if request.server else ""
        raise PipelineError(f"nothing is archived of a topic {request.topic}{which}{where}")
    server = context.engine.server()
    return max(found, key=lambda one: (one.server == server, one.number))


def left_out_of(
    table: LakeTable, archived: Sequence[ArchivedIdentity], source: ArchivedIdentity
) -> tuple[ArchivedIncarnation, ...]:
    """The other topics of the name in the archive."""
    if len(archived) == 1:
        return ()
    counts = row_counts(table, archived)
    return newest_first({one: rows for one, rows in counts.items() if rows and one != source}, source.server)


def sampled_bodies(tables: LakeTables, source: ArchivedIdentity, request: ReplayRequest) -> list[bytes]:
    """Bodies of messages from a few files, of the oldest to the newest, of SAMPLE_BYTES, and of one body more from each
    file at most: of those that time and key allow, of any where the sample has none. Raises StoreError, TableError."""
    table = archive_table(tables, source.topic)
    files = files_of(table, source, start_time_ms=request.start_time_ms, end_time_ms=request.end_time_ms)
    count = min(len(files), SAMPLE_FILES)
    bodies: list[bytes] = []
    others: list[bytes] = []
    for at in np.linspace(0, len(files) - 1, count, dtype=int):
        path = files[at].path
        try:
            file = ArchiveFile(tables.storage, source, path)
            try:
                rows = file.first_rows(SAMPLE_ROWS // count, SAMPLE_BYTES // count, ("published_at", "key"))
            finally:
                file.close()
        except (OSError, pa.ArrowException) as exc:
            raise file_error(exc, table.place, path) from exc
        bodies += chosen_rows(rows, request).column("body").to_pylist()
        others += [] if bodies else rows.column("body").to_pylist()
    return bodies or others


def chosen_rows(rows: pa.Table, request: ReplayRequest) -> pa.Table:
    """The rows that time and key allow."""
    kind = rows.schema.field("published_at").type
    times = rows.column("published_at")
    for bound_ms, compare in ((request.start_time_ms, pc.greater_equal), (request.end_time_ms, pc.less)):
        if bound_ms is not None:
            bound = pa.scalar(bound_ms * 1000, pa.int64()).cast(pa.timestamp("us", "UTC")).cast(kind)
            rows = rows.filter(compare(times, bound))
            times = rows.column("published_at")
    if request.key:
        rows = rows.filter(pc.equal(rows.column("key"), request.key.encode()))
    return rows
