"""What an index segment tells is added to a channel's progress after what came since: newer things stay."""

from random import Random

import pytest

from queue_engine.storage.progress.channel_progress import ChannelProgress
from queue_engine.storage.progress.queue_index import decode_index, encode_index, index_contents
from queue_engine.storage.progress.unread_index import add_missing

OFFSETS = 3_000


def work(rng: Random, *channels: ChannelProgress, steps: int) -> None:
    """The same work on all of them."""
    for _ in range(steps):
        first, count = rng.randrange(OFFSETS), rng.randrange(1, 60)
        kind = rng.random()
        for one in channels:
            if kind < 0.4:
                one.delivered(first, count, 1 + first % 3)
            elif kind < 0.8:
                one.settled(first, count)
            elif kind < 0.9:
                one.deferred_until(first, 1, 1, 1_000 + first)
            else:
                one.requeued(first, count)


@pytest.mark.parametrize("seed", range(20))
def test_what_was_settled_is_so_whatever_was_known_when(seed: int) -> None:
    rng = Random(seed)
    whole = ChannelProgress()
    work(rng, whole, steps=60)
    contents = [
        decode_index(encode_index(7, index, one), 7, index) for index, one in index_contents(whole.copy()).items()
    ]
    partial = ChannelProgress(whole.floor, whole.cursor)  # as the floors tell, without the segment
    work(rng, whole, partial, steps=30)
    for content in contents:
        assert content is not None
        add_missing(partial, content)
    partial.level()
    offsets = range(OFFSETS + 100)
    assert partial.floor == whole.floor
    assert [partial.is_settled(one) for one in offsets] == [whole.is_settled(one) for one in offsets]
    waiting = [one for one in offsets if not whole.is_settled(one)]
    assert all(partial.made_at(one) >= min(1, whole.made_at(one)) for one in waiting)
    assert partial.deferred.keys() >= {one for one in whole.deferred if one in waiting}
