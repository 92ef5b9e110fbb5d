"""Tables on S3: commits once, whatever the network does; one sentence for each trouble, without credentials."""

import logging
import threading
import traceback
from collections.abc import Callable, Iterator
from itertools import count

import pytest

from queue_engine.lake.query.lean_dataset import open_dataset
from queue_engine.lake.tables import store_options
from queue_engine.lake.tables import table as table_module
from queue_engine.lake.tables.housekeeping import clean_log, merge, vacuum
from queue_engine.lake.tables.log_files import checkpoint_path, commit_path, last_checkpoint_path
from queue_engine.lake.tables.missing_files import missing_files
from queue_engine.lake.tables.storage import TableStorage
from queue_engine.lake.tables.table import CommitResult, LakeTable
from queue_engine.lake.tables.tables import LakeTables
from queue_engine.vocabulary.errors import (
    CommitUnknownError,
    PipelineError,
    StoreBusyError,
    StoreFullError,
    StoreRefusedError,
    StoreUnreachableError,
    TableDamagedError,
)
from tests.pipeline.tables.table_places import APP, PATH, SCHEMA, data_file, offsets_of
from tests.support.object_store import BUCKET, KEY_ID, SECRET, Fate, ObjectStore

pytestmark = pytest.mark.slow(reason="each step is some requests to a real S3 server")

_prefixes = count()


@pytest.fixture(scope="module")
def running_store() -> Iterator[ObjectStore]:
    store = ObjectStore()
    yield store
    store.close()


@pytest.fixture
def store(running_store: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> ObjectStore:
    for name, value in running_store.environment.items():
        monkeypatch.setenv(name, value)
    # The libraries' own tries take seconds.
    monkeypatch.setattr(store_options, "TRIES", 1)
    running_store.heal()
    return running_store


@pytest.fixture
def storage(store: ObjectStore) -> TableStorage:
    return TableStorage(f"s3://{BUCKET}/{next(_prefixes)}")


@pytest.fixture
def table(storage: TableStorage) -> LakeTable:
    return opened(storage)


def opened(storage: TableStorage) -> LakeTable:
    return LakeTables(storage, wait=lambda seconds: None).open(PATH, SCHEMA)


def commit(table: LakeTable, first: int, after: int) -> CommitResult:
    return table.commit([data_file(table.storage, first, after)], APP, after, after=first or None)


def test_a_table_lives_on_s3(storage: TableStorage, table: LakeTable) -> None:
    assert table.transaction(APP) is None
    for number in range(5):
        assert commit(table, number * 10, number * 10 + 10) is CommitResult.COMMITTED
    assert commit(opened(storage), 40, 50) is CommitResult.UNCHANGED
    assert table.checkpoint()
    merged = merge(table, sorted(table.files(), key=lambda file: int(file.minimum["offset"])))
    assert merged is not None
    assert merged.rows == 50
    assert vacuum(table, retention_ms=0, unnamed_age_ms=86_400_000).replaced == 5
    assert missing_files(table) == []
    assert clean_log(table, keep_ms=-86_400_000) == 7
    again = opened(storage)
    assert (again.transaction(APP), offsets_of(again), len(again.files())) == (50, list(range(50)), 1)
    assert storage.directories("archive") == ["orders"]
    storage.remove([f"{PATH}/{merged.path}"])
    assert [one.path for one in missing_files(again)] == [merged.path]
    storage.write("small.json", b"{}")
    assert (storage.read("small.json", 10), storage.read("none.json", 10), storage.exists("none")) == (
        b"{}",
        None,
        False,
    )


@pytest.mark.parametrize(("version", "lines", "has_checkpoint"), [(2, 0, False), (3, 2, True)])
def test_a_commit_that_was_emptied_or_cut_off_is_no_smaller_commit(
    storage: TableStorage, table: LakeTable, version: int, lines: int, has_checkpoint: bool
) -> None:
    for number in range(3):
        commit(table, number * 10, number * 10 + 10)
        if has_checkpoint and number == 0:
            table.checkpoint()
    path = commit_path(PATH, version)
    whole = storage.read(path, 1 << 20)
    assert whole is not None
    storage.write(path, b"".join(whole.splitlines(keepends=True)[:lines]))
    again = opened(storage)
    acts: list[Callable[[], object]] = [
        lambda: again.transaction(APP),
        lambda: commit(again, 30, 40),
        lambda: open_dataset(storage, PATH),
    ]
    for act in acts:
        with pytest.raises(TableDamagedError, match=rf"{path} was emptied or cut off: the table is damaged"):
            act()
    storage.write(path, whole)
    assert commit(again, 30, 40) is CommitResult.COMMITTED
    assert offsets_of(again) == list(range(40))


@pytest.mark.parametrize("found", [b"", b"PAR1 and not the rest", None])
def test_a_damaged_checkpoint_is_told_with_what_to_do(
    storage: TableStorage, table: LakeTable, found: bytes | None
) -> None:
    for number in range(3):
        commit(table, number * 10, number * 10 + 10)
    assert table.checkpoint()
    path = checkpoint_path(PATH, 3)
    storage.remove([path])
    if found is not None:
        storage.write(path, found)
    with pytest.raises(TableDamagedError, match=r"_delta_log. If the commits .* move the newest \*.checkpoint.parquet"):
        opened(storage).transaction(APP)
    storage.remove([path, last_checkpoint_path(PATH)])
    again = opened(storage)
    assert commit(again, 30, 40) is CommitResult.COMMITTED
    assert offsets_of(again) == list(range(40))


def test_an_open_reads_no_commit_before_the_last_checkpoint(
    store: ObjectStore, storage: TableStorage, table: LakeTable
) -> None:
    for number in range(3):
        commit(table, number * 10, number * 10 + 10)
    assert table.checkpoint()
    commit(table, 30, 40)
    for act in (lambda: opened(storage).refresh(), lambda: open_dataset(storage, PATH)):
        store.heal()
        act()
        read = {path for method, path in store.requests if method == "GET"}
        assert {one for one in range(5) if any(f"{one:020}.json" in path for path in read)} == {4}


def test_a_commit_of_another_writer_is_looked_at_once(store: ObjectStore, storage: TableStorage) -> None:
    table, other = opened(storage), opened(storage)
    commit(table, 0, 10)
    other.refresh()
    commit(table, 10, 20)
    path = commit_path(PATH, 2)
    whole = storage.read(path, 1 << 20)
    assert whole is not None
    storage.write(path, b"")
    with pytest.raises(TableDamagedError, match="was emptied or cut off"):
        other.refresh()
    storage.write(path, whole)
    assert other.refresh() == 2
    store.heal()
    assert (other.refresh(), table.refresh()) == (2, 2)
    assert not [one for one in store.requests if one[1].endswith(".json") and "00002.json" in one[1]]


def test_of_racing_writers_one_commits(storage: TableStorage, table: LakeTable) -> None:
    table.create()
    results: list[CommitResult] = []

    def write() -> None:
        own = opened(storage)
        for number in range(4):
            results.append(commit(own, number * 10, number * 10 + 10))

    threads = [threading.Thread(target=write) for _ in range(3)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert (len(results), results.count(CommitResult.COMMITTED)) == (12, 4)
    assert offsets_of(opened(storage)) == list(range(40))


def test_whatever_request_of_a_commit_is_lost_its_rows_count_once(store: ObjectStore, storage: TableStorage) -> None:
    table = opened(storage)
    commit(table, 0, 10)
    store.heal()
    commit(table, 10, 20)
    fates = (Fate.LOSE_ANSWER, Fate.CUT, Fate.BUSY)
    cases = [(place, fates[place % 3]) for place in range(len(store.requests))]
    (writes,) = (place for place, one in enumerate(store.requests) if one[0] == "PUT" and "_delta_log/" in one[1])
    cases += [(writes, fate) for fate in fates]
    first = 20
    for lost, fate in cases:
        store.fate = fate_at(lost, fate)
        file = None
        try:
            file = data_file(storage, first, first + 10)
            table.commit([file], APP, first + 10, after=first)
        except PipelineError:
            store.heal()
            whole = file or data_file(storage, first, first + 10)
            opened(storage).commit([whole], APP, first + 10, after=first)
        store.heal()
        first += 10
    again = opened(storage)
    assert (again.transaction(APP), offsets_of(again)) == (first, list(range(first)))


def fate_at(place: int, fate: Fate) -> Callable[[str, str], Fate]:
    """The request number `place` has this fate."""
    numbers = count()
    return lambda method, path: fate if next(numbers) == place else Fate.PASS


def commits_alone(fate: Fate) -> Callable[[str, str], Fate]:
    """Commits have this fate, and so has what follows the first."""
    is_hit = False

    def decide(method: str, path: str) -> Fate:
        nonlocal is_hit
        is_hit = is_hit or (method == "PUT" and "_delta_log/" in path)
        return fate if is_hit else Fate.PASS

    return decide


def test_a_store_that_goes_away_in_mid_commit_leaves_it_unknown(store: ObjectStore, table: LakeTable) -> None:
    commit(table, 0, 10)
    file = data_file(table.storage, 10, 20)
    store.fate = commits_alone(Fate.LOSE_ANSWER)
    with pytest.raises(CommitUnknownError, match=r"up to 20 is in the table is unclear, and the job finds out"):
        table.commit([file], APP, 20, after=10)
    store.heal()
    assert table.commit([file], APP, 20, after=10) is CommitResult.UNCHANGED
    assert offsets_of(table) == list(range(20))


TROUBLES = {
    Fate.CUT: (StoreUnreachableError, r"s3://lake/.*: no answer came from the store; the job waits"),
    Fate.BUSY: (StoreBusyError, r"s3://lake/.*: the store wants fewer requests"),
    Fate.EXPIRED: (StoreRefusedError, r"s3://lake/.*: .*the credentials.* have expired"),
    Fate.DENIED: (StoreRefusedError, r"s3://lake/.*: the store refuses the credentials"),
    Fate.FULL: (StoreFullError, r"s3://lake/.*: there is no room left"),
}


@pytest.mark.parametrize("fate", TROUBLES)
def test_each_trouble_is_a_sentence(
    store: ObjectStore, table: LakeTable, fate: Fate, caplog: pytest.LogCaptureFixture
) -> None:
    commit(table, 0, 10)
    file = data_file(table.storage, 10, 20)
    acts: list[Callable[[], object]] = [
        lambda: table.commit([file], APP, 20, after=10),
        lambda: table.transaction(APP),
        lambda: opened(table.storage).refresh(),
        lambda: data_file(table.storage, 20, 30),
        lambda: list(table.storage.list_files()),
        lambda: table.storage.read("small.json", 10),
        lambda: table.storage.write("small.json", b"{}"),
    ]
    kind, sentence = TROUBLES[fate]
    with caplog.at_level(logging.DEBUG):
        for act in acts:
            store.heal()
            store.fate = lambda method, path: fate
            with pytest.raises(kind, match=sentence) as caught:
                act()
            assert len(store.requests) < 15
            text = "".join(traceback.format_exception(caught.value))
            assert SECRET not in text
            assert KEY_ID not in text
    assert SECRET not in caplog.text
    assert KEY_ID not in caplog.text
    store.heal()
    assert table.commit([file], APP, 20, after=10) is CommitResult.COMMITTED


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """The deadlines are a second."""
    monkeypatch.setattr(store_options, "SILENCE_S", 1)
    monkeypatch.setattr(store_options, "REQUEST_TIMEOUT_S", 1)
    monkeypatch.setattr(table_module, "AGAIN_WITHIN_S", 0.5)


def test_a_store_that_never_answers_is_asked_once_by_each_act(
    impatient: None, store: ObjectStore, storage: TableStorage, table: LakeTable
) -> None:
    commit(table, 0, 10)
    file = data_file(storage, 10, 20)
    acts: dict[str, Callable[[], object]] = {
        "open": lambda: opened(storage).transaction(APP),
        "refresh": table.refresh,
        "read": lambda: storage.read("small.json", 10),
        "list": lambda: list(storage.list_files()),
        "commit": lambda: table.commit([file], APP, 20, after=10),
    }
    for name, act in acts.items():
        store.heal()
        store.fate = lambda method, path: Fate.HOLD
        with pytest.raises(StoreUnreachableError, match="no answer came from the store"):
            act()
        assert len(store.requests) == 1, name
    store.heal()
    store.fate = lambda method, path: Fate.HOLD if method == "PUT" else Fate.PASS
    with pytest.raises(CommitUnknownError):
        table.commit([file], APP, 20, after=10)
    assert [one[0] for one in store.requests].count("PUT") == 1
    store.heal()
    assert table.commit([file], APP, 20, after=10) is CommitResult.COMMITTED


def test_of_a_file_that_is_given_up_nothing_more_is_asked_of_a_store_that_never_answers(
    impatient: None, store: ObjectStore, storage: TableStorage
) -> None:
    store.fate = lambda method, path: Fate.HOLD
    with pytest.raises(StoreUnreachableError):
        data_file(storage, 0, 10)
    assert [one[0] for one in store.requests] == ["PUT"]


def test_credentials_are_in_no_representation(table: LakeTable) -> None:
    commit(table, 0, 10)
    for text in (repr(table.storage), repr(table.storage.options), table.place, str(table.storage.__getstate__())):
        assert SECRET not in text
        assert KEY_ID not in text


def test_a_bucket_that_does_not_exist_is_named(store: ObjectStore) -> None:
    storage = TableStorage("s3://nobucket/lake")
    for act in (lambda: opened(storage).transaction(APP), lambda: data_file(storage, 0, 10)):
        with pytest.raises(StoreRefusedError, match=r"s3://nobucket/lake.*: there is no such bucket; make it"):
            act()


def test_no_server_at_all_is_a_sentence(store: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    storage = TableStorage("s3://lake/none")
    for act in (lambda: opened(storage).transaction(APP), lambda: data_file(storage, 0, 10)):
        with pytest.raises(StoreUnreachableError, match="no answer came from the store"):
            act()


def test_the_endpoint_says_for_writer_and_committer_whether_http_is_meant() -> None:
    for endpoint, is_http in (("http://127.0.0.1:9000", True), ("https://minio:9000", False)):
        given = {"AWS_ENDPOINT_URL": endpoint}
        options = store_options.delta_options("s3", given)
        assert (options["AWS_ENDPOINT_URL"], "AWS_ALLOW_HTTP" in options) == (endpoint, is_http)
        assert store_options.store_filesystem("s3", given) is not None
