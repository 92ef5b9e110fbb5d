"""Acts that set messages aside and let them wait again: by their ids, or a whole channel at a rate."""

import time

from tests.faults.wire.choices import Choices
from tests.faults.wire.model import BrokenPromiseError, ModelChannel
from tests.faults.wire.world import PATIENCE_S


class QuarantineActs(Choices):
    def _quarantine_and_redrive(self) -> str:
        """Some messages are set aside, perhaps over a kill, and wait again: with their attempts."""
        chosen = self._a_channel()
        if chosen is None or not self._world.setting.is_log:
            return "nothing"
        name, channel_name, _, channel = chosen
        world = self._world
        aside, told = self._set_aside(name, channel_name, channel)
        is_killed = self._rng.random() < 0.3
        if is_killed:
            world.kill()
        self._redriven(name, channel_name, channel, aside)
        return f"{told}{', killed between' if is_killed else ''}"

    def _redrive_at_a_rate(self) -> str:
        """The same with a redrive of the whole channel, perhaps over a kill: no faster than the rate, and all of them,
        or those that it came to before it was cancelled."""
        chosen = self._a_channel()
        if chosen is None or not self._world.setting.is_log:
            return "nothing"
        name, channel_name, _, channel = chosen
        world, rng = self._world, self._rng
        world.publish_tcp([("PUB", name, [world.sizes.draw()], 0) for _ in range(5)])
        aside, told = self._set_aside(name, channel_name, channel)
        if not aside:
            return told
        rate = rng.choice((len(aside), 3 * len(aside), 1_000))
        end = rng.choice(("", "", "killed", "cancelled"))
        began_s = time.monotonic()
        with channel.unsettled():
            world.act("/channel/redrive", topic=name, channel=channel_name, rate=str(rate))
            world.clear()
        time.sleep(rng.uniform(0, 0.3))
        if end == "killed":
            world.kill()
        if end == "cancelled":
            world.act("/channel/redrive/cancel", topic=name, channel=channel_name)
            left = [row["id"] for row in world.messages_of(name, channel_name, "quarantined")]
            if len(left) != self._quarantined(name, channel_name):
                raise BrokenPromiseError(f"{name}/{channel_name}: a cancelled redrive goes on")
            self._redriven(name, channel_name, channel, left)
        deadline = time.monotonic() + PATIENCE_S
        while left_count := self._quarantined(name, channel_name):
            done, may_be = len(aside) - left_count, rate * (time.monotonic() - began_s)
            if done > may_be:
                raise BrokenPromiseError(f"{name}/{channel_name}: {done} were redriven, at a rate of {rate}")
            if time.monotonic() > deadline:
                raise BrokenPromiseError(f"{name}/{channel_name}: {left_count} of {len(aside)} stay quarantined")
            world.absorb()
            time.sleep(0.005)
        if end != "cancelled" and rate * (time.monotonic() - began_s) < len(aside):
            raise BrokenPromiseError(f"{name}/{channel_name}: all {len(aside)} were redriven, at a rate of {rate}")
        return f"{told} rate {rate} {end}"

    def _quarantined(self, name: str, channel_name: str) -> int:
        count: int = self._world.server.channel_stats(name, channel_name)["quarantined_count"]
        return count

    def _set_aside(self, name: str, channel_name: str, channel: ModelChannel) -> tuple[list[str], str]:
        """Quarantine some messages of one state; their ids, and what to tell."""
        world, rng = self._world, self._rng
        world.settle_topic(name)
        for state in rng.sample(("waiting", "in_flight", "deferred"), 3):
            rows = world.messages_of(name, channel_name, state)
            if rows:
                break
        ids = [row["id"] for row in rng.sample(rows, min(len(rows), rng.choice((1, 3, 20))))]
        serials = [serial for one in ids if (serial := world.serial_of(name, channel_name, one)) is not None]
        if not ids or len(serials) != len(ids):
            return [], f"{name}/{channel_name} {state}: nothing"
        with channel.unsettled():
            aside = [one["asked"] for one in world.quarantine(name, channel_name, ids) if not one["code"]]
            world.clear()
        channel.counters.inexact |= {"requeue_count", "timeout_count"}
        channel.set_aside([serial for one, serial in zip(ids, serials, strict=True) if one in aside])
        for consumer in world.consumers:
            if world.channel(consumer) is channel:
                consumer.held = {one: id_ for one, id_ in consumer.held.items() if one not in serials}
        return aside, f"{name}/{channel_name} {state} {serials}"

    def _redriven(self, name: str, channel_name: str, channel: ModelChannel, ids: list[str]) -> None:
        world = self._world
        with channel.unsettled():
            left = [one["text"] for one in world.redrive(name, channel_name, ids) if one["code"]] if ids else []
            world.clear()
        if left:
            raise BrokenPromiseError(f"{name}/{channel_name}: what was quarantined is not: {left[0]}")
