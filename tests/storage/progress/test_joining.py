"""Joining the progress of a channel in the trash with the living one, also where there is much of everything."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

import pytest

from queue_engine.storage.progress.channel_progress import ChannelProgress, Quarantined
from queue_engine.storage.progress.joining import join, joining, offsets_between, unsettled_ranges
from queue_engine.storage.progress.journal_format import pack_progress
from queue_engine.storage.progress.trashed_channels import counting_unsettled
from queue_engine.vocabulary.flow.return_reason import ReturnReason
from queue_engine.vocabulary.pieces import whole
from tests.support.stores.log_store import Bench

DUE_NS = 1 << 62
ASIDE = Quarantined(1, ReturnReason.BY_OPERATOR, 1)


class Unlisted(dict[int, Any]):
    """Offsets that may be asked for, and not be gone through: that once for each range takes minutes where a channel
    has 100,000 ranges and 100,000 of them, and the server does nothing else meanwhile."""

    def __iter__(self) -> Iterator[int]:
        raise AssertionError("all offsets were gone through for one range")

    def items(self) -> NoReturn:
        raise AssertionError("all offsets were gone through for one range")


class LookedAt(dict[int, Any]):
    """Pages that count how often one is looked at."""

    looks = 0

    def get(self, *args: Any) -> Any:
        self.looks += 1
        return super().get(*args)


GAP = 10, 3_000_000  # what a kill leaves, and more


def beside_a_gap() -> ChannelProgress:
    """Settled: 5 to 7 and the gap. 0 to 4, 8 and 9 were delivered once, and five messages behind the gap twice."""
    progress = ChannelProgress()
    progress.delivered(0, 10, 1)
    progress.settled(5, 3)
    progress.settled(*GAP)
    progress.delivered(sum(GAP), 5, 2)
    progress.pages = LookedAt(progress.pages)
    return progress


class _Queue:
    """A consume queue with the gap."""

    oldest_offset = 0

    def present_between(self, first: int, end: int) -> list[tuple[int, int]]:
        return [(first, GAP[0]), (sum(GAP), end)]

    def deferred_between(self, first: int, end: int) -> list[tuple[int, int]]:
        return []


def test_no_page_of_an_offset_gap_is_looked_at_and_steps_stay_short() -> None:
    trashed, end = beside_a_gap(), sum(GAP) + 8
    assert whole(counting_unsettled(trashed, _Queue(), end, 0)) == (15, 0, 0)
    # A living one that begins behind all of it, and one that has finished nothing.
    for living_floor, first in ((end, [(0, 5), (8, 2)]), (0, [(0, 10)])):
        living = ChannelProgress(living_floor)
        steps = list(joining(trashed, living, end, oldest=0, gaps=[GAP]))
        assert 12 <= len(steps) < 60, "long enough to be done in pieces, and not one for each page"
        joined = join(trashed, living, end, oldest=0, gaps=[GAP]).progress
        assert list(unsettled_ranges(joined, 0, end)) == [*first, (sum(GAP), 8)]
        assert (joined.made_at(9), joined.made_at(sum(GAP))) == (1, 2)
    assert trashed.pages.looks < 120, "pages of the gap were looked at"  # type: ignore[attr-defined]


def test_progress_is_packed_in_one_pass() -> None:
    progress = ChannelProgress()
    for offset in range(1, 50 * 1_024, 2):
        progress.settled(offset, 1)
    progress.pages = LookedAt(progress.pages)
    assert len(list(pack_progress(1, progress))) == 25 * 1_024 + 1
    assert progress.pages.looks == 50


def test_offsets_of_a_range_are_found_the_shorter_way() -> None:
    known = dict.fromkeys(range(0, 1_000, 2), 0)
    assert offsets_between(Unlisted(known), 10, 5) == [10, 12, 14]
    assert offsets_between(known, 10, 1_000_000) == list(range(10, 1_000, 2))


def test_a_join_goes_through_all_offsets_for_no_short_range() -> None:
    trashed, living = ChannelProgress(), ChannelProgress()
    for offset in range(0, 100, 2):
        trashed.settled(offset, 1)
    trashed.deferred = Unlisted(dict.fromkeys(range(1, 100, 4), DUE_NS))
    trashed.quarantined = Unlisted(dict.fromkeys(range(3, 100, 4), ASIDE))
    living.emptied(100)
    joined = join(trashed, living, 100, oldest=0).progress
    assert sorted(joined.deferred) == list(range(1, 100, 4))
    assert sorted(joined.quarantined) == list(range(3, 100, 4))


def test_a_channel_takes_back_a_range_the_shorter_way(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    backlog = bench.topic.open_channel("c", 10)
    bench.publish(*[b"%d" % number for number in range(10)])
    backlog.progress.deferred = Unlisted(dict.fromkeys((0, 2, 4), DUE_NS))
    backlog.progress.quarantined = Unlisted(dict.fromkeys((6, 8, 9), ASIDE))
    assert backlog.places._place_joined(4, 2) == [(4, DUE_NS)]


def test_what_is_deferred_of_all_ranges_gets_its_place_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(tmp_path)
    backlog = bench.topic.open_channel("c", 10)
    bench.publish(*[b"%d" % number for number in range(10)])
    trashed = backlog.progress.copy()
    for offset in range(0, 10, 2):
        trashed.settled(offset, 1)
        trashed.deferred_until(offset + 1, 1, 1, DUE_NS)
    backlog.skip_before(10)
    placed = []
    monkeypatch.setattr(backlog.places, "_wait_or_return", placed.append)
    joined = join(trashed, backlog.progress, 10, oldest=0)
    backlog.join(joined)
    whole(backlog.places.place_joined(joined))
    assert placed == [[(offset, DUE_NS) for offset in range(1, 10, 2)]]
