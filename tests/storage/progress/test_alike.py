"""Ranges of messages that were delivered as often as each other, found by pages and one by one."""

from random import Random

from queue_engine.storage.progress.channel_progress import MADE_MAX, PAGE_OFFSETS, ChannelProgress
from queue_engine.storage.progress.journaled_progress import JournaledProgress


class NoTopic:
    released = 0

    def next_present(self, offset: int) -> int | None:
        return None

    def deferred_between(self, first: int, end: int) -> list[tuple[int, int]]:
        return []


def test_ranges_found_by_pages_are_those_found_one_by_one() -> None:
    rng = Random(7)
    for _ in range(30):
        progress = ChannelProgress()
        journaled = JournaledProgress(NoTopic(), 1, progress, None)
        for _ in range(30):
            first, count = rng.randrange(3 * PAGE_OFFSETS), rng.choice([1, 5, 300, 1_500])
            if rng.random() < 0.3:
                progress.settled(first, count)
            else:
                progress.delivered(first, count, rng.choice([1, 1, 2, MADE_MAX, MADE_MAX + 5]))
        for _ in range(20):
            first, count = progress.floor + rng.randrange(4 * PAGE_OFFSETS), rng.choice([1, 7, 900, 2_500])
            made = progress.made_at(first)
            alike = next((n for n in range(1, count) if progress.made_at(first + n) != made), count)
            assert journaled.alike(first, count) == (made, alike)
