"""Faults made on purpose in a real server: each breaks one promise, and the random test over the wire must notice."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from queue_engine.delivery.channel import Channel
from queue_engine.engine.messages.log_messages import LogMessages
from queue_engine.storage.disk_queue.disk_queue_backlog import DiskQueueBacklog
from queue_engine.storage.log_store.log_backlog import LogBacklog
from queue_engine.storage.progress.journal_entries import JournalEntries
from queue_engine.vocabulary.run import Run

Patch = pytest.MonkeyPatch
# One in so many is treated wrongly: a fault that strikes always is no test of the test.
ONE_IN = 10


def _lose_some_that_are_given_back(patch: Patch) -> None:
    count = 0
    for backlog in (LogBacklog, DiskQueueBacklog):
        give_back = backlog.give_back

        def lossy(self: Any, run: Run, ids: Sequence[bytes], _give_back: Any = give_back, **how: Any) -> None:
            nonlocal count
            count += 1
            if count % ONE_IN == 0:
                self.settle(ids[:1])
                ids = ids[1:]
            if ids:
                _give_back(self, run, ids, **how)

        patch.setattr(backlog, "give_back", lossy)


def _alter_some_bodies_beside_a_limit(patch: Patch) -> None:
    cut = Run.slice

    def altered(self: Run, start: int, stop: int) -> Run:
        run = cut(self, start, stop)
        if start and len(run.frames) > 16 << 10:
            return Run(run.frames[:-1] + bytes([run.frames[-1] ^ 1]), run.ids, run.published_ns)
        return run

    patch.setattr(Run, "slice", altered)


def _return_some_that_are_finished(patch: Patch) -> None:
    finish = Channel.finish
    count = 0

    def forgetful(self: Channel, consumer: Any, ids: list[bytes]) -> Any:
        nonlocal count
        held = self._in_flight._delivery_of.get(ids[0])
        run = None if held is None else held.run
        errors = finish(self, consumer, ids)
        count += run is not None
        if count % ONE_IN == 0 and run is not None:
            self.backlog.give_back(run, ids[:1], counted=True)
        return errors

    patch.setattr(Channel, "finish", forgetful)


def _forget_some_fins_over_a_kill(patch: Patch) -> None:
    ack = JournalEntries.ack
    count = 0

    def forgetful(self: JournalEntries, *entry: Any) -> None:
        nonlocal count
        count += 1
        if count % ONE_IN:
            ack(self, *entry)

    patch.setattr(JournalEntries, "ack", forgetful)


def _return_some_that_are_finished_by_hand(patch: Patch) -> None:
    finish = LogMessages.finish
    count = 0

    def forgetful(self: LogMessages, offsets: Sequence[int]) -> None:
        nonlocal count
        finish(self, offsets)
        count += 1
        if count % 2 == 0:
            self._places.returned.append(offsets[0], 1)
            self._places.order.came_back(1, 0)

    patch.setattr(LogMessages, "finish", forgetful)


MUTANTS: dict[str, Callable[[Patch], None]] = {
    "lost": _lose_some_that_are_given_back,
    "altered": _alter_some_bodies_beside_a_limit,
    "returned": _return_some_that_are_finished,
    "returned-by-hand": _return_some_that_are_finished_by_hand,
    "fin-forgotten": _forget_some_fins_over_a_kill,
}
