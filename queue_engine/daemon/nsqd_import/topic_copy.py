"""Copies the messages of one topic into the log, each once, whatever channels have it.

A channel of nsqd has a copy of each message of its own. In the log a message stands once and all channels have it. So
the messages of all channels are joined by id and body, the channel with most of them first; then each channel finishes
those that it did not have. Its channels are paused meanwhile. Both the order and the batches follow from the files
alone: a second run writes the same batches under the same keys, and the server stores none of them twice.

When the server refuses a batch, no later one is written, the channels are read to their ends all the same, and each
finishes the messages that it did not have, of the batches that the server has: the channels may go on then.
"""

import contextlib
from array import array
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from hashlib import blake2b

from queue_engine.daemon.nsqd_import.import_client import ImportClient
from queue_engine.daemon.nsqd_import.message_join import MessageJoin
from queue_engine.daemon.nsqd_import.source import NsqdSource, SourceTopic
from queue_engine.vocabulary.errors import EngineUnreachableError, NsqdImportError, PipelineError
from queue_engine.vocabulary.message import STORED_HEADER_BYTES

BATCH_MESSAGES_MAX = 1_000
# A fifth of the largest body that a server takes by default. A larger message is a batch of its own.
BATCH_BYTES_MAX = 1 << 20
FINISHED_AT_ONCE = 1_000
_ID = slice(10, STORED_HEADER_BYTES)
_BITS_BYTES = 4 << 10  # how much longer a list of bits gets at once


@dataclass(slots=True)
class Copied:
    """The counts of one copy. read: messages of all queues. written: of these, the joined ones. written_before: the
    written ones that an earlier run had written. finished: by channels that did not have them. damaged: names of files
    of which a part could not be read. end_offset: behind the last message on the server."""

    read: int = 0
    written: int = 0
    written_before: int = 0
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
        self._places = 0  # of the messages that are on the server, in the order of joining
        self._first_places = array("Q")  # of each batch
        self._first_offsets = array("Q")
        self._bodies: list[bytes] = []  # of the batch that is being gathered
        self._bytes = 0
        self._refusal: PipelineError | NsqdImportError | None = None  # the first one, while channels are joined

    def copy_channels(self) -> None:
        """Write the channels' messages, and let each channel finish those that it did not have. Raises PipelineError,
        StorageError or NsqdImportError; each channel has finished all it could of the server's messages then, unless
        the server can't be reached or the joined messages can't be stored."""
        if len(self._topic.channels) < 2:  # there is nothing to join
            for channel in self._topic.channels:
                for message in self._messages(f"{self._topic.name}:{channel}"):
                    self._gather(message[STORED_HEADER_BYTES:])
            self._flush()
            return
        with self._source.join() as join:
            had = {channel: self._join(channel, join) for channel in self._by_depth()}
        with self._recording_refusal():
            self._flush()
        for channel, bits in had.items():
            with self._recording_refusal():
                self._finish_others(channel, bits)
        if self._refusal is not None:
            raise self._refusal

    @contextlib.contextmanager
    def _recording_refusal(self) -> Iterator[None]:
        try:
            yield
        except EngineUnreachableError:
            raise
        except (PipelineError, NsqdImportError) as exc:
            self._refusal = self._refusal or exc

    def _join(self, channel: str, join: MessageJoin) -> bytearray:
        """Gather the messages that no channel before had. Returns which of the joined ones the channel has, a bit
        each."""
        bits = bytearray()
        join.begin_channel()
        for some in _chunks(self._messages(f"{self._topic.name}:{channel}")):
            bodies = [message[STORED_HEADER_BYTES:] for message in some]
            keys = [
                message[_ID] + blake2b(body, digest_size=8).digest() for message, body in zip(some, bodies, strict=True)
            ]
            joined = join.add(keys)
            for place, _ in joined:
                if place >> 3 >= len(bits):
                    bits.extend(bytes(max(_BITS_BYTES, (place >> 3) + 1 - len(bits))))
                bits[place >> 3] |= 1 << (place & 7)
            with self._recording_refusal():
                for body in (body for (_, is_new), body in zip(joined, bodies, strict=True) if is_new):
                    if self._refusal is None:
                        self._gather(body)
        return bits

    def copy_topic(self) -> None:
        """Write the messages that the topic had not passed on to its channels. Raises as `copy_channels`."""
        for message in self._messages(self._topic.name):
            self._gather(message[STORED_HEADER_BYTES:])
        self._flush()

    def _by_depth(self) -> list[str]:
        """The channels, those with most messages first."""
        depths = {}
        for channel in self._topic.channels:
            look = self._source.look(f"{self._topic.name}:{channel}")
            depths[channel] = look.depth
            look.close()
        return sorted(depths, key=lambda channel: (-depths[channel], channel))

    def _messages(self, queue: str) -> Iterator[bytes]:
        """All messages of a queue as they are stored."""
        with contextlib.closing(self._source.look(queue)) as look:
            for message in look.messages():
                self.copied.read += 1
                yield message
            self.copied.damaged.update(look.damaged_files)

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
        self._first_places.append(self._places)
        self._first_offsets.append(batch.first_offset)
        self._places += batch.count
        copied = self.copied
        copied.end_offset = max(copied.end_offset, end)
        copied.written += batch.count
        copied.written_before += batch.count if batch.is_repeat else 0
        self._advanced(copied)

    def _finish_others(self, channel: str, had: bytearray) -> None:
        others: list[str] = []
        for offset in self._offsets_without(had):
            others.append(f"{self._id_base + offset:016x}")
            if len(others) == FINISHED_AT_ONCE:
                self._finish(channel, others)
                others = []
        self._finish(channel, others)

    def _finish(self, channel: str, ids: list[str]) -> None:
        if ids:
            self._client.finish(self._topic.name, channel, ids)
            self.copied.finished += len(ids)
            self._advanced(self.copied)

    def _offsets_without(self, had: bytearray) -> Iterator[int]:
        """The offsets of the joined messages whose bit is not set."""
        ends = [*self._first_places, self._places][1:]
        for first_place, first_offset, end in zip(self._first_places, self._first_offsets, ends, strict=True):
            for place in range(first_place, end):
                if place >> 3 >= len(had) or not had[place >> 3] >> (place & 7) & 1:
                    yield first_offset + place - first_place


def _chunks(messages: Iterator[bytes]) -> Iterator[list[bytes]]:
    """The messages, so many together as a batch has at most."""
    some: list[bytes] = []
    some_bytes = 0
    for message in messages:
        some.append(message)
        some_bytes += len(message)
        if len(some) == BATCH_MESSAGES_MAX or some_bytes >= BATCH_BYTES_MAX:
            yield some
            some, some_bytes = [], 0
    if some:
        yield some
