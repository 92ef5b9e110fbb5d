"""What the index segments of a channel must have, of all of them or of some."""

import time
from random import Random

import pytest

from queue_engine.storage.progress.channel_progress import MADE_MAX, ChannelProgress, Quarantined
from queue_engine.storage.progress.queue_index import INDEX_OFFSETS, index_contents, possible_indexes

SEGMENTS = 6


def some_progress(seed: int) -> ChannelProgress:
    rng = Random(seed)
    progress = ChannelProgress()
    end = SEGMENTS * INDEX_OFFSETS
    for _ in range(rng.randrange(400)):
        first, count = rng.randrange(end), rng.randrange(1, 40)
        progress.delivered(first, count, rng.choice([1, 2, MADE_MAX + 5]))
        what = rng.randrange(4)
        if what == 0:
            progress.settled(first, count)
        elif what == 1:
            progress.deferred_until(first, count, 1, 10**18)
        elif what == 2:
            progress.quarantine(first, 1, Quarantined(1, 2, 3))
    progress.settled(0, rng.choice([0, 1, 20_000, 40_000]))
    return progress


@pytest.mark.parametrize("seed", range(12))
def test_the_content_of_some_segments_is_that_which_all_of_them_have(seed: int) -> None:
    progress = some_progress(seed)
    every = index_contents(progress)
    assert set(possible_indexes(progress)) >= every.keys()
    for chosen in ({0}, {2, 5}, set(range(SEGMENTS)), {SEGMENTS + 3}, set[int]()):
        wanted = {index: content for index, content in every.items() if index in chosen}
        assert index_contents(progress, chosen) == wanted


@pytest.mark.parametrize("seed", range(12))
def test_settled_offsets_are_counted_page_by_page_as_one_by_one(seed: int) -> None:
    progress, rng = some_progress(seed), Random(seed)
    for _ in range(20):
        first, end = sorted(rng.choices(range(SEGMENTS * INDEX_OFFSETS + 100), k=2))
        wanted = [progress.is_settled(at) for at in range(max(first, progress.floor), min(end, progress.cursor))]
        assert progress.settled_count(first, end) == sum(wanted)


def cost_s(deferred: int) -> float:
    progress = ChannelProgress()
    progress.deferred = dict.fromkeys(range(0, 2 * deferred, 2), 10**18)
    times_s: list[float] = []
    for _ in range(5):
        began_s = time.process_time()
        assert len(index_contents(progress, {3})[3].deferred) == INDEX_OFFSETS // 2
        times_s.append(time.process_time() - began_s)
    return min(times_s)


def test_a_segment_costs_a_merge_the_same_however_many_messages_are_deferred() -> None:
    # A merge asks for the few that changed.
    assert cost_s(1_000_000) <= 6 * cost_s(40_000)
