"""Joining the progress of a channel in the trash with the living one, also where there is much of everything."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

import pytest

from queue_engine.progress.channel_progress import ChannelProgress, Quarantined
from queue_engine.progress.joining import join, offsets_between
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
