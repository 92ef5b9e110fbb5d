"""A file of the data directory that a newer version wrote stops the start: it names the file and both versions, and
changes nothing. One row of the table for each format."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest
from crc32c import crc32c

from queue_engine.engine.acts.log_acts import log_store_of
from queue_engine.engine.engine import Engine
from queue_engine.engine.samples.sample_format import decode_sample, encode_sample
from queue_engine.engine.samples.sample_log import SamplesLog
from queue_engine.storage.commit_log.holes import encode_holes
from queue_engine.storage.disk.background import InlineBackground
from queue_engine.storage.disk.files import Files
from queue_engine.vocabulary.errors import CorruptError, NewerFormatError
from tests.support.clock import ManualClock
from tests.support.engine import Client, make_engine, pass_time, settle

NEWER = 77
SIZES = {"log_segment_bytes": 1 << 16, "max_msg_size": 2_000, "max_body_size": 4_000}

Change = Callable[[bytes], bytes]


def crc_of(data: bytes, start: int = 0) -> bytes:
    return crc32c(data, start).to_bytes(4, "big")


def header_with_crc(size: int) -> Change:
    """The version is byte 4 of a header of so many bytes that ends with its CRC."""

    def change(data: bytes) -> bytes:
        header = data[:4] + bytes([NEWER]) + data[5 : size - 4]
        return header + crc_of(header) + data[size:]

    return change


def header_with_crc_of_all(size: int, at: int = 4) -> Change:
    """The same, of a header whose CRC covers what is behind it, too. at: where the version is."""

    def change(data: bytes) -> bytes:
        header = data[:at] + bytes([NEWER]) + data[at + 1 : size - 4]
        return header + crc_of(data[size:], crc32c(header)) + data[size:]

    return change


def crc_at_the_end(data: bytes) -> bytes:
    content = data[:4] + bytes([NEWER]) + data[5:-4]
    return content + crc_of(content)


def json_line(data: bytes) -> bytes:
    content = orjson.loads(data.split(b"\n")[0])
    line = orjson.dumps({**content, "version": NEWER})
    return line + b"\n%08x\n" % crc32c(line)


def both_headers_of_a_segment(data: bytes) -> bytes:
    head_bytes = int.from_bytes(data[40:44], "big")
    header = header_with_crc(64)(data[:64])
    return header + data[64 : head_bytes - 64] + header + data[head_bytes:]


def first_record(data: bytes) -> bytes:
    at = int.from_bytes(data[40:44], "big")
    position, salt = data[8:16], data[16:24]
    fields = bytes([NEWER]) + data[at + 5 : at + 76]
    place = salt + (int.from_bytes(position, "big") + at).to_bytes(8, "big")
    return data[: at + 4] + fields + crc_of(fields, crc32c(place)) + data[at + 80 :]


# Name in the data directory, what makes it a newer one's, the newest version that is known.
FORMATS: dict[str, tuple[str, Change, int]] = {
    "segment": ("log/segments/*.log", both_headers_of_a_segment, 2),
    "record": ("log/segments/*.log", first_record, 2),
    "checkpoint": ("log/checkpoint", header_with_crc_of_all(48), 2),
    "consume queue": ("log/checkpoint", header_with_crc_of_all(48, at=6), 1),
    "journal": ("log/progress/*.journal", header_with_crc(32), 2),
    "floors": ("log/progress/floors", crc_at_the_end, 3),
    "index": ("log/progress/*/*.index", header_with_crc_of_all(28), 2),
    "holds": ("log/holds.json", json_line, 1),
    "cursors": ("log/cursors.json", json_line, 2),
    "holes": ("log/holes.json", json_line, 1),
    "batch keys": ("log/batch_keys", header_with_crc(64), 1),
    "key index": ("log/keys/state", header_with_crc(64), 1),
    "identity of the log": ("log/identity", json_line, 1),
    "identity of its segments": ("log/segments/identity", json_line, 1),
}


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def directory(tmp_path: Path, clock: ManualClock) -> Path:
    """With a file of each format, after a clean stop."""
    engine = make_engine(tmp_path, clock, **SIZES)
    engine.acts.create_topic("orders")
    engine.acts.create_channel("orders", "billing")
    settle(engine)
    for number in range(20):
        engine.publish("orders", [b"order %d" % number])
        settle(engine)
    store = log_store_of(engine.catalog.topic("orders"))
    client = Client(engine, "orders", "billing", ready=10)
    client.finish(*[message.id for message in client.sink.received][1:5])
    assert store.readers.cursors.create("orders", store.number, store.id_base, "archive", 3).done
    store.readers.leases.take("reader", store.number, 5, 10**9)
    write_keyed(engine, store)
    for _ in range(3):
        pass_time(engine, clock, 6_000)
    client.leave()
    engine.close()
    (tmp_path / "log" / "holes.json").write_bytes(encode_holes({}, {}))
    return tmp_path


def write_keyed(engine: Engine, store: Any) -> None:
    batch = store.make_batch([b"keyed"])
    ticket = store.append_keyed(batch, keys=[b"k"], batch_key=b"k" * 16, digest=b"d" * 16)
    settle(engine)
    assert ticket.done
    assert ticket.error is None


def content_of(directory: Path) -> dict[str, bytes]:
    return {str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


@pytest.mark.parametrize("name", FORMATS)
def test_a_newer_format_is_refused_and_nothing_is_changed(directory: Path, clock: ManualClock, name: str) -> None:
    pattern, change, known = FORMATS[name]
    path = sorted(directory.glob(pattern))[0]
    path.write_bytes(change(path.read_bytes()))
    if name == "record":
        (directory / "log" / "checkpoint").unlink()  # it spares reading the log
    before = content_of(directory)
    with pytest.raises(
        NewerFormatError, match=rf"{path.name}.* has format version {NEWER}, .* up to {known}\. Nothing was changed"
    ):
        make_engine(directory, clock, **SIZES)
    after = content_of(directory)
    assert after.keys() == before.keys()
    assert after == before


def test_the_table_has_every_file_of_the_storage_folder(directory: Path) -> None:
    unversioned = {
        "log/progress/reserve",  # zeros, for a full disk
        "formats.json",  # the list of formats, and
        "topology.json",  # this and what stands beside it has tests of its own
        "topology.json.previous",
        "topology.changes",
        "topology.changes.previous",
    }
    known = {path for pattern, _, _ in FORMATS.values() for path in directory.glob(pattern)}
    queues = set(directory.glob("log/queues/*/*"))  # their version is in the checkpoint
    queues |= set(directory.glob("log/keys/*/*.keys"))  # and theirs in the state
    others = {path for path in directory.rglob("*") if path.is_file()} - known - queues
    assert {str(path.relative_to(directory)) for path in others} <= unversioned


def test_samples_of_a_newer_version_stay_where_they_are(tmp_path: Path, clock: ManualClock) -> None:
    options: dict[str, Any] = {"retention_ms": 10**9, "retention_bytes": 1 << 30, "segment_bytes": 1 << 16}
    samples = SamplesLog(str(tmp_path), files=Files(), clock=clock, background=InlineBackground(), **options)
    samples.open()
    samples.append(b"a sample")
    samples.close()
    for name, change in (("samples/identity.json", json_line), ("samples/segments/*.log", both_headers_of_a_segment)):
        path = sorted(tmp_path.glob(name))[0]
        whole = path.read_bytes()
        path.write_bytes(change(whole))
        before = content_of(tmp_path)
        again = SamplesLog(str(tmp_path), files=Files(), clock=clock, background=InlineBackground(), **options)
        again.open()
        assert again.topic is None
        again.close()
        assert content_of(tmp_path) == before
        path.write_bytes(whole)


def test_a_sample_of_a_newer_version_is_not_guessed_at() -> None:
    body = encode_sample({}) if callable(encode_sample) else b""
    with pytest.raises(CorruptError, match=f"version {NEWER}, and this program knows 1"):
        decode_sample(body[:4] + bytes([NEWER]) + body[5:])
