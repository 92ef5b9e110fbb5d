"""Random acts of clients and operators on a server: each act by its weight, all from one seed."""

import random
import time
from collections.abc import Callable

from tests.faults.wire.client import WireClient, WireClosedError
from tests.faults.wire.model import BrokenPromiseError, ModelChannel, Place
from tests.faults.wire.quarantine_acts import QuarantineActs
from tests.faults.wire.setting import MSG_TIMEOUT_MS
from tests.faults.wire.trash_acts import TrashActs
from tests.faults.wire.world import RDY_MAX, WireConsumer, World
from tests.support.nsq_socket import FRAME_ERROR, mpub_body, sized

CHANNELS = ("billing", "archive")
CONSUMERS_MAX = 6
DELAYS_MS = (0, 0, 0, 1, 50, 400, 1_500)


class Acts(TrashActs, QuarantineActs):
    """One act after the other. The names of the methods are what a failing run lists."""

    def __init__(self, world: World, seed: str, *, is_wide: bool = True) -> None:
        """is_wide: with those acts, too, that no mutant is about: the mutants' seeds are chosen without them."""
        super().__init__(world, random.Random(seed))
        self._seed = seed
        self.done: list[str] = []
        weights: dict[Callable[[], str], int] = {
            self._publish: 24,
            self._publish_wrongly: 1,
            self._subscribe: 8,
            self._leave: 4,
            self._set_ready: 6,
            self._answer: 30,
            self._wait: 6,
            self._check: 5,
            self._pause_or_not: 4,
            self._empty: 1,
            self._requeue_in_flight: 2,
            self._release_deferred: 1,
            self._finish_by_hand: 4,
            self._empty_and_restore: 2,
            self._delete_and_restore: 1,
            self._quarantine_and_redrive: 2,
            self._seek: 3,
            self._create_at_start: 1,
            self._delete: 1,
            self._restart: 1,
            self._kill: 2,
            self._drain: 1,
        }
        if is_wide:
            weights |= {self._redrive_at_a_rate: 2, self._delete_topic_and_restore: 2}
        self._acts = list(weights)
        self._weights = list(weights.values())

    def step(self) -> None:
        # A generator for each step: what comes differs from run to run, and so does how much chance a step needs.
        self._rng = self._world.sizes.rng = random.Random(f"{self._seed} {len(self.done)}")
        act = self._rng.choices(self._acts, self._weights)[0]
        # The name is there when it fails.
        self.done.append(act.__name__)
        told = act()
        self.done[-1] = f"{act.__name__} {told}"
        self._world.absorb()

    # Choices.

    def _a_publication(self) -> tuple[str, str, list[int], int]:
        rng, sizes = self._rng, self._world.sizes
        verb = rng.choices(("PUB", "MPUB", "DPUB"), (5, 3, 2))[0]
        drawn = [sizes.draw()]
        if verb == "MPUB":
            left = self._world.setting.options.max_body_size - 4
            drawn = []
            for _ in range(rng.choice((1, 2, 5, 20, 100))):
                size = sizes.draw()
                # Small ones grow by some bytes where others have theirs.
                left -= 4 + size + 8
                if left < 0 and drawn:
                    break
                drawn.append(min(size, self._world.setting.options.max_body_size - 16))
        defer_ms = rng.choice([delay for delay in DELAYS_MS if delay]) if verb == "DPUB" else 0
        return verb, self._topic(), drawn, defer_ms

    # Clients.

    def _publish(self) -> str:
        if self._rng.random() < 0.15:
            _, topic, sizes, defer_ms = self._a_publication()
            self._world.publish_http(topic, sizes, defer_ms)
            return f"HTTP {topic} {sizes} {defer_ms}"
        commands = [self._a_publication() for _ in range(self._rng.choice((1, 1, 1, 3, 10)))]
        self._world.publish_tcp(commands)
        return "; ".join(f"{verb} {topic} {sizes} {defer_ms}" for verb, topic, sizes, defer_ms in commands)

    def _publish_wrongly(self) -> str:
        """No bytes, or too many: refused, and nothing of it is there."""
        limit = self._world.setting.options.max_msg_size
        topic = self._topic()
        wrong = self._rng.choice((b"", b"x" * (limit + 1)))
        command = self._rng.choice(
            (
                f"PUB {topic}\n".encode() + sized(wrong),
                f"DPUB {topic} 10\n".encode() + sized(wrong),
                f"MPUB {topic}\n".encode() + sized(mpub_body([b"ok", wrong])),
            )
        )
        client = WireClient(self._world.server.tcp_port)
        try:
            client.send(command)
            kind, data, _ = client.answer()
        except WireClosedError:
            # It did not read all that it refused.
            return f"{len(wrong)} bytes, cut off"
        finally:
            client.close()
        if kind != FRAME_ERROR or data[:6] != b"E_BAD_":
            raise BrokenPromiseError(f"a body of {len(wrong)} bytes was answered with {data!r}")
        return f"{len(wrong)} bytes"

    def _subscribe(self) -> str:
        if len(self._world.consumers) >= CONSUMERS_MAX:
            return "no more"
        rng = self._rng
        topic, channel = self._topic(), rng.choice(CHANNELS)
        timeout_ms = rng.choice((0, 1_000, 60_000, 60_000, 60_000))
        rdy = rng.choice((0, 1, 2, 10, 10, 100, RDY_MAX))
        agreed = {}
        if rng.random() < 0.2:
            agreed = {"output_buffer_size": rng.choice((64, 16_384, 65_536)), "output_buffer_timeout": 30}
        self._world.subscribe(topic, channel, timeout_ms=timeout_ms, rdy=rdy, **agreed)
        return f"{topic}/{channel} timeout {timeout_ms} rdy {rdy} {agreed}"

    def _leave(self) -> str:
        consumer = self._a_consumer()
        if consumer is None:
            return "nobody"
        is_abrupt = self._rng.random() < 0.6
        self._world.leave(consumer, is_abrupt=is_abrupt)
        return f"{consumer.key} {'abruptly' if is_abrupt else ''}"

    def _set_ready(self) -> str:
        consumer = self._a_consumer()
        if consumer is None:
            return "nobody"
        rdy = self._rng.choice((0, 1, 3, 10, 50, RDY_MAX))
        self._world.set_ready(consumer, rdy)
        return f"{consumer.key} {rdy}"

    def _answer(self) -> str:
        self._world.absorb()
        holders = [one for one in self._world.consumers if one.held]
        if not holders:
            return "nothing"
        consumer, verb, serials, delay_ms = self._an_answer(holders)
        self._world.answer(consumer, verb, serials, delay_ms)
        return f"{consumer.key} {verb.decode()} {serials} {delay_ms}"

    def _an_answer(self, holders: list[WireConsumer]) -> tuple[WireConsumer, bytes, list[int], int]:
        rng = self._rng
        consumer = rng.choice(holders)
        verb = rng.choices((b"FIN", b"REQ", b"TOUCH"), (5, 4, 1))[0]
        count = rng.choice((1, 1, 3, len(consumer.held)))
        serials = sorted(consumer.held)
        rng.shuffle(serials)
        delay_ms = rng.choice(DELAYS_MS) if verb == b"REQ" else 0
        return consumer, verb, serials[:count], delay_ms

    def _wait(self) -> str:
        """Messages come, timeouts pass, deferred ones are due."""
        wait_ms = self._rng.choice((0, 5, 30, 100, MSG_TIMEOUT_MS + 50))
        deadline = time.monotonic() + wait_ms / 1_000
        while (left_s := deadline - time.monotonic()) > 0:
            self._world.absorb()
            time.sleep(min(left_s, 0.01))
        return f"{wait_ms} ms"

    def _check(self) -> str:
        self._world.check_counts()
        return ""

    # Operators.

    def _pause_or_not(self) -> str:
        chosen = self._a_channel()
        if chosen is None:
            return "nothing"
        name, channel_name, topic, channel = chosen
        world = self._world
        if self._rng.random() < 0.5:
            verb = "unpause" if topic.paused else "pause"
            world.settle_topic(name)
            world.act(f"/topic/{verb}", topic=name)
            topic.paused = not topic.paused
            topic.flow()
            return f"{verb} {name}"
        verb = "unpause" if channel.paused else "pause"
        if channel.paused:
            channel.paused = False
            world.act("/channel/unpause", topic=name, channel=channel_name)
        else:
            # With an end that the run does not reach: it is to last through every restart.
            channel.pause_reason = f"repair-{self._rng.randrange(1_000)}"
            world.act("/channel/pause", topic=name, channel=channel_name, reason=channel.pause_reason, **{"for": "5h"})
            world.clear()
            channel.paused = True
        return f"{verb} {name}/{channel_name}"

    def _empty(self) -> str:
        chosen = self._a_channel()
        if chosen is None:
            return "nothing"
        name, channel_name, topic, channel = chosen
        world = self._world
        world.settle_topic(name)
        if self._rng.random() < 0.3:
            world.act("/topic/empty", topic=name)
            topic.waiting.clear()
            topic.unsure.clear()
            return name
        # What was sent before is read, and is in flight no more.
        with channel.unsettled():
            world.act("/channel/empty", topic=name, channel=channel_name)
            world.clear()
        channel.drop_all()
        self._hold_nothing(name, channel_name)
        return f"{name}/{channel_name}"

    def _requeue_in_flight(self) -> str:
        chosen = self._a_channel()
        if chosen is None:
            return "nothing"
        name, channel_name, _, channel = chosen
        channel.counters.inexact.add("requeue_count")
        with channel.unsettled():
            self._world.server.act("requeue_channel", name, channel_name)
            self._world.clear()
        return f"{name}/{channel_name}"

    def _release_deferred(self) -> str:
        chosen = self._a_channel()
        if chosen is None:
            return "nothing"
        name, channel_name, _, channel = chosen
        self._world.settle_topic(name)
        channel.release_deferred()
        self._world.server.act("release_deferred", name, channel_name)
        return f"{name}/{channel_name}"

    def _finish_by_hand(self) -> str:
        """Some messages of one state, wherever they stand when the server comes to it."""
        chosen = self._a_channel()
        if chosen is None:
            return "nothing"
        name, channel_name, _, channel = chosen
        world, rng = self._world, self._rng
        world.settle_topic(name)
        state = rng.choice(("waiting", "waiting", "in_flight", "deferred"))
        rows = world.messages_of(name, channel_name, state)
        ids = [row["id"] for row in rng.sample(rows, min(len(rows), rng.choice((1, 1, 3, 20))))]
        serials = {one: world.serial_of(name, channel_name, one) for one in ids}
        named = [one for one, serial in serials.items() if serial is not None]
        if not named:
            return f"{name}/{channel_name} {state}: nothing"
        # A consumer may get it, or finish it not, until it is finished here.
        with channel.unsettled():
            results = world.finish_by_hand(name, channel_name, named)
            world.clear()
        for result in results:
            serial = serials[result["asked"]]
            assert serial is not None
            if result["code"]:
                if world.setting.is_log or result["code"] != "MESSAGE_NOT_FOUND":
                    raise BrokenPromiseError(f"message {serial} was {state}, and can't be finished: {result['text']}")
                continue
            channel.finished_by_hand(serial)
            for consumer in world.consumers:
                if world.channel(consumer) is channel:
                    consumer.held.pop(serial, None)
        return f"{name}/{channel_name} {state} {list(serials.values())}"

    def _seek(self) -> str:
        chosen = self._a_channel()
        if chosen is None or not self._world.setting.is_log:
            return "nothing"
        name, channel_name, topic, channel = chosen
        world = self._world
        world.settle_topic(name)
        world.clear()
        flown = sorted(topic.messages.keys() - set(topic.waiting))
        known = [serial for serial in flown if serial in world.id_of]
        kind = self._rng.choice(("start", "end", "offset"))
        query = {"to": kind}
        first = 0 if kind == "start" else max(topic.messages, default=0) + 1
        if kind == "offset":
            if not known:
                return "nothing"
            first = self._rng.choice(known)
            query = {"offset": str(int(world.id_of[first], 16) - world.id_base(name))}
        needed = channel.may_come_again(flown)
        with channel.unsettled():
            world.act("/channel/seek", topic=name, channel=channel_name, **query)
            world.clear()
        channel.sought(topic.messages, first, needed)
        for consumer in world.consumers:
            if world.channel(consumer) is channel:
                held = consumer.held.items()
                consumer.held = {one: id_ for one, id_ in held if channel.copies[one].holder == consumer.key}
        return f"{name}/{channel_name} {query}"

    def _create_at_start(self) -> str:
        """A channel that begins at the oldest message, like one that was created before all others."""
        topic_name = self._topic()
        topic = self._world.topics.get(topic_name)
        world = self._world
        if topic is None or "late" in topic.channels or not world.setting.is_log or topic.paused:
            return "nothing"
        world.settle_before_new(topic_name, "late")
        needed = {
            serial
            for channel in topic.channels.values()
            for serial, copy in channel.copies.items()
            if copy.place in (Place.WAITING, Place.DEFERRED)
        }
        channel = topic.channels["late"] = ModelChannel()
        topic.flow()
        needed |= channel.may_come_again(topic.messages)
        world.act("/channel/create", topic=topic_name, channel="late", start="start")
        channel.sought(topic.messages, 0, needed)
        return f"{topic_name}/late"

    def _delete(self) -> str:
        chosen = self._a_channel()
        if chosen is None:
            return "nothing"
        name, channel_name, topic, _ = chosen
        world = self._world
        world.settle_topic(name)
        if self._rng.random() < 0.4:
            world.forget(name)
            world.act("/topic/delete", topic=name)
            del world.topics[name]
            world.forget_ids(topic)
            return name
        world.forget(name, channel_name)
        world.act("/channel/delete", topic=name, channel=channel_name)
        del topic.channels[channel_name]
        return f"{name}/{channel_name}"

    def _restart(self) -> str:
        self._world.restart()
        self._world.check_counts()
        return ""

    def _kill(self) -> str:
        """At a quiet moment, or in the midst of publishing and answering."""
        world, rng = self._world, self._rng
        world.wait_for_leavers()
        if rng.random() < 0.4:
            world.clear()
            for consumer in world.consumers:
                some = [serial for serial in consumer.held if rng.random() < 0.5]
                if some:
                    world.answer(consumer, b"FIN", some)
            world.kill()
            world.check_counts()
            return "at rest"
        world.absorb()
        told = []
        for _ in range(rng.choice((1, 5))):
            holders = [one for one in world.consumers if one.held]
            if holders and rng.random() < 0.5:
                consumer, verb, serials, delay_ms = self._an_answer(holders)
                if verb == b"TOUCH":
                    continue
                world.answer_unanswered(consumer, verb, serials, delay_ms)
                told.append(f"{consumer.key} {verb.decode()} {serials} {delay_ms}")
            else:
                verb_text, topic, sizes, defer_ms = self._a_publication()
                if topic in world.topics:
                    world.publish_unanswered([(verb_text, topic, sizes, defer_ms)])
                    told.append(f"{verb_text} {topic} {sizes} {defer_ms}")
        time.sleep(rng.choice((0, 0.001, 0.01, 0.05)))
        world.kill()
        world.check_counts()
        return "; ".join(told)

    def _drain(self) -> str:
        self._world.drain()
        return ""
