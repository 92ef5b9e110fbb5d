"""Archives of an earlier version, converted and then merged: the same messages, and the first files go in the end."""

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from queue_engine.client.log_api.log_client import LogClient
from queue_engine.lake.archive.archive_table import ArchivedIdentity, archive_table
from queue_engine.lake.archive.archives import Archives, Commit
from queue_engine.lake.archive.old_manifest import check_converted
from queue_engine.lake.directory.lake import Lake
from queue_engine.lake.housekeeping.choices import DAY_MS
from queue_engine.lake.housekeeping.housekeeping import Housekeeping
from queue_engine.lake.job.archive_settings import ArchiveSettings
from queue_engine.lake.job.context import JobContext
from queue_engine.lake.tables.storage import TableStorage
from queue_engine.lake.tables.tables import LakeTables
from tests.pipeline.archive.test_archives import file
from tests.pipeline.archive_reading import Archived, archives, data_files, named_files
from tests.support.clock import ManualClock
from tests.support.lakes.converted_archive import converted_archive

SERVER = "5f1c"
BASES = {3: 0xABC, 4: 0xDEF}


def check_all(lake: Lake) -> None:
    found = archives(lake)
    assert [(one.identity.topic, one.identity.number) for one in found] == [("clicks", 5), ("orders", 3), ("orders", 4)]
    for one in found:
        check_one(one)


def check_one(one: Archived) -> None:
    assert (one.begin_offset, one.next_offset) == (10, 50)
    assert one.bodies == [b"%d" % offset for offset in (*range(10, 20), *range(25, 45))]
    assert [(gap.reason, gap.count) for gap in one.gaps] == [("replayed", 5), ("retention", 5)]
    assert one.rows.column("server").null_count == 30


@pytest.fixture
def clock() -> ManualClock:
    """Now, as delta-rs judges by the machine's clock what was replaced; long after the messages."""
    return ManualClock(time_ns=time.time_ns())


@pytest.fixture
def lake(tmp_path: Path, clock: ManualClock) -> Iterator[Lake]:
    """With three converted archives of two files each, two of them of topics of one name."""
    lake = Lake(str(tmp_path / "pipeline"), clock=clock)
    with lake.lock():
        for topic, number, id_base in (*(("orders", *one) for one in BASES.items()), ("clicks", 5, 0x123)):
            identity = ArchivedIdentity(topic, SERVER, number, id_base)
            converted_archive(lake, tables_of(lake, clock), clock, identity)
        yield lake


def tables_of(lake: Lake, clock: ManualClock) -> LakeTables:
    return LakeTables(TableStorage(lake.path), clock=clock)


def housekeeping(lake: Lake, clock: ManualClock, **settings: int) -> Housekeeping:
    engine, given = LogClient("http://127.0.0.1:1"), ArchiveSettings(**settings)
    context = JobContext(None, lake, engine, clock, threading.Event(), lambda _: None, archive=given)
    return Housekeeping(context, tables_of(lake, clock))


def test_their_messages_are_the_same_and_no_file_has_two_topics(lake: Lake, clock: ManualClock) -> None:
    before = data_files(lake)

    run = housekeeping(lake, clock).run()

    assert (run.merged_files, run.made_files, run.problems) == (6, 3, ())
    check_all(lake)
    named = archive_table(tables_of(lake, clock), "orders").files()
    bounds = [[one.minimum, one.maximum] for one in named]
    bases = [{int(one["message_id"], 16) - one["offset"] for one in both} for both in bounds]
    assert sorted(bases, key=min) == [{base} for base in BASES.values()]
    assert before < data_files(lake), "readers of the version before have their files"


def test_the_first_files_go_with_vacuum(lake: Lake, clock: ManualClock) -> None:
    before = data_files(lake)
    housekeeping(lake, clock).run()
    clock.advance(ms=DAY_MS)

    assert housekeeping(lake, clock, vacuum_ms=0).run().removed_files == 6

    assert not before & data_files(lake)
    assert data_files(lake) == named_files(lake)
    check_all(lake)
    check_converted(lake, tables_of(lake, clock), SERVER)


def test_the_archive_goes_on_in_the_merged_table(lake: Lake, clock: ManualClock) -> None:
    housekeeping(lake, clock).run()
    orders = ArchivedIdentity("orders", SERVER, 4, BASES[4])
    goes_on = Archives(lake, tables_of(lake, clock), SERVER, clock)
    assert goes_on.next_offset(orders) == 50

    assert goes_on.commit([Commit(orders, 50, 53, False, [file(lake, 50, 53, orders)])]) == {orders: None}
    clock.advance(ms=DAY_MS)
    assert not housekeeping(lake, clock, vacuum_ms=0).run().problems

    older, newer = archives(lake, "orders")
    check_one(older)
    assert (newer.next_offset, newer.bodies[-4:]) == (53, [b"44", b"50", b"51", b"52"])
    assert newer.rows.sort_by("offset").column("server").to_pylist() == [None] * 30 + [SERVER] * 3
