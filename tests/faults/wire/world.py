"""The server, the connections to it, and the model beside it: each is changed here together with the others."""

import base64
import random
import time
import urllib.error
from dataclasses import dataclass, field
from typing import Any

import orjson

from queue_engine.wire.error_answers import read_error_answer
from tests.faults.wire.client import WireClient
from tests.faults.wire.engine import WireEngine
from tests.faults.wire.model import (
    NS_PER_MS,
    Bodies,
    BrokenPromiseError,
    ModelChannel,
    ModelTopic,
    Place,
    Published,
)
from tests.faults.wire.setting import Setting
from tests.faults.wire.sizes import BodySizes
from tests.support.nsq_socket import Message, mpub_body, sized

RDY_MAX = 2_500
# A channel from which nothing came for so long, though something waits, has forgotten it.
PATIENCE_S = 30.0
# What a disk queue's file gave out so long before a kill was synced: --sync-timeout is a tenth of a second.
SYNCED_AFTER_NS = 5_000 * NS_PER_MS


@dataclass
class WireConsumer:
    """held: what it was sent and has not answered, serial → id. sent_rdy: the most that it has asked for since all
    that it was sent was read."""

    key: int
    client: WireClient
    topic: str
    channel: str
    timeout_ms: int
    rdy: int = 0
    sent_rdy: int = 0
    held: dict[int, bytes] = field(default_factory=dict)


class World:
    def __init__(self, setting: Setting, rng: random.Random, server: WireEngine) -> None:
        self.setting = setting
        self.server = server
        self.topics: dict[str, ModelTopic] = {}
        self.consumers: list[WireConsumer] = []
        self.bodies = Bodies()
        self.sizes = BodySizes(rng, setting.limits, setting.options.max_msg_size)
        self.id_of: dict[int, bytes] = {}  # as delivered, of topics that still are
        self.delivered_count = 0
        self._next_key = 1
        self._producer: WireClient | None = None

    # Reading.

    def channel(self, consumer: WireConsumer) -> ModelChannel:
        return self.topics[consumer.topic].channels[consumer.channel]

    def absorb(self) -> int:
        """Take in what has come; returns how many messages."""
        came = 0
        for consumer in self.consumers:
            came += self.take_in(consumer, consumer.client.messages(), consumer.client.cleared_ns)
        return came

    def take_in(self, consumer: WireConsumer, messages: list[Message], cleared_ns: int) -> int:
        """cleared_ns: they were sent then or later."""
        topic = self.topics[consumer.topic]
        for message in messages:
            serial = self.bodies.serial_of(message.body)
            if serial not in topic.messages:
                raise BrokenPromiseError(f"message {serial} was not published to {consumer.topic}")
            if self.id_of.setdefault(serial, message.id) != message.id and not topic.has_been_killed:
                raise BrokenPromiseError(f"message {serial} has another id than before")
            place = f"{consumer.topic}/{consumer.channel}, consumer {consumer.key}, {len(message.body)} bytes"
            try:
                has_it = topic.channels[consumer.channel].delivered(
                    serial,
                    message,
                    consumer.key,
                    cleared_ns=cleared_ns,
                    timeout_ms=consumer.timeout_ms,
                )
            except BrokenPromiseError as exc:
                raise BrokenPromiseError(f"{place}: {exc}") from exc
            if not has_it:
                continue
            for other in self.consumers:
                if (other.topic, other.channel) == (consumer.topic, consumer.channel):
                    other.held.pop(serial, None)
            consumer.held[serial] = message.id
            in_flight = self._surely_held(consumer)
            if in_flight > consumer.sent_rdy:
                raise BrokenPromiseError(f"{place}: {in_flight} in flight with RDY {consumer.sent_rdy}")
        self.delivered_count += len(messages)
        return len(messages)

    def _surely_held(self, consumer: WireConsumer) -> int:
        now_ns = time.monotonic_ns()
        copies = self.channel(consumer).copies
        held = [copies[serial] for serial in consumer.held if serial in copies]
        return sum(one.place is Place.HELD and one.not_before_ns > now_ns for one in held)

    def clear(self) -> None:
        """Read all that the server has sent until now."""
        for consumer in self.consumers:
            self.clear_one(consumer)

    def clear_one(self, consumer: WireConsumer) -> set[bytes]:
        """The same for one; returns the ids that were refused to it."""
        cleared_ns = consumer.client.cleared_ns
        messages, refused = consumer.client.clear()
        self.take_in(consumer, messages, cleared_ns)
        consumer.sent_rdy = consumer.rdy
        return refused

    def id_base(self, topic: str) -> int:
        """The number that message ids of a topic of the log begin from."""
        base: int = orjson.loads(self.server.http("GET", f"/log/topic?topic={topic}"))["id_base"]
        return base

    # Publishing.

    def publish_tcp(self, commands: list[tuple[str, str, list[int], int]]) -> None:
        """(verb, topic, sizes, defer ms) sent at once, then all answers."""
        producer = self.producer()
        data, published = self._commands(commands)
        producer.send(data)
        for _ in commands:
            producer.expect(b"OK")
        for topic, messages in published:
            self.topics.setdefault(topic, ModelTopic()).publish(messages)

    def publish_unanswered(self, commands: list[tuple[str, str, list[int], int]]) -> None:
        """The same to topics that are there; whether it arrived will not be known."""
        data, published = self._commands(commands)
        self.producer().send(data)
        for topic, messages in published:
            self.topics[topic].publish(messages, is_sure=False)

    def _commands(
        self, commands: list[tuple[str, str, list[int], int]]
    ) -> tuple[bytes, list[tuple[str, list[Published]]]]:
        parts: list[bytes] = []
        published = []
        for verb, topic, sizes, defer_ms in commands:
            due_ns = time.monotonic_ns() + defer_ms * NS_PER_MS if defer_ms else 0
            made = [self.bodies.make(size) for size in sizes]
            bodies = [body for _, body in made]
            if verb == "MPUB":
                parts.append(f"MPUB {topic}\n".encode() + sized(mpub_body(bodies)))
            elif verb == "DPUB":
                parts.append(f"DPUB {topic} {defer_ms}\n".encode() + sized(bodies[0]))
            else:
                parts.append(f"PUB {topic}\n".encode() + sized(bodies[0]))
            published.append((topic, [Published(serial, len(body), due_ns) for serial, body in made]))
        return b"".join(parts), published

    def publish_http(self, topic: str, sizes: list[int], defer_ms: int) -> None:
        due_ns = time.monotonic_ns() + defer_ms * NS_PER_MS if defer_ms else 0
        made = [self.bodies.make(size) for size in sizes]
        if len(made) == 1:
            defer = f"&defer={defer_ms}" if defer_ms else ""
            self.server.http("POST", f"/pub?topic={topic}{defer}", made[0][1])
        else:
            self.server.http("POST", f"/mpub?topic={topic}&binary=true", mpub_body([body for _, body in made]))
        messages = [Published(serial, len(body), due_ns) for serial, body in made]
        self.topics.setdefault(topic, ModelTopic()).publish(messages)

    def producer(self) -> WireClient:
        if self._producer is None:
            self._producer = WireClient(self.server.tcp_port)
        return self._producer

    def drop_producer(self) -> None:
        if self._producer is not None:
            self._producer.close()
            self._producer = None

    # Consumers.

    def subscribe(self, topic: str, channel: str, *, timeout_ms: int, rdy: int, **agreed: int) -> WireConsumer:
        """timeout_ms: 0 for the server's own."""
        self.settle_before_new(topic, channel)
        client = WireClient(self.server.tcp_port)
        if timeout_ms:
            agreed["msg_timeout"] = timeout_ms
        if agreed:
            client.identify(**agreed)
        client.subscribe(topic, channel)
        model = self.topics.setdefault(topic, ModelTopic())
        model.channels.setdefault(channel, ModelChannel())
        model.flow()
        timeout_ms = timeout_ms or self.setting.options.msg_timeout_ms
        consumer = WireConsumer(self._next_key, client, topic, channel, timeout_ms)
        self._next_key += 1
        self.consumers.append(consumer)
        self.set_ready(consumer, rdy)
        return consumer

    def settle_before_new(self, topic: str, channel: str) -> None:
        """A channel that is new has nothing of what was published before, where there are others."""
        model = self.topics.get(topic)
        if model is not None and channel not in model.channels and model.channels:
            self.settle_topic(topic)

    def set_ready(self, consumer: WireConsumer, rdy: int) -> None:
        consumer.rdy = rdy
        consumer.sent_rdy = max(consumer.sent_rdy, rdy)
        consumer.client.send(b"RDY %d\n" % rdy)

    def leave(self, consumer: WireConsumer, *, is_abrupt: bool) -> None:
        """abruptly: with what it was sent unread."""
        channel = self.channel(consumer)
        if is_abrupt:
            channel.lose_track()
            channel.has_leavers = True
        else:
            self.set_ready(consumer, 0)
            self.clear_one(consumer)
        self.consumers.remove(consumer)
        consumer.client.close()
        channel.give_back(consumer.key)

    def forget(self, topic: str, channel: str | None = None) -> None:
        """A topic or channel is gone, and the server ends the connections of its consumers."""
        for consumer in list(self.consumers):
            if consumer.topic == topic and channel in (None, consumer.channel):
                self.consumers.remove(consumer)
                consumer.client.close()

    def forget_ids(self, topic: ModelTopic) -> None:
        """A topic is gone for good, and others may have its messages' ids."""
        self.id_of = {serial: one for serial, one in self.id_of.items() if serial not in topic.messages}

    def answer(self, consumer: WireConsumer, verb: bytes, serials: list[int], delay_ms: int = 0) -> None:
        """Send FIN, REQ or TOUCH, and check the server's answer."""
        channel = self.channel(consumer)
        ids = {serial: consumer.held[serial] for serial in serials}
        for serial in serials:
            channel.answering(serial)
            if verb != b"TOUCH":
                del consumer.held[serial]
        sent_ns = time.monotonic_ns()
        consumer.client.say(verb, list(ids.values()), *([b"%d" % delay_ms] if verb == b"REQ" else []))
        refused = self.clear_one(consumer)
        for serial, message_id in ids.items():
            if message_id in refused:
                channel.refused(serial, verb.decode())
            elif verb == b"FIN":
                channel.finished(serial)
            elif verb == b"REQ":
                channel.requeued(serial, sent_ns, delay_ms)
            else:
                channel.touched(serial, sent_ns, consumer.timeout_ms)
            if channel.copies[serial].holder != consumer.key:
                consumer.held.pop(serial, None)

    def answer_unanswered(self, consumer: WireConsumer, verb: bytes, serials: list[int], delay_ms: int = 0) -> None:
        """The same before a kill: whether it was taken will not be known."""
        for serial in serials:
            self.channel(consumer).answering(serial)
        ids = [consumer.held.pop(serial) for serial in serials]
        consumer.client.say(verb, ids, *([b"%d" % delay_ms] if verb == b"REQ" else []))

    # Counts.

    def settle_topic(self, name: str) -> None:
        """Wait until what was published has gone on to the channels."""
        topic = self.topics[name]
        deadline = time.monotonic() + PATIENCE_S
        while True:
            depth = self.server.topic_stats(name)["depth"]
            least, most = topic.least_and_most()
            if least <= depth and (most is None or depth <= most):
                return
            if time.monotonic() > deadline:
                raise BrokenPromiseError(f"topic {name} has depth {depth}; it should be {least} to {most}")
            self.absorb()

    def check_counts(self) -> None:
        """Check /stats against the model, as far as the model knows."""
        self.clear()
        self.wait_for_leavers()
        for name in self.topics:
            self.settle_topic(name)
        self.clear()
        answer = self.server.stats()
        if answer["health"] != "OK":
            raise BrokenPromiseError(f"health is {answer['health']}")
        found = {topic["topic_name"]: topic for topic in answer["topics"]}
        if found.keys() != self.topics.keys():
            raise BrokenPromiseError(f"topics are {sorted(found)}, and should be {sorted(self.topics)}")
        for name, topic in self.topics.items():
            stats = found[name]
            if topic.is_count_exact:
                for figure, value in (("message_count", topic.message_count), ("message_bytes", topic.message_bytes)):
                    _compare(name, figure, stats[figure], value)
            _compare(name, "paused", stats["paused"], topic.paused)
            channels = {channel["channel_name"]: channel for channel in stats["channels"]}
            if channels.keys() != topic.channels.keys():
                raise BrokenPromiseError(f"{name} has channels {sorted(channels)}, not {sorted(topic.channels)}")
            for channel_name, channel in topic.channels.items():
                self._check_channel(f"{name}/{channel_name}", channels[channel_name], channel)

    def _check_channel(self, place: str, stats: dict[str, Any], channel: ModelChannel) -> None:
        now_ns = time.monotonic_ns()
        total = stats["depth"] + stats["in_flight_count"] + stats["deferred_count"]
        least, most = channel.least_and_most()
        if total < least or (most is not None and total > most):
            figures = [stats[name] for name in ("depth", "in_flight_count", "deferred_count")]
            raise BrokenPromiseError(
                f"{place}: depth, in flight, deferred {figures} should add up to {least} to {most}"
            )
        for figure, place_of in (("in_flight_count", Place.HELD), ("deferred_count", Place.DEFERRED)):
            copies = channel.copies.values()
            sure = sum(copy.place is place_of and copy.not_before_ns > now_ns for copy in copies)
            if stats[figure] < sure:
                raise BrokenPromiseError(f"{place}: {figure} is {stats[figure]}, and should be {sure} at least")
        _compare(place, "paused", stats["paused"], channel.paused)
        if channel.paused:
            _compare(place, "reason of its pause", stats["pause"]["reason"], channel.pause_reason)
        for figure, value in channel.counters.exact().items():
            _compare(place, figure, stats[figure], value)

    # All that is there has to come.

    def drain(self) -> None:
        """Take everything out of every channel, and find that nothing is missing."""
        for consumer in list(self.consumers):
            self.leave(consumer, is_abrupt=False)
        for name, topic in self.topics.items():
            if topic.paused:
                self.act("/topic/unpause", topic=name)
                topic.paused = False
                topic.flow()
            for channel_name, channel in topic.channels.items():
                if channel.paused:
                    self.act("/channel/unpause", topic=name, channel=channel_name)
                    channel.paused = False
            for channel_name in list(topic.channels) or ["drain"]:
                self.subscribe(name, channel_name, timeout_ms=60_000, rdy=RDY_MAX)
        progress_at = time.monotonic()
        while True:
            came = self.absorb()
            for consumer in self.consumers:
                if consumer.held:
                    self.answer(consumer, b"FIN", list(consumer.held))
            if came:
                progress_at = time.monotonic()
                continue
            if self._waits() == 0:
                break
            if time.monotonic() > progress_at + PATIENCE_S:
                raise BrokenPromiseError(f"{self._waits()} messages wait, and nobody gets them: {self._left()}")
            time.sleep(0.01)
        self.clear()
        for name, topic in self.topics.items():
            for channel_name, channel in topic.channels.items():
                missing = channel.missing()
                if missing:
                    sizes = {serial: topic.messages[serial].size for serial in missing[:5]}
                    raise BrokenPromiseError(
                        f"{name}/{channel_name} lost {len(missing)} messages, such as (serial: bytes) {sizes}"
                    )
                channel.drained()
        self.check_counts()
        for consumer in list(self.consumers):
            self.leave(consumer, is_abrupt=False)

    def _waits(self) -> int:
        count = 0
        for topic in self.server.stats()["topics"]:
            count += topic["depth"]
            for channel in topic["channels"]:
                count += channel["depth"] + channel["in_flight_count"] + channel["deferred_count"]
        return count

    def _left(self) -> dict[str, list[int]]:
        return {
            f"{name}/{channel_name}": channel.missing()[:5]
            for name, topic in self.topics.items()
            for channel_name, channel in topic.channels.items()
        }

    # Restarts.

    def restart(self) -> None:
        """SIGTERM, and again."""
        self.absorb()
        self.server.stop()
        self._disconnected()
        for topic in self.topics.values():
            for channel in topic.channels.values():
                channel.restarted()
                if not self.setting.is_log:
                    channel.release_deferred()
            if not self.setting.is_log:
                topic.forget_dues()
        self.server.start()

    def kill(self) -> None:
        """kill -9, and again."""
        in_flight = {}
        for consumer in self.consumers:
            at = (consumer.topic, consumer.channel)
            in_flight[at] = in_flight.get(at, 0) + consumer.sent_rdy
        self.server.kill9()
        self._disconnected()
        gone_before_ns = time.monotonic_ns() - SYNCED_AFTER_NS
        memory = self.setting.options.mem_queue_size
        for name, topic in self.topics.items():
            for channel_name, channel in topic.channels.items():
                channel.cut_off()
                if not self.setting.is_log:
                    channel.lost_memory(in_memory=memory, in_flight=in_flight.get((name, channel_name), 0))
            if not self.setting.is_log:
                topic.lost_memory(memory, gone_before_ns)
            for channel in topic.channels.values():
                channel.restarted()
                if channel.repeats or channel.count(Place.UNSURE):
                    channel.counters.inexact.add("message_count")
        self.server.start()

    def wait_for_leavers(self) -> None:
        """Wait until the server knows that those who left have left: then what they held waits again."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            self.absorb()
            found = sum(channel["client_count"] for one in self.server.stats()["topics"] for channel in one["channels"])
            if found == len(self.consumers):
                break
            if time.monotonic() > deadline:
                raise BrokenPromiseError(f"the server has {found} consumers; {len(self.consumers)} are connected")
        for topic in self.topics.values():
            for channel in topic.channels.values():
                channel.has_leavers = False

    def _disconnected(self) -> None:
        for consumer in self.consumers:
            consumer.client.close()
        self.consumers.clear()
        self.drop_producer()
        for topic in self.topics.values():
            topic.message_count = topic.message_bytes = 0
            topic.is_count_exact = True

    # Single messages.

    def messages_of(self, topic: str, channel: str, state: str) -> list[dict[str, Any]]:
        """The first messages of a channel in a state."""
        answer = self.server.http("GET", f"/channel/messages?topic={topic}&channel={channel}&state={state}&limit=100")
        rows: list[dict[str, Any]] = orjson.loads(answer)["messages"]
        return rows

    def serial_of(self, topic: str, channel: str, message_id: str) -> int | None:
        """Which message has this id; None when it is not there any more."""
        try:
            answer = self.server.http("GET", f"/channel/message?topic={topic}&channel={channel}&id={message_id}")
        except urllib.error.HTTPError as exc:
            if exc.code != 404:
                raise BrokenPromiseError(f"message {message_id} can't be read: {exc.code} {exc.read()!r}") from exc
            return None
        message = orjson.loads(answer)["message"]
        body = message["body"].encode() if "body" in message else base64.b64decode(message["body_base64"])
        return self.bodies.serial_of(body)

    def finish_by_hand(self, topic: str, channel: str, ids: list[str]) -> list[dict[str, Any]]:
        """The result for each id."""
        path = f"/channel/message/finish?topic={topic}&channel={channel}"
        results: list[dict[str, Any]] = orjson.loads(self.server.http("POST", path, "\n".join(ids).encode()))["results"]
        return results

    def quarantine(self, topic: str, channel: str, ids: list[str]) -> list[dict[str, Any]]:
        """The result for each id."""
        path = f"/channel/message/quarantine?topic={topic}&channel={channel}"
        results: list[dict[str, Any]] = orjson.loads(self.server.http("POST", path, "\n".join(ids).encode()))["results"]
        return results

    def redrive(self, topic: str, channel: str, ids: list[str]) -> list[dict[str, Any]]:
        """The result for each id."""
        path = f"/channel/message/redrive?topic={topic}&channel={channel}"
        results: list[dict[str, Any]] = orjson.loads(self.server.http("POST", path, "\n".join(ids).encode()))["results"]
        return results

    def trash_of(self, topic: str, channel: str) -> int:
        """The newest entry of a channel in the trash."""
        entries = orjson.loads(self.server.http("GET", "/trash"))["entries"]
        found: int = next(one["id"] for one in entries if (one["topic"], one["channel"]) == (topic, channel))
        return found

    def act(self, path: str, **query: str) -> bytes:
        """One act over HTTP, which must be taken; returns the answer."""
        words = "&".join(f"{name}={value}" for name, value in query.items())
        try:
            return self.server.http("POST", f"{path}?{words}")
        except urllib.error.HTTPError as exc:
            refused = read_error_answer(exc.read(), exc.headers)
            raise BrokenPromiseError(f"{path} {query} was refused: {exc.code} {refused}") from exc


def _compare(place: str, figure: str, found: object, wanted: object) -> None:
    if found != wanted:
        raise BrokenPromiseError(f"{place}: {figure} is {found}, and should be {wanted}")
