"""Copies the messages of one topic into the log, each once, whatever channels have it.

A channel of nsqd has a copy of each message of its own. In the log a message stands once and all channels have it. So
the messages of all channels are joined by id and body, the channel with most of them first; then each channel finishes
those that it did not have. Its channels are paused meanwhile. Both the order and the batches follow from the files
alone: a second run writes the same batches under the same keys, and the server stores none of them twice.
"""

from array import array
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from hashlib import blake2b

from queue_engine.nsqd_import.import_client import ImportClient
from queue_engine.nsqd_import.source import NsqdSource, SourceTopic
from queue_engine.vocabulary.message import STORED_HEADER_BYTES

BATCH_MESSAGES_MAX = 1_000
# A fifth of what a server takes in one body by default. A larger message is a batch of its own.
BATCH_BYTES_MAX = 1 << 20
FINISHED_AT_ONCE = 1_000
_ID = slice(10, STORED_HEADER_BYTES)


@dataclass(slots=True)
class Copied:
    """What a copy did. read: messages of all queues. written: of these, the joined ones; known: those of them that an
    earlier run had written. finished: by channels that did not have them. damaged: names of files of which a part
    could not be read. end_offset: behind the last message on the server."""

    read: int = 0
    written: int = 0
    known: int = 0
    finished: int = 0
    damaged: set[str] = field(default_factory=set)
    end_offset: int = 0


class TopicCopy:
    """key_of: makes the batch key of a batch by its number. advanced: called after each batch and each act."""

    def __init__(
        self,
        source: NsqdSource,
        topic: SourceTopic,
        client: ImportClient,
        *,
        number: int,
        key_of: Callable[[int], bytes],
        advanced: Callable[[Copied], None],
    ) -> None:
        self.copied = Copied()
        self._source = source
        self._topic = topic
        self._client = client
        self._number = number
        self._key_of = key_of
        self._advanced = advanced
        self._batches = 0
        self._id_base = 0
        self._offsets = array("Q")  # of each joined message, in the order of joining
        self._bodies: list[bytes] = []  # of the batch that is being gathered
        self._bytes = 0

    def copy_channels(self) -> None:
        """Write what the channels have, and let each finish what it did not have. Raises PipelineError or
        StorageError."""
        known: dict[bytes, int] = {}
        needed: dict[str, array[int]] = {}
        for channel in self._by_depth():
            needed[channel] = array("Q")
            for key, body in self._messages(f"{self._topic.name}:{channel}"):
                place = known.setdefault(key, len(known))
                needed[channel].append(place)
                if place == len(self._offsets) + len(self._bodies):  # it is not joined yet
                    self._gather(body)
        self._flush()
        for channel, places in needed.items():
            self._finish_others(channel, places)

    def copy_topic(self) -> None:
        """Write what the topic had not passed on to its channels. Raises as `copy_channels`."""
        for _, body in self._messages(self._topic.name):
            self._gather(body)
        self._flush()

    def _by_depth(self) -> list[str]:
        """The channels, those with most messages first."""
        depths = {}
        for channel in self._topic.channels:
            look = self._source.look(f"{self._topic.name}:{channel}")
            depths[channel] = look.depth
            look.close()
        return sorted(depths, key=lambda channel: (-depths[channel], channel))

    def _messages(self, queue: str) -> Iterator[tuple[bytes, bytes]]:
        """What makes a message the same in several channels, and its body. The second of two equal ones in the same
        queue is another message."""
        look = self._source.look(queue)
        seen: dict[bytes, int] = {}
        try:
            for message in look.messages():
                body = message[STORED_HEADER_BYTES:]
                key = message[_ID] + blake2b(body, digest_size=8).digest()
                count = seen[key] = seen.get(key, 0) + 1
                self.copied.read += 1
                yield (key if count == 1 else key + b"%d" % count), body
            self.copied.damaged.update(look.damaged_files)
        finally:
            look.close()

    def _gather(self, body: bytes) -> None:
        if self._bodies and self._bytes + len(body) > BATCH_BYTES_MAX:
            self._flush()
        self._bodies.append(body)
        self._bytes += len(body)
        if len(self._bodies) >= BATCH_MESSAGES_MAX:
            self._flush()

    def _flush(self) -> None:
        bodies, self._bodies, self._bytes = self._bodies, [], 0
        if not bodies:
            return
        key = self._key_of(self._batches)
        self._batches += 1
        batch = self._client.write(self._topic.name, bodies, batch_key=key, number=self._number)
        self._id_base = batch.id_base
        end = batch.first_offset + batch.count
        self._offsets.extend(range(batch.first_offset, end))
        copied = self.copied
        copied.end_offset = max(copied.end_offset, end)
        copied.written += batch.count
        copied.known += batch.count if batch.is_known else 0
        self._advanced(copied)

    def _finish_others(self, channel: str, places: "array[int]") -> None:
        had = bytearray(len(self._offsets))
        for place in places:
            had[place] = 1
        others = [f"{self._id_base + offset:016x}" for place, offset in enumerate(self._offsets) if not had[place]]
        for first in range(0, len(others), FINISHED_AT_ONCE):
            ids = others[first : first + FINISHED_AT_ONCE]
            self._client.finish(self._topic.name, channel, ids)
            self.copied.finished += len(ids)
            self._advanced(self.copied)
