"""What ends by itself is over for who reads it, at once: the clock is compared where it is read, before any tick.

And it goes by the time that passes, whatever the wall clock is set to meanwhile.
"""

import dataclasses
import re
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from queue_engine.delivery import stats
from queue_engine.engine.engine import Engine
from queue_engine.storage import log_stats
from queue_engine.storage.readers.cursors import CONSUMER_CURSOR_MS
from queue_engine.storage.readers.reader_registry import Maker
from queue_engine.vocabulary.clock import NS_PER_MS
from queue_engine.vocabulary.flow import pause
from queue_engine.wire import cursor, lease, trash
from tests.support.clock import ManualClock
from tests.support.engine import Client, make_engine, pass_time, settle

MINUTE_MS = 60_000
DAY_MS = 24 * 60 * MINUTE_MS
STEPS_MS = [0, 120 * MINUTE_MS, -120 * MINUTE_MS]
READ: tuple[ModuleType, ...] = (stats, log_stats, pause, cursor, lease, trash)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


def started(path: Path, clock: ManualClock, **options: object) -> Engine:
    engine = make_engine(path, clock, **options)
    engine.acts.create_topic("orders", storage="log")
    engine.acts.create_channel("orders", "billing")
    engine.publish("orders", [b"one", b"two"])
    settle(engine)
    return engine


def channel(engine: Engine) -> stats.ChannelStats:
    (topic,) = engine.stats.now().topics
    (found,) = topic.channels
    return found


def ramp(engine: Engine) -> tuple[int, Callable[[], bool]]:
    engine.acts.pause_channel("orders", "billing")
    settle(engine)
    engine.acts.unpause_channel("orders", "billing", ramp_ms=MINUTE_MS)
    settle(engine)
    return MINUTE_MS, lambda: channel(engine).ramp is not None


def in_flight(engine: Engine) -> tuple[int, Callable[[], bool]]:
    Client(engine, "orders", "billing", ready=1, msg_timeout_ms=MINUTE_MS)
    return MINUTE_MS, lambda: engine.stats.in_flight("orders", "billing")[0].deadline_in_ms > 0


def in_the_trash(engine: Engine) -> tuple[int, Callable[[], bool]]:
    engine.acts.delete_channel("orders", "billing")
    settle(engine)
    return DAY_MS, lambda: bool(engine.trash.list()) and bool(engine.trash.page(9).entries)


def leased(engine: Engine) -> tuple[int, Callable[[], bool]]:
    _, ticket = engine.log.lease("orders", 0, ttl_ms=MINUTE_MS)
    settle(engine)
    assert ticket.done

    def lasts() -> bool:
        log = engine.stats.now().log
        assert log is not None
        return bool(log.leases)

    return MINUTE_MS, lasts


def cursor_of_a_consumer(engine: Engine) -> tuple[int, Callable[[], bool]]:
    engine.cursors.create("orders", cursor="reader", maker=Maker("token x", is_limited=True))
    settle(engine)
    return CONSUMER_CURSOR_MS, lambda: bool(engine.cursors.all().cursors)


def deferred(engine: Engine) -> tuple[int, Callable[[], bool]]:
    client = Client(engine, "orders", "billing", ready=1)
    client.channel.requeue(client.consumer, client.sink.received[0].id, MINUTE_MS * NS_PER_MS, _now(engine))
    settle(engine)

    def lasts() -> bool:
        due_ns = channel(engine).next_due_ns
        return due_ns is not None and due_ns > _now(engine)

    return MINUTE_MS, lasts


def _now(engine: Engine) -> int:
    return engine.clock.monotonic_ns()


# Each field that says when something ends → what tries it; or why nothing can be over unseen.
ENDS: dict[str, Callable[[Engine], tuple[int, Callable[[], bool]]] | str] = {
    "Ramp.until_ms": ramp,
    "InFlightStats.deadline_in_ms": in_flight,
    "TrashStats.until_ms": in_the_trash,
    "LeaseStats.expires_ms": leased,
    "LeasedFiles.expires_ms": "the answer of the act that makes or renews it",
    "CursorStats.expires_ms": cursor_of_a_consumer,
    "ChannelStats.next_due_ns": deferred,
    "ChannelStats.latest_due_ns": deferred,
    "Pause.until_ms": "a pause lasts, and delivers nothing, until its durable resume: the next tick begins that",
}


def test_every_field_that_says_when_something_ends_is_tried() -> None:
    found = {
        f"{kind.__name__}.{field.name}"
        for module in READ
        for kind in vars(module).values()
        if isinstance(kind, type) and dataclasses.is_dataclass(kind) and kind.__module__ == module.__name__
        for field in dataclasses.fields(kind)
        if re.search(r"(?:^|_)(?:until|expires|due|deadline)(?:_in)?_(?:ms|ns|s)$", field.name)
    }
    assert found == set(ENDS)


@pytest.mark.parametrize("step_ms", STEPS_MS)
@pytest.mark.parametrize("field", [field for field, tried in ENDS.items() if not isinstance(tried, str)])
def test_it_is_over_where_it_is_read_and_goes_by_the_time_that_passes(
    tmp_path: Path, clock: ManualClock, field: str, step_ms: int
) -> None:
    engine = started(tmp_path, clock, trash_age_ms=DAY_MS)
    begin = ENDS[field]
    assert not isinstance(begin, str)
    ends_ms, lasts = begin(engine)
    clock.set_back(ms=-step_ms)
    clock.advance(ms=ends_ms - 1)
    assert lasts()
    clock.advance(ms=1)
    assert not lasts()


@pytest.mark.parametrize("step_ms", STEPS_MS)
def test_the_age_in_quarantine_is_never_reached_early(tmp_path: Path, clock: ManualClock, step_ms: int) -> None:
    engine = started(tmp_path, clock, quarantine_max_age_ms=DAY_MS)
    engine.quarantine.set_max_attempts("orders", "billing", max_attempts=1)
    settle(engine)
    client = Client(engine, "orders", "billing", ready=1)
    client.ready(0)
    client.channel.requeue(client.consumer, client.sink.received[0].id, 0, _now(engine))
    settle(engine)
    assert channel(engine).quarantined_count == 1
    clock.set_back(ms=-step_ms)
    pass_time(engine, clock, DAY_MS - 1_000)
    assert channel(engine).quarantined_count == 1
    pass_time(engine, clock, 1_000 + max(0, -step_ms))
    pass_time(engine, clock, MINUTE_MS)
    assert channel(engine).quarantined_count == 0


@pytest.mark.parametrize(("step_ms", "words"), [(STEPS_MS[1], "forward by 2h"), (STEPS_MS[2], "back by 2h")])
def test_a_clock_that_is_set_is_named_once(
    tmp_path: Path, clock: ManualClock, caplog: pytest.LogCaptureFixture, step_ms: int, words: str
) -> None:
    engine = started(tmp_path, clock)
    pass_time(engine, clock, 1_000)
    assert engine.stats.now().clock_jump is None
    clock.set_back(ms=-step_ms)
    for _ in range(3):
        pass_time(engine, clock, 1_000)
    jump = engine.stats.now().clock_jump
    assert jump is not None
    assert (jump.step_ms, jump.at_ns) == (step_ms, _now(engine) - 2_000 * NS_PER_MS)
    assert [record.message.partition(":")[0] for record in caplog.records if "wall clock" in record.message] == [
        f"the wall clock was set {words}"
    ]


def test_small_corrections_are_no_jump(tmp_path: Path, clock: ManualClock) -> None:
    engine = started(tmp_path, clock)
    for _ in range(100):
        clock.set_back(ms=500)
        pass_time(engine, clock, 1_000)
    assert engine.stats.now().clock_jump is None
