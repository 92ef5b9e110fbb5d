"""Files that another program has committed to an archive, without the statistics that ours have."""

from dataclasses import replace
from pathlib import Path

from queue_engine.lake.archive.archive_files import files_of
from queue_engine.lake.archive.archive_table import ArchivedIdentity, archive_table
from queue_engine.lake.replay.plan import ReplayStep, packed_offsets
from queue_engine.lake.replay.planning import files_with
from queue_engine.lake.replay.step_messages import StepMessages
from queue_engine.lake.tables.storage import TableStorage
from queue_engine.lake.tables.tables import LakeTables
from tests.pipeline.housekeeping.archived_table import ID_BASE, SERVER, commit, data_file

AT_MS = 1_763_640_000_000


def test_messages_of_a_file_without_statistics_are_found(tmp_path: Path):
    tables = LakeTables(TableStorage(tmp_path))
    commit(tables, "orders", 0, 10, AT_MS)
    table = archive_table(tables, "orders")
    file = replace(data_file(tables, "orders", 10, 20, AT_MS), statistics="{}")
    table.commit([file], "other", 1, after=None)
    ours, others = (one.path for one in sorted(table.files(), key=lambda one: one.path == file.path))
    source = ArchivedIdentity("orders", SERVER, 3, ID_BASE)
    steps = [ReplayStep(12, 14, 2, 14)]

    found = files_of(table, source, start_time_ms=AT_MS + 1, end_time_ms=AT_MS + 2)
    assert [one.path for one in found] == [others]
    assert [one.path for one in files_of(table, source, end_time_ms=AT_MS + 1)] == [ours, others]
    assert files_with(table.files(), steps) == (others,)
    messages = StepMessages(tables, source, steps, [packed_offsets([12, 13])])
    assert messages.messages(0) == ([b"body 12", b"body 13"], [b"", b""])
    messages.close()
