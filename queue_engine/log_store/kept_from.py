"""How much of the log a topic, channel or cursor keeps: shown every second, looked up only when its offset moved."""

from queue_engine.log_store.log_topic import LogTopic
from queue_engine.vocabulary.errors import StorageError


class KeptFrom:
    """Where in the log the record of an offset begins: looked up once while the offset stays."""

    __slots__ = ("_offset", "_position")

    def __init__(self) -> None:
        self._offset = self._position = -1

    def bytes_from(self, topic: LogTopic, offset: int) -> int:
        """How many bytes the log holds from the record of `offset` on; other topics' share included."""
        return topic.size.bytes_from(self._position_from(topic, offset))

    def _position_from(self, topic: LogTopic, offset: int) -> int:
        """The position of the first record with an offset from `offset` on; the log's end when there is none."""
        if offset >= topic.end_offset:
            return topic.visible_end
        if offset != self._offset:
            try:
                self._position = self._looked_up(topic, offset)
            except StorageError:
                return topic.visible_end  # it can't be told now
            self._offset = offset
        return self._position

    def _looked_up(self, topic: LogTopic, offset: int) -> int:
        return topic.needed_position_from(offset, topic.visible_end)


class ConfirmedFrom(KeptFrom):
    """The same, confirmed by the log's own headers: for cursors, whose messages are given up beyond a limit."""

    __slots__ = ()

    def _looked_up(self, topic: LogTopic, offset: int) -> int:
        present = topic.next_present(offset)
        record = None if present is None else topic.confirmed_record(present)
        return super()._looked_up(topic, offset) if record is None else record[0]
