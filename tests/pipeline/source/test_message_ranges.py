"""Counting messages where offsets were reserved and never used."""

from hypothesis import given
from hypothesis import strategies as st

from queue_engine.client.log_api.message_ranges import MessageRanges

RESERVED = 1 << 20
# As after two kills: 10 messages, 5 and 7.
KILLED = MessageRanges([(0, 10), (RESERVED, RESERVED + 5), (2 * RESERVED, 2 * RESERVED + 7)])


def test_unused_offsets_are_no_messages() -> None:
    assert KILLED.count_between(0, 2 * RESERVED + 7) == 22
    assert KILLED.count_between(8, RESERVED + 1) == 3
    assert KILLED.count_between(10, RESERVED) == 0


def test_a_number_of_messages_ends_behind_the_last_of_them() -> None:
    assert KILLED.offset_behind(0, 4) == 4
    assert KILLED.offset_behind(0, 10) == 10
    assert KILLED.offset_behind(0, 11) == RESERVED + 1
    assert KILLED.offset_behind(10, 6) == 2 * RESERVED + 1
    assert KILLED.offset_behind(RESERVED - 1, 1_000) == 2 * RESERVED + 7
    assert KILLED.offset_behind(10, 0) == 10
    assert KILLED.offset_behind(3 * RESERVED, 5) == 3 * RESERVED


def test_what_is_unused_lies_between() -> None:
    assert KILLED.unused_between(0, RESERVED + 3) == ((10, RESERVED),)
    assert KILLED.unused_between(20, RESERVED) == ((20, RESERVED),)
    assert KILLED.unused_between(0, 10) == ()


@given(st.lists(st.tuples(st.integers(1, 9), st.integers(1, 9)), max_size=6), st.integers(0, 99), st.integers(0, 99))
def test_counts_and_places_agree_with_one_offset_after_the_other(
    steps: list[tuple[int, int]], first: int, count: int
) -> None:
    present: list[int] = []
    ranges = []
    at = 0
    for gap, size in steps:
        ranges.append((at + gap, at + gap + size))
        present += range(*ranges[-1])
        at += gap + size
    messages = MessageRanges(ranges)
    left = [offset for offset in present if offset >= first]
    expected = left[:count]
    assert messages.offset_behind(first, count) == (expected[-1] + 1 if expected else first)
    assert messages.count_between(first, 100) == len(left)
    unused = [offset for begin, end in messages.unused_between(first, 100) for offset in range(begin, end)]
    assert sorted(unused + left) == list(range(first, 100))
