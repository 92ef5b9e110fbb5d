"""Leases: readers that expire unless they are renewed.

    log/holds.json
    {"version": 1, "holds": [{"name": "…", "topic": 7, "offset": 1200, "expires_ms": 1800000000000,
                              "maker": "token copier"}, …]} LF
    CRC-32C of the line before, without its LF, as 8 hex digits LF

A lease's name is unique in the log; `topic` is the topic's number, `expires_ms` Unix milliseconds. `maker` is left out
where there is none; a version that does not know it drops it. A lease ends with its topic. Leases are written nowhere
else: when the file is damaged, they are lost. `reader_registry.py` says how the file is replaced. To change the format:
raise `VERSION`, go on reading older versions, and add a file of the new one to the fixtures.
"""

import os
from collections.abc import Iterable
from dataclasses import replace

from queue_engine.storage.disk.background import Background
from queue_engine.storage.disk.checked_line import decode_versioned, encode_line
from queue_engine.storage.disk.files import Files
from queue_engine.storage.readers.reader_registry import ANY_MAKER, Maker, Reader, ReaderRegistry
from queue_engine.vocabulary.clock import Clock
from queue_engine.vocabulary.errors import LeaseNotFoundError, LimitError
from queue_engine.vocabulary.ticket import Ticket

LEASES_NAME = "holds.json"
VERSION = 1
LEASES_MAX = 10_000
NAME_BYTES_MAX = 100
# Of a token that may only consume: leases hold the log.
CONSUMER_LEASES_MAX = 100


class Leases(ReaderRegistry[Reader]):
    """All leases of one log; no two have the same name. Belongs to the engine's thread."""

    def __init__(self, directory: str, *, files: Files, clock: Clock, worker: Background) -> None:
        super().__init__(os.path.join(directory, LEASES_NAME), files=files, clock=clock, worker=worker)
        self._by_name: dict[str, Reader] = {}

    def get(self, name: str) -> Reader:
        """Raises LeaseNotFoundError; StorageError while the file can't be read."""
        self._check_read()
        lease = self._by_name.get(name)
        if lease is None or lease.expires_ms <= self._expiry_clock_ms():
            raise LeaseNotFoundError(f"lease {name} has expired, was released, never existed, or its topic is deleted")
        return lease

    def take(
        self, name: str, topic_number: int, offset: int, ttl_ms: int, maker: Maker = ANY_MAKER
    ) -> tuple[Reader, Ticket]:
        """Keep a topic's messages from `offset` on, or move or renew the lease of that name.

        The ticket is done when that is durable. Raises LimitError when there are too many, StorageError while the
        file can't be read.
        """
        self._check_read()
        before = self._by_name.get(name)
        if before is None and len(self) >= LEASES_MAX:
            raise LimitError(f"lease {name} is not taken: {len(self)} exist, which is the most")
        if before is None and maker.is_limited and (count := self.count_of(maker)) >= CONSUMER_LEASES_MAX:
            raise LimitError(
                f"lease {name} is not taken: {maker.name} has {count}, which is the most for a token that may only "
                "consume"
            )
        if before is not None and before.topic_number != topic_number:
            self._remove(before)
        made_by = maker.name if before is None else before.maker
        lease = Reader(name, topic_number, offset, self._expiry_clock_ms() + ttl_ms, made_by)
        self._put(lease)
        return lease, self._save_or(lambda: self._undo_put(before, lease))

    def renew(self, names: Iterable[str], ttl_ms: int) -> Ticket:
        """Keep leases for `ttl_ms` from now on, all or none. Raises LeaseNotFoundError for the first lost one."""
        expires_ms = self._expiry_clock_ms() + ttl_ms
        renewed = [(lease, replace(lease, expires_ms=expires_ms)) for lease in [self.get(name) for name in names]]
        for _, lease in renewed:
            self._put(lease)

        def undo() -> None:
            for before, lease in renewed:
                self._undo_put(before, lease)

        return self._save_or(undo)

    def release(self, name: str) -> Ticket:
        """End a lease. Raises LeaseNotFoundError."""
        lease = self.get(name)
        self._remove(lease)
        return self._save_or(lambda: self._undo_remove(lease))

    def forget_topic(self, topic_number: int) -> None:
        """The topic was deleted."""
        if self._remove_topic(topic_number):
            self._file.save()

    def _encoded(self) -> bytes:
        return encode_leases(self.all())

    def _restore(self, data: bytes, topic_numbers: frozenset[int]) -> bool:
        leases = decode_leases(data, self._file.path)
        if leases is None:
            return False
        for lease in leases:
            if lease.topic_number in topic_numbers:
                self._put(lease)
            else:
                self._file.note_changed()
        return True

    def _put(self, reader: Reader) -> None:
        super()._put(reader)
        self._by_name[reader.name] = reader

    def _remove(self, reader: Reader) -> None:
        super()._remove(reader)
        del self._by_name[reader.name]


def encode_leases(leases: Iterable[Reader]) -> bytes:
    """The file's content."""
    listed = [
        {"name": one.name, "topic": one.topic_number, "offset": one.offset, "expires_ms": one.expires_ms}
        | ({"maker": one.maker} if one.maker else {})
        for one in leases
    ]
    return encode_line({"version": VERSION, "holds": listed})


def decode_leases(data: bytes, path: str = LEASES_NAME) -> list[Reader] | None:
    """The leases of the file's content; None when it is damaged. Raises NewerFormatError."""
    content = decode_versioned(data, path, VERSION)
    if content is None:
        return None
    return [
        Reader(one["name"], one["topic"], one["offset"], one["expires_ms"], one.get("maker", ""))
        for one in content["holds"]
    ]
