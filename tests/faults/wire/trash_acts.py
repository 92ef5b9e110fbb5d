"""Acts that remove something and restore it: channels, and topics whose names live again meanwhile."""

import orjson

from tests.faults.wire.choices import Choices
from tests.faults.wire.model import BrokenPromiseError, ModelChannel, ModelTopic

# More are restored under their own name: each is drained at the end.
TOPICS_MAX = 5


class TrashActs(Choices):
    def _empty_and_restore(self) -> str:
        """All comes back, also after a kill between: as if what was in flight had been given back."""
        chosen = self._a_channel()
        if chosen is None or not self._world.setting.is_log:
            return "nothing"
        name, channel_name, _, channel = chosen
        world = self._world
        world.settle_topic(name)
        with channel.unsettled():
            world.act("/channel/empty", topic=name, channel=channel_name)
            world.clear()
        return f"{name}/{channel_name}{self._restored(name, channel_name, channel)}"

    def _delete_and_restore(self) -> str:
        """Its consumers are disconnected, and come again."""
        chosen = self._a_channel()
        if chosen is None or not self._world.setting.is_log:
            return "nothing"
        name, channel_name, _, channel = chosen
        world = self._world
        world.settle_topic(name)
        world.forget(name, channel_name)
        world.act("/channel/delete", topic=name, channel=channel_name)
        channel.restarted()  # the one that is created for it counts from nothing
        return f"{name}/{channel_name}{self._restored(name, channel_name, channel)}"

    def _restored(self, name: str, channel_name: str, channel: ModelChannel) -> str:
        world = self._world
        channel.given_back()
        self._hold_nothing(name, channel_name)
        is_killed = self._rng.random() < 0.3
        if is_killed:
            world.kill()
        channel.counters.inexact |= {"message_count", "requeue_count", "timeout_count"}
        with channel.unsettled():
            world.act("/trash/restore", id=str(world.trash_of(name, channel_name)))
            world.clear()
        return ", killed between" if is_killed else ""

    def _delete_topic_and_restore(self) -> str:
        """With its channels, pauses and what waited at it. Clients may make the name anew: then it comes back under
        another one, or both swap."""
        world, rng = self._world, self._rng
        if not world.topics or not world.setting.is_log:
            return "nothing"
        name = rng.choice(sorted(world.topics))
        topic = self._deleted(name)
        trash = world.trash_of(name, "")
        kind = rng.choice(("", "anew", "swap") if len(world.topics) < TOPICS_MAX else ("", "swap"))
        if kind:
            world.publish_tcp([("PUB", name, [world.sizes.draw()], 0) for _ in range(rng.choice((1, 5)))])
            if rng.random() < 0.5:
                world.subscribe(name, rng.choice(("billing", "new")), timeout_ms=60_000, rdy=rng.choice((0, 5)))
        is_killed = rng.random() < 0.3
        if is_killed:
            world.kill()
        told = f"{name} {kind}{', killed between' if is_killed else ''}"
        if kind != "swap":
            return f"{told}: {self._topic_restored(name, topic, trash, is_other=bool(kind))}"
        living = world.topics[name]
        world.settle_topic(name)
        world.forget(name)
        del world.topics[name]
        self._topic_restored(name, topic, trash, swap="true")
        if rng.random() < 0.5:
            return f"{told}: and {self._topic_restored(name, living, world.trash_of(name, ''), is_other=True)}"
        world.forget_ids(living)
        return told

    def _deleted(self, name: str) -> ModelTopic:
        world = self._world
        world.settle_topic(name)
        world.forget(name)
        world.act("/topic/delete", topic=name)
        return world.topics.pop(name)

    def _topic_restored(self, name: str, topic: ModelTopic, trash: int, *, is_other: bool = False, **query: str) -> str:
        """Returns the name that it has now. is_other: its own one lives."""
        world = self._world
        topic.is_count_exact = False  # it counts from nothing
        for channel in topic.channels.values():
            channel.restarted()
            channel.given_back()
            channel.counters.inexact |= {"message_count", "requeue_count", "timeout_count"}
        back: str = orjson.loads(world.act("/trash/restore", id=str(trash), **query))["name"]
        is_right = back.startswith(f"{name}.restored") if is_other else back == name
        if not is_right or back in world.topics:
            raise BrokenPromiseError(f"topic {name} was restored as {back}")
        world.topics[back] = topic
        return back
