"""The engine against a model of a few dozen lines: whatever is done in whatever order, nothing is lost, nothing
comes twice without a reason, nothing comes early, and every count is right.

The model knows sets, not orders: which of the waiting messages is sent, and to whom, the engine decides; the model
says whether it may.
"""

import shutil
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from queue_engine.engine.engine import Engine
from queue_engine.vocabulary.clock import NS_PER_MS
from queue_engine.vocabulary.errors import NotInFlightError, NotOwnerError
from tests.support.clock import ManualClock
from tests.support.disks.files import FaultyFiles
from tests.support.engine import Client, make_engine, pass_time, settle

pytestmark = pytest.mark.slow(reason="plays thousands of random acts")

TOPICS = ("orders", "events")
CHANNELS = ("billing", "archive")
MSG_TIMEOUT_MS = 1_000


@dataclass
class Held:
    """A message in flight."""

    owner: "ModelClient"
    deadline_ns: int
    latest_ns: int


@dataclass
class ModelChannel:
    """Messages by body; `attempts` are the deliveries made so far."""

    paused: bool = False
    attempts: dict[bytes, int] = field(default_factory=dict)
    waiting: set[bytes] = field(default_factory=set)
    deferred: dict[bytes, int] = field(default_factory=dict)  # due ns
    in_flight: dict[bytes, Held] = field(default_factory=dict)
    message_count: int = 0
    finish_count: int = 0
    requeue_count: int = 0
    timeout_count: int = 0
    disconnect_count: int = 0

    def accept(self, body: bytes, due_ns: int | None) -> None:
        self.attempts[body] = 0
        self.message_count += 1
        if due_ns is None:
            self.waiting.add(body)
        else:
            self.deferred[body] = due_ns

    def give_back(self, body: bytes, due_ns: int | None = None) -> None:
        self.in_flight.pop(body).owner.in_flight -= 1
        if due_ns is None:
            self.waiting.add(body)
        else:
            self.deferred[body] = due_ns

    def drop(self) -> None:
        for held in self.in_flight.values():
            held.owner.in_flight -= 1
        self.waiting.clear()
        self.deferred.clear()
        self.in_flight.clear()


@dataclass
class ModelTopic:
    paused: bool = False
    waiting: dict[bytes, int | None] = field(default_factory=dict)  # body → due ns
    channels: dict[str, ModelChannel] = field(default_factory=dict)

    def flow(self) -> None:
        if self.paused or not self.channels:
            return
        for body, due_ns in self.waiting.items():
            for channel in self.channels.values():
                channel.accept(body, due_ns)
        self.waiting.clear()


class ModelClient:
    """A consumer, real and modelled."""

    def __init__(self, real: Client, topic: str, channel: str) -> None:
        self.real = real
        self.topic = topic
        self.channel = channel
        self.ready = 0
        self.in_flight = 0
        self.seen = 0  # of what the sink received


class EngineMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.path = Path(tempfile.mkdtemp(prefix="model"))
        self.clock = ManualClock()
        self.engine: Engine
        self.open()
        self.topics: dict[str, ModelTopic] = {}
        self.clients: list[ModelClient] = []
        self.next_body = 0
        self.id_of: dict[bytes, bytes] = {}

    options: ClassVar[dict[str, object]]

    def open(self) -> None:
        self.files = FaultyFiles()
        self.engine = make_engine(self.path, self.clock, files=self.files, **self.options)

    def teardown(self) -> None:
        try:
            self.drain_everything()
            self.engine.close()
        finally:
            self.files.abandon()
            shutil.rmtree(self.path)

    # What the model and the engine do after every step.

    def follow(self) -> None:
        """Let the engine work, and check each of its deliveries against the model."""
        for topic in self.topics.values():
            topic.flow()
        settle(self.engine)
        now_ns = self.clock.monotonic_ns()
        for client in self.clients:
            received = client.real.sink.received
            for message in received[client.seen :]:
                channel = self.topics[client.topic].channels[client.channel]
                assert not channel.paused, "a paused channel sends nothing"
                assert message.body in channel.waiting, f"{message.body!r} does not wait"
                assert self.id_of.setdefault(message.body, message.id) == message.id
                channel.waiting.remove(message.body)
                channel.attempts[message.body] += 1
                assert message.attempts == channel.attempts[message.body]
                channel.in_flight[message.body] = Held(
                    client, now_ns + MSG_TIMEOUT_MS * NS_PER_MS, now_ns + 900_000 * NS_PER_MS
                )
                client.in_flight += 1
                assert client.in_flight <= client.ready, "never more in flight than RDY"
            client.seen = len(received)

    def channel_of(self, client: ModelClient) -> ModelChannel:
        return self.topics[client.topic].channels[client.channel]

    def held_by(self, client: ModelClient) -> list[bytes]:
        return [body for body, held in self.channel_of(client).in_flight.items() if held.owner is client]

    def pick_client(self, data: st.DataObject) -> ModelClient:
        return data.draw(st.sampled_from(self.clients))

    def pick_channel(self, data: st.DataObject) -> tuple[str, str, ModelChannel]:
        there = [(t, c, channel) for t, topic in self.topics.items() for c, channel in topic.channels.items()]
        return data.draw(st.sampled_from(there))

    def has_channels(self) -> bool:
        return any(topic.channels for topic in self.topics.values())

    def holds(self) -> bool:
        return any(client.in_flight for client in self.clients)

    # Publishing.

    def new_bodies(self, sizes: list[int]) -> list[bytes]:
        bodies = []
        for size in sizes:
            self.next_body += 1
            bodies.append(b"%d" % self.next_body + b"." * size)
        return bodies

    @rule(topic=st.sampled_from(TOPICS), sizes=st.lists(st.integers(0, 120), min_size=1, max_size=6))
    def publish(self, topic: str, sizes: list[int]) -> None:
        bodies = self.new_bodies(sizes)
        ticket = self.engine.publish(topic, bodies)
        self.topics.setdefault(topic, ModelTopic()).waiting.update(dict.fromkeys(bodies))
        self.follow()
        assert ticket.done
        assert ticket.error is None

    @rule(topic=st.sampled_from(TOPICS), delay_ms=st.integers(1, 1_500))
    def publish_deferred(self, topic: str, delay_ms: int) -> None:
        (body,) = self.new_bodies([0])
        self.engine.publish(topic, [body], defer_ms=delay_ms)
        due_ns = self.clock.monotonic_ns() + delay_ms * NS_PER_MS
        self.topics.setdefault(topic, ModelTopic()).waiting[body] = due_ns
        self.follow()

    # Consumers.

    @precondition(lambda self: len(self.clients) < 5)
    @rule(topic=st.sampled_from(TOPICS), channel=st.sampled_from(CHANNELS), ready=st.integers(0, 4))
    def subscribe(self, topic: str, channel: str, ready: int) -> None:
        self.topics.setdefault(topic, ModelTopic()).channels.setdefault(channel, ModelChannel())
        self.topics[topic].flow()
        client = ModelClient(Client(self.engine, topic, channel, msg_timeout_ms=MSG_TIMEOUT_MS), topic, channel)
        self.clients.append(client)
        client.ready = ready
        client.real.ready(ready)
        self.follow()

    @precondition(lambda self: self.clients)
    @rule(data=st.data())
    def leave(self, data: st.DataObject) -> None:
        self.part_with(self.pick_client(data))
        self.follow()

    def part_with(self, client: ModelClient) -> None:
        self.clients.remove(client)
        channel = self.channel_of(client)
        for body in [body for body, held in channel.in_flight.items() if held.owner is client]:
            channel.give_back(body)
            channel.disconnect_count += 1
        client.real.engine.catalog.leave(client.real.channel, client.real.consumer)

    @precondition(lambda self: self.clients)
    @rule(data=st.data(), ready=st.integers(0, 6))
    def set_ready(self, data: st.DataObject, ready: int) -> None:
        client = self.pick_client(data)
        client.ready = ready
        client.real.ready(ready)
        self.follow()

    @precondition(lambda self: self.clients)
    @rule(data=st.data(), is_writable=st.booleans())
    def fill_or_drain_the_connection(self, data: st.DataObject, is_writable: bool) -> None:
        client = self.pick_client(data)
        client.real.sink.is_writable = is_writable
        client.real.ready(client.ready)
        self.follow()

    # Answers of consumers.

    @precondition(lambda self: self.holds())
    @rule(data=st.data(), repeats=st.booleans(), unknown=st.booleans(), foreign=st.booleans())
    def finish(self, data: st.DataObject, repeats: bool, unknown: bool, foreign: bool) -> None:
        client = data.draw(st.sampled_from([client for client in self.clients if client.in_flight]))
        channel = self.channel_of(client)
        mine = data.draw(st.lists(st.sampled_from(self.held_by(client)), min_size=1, max_size=6, unique=True))
        ids = [self.id_of[body] for body in mine]
        expected = 0
        if repeats:
            ids.append(ids[0])
            expected += 1
        if unknown:
            ids.insert(0, b"f" * 16)
            expected += 1
        others = [body for body, held in channel.in_flight.items() if held.owner is not client]
        if foreign and others:
            ids.append(self.id_of[others[0]])
            expected += 1
        errors = client.real.channel.finish(client.real.consumer, ids)
        assert len(errors) == expected
        for body in mine:
            del channel.in_flight[body]
            client.in_flight -= 1
            channel.finish_count += 1
        self.follow()

    @precondition(lambda self: self.holds())
    @rule(data=st.data(), delay_ms=st.sampled_from([0, 0, 1, 500, 1_500]))
    def requeue(self, data: st.DataObject, delay_ms: int) -> None:
        client = data.draw(st.sampled_from([client for client in self.clients if client.in_flight]))
        channel = self.channel_of(client)
        body = data.draw(st.sampled_from(self.held_by(client)))
        now_ns = self.clock.monotonic_ns()
        client.real.channel.requeue(client.real.consumer, self.id_of[body], delay_ms * NS_PER_MS, now_ns)
        channel.give_back(body, now_ns + delay_ms * NS_PER_MS if delay_ms else None)
        channel.requeue_count += 1
        self.follow()

    @precondition(lambda self: self.holds())
    @rule(data=st.data())
    def touch(self, data: st.DataObject) -> None:
        client = data.draw(st.sampled_from([client for client in self.clients if client.in_flight]))
        body = data.draw(st.sampled_from(self.held_by(client)))
        now_ns = self.clock.monotonic_ns()
        client.real.channel.touch(client.real.consumer, self.id_of[body], now_ns)
        held = self.channel_of(client).in_flight[body]
        held.deadline_ns = min(now_ns + MSG_TIMEOUT_MS * NS_PER_MS, held.latest_ns)

    @precondition(lambda self: self.clients)
    @rule(data=st.data())
    def touch_and_requeue_what_is_not_held(self, data: st.DataObject) -> None:
        client = self.pick_client(data)
        channel, consumer = client.real.channel, client.real.consumer
        now_ns = self.clock.monotonic_ns()
        with pytest.raises(NotInFlightError):
            channel.touch(consumer, b"e" * 16, now_ns)
        others = [body for body, held in self.channel_of(client).in_flight.items() if held.owner is not client]
        for body in others[:1]:
            with pytest.raises(NotOwnerError):
                channel.touch(consumer, self.id_of[body], now_ns)
            with pytest.raises(NotOwnerError):
                channel.requeue(consumer, self.id_of[body], 0, now_ns)

    # Time.

    @rule(ms=st.sampled_from([1, 100, 499, 500, 1_000, 2_000]))
    def time_goes_by(self, ms: int) -> None:
        now_ns = self.clock.monotonic_ns() + ms * NS_PER_MS
        for topic in self.topics.values():
            for channel in topic.channels.values():
                for body, held in list(channel.in_flight.items()):
                    if held.deadline_ns <= now_ns:
                        channel.give_back(body)
                        channel.timeout_count += 1
                for body, due_ns in list(channel.deferred.items()):
                    if due_ns <= now_ns:
                        del channel.deferred[body]
                        channel.waiting.add(body)
        pass_time(self.engine, self.clock, ms)
        self.follow()

    # Operators.

    @precondition(lambda self: self.topics)
    @rule(data=st.data(), paused=st.booleans())
    def pause_topic(self, data: st.DataObject, paused: bool) -> None:
        name = data.draw(st.sampled_from(sorted(self.topics)))
        (self.engine.acts.pause_topic if paused else self.engine.acts.unpause_topic)(name)
        self.topics[name].paused = paused
        self.follow()

    @precondition(lambda self: self.has_channels())
    @rule(data=st.data(), paused=st.booleans())
    def pause_channel(self, data: st.DataObject, paused: bool) -> None:
        topic, name, channel = self.pick_channel(data)
        (self.engine.acts.pause_channel if paused else self.engine.acts.unpause_channel)(topic, name)
        channel.paused = paused
        self.follow()

    @precondition(lambda self: self.has_channels())
    @rule(data=st.data())
    def empty_channel(self, data: st.DataObject) -> None:
        topic, name, channel = self.pick_channel(data)
        outcome, _ = self.engine.acts.empty_channel(topic, name)
        found = (outcome.depth, outcome.in_flight, outcome.deferred)
        assert found == (len(channel.waiting), len(channel.in_flight), len(channel.deferred))
        channel.drop()
        self.follow()

    @precondition(lambda self: self.topics)
    @rule(data=st.data(), channels_too=st.booleans())
    def empty_topic(self, data: st.DataObject, channels_too: bool) -> None:
        name = data.draw(st.sampled_from(sorted(self.topics)))
        topic = self.topics[name]
        expected = len(topic.waiting)
        topic.waiting.clear()
        if channels_too:
            for channel in topic.channels.values():
                expected += len(channel.waiting)
                channel.drop()
        assert self.engine.acts.empty_topic(name, channels_too=channels_too)[0].depth == expected
        self.follow()

    @precondition(lambda self: self.has_channels())
    @rule(data=st.data())
    def delete_channel(self, data: st.DataObject) -> None:
        topic, name, _ = self.pick_channel(data)
        self.engine.acts.delete_channel(topic, name)
        del self.topics[topic].channels[name]
        self.forget_closed_clients(topic, name)
        self.follow()

    @precondition(lambda self: self.topics)
    @rule(data=st.data())
    def delete_topic(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.topics)))
        self.engine.acts.delete_topic(name)
        for channel in self.topics.pop(name).channels:
            self.forget_closed_clients(name, channel)
        self.follow()

    def forget_closed_clients(self, topic: str, channel: str) -> None:
        for client in [client for client in self.clients if (client.topic, client.channel) == (topic, channel)]:
            assert client.real.sink.is_closed
            self.clients.remove(client)
            self.engine.catalog.leave(client.real.channel, client.real.consumer)

    @precondition(lambda self: self.holds())
    @rule(data=st.data(), which=st.sampled_from(["one", "client", "all"]))
    def requeue_in_flight(self, data: st.DataObject, which: str) -> None:
        client = data.draw(st.sampled_from([client for client in self.clients if client.in_flight]))
        channel = self.channel_of(client)
        bodies = list(channel.in_flight)
        chosen: dict[str, object] = {}
        if which == "one":
            bodies = self.held_by(client)[:1]
            chosen = {"message_id": self.id_of[bodies[0]].decode()}
        elif which == "client":
            bodies = self.held_by(client)
            chosen = {"client_key": client.real.consumer.key}
        outcome, _ = self.engine.acts.requeue_channel(client.topic, client.channel, **chosen)
        assert outcome.in_flight == len(bodies)
        for body in bodies:
            channel.give_back(body)
            channel.requeue_count += 1
        self.follow()

    @precondition(lambda self: self.has_channels())
    @rule(data=st.data())
    def release_deferred(self, data: st.DataObject) -> None:
        topic, name, channel = self.pick_channel(data)
        assert self.engine.acts.release_deferred(topic, name)[0].deferred == len(channel.deferred)
        channel.waiting |= channel.deferred.keys()
        channel.deferred.clear()
        self.follow()

    @rule()
    def restart(self) -> None:
        for client in list(self.clients):
            self.part_with(client)
        self.follow()
        self.engine.close()
        self.clock.advance(ms=2)  # no process starts in less; ids are unique from one unit of the clock to the next
        self.start_again()

    def start_again(self) -> None:
        self.open()
        for topic in self.topics.values():
            self.resume(topic)
            for channel in topic.channels.values():
                channel.message_count = channel.finish_count = 0
                channel.requeue_count = channel.timeout_count = channel.disconnect_count = 0
        self.follow()

    def resume(self, topic: ModelTopic) -> None:
        """What a restart does to messages."""
        raise NotImplementedError

    # What always holds.

    @invariant()
    def counts_are_right(self) -> None:
        assert self.engine.topics.keys() == self.topics.keys()
        for name, topic in self.topics.items():
            real_topic = self.engine.topics[name]
            assert (real_topic.store.depth, real_topic.paused) == (len(topic.waiting), topic.paused)
            assert real_topic.channels.keys() == topic.channels.keys()
            for channel_name, channel in topic.channels.items():
                real = real_topic.channels[channel_name].figures.stats()
                assert real.depth == len(channel.waiting), (name, channel_name, channel)
                assert real.in_flight_count == len(channel.in_flight)
                assert real.deferred_count == len(channel.deferred)
                assert real.paused == channel.paused
                assert real.message_count == channel.message_count
                assert real.finish_count == channel.finish_count
                assert real.requeue_count == channel.requeue_count
                assert real.timeout_count == channel.timeout_count
                assert real.disconnect_count == channel.disconnect_count
                assert real.backend_depth <= real.depth

    @invariant()
    def what_is_in_flight_is_held_by_whom_it_should_be(self) -> None:
        now_ns = self.clock.monotonic_ns()
        for client in self.clients:
            assert client.real.consumer.in_flight_count == client.in_flight
        for name, topic in self.topics.items():
            for channel_name, channel in topic.channels.items():
                listed = {
                    one.message_id.encode(): (one.client_key, one.attempts, one.deadline_in_ms)
                    for one in self.engine.stats.in_flight(name, channel_name, limit=1_000)
                }
                assert listed == {
                    self.id_of[body]: (
                        held.owner.real.consumer.key,
                        channel.attempts[body],
                        (held.deadline_ns - now_ns) // NS_PER_MS,
                    )
                    for body, held in channel.in_flight.items()
                }

    @invariant()
    def nobody_waits_who_could_be_served(self) -> None:
        for client in self.clients:
            channel = self.channel_of(client)
            could = not channel.paused and client.real.sink.is_writable and client.ready > client.in_flight
            assert not (could and channel.waiting)

    def drain_everything(self) -> None:
        """In the end everything that the model still knows can be had, once."""
        for client in list(self.clients):
            self.part_with(client)
        for name, topic in self.topics.items():
            self.engine.acts.unpause_topic(name)
            topic.paused = False
            self.follow()
            for channel_name, channel in topic.channels.items():
                self.engine.acts.unpause_channel(name, channel_name)
                self.engine.acts.release_deferred(name, channel_name)
                client = Client(self.engine, name, channel_name, ready=10_000)
                assert sorted(client.bodies) == sorted(channel.waiting | channel.deferred.keys())


class DiskQueueMachine(EngineMachine):
    """Queues in memory are short, so that the disk takes part."""

    options: ClassVar = {"storage": "diskqueue", "mem_queue_size": 3, "max_bytes_per_file": 1_024}

    def resume(self, topic: ModelTopic) -> None:
        topic.waiting = dict.fromkeys(topic.waiting)  # when something is due is not kept on disk
        for channel in topic.channels.values():
            channel.waiting |= channel.deferred.keys()
            channel.deferred.clear()


class LogMachine(EngineMachine):
    """Segments are short, so that there are many; the process may also be killed."""

    options: ClassVar = {
        "storage": "log",
        "sync": "os",
        "log_segment_bytes": 1 << 16,
        "max_body_size": 4_096,
        "max_msg_size": 4_096,
    }

    def resume(self, topic: ModelTopic) -> None:
        """Everything is as it was, due times too."""
        now_ns = self.clock.monotonic_ns()
        for channel in topic.channels.values():
            channel.waiting |= {body for body, due_ns in channel.deferred.items() if due_ns <= now_ns}
            channel.deferred = {body: due_ns for body, due_ns in channel.deferred.items() if due_ns > now_ns}

    @rule()
    def kill(self) -> None:
        """What was acknowledged is there, with its attempts and due times."""
        for client in list(self.clients):
            for body in self.held_by(client):
                self.channel_of(client).give_back(body)
        self.clients.clear()
        self.files.abandon()
        self.start_again()


_SETTINGS = settings(
    max_examples=25,
    stateful_step_count=40,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
)
TestDiskQueueAgainstTheModel = DiskQueueMachine.TestCase
TestDiskQueueAgainstTheModel.settings = _SETTINGS
TestLogAgainstTheModel = LogMachine.TestCase
TestLogAgainstTheModel.settings = _SETTINGS
