"""What acts choose among: topics, channels and consumers that there are."""

import random

from tests.faults.wire.model import ModelChannel, ModelTopic
from tests.faults.wire.world import WireConsumer, World

TOPICS = ("orders", "events")


class Choices:
    """The world, and the chance of this step."""

    def __init__(self, world: World, rng: random.Random) -> None:
        self._world = world
        self._rng = rng

    def _topic(self) -> str:
        return self._rng.choice(TOPICS)

    def _a_channel(self) -> tuple[str, str, ModelTopic, ModelChannel] | None:
        there = [
            (name, channel_name, topic, channel)
            for name, topic in self._world.topics.items()
            for channel_name, channel in topic.channels.items()
        ]
        return self._rng.choice(there) if there else None

    def _a_consumer(self) -> WireConsumer | None:
        return self._rng.choice(self._world.consumers) if self._world.consumers else None

    def _hold_nothing(self, name: str, channel_name: str) -> None:
        for consumer in self._world.consumers:
            if (consumer.topic, consumer.channel) == (name, channel_name):
                consumer.held.clear()
