"""The line of messages that were deferred and are due: its first is the oldest, and finished ones leave it a few at a
time."""

import random

import pytest

from queue_engine.storage.progress import oldest_offset
from queue_engine.storage.progress.channel_progress import ChannelProgress
from queue_engine.storage.progress.oldest_offset import JOINED_NS, OldestOffset

COUNT = 400


class Topic:
    """All offsets are released, and none was published with a due time."""

    released = 10 * COUNT

    def next_present(self, offset: int) -> int | None:
        return offset

    def deferred_between(self, first: int, end: int) -> list[tuple[int, int]]:
        return []


@pytest.mark.parametrize("seed", range(5))
def test_the_oldest_is_found_while_finished_ones_leave_the_line(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(oldest_offset, "LINE_MIN", 8)
    chosen = random.Random(seed)
    progress = ChannelProgress()
    ages = OldestOffset(Topic(), progress)
    ages.forget_all()
    dues: dict[int, int] = {}
    for number in range(COUNT):
        offset, due_ns = 2 * number, (number + 1) * 2 * JOINED_NS
        progress.deferred_until(offset, 1, 1, due_ns)
        ages.became_due(offset, 1, due_ns)
        dues[offset] = due_ns
        while dues and chosen.random() < 0.45:
            gone = chosen.choice(list(dues))
            progress.settled(gone, 1)
            del dues[gone]
        if chosen.random() < 0.5:
            assert ages.oldest_due_ns() == min(dues.values(), default=None)
    assert ages.has_due_times
    for offset in list(dues):
        assert ages.oldest_due_ns() == min(dues.values())
        progress.settled(offset, 1)
        del dues[offset]
    assert ages.oldest_due_ns() is None


def test_no_call_looks_at_the_whole_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(oldest_offset, "LINE_MIN", 8)
    looks = 0

    class Counted(ChannelProgress):
        def first_unsettled(self, first: int, end: int) -> int:
            nonlocal looks
            looks += 1
            return super().first_unsettled(first, end)

    progress = Counted()
    ages = OldestOffset(Topic(), progress)
    ages.forget_all()
    most = 0
    for number in range(COUNT):
        due_ns = (number + 1) * 2 * JOINED_NS
        progress.deferred_until(2 * number, 1, 1, due_ns)
        before, looks = looks, 0
        ages.became_due(2 * number, 1, due_ns)
        most, looks = max(most, looks), looks + before
    assert 0 < most <= 4
