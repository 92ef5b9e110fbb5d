"""Archives as tests make and read them: messages published to a real engine, rows found by the manifest alone."""

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from queue_engine.pipeline.archive.manifest import ArchiveManifest, list_archives
from queue_engine.pipeline.job.context import JobContext
from queue_engine.pipeline.job.state import JobState
from queue_engine.pipeline.lake.lake import Lake
from queue_engine.pipeline.source.log_client import LogClient
from queue_engine.pipeline.source.part_reader import PartReader
from queue_engine.pipeline.source.read_options import HTTP, ReadOptions
from queue_engine.pipeline.source.read_plan import plan_parts
from queue_engine.pipeline.source.wanted_range import WantedRange
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
    client = LogClient(f"http://127.0.0.1:{engine.http_port}")
    context = JobContext(spark, lake, client, clock or SystemClock(), threading.Event(), reports.append)
    return Job(context, reports)


def publish(engine: EngineApi, topic: str, bodies: Sequence[bytes]) -> None:
    """As one batch."""
    parts = [len(bodies).to_bytes(4, "big")]
    for body in bodies:
        parts += [len(body).to_bytes(4, "big"), body]
    data = b"".join(parts)
    engine.http("POST", f"/mpub?topic={topic}&binary=true", data)


def published(engine: EngineApi, topic: str, *, is_replayed: bool) -> list[bytes]:
    """All bodies of a topic in order, none of them consumed; they are flagged as replayed, or none is."""
    client = LogClient(f"http://127.0.0.1:{engine.http_port}")
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
    found = LogClient(f"http://127.0.0.1:{engine.http_port}").cursor_list()
    (cursor,) = [one for one in found if (one.topic, one.cursor) == (topic, "archive")]
    return cursor


def archives(lake: Lake, topic: str = "") -> list[ArchiveManifest]:
    found = list(list_archives(lake, topic))
    for manifest in found:
        manifest.check()
    return found


def archive_of(lake: Lake, topic: str) -> ArchiveManifest:
    (manifest,) = archives(lake, topic)
    return manifest


def rows_of(lake: Lake, manifest: ArchiveManifest) -> pa.Table:
    """All rows of a topic's archive in the order of its files, each file checked against the manifest."""
    tables = []
    for one in manifest.files:
        path = Path(lake.within(f"{manifest.folder}/{one.path}"))
        assert path.stat().st_size == one.bytes
        table = pq.ParquetFile(path).read()
        offsets = table.column("offset").to_pylist()
        assert offsets == sorted(offsets)
        assert (len(offsets), offsets[0], offsets[-1] + 1) == (one.rows, one.first_offset, one.next_offset)
        assert {f"{time:%Y-%m-%d %H}" for time in table.column("published_at").to_pylist()} == {
            f"{one.date} {one.hour}"
        }
        tables.append(table)
    return pa.concat_tables(tables) if tables else pa.table({"offset": pa.array([], pa.int64())})


def bodies_of(lake: Lake, manifest: ArchiveManifest) -> list[bytes]:
    """In the order of their offsets, of which none comes twice."""
    table = rows_of(lake, manifest).sort_by("offset")
    offsets = table.column("offset").to_pylist()
    assert len(set(offsets)) == len(offsets)
    found: list[bytes] = table.column("body").to_pylist() if offsets else []
    return found


def data_files(lake: Lake) -> set[str]:
    """Every Parquet file below the archive, named by a manifest or not."""
    root = Path(lake.within("archive"))
    return {str(path.relative_to(lake.path)) for path in root.rglob("*") if path.suffix == ".parquet"}


def named_files(lake: Lake) -> set[str]:
    return {f"{manifest.folder}/{one.path}" for manifest in archives(lake) for one in manifest.files}
