"""Pauses with a reason and an end: who, why, since when; what ends them, and the ramp that may follow."""

import errno
from pathlib import Path

import pytest

from queue_engine.delivery.ramp_pace import RampPace
from queue_engine.delivery.stats import ActRecord, ChannelStats, TopicStats
from queue_engine.engine.engine import Engine
from queue_engine.vocabulary.clock import NS_PER_MS, NS_PER_S
from queue_engine.vocabulary.errors import PauseError
from queue_engine.vocabulary.flow.pause import PAUSE_MS_MAX, RAMP_MS_MAX, Pause, Ramp
from tests.support.clock import ManualClock
from tests.support.disks.files import FaultyFiles
from tests.support.engine import Client, make_engine, pass_time, settle

MINUTE_MS = 60_000


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


def made(tmp_path: Path, clock: ManualClock, **options: object) -> tuple[Engine, list[ActRecord]]:
    """An engine with orders/billing and three messages; the records of what pauses do by themselves."""
    engine = make_engine(tmp_path, clock, **options)
    told: list[ActRecord] = []
    engine.pauses.on_act = told.append
    engine.acts.create_topic("orders")
    engine.acts.create_channel("orders", "billing")
    engine.publish("orders", [b"a", b"b", b"c"])
    settle(engine)
    return engine, told


def reopened(tmp_path: Path, clock: ManualClock) -> tuple[Engine, list[ActRecord]]:
    engine = make_engine(tmp_path, clock)
    told: list[ActRecord] = []
    engine.pauses.on_act = told.append
    return engine, told


def ms(clock: ManualClock) -> int:
    return clock.time_ns() // NS_PER_MS


def topic_of(engine: Engine) -> TopicStats:
    (topic,) = engine.stats.now(include_clients=False).topics
    return topic


def channel_of(engine: Engine) -> ChannelStats:
    (channel,) = topic_of(engine).channels
    return channel


def do(engine: Engine, act: str, *names: str, **details: object) -> Exception | None:
    _, ticket = getattr(engine.acts, act)(*names, **details)
    settle(engine)
    assert ticket.done
    error: Exception | None = ticket.error
    return error


def test_a_pause_says_who_why_since_when_until_when_and_what_waited(tmp_path: Path, clock: ManualClock) -> None:
    engine, _ = made(tmp_path, clock)
    began = ms(clock)
    do(engine, "pause_channel", "orders", "billing", by="anna", reason="bad deploy", for_ms=15 * MINUTE_MS)
    assert channel_of(engine).pause == Pause("anna", "bad deploy", began, began + 15 * MINUTE_MS, 3)
    do(engine, "pause_topic", "orders", by="ben")
    engine.publish("orders", [b"d"])
    settle(engine)
    assert topic_of(engine).pause == Pause("ben", "", began, 0, 0)
    do(engine, "unpause_topic", "orders")
    do(engine, "unpause_channel", "orders", "billing")
    assert (topic_of(engine).pause, channel_of(engine).pause) == (None, None)


def test_pausing_what_is_paused_changes_what_is_given_and_keeps_who_and_since(
    tmp_path: Path, clock: ManualClock
) -> None:
    engine, _ = made(tmp_path, clock)
    first = ms(clock)
    do(engine, "pause_channel", "orders", "billing", by="anna", reason="bad deploy", for_ms=MINUTE_MS)
    clock.advance(ms=10_000)
    do(engine, "pause_channel", "orders", "billing", by="ben")
    assert channel_of(engine).pause == Pause("anna", "bad deploy", first, first + MINUTE_MS, 3), "nothing was given"
    do(engine, "pause_channel", "orders", "billing", by="ben", until_ms=first + 5 * MINUTE_MS)
    changed = Pause("anna", "bad deploy", first, first + 5 * MINUTE_MS, 3, "ben", first + 10_000)
    assert channel_of(engine).pause == changed
    do(engine, "pause_channel", "orders", "billing", by="ben", for_ms=0)
    assert channel_of(engine).pause.until_ms == 0
    pass_time(engine, clock, 10 * MINUTE_MS)
    assert channel_of(engine).paused


@pytest.mark.parametrize("is_killed", [True, False])
def test_a_pause_is_the_same_after_a_restart(tmp_path: Path, clock: ManualClock, is_killed: bool) -> None:
    engine, _ = made(tmp_path, clock)
    do(engine, "pause_channel", "orders", "billing", by="anna", reason="bad deploy", for_ms=MINUTE_MS)
    do(engine, "pause_topic", "orders", by="ben", reason="", for_ms=2 * MINUTE_MS)
    before = channel_of(engine).pause, topic_of(engine).pause
    if not is_killed:
        engine.close()
    again, _ = reopened(tmp_path, clock)
    pass_time(again, clock, 1_000)
    assert (channel_of(again).pause, topic_of(again).pause) == before


def test_a_pause_ends_by_itself_and_the_record_names_who_made_it(tmp_path: Path, clock: ManualClock) -> None:
    engine, told = made(tmp_path, clock)
    client = Client(engine, "orders", "billing", ready=10)
    client.finish(*(message.id for message in client.sink.received))
    do(engine, "pause_channel", "orders", "billing", by="anna", reason="bad deploy", for_ms=MINUTE_MS)
    engine.publish("orders", [b"d"])
    pass_time(engine, clock, MINUTE_MS - 1)
    assert (channel_of(engine).paused, client.bodies[3:], told) == (True, [], [])
    pass_time(engine, clock, 1)
    assert (channel_of(engine).paused, client.bodies[3:]) == (False, [b"d"])
    (record,) = told
    assert (record.action, record.topic, record.channel, record.error) == ("unpause_channel", "orders", "billing", "")
    assert (record.via, record.details["pause"].by, record.details["was_down"]) == ("timer", "anna", False)
    engine.close()
    assert not channel_of(reopened(tmp_path, clock)[0]).paused


def test_a_topics_pause_ends_by_itself_and_its_messages_go_on(tmp_path: Path, clock: ManualClock) -> None:
    engine, told = made(tmp_path, clock)
    do(engine, "pause_topic", "orders", by="anna", for_ms=MINUTE_MS)
    engine.publish("orders", [b"d"])
    settle(engine)
    assert channel_of(engine).depth == 3
    pass_time(engine, clock, MINUTE_MS)
    assert (topic_of(engine).paused, channel_of(engine).depth) == (False, 4)
    assert [record.action for record in told] == ["unpause_topic"]


def test_a_pause_that_ended_while_the_server_was_down_ends_at_the_start_and_says_so(
    tmp_path: Path, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    engine, _ = made(tmp_path, clock)
    do(engine, "pause_channel", "orders", "billing", by="anna", for_ms=MINUTE_MS)
    clock.advance(ms=2 * MINUTE_MS)
    again, told = reopened(tmp_path, clock)
    assert channel_of(again).paused
    with caplog.at_level("INFO"):
        again.tick()
        settle(again)
    assert not channel_of(again).paused
    assert "channel orders/billing resumed: its pause ended while the server was down" in caplog.text
    assert [record.details["was_down"] for record in told] == [True]


@pytest.mark.parametrize("step_ms", [120 * MINUTE_MS, -120 * MINUTE_MS])
def test_an_end_goes_by_the_time_that_passes_whatever_the_clock_is_set_to(
    tmp_path: Path, clock: ManualClock, step_ms: int
) -> None:
    engine, _ = made(tmp_path, clock)
    do(engine, "pause_channel", "orders", "billing", for_ms=MINUTE_MS)
    clock.set_back(ms=-step_ms)
    pass_time(engine, clock, MINUTE_MS // 2)
    do(engine, "pause_channel", "orders", "billing", reason="another reason is no other end")
    pass_time(engine, clock, MINUTE_MS // 2 - 1)
    assert channel_of(engine).paused
    pass_time(engine, clock, 1)
    assert not channel_of(engine).paused


def test_an_end_that_is_given_behind_a_jump_is_meant_by_the_new_clock(tmp_path: Path, clock: ManualClock) -> None:
    engine, _ = made(tmp_path, clock)
    clock.set_back(ms=-120 * MINUTE_MS)
    do(engine, "pause_channel", "orders", "billing", until_ms=ms(clock) + MINUTE_MS)
    pass_time(engine, clock, MINUTE_MS - 1)
    assert channel_of(engine).paused
    pass_time(engine, clock, 1)
    assert not channel_of(engine).paused


def test_across_a_stop_the_wall_clock_counts(tmp_path: Path, clock: ManualClock) -> None:
    engine, _ = made(tmp_path, clock)
    do(engine, "pause_channel", "orders", "billing", for_ms=MINUTE_MS)
    engine.close()
    clock.set_back(ms=-MINUTE_MS)
    again, _ = reopened(tmp_path, clock)
    pass_time(again, clock, 1)
    assert not channel_of(again).paused


@pytest.mark.parametrize("restarts", [False, True])
def test_a_ramp_is_over_for_who_reads_it_though_nothing_is_delivered(
    tmp_path: Path, clock: ManualClock, restarts: bool
) -> None:
    engine, _ = made(tmp_path, clock)
    do(engine, "pause_channel", "orders", "billing")
    do(engine, "unpause_channel", "orders", "billing", ramp_ms=MINUTE_MS)
    clock.advance(ms=MINUTE_MS - 1)
    assert channel_of(engine).ramp is not None
    if restarts:
        engine.close()
    clock.advance(ms=1)
    if restarts:
        engine, _ = reopened(tmp_path, clock)
    assert channel_of(engine).ramp is None


@pytest.mark.parametrize("step_ms", [120 * MINUTE_MS, -120 * MINUTE_MS])
def test_a_ramp_goes_by_the_time_that_passes_before_its_first_delivery_too(
    tmp_path: Path, clock: ManualClock, step_ms: int
) -> None:
    engine, _ = made(tmp_path, clock)
    do(engine, "pause_channel", "orders", "billing")
    do(engine, "unpause_channel", "orders", "billing", ramp_ms=MINUTE_MS)
    clock.set_back(ms=-step_ms)
    clock.advance(ms=MINUTE_MS - 1)
    assert channel_of(engine).ramp is not None
    clock.advance(ms=1)
    assert channel_of(engine).ramp is None


def test_an_end_that_the_disk_refuses_is_tried_again_and_shown(tmp_path: Path, clock: ManualClock) -> None:
    files = FaultyFiles()
    engine, told = made(tmp_path, clock, files=files)
    do(engine, "pause_channel", "orders", "billing", by="anna", for_ms=MINUTE_MS)
    # The line, and the merges that would write everything anew instead.
    files.fail("write", errno.ENOSPC, count=6)
    pass_time(engine, clock, MINUTE_MS)
    stats = channel_of(engine)
    assert stats.paused
    assert "topology.json can't be written" in stats.resume_refused
    pass_time(engine, clock, 100)
    assert [record.error for record in told] == [stats.resume_refused], "it is told once"
    for _ in range(20):
        pass_time(engine, clock, 1_000)
    assert (channel_of(engine).paused, channel_of(engine).resume_refused) == (False, "")
    assert [bool(record.error) for record in told] == [True, False]


def test_a_pause_of_an_ephemeral_channel_ends_too(tmp_path: Path, clock: ManualClock) -> None:
    engine, told = made(tmp_path, clock)
    client = Client(engine, "orders", "tail#ephemeral", ready=10)
    do(engine, "pause_channel", "orders", "tail#ephemeral", by="anna", for_ms=MINUTE_MS)
    engine.publish("orders", [b"d"])
    settle(engine)
    pass_time(engine, clock, MINUTE_MS)
    assert (client.bodies, len(told)) == ([b"d"], 1)


def test_a_channel_that_was_deleted_or_resumed_before_its_end_is_left_alone(tmp_path: Path, clock: ManualClock) -> None:
    engine, told = made(tmp_path, clock)
    do(engine, "create_channel", "orders", "archive")
    for channel in ("billing", "archive"):
        do(engine, "pause_channel", "orders", channel, for_ms=MINUTE_MS)
    do(engine, "delete_channel", "orders", "archive")
    do(engine, "unpause_channel", "orders", "billing")
    do(engine, "pause_channel", "orders", "billing", by="ben")
    pass_time(engine, clock, 2 * MINUTE_MS)
    assert (channel_of(engine).paused, told) == (True, [])


@pytest.mark.parametrize(
    ("details", "told"),
    [
        ({"reason": "x" * 201}, "the reason has 201 characters and the most is 200"),
        ({"for_ms": PAUSE_MS_MAX + 1}, f"a pause of {PAUSE_MS_MAX + 1} ms is not between 0 and 8784h"),
        ({"for_ms": -1}, "a pause of -1 ms is not between 0 and 8784h"),
        ({"until_ms": 5}, "the end 5 is not within 366 days from now, which is 1500000000000"),
    ],
)
def test_a_pause_that_can_not_be_is_refused_and_changes_nothing(
    tmp_path: Path, clock: ManualClock, details: dict[str, object], told: str
) -> None:
    engine, _ = made(tmp_path, clock)
    with pytest.raises(PauseError, match=told):
        engine.acts.pause_channel("orders", "billing", **details)
    assert not channel_of(engine).paused
    with pytest.raises(PauseError, match="a ramp of 3600001 ms is not between 0 and 1h"):
        engine.acts.unpause_channel("orders", "billing", ramp_ms=RAMP_MS_MAX + 1)


def test_a_pause_outlives_its_end_or_the_limit() -> None:
    assert Pause(since_ms=1_000).overdue_ms(4_000, 2_000) == 1_000
    assert Pause(since_ms=1_000).overdue_ms(4_000, 0) == 0, "no limit"
    assert Pause(since_ms=1_000, until_ms=9_000).overdue_ms(4_000, 2_000) == 0, "it has an end of its own"
    assert Pause(since_ms=1_000, until_ms=3_500).overdue_ms(4_000, 0) == 500
    assert Pause().overdue_ms(4_000, 2_000) == 0, "nobody knows since when"


# The ramp.


def test_a_ramp_delivers_ever_faster_and_all_of_it_by_its_end(tmp_path: Path, clock: ManualClock) -> None:
    engine, _ = made(tmp_path, clock)
    do(engine, "pause_channel", "orders", "billing")
    engine.publish("orders", [b"%d" % number for number in range(997)])
    client = Client(engine, "orders", "billing", ready=2_500, msg_timeout_ms=10 * MINUTE_MS)
    do(engine, "unpause_channel", "orders", "billing", ramp_ms=MINUTE_MS)
    came: list[int] = []
    for _ in range(6):
        for _ in range(100):
            pass_time(engine, clock, 100)
        came.append(len(client.bodies))
    # The share (t / T)² of 1,000, and a message more or less.
    assert [abs(count - 1_000 * (tenth + 1) ** 2 // 36) <= 2 for tenth, count in enumerate(came)] == [True] * 6
    assert (came[-1], channel_of(engine).ramp) == (1_000, None)


def test_a_ramp_shares_out_and_what_comes_meanwhile_is_delivered_too(tmp_path: Path, clock: ManualClock) -> None:
    engine, _ = made(tmp_path, clock)
    do(engine, "pause_channel", "orders", "billing")
    clients = [Client(engine, "orders", "billing", ready=2_500) for _ in range(2)]
    do(engine, "unpause_channel", "orders", "billing", ramp_ms=10_000)
    for _ in range(101):
        engine.publish("orders", [b"x"] * 10)
        settle(engine)
        pass_time(engine, clock, 100)
    counts = [len(client.bodies) for client in clients]
    assert sum(counts) == 1_013
    assert min(counts) > 300


def test_a_ramp_goes_on_after_a_restart_and_ends_when_asked(tmp_path: Path, clock: ManualClock) -> None:
    engine, _ = made(tmp_path, clock)
    do(engine, "pause_channel", "orders", "billing")
    engine.publish("orders", [b"x"] * 997)
    settle(engine)
    do(engine, "unpause_channel", "orders", "billing", ramp_ms=MINUTE_MS)
    ramp = channel_of(engine).ramp
    assert ramp == Ramp(ms(clock), ms(clock) + MINUTE_MS)
    engine.close()
    again, _ = reopened(tmp_path, clock)
    assert channel_of(again).ramp == ramp
    client = Client(again, "orders", "billing", ready=2_500)
    pass_time(again, clock, 1_000)
    assert len(client.bodies) < 10
    do(again, "unpause_channel", "orders", "billing")
    assert (len(client.bodies), channel_of(again).ramp) == (1_000, None)


def test_a_topic_that_is_resumed_with_a_ramp_gives_it_to_its_channels(tmp_path: Path, clock: ManualClock) -> None:
    engine, _ = made(tmp_path, clock)
    client = Client(engine, "orders", "billing", ready=2_500)
    do(engine, "pause_topic", "orders")
    engine.publish("orders", [b"x"] * 600)
    settle(engine)
    do(engine, "unpause_topic", "orders", ramp_ms=MINUTE_MS)
    pass_time(engine, clock, 1_000)
    assert (topic_of(engine).paused, channel_of(engine).ramp is None) == (False, False)
    assert 3 < len(client.bodies) < 10


def test_no_ramp_begins_where_nothing_is_paused(tmp_path: Path, clock: ManualClock) -> None:
    engine, _ = made(tmp_path, clock)
    do(engine, "unpause_channel", "orders", "billing", ramp_ms=MINUTE_MS)
    assert channel_of(engine).ramp is None


def test_a_consumer_that_comes_late_into_a_ramp_gets_no_burst() -> None:
    pace = RampPace(Ramp(0, 100_000), 0, 0)
    assert pace.allowance(10_000, 50 * NS_PER_S) <= 10_000 * 0.02, "what one second allows there"
    assert pace.allowance(10_000, 100 * NS_PER_S) == 10_000


def test_a_ramp_after_the_clock_was_set_back_begins_anew_and_ends() -> None:
    pace = RampPace(Ramp(100_000, 160_000), 0, 7 * NS_PER_S)
    assert not pace.is_over(66 * NS_PER_S)
    assert pace.is_over(67 * NS_PER_S)
