"""What fails unexpectedly in one channel or topic stops that one: nothing else, and nothing for good."""

import logging
from contextlib import suppress
from itertools import count
from pathlib import Path

import pytest

from queue_engine.engine.engine import Engine
from queue_engine.vocabulary.clock import NS_PER_MS
from queue_engine.vocabulary.errors import FencedError, PenstockError, StorageError
from queue_engine.vocabulary.ticket import Ticket
from tests.support.clock import ManualClock
from tests.support.engine import Client, make_engine
from tests.support.failing_calls import FailingCall

BACKLOG_CALLS = (
    "depth",
    "backend_depth",
    "deferred_count",
    "message_count",
    "take",
    "sent",
    "give_back",
    "settle",
    "next_due_ns",
    "release_due",
    "release_deferred",
    "disk_bytes",
    "oldest_ns",
    "empty",
    "start_over",
)
STORE_CALLS = (
    "depth",
    "backend_depth",
    "deferred_count",
    "make_batch",
    "append",
    "set_flowing",
    "pump",
    "open_channel",
    "synced",
    "disk_bytes",
    "oldest_ns",
    "empty",
    "start_over",
)
# These read or write: the disk may refuse them, which is no mistake of ours and is tried again by itself.
DISK_CALLS = {"take", "sent", "give_back", "settle", "release_due", "disk_bytes", "oldest_ns", "append", "pump"}
MISTAKE = AssertionError("a range holds 3, not 4")
REFUSAL = StorageError("billing.dat can't be read at 4096: Input/output error")
TURNS_MAX = 2_000


class Trial:
    """Topic orders with the channels billing, in which something will fail, and audit; and the topic other."""

    def __init__(self, directory: Path) -> None:
        self.clock = ManualClock()
        self.engine = make_engine(directory, self.clock, samples_interval_ms=0)
        self._numbers = count(1)
        self.published: set[bytes] = set()
        self.finished: set[bytes] = set()
        self.unsure: set[bytes] = set()  # FIN was answered with an error
        for topic, channel in (("orders", "billing"), ("orders", "audit"), ("other", "all")):
            self.engine.acts.create_topic(topic)
            self.engine.acts.create_channel(topic, channel)
        self.audit = Client(self.engine, "orders", "audit", ready=1_000)
        self.other = Client(self.engine, "other", "all", ready=1_000)
        self.consumers: list[Client] = []
        self.publish(6)
        self.settle()

    @property
    def billing(self) -> object:
        return self.engine.topics["orders"].channels["billing"]

    def settle(self) -> None:
        """Run turns until nothing is left to do; what spins fails."""
        for _ in range(TURNS_MAX):
            if not self.engine.has_work:
                return
            self.engine.turn()
        raise AssertionError(f"there is work after {TURNS_MAX} turns")

    def publish(self, many: int, *, defer_ms: int = 0) -> None:
        bodies = [b"%d" % next(self._numbers) for _ in range(many)]
        try:
            ticket = self.engine.publish("orders", bodies, defer_ms=defer_ms)
        except PenstockError:
            return

        def settled(done: Ticket) -> None:
            if done.error is None:
                self.published.update(bodies)

        ticket.when_done(settled)
        self.engine.publish("other", bodies)
        self.settle()

    def act(self, name: str, *args: object, **kwargs: object) -> None:
        """An act that may be refused in words, and must not fail in another way."""
        with suppress(PenstockError):
            getattr(self.engine.acts, name)(*args, **kwargs)
        self.settle()

    def consumer(self) -> Client:
        client = Client(self.engine, "orders", "billing", msg_timeout_ms=1_000)
        self.consumers.append(client)
        return client

    def finish(self, client: Client, *indexes: int) -> None:
        received = client.sink.received
        for one in [received[index] for index in indexes if index < len(received)]:
            errors = client.channel.finish(client.consumer, [one.id])
            (self.unsure if errors else self.finished).add(one.body)
        self.settle()

    def live(self) -> None:
        """A while of everything that can happen to a channel."""
        first, second = self.consumer(), self.consumer()
        first.ready(4)
        second.ready(2)
        self.publish(4)
        self.publish(1, defer_ms=300)
        self.finish(first, 0, 1)
        for index, delay_ms in ((2, 0), (3, 400)):
            if index < len(first.sink.received):
                one, now_ns = first.sink.received[index], self.clock.monotonic_ns()
                with suppress(PenstockError):
                    first.channel.requeue(first.consumer, one.id, delay_ms * NS_PER_MS, now_ns)
        self.settle()
        self.engine.stats.now(include_clients=False)
        second.leave()
        self.act("pause_channel", "orders", "billing")
        self.act("unpause_channel", "orders", "billing")
        self.act("pause_topic", "orders")
        self.publish(2)
        self.act("empty_topic", "nothing")
        self.act("unpause_topic", "orders")
        self.act("create_channel", "orders", "late")
        self.pass_time(500)
        self.act("requeue_channel", "orders", "billing")
        self.act("release_deferred", "orders", "billing")
        self.engine.stats.now(include_clients=False)
        self.pass_time(1_500)
        self.publish(3)
        self.finish(first, 4)

    def pass_time(self, ms: int) -> None:
        self.clock.advance(ms=ms)
        for _ in range(50):
            if not self.engine.is_pass_dirty(*self.engine.scan_pass()):
                break
        else:
            raise AssertionError("the scan finds work for ever")
        self.engine.tick()
        self.settle()

    def retry(self) -> None:
        self.engine.acts.retry_topic("orders")
        self.engine.acts.retry_channel("orders", "billing")
        self.settle()

    def drain(self) -> set[bytes]:
        """The bodies that a new consumer gets, once all that is in flight or deferred has come back."""
        for client in self.consumers:
            client.leave()
        last = Client(self.engine, "orders", "billing", ready=1_000)
        self.pass_time(20_000)
        self.pass_time(20_000)
        return set(last.bodies)


def faults_of(names: tuple[str, ...]) -> list[tuple[str, Exception]]:
    return [(name, MISTAKE) for name in names] + [(name, REFUSAL) for name in names if name in DISK_CALLS]


def check_others(trial: Trial) -> None:
    assert trial.published <= set(trial.audit.bodies)
    assert trial.published <= set(trial.other.bodies)


@pytest.mark.parametrize("at", [1, 3])
@pytest.mark.parametrize(("name", "error"), faults_of(BACKLOG_CALLS))
@pytest.mark.slow(reason="fails at every call")
def test_a_channel_s_backlog_that_fails_costs_no_other_and_no_message(
    name: str, error: Exception, at: int, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    trial = Trial(tmp_path)
    channel = trial.engine.topics["orders"].channels["billing"]
    fault = FailingCall(channel.backlog, name, error, at=at)
    trial.live()
    with caplog.at_level(logging.ERROR):
        if name in ("empty", "start_over"):
            if name == "start_over":
                channel.stop("a test", MISTAKE)
            for _ in range(at):
                trial.act("retry_channel" if name == "start_over" else "empty_channel", "orders", "billing")
            if name == "empty":
                trial.published -= trial.published  # that is what was asked for, whether it was done or not
    check_others(trial)
    if fault.failures and error is MISTAKE:
        assert channel.fence is not None
    if channel.fence is not None:
        assert str(error) in channel.fence.reason
        assert "channel orders/billing is fenced: " in trial.engine.stats.health
        assert channel.fence.reason in trial.engine.stats.health
        stats = trial.engine.stats.now(channel="billing", topic="orders", include_clients=False).topics[0].channels[0]
        assert stats.fenced == channel.fence.reason
    fault.heal()
    trial.retry()
    assert channel.fence is None
    trial.pass_time(20_000)
    assert trial.engine.stats.health == "OK"
    came = trial.drain()
    assert trial.published - trial.finished - trial.unsure <= came
    assert not came & (trial.finished - trial.unsure)
    check_others(trial)
    trial.engine.close()


@pytest.mark.parametrize("at", [1, 3])
@pytest.mark.parametrize(("name", "error"), faults_of(STORE_CALLS))
@pytest.mark.slow(reason="fails at every call")
def test_a_topic_s_store_that_fails_costs_no_other_topic_and_no_acknowledged_message(
    name: str, error: Exception, at: int, tmp_path: Path
) -> None:
    trial = Trial(tmp_path)
    topic = trial.engine.topics["orders"]
    fault = FailingCall(topic.store, name, error, at=at)
    trial.live()
    if name == "empty":
        for _ in range(at):
            trial.act("empty_topic", "orders")
    if name == "start_over":
        topic.stop("a test", MISTAKE)
        for _ in range(at):
            trial.act("retry_topic", "orders")
    if topic.fence is not None:
        assert "topic orders is fenced" in trial.engine.stats.health
        assert topic.fence.reason in trial.engine.stats.health
        before = len(trial.published)
        trial.publish(1)
        assert len(trial.published) == before  # refused
    assert len(set(trial.other.bodies)) > 10  # the other topic goes on
    fault.heal()
    trial.retry()
    assert topic.fence is None
    trial.publish(2)
    trial.pass_time(20_000)
    assert trial.engine.stats.health == "OK"
    came = trial.drain()
    assert trial.published - trial.finished - trial.unsure <= came
    assert not came & (trial.finished - trial.unsure)
    trial.pass_time(1)
    check_others(trial)
    trial.engine.close()


def test_a_channel_of_the_log_loses_nothing_when_a_call_fails_behind_its_work(tmp_path: Path) -> None:
    """As an assertion at a function's end does. A disk queue in memory knows only what it was told."""
    for name in ("take", "sent", "give_back", "settle", "release_due", "release_deferred"):
        (tmp_path / name).mkdir()
        trial = Trial(tmp_path / name)
        channel = trial.engine.topics["orders"].channels["billing"]
        fault = FailingCall(channel.backlog, name, MISTAKE, is_late=True)
        trial.live()
        assert fault.failures, name
        assert channel.fence is not None, name
        fault.heal()
        trial.retry()
        came = trial.drain()
        assert trial.published - trial.finished - trial.unsure <= came, name
        assert not came & (trial.finished - trial.unsure), name
        trial.engine.close()


def fenced_trial(directory: Path) -> tuple[Trial, FailingCall]:
    """Billing failed as it delivered: what it holds is not known to be right."""
    trial = Trial(directory)
    channel = trial.engine.topics["orders"].channels["billing"]
    fault = FailingCall(channel.backlog, "take", MISTAKE, at=2)
    client = trial.consumer()
    client.ready(2)
    client.ready(4)
    assert channel.fence is not None
    return trial, fault


def test_what_a_fenced_channel_answers(tmp_path: Path) -> None:
    trial, fault = fenced_trial(tmp_path)
    client = trial.consumers[0]
    channel = client.channel
    now_ns = trial.clock.monotonic_ns()
    one, two = (message.id for message in client.sink.received)
    words = "channel orders/billing is fenced until an operator lets it try again: delivering failed unexpectedly: "
    # FIN is taken: the message is never delivered again.
    assert client.finish(one) == []
    # REQ can't be: the message comes again when the channel goes on.
    with pytest.raises(FencedError, match=words):
        channel.requeue(client.consumer, two, 0, now_ns)
    channel.touch(client.consumer, two, now_ns)
    assert client.finish(b"0" * 16) == ["ID not in flight"]
    # Nothing times out, nothing is sent, and SUB is answered as ever.
    calls = fault.calls
    late = trial.consumer()
    late.ready(10)
    trial.publish(5)
    trial.pass_time(120_000)
    client.leave()
    trial.pass_time(120_000)
    assert late.bodies == []
    assert fault.calls == calls
    assert channel.in_flight_count == 1
    assert channel.figures.stats().depth > 0
    fault.heal()
    outcome, _ = trial.engine.acts.retry_channel("orders", "billing")
    assert outcome.in_flight == 1
    trial.settle()
    again = {message.id: message.attempts for message in late.sink.received}
    assert again[two] == 2
    assert one not in again
    assert len(again) == 10
    trial.engine.close()


def test_a_channel_that_fails_at_each_try_is_tried_when_asked_and_logged_once_each_time(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.ERROR):
        trial, fault = fenced_trial(tmp_path)
        for _ in range(100):
            trial.publish(1)
            trial.pass_time(1_000)
            trial.engine.stats.now(include_clients=False)
        assert fault.failures == 1
        first = [record for record in caplog.records if "is fenced" in record.getMessage()]
        assert len(first) == 1
        assert first[0].exc_info is not None
        trial.act("retry_channel", "orders", "billing")
        assert fault.failures == 2
        assert len([record for record in caplog.records if "is fenced" in record.getMessage()]) == 2
    fault.heal()
    trial.retry()
    assert trial.published <= trial.drain()
    trial.engine.close()


def test_a_fenced_channel_can_be_deleted_and_is_forgotten(tmp_path: Path) -> None:
    trial, _ = fenced_trial(tmp_path)
    channel = trial.engine.topics["orders"].channels["billing"]
    FailingCall(channel.backlog, "empty", MISTAKE)
    trial.engine.acts.delete_channel("orders", "billing")
    assert trial.engine.stats.health == "OK"
    trial.engine.acts.create_channel("orders", "billing")
    trial.published.clear()
    trial.publish(3)
    assert trial.drain() == trial.published
    trial.engine.close()


def test_a_stop_with_a_fenced_channel_keeps_what_it_can(tmp_path: Path) -> None:
    trial, fault = fenced_trial(tmp_path)
    unfinished = set(trial.published)
    fault.heal()
    trial.engine.close()
    engine = make_engine(tmp_path, trial.clock, samples_interval_ms=0)
    for name in ("billing", "audit"):
        assert unfinished <= set(Client(engine, "orders", name, ready=1_000).bodies)
    engine.close()


def test_a_stop_says_what_a_fenced_channel_could_not_keep(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    trial, _ = fenced_trial(tmp_path)
    channel = trial.engine.topics["orders"].channels["billing"]
    FailingCall(channel.backlog, "give_back", MISTAKE)
    FailingCall(channel.backlog, "start_over", MISTAKE)
    is_log = trial.engine.topics["orders"].store.kind == "log"
    if is_log:
        trial.engine.close()
        assert "2 messages that were in flight come again after the next start" in caplog.text
    else:
        with pytest.raises(StorageError, match=r"channel orders/billing is fenced .*; 2 messages that were in flight"):
            trial.engine.close()
    engine = make_engine(tmp_path, trial.clock, samples_interval_ms=0)
    audit = Client(engine, "orders", "audit", ready=1_000)
    assert trial.published <= set(audit.bodies)
    billing = set(Client(engine, "orders", "billing", ready=1_000).bodies)
    assert len(trial.published - billing) == (0 if is_log else 2)
    engine.close()


def test_a_store_that_can_t_note_what_the_log_holds_fences_its_topic_and_loses_nothing(tmp_path: Path) -> None:
    """Between the sync and the consume queue: the messages are durable, and OK is said."""
    trial = Trial(tmp_path)
    topic = trial.engine.topics["orders"]
    fault = FailingCall(topic.store, "_note", MISTAKE, at=2)
    trial.publish(3)
    trial.publish(3)
    assert topic.fence is not None
    assert len(trial.published) == 12
    trial.publish(3)
    assert len(trial.published) == 12
    trial.pass_time(60_000)
    fault.heal()
    trial.retry()
    trial.publish(1)
    assert trial.drain() == trial.published
    check_others(trial)
    trial.engine.close()


def test_a_log_that_fails_unexpectedly_as_it_writes_refuses_all_and_lives(tmp_path: Path) -> None:
    trial = Trial(tmp_path)
    log = trial.engine._stores.log
    assert log is not None
    FailingCall(log.log, "commit", MISTAKE)
    trial.publish(3)
    assert len(trial.published) == 6
    assert "takes nothing more until the next start" in trial.engine.stats.health
    trial.pass_time(5_000)
    assert trial.drain() == trial.published  # what is durable is delivered


def test_one_step_of_a_tick_that_fails_keeps_none_of_the_others_back(tmp_path: Path) -> None:
    trial = Trial(tmp_path)
    engine: Engine = trial.engine
    fault = FailingCall(engine.catalog, "tick", MISTAKE)
    tidied = FailingCall(engine, "_tidy", MISTAKE, at=1_000_000)
    engine.tick()
    engine.tick()
    assert tidied.calls == 2
    assert "looking after topology.json failed unexpectedly: AssertionError" in engine.stats.health
    fault.heal()
    engine.tick()
    assert engine.stats.health == "OK"
    engine.close()
