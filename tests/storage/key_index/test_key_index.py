"""The key index of a running log: what is published is found, whatever of it is in memory, in files or missing."""

import errno
from collections.abc import Iterator

import pytest

from queue_engine.storage.key_index import key_indexes, missing_keys
from queue_engine.storage.key_index.key_merge import files_to_merge
from tests.support.disks.simulated_disk import SimulatedFiles
from tests.support.stores.background import HeldBackground
from tests.support.stores.key_index import KEYS, STATE_MS, IndexBench, in_log, keys_of


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> IndexBench:
    monkeypatch.setattr(key_indexes, "PART_ENTRIES", 16)
    return IndexBench(SimulatedFiles())


def finds_all(bench: IndexBench, topic: int = 1) -> None:
    expected = in_log(bench.topics[topic])
    for key, offsets in expected.items():
        assert bench.offsets(key, topic=topic) == offsets, key
    assert bench.offsets(b"no such key", topic=topic) == []
    assert bench.missing(topic) == []


def rounds(bench: IndexBench, count: int, each: int = 10) -> Iterator[int]:
    for number in range(count):
        assert bench.publish(*keys_of(range(number * each, (number + 1) * each))).done
        yield number


def test_a_key_is_found_at_once_and_in_files_and_after_a_restart(bench: IndexBench) -> None:
    for _ in rounds(bench, 10):
        finds_all(bench)
    assert bench.names() == []
    bench.settle(1)
    finds_all(bench)
    assert len(bench.names()) > 2
    bench.log.close()
    again = IndexBench(bench.files, 1)
    assert again.missing() == []
    assert len(in_log(again.topics[1])) == 100
    finds_all(again)
    again.publish(b"order-3", b"", b"order-3")
    assert again.offsets(b"order-3") == [102, 100, 3]


def test_messages_without_a_key_cost_no_file(bench: IndexBench) -> None:
    for _ in range(50):
        bench.publish(b"", b"", b"")
    bench.settle()
    bench.log.close()
    assert bench.names() == []
    again = IndexBench(bench.files, 1)
    assert again.missing() == []
    assert again.offsets(b"") == []


def test_messages_with_the_same_key_come_newest_first_a_page_at_a_time(bench: IndexBench) -> None:
    for number in range(20):
        bench.publish(b"hot", b"cold-%d" % number, b"hot")
    bench.settle(3)
    bench.publish(b"hot")
    expected = in_log(bench.topics[1])[b"hot"]
    assert len(expected) == 41
    got: list[int] = []
    before = None
    while True:
        found = bench.find(b"hot", count_max=7, before=before)
        got += [one.offset for one in found.page.messages]
        assert all(one.key == b"hot" for one in found.page.messages)
        before = found.next_before
        if before is None:
            break
    assert got == expected


def test_files_are_not_merged_over_a_range_that_lacks(bench: IndexBench) -> None:
    for number in rounds(bench, 64):
        if number % 2:
            bench.tick()
    keys = bench.indexes._topics[1][1]
    keys.sealed.clear()
    bench.indexes._sealed.clear()
    assert len(keys.files) == 32
    assert files_to_merge(keys) == keys.files[:16]
    keys.lose(keys.files[24])
    assert files_to_merge(keys) == keys.files[:16]
    keys.lose(keys.files[8])
    assert files_to_merge(keys) == []


def test_a_start_goes_on_where_the_one_before_it_was_ended(bench: IndexBench, monkeypatch: pytest.MonkeyPatch) -> None:
    for _ in rounds(bench, 5):
        bench.publish(b"")
    old = bench.files.after_kill()
    for path in [path for path in old.contents() if path.startswith(KEYS)]:
        old.unlink(path)
    monkeypatch.setattr(missing_keys, "SLICE_RECORDS_MAX", 2)
    starts = 0
    while True:
        again = IndexBench(old, 1)
        starts += 1
        if not again.missing():
            break
        for _ in range(4):
            again.tick(STATE_MS)
        old = again.files.after_kill()
        assert starts < 9
    assert starts > 2
    finds_all(again)


def test_files_are_merged_and_the_old_ones_go(bench: IndexBench) -> None:
    for number in rounds(bench, 100):
        if number % 5 == 0:
            bench.tick()
    bench.settle(60)
    assert 1 <= len(bench.names()) < 25, bench.names()
    finds_all(bench)
    bench.log.close()
    finds_all(IndexBench(bench.files, 1))


def test_after_a_kill_what_is_missing_is_read_from_the_log_a_little_at_a_time(
    bench: IndexBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(missing_keys, "SLICE_RECORDS_MAX", 3)
    for _ in rounds(bench, 5):
        pass
    bench.settle(3)
    for number in range(9):
        bench.publish(b"later-%d" % number)
    again = IndexBench(bench.files.after_kill(), 1)
    assert again.missing() == [(50, 59)]
    found = again.find(b"later-8")
    assert (found.page.messages, found.indexed_upto, found.not_indexed_count) == ((), 50, 9)
    assert again.find(b"order-7").page.messages[0].offset == 7
    again.publish(b"later-8")
    assert again.offsets(b"later-8") == [59]
    for _ in range(2):
        again.tick()
        assert again.missing() == [(50, 59)], "a part is known when all of it was read"
    again.settle(4)
    assert again.offsets(b"later-8") == [59, 58]
    finds_all(again)


def test_a_log_of_before_there_was_an_index_gets_one(bench: IndexBench) -> None:
    for _ in rounds(bench, 5):
        bench.publish(b"")
    bench.settle(2)
    old = bench.files.after_kill()
    for path in list(old.contents()):
        if path.startswith(KEYS):
            old.unlink(path)
    again = IndexBench(old, 1)
    assert again.missing() == [(0, 55)]
    assert again.indexes.missing_count == 55
    again.settle(3)
    assert again.indexes.missing_count == 0
    finds_all(again)
    again.log.close()
    last = IndexBench(again.files, 1)
    assert last.missing() == []
    finds_all(last)


@pytest.mark.parametrize("operation", ["create", "write", "sync", "rename", "sync_directory"])
def test_a_disk_that_refuses_the_index_refuses_no_publish(
    bench: IndexBench, monkeypatch: pytest.MonkeyPatch, operation: str
) -> None:
    monkeypatch.setattr(key_indexes, "ENTRIES_MAX", 60)
    path_failing = [True]
    write = bench.indexes.files.write

    def fails(path: str, content: bytes) -> None:
        def before(name: str) -> None:
            if name == operation and path_failing[0]:
                raise OSError(errno.EIO, "I/O error")

        bench.files.before_operation = before
        try:
            write(path, content)
        finally:
            bench.files.before_operation = lambda name: None

    bench.indexes.files.write = fails
    for _ in rounds(bench, 30):
        bench.tick()
    assert bench.indexes.error
    assert sum(len(part) for part in bench.indexes._topics[1][1].sealed) <= 60
    given_up = bench.missing()
    assert given_up
    for key, offsets in in_log(bench.topics[1]).items():
        assert set(bench.offsets(key)) <= set(offsets)
        if not any(first <= offsets[0] < end for first, end in given_up):
            assert bench.offsets(key) == offsets
    path_failing[0] = False
    bench.settle(12)
    assert bench.indexes.error == ""
    finds_all(bench)


def test_a_full_disk_keeps_its_room_for_the_log(bench: IndexBench) -> None:
    bench.files.bytes_free = 15 << 20
    for _ in rounds(bench, 5):
        bench.tick()
    bench.settle(3)
    assert bench.names() == []
    assert "No space left" in bench.indexes.error
    finds_all(bench)
    bench.files.bytes_free = 1 << 30
    bench.settle(3)
    assert bench.names()
    finds_all(bench)


def test_what_goes_with_its_segments_is_not_found_and_its_files_go(bench: IndexBench) -> None:
    bench = IndexBench(SimulatedFiles(), segment_bytes=4_096)
    for number in range(400):
        bench.publish(b"same", b"order-%d" % number)
        if number % 20 == 0:
            bench.settle(1)
    bench.settle(3)
    before = bench.names()
    bench.topics[1].empty(700)
    for _ in range(70):
        bench.tick(1_000)
    oldest = bench.topics[1].oldest_offset
    assert oldest > 600
    assert bench.offsets(b"order-1") == []
    assert min(bench.offsets(b"same")) >= oldest
    assert bench.offsets(b"order-399") == [799]
    assert len(bench.names()) < len(before)
    assert bench.missing() == []


def test_the_index_of_a_deleted_topic_goes_also_while_it_is_written(bench: IndexBench) -> None:
    worker = HeldBackground()
    bench = IndexBench(SimulatedFiles(), worker=worker)
    bench.make(2)
    for _ in rounds(bench, 5):
        bench.publish(b"of two", topic=2)
    bench.tick(key_indexes.OPEN_NS / 1e6)
    worker.work()  # what comes before it, or the write itself
    bench.topics.pop(1).delete()
    worker.finish()
    for _ in range(5):
        bench.tick()
        worker.finish()
    assert bench.names(1) == []
    assert bench.offsets(b"of two", topic=2) == [4, 3, 2, 1, 0]
    bench.make(3)
    assert bench.offsets(b"order-1", topic=3) == []


def test_a_topic_that_is_deleted_while_its_files_are_merged_leaves_none(bench: IndexBench) -> None:
    worker = HeldBackground()
    bench = IndexBench(SimulatedFiles(), worker=worker)
    bench.make(2)
    for _ in rounds(bench, 20, each=20):
        bench.tick()
        worker.finish()
    while bench.indexes._merge is None:
        bench.tick(STATE_MS)
        if bench.indexes._merge is None:
            worker.finish()
    bench.topics.pop(1).delete()
    for _ in range(5):
        worker.finish()
        bench.tick()
    worker.finish()
    assert bench.names(1) == []


def test_keys_with_the_same_hash_are_told_apart_by_the_log(bench: IndexBench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("queue_engine.storage.key_index.topic_keys.crc32c", lambda data, value=0: 7)
    monkeypatch.setattr("queue_engine.storage.key_index.topic_keys.hash_of", lambda key: 7 | 1 << 29)
    for _ in rounds(bench, 10):
        pass
    assert bench.offsets(b"order-33") == [33]
    bench.settle(3)
    assert bench.names()
    finds_all(bench)
