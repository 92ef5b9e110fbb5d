"""Quarantine on the log: what fails too often is set aside, blocks no other message, and stays so after a kill."""

from pathlib import Path

import pytest

from queue_engine.storage.log_store.log_backlog import LogBacklog
from queue_engine.storage.progress.quarantine import ChannelQuarantine, operator_event, without
from queue_engine.storage.progress.return_history import EVENTS_MAX, MESSAGES_MAX
from queue_engine.storage.quarantine_stats import QuarantineLimits
from queue_engine.vocabulary.flow.return_reason import ReturnReason
from tests.support.stores.log_store import Bench, bodies, everything, take

CHANNEL = 10
REASONS = (ReturnReason.REQUEUED, ReturnReason.TIMED_OUT, ReturnReason.DISCONNECTED)


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def opened(bench: Bench, max_attempts: int = 2) -> LogBacklog:
    backlog = bench.topic.open_channel("c", CHANNEL)
    quarantine_of(backlog).max_attempts = max_attempts
    return backlog


def quarantine_of(backlog: LogBacklog) -> ChannelQuarantine:
    assert backlog.quarantine is not None
    return backlog.quarantine


def fail(bench: Bench, backlog: LogBacklog, count: int = 1_000, reason: ReturnReason = ReturnReason.REQUEUED) -> None:
    """Take so many, and give all back."""
    run = take(backlog, count)
    backlog.give_back(run, run.ids, counted=True, reason=reason, consumer="worker 10.0.0.7:5")
    bench.log.end_turn()


def restarted(bench: Bench, max_attempts: int = 2) -> LogBacklog:
    bench.restart({CHANNEL: 0})
    return opened(bench, max_attempts)


def figures(backlog: LogBacklog) -> tuple[int, int, int]:
    """(waiting, deferred, quarantined)"""
    return backlog.depth, backlog.deferred_count, backlog.quarantined_count


@pytest.mark.parametrize("reason", REASONS)
def test_a_message_that_comes_back_too_often_is_set_aside_and_the_others_go_on(
    bench: Bench, reason: ReturnReason
) -> None:
    backlog = opened(bench, max_attempts=3)
    bench.publish(b"poison", b"good", b"fine")
    for _ in range(2):
        fail(bench, backlog, reason=reason)
    assert figures(backlog) == (3, 0, 0)
    fail(bench, backlog, 1, reason=reason)
    assert figures(backlog) == (2, 0, 1)
    assert list(everything(backlog)) == [b"good", b"fine"]
    assert figures(backlog) == (0, 0, 1)
    (held,) = backlog.progress.quarantined.values()
    assert (held.reason, held.body_bytes) == (reason, len(b"poison"))
    assert quarantine_of(backlog).bytes == len(b"poison")


def test_a_deferred_requeue_at_the_limit_is_set_aside_at_once(bench: Bench) -> None:
    backlog = opened(bench, max_attempts=1)
    bench.publish(b"a", b"b", due_ms=0)
    backlog.release_due(bench.clock.monotonic_ns(), 9)
    run = take(backlog)
    due_ns = bench.clock.monotonic_ns() + 10**9
    backlog.give_back(run, run.ids[:1], counted=True, due_ns=due_ns, reason=ReturnReason.REQUEUED)
    backlog.settle(run.ids[1:])
    assert figures(backlog) == (0, 0, 1)


@pytest.mark.parametrize("reason", [ReturnReason.UNKNOWN, ReturnReason.BY_OPERATOR])
def test_a_stop_and_an_operator_set_nothing_aside(bench: Bench, reason: ReturnReason) -> None:
    backlog = opened(bench, max_attempts=1)
    bench.publish(b"a")
    fail(bench, backlog, reason=reason)
    assert figures(backlog) == (1, 0, 0)


def test_without_a_limit_nothing_is_set_aside(bench: Bench) -> None:
    backlog = opened(bench, max_attempts=0)
    bench.publish(b"a")
    for _ in range(300):
        fail(bench, backlog)
    assert figures(backlog) == (1, 0, 0)


@pytest.mark.parametrize("merges", [False, True])
def test_what_is_set_aside_stays_so_after_a_kill(bench: Bench, merges: bool) -> None:
    backlog = opened(bench)
    bench.publish(*(b"%d" % number for number in range(9)))
    bench.publish(b"later", due_ms=5_000)
    fail(bench, backlog, 3)
    run = take(backlog, 6)
    backlog.settle(run.ids)
    fail(bench, backlog, 2)  # 0 and 1
    assert figures(backlog) == (1, 1, 2)
    if merges:
        bench.log.journal.merge()
    for _ in range(2):
        backlog = restarted(bench)
        assert figures(backlog) == (1, 1, 2)
        assert sorted(backlog.progress.quarantined) == [0, 1]
        assert backlog.progress.made_at(0) == 2
        assert quarantine_of(backlog).bytes == 2
    assert backlog.oldest_ns() is not None
    assert list(everything(backlog)) == [b"2"]
    assert backlog.oldest_ns() is None  # what is set aside has no age
    assert backlog.needed_offset == 0  # and keeps its segment


@pytest.mark.parametrize("keeps", [False, True])
def test_what_is_redriven_waits_again_also_after_a_kill(bench: Bench, keeps: bool) -> None:
    backlog = opened(bench)
    bench.publish(b"poison", b"good")
    fail(bench, backlog)
    fail(bench, backlog)
    assert figures(backlog) == (0, 0, 2)
    assert backlog.redrive([0, 0, 7], keeps_attempts=keeps) == 1
    assert figures(backlog) == (1, 0, 1)
    bench.log.end_turn()
    backlog = restarted(bench)
    assert figures(backlog) == (1, 0, 1)
    run = take(backlog)
    assert bodies(run) == [b"poison"]
    assert int.from_bytes(run.frame_at(0)[16:18], "big") == (3 if keeps else 1)
    backlog.give_back(run, run.ids, counted=True, reason=ReturnReason.REQUEUED)
    # With its attempts kept it is set aside at once, else it has two new ones.
    assert figures(backlog) == ((0, 0, 2) if keeps else (1, 0, 1))


def test_a_message_published_with_a_delay_does_not_wait_for_it_after_its_redrive(bench: Bench) -> None:
    backlog = opened(bench, max_attempts=1)
    bench.publish(b"a", due_ms=3_600_000)
    backlog.release_deferred()
    fail(bench, backlog)
    assert figures(backlog) == (0, 0, 1)
    bench.log.end_turn()
    assert figures(restarted(bench)) == (0, 0, 1)
    bench.kill()
    backlog = restarted(bench, 1)
    backlog.redrive([0])
    bench.log.end_turn()
    assert figures(restarted(bench)) == (1, 0, 0)


def test_a_message_never_delivered_can_be_set_aside_beyond_the_cursor(bench: Bench) -> None:
    backlog = opened(bench)
    bench.publish(b"a", b"b", b"c")
    quarantine = quarantine_of(backlog)
    backlog.progress.cursor = 0
    backlog._cursor.skip_one(1)
    assert quarantine.set_aside(1, operator_event(7), 1)
    bench.log.end_turn()
    assert figures(backlog) == (2, 0, 1)
    backlog = restarted(bench)
    assert figures(backlog) == (2, 0, 1)
    assert list(everything(backlog)) == [b"a", b"c"]
    backlog.redrive([1])
    assert list(everything(backlog)) == [b"b"]
    assert backlog.progress.floor == 3


def test_a_full_quarantine_drops_nothing(tmp_path: Path) -> None:
    bench = Bench(tmp_path, quarantine=QuarantineLimits(count_max=2, bytes_max=10))
    backlog = opened(bench, max_attempts=1)
    bench.publish(b"123456", b"123456", b"1", b"1")
    fail(bench, backlog)
    # The second has no room for its bytes, the fourth none at all.
    assert sorted(backlog.progress.quarantined) == [0, 2]
    assert figures(backlog) == (2, 0, 2)
    quarantine = quarantine_of(backlog)
    assert "--quarantine-max-count" in quarantine.full_reason()
    assert sorted(everything(backlog)) == [b"1", b"123456"]
    backlog.redrive([0])
    assert quarantine.full_reason() == ""
    fail(bench, backlog)
    assert (figures(backlog), quarantine.bytes) == ((0, 0, 2), 7)


def test_a_message_larger_than_the_room_left_is_told(tmp_path: Path) -> None:
    bench = Bench(tmp_path, quarantine=QuarantineLimits(bytes_max=10))
    backlog = opened(bench, max_attempts=1)
    bench.publish(b"12345678901")
    fail(bench, backlog)
    assert figures(backlog) == (1, 0, 0)
    assert "--quarantine-max-bytes" in quarantine_of(backlog).full_reason()


def test_what_is_finished_emptied_or_rewound_leaves_the_quarantine(bench: Bench) -> None:
    backlog = opened(bench, max_attempts=1)
    bench.publish(b"a", b"bb", b"ccc", b"dddd")
    fail(bench, backlog)
    quarantine = quarantine_of(backlog)
    backlog.settle([b"%016x" % (bench.topic.id_base + 3)])
    assert (quarantine.count, quarantine.bytes) == (3, 6)
    backlog.seek(1)
    assert (figures(backlog), quarantine.bytes) == ((3, 0, 0), 0)
    fail(bench, backlog)
    assert quarantine.bytes == 9
    backlog.empty()
    assert (figures(backlog), quarantine.bytes, backlog.progress.floor) == ((0, 0, 0), 0, 4)


def test_the_history_of_a_message_tells_how_its_deliveries_ended(bench: Bench) -> None:
    backlog = opened(bench, max_attempts=EVENTS_MAX + 5)
    bench.publish(b"a")
    for number in range(EVENTS_MAX + 5):
        bench.clock.advance(ms=1)
        fail(bench, backlog, reason=REASONS[number % 3])
    assert figures(backlog) == (0, 0, 1)
    events = quarantine_of(backlog).history.of(0)
    assert [event.reason for event in events] == [REASONS[number % 3] for number in range(5, EVENTS_MAX + 5)]
    assert {event.consumer for event in events} == {"worker 10.0.0.7:5"}
    bench.clock.advance(ms=2_000)
    bench.log.tick(bench.clock.monotonic_ns())
    backlog = restarted(bench)
    assert quarantine_of(backlog).history.of(0) == events
    backlog.settle([b"%016x" % bench.topic.id_base])
    assert quarantine_of(backlog).history.of(0) == ()


def test_a_damaged_file_of_histories_costs_the_histories_alone(bench: Bench) -> None:
    backlog = opened(bench)
    bench.publish(b"a")
    fail(bench, backlog)
    fail(bench, backlog)
    bench.clock.advance(ms=2_000)
    bench.log.tick(bench.clock.monotonic_ns())
    path = bench.path / "log" / "progress" / "histories"
    assert b"worker 10.0.0.7:5" in path.read_bytes()
    path.write_bytes(path.read_bytes()[:-3])
    backlog = restarted(bench)
    assert figures(backlog) == (0, 0, 1)
    assert quarantine_of(backlog).history.of(0) == ()


def test_histories_take_a_bounded_part_of_memory(bench: Bench) -> None:
    backlog = opened(bench, max_attempts=0)
    bench.publish(*[b"x"] * (MESSAGES_MAX + 50))
    for _ in range(3):
        fail(bench, backlog, 5_000)
    history = quarantine_of(backlog).history
    assert (len(history.by_offset), min(history.by_offset)) == (MESSAGES_MAX, 50)
    assert list(everything(backlog)) == [b"x"] * (MESSAGES_MAX + 50)
    assert history.by_offset == {}
    assert history._budget.used == 0


def test_ranges_without_some_offsets() -> None:
    assert without([(0, 10)], []) == [(0, 10)]
    assert without([(0, 3), (5, 5)], [0, 2, 4, 6, 9, 30]) == [(1, 1), (5, 1), (7, 2)]
    assert without([(0, 2)], [0, 1]) == []
