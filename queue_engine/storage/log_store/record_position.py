"""The log position of an offset's record, looked up once while the offset stays: figures read it every second."""

from queue_engine.storage.log_store.log_topic import LogTopic
from queue_engine.vocabulary.errors import StorageError


class RecordPosition:
    """Caches the position of one offset: the first that a topic, a channel or a cursor needs."""

    __slots__ = ("_offset", "_position")

    def __init__(self) -> None:
        self._offset = self._position = -1

    def first_from(self, topic: LogTopic, offset: int, end: int) -> int:
        """The position of the first record with an offset from `offset` on; `end` when there is none. Raises
        StorageError."""
        if offset >= topic.end_offset:
            return end
        if offset != self._offset:
            position = self._look_up(topic, offset)
            if position < 0:
                return end
            self._offset, self._position = offset, position
        return self._position

    def bytes_from(self, topic: LogTopic, offset: int) -> int:
        """How many bytes the log holds from the record of `offset` on, other topics' share included; 0 while its
        position can't be read."""
        if offset == self._offset and offset < topic.queue.end_offset:
            return topic.size.bytes_from(self._position)
        try:
            return topic.size.bytes_from(self.first_from(topic, offset, topic.visible_end))
        except StorageError:
            return 0

    def _look_up(self, topic: LogTopic, offset: int) -> int:
        return topic.needed_position_from(offset, -1)


class ConfirmedPosition(RecordPosition):
    """The same, confirmed by the log's own headers: for cursors, whose messages are given up beyond a limit."""

    __slots__ = ()

    def _look_up(self, topic: LogTopic, offset: int) -> int:
        present = topic.next_present(offset)
        record = None if present is None else topic.confirmed_record(present)
        return super()._look_up(topic, offset) if record is None else record[0]
