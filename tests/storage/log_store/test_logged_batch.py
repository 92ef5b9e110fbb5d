"""Batches of the log in memory: bounded in bytes, and not kept when nobody wants them."""

from queue_engine.storage.log_store.logged_batch import BatchCache, LoggedBatch
from queue_engine.vocabulary.run import Batch


def batch_of(body_bytes: int) -> LoggedBatch:
    return LoggedBatch(0, 1, Batch(1, [b"0123456789abcdef"], [b"x" * body_bytes]).run())


def test_the_cache_holds_no_more_than_its_bytes() -> None:
    cache = BatchCache(10_000)
    for position in range(20):
        cache.put(position, batch_of(2_000))
        kept = [batch for one in range(20) if (batch := cache.get(one)) is not None]
        assert sum(batch.cost_bytes for batch in kept) <= 10_000
    assert cache.get(19) is not None
    assert cache.get(0) is None


def test_a_batch_larger_than_the_cache_is_there_alone_and_until_nobody_uses_it() -> None:
    cache = BatchCache(10_000)
    cache.put(1, batch_of(2_000))
    cache.put(2, batch_of(50_000))
    assert cache.get(1) is None
    for _ in range(5):
        assert cache.get(2) is not None
        cache.tidy()
    cache.tidy()
    assert cache.get(2) is None
    for position in range(3, 6):
        cache.put(position, batch_of(2_000))
    assert all(cache.get(position) is not None for position in range(3, 6)), "its bytes are free again"


def test_what_is_used_between_two_looks_stays_and_the_rest_goes() -> None:
    cache = BatchCache(1 << 20)
    for position in range(3):
        cache.put(position, batch_of(2_000))
    cache.tidy()
    used = cache.get(1)
    cache.tidy()
    assert (cache.get(0), cache.get(2)) == (None, None)
    assert cache.get(1) is used is not None
