"""Single messages of a channel: lists by state, and acts on one or many. Time moves by hand."""

from pathlib import Path

import pytest

from queue_engine.delivery.stats import ClientStats, MessageResult
from queue_engine.engine.engine import Engine
from queue_engine.engine.messages.log_messages import LogMessages
from queue_engine.engine.messages.rows import (
    BY_AGE,
    BY_ATTEMPTS,
    DEFERRED,
    FINISHED,
    IN_FLIGHT,
    QUARANTINED,
    UNREAD,
    WAITING,
    InvalidQueryError,
    MessageNotFoundError,
    MessageQuery,
    MessageRow,
    MessageRows,
)
from queue_engine.vocabulary.clock import NS_PER_MS
from queue_engine.vocabulary.errors import FencedError, InvalidStorageError, LimitError, TopicNotFoundError
from tests.support.clock import ManualClock
from tests.support.engine import Client, make_engine, pass_time, settle

ALL = 100


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def engine(tmp_path: Path, clock: ManualClock) -> Engine:
    engine = make_engine(tmp_path, clock)
    engine.acts.create_topic("orders")
    engine.acts.create_channel("orders", "billing")
    return engine


def publish(engine: Engine, *bodies: bytes, topic: str = "orders", defer_ms: int = 0) -> None:
    ticket = engine.publish(topic, list(bodies), defer_ms=defer_ms)
    settle(engine)
    assert ticket.done
    assert ticket.error is None


def client_of(engine: Engine, *, ready: int = 0) -> Client:
    client = Client(engine, "orders", "billing", ready=ready, msg_timeout_ms=600_000)
    client.stats = lambda: _client_stats(client.consumer.key)
    return client


def _client_stats(key: int) -> ClientStats:
    return ClientStats(
        client_key=key,
        client_id="printer",
        hostname="host",
        user_agent="",
        remote_address="10.0.0.7:5000",
        version="V2",
        state=3,
        ready_count=0,
        in_flight_count=0,
        message_count=0,
        finish_count=0,
        requeue_count=0,
        timeout_count=0,
        connect_ts=0,
        msg_timeout_ms=60_000,
    )


def listed(engine: Engine, state: str, **query: object) -> MessageRows:
    wanted = MessageQuery(**{"state": state, "limit": ALL, "preview_bytes": 64, **query})
    return engine.messages.list("orders", "billing", wanted)


def bodies(engine: Engine, state: str, **query: object) -> list[bytes]:
    return [row.body_start for row in listed(engine, state, **query).rows]


def row_with(engine: Engine, state: str, body: bytes) -> MessageRow:
    (row,) = [row for row in listed(engine, state).rows if row.body_start == body]
    return row


def do(engine: Engine, act: str, *rows: MessageRow, **details: object) -> list[MessageResult]:
    ids = [row.message_id for row in rows]
    outcome, ticket = getattr(engine.message_acts, act)("orders", "billing", ids=ids, **details)
    settle(engine)
    engine.tick()
    assert ticket.done
    assert ticket.error is None
    assert [result.reference for result in outcome.results] == ids
    return list(outcome.results)


def counts(engine: Engine) -> dict[str, int | None]:
    return dict(listed(engine, WAITING).counts)


def is_log(engine: Engine) -> bool:
    return engine.topics["orders"].store.kind == "log"


def in_every_place(engine: Engine) -> Client:
    """0 finished, 1 in flight, 2 given back by its consumer, 3 deferred by REQ, 4 published to be deferred, 5, 6, 7
    ahead."""
    client = client_of(engine, ready=4)
    publish(engine, *(b"%d" % number for number in range(4)))
    publish(engine, b"4", defer_ms=60_000)
    client.consumer.ready_count = 0
    publish(engine, b"5", b"6", b"7")
    received = {one.body: one.id for one in client.sink.received}
    client.finish(received[b"0"])
    channel = client.channel
    channel.requeue(client.consumer, received[b"2"], 0, engine.clock.monotonic_ns())
    channel.requeue(client.consumer, received[b"3"], 30_000 * NS_PER_MS, engine.clock.monotonic_ns())
    settle(engine)
    return client


def test_each_state_lists_its_messages_and_the_counts_add_up(engine: Engine) -> None:
    in_every_place(engine)
    assert sorted(bodies(engine, WAITING)) == [b"2", b"5", b"6", b"7"]
    assert bodies(engine, IN_FLIGHT) == [b"1"]
    assert bodies(engine, DEFERRED) == [b"3", b"4"]
    assert bodies(engine, FINISHED) == ([b"0"] if is_log(engine) else [])
    finished = 1 if is_log(engine) else None
    assert counts(engine) == {WAITING: 4, IN_FLIGHT: 1, DEFERRED: 2, QUARANTINED: 0, FINISHED: finished}
    assert bodies(engine, QUARANTINED) == []


def test_waiting_messages_are_listed_in_the_order_in_which_they_are_delivered(engine: Engine) -> None:
    client = in_every_place(engine)
    expected = bodies(engine, WAITING)
    before = len(client.sink.received)
    client.ready(10)
    assert client.bodies[before:] == expected


def test_a_message_in_flight_has_its_holder_its_deadline_and_its_touches(engine: Engine, clock: ManualClock) -> None:
    client = client_of(engine, ready=2)
    publish(engine, b"one", b"two")
    first = client.sink.received[0].id
    clock.advance(ms=1_000)
    client.channel.touch(client.consumer, first, clock.monotonic_ns())
    client.channel.touch(client.consumer, first, clock.monotonic_ns())
    row, other = row_with(engine, IN_FLIGHT, b"one"), row_with(engine, IN_FLIGHT, b"two")
    assert (row.touches, row.deadline_ms, row.held_ms, row.attempts) == (2, 600_000, 1_000, 1)
    assert (other.touches, other.deadline_ms, other.held_ms) == (0, 599_000, 1_000)
    assert (row.client_key, row.client_id, row.client_address) == (client.consumer.key, "printer", "10.0.0.7:5000")
    client.leave()
    assert listed(engine, IN_FLIGHT).rows == ()


def test_a_deferred_message_has_its_due_time(engine: Engine, clock: ManualClock) -> None:
    publish(engine, b"later", defer_ms=5_000)
    assert row_with(engine, DEFERRED, b"later").due_at_ns == clock.time_ns() + 5_000 * NS_PER_MS


def test_one_message_has_its_whole_body_its_state_and_its_attempts(engine: Engine) -> None:
    client = client_of(engine, ready=1)
    publish(engine, b"x" * 5_000, b"waits")
    held = client.sink.received[0].id.decode()
    found = engine.messages.one("orders", "billing", message_id=held)
    assert (found.row.state, found.row.attempts, found.body) == (IN_FLIGHT, 1, b"x" * 5_000)
    waiting = row_with(engine, WAITING, b"waits")
    found = engine.messages.one("orders", "billing", message_id=waiting.message_id)
    assert (found.row.state, found.body) == (WAITING, b"waits")
    if is_log(engine):
        assert engine.messages.one("orders", "billing", offset=waiting.offset).body == b"waits"


def test_one_message_that_is_not_there_is_refused_with_the_reason(engine: Engine) -> None:
    publish(engine, b"one")
    with pytest.raises(MessageNotFoundError):
        engine.messages.one("orders", "billing", message_id="0" * 16)
    with pytest.raises(InvalidQueryError, match="id=XYZ is not 16 hex digits"):
        engine.messages.one("orders", "billing", message_id="XYZ")
    with pytest.raises(InvalidQueryError, match="give one of them"):
        engine.messages.one("orders", "billing")
    if is_log(engine):
        with pytest.raises(MessageNotFoundError, match="topic orders has no offset 7: its offsets end before 1"):
            engine.messages.one("orders", "billing", offset=7)
    else:
        with pytest.raises(InvalidQueryError, match="have no offsets"):
            engine.messages.one("orders", "billing", offset=0)


def test_a_wrong_query_is_refused_with_a_sentence(engine: Engine) -> None:
    for query, error in (
        ({"state": "lost"}, "state=lost can be waiting, in_flight, deferred, quarantined, finished"),
        ({"sort": "size"}, "sort=size can be attempts or age"),
        ({"limit": 101}, "limit=101 is above 100"),
        ({"limit": -1}, "limit=-1 is below 0"),
        ({"preview_bytes": 1_025}, "preview_bytes=1025 is above 1024"),
        ({"after": "x7"}, "after=x7 is not the next_cursor"),
        (
            {"state": "finished", "sort": "attempts"},
            "the log does not store how often finished messages were delivered",
        ),
    ):
        with pytest.raises((InvalidQueryError, LimitError), match=error):
            engine.messages.list("orders", "billing", MessageQuery(**query))


def test_pages_follow_each_other_to_the_end(engine: Engine) -> None:
    publish(engine, *(b"%03d" % number for number in range(25)))
    for sort in ("", BY_AGE, BY_ATTEMPTS):
        found: list[bytes] = []
        after = ""
        for _ in range(9):
            page = listed(engine, WAITING, sort=sort, limit=10, after=after)
            found += [row.body_start for row in page.rows]
            after = page.next_cursor
            if not after:
                break
        assert found == [b"%03d" % number for number in range(25)], sort


def test_sorted_by_attempts_the_message_with_the_most_comes_first(engine: Engine) -> None:
    client = client_of(engine, ready=1)
    publish(engine, b"poison", b"good", b"other")
    for _ in range(3):
        message = client.sink.received[-1]
        client.consumer.ready_count = 0
        client.channel.requeue(client.consumer, message.id, 0, 0)
        if message.body != b"poison":
            break
        client.ready(1)
    rows = listed(engine, WAITING, sort=BY_ATTEMPTS).rows
    attempts = [row.attempts for row in rows]
    assert attempts == sorted(attempts, reverse=True)
    assert attempts[0] >= 1
    assert all(row.attempts for row in listed(engine, WAITING, attempts_min=1).rows)


def test_filters_by_time_leave_the_others_out(engine: Engine, clock: ManualClock) -> None:
    publish(engine, b"old")
    clock.advance(ms=1_000)
    since_ns = clock.time_ns()
    publish(engine, b"new")
    clock.advance(ms=1_000)
    until_ns = clock.time_ns()
    publish(engine, b"newest")
    assert bodies(engine, WAITING, since_ns=since_ns) == [b"new", b"newest"]
    assert bodies(engine, WAITING, since_ns=since_ns, until_ns=until_ns) == [b"new"]
    if is_log(engine):
        assert bodies(engine, WAITING, first_offset=1) == [b"new", b"newest"]
        assert bodies(engine, WAITING, first_offset=1, end_offset=2) == [b"new"]


@pytest.mark.parametrize("body", [b"1", b"2", b"3", b"4", b"6"])
def test_a_message_is_finished_wherever_it_stands_and_never_comes_again(
    engine: Engine, clock: ManualClock, body: bytes
) -> None:
    client = in_every_place(engine)
    state = next(state for state in (WAITING, IN_FLIGHT, DEFERRED) if body in bodies(engine, state))
    before = counts(engine)
    (result,) = do(engine, "finish_messages", row_with(engine, state, body))
    assert (result.was, result.code) == (state, "")
    after = counts(engine)
    assert after[state] == (before[state] or 0) - 1
    if is_log(engine):
        assert after[FINISHED] == (before[FINISHED] or 0) + 1
        assert row_with(engine, FINISHED, body).state == FINISHED
    client.leave()
    client = client_of(engine, ready=100)
    pass_time(engine, clock, 120_000)
    assert sorted(client.bodies) == sorted({b"1", b"2", b"3", b"4", b"5", b"6", b"7"} - {body})


def test_a_consumer_that_finishes_what_was_finished_by_hand_gets_the_usual_error(engine: Engine) -> None:
    client = client_of(engine, ready=1)
    publish(engine, b"one", b"two")
    do(engine, "finish_messages", row_with(engine, IN_FLIGHT, b"one"))
    assert client.bodies == [b"one", b"two"]  # it has room again
    assert client.finish(client.sink.received[0].id) == ["ID not in flight"]
    assert client.consumer.in_flight_count == 1


def test_a_message_in_flight_waits_again_at_once(engine: Engine) -> None:
    client = client_of(engine, ready=1)
    publish(engine, b"one")
    client.consumer.ready_count = 0
    (result,) = do(engine, "requeue_messages", row_with(engine, IN_FLIGHT, b"one"))
    assert (result.was, result.code) == (IN_FLIGHT, "")
    assert row_with(engine, WAITING, b"one").attempts == 1
    assert do(engine, "requeue_messages", row_with(engine, WAITING, b"one"))[0].code == "NOT_IN_FLIGHT"


def test_a_deferred_message_waits_at_once(engine: Engine, clock: ManualClock) -> None:
    publish(engine, b"first", b"second", defer_ms=60_000)
    (result,) = do(engine, "release_messages", row_with(engine, DEFERRED, b"second"))
    assert (result.was, result.code) == (DEFERRED, "")
    assert bodies(engine, WAITING) == [b"second"]
    assert bodies(engine, DEFERRED) == [b"first"]
    assert do(engine, "release_messages", row_with(engine, WAITING, b"second"))[0].code == "NOT_DEFERRED"
    client = client_of(engine, ready=10)
    pass_time(engine, clock, 120_000)
    assert client.bodies == [b"second", b"first"]


def test_a_released_message_can_be_deferred_again_and_comes_once(engine: Engine, clock: ManualClock) -> None:
    publish(engine, b"one", defer_ms=60_000)
    do(engine, "release_messages", row_with(engine, DEFERRED, b"one"))
    client = client_of(engine, ready=1)
    client.channel.requeue(client.consumer, client.sink.received[0].id, 10_000 * NS_PER_MS, clock.monotonic_ns())
    pass_time(engine, clock, 10_000)
    assert client.bodies == [b"one", b"one"]
    client.finish(client.sink.received[1].id)
    pass_time(engine, clock, 120_000)
    assert client.bodies == [b"one", b"one"]
    assert counts(engine)[DEFERRED] == 0


def test_each_id_has_one_result_and_those_that_can_t_be_done_change_nothing(engine: Engine) -> None:
    in_every_place(engine)
    gone = row_with(engine, WAITING, b"6")
    do(engine, "finish_messages", gone)
    held = row_with(engine, IN_FLIGHT, b"1")
    unknown = MessageRow(WAITING, "f" * 16)
    results = do(engine, "finish_messages", gone, held, unknown)
    code = "FINISHED_ALREADY" if is_log(engine) else "MESSAGE_NOT_FOUND"
    assert [result.code for result in results] == [code, "", "MESSAGE_NOT_FOUND"]


def test_a_message_is_published_again_here_and_elsewhere(engine: Engine) -> None:
    publish(engine, b"one", b"two")
    engine.acts.create_topic("repair")
    engine.acts.create_channel("repair", "c")
    row = row_with(engine, WAITING, b"two")
    (result,) = do(engine, "publish_again", row)
    assert bodies(engine, WAITING) == [b"one", b"two", b"two"]
    assert result.new_id not in ("", row.message_id)
    assert engine.messages.one("orders", "billing", message_id=result.new_id).body == b"two"
    do(engine, "publish_again", row, to="repair")
    assert engine.catalog.channel("repair", "c").backlog.depth == 1
    with pytest.raises(TopicNotFoundError, match="topic typo does not exist"):
        engine.message_acts.publish_again("orders", "billing", ids=[row.message_id], to="typo")


def test_too_many_messages_at_once_are_refused(engine: Engine) -> None:
    with pytest.raises(LimitError, match="1001 messages are named and the most at once is 1000"):
        engine.message_acts.finish_messages("orders", "billing", ids=["0" * 16] * 1_001)
    with pytest.raises(InvalidQueryError, match="no message is named"):
        engine.message_acts.finish_messages("orders", "billing")


def test_a_fenced_channel_refuses_acts_on_single_messages(engine: Engine) -> None:
    publish(engine, b"one")
    row = row_with(engine, WAITING, b"one")
    engine.catalog.channel("orders", "billing").stop("testing", RuntimeError("boom"))
    with pytest.raises(FencedError):
        engine.message_acts.finish_messages("orders", "billing", ids=[row.message_id])


def test_a_cursor_beyond_all_numbers_is_refused_and_stops_nothing(engine: Engine) -> None:
    publish(engine, b"a")
    for kind in "no":
        for sort in ("", BY_AGE, BY_ATTEMPTS):
            with pytest.raises(InvalidQueryError):
                engine.messages.list("orders", "billing", MessageQuery(sort=sort, after=kind + "9" * 19))
    assert engine.topics["orders"].channels["billing"].fence is None


def test_a_look_that_fails_unexpectedly_stops_no_channel(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    publish(engine, b"a")

    def broken(*_: object) -> None:
        raise AssertionError("a bug")

    monkeypatch.setattr("queue_engine.engine.messages.message_reads.log_messages_of", broken)
    monkeypatch.setattr("queue_engine.engine.messages.message_search.check", broken)
    with pytest.raises(AssertionError):
        engine.messages.list("orders", "billing", MessageQuery())
    with pytest.raises(AssertionError):
        engine.messages.one("orders", "billing", message_id="0" * 16)
    with pytest.raises(AssertionError):
        engine.message_search.start("orders", "billing", "a")
    assert engine.topics["orders"].channels["billing"].fence is None


def test_publishing_again_reads_no_more_bodies_than_fit(
    tmp_path: Path, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = make_engine(tmp_path, clock, max_msg_size=1_000, max_body_size=2_000)
    engine.acts.create_topic("orders", storage="log")
    settle(engine)
    engine.acts.create_channel("orders", "billing")
    for _ in range(10):
        publish(engine, bytes(900))
    read: list[int] = []
    of_log = LogMessages.read
    monkeypatch.setattr(LogMessages, "read", lambda self, offset: read.append(offset) or of_log(self, offset))
    with pytest.raises(LimitError, match="the first 3 of 10 bodies have 2700 bytes and the most at once is 2000"):
        engine.message_acts.publish_again("orders", "billing", offsets=list(range(10)))
    assert len(read) == 3


def keyed(engine: Engine, *bodies: bytes, key: bytes = b"customer 7") -> None:
    for body in bodies:
        engine.log.publish_keyed("orders", body, key)
    settle(engine)
    engine.tick()


def test_messages_with_a_key_are_listed_by_their_state_the_newest_first(engine: Engine) -> None:
    if not is_log(engine):
        with pytest.raises(InvalidStorageError, match="only the log keeps keys"):
            listed(engine, WAITING, key=b"customer 7")
        return
    client = client_of(engine, ready=2)
    keyed(engine, b"0", b"1")
    client.consumer.ready_count = 0
    publish(engine, b"without")
    keyed(engine, b"2")
    keyed(engine, b"of another", key=b"customer 8")
    keyed(engine, b"3", b"4")
    client.finish(client.sink.received[0].id)
    settle(engine)
    assert bodies(engine, WAITING, key=b"customer 7") == [b"4", b"3", b"2"]
    [held] = listed(engine, IN_FLIGHT, key=b"customer 7").rows
    assert (held.body_start, held.client_id, held.key) == (b"1", "printer", b"customer 7")
    assert bodies(engine, FINISHED, key=b"customer 7") == [b"0"]
    assert bodies(engine, DEFERRED, key=b"customer 7") == []
    assert bodies(engine, WAITING, key=b"customer 9") == []
    first = listed(engine, WAITING, key=b"customer 7", limit=2)
    assert [row.body_start for row in first.rows] == [b"4", b"3"]
    rest = listed(engine, WAITING, key=b"customer 7", limit=2, after=first.next_cursor)
    assert ([row.body_start for row in rest.rows], rest.next_cursor) == ([b"2"], "")
    # With the other filters.
    assert bodies(engine, WAITING, key=b"customer 7", first_offset=3, end_offset=6) == [b"3", b"2"]
    assert bodies(engine, WAITING, key=b"customer 7", attempts_min=1) == []
    with pytest.raises(InvalidQueryError, match="sort=age: messages with a key are listed with the newest first"):
        listed(engine, WAITING, key=b"customer 7", sort=BY_AGE)


def test_a_page_of_a_key_that_looks_at_much_ends_and_goes_on(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    keyed(engine, *(b"%d" % number for number in range(7)))
    monkeypatch.setattr("queue_engine.engine.messages.keyed_messages.OFFSETS_MAX", 3)
    nothing = listed(engine, QUARANTINED, key=b"customer 7")
    assert (nothing.rows, nothing.next_cursor) == ((), "o4")
    pages, after = [], ""
    while True:
        page = listed(engine, WAITING, key=b"customer 7", after=after)
        pages.append([row.body_start for row in page.rows])
        after = page.next_cursor
        if not after:
            break
    assert pages == [[b"6", b"5", b"4"], [b"3", b"2", b"1"], [b"0"]]


def test_a_page_of_a_key_says_what_is_not_indexed_yet(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    keyed(engine, b"0", b"1", b"2")
    monkeypatch.setattr("queue_engine.storage.key_index.key_indexes.KeyIndexes.missing", lambda self, topic: [(1, 3)])
    page = listed(engine, WAITING, key=b"customer 7")
    assert page.note == "From offset 1 on, 2 messages are not indexed yet and may be missing here."


def test_a_small_message_in_a_record_too_large_for_the_page_says_why_it_was_not_read(
    tmp_path: Path, clock: ManualClock
) -> None:
    sizes = {"max_msg_size": 5 << 20, "max_body_size": 6 << 20}
    engine = make_engine(tmp_path, clock, **sizes)
    engine.acts.create_topic("orders", storage="log")
    engine.acts.create_channel("orders", "billing")
    for _ in range(3):
        publish(engine, b"x" * (9 << 19), b"small")
    engine.close()
    engine = make_engine(tmp_path, clock, **sizes)  # nothing of them is in memory
    rows = listed(engine, WAITING).rows
    assert [row.body_bytes for row in rows] == [9 << 19, 5, None, None, None, None]
    assert [row.problem for row in rows] == ["", "", UNREAD, UNREAD, UNREAD, UNREAD]
    third = rows[3].offset
    assert third is not None
    (row,) = listed(engine, WAITING, first_offset=third, limit=1).rows
    assert (row.body_bytes, row.problem) == (5, "")
