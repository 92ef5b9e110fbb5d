"""A search for a text in the bodies of a channel's messages. The worker's pieces are read by hand, or at once."""

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

from queue_engine.engine.engine import Engine
from queue_engine.engine.messages import message_search
from queue_engine.engine.messages.message_search import MessageSearch
from queue_engine.engine.messages.rows import InvalidQueryError, SearchNotFoundError, SearchState
from queue_engine.vocabulary.client_key import ClientKey
from queue_engine.vocabulary.errors import InvalidStorageError, LimitError
from tests.support.clock import ManualClock
from tests.support.engine import Client, make_engine, settle


class HeldBackground:
    """Keeps its jobs until the test has one done."""

    def __init__(self) -> None:
        self.jobs: list[tuple[Callable[[], None], Callable[[Exception | None], None]]] = []

    def submit(self, job: Callable[[], None], done: Callable[[Exception | None], None]) -> None:
        self.jobs.append((job, done))

    def do_one(self) -> None:
        job, done = self.jobs.pop(0)
        job()
        done(None)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def engine(tmp_path: Path, clock: ManualClock) -> Engine:
    engine = make_engine(tmp_path, clock)
    for topic in ("orders", "other"):
        engine.acts.create_topic(topic)
        engine.acts.create_channel(topic, "billing")
    return engine


def publish(engine: Engine, *bodies: bytes, topic: str = "orders") -> None:
    engine.publish(topic, list(bodies))
    settle(engine)


def offsets(found: SearchState) -> list[int | None]:
    return [hit.row.offset for hit in found.hits]


@pytest.mark.parametrize("piece_bytes", [7, 64, 1_000, 1 << 20])
def test_a_text_is_found_wherever_the_pieces_begin(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, piece_bytes: int
) -> None:
    monkeypatch.setattr(message_search, "PIECE_BYTES", piece_bytes)
    publish(engine, b"one", b"the needle is here", b"three")
    publish(engine, b"a needle of another topic", topic="other")
    publish(engine, b"x" * 100 + b"needle" + b"y" * 200)
    publish(engine, b"needle, and again: needle", b"need", b"le")
    found = engine.message_search.start("orders", "billing", "needle")
    assert found.status == "at_end"
    assert offsets(found) == [1, 3, 4]
    assert [hit.at for hit in found.hits] == [4, 100, 0]
    assert found.hits[1].around == b"x" * 80 + b"needle" + b"y" * 80
    assert (found.message_count, found.message_total) == (7, 7)
    assert [hit.row.state for hit in found.hits] == ["waiting"] * 3


def test_it_begins_where_the_unfinished_messages_begin_and_can_begin_elsewhere(engine: Engine) -> None:
    client = Client(engine, "orders", "billing", ready=1)
    publish(engine, b"needle 0", b"needle 1", b"needle 2")
    client.consumer.ready_count = 0
    client.finish(client.sink.received[0].id)
    assert offsets(engine.message_search.start("orders", "billing", "needle")) == [1, 2]
    everything = engine.message_search.start("orders", "billing", "needle", first_offset=0)
    assert [hit.row.state for hit in everything.hits] == ["finished", "waiting", "waiting"]
    assert offsets(engine.message_search.start("orders", "billing", "needle", first_offset=0, end_offset=2)) == [0, 1]
    only = engine.message_search.start("orders", "billing", "needle", first_offset=0, state="finished")
    assert offsets(only) == [0]


@pytest.mark.parametrize(("looks", "pieces"), [(1, 12), (5, 3), (7, 2), (1_000, 1)])
def test_a_large_batch_is_looked_at_in_steps(
    engine: Engine, clock: ManualClock, monkeypatch: pytest.MonkeyPatch, looks: int, pieces: int
) -> None:
    monkeypatch.setattr(message_search, "LOOKS_MAX", looks)
    held = HeldBackground()
    search = MessageSearch(engine.catalog, clock, held)
    publish(engine, *[b"a needle" if number % 2 else b"nothing" for number in range(8)])
    publish(engine, b"a needle", b"nothing", b"nothing", b"a needle")
    found = search.start("orders", "billing", "needle", first_offset=0)
    hits, count = [0], 0
    while held.jobs:
        held.do_one()
        count += 1
        hits.append(len(search.state(found.search_id).hits))
    found = search.state(found.search_id)
    assert (found.status, offsets(found)) == ("at_end", [1, 3, 5, 7, 8, 11])
    assert max(after - before for before, after in pairwise(hits)) <= looks
    assert count >= pieces


def test_after_a_hundred_hits_another_search_goes_on(engine: Engine) -> None:
    for _ in range(3):
        publish(engine, *[b"needle"] * 50)
    found = engine.message_search.start("orders", "billing", "needle")
    assert (found.status, len(found.hits), found.next_offset) == ("full", 100, 100)
    rest = engine.message_search.start("orders", "billing", "needle", first_offset=found.next_offset)
    assert (rest.status, offsets(rest)) == ("at_end", list(range(100, 150)))


def test_a_search_that_has_read_its_share_says_where_to_go_on(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(message_search, "PIECE_BYTES", 100)
    monkeypatch.setattr(message_search, "SEARCH_BYTES_MAX", 1_000)
    for number in range(40):
        publish(engine, b"needle %02d" % number)
    found: list[int | None] = []
    first = 0
    for _ in range(30):
        search = engine.message_search.start("orders", "billing", "needle", first_offset=first)
        found += offsets(search)
        first = search.next_offset
        if search.status == "at_end":
            break
        assert search.status == "bounded"
    assert sorted({one for one in found if one is not None}) == list(range(40))


def test_a_search_shows_its_progress_and_ends_when_it_is_cancelled(
    engine: Engine, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(message_search, "PIECE_BYTES", 400)
    for number in range(40):
        publish(engine, b"needle %02d" % number)
    background = HeldBackground()
    searches = MessageSearch(engine.catalog, clock, background)
    search = searches.start("orders", "billing", "needle")
    assert (search.status, search.message_count, search.message_total) == ("running", 0, 40)
    background.do_one()
    then = searches.state(search.search_id)
    assert then.status == "running"
    assert 0 < then.message_count < 40
    assert then.scanned_bytes > 0
    assert 0 < len(then.hits) < 40
    assert searches.cancel(search.search_id).status == "cancelled"
    background.do_one()
    assert background.jobs == []
    assert searches.state(search.search_id).status == "cancelled"


def test_a_search_for_which_nobody_asks_is_cancelled(
    engine: Engine, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(message_search, "PIECE_BYTES", 100)
    for number in range(40):
        publish(engine, b"needle %02d" % number)
    background = HeldBackground()
    searches = MessageSearch(engine.catalog, clock, background)
    search = searches.start("orders", "billing", "needle")
    for _ in range(3):
        clock.advance(ms=10_000)
        assert searches.state(search.search_id).status == "running"
        background.do_one()
    clock.advance(ms=16_000)
    background.do_one()
    assert background.jobs == []
    assert searches.state(search.search_id).status == "cancelled"


def test_the_channel_s_end_ends_its_search(engine: Engine, clock: ManualClock) -> None:
    publish(engine, b"needle")
    background = HeldBackground()
    searches = MessageSearch(engine.catalog, clock, background)
    search = searches.start("orders", "billing", "needle")
    engine.acts.delete_channel("orders", "billing")
    background.do_one()
    found = searches.state(search.search_id)
    assert (found.status, found.problem) == ("failed", "channel orders/billing was deleted")


def test_what_can_t_be_searched_is_refused_with_a_sentence(engine: Engine, clock: ManualClock) -> None:
    with pytest.raises(InvalidQueryError, match="text has 0 bytes and can have 1 to 1024"):
        engine.message_search.start("orders", "billing", "")
    with pytest.raises(InvalidQueryError, match="state=lost can be"):
        engine.message_search.start("orders", "billing", "x", state="lost")
    with pytest.raises(SearchNotFoundError, match="search 123 does not exist"):
        engine.message_search.state("123")
    engine.acts.create_topic("old", storage="diskqueue")
    engine.acts.create_channel("old", "c")
    with pytest.raises(InvalidStorageError, match="topic old has storage kind diskqueue: only the log can be searched"):
        engine.message_search.start("old", "c", "x")
    publish(engine, b"one")
    searches = MessageSearch(engine.catalog, clock, HeldBackground())
    for _ in range(4):
        searches.start("orders", "billing", "x")
    with pytest.raises(LimitError, match="4 searches run and that is the most"):
        searches.start("orders", "billing", "x")


def test_one_client_runs_half_of_the_searches_and_others_theirs(engine: Engine, clock: ManualClock) -> None:
    publish(engine, b"one")
    searches = MessageSearch(engine.catalog, clock, HeldBackground())

    def start(user: str) -> SearchState:
        return searches.start("orders", "billing", "x", client=ClientKey((f"user {user}",)))

    first = start("ada")
    start("ada")
    with pytest.raises(LimitError, match="2 of at most 4 searches run, 2 of them for user ada, which is its share"):
        start("ada")
    start("bob")
    start("eve")
    searches.cancel(first.search_id)
    start("sam")


def test_one_look_of_a_search_is_at_few_messages_and_others_have_their_turn(engine: Engine, clock: ManualClock) -> None:
    """Whoever searches for what stands in each message, in a state that none has, makes the engine look at all."""
    for number in range(500):
        publish(engine, b"needle %03d" % number)
    background = HeldBackground()
    searches = MessageSearch(engine.catalog, clock, background)
    search = searches.start("orders", "billing", "needle", state="quarantined")
    looked = [0]
    while background.jobs:
        background.do_one()
        looked.append(searches.state(search.search_id).message_count)
        assert looked[-1] - looked[-2] <= 64
    assert looked[-1] == 500
    assert len(looked) > 500 // 64
