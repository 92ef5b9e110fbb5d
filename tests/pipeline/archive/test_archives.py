"""The commits of a step: killed between both, done again, refused or lost, each message and each gap counts once."""

import shutil
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest

from queue_engine.lake.archive import archives as archives_module
from queue_engine.lake.archive.archive_gap import BEGIN, DAMAGED, GONE, REPLAYED, ArchiveGap
from queue_engine.lake.archive.archive_table import FILE_COLUMNS, ArchivedIdentity, archive_path, archive_table
from queue_engine.lake.archive.archives import Archives, Commit
from queue_engine.lake.archive.gaps import ABSENT, GAPS, Gaps, gaps_to
from queue_engine.lake.archive.lake_identity import NAME
from queue_engine.lake.archive.summary import SUMMARY_NAME, read_summary
from queue_engine.lake.directory.lake import Lake
from queue_engine.lake.tables.housekeeping import merge
from queue_engine.lake.tables.parquet_files import DataFile, write_data_file
from queue_engine.lake.tables.storage import TableStorage
from queue_engine.lake.tables.tables import LakeTables
from queue_engine.vocabulary.errors import LakeDamagedError, PipelineError, StoreError, TableTransactionError
from queue_engine.wire.cursor import CursorGapStats, CursorStats
from tests.pipeline.archive_reading import Archived, archive_of
from tests.pipeline.archive_reading import archives as archives_in
from tests.support.clock import ManualClock

SERVER = "5f1c"
ORDERS = ArchivedIdentity("orders", SERVER, 3, 0xABC)
TIME = datetime(2026, 11, 20, 12, tzinfo=UTC)


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    lake = Lake(str(tmp_path / "pipeline"), clock=ManualClock())
    with lake.lock():
        yield lake


def opened(lake: Lake) -> Archives:
    """As a process that has just started."""
    return Archives(lake, LakeTables(TableStorage(lake.path)), SERVER, ManualClock())


def file(lake: Lake, first: int, after: int, one: ArchivedIdentity = ORDERS) -> DataFile:
    offsets = list(range(first, after))
    columns = [
        offsets,
        [TIME] * len(offsets),
        [f"{one.id_base + offset:016x}" for offset in offsets],
        [None] * len(offsets),
        [b"%d" % offset for offset in offsets],
        [False] * len(offsets),
        [one.server] * len(offsets),
    ]
    table = pa.table(dict(zip(FILE_COLUMNS.names, columns, strict=True)), schema=FILE_COLUMNS)
    path = archive_path(one.topic)
    return write_data_file(TableStorage(lake.path), path, FILE_COLUMNS, {"date": "2026-11-20"}, [table])


def commit(archives: Archives, *commits: Commit) -> None:
    for error in archives.commit(commits).values():
        if error is not None:
            raise error


def reasons(one: Archived) -> list[tuple[int, int, str, int]]:
    return [(gap.first_offset, gap.next_offset, gap.reason, gap.count) for gap in one.gaps]


def test_rows_and_gaps_add_up_and_are_summed_up(lake: Lake) -> None:
    archives = opened(lake)
    assert archives.next_offset(ORDERS) is None
    damaged = ArchiveGap(12, 14, DAMAGED, 5)
    commit(archives, Commit(ORDERS, 10, 20, True, [file(lake, 10, 12), file(lake, 14, 20)], [damaged]))
    commit(archives, Commit(ORDERS, 20, 25, False, [file(lake, 20, 23)], [ArchiveGap(23, 25, ABSENT, 6)]))
    assert archives.next_offset(ORDERS) == 25
    one = archive_of(lake, "orders")
    assert (one.begin_offset, one.next_offset, one.version) == (10, 25, 2)
    assert reasons(one) == [(12, 14, "damaged", 2), (23, 25, "absent", 2)]
    archives.summary.write(is_last=True)
    found = (read_summary(lake) or {})["orders"]
    assert (found.first_offset, found.next_offset, found.rows, found.file_count) == (10, 25, 11, 3)
    assert (found.damaged_count, found.table_version, found.server) == (2, 2, SERVER)
    assert found.first_time_ms == found.last_time_ms == int(TIME.timestamp() * 1000)
    # Lost or damaged, it is made anew from the tables.
    for change in (lambda path: path.unlink(), lambda path: path.write_bytes(b"{}\n")):
        change(Path(lake.within(SUMMARY_NAME)))
        anew = opened(lake).summary.topics["orders"]
        assert anew == type(found)(**{**_fields(found), "committed_ms": anew.committed_ms})


def _fields(one: object) -> dict[str, object]:
    return {name: getattr(one, name) for name in one.__slots__}  # type: ignore[attr-defined]


def test_the_messages_of_each_topic_that_had_the_name_are_counted(lake: Lake) -> None:
    archives = opened(lake)
    anew = ArchivedIdentity("orders", SERVER, 7, 0xF00)
    # Of another server, which has the ids of the first one.
    other = ArchivedIdentity("orders", "0000", 9, 0xABC)
    for one, count in ((ORDERS, 30), (other, 20), (anew, 4)):
        commit(archives, Commit(one, 0, count, True, [file(lake, 0, count, one)]))
    expected = [(SERVER, 7, 4), (SERVER, 3, 30), ("0000", 9, 20)]

    def counted(archives: Archives) -> list[tuple[str, int, int]]:
        return [(one.server, one.number, one.rows) for one in archives.summary.topics["orders"].incarnations]

    assert counted(archives) == expected
    commit(archives, Commit(anew, 4, 5, False, [file(lake, 4, 5, anew)]))
    expected[0] = (SERVER, 7, 5)
    assert counted(archives) == expected
    # Another program puts the messages of all into one file: then rows are counted, not files.
    table = archive_table(LakeTables(TableStorage(lake.path)), "orders")
    table.refresh()
    merge(table, table.files())
    archives.sum_up_again(["orders"])
    assert (archives.summary.topics["orders"].file_count, counted(archives)) == (1, expected)
    archives.summary.write(is_last=True)
    assert counted(opened(lake)) == expected
    # A summary of before they were counted.
    content = dict(lake.read_manifest(SUMMARY_NAME) or {})
    del content["topics"][0]["incarnations"]
    lake.write_manifest(SUMMARY_NAME, content)
    archives = opened(lake)
    assert counted(archives) == []
    commit(archives, Commit(anew, 5, 6, False, [file(lake, 5, 6, anew)]))
    expected[0] = (SERVER, 7, 6)
    assert counted(archives) == expected


def test_a_table_that_housekeeping_changed_is_summed_up_again(lake: Lake) -> None:
    archives = opened(lake)
    commit(archives, Commit(ORDERS, 0, 10, True, [file(lake, 0, 10)]))
    commit(archives, Commit(ORDERS, 10, 20, False, [file(lake, 10, 20)]))
    other = archive_table(LakeTables(TableStorage(lake.path)), "orders")
    other.refresh()
    merge(other, sorted(other.files(), key=lambda one: int(one.minimum["offset"])))
    archives.sum_up_again(["orders", "unknown"])
    one = archives.summary.topics["orders"]
    assert (one.file_count, one.rows, one.next_offset, one.table_version) == (1, 20, 20, 3)
    assert archives.next_offset(ORDERS) == 20


def killed_behind_the_gaps(lake: Lake, one: Commit) -> None:
    """As a process leaves it that was killed between the commit of the gaps and that of the messages."""
    archives = opened(lake)
    archives._commit_messages = lambda _: PipelineError("killed")  # type: ignore[method-assign,assignment,return-value]
    with pytest.raises(PipelineError, match="killed"):
        commit(archives, one)
    assert Gaps(LakeTables(TableStorage(lake.path))).next_offsets([one.identity]) == [one.next_offset]


def test_killed_between_gaps_and_messages_the_same_step_counts_each_gap_once(lake: Lake) -> None:
    commit(opened(lake), Commit(ORDERS, 0, 10, True, [file(lake, 0, 10)]))
    gaps = [ArchiveGap(12, 14, DAMAGED, 5), ArchiveGap(15, 19, REPLAYED, 5, 3)]
    killed_behind_the_gaps(lake, Commit(ORDERS, 10, 20, False, [], gaps))
    archives = opened(lake)
    assert archives.next_offset(ORDERS) == 10
    files = [file(lake, 10, 12), file(lake, 14, 16), file(lake, 19, 20)]
    commit(archives, Commit(ORDERS, 10, 20, False, files, gaps))
    assert reasons(archive_of(lake, "orders")) == [(12, 14, "damaged", 2), (15, 19, "replayed", 3)]


def test_killed_in_the_first_step_it_begins_once(lake: Lake) -> None:
    killed_behind_the_gaps(lake, Commit(ORDERS, 5, 20, True, [file(lake, 5, 20)]))
    commit(opened(lake), Commit(ORDERS, 5, 20, True, [file(lake, 5, 20)]))
    one = archive_of(lake, "orders")
    assert (one.begin_offset, one.next_offset, one.gaps) == (5, 20, ())


@pytest.mark.parametrize(
    ("begin", "expected"),
    [
        (13, [(10, 13, "gone", 3), (13, 14, "damaged", 1)]),
        (20, [(10, 20, "gone", 10)]),
        (30, [(10, 30, "gone", 20)]),
    ],
)
def test_what_the_log_has_lost_since_such_a_kill_is_a_gap_in_the_place_of_those_that_were_there(
    lake: Lake, begin: int, expected: list[tuple[int, int, str, int]]
) -> None:
    commit(opened(lake), Commit(ORDERS, 0, 10, True, [file(lake, 0, 10)]))
    killed_behind_the_gaps(lake, Commit(ORDERS, 10, 20, False, [], [ArchiveGap(12, 14, DAMAGED, 5)]))
    archives = opened(lake)
    commit(archives, Commit(ORDERS, 10, begin, False, [], [ArchiveGap(10, begin, GONE, 6)]))
    files = [file(lake, max(begin, 14), 40)]
    commit(archives, Commit(ORDERS, begin, 40, False, files, [ArchiveGap(13, 14, DAMAGED, 7)] if begin == 13 else []))
    one = archive_of(lake, "orders")
    assert one.next_offset == 40
    assert reasons(one) == expected
    assert archives.summary.topics["orders"].gaps == one.gaps


def test_a_step_behind_a_killed_one_may_end_elsewhere_and_other_topics_gaps_stay(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    clicks = ArchivedIdentity("clicks", SERVER, 4, 0xDEF)
    archives = opened(lake)
    commit_messages = archives._commit_messages
    monkeypatch.setattr(
        archives,
        "_commit_messages",
        lambda one: PipelineError("killed") if one.identity == ORDERS else commit_messages(one),
    )
    first = [
        Commit(ORDERS, 0, 20, True, [], [ArchiveGap(5, 19, REPLAYED, 5, 7)]),
        Commit(clicks, 0, 4, True, [file(lake, 0, 3, clicks)], [ArchiveGap(3, 4, ABSENT, 5)]),
    ]
    assert [type(error) for error in archives.commit(first).values()] == [PipelineError, type(None)]
    archives = opened(lake)
    for begin, first, after, end in ((0, 5, 7, 10), (10, 12, 17, 19), (19, 20, 21, 30)):
        files = [file(lake, begin, first), file(lake, after, end)]
        commit(archives, Commit(ORDERS, begin, end, begin == 0, files, [ArchiveGap(first, after, REPLAYED, 6)]))
    assert reasons(archive_of(lake, "orders")) == [
        (5, 7, "replayed", 2),
        (12, 17, "replayed", 5),
        (20, 21, "replayed", 1),
    ]
    assert reasons(archive_of(lake, "clicks")) == [(3, 4, "absent", 1)]


def test_a_commit_of_many_topics_is_one_of_gaps_and_one_refused_topic_stops_no_other(lake: Lake) -> None:
    archives = opened(lake)
    others = [ArchivedIdentity(f"t{number}", SERVER, number, 1 + number) for number in range(6)]
    archives.commit([Commit(one, 0, 2, True, [file(lake, 0, 2, one)]) for one in others])
    assert {one.version for one in archives_in(lake)} == {1}
    assert archive_table(LakeTables(TableStorage(lake.path)), "t0").version == 1
    # Another server of the same identity, as from a copied directory, moves one of them on.
    stranger = archive_table(LakeTables(TableStorage(lake.path)), "t3")
    stranger.commit([], others[3].app_id, 3, after=2)
    errors = archives.commit([Commit(one, 2, 4, False, [file(lake, 2, 4, one)]) for one in others])
    assert [one.topic for one, error in errors.items() if error is not None] == ["t3"]
    assert isinstance(errors[others[3]], TableTransactionError)
    assert archives.next_offset(others[3]) == 3
    assert [archives.next_offset(one) for one in others if one != others[3]] == [4] * 5


def test_topics_of_two_servers_and_numbers_share_a_table_and_are_told_apart(lake: Lake) -> None:
    archives = opened(lake)
    anew = ArchivedIdentity("orders", SERVER, 4, 0xDEF)
    commit(archives, Commit(ORDERS, 0, 3, True, [file(lake, 0, 3)]))
    commit(archives, Commit(anew, 0, 2, True, [file(lake, 0, 2, anew)]))
    other = ArchivedIdentity("orders", "other", 9, 0xABC)
    commit(
        Archives(lake, LakeTables(TableStorage(lake.path)), "other", ManualClock()),
        Commit(other, 0, 5, True, [file(lake, 0, 5, other)]),
    )
    found = {one.identity: one.rows.num_rows for one in archives_in(lake)}
    assert found == {ORDERS: 3, anew: 2, other: 5}
    Path(lake.within(SUMMARY_NAME)).unlink(missing_ok=True)
    shown = opened(lake).summary.topics["orders"]
    assert (shown.number, shown.next_offset, shown.rows) == (4, 2, 10), "the newest of this server, and all rows"


def test_a_lake_keeps_its_identity_and_a_damaged_one_is_refused(lake: Lake) -> None:
    identity = opened(lake).identity
    assert opened(lake).identity == identity
    path = Path(lake.within(NAME))
    data = path.read_bytes()
    path.unlink()
    assert opened(lake).identity == identity, "two that begin it at once find the same"
    path.write_bytes(data.replace(identity[:4].encode(), b"0000"))
    with pytest.raises(LakeDamagedError, match="the lake's identity can't be read"):
        opened(lake)


def test_where_the_store_fails_nothing_counts_and_the_next_try_goes_on(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    archives = opened(lake)
    one = Commit(ORDERS, 0, 3, True, [file(lake, 0, 3)], [ArchiveGap(3, 5, ABSENT, 1)])

    def refuse(*_: object) -> None:
        raise StoreError("the store does not answer")

    with monkeypatch.context() as patch:
        patch.setattr(archives_module.Gaps, "commit", refuse)
        with pytest.raises(StoreError):
            archives.commit([one])
    assert archives_in(lake) == []
    commit(archives, Commit(ORDERS, 0, 5, True, one.files, one.gaps))
    assert archive_of(lake, "orders").reasons == [(3, 5, "absent")]


def gaps_in(lake: Lake, topic: str = "orders") -> dict[ArchivedIdentity, list[tuple[int, int, str]]]:
    found = Gaps(LakeTables(TableStorage(lake.path))).read(topic)
    return {
        one: [(gap.first_offset, gap.next_offset, gap.reason) for gap in gaps if gap.reason != ABSENT]
        for one, gaps in found.items()
    }


def lose_gaps(lake: Lake, archives: Archives) -> None:
    archives.summary.write(is_last=True)
    shutil.rmtree(lake.within(GAPS))


def test_gaps_made_anew_have_each_topic_that_had_the_name(lake: Lake, tmp_path: Path) -> None:
    archives = opened(lake)
    anew = ArchivedIdentity("orders", SERVER, 7, 0xF00)
    other = ArchivedIdentity("orders", "0000", 9, 0xABC)
    other_lake = Lake(str(tmp_path / "other"), clock=ManualClock())

    def other_opened() -> Archives:
        return Archives(other_lake, LakeTables(TableStorage(lake.path)), other.server, ManualClock())

    damaged = ArchiveGap(15, 20, DAMAGED, 5)
    with other_lake.lock():
        other_archives = other_opened()
        commit(other_archives, Commit(other, 2, 20, True, [file(lake, 2, 15, other)], [damaged]))
        other_archives.summary.write(is_last=True)
    commit(archives, Commit(ORDERS, 5, 30, True, [file(lake, 5, 30)]))
    commit(archives, Commit(anew, 0, 4, True, [file(lake, 0, 3, anew)], [ArchiveGap(3, 4, DAMAGED, 5)]))
    table = archive_table(LakeTables(TableStorage(lake.path)), "orders")
    table.refresh()
    listed = archives.summary.topics["orders"].incarnations
    assert [one.rows for one in listed] == [3, 25, 13]
    lose_gaps(lake, archives)
    own = {ORDERS: [(5, 5, BEGIN)], anew: [(0, 0, BEGIN), (3, 4, DAMAGED)]}
    archives = opened(lake)
    assert gaps_in(lake) == {**own, other: [(2, 2, BEGIN)]}, "what this server knows of the other one"
    merge(table, table.files())
    archives.sum_up_again(["orders"])
    assert archives.summary.topics["orders"].incarnations == listed
    for _ in range(2):
        with other_lake.lock():
            other_opened()
        opened(lake)
        assert gaps_in(lake) == {**own, other: [(2, 2, BEGIN), (15, 20, DAMAGED)]}, "each once"


def test_gaps_made_anew_behind_a_table_that_was_put_back_count_once(lake: Lake, tmp_path: Path) -> None:
    archives = opened(lake)
    commit(archives, Commit(ORDERS, 0, 10, True, [file(lake, 0, 10)]))
    place = lake.within(archive_path("orders"))
    shutil.copytree(place, tmp_path / "backup")
    step = Commit(ORDERS, 10, 20, False, [file(lake, 10, 15)], [ArchiveGap(15, 20, DAMAGED, 5)])
    commit(archives, step)
    lose_gaps(lake, archives)
    shutil.rmtree(place)
    shutil.copytree(tmp_path / "backup", place)
    archives = opened(lake)
    assert archives.begin_again(ORDERS, 20, 10) == 10
    commit(archives, Commit(ORDERS, 10, 20, False, [file(lake, 10, 15)], step.gaps))
    # `archive_of` checks that rows and gaps add up.
    assert reasons(archive_of(lake, "orders")) == [(15, 20, "damaged", 5)]


@pytest.mark.parametrize("is_identity_gone", [False, True])
def test_gaps_are_made_anew_where_their_table_is_there_and_empty(lake: Lake, is_identity_gone: bool) -> None:
    archives = opened(lake)
    commit(archives, Commit(ORDERS, 5, 20, True, [file(lake, 5, 15)], [ArchiveGap(15, 20, DAMAGED, 5)]))
    lose_gaps(lake, archives)
    if is_identity_gone:
        Path(lake.within(NAME)).unlink()
    else:
        # Killed between the table and its first commit.
        assert Gaps(LakeTables(TableStorage(lake.path))).table_id
    for _ in range(2):
        opened(lake)
        assert gaps_in(lake) == {ORDERS: [(5, 5, BEGIN), (15, 20, DAMAGED)]}


def test_a_damaged_table_stops_no_other_when_the_gaps_are_made_anew(lake: Lake) -> None:
    archives = opened(lake)
    clicks = ArchivedIdentity("clicks", SERVER, 4, 0xDEF)
    clicks_anew = ArchivedIdentity("clicks", SERVER, 5, 0xFFF)
    for one in (ORDERS, clicks, clicks_anew):
        commit(archives, Commit(one, 5, 20, True, [file(lake, 5, 20, one)]))
    lose_gaps(lake, archives)
    first = Path(lake.within(archive_path("clicks"))) / "_delta_log" / f"{0:020}.json"
    data = first.read_bytes()
    first.write_bytes(b"{}\n")
    archives = opened(lake)
    assert gaps_in(lake, "") == {ORDERS: [(5, 5, BEGIN)]}
    assert archives.next_offset(ORDERS) == 20
    errors = {topic: bool(one.error) for topic, one in archives.summary.topics.items()}
    assert errors == {"orders": False, "clicks": True}
    first.write_bytes(data)
    opened(lake)
    assert gaps_in(lake, "") == {one: [(5, 5, BEGIN)] for one in (ORDERS, clicks, clicks_anew)}


def test_no_gaps_are_written_to_a_lake_that_the_summary_is_not_of(lake: Lake, tmp_path: Path) -> None:
    archives = opened(lake)
    commit(archives, Commit(ORDERS, 5, 20, True, [file(lake, 5, 15)], [ArchiveGap(15, 20, DAMAGED, 5)]))
    archives.summary.write(is_last=True)
    elsewhere = LakeTables(TableStorage(str(tmp_path / "elsewhere")))
    Archives(lake, elsewhere, SERVER, ManualClock())
    assert Gaps(elsewhere).read() == {}


def cursor(*, offset: int, gaps: list[tuple[int, int, str]]) -> CursorStats:
    return CursorStats(
        cursor="archive",
        topic="orders",
        number=3,
        id_base=0xABC,
        offset=offset,
        end_offset=offset,
        synced_offset=offset,
        oldest_offset=0,
        depth=0,
        lag_bytes=0,
        retention_bytes=0,
        created_ms=1,
        is_warned=False,
        gaps=tuple(CursorGapStats(first, after, reason, 7) for first, after, reason in gaps),
    )


@pytest.mark.parametrize(
    ("offset", "given", "expected"),
    [
        (100, [], [(50, 100, "off")]),
        (60, [], [(50, 100, "gone")]),
        (100, [(0, 50, "retention")], [(50, 100, "off")]),
        (100, [(40, 70, "retention"), (70, 100, "retention")], [(50, 70, "retention"), (70, 100, "retention")]),
        (100, [(60, 70, "retention")], [(50, 60, "off"), (60, 70, "retention"), (70, 100, "off")]),
    ],
)
def test_what_lies_before_the_place_where_it_goes_on_is_a_gap_with_its_reason(
    offset: int, given: list[tuple[int, int, str]], expected: list[tuple[int, int, str]]
) -> None:
    found = gaps_to(50, cursor(offset=offset, gaps=given), 100, 5)
    assert [(gap.first_offset, gap.next_offset, gap.reason) for gap in found] == expected
    assert sum(gap.count for gap in found) == 50
    assert BEGIN not in {gap.reason for gap in found}
