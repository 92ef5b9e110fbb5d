"""A client gets a heartbeat each interval, and two while it is silent for as long as it may be."""

from itertools import product

from queue_engine.service.tcp.heartbeat import Heartbeat
from queue_engine.vocabulary.clock import NS_PER_MS


class Client:
    """Looked after every so often, as a server does; counts what it gets until its end."""

    def __init__(self, interval_ms: int) -> None:
        self.heartbeat = Heartbeat()
        self.heartbeat.begin(interval_ms, 0)
        self.heard_ns = 0
        self.sent_at_ms: list[int] = []
        self.ended_at_ms: int | None = None

    def look(self, now_ms: int) -> None:
        now_ns = now_ms * NS_PER_MS
        if self.ended_at_ms is not None:
            return
        if self.heartbeat.is_silent(now_ns, self.heard_ns):
            self.ended_at_ms = now_ms
            if self.heartbeat.is_one_missing(self.heard_ns):
                self.sent_at_ms.append(now_ms)
        elif self.heartbeat.is_due(now_ns, self.heard_ns):
            self.sent_at_ms.append(now_ms)


def test_who_is_silent_from_the_start_gets_two() -> None:
    for every_ms, first_ms in product((1, 70, 199, 200, 333), (0, 1, 150)):
        client = Client(1_000)
        for now_ms in range(first_ms, 3_000, every_ms):
            client.look(now_ms)
        assert len(client.sent_at_ms) == 2, (every_ms, first_ms)
        assert client.ended_at_ms is not None
        assert 2_000 < client.ended_at_ms <= 2_000 + every_ms, first_ms


def test_who_answers_gets_one_each_interval_and_two_behind_its_last_word() -> None:
    client = Client(1_000)
    for now_ms in range(0, 9_000, 100):
        before = len(client.sent_at_ms)
        client.look(now_ms)
        if len(client.sent_at_ms) > before and now_ms < 5_000:
            client.heard_ns = (now_ms + 20) * NS_PER_MS
    assert client.sent_at_ms == [1_000, 2_000, 3_000, 4_000, 5_000, 6_000]
    assert client.ended_at_ms == 6_100


def test_a_server_that_stalls_sends_what_is_due_with_the_end() -> None:
    client = Client(1_000)
    client.look(5_000)
    assert (client.sent_at_ms, client.ended_at_ms) == ([5_000], 5_000)


def test_another_interval_begins_anew_and_none_at_all_is_no_deadline() -> None:
    client = Client(1_000)
    client.look(900)
    client.heartbeat.begin(2_000, 900 * NS_PER_MS)
    for now_ms in range(900, 3_000, 100):
        client.look(now_ms)
    assert client.sent_at_ms == [2_900]
    client.heartbeat.begin(0, 3_000 * NS_PER_MS)
    client.look(1_000_000)
    assert (client.sent_at_ms, client.ended_at_ms) == ([2_900], None)
