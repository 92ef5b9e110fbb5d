"""A new topic begins with the channels that it has on other nodes, once those are known."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from queue_engine.engine.engine import Engine
from queue_engine.vocabulary.errors import ClosedError, LimitError
from queue_engine.vocabulary.ticket import Ticket
from tests.support.clock import ManualClock
from tests.support.disks.files import FaultyFiles
from tests.support.engine import Client, make_engine, settle


class Elsewhere:
    """Other nodes, which answer when the test says so."""

    def __init__(self, engine: Engine, *channels: str) -> None:
        self.asked: list[str] = []
        self._channels = channels
        self._found: list[str] = []
        self._ticket = Ticket()
        engine.catalog.find_channels = self._find

    def _find(self, topic: str) -> tuple[Ticket, Sequence[str]]:
        self.asked.append(topic)
        return self._ticket, self._found

    def answer(self) -> None:
        self._found += self._channels
        self._ticket.resolve()


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


def depths(engine: Engine, topic: str) -> dict[str, int]:
    return {name: channel.backlog.depth for name, channel in engine.topics[topic].channels.items()}


def test_what_is_published_meanwhile_is_in_each_channel_also_after_a_kill(tmp_path: Path, clock: ManualClock) -> None:
    files = FaultyFiles()
    engine = make_engine(tmp_path, clock, files=files, mem_queue_size=0)
    engine.acts.create_topic("old")
    elsewhere = Elsewhere(engine, "billing", "shipping")
    first, second = engine.publish("orders", [b"1"]), engine.publish("orders", [b"2"])
    other = engine.publish("old", [b"x"])
    settle(engine)
    assert (first.done, second.done, other.done) == (False, False, True)
    assert "orders" not in engine.topics
    elsewhere.answer()
    settle(engine)
    assert (first.done, first.error, second.done, second.error) == (True, None, True, None)
    assert depths(engine, "orders") == {"billing": 2, "shipping": 2}
    engine.publish("orders", [b"3"])
    settle(engine)
    assert elsewhere.asked == ["orders"]
    files.abandon()
    again = make_engine(tmp_path, clock)
    settle(again)
    assert depths(again, "orders") == {"billing": 3, "shipping": 3}
    again.close()


def test_a_subscription_waits_for_them_and_its_own_channel_is_one_of_them(tmp_path: Path, clock: ManualClock) -> None:
    engine = make_engine(tmp_path, clock)
    elsewhere = Elsewhere(engine, "mine", "billing", "mine", "tail#ephemeral", "not valid", "..")
    ticket = engine.acts.create_topic("orders")[1]
    assert not ticket.done
    elsewhere.answer()
    assert ticket.error is None
    client = Client(engine, "orders", "mine", ready=1)
    assert set(engine.topics["orders"].channels) == {"mine", "billing"}
    engine.publish("orders", [b"1"])
    settle(engine)
    assert client.bodies == [b"1"]
    engine.close()


def test_an_ephemeral_topic_has_them_as_well(tmp_path: Path, clock: ManualClock) -> None:
    engine = make_engine(tmp_path, clock)
    elsewhere = Elsewhere(engine, "billing", "shipping")
    engine.publish("passing#ephemeral", [b"1"])
    elsewhere.answer()
    settle(engine)
    assert depths(engine, "passing#ephemeral") == {"billing": 1, "shipping": 1}
    engine.close()


def test_no_more_than_a_topic_may_have_are_created(tmp_path: Path, clock: ManualClock) -> None:
    engine = make_engine(tmp_path, clock, max_channels_per_topic=3)
    elsewhere = Elsewhere(engine, *(f"c{number}" for number in range(10)))
    engine.acts.create_topic("orders")
    elsewhere.answer()
    assert list(engine.topics["orders"].channels) == ["c0", "c1", "c2"]
    engine.close()


def test_limits_hold_when_the_answer_comes(tmp_path: Path, clock: ManualClock) -> None:
    """Two wait for an answer, and there is room for one."""
    engine = make_engine(tmp_path, clock, max_topics=1)
    elsewhere = Elsewhere(engine)
    first, second = engine.acts.create_topic("one")[1], engine.acts.create_topic("two")[1]
    elsewhere.answer()
    assert first.error is None
    assert isinstance(second.error, LimitError)
    engine.close()


def test_a_stop_refuses_what_waits(tmp_path: Path, clock: ManualClock) -> None:
    engine = make_engine(tmp_path, clock)
    elsewhere = Elsewhere(engine, "billing")
    published = engine.publish("orders", [b"1"])
    engine.begin_closing()
    elsewhere.answer()
    assert isinstance(published.error, ClosedError)
    assert "orders" not in engine.topics
    engine.close()
