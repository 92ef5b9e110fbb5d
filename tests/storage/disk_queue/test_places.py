"""The order in which a disk queue's channel delivers what was given back, what came back and what it could not take."""

from pathlib import Path

import pytest

from queue_engine.storage.disk_queue.disk_queue_backlog import DiskQueueBacklog
from queue_engine.storage.disk_queue.store import DiskQueueStore
from queue_engine.vocabulary.run import Run
from tests.storage.disk_queue.test_overflow_queue import MISTAKE, open_folder
from tests.support.failing_calls import FailingCall


@pytest.fixture
def store(tmp_path: Path) -> DiskQueueStore:
    return open_store(tmp_path)


def open_store(path: Path) -> DiskQueueStore:
    store = DiskQueueStore("orders", open_folder(path, in_memory=100))
    store.set_flowing(True)
    return store


@pytest.fixture
def backlog(store: DiskQueueStore) -> DiskQueueBacklog:
    return store.open_channel("billing")


def append(store: DiskQueueStore, bodies: str) -> None:
    """A message for each letter."""
    assert store.append(store.make_batch([one.encode() for one in bodies])).error is None


def take(backlog: DiskQueueBacklog, count: int) -> Run:
    run = backlog.take(count, 1 << 20)
    assert run is not None
    return run


def rest(backlog: DiskQueueBacklog) -> str:
    """The bodies of all that are left, in the order of their delivery."""
    came = ""
    while (run := backlog.take(5, 1 << 20)) is not None:
        came += "".join(chr(run.frame_at(index)[-1]) for index in range(len(run)))
    return came


def come_back(backlog: DiskQueueBacklog, run: Run) -> None:
    backlog.give_back(run, run.ids, counted=True)


def test_of_those_that_came_back_the_due_ones_alone_go_before_what_waits(
    store: DiskQueueStore, backlog: DiskQueueBacklog
) -> None:
    append(store, "abcd")
    come_back(backlog, take(backlog, 1))
    others = take(backlog, 3)
    append(store, "ef")
    come_back(backlog, others.slice(0, 1))
    assert rest(backlog) == "aefb"


def test_a_publish_does_not_overtake_what_waits_at_the_topic(store: DiskQueueStore, backlog: DiskQueueBacklog) -> None:
    store.set_flowing(False)
    append(store, "ab")
    store.set_flowing(True)
    append(store, "c")
    store.pump(10)
    assert rest(backlog) == "abc"


def test_what_an_operator_finishes_leaves_no_turn_to_others(store: DiskQueueStore, backlog: DiskQueueBacklog) -> None:
    append(store, "abcd")
    both = take(backlog, 2)
    come_back(backlog, both)
    backlog.finish_in_memory(both.ids[:1])
    take(backlog, 2)
    again = take(backlog, 5)
    append(store, "ef")
    come_back(backlog, again)
    assert rest(backlog) == "efb"


def test_what_was_given_back_unsent_is_finished_where_it_stands(
    store: DiskQueueStore, backlog: DiskQueueBacklog
) -> None:
    append(store, "abcd")
    unsent = take(backlog, 3)
    backlog.give_back(unsent, unsent.ids, counted=False)
    backlog.finish_in_memory(unsent.ids[1:2])
    assert (backlog.depth, rest(backlog)) == (3, "acd")


def test_emptying_leaves_no_turn_to_what_comes_later(store: DiskQueueStore, backlog: DiskQueueBacklog) -> None:
    append(store, "ab")
    run = take(backlog, 2)
    come_back(backlog, run)
    backlog.empty()
    append(store, "cd")
    come_back(backlog, take(backlog, 1))
    assert rest(backlog) == "dc"


def test_a_stop_writes_messages_in_the_order_of_their_delivery(
    tmp_path: Path, store: DiskQueueStore, backlog: DiskQueueBacklog
) -> None:
    append(store, "abcdef")
    come_back(backlog, take(backlog, 1))
    for run in (take(backlog, 1), take(backlog, 1)):
        backlog.give_back(run, run.ids, counted=False)
    store.close()
    # What came back goes before what waits: a file has no turns.
    assert rest(open_store(tmp_path).open_channel("billing")) == "cbadef"


@pytest.mark.parametrize("is_stopped", [False, True])
def test_what_a_channel_could_not_take_goes_before_what_came_later(
    tmp_path: Path, store: DiskQueueStore, backlog: DiskQueueBacklog, is_stopped: bool
) -> None:
    fault = FailingCall(backlog._queue, "put", MISTAKE)
    append(store, "ab")
    fault.heal()
    append(store, "cd")
    assert backlog.depth == 0
    if is_stopped:
        store.close()
        backlog = open_store(tmp_path).open_channel("billing")
    else:
        backlog.start_over()
    assert rest(backlog) == "abcd"
