"""Takes over the history of an earlier version: its files become files of the tables, where they lie.

The manifest stays as it is, and so do the files. Only a file with windows of two days, or with windows that do not
count, is written anew, as one file a day. Each table gets all of its files in one commit, the minutes last: until then
readers go on with the manifest. A conversion that was killed does again what is not committed.
"""

from collections.abc import Callable, Iterator

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from queue_engine.disk.no_follow import refuse_link
from queue_engine.pipeline.history.day_files import write_batches
from queue_engine.pipeline.history.history_tables import HistoryTables
from queue_engine.pipeline.history.levels import DAY_S, DIRECTORY, HOURS, MINUTES, date_of
from queue_engine.pipeline.history.old_manifest import OldFile, read_old_history
from queue_engine.pipeline.history.schema import HISTORY_ROWS, ORDER
from queue_engine.pipeline.lake.lake import Lake
from queue_engine.pipeline.tables.parquet_files import DataFile, existing_data_file
from queue_engine.pipeline.tables.storage import TableStorage
from queue_engine.vocabulary.errors import LakeDamagedError


def convert_history(lake: Lake, say: Callable[[str], None]) -> bool:
    """Convert an earlier version's history. Returns False when there is none, or that was done.

    The process holds the lake. say: takes a sentence for each table. Raises LakeDamagedError for a manifest or a file
    that can't be read; PipelineError, OSError. After an error nothing is lost, and the same call may be made again.
    """
    old = read_old_history(lake)
    if old is None:
        return False
    tables = HistoryTables(lake)
    did = False
    for level in (HOURS, MINUTES):
        if tables.is_converted(level):
            continue
        files = [made for one in old.of(level) for made in _data_files(lake, tables.storage, one, say)]
        tables.take_over(level, files, old)
        rows = sum(one.rows for one in files)
        say(f"{DIRECTORY}/{level}: {rows:,} windows in {len(files):,} files")
        did = True
    tables.write_summary()
    return did


def _data_files(lake: Lake, storage: TableStorage, file: OldFile, say: Callable[[str], None]) -> Iterator[DataFile]:
    place = lake.within(f"{DIRECTORY}/{file.path}")
    refuse_link(place)
    level, _, name = file.path.partition("/")
    day_s = file.first_s // DAY_S * DAY_S
    try:
        if file.from_s == 0 and file.end_s <= day_s + DAY_S:
            yield existing_data_file(storage, level, name, HISTORY_ROWS, {"date": date_of(day_s)})
            return
        rows = pq.ParquetFile(place).read().cast(HISTORY_ROWS)
    except FileNotFoundError:
        say(f"{place} is not there and is left out")
        return
    except (pa.ArrowException, OSError) as exc:
        raise LakeDamagedError(
            f"{place} can't be read ({str(exc).splitlines()[0]:.200}): bring it back from a backup, or move it away,"
            " then the history goes without it; nothing was converted of the files beside it"
        ) from exc
    counting = rows.filter(pc.field("t") >= file.from_s)
    by_day = counting.append_column("day_s", pc.divide(counting["t"], DAY_S))
    ordered = by_day.sort_by([(name, "ascending") for name in ("day_s", *ORDER)]).drop_columns("day_s")
    yield from write_batches(storage, level, ordered.to_batches())
