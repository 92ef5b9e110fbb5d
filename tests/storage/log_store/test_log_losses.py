"""A segment that somebody removed or cut is told as damage, with every message that it cost, after a kill as after a
clean stop; what the server removes itself never is."""

import errno
import os
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from queue_engine.storage.commit_log.options import SyncPolicy
from queue_engine.storage.commit_log.record import parse_header
from queue_engine.storage.log_store.log_store import LogOpening
from queue_engine.storage.log_store.log_topic import TopicOpening
from queue_engine.storage.log_store.log_topic_store import LogTopicStore
from queue_engine.storage.recovery_report import Damage
from queue_engine.vocabulary.ticket import Ticket
from tests.support.disks.files import FaultyFiles, ProcessDiedError
from tests.support.stores.log_store import Bench

TOPICS = {1: "t", 2: "u"}
SEGMENT_BYTES = 4_096


class LossBench(Bench):
    """Two topics over some six segments, all in the checkpoint, and where each message is."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, SyncPolicy.ALWAYS, segment_bytes=SEGMENT_BYTES)
        self.other = self.open_topic("u", 2)
        number = 0
        while number < 60 or self.log.log.end % SEGMENT_BYTES < SEGMENT_BYTES * 3 // 4:
            number += 1
            self.publish(b"%d" % number * 20, b"second of %d" % number)
            self.publish(b"other %d" % number * (1 + number % 9), topic=self.other)
        self.places = {
            (topic.number, offset): topic.queue.locate(offset)
            for topic in (self.topic, self.other)
            for offset in range(topic.end_offset)
        }
        self.openings = [
            TopicOpening(topic.name, topic.number, topic.number << 40, topic.end_offset, None, {topic.number: 0})
            for topic in (self.topic, self.other)
        ]

    def publish(self, *bodies: bytes, topic: LogTopicStore | None = None, due_ms: int | None = None) -> Ticket:
        ticket = super().publish(*bodies, topic=topic, due_ms=due_ms)
        self.sync.finish()
        return ticket

    def end(self, *, is_clean: bool) -> None:
        if is_clean:
            self.log.close()
        else:
            self.clock.advance(ms=6_000)
            self.log.tick(self.clock.monotonic_ns())
            self.log.tick(self.clock.monotonic_ns())
        self.kill()

    def segments(self) -> list[Path]:
        """Those that have records."""
        last = max(place[0] for place in self.places.values() if place)
        found = sorted((self.path / "log" / "segments").glob("*.log"))
        return [path for path in found if int(path.stem) <= last]

    def again(self) -> LogOpening:
        return self.start(*self.openings)

    def readable(self, opening: LogOpening) -> set[tuple[int, int]]:
        return {
            (number, offset)
            for number, topic in opening.topics.items()
            for offset in range(topic.oldest_offset, topic.end_offset)
            if (batch := topic.batch_at(offset)) is not None and offset not in batch.damaged
        }


@pytest.fixture
def bench(tmp_path: Path) -> LossBench:
    return LossBench(tmp_path)


def told(damages: list[Damage]) -> Counter[tuple[int, int]]:
    """Topic number and offset of every message that is said to be lost."""
    found: Counter[tuple[int, int]] = Counter()
    for damage in damages:
        for one in damage.losses:
            assert one.topic == TOPICS[one.topic_number]
            assert one.count == one.next_offset - one.first_offset
            found.update((one.topic_number, offset) for offset in range(one.first_offset, one.next_offset))
    return found


def removed(path: Path) -> None:
    path.unlink()


def used_of(path: Path) -> bytes:
    """Without the zeros that were written ahead."""
    return path.read_bytes().rstrip(b"\0")


def cut_in_half(path: Path) -> None:
    data = used_of(path)
    path.write_bytes(data[: len(data) // 2])


def cut_in_a_header(path: Path) -> None:
    data = used_of(path)
    path.write_bytes(data[: data.index(b"PREC", len(data) // 2) + 30])


def cut_between_records(path: Path) -> None:
    data = used_of(path)
    path.write_bytes(data[: data.index(b"PREC", len(data) // 2)])


def no_header(path: Path) -> None:
    path.write_bytes(bytes(200) + path.read_bytes()[200:])


def zeros_at_the_end(path: Path) -> None:
    data = used_of(path)
    half = data.index(b"PREC", len(data) // 2)
    path.write_bytes(data[:half] + bytes(300))


HARMS = [removed, cut_in_half, cut_in_a_header, cut_between_records, no_header, zeros_at_the_end]
CLEAN = pytest.mark.parametrize("is_clean", [True, False], ids=["after a clean stop", "after a kill"])


@CLEAN
@pytest.mark.parametrize("which", [0, 2, -1], ids=["the first", "one in the midst", "the last"])
@pytest.mark.parametrize("harm", HARMS, ids=lambda harm: harm.__name__)
@pytest.mark.slow(reason="tries every loss")
def test_every_message_that_is_gone_is_told_once(bench: LossBench, harm, which: int, is_clean: bool) -> None:
    bench.end(is_clean=is_clean)
    assert len(bench.segments()) > 4
    harm(bench.segments()[which])
    opening = bench.again()
    lost = bench.places.keys() - bench.readable(opening)
    damages = opening.log.damages
    assert len(lost) > 5
    assert told(damages) == Counter(lost)
    assert [damage for damage in damages if not damage.is_exact] == []
    assert sum(damage.lost or 0 for damage in damages) == len(lost)
    bench.log.close()
    bench.kill()
    assert bench.again().log.damages == [], "it is told once"


@CLEAN
def test_two_segments_of_a_row_are_one_loss(bench: LossBench, is_clean: bool) -> None:
    bench.end(is_clean=is_clean)
    for path in bench.segments()[1:3]:
        path.unlink()
    opening = bench.again()
    assert [damage.reason for damage in opening.log.damages] == ["segments are missing"]
    sentence = opening.log.damages[0].sentence()
    assert " of topic t (offsets " in sentence
    assert " of topic u (offsets " in sentence
    assert told(opening.log.damages) == Counter(bench.places.keys() - bench.readable(opening))


def test_dying_at_any_step_of_the_start_and_beginning_again_tells_the_same(bench: LossBench, tmp_path: Path) -> None:
    bench.end(is_clean=True)
    bench.segments()[2].unlink()
    whole = tmp_path / "whole"
    shutil.copytree(bench.path / "log", whole)
    wanted = told(bench.again().log.damages)
    assert wanted
    for after in range(400):
        bench.kill()
        shutil.rmtree(bench.path / "log")
        shutil.copytree(whole, bench.path / "log")
        if not died_after(bench, after):
            break
        bench.kill()
        has_checkpoint = (bench.path / "log" / "checkpoint").exists()
        damages = bench.again().log.damages
        # Once the checkpoint is gone the start has told it.
        assert told(damages) == wanted if has_checkpoint else all(one.reason.startswith("seg") for one in damages)
        assert not list((bench.path / "log" / "queues").rglob("*.old"))
    else:
        raise AssertionError("it never came to its end")
    assert after > 10


def died_after(bench: LossBench, operations: int) -> bool:
    made = FaultyFiles.__init__

    def dying(self: FaultyFiles) -> None:
        made(self)
        self.dies_after = operations

    FaultyFiles.__init__ = dying
    try:
        bench.again()
    except ProcessDiedError:
        return True
    finally:
        FaultyFiles.__init__ = made
    return False


# What the server removes itself.


def killed_at_each_step(bench: LossBench) -> Iterator[LogOpening]:
    """All but the last messages are settled; the process ends at each step of removing their segments."""
    bench.end(is_clean=True)
    whole = bench.path / "whole"
    shutil.copytree(bench.path / "log", whole)
    for after in range(200):
        shutil.rmtree(bench.path / "log")
        shutil.copytree(whole, bench.path / "log")
        opening = bench.again()
        for topic in opening.topics.values():
            topic.open_channel(f"c{topic.number}", topic.number)
            topic.pump(1_000)
            topic.empty()
            for channel in topic._channels.values():
                channel.empty()
        bench.log.end_turn()
        bench.clock.advance(ms=200)
        bench.log.journal.tick(bench.clock.monotonic_ns())
        bench.files.dies_after = after
        try:
            count = bench.log.retention.remove_unneeded()
            assert count > 3
        except ProcessDiedError:
            is_over = False
        else:
            is_over = True
        bench.kill()
        yield bench.again()
        bench.kill()
        if is_over:
            return
    raise AssertionError("it never came to its end")


def test_what_the_server_removes_is_never_damage_at_whatever_step_it_ends(bench: LossBench) -> None:
    starts = [opening.log.damages for opening in killed_at_each_step(bench)]
    assert len(starts) > 8
    assert all(damages == [] for damages in starts)


def test_on_a_full_disk_segments_go_all_the_same(bench: LossBench) -> None:
    bench.clock.advance(ms=6_000)
    bench.log.tick(bench.clock.monotonic_ns())
    assert (bench.path / "log" / "checkpoint").exists()
    before = len(bench.segments())
    for topic in (bench.topic, bench.other):
        topic.empty()
    bench.files.fail("create", errno.ENOSPC, count=1_000)
    assert bench.log.retention.remove_unneeded() == before - 1
    assert len(bench.segments()) == 1
    assert not (bench.path / "log" / "checkpoint").exists()
    bench.kill()
    assert bench.again().log.damages == []


# What the checkpoint does not know.


def test_a_lost_record_behind_the_checkpoint_is_told_by_the_jump_of_its_topic(bench: LossBench) -> None:
    bench.end(is_clean=True)
    (bench.path / "log" / "checkpoint").unlink()
    place = bench.places[1, 44]
    assert place is not None
    path = next(path for path in bench.segments() if 0 <= place[0] - int(path.stem) < SEGMENT_BYTES)
    data = path.read_bytes()
    at = place[0] - int(path.stem)
    assert parse_header(data, at, position=place[0], salt=int.from_bytes(data[16:24], "big")) is not None
    path.write_bytes(data[:at] + bytes(place[1]) + data[at + place[1] :])
    damages = bench.again().log.damages
    assert told(damages) == Counter([(1, 44), (1, 45)])
    assert [damage.is_exact for damage in damages] == [False], "a topic with nothing behind it would not be seen"
    assert damages[0].sentence().startswith("Damage, at least 2 messages lost: 2 of topic t (offsets 44 to 45)")


def test_a_loss_of_which_the_consume_queue_can_not_be_read_is_told_without_its_number(
    bench: LossBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.end(is_clean=True)
    bench.segments()[2].unlink()
    read_at = FaultyFiles.read_at

    def failing(self: FaultyFiles, fd: int, size: int, position: int) -> bytes:
        if "/queues/2/" in os.readlink(f"/proc/self/fd/{fd}"):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return read_at(self, fd, size, position)

    monkeypatch.setattr(FaultyFiles, "read_at", failing)
    (damage,) = bench.again().log.damages
    assert not damage.is_exact
    assert {one.topic for one in damage.losses} == {"t"}
    assert damage.sentence().startswith("Damage, at least ")
