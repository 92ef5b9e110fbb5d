"""Archives as tests make and read them: messages published to a real engine, rows found by the tables alone."""

import threading
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from queue_engine.client.log_api.log_client import LogClient
from queue_engine.lake.archive.archive import Archiver
from queue_engine.lake.archive.archive_gap import BEGIN, ArchiveGap, joined_gaps
from queue_engine.lake.archive.archive_table import ArchivedIdentity, archive_path, archive_table
from queue_engine.lake.archive.gaps import Gaps
from queue_engine.lake.directory.lake import Lake
from queue_engine.lake.job.context import JobContext
from queue_engine.lake.job.state import JobState
from queue_engine.lake.source.part_reader import PartReader
from queue_engine.lake.source.read_options import HTTP, ReadOptions
from queue_engine.lake.source.read_plan import plan_parts
from queue_engine.lake.source.record_columns import hex_column
from queue_engine.lake.source.wanted_range import WantedRange
from queue_engine.lake.tables.storage import TableStorage
from queue_engine.lake.tables.tables import LakeTables
from queue_engine.vocabulary.clock import SystemClock
from queue_engine.wire.cursor import CursorStats
from tests.support.processes.engine_api import EngineApi


@dataclass
class Job:
    """A context with what was reported to it."""

    context: JobContext
    reports: list[JobState] = field(default_factory=list)


def job(spark: SparkSession | None, lake: Lake, engine: EngineApi, *, clock: Any = None) -> Job:
    reports: list[JobState] = []
    client = engine.lend(LogClient(f"http://127.0.0.1:{engine.http_port}"))
    context = JobContext(spark, lake, client, clock or SystemClock(), threading.Event(), reports.append)
    return Job(context, reports)


def archive_once(context: JobContext, topics: Collection[str] | None = None, **given: Any) -> int:
    """As `Archiver.run`, by an archiver of its own."""
    return Archiver(context, **given).run(topics)


def publish(engine: EngineApi, topic: str, bodies: Sequence[bytes]) -> None:
    """As one batch."""
    parts = [len(bodies).to_bytes(4, "big")]
    for body in bodies:
        parts += [len(body).to_bytes(4, "big"), body]
    data = b"".join(parts)
    engine.http("POST", f"/mpub?topic={topic}&binary=true", data)


def published(engine: EngineApi, topic: str, *, is_replayed: bool) -> list[bytes]:
    """All bodies of a topic in order, none of them consumed; they are flagged as replayed, or none is."""
    with LogClient(f"http://127.0.0.1:{engine.http_port}") as client:
        options = ReadOptions(client.url, (topic,), read_from=HTTP)
        state = client.topic(topic)
        wanted = WantedRange(topic, state.number, state.id_base, 0, state.synced_offset)
        found: list[bytes] = []
        reader = PartReader(client, options)
        for batch in reader.read(plan_parts(client, options, [wanted]).parts):
            assert set(batch.column("replayed").to_pylist()) == {is_replayed}
            found += batch.column("body").to_pylist()
        assert reader.missing == []
        return found


def switch_on(engine: EngineApi, topic: str, start: str = "start") -> None:
    engine.http("POST", f"/cursor/create?topic={topic}&cursor=archive&start={start}")


def cursor_of(engine: EngineApi, topic: str) -> CursorStats:
    with LogClient(f"http://127.0.0.1:{engine.http_port}") as client:
        found = client.cursor_list()
    (cursor,) = [one for one in found if (one.topic, one.cursor) == (topic, "archive")]
    return cursor


@dataclass(frozen=True)
class Archived:
    """One topic's archive, as the tables have it. rows: in no order, with the columns of the table."""

    identity: ArchivedIdentity
    begin_offset: int
    next_offset: int
    gaps: tuple[ArchiveGap, ...]
    rows: pa.Table
    version: int

    @property
    def bodies(self) -> list[bytes]:
        """In the order of their offsets."""
        found: list[bytes] = self.rows.sort_by("offset").column("body").to_pylist()
        return found

    @property
    def reasons(self) -> list[tuple[int, int, str]]:
        return [(gap.first_offset, gap.next_offset, gap.reason) for gap in self.gaps]

    def check(self) -> None:
        """Every offset is a row or in a gap, and none twice."""
        offsets = self.rows.column("offset").to_numpy()
        assert len(np.unique(offsets)) == len(offsets)
        counted = len(offsets) + sum(gap.count for gap in self.gaps)
        assert counted == self.next_offset - self.begin_offset, (self.identity, counted)


def lake_tables(lake: Lake, place: str = "") -> LakeTables:
    """As a reader beside the holder has them. place: of the tables, where that is not the lake's directory."""
    return LakeTables(TableStorage(place or lake.path), is_holder=False)


def archives(lake: Lake, topic: str = "", *, place: str = "") -> list[Archived]:
    """All archives, or those of one name, by number; each is checked. place: as of `lake_tables`."""
    tables = lake_tables(lake, place)
    found = []
    for identity, gaps in Gaps(tables).read(topic).items():
        table = archive_table(tables, identity.topic)
        end = table.transaction(identity.app_id)
        if end is None:
            continue  # killed before its first messages were committed
        (begin,) = [gap.first_offset for gap in gaps if gap.reason == BEGIN]
        before = [gap for gap in gaps if gap.reason != BEGIN and gap.next_offset <= end]
        rows = _rows_of(tables, identity)
        found.append(Archived(identity, begin, end, tuple(joined_gaps(before)), rows, table.version))
        found[-1].check()
    return sorted(found, key=lambda one: (one.identity.topic, one.identity.number))


def _rows_of(tables: LakeTables, identity: ArchivedIdentity) -> pa.Table:
    """A topic's rows, each file checked against what the table says of it."""
    table = archive_table(tables, identity.topic)
    pieces = [table.schema.empty_table()]
    for file in table.files():
        with tables.storage.filesystem.open_input_file(table.at_filesystem(file)) as source:
            assert source.size() == file.size
            rows = pq.ParquetFile(source).read()
        offsets = rows.column("offset")
        bounds = pc.min_max(offsets).as_py()
        assert (len(offsets), bounds) == (file.rows, {"min": file.minimum["offset"], "max": file.maximum["offset"]})
        date = file.partition["date"]
        assert pc.unique(pc.strftime(rows.column("published_at"), "%Y-%m-%d")).to_pylist() == [date]
        if "server" not in rows.schema.names:
            rows = rows.append_column("server", pa.nulls(len(rows), pa.string()))
        pieces.append(rows.append_column("date", pa.array([date] * len(rows), pa.string())).cast(table.schema))
    rows = pa.concat_tables(pieces)
    ids = hex_column(rows.column("offset").to_numpy().astype("uint64") + identity.id_base)
    is_of_server = pc.fill_null(pc.equal(rows.column("server"), identity.server), True)
    return rows.filter(pc.and_(pc.equal(rows.column("message_id"), ids), is_of_server))


def archive_of(lake: Lake, topic: str) -> Archived:
    (found,) = archives(lake, topic)
    return found


def data_files(lake: Lake) -> set[str]:
    """Every data file below the archive, named by a commit or not."""
    root = Path(lake.within("archive"))
    found = [path for path in root.rglob("*.parquet") if "_delta_log" not in path.parts]
    return {str(path.relative_to(lake.path)) for path in found}


def named_files(lake: Lake) -> set[str]:
    tables = lake_tables(lake)
    topics = {one.identity.topic for one in archives(lake)}
    return {f"{archive_path(topic)}/{file.path}" for topic in topics for file in archive_table(tables, topic).files()}
