"""How much of the log is there for somebody: asked for every second, looked up only when the answer may be another."""

from typing import TYPE_CHECKING

from queue_engine.errors import StorageError

if TYPE_CHECKING:
    from queue_engine.storage.log_topic_store import LogTopicStore


class KeptFrom:
    """Where in the log the record of an offset begins: looked up once while the offset stays."""

    __slots__ = ("_offset", "_position")

    def __init__(self) -> None:
        self._offset = self._position = -1

    def position_from(self, topic: "LogTopicStore", offset: int) -> int:
        """The position of the first record with an offset from `offset` on; the log's end when there is none."""
        if offset >= topic.end_offset:
            return topic.visible_end
        if offset != self._offset:
            try:
                self._position = topic.needed_position_from(offset, topic.visible_end)
            except StorageError:
                return topic.visible_end  # it can't be told now
            self._offset = offset
        return self._position
