"""What a channel's cursor passes over, against a set of offsets."""

from pathlib import Path
from random import Random

import pytest

from queue_engine.storage.log_store.channel_cursor import ChannelCursor
from tests.support.stores.log_store import Bench

COUNT = 60


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    bench = Bench(tmp_path)
    bench.publish(*[b"m"] * COUNT)
    return bench


def ahead(cursor: ChannelCursor, released: int, aside: set[int]) -> list[int]:
    return [offset for offset in range(cursor.offset, released) if offset not in aside]


def check(cursor: ChannelCursor, released: int, aside: set[int]) -> None:
    wanted = ahead(cursor, released, aside)
    assert cursor.pending_count == len(wanted)
    assert list(cursor.offsets()) == wanted
    assert list(cursor.offsets(released // 2)) == [offset for offset in wanted if offset >= released // 2]
    assert cursor.pending_of(range(COUNT)) == set(wanted)
    assert cursor.skipped_count == len([offset for offset in aside if offset >= cursor.offset])


def handed_out(cursor: ChannelCursor, released: int, count: int) -> list[int]:
    """Move it over so many offsets, as a delivery does."""
    taken: list[int] = []
    while len(taken) < count and cursor.offset < released:
        if cursor.pass_skipped():
            continue
        stop = cursor.stop_before(min(released, cursor.offset + count - len(taken)))
        taken += range(cursor.offset, stop)
        cursor.offset = stop
    return taken


def test_it_hands_out_what_is_not_aside_whatever_the_order_of_insertions(bench: Bench) -> None:
    for seed in range(40):
        _insert_in_any_order(bench, seed)


def _insert_in_any_order(bench: Bench, seed: int) -> None:
    rng = Random(seed)
    topic = bench.topic
    cursor = ChannelCursor(topic, 0)
    topic.released = released = rng.randrange(COUNT)
    aside: set[int] = set()
    at = rng.randrange(10)
    while at < COUNT - 4:
        # As after a start: ranges that follow each other, some of which the topic has not released again.
        count = rng.randrange(1, 4)
        cursor.skip(at, count)
        aside.update(range(at, at + count))
        at += count + rng.randrange(12)
    check(cursor, released, aside)
    while cursor.offset < COUNT:
        choices = ahead(cursor, released, aside)
        what = rng.randrange(5)
        if what == 0 and choices:
            one = rng.choice(choices)
            cursor.skip_one(one)
            cursor.skip_one(one)
            aside.add(one)
        elif what == 1:
            some = sorted(rng.sample(choices, rng.randrange(len(choices) + 1)))
            cursor.skip_all(some)
            aside.update(some)
        elif what == 2:
            topic.released = released = min(COUNT, released + rng.randrange(9))
        elif what == 3 and rng.random() < 0.1:
            end = rng.randrange(released, COUNT + 1)
            cursor.skip_unreleased(end)
            aside.update(range(released, end))
            topic.released = released = end
        else:
            count = rng.randrange(7)
            assert handed_out(cursor, released, count) == choices[:count]
            if released == COUNT and not choices:
                break
        check(cursor, released, aside)
    assert not ahead(cursor, COUNT, aside)


def test_an_empty_leaves_aside_what_the_topic_releases_again(bench: Bench) -> None:
    cursor = ChannelCursor(bench.topic, 0)
    bench.topic.released = 20
    for first in (5, 18, 30):
        cursor.skip(first, 4)
    cursor.pass_released()
    assert (cursor.offset, cursor.pending_count, cursor.skipped_count) == (20, 0, 6)
    bench.topic.released = COUNT
    assert list(cursor.offsets()) == [*range(22, 30), *range(34, COUNT)]
