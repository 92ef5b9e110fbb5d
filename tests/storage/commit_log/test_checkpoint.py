"""The checkpoint: its bytes, and that a start believes nothing of it that does not hold."""

from dataclasses import replace
from pathlib import Path

import pytest

from queue_engine.storage.commit_log.checkpoint import Checkpoint, QueueState, decode_checkpoint, encode_checkpoint
from queue_engine.storage.commit_log.options import SyncPolicy
from tests.support.stores.log_store import Bench, everything

FIXTURE = Path(__file__).parent.parent / "fixtures" / "checkpoint_v1.bin"
CHECKPOINT = Checkpoint(
    position=0x1234,
    durable_upto=0x1300,
    last_time_ns=1_750_000_000_000_000_000,
    queues={7: QueueState(3, 40, ((10, 5), (20, 1))), 9: QueueState(0, 0)},
)


def test_each_version_is_read_for_ever() -> None:
    assert decode_checkpoint(FIXTURE.read_bytes()) == CHECKPOINT
    second = replace(CHECKPOINT, first_position=1 << 20)
    data = FIXTURE.with_name("checkpoint_v2.bin").read_bytes()
    assert decode_checkpoint(data) == second
    assert encode_checkpoint(second) == data
    assert decode_checkpoint(encode_checkpoint(CHECKPOINT)) == CHECKPOINT, "not to know where it begins is a value, too"


def test_no_altered_byte_and_no_shorter_file_is_believed() -> None:
    data = encode_checkpoint(CHECKPOINT)
    for at in range(len(data)):
        for bit in range(8):
            altered = bytearray(data)
            altered[at] ^= 1 << bit
            assert decode_checkpoint(bytes(altered)) is None
        assert decode_checkpoint(data[:at]) is None
    assert decode_checkpoint(data + b"\0") is None


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    """A store with one channel, 30 messages and a clean end."""
    bench = Bench(tmp_path, SyncPolicy.OS, segment_bytes=4_096)
    bench.topic.open_channel("c", 7)
    for number in range(30):
        bench.publish(b"%d" % number * 50)
    bench.log.close()
    return bench


def scanned(bench: Bench) -> int:
    opening = bench.restart({7: 0}, reserved=30)
    backlog = bench.topic.open_channel("c", 7)
    assert len(list(everything(backlog))) == 30
    return opening.log.scanned_records


def test_a_clean_start_reads_nothing_of_the_log(bench: Bench) -> None:
    assert scanned(bench) == 0


def test_a_start_after_a_kill_reads_what_is_behind_the_checkpoint(tmp_path: Path) -> None:
    bench = Bench(tmp_path, SyncPolicy.OS, segment_bytes=4_096)
    bench.topic.open_channel("c", 7)
    for number in range(30):
        bench.publish(b"%d" % number * 50)
        bench.clock.advance(ms=1_000)
        bench.log.tick(bench.clock.monotonic_ns())
    assert 0 < scanned(bench) < 20


@pytest.mark.parametrize(
    "fault", ["no checkpoint", "altered", "no units", "cut units", "other units", "last unit", "beyond the end"]
)
def test_what_does_not_hold_is_made_anew_from_the_log(bench: Bench, fault: str) -> None:
    directory = bench.path / "log"
    checkpoint = directory / "checkpoint"
    (units,) = (directory / "queues" / "1").glob("*.queue")
    data = units.read_bytes()
    if fault == "no checkpoint":
        checkpoint.unlink()
    elif fault == "altered":
        checkpoint.write_bytes(checkpoint.read_bytes()[:-1] + b"\xff")
    elif fault == "no units":
        units.unlink()
    elif fault == "cut units":
        units.write_bytes(data[:-25])
    elif fault == "other units":
        units.write_bytes(data[:-20] + data[:20])
    elif fault == "last unit":
        # It seems to lie behind all that the checkpoint knows.
        units.write_bytes(data[:-20] + b"\x01" + data[-19:])
    else:
        found = decode_checkpoint(checkpoint.read_bytes())
        assert found is not None
        beyond = Checkpoint(1 << 40, found.durable_upto, found.last_time_ns, found.queues)
        checkpoint.write_bytes(encode_checkpoint(beyond))
    assert scanned(bench) == 30


def test_what_the_log_lost_at_its_end_is_told_though_the_queues_disagree(bench: Bench) -> None:
    segments = sorted((bench.path / "log" / "segments").iterdir())
    data = segments[-1].read_bytes()
    segments[-1].write_bytes(data[: len(data) // 2])
    opening = bench.restart({7: 0}, reserved=30)
    assert [damage.reason for damage in opening.log.damages] == [
        "bodies are damaged",
        "the end of the segment is missing or damaged",
    ]
    again = bench.restart({7: 0}, reserved=30)
    assert [damage.reason for damage in again.log.damages] == ["bodies are damaged"], "the end is told once"
    bench.log.close()


def test_a_last_segment_that_is_gone_is_told(bench: Bench) -> None:
    sorted((bench.path / "log" / "segments").iterdir())[-1].unlink()
    opening = bench.restart({7: 0}, reserved=30)
    assert [damage.reason for damage in opening.log.damages] == ["segments are missing at the end"]
    bench.publish(b"later")
    assert bench.topic.next_offset == 31
    bench.log.close()
    assert bench.restart({7: 0}, reserved=31).log.damages == []
