"""Reading a `log` topic without consuming: by offset, by time, in bulk."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from queue_engine.storage.log_store.log_topic import LogTopic
from queue_engine.vocabulary.message import FRAME_HEADER_BYTES


@dataclass(frozen=True, slots=True)
class ReadMessage:
    """One message as it was published. due_ns: until when it was deferred at publication, Unix ns; 0 for not. key:
    of no bytes when it has none."""

    offset: int
    message_id: str
    time_ns: int
    due_ns: int
    body: bytes
    key: bytes = b""


@dataclass(frozen=True, slots=True)
class MessagePage:
    """Some messages of a topic, and where to go on. topic_number and id_base: the topic's identity; offsets of another
    topic that had the name before are of no use here. next_offset: where the next page begins, behind all
    that was returned or skipped. earlier_offset: where a page of as many messages before this one begins; where this
    one begins if nothing is before it."""

    topic: str
    topic_number: int
    id_base: int
    oldest_offset: int
    end_offset: int
    next_offset: int
    messages: tuple[ReadMessage, ...]
    damaged_count: int = 0  # passed over, because their bodies are lost
    earlier_offset: int = 0


@dataclass(frozen=True, slots=True)
class Frames:
    """Messages in wire form, one frame behind the other. next_offset: where to go on; synced_offset: the end of the
    synced part, beyond which nothing is handed out."""

    topic_number: int
    id_base: int
    first_offset: int
    next_offset: int
    synced_offset: int
    count: int
    frames: bytes


class LogReader:
    """Reads one topic. Raises StorageError when the disk refuses."""

    def __init__(self, topic: LogTopic) -> None:
        self._topic = topic

    def page(self, offset: int, count_max: int, bytes_max: int) -> MessagePage:
        """At most `count_max` messages and `bytes_max` bytes of bodies from `offset` on, but at least one if any."""
        topic = self._topic
        found: list[ReadMessage] = []
        damaged = 0
        at = max(offset, topic.oldest_offset)
        while len(found) < count_max:
            present = topic.next_present(at)
            if present is None:
                at = max(at, topic.end_offset)
                break
            message = self._message(present)
            if message is None:
                damaged += 1
            else:
                bytes_max -= len(message.body)
                if bytes_max < 0 and found:
                    at = present
                    break
                found.append(message)
            at = present + 1
        first = found[0].offset if found else at
        return replace(self._page(found, at, damaged), earlier_offset=topic.offset_before(first, count_max))

    def these(self, offsets: Sequence[int], bytes_max: int) -> MessagePage:
        """The messages at these offsets, in this order, as far as so many body bytes reach."""
        found: list[ReadMessage] = []
        damaged = 0
        for offset in offsets:
            message = self._message(offset)
            if message is None:
                damaged += 1
                continue
            bytes_max -= len(message.body)
            if bytes_max < 0 and found:
                break
            found.append(message)
        return self._page(found, self._topic.end_offset, damaged)

    def _page(self, found: list[ReadMessage], next_offset: int, damaged: int) -> MessagePage:
        topic = self._topic
        return MessagePage(
            topic.name,
            topic.number,
            topic.id_base,
            topic.oldest_offset,
            topic.end_offset,
            next_offset,
            tuple(found),
            damaged,
        )

    def _message(self, offset: int) -> ReadMessage | None:
        batch = self._topic.batch_at(offset)
        if batch is None or offset in batch.damaged:
            return None
        index = offset - batch.first
        due = self._topic.deferred_between(offset, offset + 1)
        return ReadMessage(
            offset,
            batch.run.ids[index].decode("ascii"),
            batch.time_ns,
            due[0][1] if due else 0,
            batch.run.frame_at(index)[FRAME_HEADER_BYTES:],
            batch.keys[index] if batch.keys is not None else b"",
        )

    def offset_at(self, time_ns: int) -> int:
        """The first offset that was published at `time_ns` (Unix) or later; the end when none was."""
        topic = self._topic
        first, end = topic.oldest_offset, topic.end_offset
        while first < end:
            middle = (first + end) // 2
            present = topic.next_present(middle)
            if present is None or present >= end:
                end = middle
                continue
            batch = topic.batch_at(present)
            if batch is not None and batch.time_ns < time_ns:
                first = batch.end
            elif batch is None:
                first = present + 1  # lost; those behind it have times
            else:
                end = middle
        present = topic.next_present(first)
        return topic.end_offset if present is None else present

    def frames(self, offset: int, bytes_max: int) -> Frames:
        """Messages in bulk from `offset` on: at most `bytes_max` bytes, but at least one message. Damaged ones are left
        out, so a client identifies messages by id, not by position."""
        topic = self._topic
        synced_end = topic.synced_position
        parts: list[bytes] = []
        count = size = 0
        first = at = max(offset, topic.oldest_offset)
        while size < bytes_max or not parts:
            present = topic.next_present(at)
            if present is None:
                at = max(at, topic.end_offset)
                break
            at = present
            place = topic.queue.locate(present)
            if place is not None and place[0] + place[1] > synced_end:
                break
            batch = topic.batch_at(present)
            if batch is None:
                at = topic.lost_until(present)
                continue
            start = present - batch.first
            fits = batch.run.count_within(start, bytes_max - size)
            if fits == 0 and parts:
                break
            stop = start + max(1, fits)
            stop = min([stop, *(one - batch.first for one in batch.damaged if one > present)])
            at = batch.first + stop
            if present in batch.damaged:
                at = present + 1
                continue
            run = batch.run.slice(start, stop)
            parts.append(run.frames)
            size += len(run.frames)
            count += len(run)
        return Frames(topic.number, topic.id_base, first, at, self.synced_offset(synced_end), count, b"".join(parts))

    def synced_offset(self, synced_end: int) -> int:
        """The offset behind the last message whose record ends at or before position `synced_end`."""
        topic = self._topic
        first, end = topic.oldest_offset, topic.end_offset
        last = None if end == first else topic.queue.last_unit()
        if last is None or last[1] + last[2] <= synced_end:
            return end
        while first < end:
            middle = (first + end) // 2
            present = topic.next_present(middle)
            place = None if present is None or present >= end else topic.queue.locate(present)
            if place is None or place[0] + place[1] > synced_end:
                end = middle
            else:
                first = middle + 1
        return first
