"""Counting Python's objects costs a look at the whole heap: it is done once a minute."""

from queue_engine.service.monitoring.process_memory import COUNT_STAYS_S, HeapObjects


def test_a_count_stays_for_a_minute() -> None:
    now_s = 1_000.0
    objects = HeapObjects(lambda: now_s)
    before = objects.count()
    assert before > 0
    more = [object() for _ in range(20_000)]
    now_s += COUNT_STAYS_S - 1
    assert objects.count() == before
    now_s += 1
    assert objects.count() >= before + len(more) // 2
    del more
    assert objects.count() >= before + 10_000
    assert objects.count(anew=True) < before + 10_000
