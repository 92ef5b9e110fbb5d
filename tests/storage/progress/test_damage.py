"""Damage to channels' progress is told by channel, with the number of finished messages that come again."""

from collections.abc import Callable
from pathlib import Path

import pytest

from queue_engine.storage.log_store.log_store import LogOpening
from queue_engine.storage.log_store.log_topic import TopicOpening
from queue_engine.storage.progress.journal_format import BLOCK_HEADER_BYTES, HEADER_BYTES
from queue_engine.storage.recovery_report import ProgressLoss
from tests.support.stores.log_store import Bench, bodies, everything, take

MESSAGES = 40
Alter = Callable[[Path], None]


class Store:
    """A store with two topics: `orders` with the channels billing (11) and audit (12), `clicks` with counts (21).
    Of 40 messages each, billing finished 30, counts 5, and audit, which is far behind, every second one up to 20."""

    def __init__(self, path: Path) -> None:
        self.bench = Bench(path)
        self.progress = path / "log" / "progress"
        self.bench.publish(*(b"%d" % number for number in range(MESSAGES)))
        clicks = self.bench.open_topic("clicks", 2)
        self.bench.publish(*(b"c%d" % number for number in range(MESSAGES)), topic=clicks)
        orders = self.bench.topic
        self.channels = {}
        for topic, name, number in ((orders, "billing", 11), (orders, "audit", 12), (clicks, "counts", 21)):
            topic.released = 0
            self.channels[number] = topic.open_channel(name, number)
        for topic in (orders, clicks):
            topic.pump(MESSAGES)
        self.finish(11, range(10))
        self.finish(12, range(0, 10, 2))
        self.bench.log.end_turn()

    def finish(self, number: int, offsets: range) -> None:
        channel = self.channels[number]
        run = take(channel, offsets.stop - channel.next_offset)
        id_base = channel._topic.id_base
        channel.settle([one for one in run.ids if int(one, 16) - id_base in offsets])

    def merge(self) -> None:
        self.bench.log.journal.merge()

    def rest(self) -> None:
        self.finish(11, range(10, 30))
        self.finish(12, range(10, 20, 2))
        self.finish(21, range(5))
        self.bench.log.end_turn()

    def sync(self) -> None:
        assert self.bench.log.journal.synced().error is None

    def start(self) -> LogOpening:
        names = [(1, "t", {11: "billing", 12: "audit"}), (2, "clicks", {21: "counts"})]
        return self.bench.start(
            *(
                TopicOpening(topic, number, number << 40, 0, None, dict.fromkeys(channels, 0), {}, channels)
                for number, topic, channels in names
            )
        )

    def journal(self) -> Path:
        return max(self.progress.glob("*.journal"))


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path)


def flip(at: int) -> Alter:
    def alter(path: Path) -> None:
        data = bytearray(path.read_bytes())
        data[at] ^= 0x20
        path.write_bytes(data)

    return alter


def cut(size: int) -> Alter:
    return lambda path: path.write_bytes(path.read_bytes()[:size]) and None


def test_a_clean_stop_without_damage_has_nothing_to_tell(store: Store) -> None:
    store.rest()
    store.bench.log.close()
    for _ in range(2):
        opening = store.start()
        assert (opening.progress.damages, opening.progress_losses) == ([], ())
        store.bench.log.close()


@pytest.mark.parametrize(
    "alter",
    [flip(20), cut(HEADER_BYTES), cut(0), Path.unlink],
    ids=["the header's salt", "cut behind the header", "empty", "gone"],
)
def test_after_a_clean_stop_a_lost_journal_costs_a_known_number(store: Store, alter: Alter) -> None:
    store.merge()
    store.rest()
    store.bench.log.close()
    journal = store.journal()
    alter(journal)
    opening = store.start()
    assert [one.path for one in opening.progress.damages] == [str(journal)]
    # Floors are as of the stop, so that what was finished in order is not forgotten with the journal.
    assert opening.progress_losses == (ProgressLoss("t", "audit", 5, is_exact=True),)
    found = opening.topics[1].open_channel("audit", 12)
    expected = [b"%d" % number for number in range(MESSAGES) if number >= 10 or number % 2]
    assert sorted(everything(found)) == sorted(expected)


def test_one_flipped_byte_costs_its_block_and_the_blocks_behind_it_count(store: Store) -> None:
    store.merge()
    store.rest()
    store.finish(12, range(20, 24, 2))
    at = store.journal().stat().st_size
    store.bench.log.end_turn()  # writes what was finished
    store.finish(11, range(30, 31))
    store.bench.log.end_turn()
    store.bench.log.close()
    flip(at + BLOCK_HEADER_BYTES + 1)(store.journal())
    opening = store.start()
    (damage,) = opening.progress.damages
    assert f"from byte {at} on are damaged, those behind them are valid" in damage.reason
    assert opening.progress_losses == (ProgressLoss("t", "audit", 2, is_exact=True),)


@pytest.mark.parametrize("alter", [flip(100), cut(90), cut(0), Path.unlink], ids=["flip", "cut", "empty", "gone"])
@pytest.mark.parametrize("is_clean", [True, False])
def test_an_index_segment_costs_its_channel_alone(store: Store, alter: Alter, is_clean: bool) -> None:
    store.rest()
    store.merge()
    if is_clean:
        store.bench.log.close()
    else:
        store.bench.kill()
    alter(store.progress / "12" / "00000000.index")
    opening = store.start()
    (damage,) = opening.progress.damages
    assert (damage.channel, damage.settled_max) == (12, 9)  # offset 0 lies below the floor
    assert opening.progress_losses == (ProgressLoss("t", "audit", 9, is_exact=is_clean),)
    assert bodies(opening.topics[1].open_channel("billing", 11).take(1, 1 << 20)) == [b"30"]


@pytest.mark.parametrize("alter", [flip(20), cut(30), cut(0), Path.unlink], ids=["flip", "cut", "empty", "gone"])
def test_lost_floors_are_told_with_what_it_can_cost_at_most(store: Store, alter: Alter) -> None:
    store.merge()
    store.rest()
    store.bench.kill()
    alter(store.progress / "floors")
    opening = store.start()
    assert [Path(one.path).name for one in opening.progress.damages] == ["floors"]
    losses = {one.channel: (one.count, one.is_exact) for one in opening.progress_losses}
    # What the journal told is known: billing has 20 of its 40 messages left, as far as anybody knows.
    assert losses["billing"] == (20, False)


def test_after_a_kill_a_hole_below_what_was_synced_is_damage(store: Store) -> None:
    store.merge()
    first = store.journal().stat().st_size
    store.rest()
    store.sync()
    store.finish(12, range(20, 24, 2))  # its block tells how far the journal was synced
    store.bench.log.end_turn()
    store.bench.kill()
    journal = store.journal()
    flip(first + 40 + 20)(journal)  # the block that tells what billing finished
    opening = store.start()
    assert [one.path for one in opening.progress.damages] == [str(journal)]
    losses = {one.channel: (one.count, one.is_exact) for one in opening.progress_losses}
    # All that they have left: nobody knows what the block told.
    assert losses == {"billing": (30, False), "audit": (28, False), "counts": (35, False)}
    # What follows the hole counts.
    audit = opening.topics[1].open_channel("audit", 12)
    assert audit.progress.is_settled(20)
    assert audit.progress.is_settled(22)


@pytest.mark.slow(reason="cuts files at every byte")
def test_after_a_kill_a_torn_end_is_no_damage(store: Store) -> None:
    store.merge()
    store.rest()
    store.bench.kill()
    path = store.journal()
    for size in range(HEADER_BYTES, path.stat().st_size):
        data = path.read_bytes()
        path.write_bytes(data[:size])
        assert store.bench.log.journal  # the killed one
        opening = store.start()
        assert (opening.progress.damages, opening.progress_losses) == ([], ())
        store.bench.kill()
        for one in store.progress.glob("*.journal"):
            if one > path:
                one.unlink()
        path.write_bytes(data)


def test_a_journal_of_a_merge_that_did_not_end_is_missed(store: Store) -> None:
    store.sync()
    store.bench.kill()
    store.start()  # syncs it, says so, and goes on in another
    store.sync()
    store.bench.kill()
    first = min(store.progress.glob("*.journal"))
    first.unlink()
    opening = store.start()
    assert [one.reason for one in opening.progress.damages] == ["it is missing"]


def test_the_whole_directory_is_missed(store: Store) -> None:
    store.rest()
    store.bench.log.close()
    for path in sorted(store.progress.rglob("*"), reverse=True):
        path.unlink() if path.is_file() else path.rmdir()
    opening = store.start()
    assert {one.channel: one.count for one in opening.progress_losses} == {"billing": 40, "audit": 40, "counts": 40}


def test_the_damage_is_not_told_again_once_it_is_merged_away(store: Store) -> None:
    store.merge()
    store.rest()
    store.bench.log.close()
    flip(40)(store.journal())
    assert store.start().progress.damages
    store.merge()
    store.bench.log.close()
    assert store.start().progress.damages == []
