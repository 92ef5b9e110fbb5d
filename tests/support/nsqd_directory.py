"""A data directory of nsqd, written and read byte for byte by nsqd's documented format, without our own code.

nsqd.dat                            {"topics":[{"name","paused","channels":[{"name","paused"}]}],"version":"1.3.0"}
NAME.diskqueue.000000.dat           | length i32 | message |…      NAME: TOPIC or TOPIC:CHANNEL; big-endian
NAME.diskqueue.meta.dat             depth LF readFile,readPosition LF writeFile,writePosition LF
a message                           | timestamp ns i64 | attempts u16 | id 16 hex characters | body |
"""

import json
import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

_HEAD = struct.Struct(">qH16s")


@dataclass(frozen=True)
class StoredMessage:
    body: bytes
    id: bytes = b"0000000000000000"
    attempts: int = 0
    timestamp_ns: int = 1_700_000_000_000_000_000

    @property
    def record(self) -> bytes:
        message = _HEAD.pack(self.timestamp_ns, self.attempts, self.id) + self.body
        return struct.pack(">i", len(message)) + message


def messages(count: int, first: int = 0) -> list[StoredMessage]:
    """Messages with ids and times that rise, as nsqd gives them; bodies `m0`, `m1`, …"""
    return [
        StoredMessage(b"m%d" % number, b"%016x" % (0x0D00 + number), 0, 1_700_000_000_000_000_000 + number)
        for number in range(first, first + count)
    ]


def write_metadata(directory: Path, topics: Mapping[str, Iterable[str]], paused: Iterable[str] = ()) -> bytes:
    """nsqd.dat, as nsqd 1.3 writes it. paused: names of topics, and of channels as TOPIC/CHANNEL."""
    names = set(paused)
    document = {
        "topics": [
            {
                "channels": [{"name": channel, "paused": f"{topic}/{channel}" in names} for channel in channels],
                "name": topic,
                "paused": topic in names,
            }
            for topic, channels in topics.items()
        ],
        "version": "1.3.0",
    }
    data = json.dumps(document, separators=(",", ":")).encode()
    (directory / "nsqd.dat").write_bytes(data)
    return data


def write_queue(
    directory: Path, name: str, files: Sequence[Sequence[StoredMessage]], *, read: int = 0, first_file: int = 0
) -> None:
    """A disk queue as nsqd leaves it. files: the messages of each data file. read: so many of the first are read, and
    are still in that file. first_file: its number."""
    for number, held in enumerate(files, first_file):
        path = directory / f"{name}.diskqueue.{number:06d}.dat"
        path.write_bytes(b"".join(message.record for message in held))
    depth = sum(map(len, files)) - read
    read_position = sum(len(message.record) for message in files[0][:read])
    last = first_file + len(files) - 1
    write_position = sum(len(message.record) for message in files[-1])
    (directory / f"{name}.diskqueue.meta.dat").write_bytes(
        b"%d\n%d,%d\n%d,%d\n" % (depth, first_file, read_position, last, write_position)
    )


def read_metadata(directory: Path) -> tuple[dict[str, list[str]], list[str]]:
    """What nsqd would load: topics with their channels, and what is paused."""
    document = json.loads((directory / "nsqd.dat").read_bytes())
    topics = {topic["name"]: [channel["name"] for channel in topic["channels"]] for topic in document["topics"]}
    paused = [topic["name"] for topic in document["topics"] if topic["paused"]]
    paused += [
        f"{topic['name']}/{channel['name']}"
        for topic in document["topics"]
        for channel in topic["channels"]
        if channel["paused"]
    ]
    assert isinstance(document["version"], str)
    return topics, paused


def read_queue(directory: Path, name: str, *, max_bytes_per_file: int = 100 << 20) -> list[StoredMessage]:
    """What nsqd would read: from the meta file's place to its end, file by file. Asserts that nsqd finds no damage."""
    meta = directory / f"{name}.diskqueue.meta.dat"
    if not meta.exists():
        assert not list(directory.glob(f"{name}.diskqueue.[0-9]*.dat")), "nsqd would begin with file 0 and overwrite it"
        return []
    depth, read, write = meta.read_text().splitlines()
    (number, position), (last, end) = (map(int, place.split(",")) for place in (read, write))
    found = []
    while (number, position) < (last, end):
        data = (directory / f"{name}.diskqueue.{number:06d}.dat").read_bytes()
        if number == last:
            assert len(data) == end, "nsqd would skip to the next file for writes"
        assert position < len(data), "nsqd would take a place at the end of a full file for damage"
        (size,) = struct.unpack_from(">i", data, position)
        assert _HEAD.size < size <= len(data) - position - 4, "nsqd would take it for damage"
        timestamp_ns, attempts, id = _HEAD.unpack_from(data, position + 4)
        found.append(StoredMessage(data[position + 4 + _HEAD.size : position + 4 + size], id, attempts, timestamp_ns))
        position += 4 + size
        if number < last and position >= min(len(data), max_bytes_per_file):
            number, position = number + 1, 0
    assert int(depth) == len(found), "nsqd believes the depth"
    return found
