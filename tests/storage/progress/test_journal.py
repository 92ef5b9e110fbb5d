"""Progress survives: what was noted is there after kill -9, what was synced after anything, whatever a merge was at."""

import errno
import tempfile
from pathlib import Path

import pytest
from crc32c import crc32c
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from queue_engine.storage.progress import journal as progress_journal
from queue_engine.storage.progress import merge
from queue_engine.storage.progress.channel_progress import ChannelProgress, Quarantined
from queue_engine.storage.progress.floors import CleanStop, Floors, decode_floors, encode_floors
from queue_engine.storage.progress.journal import ENTRIES_MAX, ProgressJournal
from queue_engine.storage.progress.journal_file import journal_path
from queue_engine.storage.progress.journal_format import HEADER_BYTES
from queue_engine.storage.progress.progress_recovery import RecoveredProgress, recover_progress
from queue_engine.storage.progress.queue_index import (
    INDEX_OFFSETS,
    decode_index,
    encode_index,
    index_contents,
)
from queue_engine.vocabulary.errors import StorageError
from tests.support.clock import ManualClock
from tests.support.disks.files import FaultyFiles, ProcessDiedError
from tests.support.stores.background import HeldBackground

END = 1 << 40
FIXTURES = Path(__file__).parent.parent / "fixtures"


class Bench:
    """A journal with two channels, 1 and 2, on a directory."""

    def __init__(self, directory: Path, channels: tuple[int, ...] = (1, 2)) -> None:
        self.directory = str(directory)
        self.clock = ManualClock()
        self.files = FaultyFiles()
        self.worker = HeldBackground()
        self.wanted = dict.fromkeys(channels, (0, END))
        self.channels: dict[int, ChannelProgress] = {}
        self.journal: ProgressJournal
        self.start()

    def recover(self) -> RecoveredProgress:
        return recover_progress(self.directory, FaultyFiles(), self.wanted)

    def start(self) -> RecoveredProgress:
        found = self.recover()
        self.journal = ProgressJournal(
            self.directory,
            number=found.next_journal,
            files=self.files,
            clock=self.clock,
            worker=self.worker,
            reserve_bytes=0,
        )
        self.channels = found.channels
        self.journal.open(found)
        return found

    def kill(self) -> None:
        """The process is gone, with whatever the worker had not done."""
        self.files.abandon()
        self.files = FaultyFiles()
        self.worker = HeldBackground()

    def deliver(self, channel: int, first: int, count: int, made: int = 1) -> None:
        self.channels[channel].delivered(first, count, made)
        self.journal.entries.deliver(channel, first, count, made)

    def ack(self, channel: int, first: int, count: int) -> None:
        self.channels[channel].settled(first, count)
        self.journal.entries.ack(channel, first, count)

    def seek(self, channel: int, target: int) -> None:
        progress = self.channels[channel]
        progress.sought(target, progress.epoch + 1)
        self.journal.entries.seek(channel, target, progress.epoch)

    def merge(self) -> None:
        self.journal.merge()
        self.worker.finish()

    def names(self) -> list[str]:
        root = Path(self.directory)
        return sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file())


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path / "progress")


def test_what_was_flushed_is_there_after_a_kill(bench: Bench) -> None:
    bench.deliver(1, 0, 10)
    bench.ack(1, 0, 4)
    bench.deliver(2, 5, 1, made=300)
    bench.channels[2].deferred_until(5, 1, 300, 77)
    bench.journal.entries.defer(2, 5, 1, 300, 77)
    bench.journal.flush()
    expected = bench.channels
    bench.kill()
    found = bench.start()
    assert found.channels == expected
    assert found.channels[1].floor == 4
    assert found.channels[2].made_at(5) == 300
    assert (found.dropped, found.damages) == (0, [])


def test_what_was_not_flushed_was_not_said(bench: Bench) -> None:
    bench.deliver(1, 0, 10)
    bench.kill()
    assert bench.start().channels[1].cursor == 0


def test_a_turns_entries_are_one_write(bench: Bench) -> None:
    bench.files.calls.clear()
    for first in range(0, 1_000, 10):
        bench.deliver(1, first, 10)
        bench.ack(1, first, 5)
    bench.journal.flush()
    assert bench.files.calls == ["write"]


def test_a_merge_keeps_only_what_is_not_settled_and_removes_the_journal(bench: Bench) -> None:
    bench.deliver(1, 0, 100)
    bench.ack(1, 0, 50)
    bench.deliver(2, 0, 100)
    bench.ack(2, 0, 100)
    bench.merge()
    assert bench.names() == ["00000002.journal", "1/00000000.index", "floors"]
    expected = bench.channels
    bench.kill()
    assert bench.start().channels == expected


def test_a_merge_looks_at_messages_on_the_worker_and_has_what_was_there_when_it_began(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: list[ChannelProgress] = []
    monkeypatch.setattr(
        merge, "index_contents", lambda one, changed: looked.append(one) or index_contents(one, changed)
    )
    bench.deliver(1, 0, 10)
    bench.ack(1, 0, 9)
    expected = bench.channels[1].copy()
    bench.journal.merge()
    bench.deliver(1, 10, 5)
    bench.ack(1, 9, 3)
    assert looked == [], "the engine's thread does not wait for it"
    bench.worker.finish()
    assert len(looked) == 1
    bench.kill()
    assert bench.start().channels[1] == expected, "what came later was not flushed"


def test_a_segment_goes_when_all_of_it_is_settled_and_its_floor_is_on_disk(bench: Bench) -> None:
    bench.deliver(1, 0, INDEX_OFFSETS + 10)
    bench.ack(1, 1, INDEX_OFFSETS)
    bench.merge()
    assert "1/00000000.index" in bench.names()
    bench.ack(1, 0, 1)
    bench.journal.merge()
    before = bench.files.calls.count("unlink")
    bench.files.before_call = lambda call: (
        None if call != "unlink" else steps.append(decode_floors((Path(bench.directory) / "floors").read_bytes()))
    )
    steps: list[object] = []
    bench.worker.finish()
    assert bench.files.calls.count("unlink") == before + 2
    assert all(step is not None and step.channels[1][0] == INDEX_OFFSETS + 1 for step in steps)
    assert bench.names() == ["00000003.journal", "1/00000001.index", "floors"]


@pytest.mark.parametrize("after", range(16))
def test_a_rewound_channel_does_not_believe_its_old_segments(bench: Bench, after: int) -> None:
    bench.deliver(1, 0, 100)
    bench.ack(1, 50, 50)
    bench.merge()
    bench.seek(1, 0)
    bench.journal.merge()
    # The process dies at each step of the merge: never is anything settled again that was to come again.
    bench.files.dies_after = after
    try:
        bench.worker.finish()
    except ProcessDiedError:
        pass
    for _ in range(2):
        recovered = bench.recover().channels[1]
        assert (recovered.floor, recovered.cursor, recovered.is_settled(60)) == (0, 0, False)
        bench.kill()
        bench.start()
        bench.merge()


def test_a_rewound_channel_does_not_believe_the_segments_of_a_merge_that_failed(bench: Bench) -> None:
    bench.deliver(1, 0, 10)
    bench.ack(1, 5, 3)
    bench.files.fail("rename", errno.ENOSPC, nth=3)  # of the floors, behind the index segment
    bench.merge()
    assert bench.journal.error is not None
    assert "1/00000000.index" in bench.names()
    bench.seek(1, 0)
    bench.journal.error = None  # as `tick` does when it tries again
    bench.merge()
    assert bench.journal.error is None
    bench.kill()
    assert bench.start().channels[1] == ChannelProgress(0, 0, 1)


@pytest.mark.parametrize("after", range(20))
def test_what_is_settled_stays_so_wherever_a_merge_is_cut(bench: Bench, after: int) -> None:
    bench.deliver(1, 0, 20)
    bench.ack(1, 1, 9)
    bench.merge()
    bench.ack(1, 0, 1)  # the floor jumps over what the segment on the disk tells
    bench.deliver(1, 12, 3, made=2)
    bench.journal.merge()
    expected = bench.channels[1]
    assert expected.floor == 10
    bench.files.dies_after = after
    try:
        bench.worker.finish()
    except ProcessDiedError:
        pass
    for _ in range(2):
        assert bench.recover().channels[1] == expected
        bench.kill()
        bench.start()
        bench.merge()


def test_entries_beyond_the_topics_end_are_dropped(bench: Bench) -> None:
    bench.deliver(1, 0, 100)
    bench.ack(1, 0, 100)
    bench.deliver(2, 0, 10)
    bench.journal.flush()
    bench.kill()
    bench.wanted = {1: (0, 60), 2: (0, END)}
    found = bench.start()
    assert (found.channels[1].floor, found.channels[1].cursor, found.dropped) == (60, 60, 1)
    assert found.channels[2].cursor == 10


def test_a_channel_that_is_gone_is_forgotten_with_its_files(bench: Bench) -> None:
    bench.deliver(1, 0, 10)
    bench.merge()
    assert "1/00000000.index" in bench.names()
    bench.journal.forget(1)
    bench.deliver(2, 0, 1)
    bench.merge()
    assert bench.names() == ["00000003.journal", "2/00000000.index", "floors"]
    del bench.wanted[1]
    bench.kill()
    assert list(bench.start().channels) == [2]


def test_entries_are_synced_within_a_time_and_on_demand(bench: Bench) -> None:
    bench.deliver(1, 0, 1)
    bench.journal.flush()
    bench.journal.tick(bench.clock.monotonic_ns())
    assert "sync_data" not in bench.files.calls
    bench.clock.advance(ms=100)
    bench.journal.tick(bench.clock.monotonic_ns())
    bench.worker.finish()
    assert bench.files.calls.count("sync_data") == 1
    assert bench.journal.synced().done
    bench.ack(1, 0, 1)
    ticket = bench.journal.synced()
    assert not ticket.done
    bench.worker.finish()
    assert (ticket.done, ticket.error) == (True, None)


@pytest.mark.parametrize("is_merging", [False, True])
@pytest.mark.parametrize("flush_every_ms", [1, 7, 60, 1_000])
def test_what_is_noted_is_on_the_disk_within_200_ms_whatever_the_worker_is_at(
    bench: Bench, flush_every_ms: int, is_merging: bool
) -> None:
    """With ticks every 100 ms, as the scan loop makes them, and syncs of 5 ms."""
    syncs = HeldBackground()
    bench.journal._sync_worker = syncs
    bench.deliver(1, 0, 1)
    if is_merging:
        bench.journal.merge()
        syncs.finish()  # and now the worker is at it for as long as this lasts
    flushed_ms: dict[int, int] = {}  # of what is not known to be on the disk
    waited_ms, sync_ends_ms = [0], -1
    for ms in range(3_000):
        bench.clock.advance(ms=1)
        if ms % flush_every_ms == 3 % flush_every_ms:
            bench.ack(1, ms, 1)
            bench.journal.flush()
            flushed_ms[ms] = ms
        if ms % 100 == 0:
            bench.journal.tick(bench.clock.monotonic_ns())
        if syncs.is_waiting and sync_ends_ms < 0:
            file = bench.journal._file
            assert file is not None
            upto, sync_ends_ms = set(flushed_ms), ms + 5
        if ms == sync_ends_ms:
            syncs.work()
            syncs.answer()
            sync_ends_ms = -1
            waited_ms += [ms - flushed_ms.pop(one) for one in upto]
    assert 0 < max(waited_ms) <= 200
    assert all(3_000 - at <= 200 for at in flushed_ms.values())


def test_a_ticket_asked_for_during_a_sync_waits_for_the_next(bench: Bench) -> None:
    bench.deliver(1, 0, 1)
    first = bench.journal.synced()
    bench.worker.work()
    bench.ack(1, 0, 1)
    second = bench.journal.synced()
    bench.worker.answer()
    assert (first.done, second.done) == (True, False)
    bench.worker.finish()
    assert second.done


def test_a_ticket_asked_for_during_a_merge_waits_for_the_old_journal(bench: Bench) -> None:
    bench.ack(1, 0, 1)
    bench.journal.merge()
    ticket = bench.journal.synced()
    assert not ticket.done
    bench.worker.finish()
    assert (ticket.done, ticket.error) == (True, None)
    bench.ack(1, 1, 1)
    bench.journal.merge()
    bench.files.fail("sync_data", errno.EIO)
    ticket = bench.journal.synced()
    bench.worker.finish()
    assert ticket.error is not None


@pytest.mark.parametrize(("entries", "wait_ms"), [(ENTRIES_MAX, 0), (1, 2_000)])
def test_a_merge_comes_with_the_count_and_with_rest(bench: Bench, entries: int, wait_ms: int) -> None:
    for offset in range(entries):
        bench.deliver(1, offset, 1)
    bench.journal.flush()
    bench.clock.advance(ms=wait_ms)
    bench.journal.tick(bench.clock.monotonic_ns())
    bench.worker.finish()
    bench.journal.tick(bench.clock.monotonic_ns())
    bench.worker.finish()
    assert "floors" in bench.names()


def test_a_sync_for_which_there_is_no_descriptor_is_tried_again(bench: Bench) -> None:
    bench.deliver(1, 0, 1)
    ticket = bench.journal.synced()
    bench.files.fail("open", errno.EMFILE)  # of the directory
    bench.worker.finish()
    assert ticket.error is not None
    assert bench.journal.error is not None
    bench.clock.advance(ms=1_100)
    bench.journal.tick(bench.clock.monotonic_ns())
    bench.worker.finish()
    assert bench.journal.error is None
    bench.ack(1, 0, 1)
    ticket = bench.journal.synced()
    bench.worker.finish()
    assert (ticket.done, ticket.error) == (True, None)
    bench.kill()
    assert bench.start().channels[1].floor == 1


def test_a_damaged_file_is_named_and_what_it_knew_comes_again(bench: Bench) -> None:
    bench.deliver(1, 0, 10)
    bench.ack(1, 2, 3)
    bench.merge()
    bench.kill()
    path = Path(bench.directory) / "1" / "00000000.index"
    data = bytearray(path.read_bytes())
    data[100] ^= 1
    path.write_bytes(data)
    found = bench.recover()
    assert [(one.path, one.channel, one.settled_max) for one in found.damages] == [(str(path), 1, 3)]
    assert (found.channels[1].floor, found.channels[1].cursor) == (0, 10)
    assert list(found.channels[1].undelivered_between(0, 10)) == [(0, 10)]


def test_an_unreadable_file_is_no_damage(bench: Bench) -> None:
    bench.deliver(1, 0, 10)
    bench.journal.flush()
    bench.merge()
    bench.kill()
    files = FaultyFiles()
    for nth in range(1, 4):
        files.fail("open", errno.EMFILE, nth=nth)
        with pytest.raises(StorageError):
            recover_progress(bench.directory, files, bench.wanted)
        files.heal()


def test_every_cut_of_the_journal_gives_what_was_before(bench: Bench) -> None:
    states = [bench.recover().channels]
    for step in range(6):
        bench.deliver(1, step * 3, 3)
        bench.ack(1, step * 3, 1)
        bench.journal.flush()
        states.append(bench.recover().channels)
    path = Path(journal_path(bench.directory, 1))
    whole = path.read_bytes()
    seen = []
    for size in range(len(whole) + 1):
        path.write_bytes(whole[:size])
        found = bench.recover().channels
        assert found in states
        if not seen or seen[-1] != found:
            seen.append(found)
    assert seen == states
    for at in range(len(whole)):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 0x10]) + whole[at + 1 :])
        damaged, last = bench.recover().channels[1], states[-1][1]
        # The other blocks count, and nothing is settled that was not.
        settled = [offset for offset in range(18) if damaged.is_settled(offset)]
        assert len(settled) == (0 if 16 <= at < 24 else 6 if at < HEADER_BYTES else 5)
        assert all(last.is_settled(offset) for offset in settled)


def _indexed() -> ChannelProgress:
    progress = ChannelProgress(10, 20)
    progress.delivered(12, 3, 2)
    progress.delivered(15, 1, 300)
    progress.settled(17, 2)
    progress.deferred_until(12, 1, 2, 99)
    return progress


def test_files_of_version_1_are_read_for_ever() -> None:
    index, floors = FIXTURES / "index_v1.bin", FIXTURES / "floors_v1.bin"
    assert decode_index(index.read_bytes(), 4, 0) == index_contents(_indexed())[0]
    assert decode_index(index.read_bytes(), 5, 0) is None
    found = decode_floors(floors.read_bytes())
    assert found is not None
    assert (found.journal, found.channels) == (3, {4: (10, 20, 1)})
    assert (found.segments, found.stop, found.lists_segments) == ({}, None, False)


FLOORS = Floors(3, {4: (10, 20, 1), 7: (0, 0, 0)}, {(4, 0): 2}, CleanStop({3: 128}, {4: (30, 17), 7: (0, 0)}))


def test_an_index_segment_of_version_2_is_read_and_written_for_ever() -> None:
    progress = _indexed()
    progress.quarantine(13, 2, Quarantined(1_750_000_000_000_000_000, 2, 0xFFFF_FFFF))
    progress.quarantine(40, 0, Quarantined(1, 4, 0))
    path = FIXTURES / "index_v2.bin"
    assert encode_index(4, 0, index_contents(progress)[0]) == path.read_bytes()
    assert decode_index(path.read_bytes(), 4, 0) == index_contents(progress)[0]


def test_floors_of_versions_2_and_3_are_read_for_ever() -> None:
    second, third = FIXTURES / "floors_v2.bin", FIXTURES / "floors_v3.bin"
    assert decode_floors(second.read_bytes()) == FLOORS
    assert encode_floors(FLOORS) == third.read_bytes()
    assert decode_floors(third.read_bytes()) == FLOORS


@pytest.mark.parametrize("name", ["floors", "00000001.journal", "1/00000000.index"])
def test_a_version_that_is_not_known_stops_the_start(bench: Bench, name: str) -> None:
    bench.deliver(1, 0, 5)
    bench.merge()
    bench.journal.flush()
    bench.kill()
    path = Path(bench.directory) / name.replace("00000001.journal", "00000002.journal")
    data = bytearray(path.read_bytes())
    data[4] = 9
    at = {"floors": len(data) - 4, "00000001.journal": 28, "1/00000000.index": 24}[name]
    covered = data[:at] if name != "1/00000000.index" else data[:at] + data[at + 4 :]
    end = HEADER_BYTES if name.endswith("journal") else len(data)
    data[at : at + 4] = crc32c(bytes(covered[:end])).to_bytes(4, "big")
    path.write_bytes(data)
    with pytest.raises(StorageError, match="has format version 9, and this version of Penstock reads"):
        bench.recover()


class JournalMachine(RuleBasedStateMachine):
    """Two channels do anything, merges are under way at any stage, and the process dies at any operation: what
    recovery finds is what the channels had."""

    def __init__(self) -> None:
        super().__init__()
        self.temporary = tempfile.TemporaryDirectory()
        self.bench = Bench(Path(self.temporary.name))
        self.patched = pytest.MonkeyPatch()
        self.patched.setattr(progress_journal, "ENTRIES_MAX", 5)

    def teardown(self) -> None:
        self.patched.undo()
        self.bench.files.abandon()
        self.temporary.cleanup()

    channels = st.sampled_from([1, 2])
    places = st.sampled_from([0, 1, 5, 900, 16_380, 16_384, 40_000])
    lengths = st.sampled_from([1, 2, 10, 1_100, 17_000])

    def _unsettled(self, channel: int, first: int, count: int) -> list[tuple[int, int]]:
        """The ranges among these that are neither settled nor quarantined."""
        progress = self.bench.channels[channel]
        found: list[tuple[int, int]] = []
        for offset in range(first, first + count):
            if not progress.is_settled(offset) and offset not in progress.quarantined:
                if found and sum(found[-1]) == offset:
                    found[-1] = (found[-1][0], found[-1][1] + 1)
                else:
                    found.append((offset, 1))
        return found

    @rule(channel=channels, first=places, count=lengths, made=st.sampled_from([1, 2, 254]))
    def deliver(self, channel: int, first: int, count: int, made: int) -> None:
        for start, length in self._unsettled(channel, first, count if made < 254 else 2):
            self.bench.deliver(channel, start, length, made)
        self.bench.journal.flush()

    @rule(channel=channels, first=places, count=lengths)
    def ack(self, channel: int, first: int, count: int) -> None:
        for start, length in self._unsettled(channel, first, count):
            self.bench.ack(channel, start, length)
        self.bench.journal.flush()

    @rule(channel=channels, first=places, due=st.integers(0, 3))
    def defer(self, channel: int, first: int, due: int) -> None:
        if self._unsettled(channel, first, 1):
            self.bench.channels[channel].deferred_until(first, 1, 1, due)
            self.bench.journal.entries.defer(channel, first, 1, 1, due)
            self.bench.journal.flush()

    @rule(channel=channels, offset=places, since=st.integers(0, 3))
    def quarantine(self, channel: int, offset: int, since: int) -> None:
        progress = self.bench.channels[channel]
        if not progress.is_settled(offset):
            made, one = progress.made_at(offset), Quarantined(since, 1, 7)
            progress.quarantine(offset, made, one)
            self.bench.journal.entries.quarantine(channel, offset, made, one)
            self.bench.journal.flush()

    @rule(channel=channels, made=st.integers(0, 2))
    def redrive(self, channel: int, made: int) -> None:
        progress = self.bench.channels[channel]
        for offset in list(progress.quarantined)[:1]:
            progress.redriven(offset, made)
            self.bench.journal.entries.redrive(channel, offset, made)
            self.bench.journal.flush()

    @rule(channel=channels, first=places, count=lengths)
    def finish_quarantined(self, channel: int, first: int, count: int) -> None:
        for offset in [
            offset for offset in self.bench.channels[channel].quarantined if first <= offset < first + count
        ]:
            self.bench.ack(channel, offset, 1)
        self.bench.journal.flush()

    @rule(channel=channels, upto=places)
    def empty(self, channel: int, upto: int) -> None:
        self.bench.channels[channel].emptied(upto)
        self.bench.journal.entries.empty(channel, upto)
        self.bench.journal.flush()

    @rule(channel=channels, to=places)
    def seek(self, channel: int, to: int) -> None:
        self.bench.seek(channel, to)
        self.bench.journal.flush()

    @rule()
    def merge(self) -> None:
        self.bench.journal.merge()

    @rule()
    def tick(self) -> None:
        self.bench.clock.advance(ms=500)
        self.bench.journal.tick(self.bench.clock.monotonic_ns())

    @rule()
    def work(self) -> None:
        self.bench.worker.work()

    @rule()
    def answer(self) -> None:
        self.bench.worker.answer()

    @rule(after=st.integers(0, 12))
    def die_at_work(self, after: int) -> None:
        self.bench.files.dies_after = after
        try:
            self.bench.worker.finish()
        except ProcessDiedError:
            pass
        self.restart()

    @rule()
    def restart(self) -> None:
        before = self.bench.channels
        self.bench.kill()
        self.bench.start()
        assert self.bench.channels == before

    @invariant()
    def recovery_finds_what_there_is(self) -> None:
        assert self.bench.recover().channels == self.bench.channels


JournalMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=25)
TestJournalMachine = JournalMachine.TestCase
