"""What delivery may rely on, whatever the storage kind: `TopicStore` and `Backlog`, state by state."""

import errno
from pathlib import Path

import pytest

from queue_engine.storage.store import Backlog
from queue_engine.vocabulary.errors import StorageError
from queue_engine.vocabulary.run import Run
from tests.contracts.kinds import KINDS, Shelf, StorageKind, attempts_of, bodies_of, take_all


@pytest.fixture(params=KINDS, ids=lambda kind: kind.name)
def kind(request: pytest.FixtureRequest) -> StorageKind:
    found: StorageKind = request.param
    return found


@pytest.fixture
def shelf(kind: StorageKind, tmp_path: Path) -> Shelf:
    return Shelf(kind, tmp_path)


def counts(backlog: Backlog) -> tuple[int, int]:
    return backlog.depth, backlog.deferred_count


def take(backlog: Backlog, count_max: int = 100, bytes_max: int = 1 << 20) -> Run:
    run = backlog.take(count_max, bytes_max)
    assert run is not None
    return run


# States and counts. (both)


def test_a_message_waits_is_taken_sent_and_settled(shelf: Shelf) -> None:
    backlog = shelf.store.open_channel("c")
    ticket = shelf.append(b"a", b"b", b"c")
    assert ticket.done
    assert ticket.error is None
    assert (counts(backlog), backlog.message_count, shelf.store.depth) == ((3, 0), 3, 0)
    run = take(backlog, 2)
    assert bodies_of(run) == [b"a", b"b"]
    assert attempts_of(run) == [1, 1]
    assert counts(backlog) == (1, 0)
    backlog.sent(run)
    backlog.settle(run.ids)
    assert counts(backlog) == (1, 0)
    assert take_all(backlog) == [(b"c", 1)]
    assert backlog.take(1, 1_000) is None
    assert backlog.message_count == 3


def test_every_channel_has_every_message_under_the_same_id_and_its_own_progress(shelf: Shelf) -> None:
    first, second = shelf.store.open_channel("first"), shelf.store.open_channel("second")
    shelf.append(b"a", b"b")
    one, other = take(first), take(second)
    assert one.ids == other.ids
    first.settle(one.ids)
    second.give_back(other, other.ids, counted=True)
    assert (first.depth, second.depth) == (0, 2)


def test_what_comes_before_the_first_channel_waits_at_the_topic_for_it_alone(shelf: Shelf) -> None:
    shelf.append(b"a", b"b")
    assert shelf.store.depth == 2
    first = shelf.store.open_channel("first")
    shelf.pump()
    second = shelf.store.open_channel("second")
    assert (shelf.store.depth, first.depth, second.depth) == (0, 2, 0)
    assert take_all(first) == [(b"a", 1), (b"b", 1)]


def test_what_does_not_flow_waits_at_the_topic_and_goes_on_in_order(shelf: Shelf) -> None:
    backlog = shelf.store.open_channel("c")
    shelf.store.set_flowing(False)
    for number in range(10):
        shelf.append(b"%d" % number)
    assert (shelf.store.depth, backlog.depth, shelf.store.pump(100)) == (10, 0, 0)
    shelf.store.set_flowing(True)
    shelf.pump()
    assert [body for body, _ in take_all(backlog)] == [b"%d" % number for number in range(10)]
    assert shelf.store.depth == 0


def test_pump_moves_no_more_than_asked_for_where_messages_came_one_by_one(shelf: Shelf) -> None:
    shelf.append(b"a")
    shelf.append(b"b")
    shelf.append(b"c")
    backlog = shelf.store.open_channel("c")
    assert shelf.store.pump(2) == 2
    assert (shelf.store.depth, backlog.depth) == (1, 2)


def test_oldest_is_the_publish_time_of_the_head(shelf: Shelf) -> None:
    backlog = shelf.store.open_channel("c")
    assert backlog.oldest_ns() is None
    published_ns = shelf.clock.time_ns()
    shelf.append(b"a")
    shelf.clock.advance(ms=100)
    shelf.append(b"b")
    assert backlog.oldest_ns() == published_ns
    run = take(backlog, 1)
    backlog.sent(run)
    backlog.settle(run.ids)
    assert backlog.oldest_ns() == published_ns + 100_000_000


def test_the_counts_at_one_go_are_those_that_are_read_one_by_one(kind: StorageKind, shelf: Shelf) -> None:
    backlog = shelf.store.open_channel("c")
    seen = 0

    def check() -> None:
        nonlocal seen
        shelf.clock.advance(ms=10)
        plain = backlog.plain_counts()
        if plain is not None:
            seen += 1
            counted = backlog.depth, backlog.backend_depth, backlog.message_count
            assert plain[:5] == (*counted, backlog.oldest_ns(), backlog.disk_bytes())
            assert (plain[5], backlog.deferred_count) == (backlog.quarantine_stats(), 0)

    check()
    for number in range(6):
        shelf.append(b"%d" % number)
        check()
    unsent, sent = take(backlog, 1), take(backlog, 2)
    backlog.sent(sent)
    check()
    backlog.give_back(unsent, unsent.ids, counted=False)
    check()
    again = take(backlog, 1)
    backlog.settle(again.ids)
    backlog.give_back(sent, sent.ids[:1], counted=True)
    check()
    backlog.give_back(sent, sent.ids[1:], counted=True, due_ns=shelf.clock.monotonic_ns() + 15_000_000)
    check()
    check()
    backlog.release_due(shelf.clock.monotonic_ns(), 10)
    check()
    while (run := backlog.take(10, 1_000)) is not None:
        backlog.sent(run)
        backlog.settle(run.ids)
    check()
    shelf.append(b"last")
    check()
    assert (seen >= 9) == kind.counts_at_one_go


# Limits of take. (both)


@pytest.mark.parametrize("count_max", [1, 2, 3, 7])
def test_take_gives_no_more_than_asked_for_and_all_in_order(shelf: Shelf, count_max: int) -> None:
    backlog = shelf.store.open_channel("c")
    for start in range(0, 20, 5):
        shelf.append(*[b"%d" % number for number in range(start, start + 5)])
    seen: list[bytes] = []
    while (run := backlog.take(count_max, 1 << 20)) is not None:
        assert 1 <= len(run) <= count_max
        seen += bodies_of(run)
        assert backlog.depth == 20 - len(seen)
    assert seen == [b"%d" % number for number in range(20)]


def test_take_keeps_to_its_bytes_but_gives_at_least_one(shelf: Shelf) -> None:
    backlog = shelf.store.open_channel("c")
    shelf.append(b"x" * 100, b"x" * 100, b"x" * 1_000, b"x" * 100)
    assert len(take(backlog, 10, 300)) == 2
    assert bodies_of(take(backlog, 10, 300)) == [b"x" * 1_000]
    assert len(take(backlog, 10, 1)) == 1
    assert backlog.take(10, 1) is None


@pytest.mark.parametrize("is_counted", [True, False], ids=["requeued", "unsent"])
def test_messages_larger_than_the_bytes_come_one_by_one_again_and_again(shelf: Shelf, is_counted: bool) -> None:
    backlog = shelf.store.open_channel("c")
    sent = sorted(b"%d" % number * 1_000 for number in range(4))
    shelf.append(*sent)
    for _ in range(3):
        held = []
        while (run := backlog.take(10, 500)) is not None:
            assert len(run) == 1
            backlog.sent(run)
            held.append(run)
        assert sorted(body for run in held for body in bodies_of(run)) == sent
        for run in held:
            backlog.give_back(run, run.ids, counted=is_counted)
        assert backlog.depth == 4


def test_small_messages_between_large_ones_keep_to_the_bytes_when_they_come_again(shelf: Shelf) -> None:
    backlog = shelf.store.open_channel("c")
    sent = sorted(bytes([97 + number]) * size for number, size in enumerate([10, 1_000, 10, 10, 2_000, 10, 1_000]))
    shelf.append(*sent)
    for _ in range(3):
        held = []
        while (run := backlog.take(10, 300)) is not None:
            assert len(run) == 1 or len(run.frames) <= 300
            backlog.sent(run)
            held.append(run)
        assert sorted(body for run in held for body in bodies_of(run)) == sent
        for run in held:
            backlog.give_back(run, run.ids, counted=True)


# Giving back. (both)


def test_the_unsent_goes_to_the_front_and_keeps_its_attempts(shelf: Shelf) -> None:
    backlog = shelf.store.open_channel("c")
    shelf.append(b"a", b"b", b"c", b"d")
    run = take(backlog, 3)
    backlog.give_back(run, run.ids[1:], counted=False)
    assert backlog.depth == 3
    assert take_all(backlog) == [(b"b", 1), (b"c", 1), (b"d", 1)]


def test_what_was_delivered_has_one_attempt_more_each_time(shelf: Shelf) -> None:
    backlog = shelf.store.open_channel("c")
    shelf.append(b"a")
    for attempt in range(1, 5):
        run = take(backlog)
        assert attempts_of(run) == [attempt]
        backlog.sent(run)
        backlog.give_back(run, run.ids, counted=True)
        assert counts(backlog) == (1, 0)


def test_the_delivered_wait_behind_each_other_and_do_not_keep_new_ones_from_coming(shelf: Shelf) -> None:
    backlog = shelf.store.open_channel("c")
    shelf.append(b"a", b"b", b"c", b"d", b"e")
    for _ in range(2):
        run = take(backlog, 1)
        backlog.sent(run)
        backlog.give_back(run, run.ids, counted=True)
    seen = take_all(backlog, count_max=1)
    assert sorted(body for body, _ in seen) == [b"a", b"b", b"c", b"d", b"e"]
    assert [body for body, attempts in seen if attempts == 1] == sorted(b for b, attempts in seen if attempts == 1)


def expected_order(kind: StorageKind, waiting: list[bytes], returned: list[bytes]) -> list[bytes]:
    """What comes back stands behind what waits, as far as that is bounded."""
    at = len(waiting) if kind.behind_max is None else min(kind.behind_max, len(waiting))
    return [*waiting[:at], *returned, *waiting[at:]]


@pytest.mark.parametrize("waiting_count", [1, 2, 3, 4, 20])
def test_what_comes_back_stands_behind_what_waits_but_not_behind_a_deep_backlog(
    shelf: Shelf, waiting_count: int
) -> None:
    backlog = shelf.store.open_channel("c")
    waiting = [b"%d" % number for number in range(waiting_count)]
    shelf.append(b"a", b"b", *waiting)
    run = take(backlog, 2)
    backlog.sent(run)
    backlog.give_back(run, run.ids, counted=True)
    order = [body for body, _ in take_all(backlog, count_max=1)]
    assert order == expected_order(shelf.kind, waiting, [b"a", b"b"])


def test_what_is_published_later_does_not_come_before_what_came_back(shelf: Shelf) -> None:
    backlog = shelf.store.open_channel("c")
    shelf.append(b"a", b"b")
    run = take(backlog, 1)
    backlog.sent(run)
    backlog.give_back(run, run.ids, counted=True)
    shelf.append(*[b"later"] * 10)
    assert [body for body, _ in take_all(backlog)][:2] == [b"b", b"a"]


def test_a_due_message_stands_behind_what_waits_as_well(shelf: Shelf) -> None:
    backlog = shelf.store.open_channel("c")
    shelf.append(b"due", due_ms=10)
    waiting = [b"%d" % number for number in range(8)]
    shelf.append(*waiting)
    shelf.clock.advance(ms=10)
    assert backlog.release_due(shelf.clock.monotonic_ns(), 10) == 1
    order = [body for body, _ in take_all(backlog, count_max=1)]
    assert order == expected_order(shelf.kind, waiting, [b"due"])


def test_messages_that_come_back_again_and_again_leave_room_for_those_that_wait(shelf: Shelf) -> None:
    backlog = shelf.store.open_channel("c")
    waiting = [b"%d" % number for number in range(30)]
    shelf.append(*waiting)
    seen: dict[bytes, int] = {}
    for _ in range(30 * 10):
        run = take(backlog, 1)
        backlog.sent(run)
        (body,) = bodies_of(run)
        seen[body] = seen.get(body, 0) + 1
        backlog.give_back(run, run.ids, counted=True)
    assert len(seen) == 30, "all of them have come, though each comes back at once"
    assert max(seen.values()) > 1


def test_part_of_a_run_can_be_given_back_and_the_rest_settled(shelf: Shelf) -> None:
    backlog = shelf.store.open_channel("c")
    shelf.append(b"a", b"b", b"c")
    run = take(backlog)
    backlog.sent(run)
    backlog.settle([run.ids[1]])
    backlog.give_back(run, [run.ids[2], run.ids[0]], counted=True)
    assert sorted(take_all(backlog)) == [(b"a", 2), (b"c", 2)]


def test_the_deferred_are_counted_apart_and_never_taken_early(shelf: Shelf) -> None:
    backlog = shelf.store.open_channel("c")
    shelf.append(b"later", due_ms=50)
    shelf.append(b"sooner")
    run = take(backlog)
    backlog.sent(run)
    now_ns = shelf.clock.monotonic_ns()
    backlog.give_back(run, run.ids, counted=True, due_ns=now_ns + 20_000_000)
    assert counts(backlog) == (0, 2)
    assert backlog.take(10, 1_000) is None
    assert backlog.next_due_ns() == now_ns + 20_000_000
    assert backlog.latest_due_ns() == now_ns + 50_000_000
    assert backlog.release_due(now_ns + 19_999_999, 10) == 0
    assert backlog.release_due(now_ns + 20_000_000, 10) == 1
    assert counts(backlog) == (1, 1)
    assert take_all(backlog) == [(b"sooner", 2)]
    assert backlog.release_due(now_ns + 60_000_000, 10) == 1
    assert take_all(backlog) == [(b"later", 1)]
    assert (backlog.next_due_ns(), backlog.latest_due_ns()) == (None, None)


def test_no_more_are_released_at_once_than_asked_for_and_all_when_told(shelf: Shelf) -> None:
    backlog = shelf.store.open_channel("c")
    for number in range(6):
        shelf.append(b"%d" % number, due_ms=10 + number)
    assert backlog.release_due(shelf.clock.monotonic_ns() + 10**9, 2) == 2
    assert counts(backlog) == (2, 4)
    assert backlog.release_deferred() == 4
    assert counts(backlog) == (6, 0)
    assert sorted(body for body, _ in take_all(backlog)) == [b"%d" % number for number in range(6)]


def test_a_deferred_message_that_waits_for_a_channel_keeps_its_time(shelf: Shelf) -> None:
    shelf.append(b"later", due_ms=50)
    assert (shelf.store.depth, shelf.store.deferred_count) == (1, 1)
    backlog = shelf.store.open_channel("c")
    shelf.pump()
    assert (shelf.store.depth, counts(backlog)) == (0, (0, 1))
    assert backlog.next_due_ns() == shelf.clock.monotonic_ns() + 50_000_000


# Emptying and deleting. (both)


def test_emptying_a_channel_says_what_it_dropped_and_leaves_the_others(shelf: Shelf) -> None:
    backlog, other = shelf.store.open_channel("c"), shelf.store.open_channel("other")
    shelf.append(*[b"%d" % number for number in range(5)])
    shelf.append(b"later", due_ms=50)
    run = take(backlog, 2)
    backlog.give_back(run, run.ids[:1], counted=True)
    dropped = backlog.empty()
    assert (dropped.depth, dropped.deferred) == (4, 1)
    assert counts(backlog) == (0, 0)
    assert backlog.take(10, 1_000) is None
    assert counts(other) == (5, 1)
    shelf.append(b"new")
    assert take_all(backlog) == [(b"new", 1)]


def test_emptying_a_topic_drops_what_waits_there_and_nothing_else(shelf: Shelf) -> None:
    backlog = shelf.store.open_channel("c")
    shelf.append(b"kept")
    shelf.store.set_flowing(False)
    shelf.append(b"a", b"b")
    shelf.append(b"later", due_ms=50)
    assert shelf.store.empty().depth == 3
    shelf.store.set_flowing(True)
    shelf.pump()
    assert (shelf.store.depth, take_all(backlog), backlog.deferred_count) == (0, [(b"kept", 1)], 0)


def test_a_channel_made_again_under_the_same_name_has_nothing_of_the_old(shelf: Shelf) -> None:
    shelf.store.open_channel("other")
    shelf.store.open_channel("c")
    shelf.append(*[b"old"] * 8)
    shelf.store.delete_channel("c")
    again = shelf.store.open_channel("c")
    shelf.append(b"new")
    assert take_all(again) == [(b"new", 1)]


def test_a_topic_made_again_under_the_same_name_has_nothing_of_the_old(shelf: Shelf) -> None:
    shelf.store.open_channel("c")
    shelf.append(*[b"old"] * 8)
    shelf.store.set_flowing(False)
    shelf.append(*[b"old"] * 8)
    shelf.store.delete()
    if shelf.kind.has_own_files:
        assert [path.name for path in shelf.path.iterdir()] == []
    store = shelf.open()
    again = store.open_channel("c")
    assert (store.depth, again.depth) == (0, 0)
    shelf.append(b"new")
    assert take_all(again) == [(b"new", 1)]


# Closing and opening again. (diskqueue: what has a disk)


@pytest.mark.parametrize("lasting_kind", [kind for kind in KINDS if kind.survives_close], ids=lambda kind: kind.name)
class TestAfterClose:
    @pytest.fixture
    def lasting(self, lasting_kind: StorageKind, tmp_path: Path) -> Shelf:
        return Shelf(lasting_kind, tmp_path)

    def test_nothing_is_lost_whatever_state_it_was_in(self, lasting: Shelf) -> None:
        store = lasting.store
        backlog = store.open_channel("c")
        lasting.append(*[b"%d" % number for number in range(6)])
        lasting.append(b"later", due_ms=60_000)
        unsent = take(backlog, 3)
        backlog.give_back(unsent, unsent.ids[1:], counted=False)
        backlog.give_back(unsent, unsent.ids[:1], counted=True)
        store.set_flowing(False)
        lasting.append(b"at the topic")
        lasting.append(b"at the topic, later", due_ms=60_000)
        store.close()
        assert not lasting.files.open_fds
        store = lasting.open()
        store.set_flowing(False)
        backlog = store.open_channel("c")
        assert (store.depth, backlog.depth, backlog.deferred_count) == (2, 7, 0)
        assert sorted(take_all(backlog)) == [
            (b"0", 2),
            *[(b"%d" % number, 1) for number in range(1, 6)],
            (b"later", 1),
        ]
        store.set_flowing(True)
        lasting.pump()
        assert sorted(take_all(backlog)) == [(b"at the topic", 1), (b"at the topic, later", 1)]

    def test_what_was_emptied_or_deleted_stays_so(self, lasting: Shelf) -> None:
        emptied, _ = lasting.store.open_channel("emptied"), lasting.store.open_channel("deleted")
        lasting.append(*[b"x"] * 8)
        emptied.empty()
        lasting.store.delete_channel("deleted")
        lasting.store.close()
        store = lasting.open()
        assert (store.open_channel("emptied").depth, store.open_channel("deleted").depth) == (0, 0)

    def test_closing_twice_over_keeps_the_same(self, lasting: Shelf) -> None:
        lasting.store.open_channel("c")
        lasting.append(*[b"%d" % number for number in range(9)])
        for _ in range(3):
            lasting.store.close()
            lasting.open().open_channel("c")
        lasting.store.close()
        backlog = lasting.open().open_channel("c")
        assert sorted(body for body, _ in take_all(backlog)) == [b"%d" % number for number in range(9)]


@pytest.mark.parametrize("closing_kind", [kind for kind in KINDS if kind.writes_at_close], ids=lambda kind: kind.name)
def test_a_disk_that_refuses_at_close_is_named_with_the_number_and_the_rest_is_kept(
    closing_kind: StorageKind, tmp_path: Path
) -> None:
    shelf = Shelf(closing_kind, tmp_path)
    shelf.store.open_channel("first")
    shelf.store.open_channel("second")
    shelf.append(b"a", b"b", b"c")
    # All of it is refused, then its first message alone: the other five find room.
    shelf.files.fail("write", errno.ENOSPC, count=2)
    with pytest.raises(StorageError, match=r"1 messages of t:first could not be stored: .*No space left"):
        shelf.store.close()
    shelf.files.heal()
    store = shelf.open()
    kept = [body for name in ("first", "second") for body, _ in take_all(store.open_channel(name))]
    assert sorted(kept) == [b"a", b"b", b"b", b"c", b"c"]


# A disk that refuses. (diskqueue: where an append writes)


@pytest.mark.parametrize("writing_kind", [kind for kind in KINDS if kind.writes_at_append], ids=lambda kind: kind.name)
class TestRefusedWrites:
    @pytest.fixture
    def writing(self, writing_kind: StorageKind, tmp_path: Path) -> Shelf:
        return Shelf(writing_kind, tmp_path)

    def test_a_refused_append_delivers_nothing_and_the_next_one_goes_well(self, writing: Shelf) -> None:
        first, second = writing.store.open_channel("first"), writing.store.open_channel("second")
        writing.files.fail("write", errno.ENOSPC)
        ticket = writing.append(b"refused", b"refused")
        assert isinstance(ticket.error, StorageError)
        assert (first.depth, second.depth, writing.store.depth) == (0, 0, 0)
        assert writing.append(b"taken").error is None
        assert take_all(first) == take_all(second) == [(b"taken", 1)]

    def test_a_disk_that_fails_at_the_second_channel_keeps_it_in_memory_once(self, writing: Shelf) -> None:
        first, second = writing.store.open_channel("first"), writing.store.open_channel("second")
        writing.files.fail("write", errno.ENOSPC, nth=2, count=2)
        assert writing.append(b"a").error is None
        assert (first.depth, second.depth) == (1, 1)
        # The channel that was refused is asked first from now on: memory does not grow behind a full disk.
        assert writing.append(b"b").error is not None
        assert (first.depth, second.depth) == (1, 1)
        writing.files.heal()
        assert writing.append(b"c").error is None
        assert take_all(first) == take_all(second) == [(b"a", 1), (b"c", 1)]

    def test_a_refused_append_at_the_topic_leaves_it_as_it_was(self, writing: Shelf) -> None:
        writing.append(b"a")
        writing.files.fail("write", errno.EIO)
        assert writing.append(b"b").error is not None
        assert writing.store.depth == 1

    def test_a_pump_that_is_refused_keeps_the_message_at_the_topic(self, writing: Shelf) -> None:
        writing.append(b"a", b"b")
        backlog = writing.store.open_channel("c")
        writing.files.fail("write", errno.ENOSPC)
        with pytest.raises(StorageError):
            writing.store.pump(10)
        assert (writing.store.depth, backlog.depth) == (2, 0)
        writing.pump()
        assert (writing.store.depth, take_all(backlog)) == (0, [(b"a", 1), (b"b", 1)])

    def test_giving_back_never_fails_for_want_of_disk(self, writing: Shelf) -> None:
        backlog = writing.store.open_channel("c")
        writing.append(b"a", b"b")
        run = take(backlog)
        backlog.sent(run)
        writing.files.fail("write", errno.ENOSPC, count=10)
        backlog.give_back(run, run.ids[:1], counted=True)
        backlog.give_back(run, run.ids[1:], counted=True, due_ns=1)
        assert backlog.release_due(2, 10) == 1
        assert counts(backlog) == (2, 0)
        assert sorted(take_all(backlog)) == [(b"a", 2), (b"b", 2)]

    def test_a_read_that_fails_loses_nothing(self, writing: Shelf) -> None:
        backlog = writing.store.open_channel("c")
        writing.append(b"a", b"b")
        writing.files.fail("read", errno.EIO)
        with pytest.raises(StorageError):
            backlog.take(10, 1_000)
        assert backlog.depth == 2
        assert take_all(backlog) == [(b"a", 1), (b"b", 1)]
