"""Writes the history rows of a Spark frame to one staged Parquet file, sorted, in row groups that a reader can skip."""

import os
from dataclasses import dataclass

import pyarrow.parquet as pq
from pyspark.sql import DataFrame

from queue_engine.disk.no_follow import refuse_link
from queue_engine.pipeline.history.manifest import HistoryFile
from queue_engine.pipeline.history.schema import ORDER, WINDOW_S
from queue_engine.pipeline.lake.lake import Lake

ROW_GROUP_ROWS = 65_536


@dataclass(frozen=True, slots=True)
class StagedFile:
    """A staged file, which does not count yet. directory: its directory in staging, removed after publishing. file: its
    entry in the manifest."""

    directory: str
    staged: str
    file: HistoryFile

    @property
    def move(self) -> tuple[str, str]:
        """For `Lake.publish`."""
        return self.staged, f"history/{self.file.path}"


def stage(lake: Lake, rows: DataFrame, level: str, kind: str, *, day: str | None, source: str) -> StagedFile | None:
    """Compute rows (in: `HISTORY_ROWS` of `level`) and write them to the lake's staging; None when there are none.

    Raises Spark's errors, OSError.
    """
    name = lake.data_name(f"{kind}.parquet")
    directory = f"{lake.staging()}/{name}"
    # repartition, not coalesce: the work before it stays parallel, and a stateful stream keeps its partitions.
    (
        rows.repartition(1)
        .sortWithinPartitions(*ORDER)
        .write.option("compression", "zstd")
        .option("parquet.block.row.count.limit", str(ROW_GROUP_ROWS))
        .parquet(spark_path(lake, directory))
    )
    parts = [one for one in os.listdir(lake.within(directory)) if one.startswith("part-")]
    if len(parts) > 1:
        raise AssertionError(f"one partition gave {len(parts)} files")
    if not parts:
        lake.remove_staged(directory)
        return None
    staged = f"{directory}/{parts[0]}"
    file = described(lake, staged, level, kind, path=f"{level}/{name}", day=day, source=source)
    if not file.rows:
        lake.remove_staged(directory)
        return None
    return StagedFile(directory, staged, file)


def spark_path(lake: Lake, path: str) -> str:
    """A lake's path for Spark, on this machine's file system, whatever file system a cluster has as its default."""
    return f"file://{os.path.abspath(lake.within(path))}"


def described(
    lake: Lake, staged: str, level: str, kind: str, *, path: str, day: str | None, source: str
) -> HistoryFile:
    """The manifest's entry for a staged file, made from the file's footer."""
    place = lake.within(staged)
    refuse_link(place)
    with pq.ParquetFile(place) as opened:
        footer = opened.metadata
        at = opened.schema_arrow.get_field_index("t")
        groups = [footer.row_group(number).column(at).statistics for number in range(footer.num_row_groups)]
    first_s = min((group.min for group in groups if group), default=0)
    last_s = max((group.max for group in groups if group), default=0)
    return HistoryFile(
        level=level,
        kind=kind,
        path=path,
        first_s=first_s,
        end_s=last_s + WINDOW_S[level],
        rows=footer.num_rows,
        bytes=os.path.getsize(place),
        day=day,
        source=source,
    )
