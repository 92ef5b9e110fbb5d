"""The messages of several channels, joined: which are the same, and where each stands."""

import tracemalloc
from pathlib import Path

import pytest

from queue_engine.daemon.nsqd_import.message_join import MessageJoin
from queue_engine.vocabulary.errors import NsqdImportError


def added(join: MessageJoin, *keys: bytes) -> list[tuple[int, bool]]:
    join.begin_channel()
    return join.add(keys)


def test_what_a_channel_before_had_has_its_place_and_what_is_new_gets_the_next(tmp_path: Path) -> None:
    with MessageJoin(str(tmp_path / "joined")) as join:
        assert added(join, b"a", b"b", b"c") == [(0, True), (1, True), (2, True)]
        assert added(join, b"d", b"b", b"a") == [(3, True), (1, False), (0, False)]
        assert added(join, b"d") == [(3, False)]
        assert join.count == 4


def test_the_second_of_two_equal_ones_in_a_channel_is_another_message(tmp_path: Path) -> None:
    with MessageJoin(str(tmp_path / "joined")) as join:
        assert added(join, b"a", b"a", b"a") == [(0, True), (1, True), (2, True)]
        assert added(join, b"a", b"a") == [(0, False), (1, False)]
        assert added(join, b"a", b"a", b"a", b"a") == [(0, False), (1, False), (2, False), (3, True)]
        join.begin_channel()
        assert [join.add([b"a"]) for _ in range(5)] == [
            [(0, False)],
            [(1, False)],
            [(2, False)],
            [(3, False)],
            [(4, True)],
        ]


def test_its_file_is_gone_at_once_so_a_kill_leaves_none(tmp_path: Path) -> None:
    (tmp_path / "joined").write_bytes(b"")
    with MessageJoin(str(tmp_path / "joined")) as join:
        assert list(tmp_path.iterdir()) == []
        added(join, b"a")


def test_a_directory_that_takes_no_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(NsqdImportError, match=r"none/joined, where its messages are joined, can't be written: unable"):
        MessageJoin(str(tmp_path / "none" / "joined"))


def test_the_memory_does_not_grow_with_the_messages(tmp_path: Path) -> None:
    with MessageJoin(str(tmp_path / "joined")) as join:
        added(join, b"%024d" % 0)
        tracemalloc.start()
        try:
            for _ in range(2):
                join.begin_channel()
                for first in range(0, 10_000, 100):
                    join.add([b"%024d" % number for number in range(first, first + 100)])
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert join.count == 10_000
    assert peak < 100_000  # a key alone has 57 bytes
