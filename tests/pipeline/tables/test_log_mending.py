"""What is found of a table's log when it is opened: torn by a power cut, or damaged."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from queue_engine.lake.tables.housekeeping import clean_log
from queue_engine.lake.tables.log_mending import mend_log
from queue_engine.lake.tables.storage import TableStorage
from queue_engine.lake.tables.table import CommitResult, LakeTable
from queue_engine.lake.tables.tables import LakeTables
from queue_engine.storage.disk.files import Files
from queue_engine.vocabulary.errors import TableCheckpointError, TableDamagedError, TableFormatError, TableSchemaError
from tests.pipeline.tables.table_places import APP, PATH, SCHEMA, data_file, names_in, offsets_of

COMMITS = 6
CHECKPOINT = 4


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lake whose table has COMMITS commits behind its creation, ten offsets each, and a checkpoint."""
    lake = tmp_path_factory.mktemp("whole") / "lake"
    storage = TableStorage(lake)
    table = LakeTables(storage).open(PATH, SCHEMA)
    for number in range(1, COMMITS + 1):
        commit(table, number)
        if number == CHECKPOINT:
            table.checkpoint()
    return lake


@pytest.fixture
def lake(whole: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(whole, tmp_path / "lake"))


def commit(table: LakeTable, number: int) -> CommitResult:
    file = data_file(table.storage, number * 10 - 10, number * 10)
    return table.commit([file], APP, number * 10, after=number * 10 - 10 or None)


def opened(lake: Path) -> LakeTable:
    return LakeTables(TableStorage(lake)).open(PATH, SCHEMA)


def log(lake: Path) -> Path:
    return lake / PATH / "_delta_log"


def commit_file(lake: Path, version: int) -> Path:
    return log(lake) / f"{version:020d}.json"


def checkpoint_file(lake: Path, version: int = CHECKPOINT) -> Path:
    return log(lake) / f"{version:020d}.checkpoint.parquet"


def test_a_last_commit_that_is_cut_anywhere_is_moved_aside_and_made_again(lake: Path) -> None:
    last = commit_file(lake, COMMITS)
    data = last.read_bytes()
    # Between two lines it can be read as a smaller commit: rows without their transaction.
    ends = [index + 1 for index, byte in enumerate(data) if byte == ord("\n")]
    for cut in (0, 1, *ends, len(data) // 2, len(data) - 1):
        for torn in (data[:cut], data[:cut] + bytes(len(data) - cut)):
            last.write_bytes(torn)
            assert opened(lake).transaction(APP) == 10 * COMMITS - 10, cut
            assert not last.exists()
    table = opened(lake)
    assert offsets_of(table) == list(range(10 * COMMITS - 10))
    assert commit(table, COMMITS) is CommitResult.COMMITTED
    assert offsets_of(opened(lake)) == list(range(10 * COMMITS))
    asides = [name for name in names_in(log(lake)) if ".torn-" in name]
    assert len(asides) == 2 * (len(ends) + 4)
    clean_log(table, keep_ms=-1000)
    assert not [name for name in names_in(log(lake)) if ".torn-" in name]


def test_a_table_whose_creation_was_cut_begins_anew(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    opened(lake).create()
    first = commit_file(lake, 0)
    for cut in range(0, first.stat().st_size, 100):
        data = first.read_bytes()
        first.write_bytes(data[:cut])
        table = opened(lake)
        assert table.transaction(APP) is None
        table.create()
        assert opened(lake).version == 0


DAMAGES: dict[str, Callable[[Path], object]] = {
    "gone": lambda path: path.unlink(),
    "empty": lambda path: path.write_bytes(b""),
    "half": lambda path: path.write_bytes(path.read_bytes()[: path.stat().st_size // 2]),
    "zeros": lambda path: path.write_bytes(bytes(path.stat().st_size)),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
@pytest.mark.parametrize("is_hint_gone", [False, True])
def test_a_torn_checkpoint_costs_nothing_while_its_commits_are_there(
    lake: Path, damage: Callable[[Path], object], is_hint_gone: bool
) -> None:
    damage(checkpoint_file(lake))
    if is_hint_gone:
        (log(lake) / "_last_checkpoint").unlink()
    table = opened(lake)
    assert (table.transaction(APP), offsets_of(table)) == (10 * COMMITS, list(range(10 * COMMITS)))
    assert table.checkpoint()
    assert DeltaTable(table.place).transaction_version(APP) == 10 * COMMITS


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_torn_last_checkpoint_costs_nothing(lake: Path, damage: Callable[[Path], object]) -> None:
    damage(log(lake) / "_last_checkpoint")
    assert opened(lake).transaction(APP) == 10 * COMMITS
    assert DeltaTable(lake / PATH).transaction_version(APP) == 10 * COMMITS


def test_a_checkpoint_of_another_program_is_read_when_its_commits_are_gone(lake: Path) -> None:
    DeltaTable(lake / PATH).create_checkpoint()
    for version in range(COMMITS):
        commit_file(lake, version).unlink()
    assert opened(lake).transaction(APP) == 10 * COMMITS
    assert b"penstock.crc32c" in (log(lake) / "_last_checkpoint").read_bytes()


def test_a_damaged_checkpoint_whose_commits_are_gone_is_named(lake: Path) -> None:
    table = opened(lake)
    clean_log(table, keep_ms=-1000)
    commit(table, COMMITS + 1)
    path = checkpoint_file(lake, COMMITS)
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    before = names_in(log(lake))
    with pytest.raises(TableCheckpointError, match=r"6\.checkpoint\.parquet is damaged, .* restore it from a backup"):
        opened(lake).transaction(APP)
    assert names_in(log(lake)) == before


@pytest.mark.parametrize(
    ("damage", "found"),
    [(damage, "is missing" if name == "gone" else "can't be read") for name, damage in DAMAGES.items()],
)
def test_a_damaged_commit_in_the_middle_is_named(lake: Path, damage: Callable[[Path], object], found: str) -> None:
    damage(commit_file(lake, COMMITS - 1))
    before = names_in(log(lake))
    with pytest.raises(
        TableDamagedError, match=rf"0005\.json {found}, and there are later commits: the table is damaged"
    ):
        opened(lake).transaction(APP)
    assert names_in(log(lake)) == before


class ListedAmidCommits(Files):
    """Lists a directory as the system may while others write: without the files that a list has passed already."""

    def __init__(self, write: Callable[[], object]) -> None:
        self._write = write

    def listdir(self, directory: str) -> list[str]:
        before = super().listdir(directory)
        self._write()
        added = sorted(set(super().listdir(directory)) - set(before))
        return [*before, *added[-1:]]


def test_a_log_that_is_listed_while_others_commit_is_not_damaged(lake: Path) -> None:
    other, numbers = opened(lake), iter(range(COMMITS + 1, 100))

    def commit_two() -> None:
        commit(other, next(numbers))
        commit(other, next(numbers))

    before = names_in(log(lake))
    mend_log(TableStorage(lake, files=ListedAmidCommits(commit_two)), PATH)
    assert not set(before) - set(names_in(log(lake)))


def test_a_commit_of_another_program_counts(lake: Path) -> None:
    other = DeltaTable(lake / PATH)
    other.delete("offset < 15")
    table = opened(lake)
    assert table.transaction(APP) == 10 * COMMITS
    assert offsets_of(table) == list(range(15, 10 * COMMITS))
    assert commit(table, COMMITS + 1) is CommitResult.COMMITTED


def test_a_table_that_got_another_column_is_refused_and_waits(lake: Path) -> None:
    from deltalake.schema import Field

    table = opened(lake)
    assert table.transaction(APP) == 10 * COMMITS
    DeltaTable(lake / PATH).alter.add_columns([Field("note", "string")])
    for one in (table, opened(lake)):
        with pytest.raises(TableSchemaError, match=r"archive/orders is not as .*: the column note is new\. Undo"):
            commit(one, COMMITS + 1)


@pytest.mark.parametrize(
    "readers",
    ['"minReaderVersion":3,"readerFeatures":["fancyRows"]', '"minReaderVersion":1'],
    ids=["nor read", "and can be read"],
)
def test_a_feature_that_can_not_be_written_is_named(lake: Path, readers: str) -> None:
    path = commit_file(lake, COMMITS + 1)
    path.write_text('{"protocol":{' + readers + ',"minWriterVersion":7,"writerFeatures":["fancyRows"]}}')
    with pytest.raises(TableFormatError, match=r"archive/orders has features .*fancyRows"):
        commit(opened(lake), COMMITS + 1)
    path.write_text('{"commitInfo":{}}')  # they are switched off
    assert commit(opened(lake), COMMITS + 1) is CommitResult.COMMITTED


def test_the_type_of_a_column_counts(lake: Path) -> None:
    other = SCHEMA.set(0, pa.field("offset", pa.int32()))
    with pytest.raises(TableSchemaError, match="the column offset is int64, not int32"):
        LakeTables(TableStorage(lake)).open(PATH, other).refresh()
