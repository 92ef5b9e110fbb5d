"""The samples' own log: small enough for ever, and no trouble to a start whatever became of its files."""

import os
from pathlib import Path
from random import Random

import pytest

from queue_engine.engine.acts.log_acts import log_store_of
from queue_engine.engine.samples.sample_log import SampleLogIdentity, SamplesLog, decode_identity, encode_identity
from queue_engine.storage.disk.background import InlineBackground
from queue_engine.storage.disk.files import Files
from queue_engine.storage.fetch.log_reader import LogReader, MessagePage
from queue_engine.vocabulary.clock import NS_PER_MS
from queue_engine.vocabulary.errors import CorruptError, StorageError
from tests.support.clock import ManualClock
from tests.support.disks.files import FaultyFiles

DAY_MS = 86_400_000
SEGMENT_BYTES = 64 << 10
CAP_BYTES = 8 * SEGMENT_BYTES


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


def opened(path: Path, clock: ManualClock, *, files: Files | None = None, retention_days: float = 7) -> SamplesLog:
    samples = SamplesLog(
        str(path),
        files=files or Files(),
        clock=clock,
        background=InlineBackground(),
        retention_ms=round(retention_days * DAY_MS),
        retention_bytes=CAP_BYTES,
        segment_bytes=SEGMENT_BYTES,
    )
    samples.open()
    return samples


def first_page(samples: SamplesLog, count_max: int) -> MessagePage:
    assert samples.topic is not None
    store = log_store_of(samples.topic)
    return LogReader(store).page(store.oldest_offset, count_max, 1 << 20)


def bodies(samples: SamplesLog) -> list[bytes]:
    assert samples.topic is not None
    return [one.body for one in first_page(samples, 1_000).messages]


def disk_bytes(path: Path) -> int:
    return sum(found.stat().st_blocks * 512 for found in path.rglob("*") if found.is_file())


def oldest_ns(samples: SamplesLog) -> int:
    assert samples.topic is not None
    return first_page(samples, 1).messages[0].time_ns


def test_the_cap_holds_for_thirty_days_and_over_restarts(tmp_path: Path, clock: ManualClock) -> None:
    rng, samples = Random(1), opened(tmp_path, clock)
    most = 0
    for day in range(30):
        for _ in range(24):
            samples.append(rng.randbytes(rng.randrange(500, 6_000)))
            clock.advance(ms=DAY_MS / 24)
            samples.tick(clock.monotonic_ns())
            most = max(most, disk_bytes(tmp_path / "samples"))
            assert oldest_ns(samples) >= clock.time_ns() - 7 * DAY_MS * NS_PER_MS
        if day % 10 == 9:
            samples.close()
            samples = opened(tmp_path, clock)
    assert most <= CAP_BYTES
    # It is used, too: not next to nothing is kept.
    assert most > CAP_BYTES // 2
    assert len(bodies(samples)) > 50


def test_what_is_young_goes_when_it_is_too_much_and_what_is_old_when_it_is_little(
    tmp_path: Path, clock: ManualClock
) -> None:
    samples = opened(tmp_path, clock)
    for number in range(200):
        samples.append(b"%03d" % number + bytes(10_000))
        clock.advance(ms=10_000)
        samples.tick(clock.monotonic_ns())
    kept = [int(body[:3]) for body in bodies(samples)]
    assert kept == list(range(kept[0], 200))
    assert CAP_BYTES // 20_000 < len(kept) < CAP_BYTES // 10_000
    clock.advance(ms=7 * DAY_MS - 5 * 10_000)
    samples.tick(clock.monotonic_ns())
    # All in the last file, which stays.
    assert [int(body[:3]) for body in bodies(samples)] == [195, 196, 197, 198, 199]
    assert disk_bytes(tmp_path / "samples") > 4_096
    samples.close()
    assert [int(body[:3]) for body in bodies(opened(tmp_path, clock))] == [195, 196, 197, 198, 199]


def test_what_is_written_is_handed_out_though_nothing_is_synced(tmp_path: Path, clock: ManualClock) -> None:
    files = FaultyFiles()
    samples = opened(tmp_path, clock, files=files)
    before = files.calls.count("sync") + files.calls.count("sync_data")
    for number in range(3):
        samples.append(b"%d" % number)
    assert files.calls.count("sync") + files.calls.count("sync_data") == before
    assert samples.topic is not None
    frames = LogReader(log_store_of(samples.topic)).frames(1, 1 << 20)
    assert (frames.count, frames.synced_offset, samples.topic.store.depth) == (2, 3, 0)
    files.abandon()
    assert bodies(opened(tmp_path, clock)) == [b"0", b"1", b"2"]


def test_offsets_go_on_after_a_stop_and_jump_after_a_kill(tmp_path: Path, clock: ManualClock) -> None:
    samples = opened(tmp_path, clock)
    samples.append(b"a")
    samples.close()
    files = FaultyFiles()
    samples = opened(tmp_path, clock, files=files)
    samples.append(b"b")
    files.abandon()
    # A power cut takes what was not synced; whoever has read it must not meet its offset again.
    segment = max((tmp_path / "samples/segments").glob("*.log"))
    os.truncate(segment, 100)
    samples = opened(tmp_path, clock)
    samples.append(b"c")
    assert samples.topic is not None
    page = first_page(samples, 10)
    assert [one.body for one in page.messages] == [b"a", b"c"]
    assert page.messages[0].offset == 0
    assert page.messages[1].offset >= 2
    assert page.messages[1].message_id == f"{page.id_base + page.messages[1].offset:016x}"


def spoil(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0xFF
    path.write_bytes(data)


@pytest.mark.parametrize("kind", ["identity spoilt", "identity gone", "identity strange", "a file", "segments a file"])
def test_what_can_not_be_used_is_set_aside(
    tmp_path: Path, clock: ManualClock, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    samples = opened(tmp_path, clock)
    samples.append(b"old")
    assert samples.topic is not None
    page = first_page(samples, 1)
    samples.close()
    directory = tmp_path / "samples"
    identity = directory / "identity.json"
    (tmp_path / "samples.bad-1").mkdir()
    if kind == "identity spoilt":
        spoil(identity)
    elif kind == "identity gone":
        identity.unlink()
    elif kind == "identity strange":
        identity.write_bytes(b"\xff" * 300)
    elif kind == "a file":
        directory.rename(tmp_path / "elsewhere")
        directory.write_bytes(b"?")
    else:
        (directory / "segments").rename(tmp_path / "elsewhere")
        (directory / "segments").write_bytes(b"?")
    samples = opened(tmp_path, clock)
    assert any("set aside as samples.bad-2" in message for message in caplog.messages)
    assert bodies(samples) == []
    samples.append(b"new")
    assert bodies(samples) == [b"new"]
    assert samples.topic is not None
    assert first_page(samples, 1).id_base != page.id_base
    assert (tmp_path / "samples.bad-2").exists()
    samples.close()
    assert bodies(opened(tmp_path, clock)) == [b"new"]


def test_a_damaged_sample_costs_itself(tmp_path: Path, clock: ManualClock) -> None:
    samples = opened(tmp_path, clock)
    for body in (b"a" * 1_000, b"b" * 1_000, b"c" * 1_000):
        samples.append(body)
    samples.close()
    segment = min((tmp_path / "samples/segments").glob("*.log"))
    data = segment.read_bytes()
    segment.write_bytes(data.replace(b"b" * 1_000, b"b" * 500 + b"x" + b"b" * 499))
    assert [body[:1] for body in bodies(opened(tmp_path, clock))] == [b"a", b"c"]


def test_a_disk_that_refuses_the_start_is_tried_again_and_nothing_set_aside(
    tmp_path: Path, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    files = FaultyFiles()
    files.bytes_free = 0
    samples = opened(tmp_path, clock, files=files)
    assert samples.topic is None
    with pytest.raises(StorageError, match="not open"):
        samples.append(b"x")
    assert any("samples not stored for now" in message for message in caplog.messages)
    files.heal()
    for _ in range(61):
        clock.advance(ms=1_000)
        samples.tick(clock.monotonic_ns())
    samples.append(b"x")
    assert bodies(samples) == [b"x"]
    assert sorted(one.name for one in tmp_path.iterdir()) == ["samples"]


def test_a_full_disk_refuses_samples_until_there_is_room(tmp_path: Path, clock: ManualClock) -> None:
    files = FaultyFiles()
    samples = opened(tmp_path, clock, files=files)
    samples.append(b"first")
    files.bytes_free = 100
    for _ in range(3):
        with pytest.raises(StorageError, match="a sample is refused"):
            samples.append(bytes(5_000))
    files.heal()
    for _ in range(3):
        clock.advance(ms=1_000)
        samples.tick(clock.monotonic_ns())
    samples.append(b"second")
    assert bodies(samples) == [b"first", b"second"]
    with pytest.raises(StorageError, match="does not fit"):
        samples.append(bytes(SEGMENT_BYTES))
    samples.append(b"third")
    assert bodies(samples) == [b"first", b"second", b"third"]


def test_the_identity_is_read_as_it_was_written() -> None:
    identity = SampleLogIdentity(1, 81985529216486895, 1 << 20)
    written = encode_identity(identity)
    assert decode_identity(written, "it") == identity
    for at in range(len(written)):
        with pytest.raises(CorruptError):
            decode_identity(written[:at] + bytes([written[at] ^ 1]) + written[at + 1 :], "it")
    later = written.replace(b'"version":1', b'"version":2')
    with pytest.raises(CorruptError):
        decode_identity(later, "it")
