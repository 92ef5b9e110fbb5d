"""Damage to the key index while a server runs and before it starts: what is damaged is noticed, and made anew."""

import errno

import pytest

from queue_engine.storage.key_index import key_indexes
from queue_engine.vocabulary.errors import StorageError
from tests.faults.key_index_states import (
    PART_ENTRIES,
    answers_right,
    crash_case,
    damage_case,
    filled,
    index_files,
)
from tests.support.disks.simulated_disk import SimulatedFiles
from tests.support.stores.key_index import STATE_MS, IndexBench, in_log


@pytest.fixture(scope="module")
def good() -> SimulatedFiles:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(key_indexes, "PART_ENTRIES", PART_ENTRIES)
        return filled().files


@pytest.fixture(autouse=True)
def _small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_indexes, "PART_ENTRIES", PART_ENTRIES)


@pytest.mark.parametrize("seed", range(10))
def test_damage_before_a_start(good: SimulatedFiles, seed: int) -> None:
    damage_case(good, seed)


@pytest.mark.slow(reason="judges crash states, each with two starts")
@pytest.mark.parametrize("seed", range(8))
def test_the_end_of_the_process_or_of_the_power_at_any_operation(seed: int) -> None:
    crash_case(seed)


def test_each_byte_of_a_file_while_the_server_runs(good: SimulatedFiles) -> None:
    bench = IndexBench(good.after_kill(), 1, 2, 3)
    bench.settle(3)
    path = next(path for path in index_files(bench.files) if "/2/" in path)
    logged = in_log(bench.topics[2])
    content = bench.files.contents()[path]
    made_anew = 0
    for at in range(0, len(content), 5):
        bench.indexes.files.descriptors.close(path)
        for _, keys in bench.indexes._topics.values():
            for file in keys.files:
                file.head = None
        altered = content[:at] + bytes([content[at] ^ 0x10]) + content[at + 1 :]
        bench.files.replace(path, altered)
        for key in (b"hot", b"two-1"):
            got, missing = bench.offsets(key, topic=2), bench.missing(2)
            assert got == logged[key] or missing
            assert set(got) <= set(logged[key])
            if missing:
                made_anew += 1
                bench.settle(3)
                assert bench.missing(2) == []
                assert bench.offsets(key, topic=2) == logged[key]
                content = bench.files.contents()[path]
    assert made_anew > 10


def test_a_file_that_can_not_be_read_is_made_anew_and_one_for_want_of_descriptors_is_not(
    good: SimulatedFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = IndexBench(good.after_kill(), 1, 2, 3)
    bench.settle(3)
    names = bench.names(2)
    read = bench.indexes.files.read
    error = [errno.EMFILE]

    def fails(path: str, at: int, size: int) -> bytes:
        if error:
            raise OSError(error[0], "no")
        return read(path, at, size)

    monkeypatch.setattr(bench.indexes.files, "read", fails)
    with pytest.raises(StorageError, match=r"\.keys can't be read now"):
        bench.offsets(b"hot", topic=2)
    assert bench.missing(2) == []
    error[0] = errno.EIO
    assert bench.offsets(b"hot", topic=2) == []
    assert bench.missing(2)
    error.clear()
    bench.settle(3)
    answers_right(bench)
    assert len(bench.names(2)) <= len(names)


def test_a_damaged_file_is_noticed_by_a_merge(good: SimulatedFiles) -> None:
    bench = IndexBench(good.after_kill(), 1, 2, 3)
    for path in index_files(bench.files):
        if path.endswith(".keys"):
            content = bench.files.contents()[path]
            bench.files.replace(path, content[:-1] + bytes([content[-1] ^ 1]))
    for number in range(100):
        bench.publish(b"more-%d" % number, b"hot", topic=2)
        if number % 10 == 0:
            bench.tick(STATE_MS)
    bench.settle(30)
    answers_right(bench)
