"""Which channel comes up first, and what the index keeps for it."""

from queue_engine.delivery.channel_deadlines import ChannelDeadlines


class Scheduled:
    """Has the deadline that the test gives it."""

    def __init__(self, deadline_ns: int | None) -> None:
        self.scheduled_ns: int | None = None
        self.deadline_ns = deadline_ns

    def next_deadline_ns(self) -> int | None:
        return self.deadline_ns


def test_the_earliest_come_first_and_no_more_than_asked_for() -> None:
    index: ChannelDeadlines[Scheduled] = ChannelDeadlines()
    things = [Scheduled(deadline_ns) for deadline_ns in (30, 10, 20, 40)]
    for thing in things:
        index.note(thing)
    assert index.pop_due(35, 2) == [things[1], things[2]]
    assert index.pop_due(35, 2) == [things[0]]
    assert index.pop_due(35, 2) == []


def test_a_deadline_that_moved_back_is_not_due_and_not_forgotten() -> None:
    index: ChannelDeadlines[Scheduled] = ChannelDeadlines()
    thing = Scheduled(10)
    index.note(thing)
    thing.deadline_ns = 50
    assert index.pop_due(20, 5) == []
    assert index.pop_due(50, 5) == [thing]


def test_what_was_forgotten_does_not_come_up_and_is_not_kept() -> None:
    index: ChannelDeadlines[Scheduled] = ChannelDeadlines()
    stays = Scheduled(10)
    index.note(stays)
    for deadline_ns in range(1_000, 2_000):
        gone = Scheduled(deadline_ns)
        index.note(gone)
        index.forget(gone)
    assert len(index) < 200
    assert index.pop_due(10_000, 5) == [stays]
    assert len(index) == 0


def test_a_deadline_that_comes_nearer_and_nearer_costs_no_more_than_one() -> None:
    index: ChannelDeadlines[Scheduled] = ChannelDeadlines()
    thing = Scheduled(0)
    for deadline_ns in range(10_000, 0, -1):
        thing.deadline_ns = deadline_ns
        index.note(thing)
    assert len(index) < 200
    assert index.pop_due(1, 5) == [thing]
