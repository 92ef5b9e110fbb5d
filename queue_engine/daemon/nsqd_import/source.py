"""nsqd's data directory as an import reads it: topics, their queues, and files that are none of theirs.

A file with a name of go-diskqueue's belongs to the topic or channel of that name. Nothing is removed: files of a topic
whose messages are all copied move to a folder beside them.
"""

import os
from collections.abc import Collection
from dataclasses import dataclass

from crc32c import crc32c

from queue_engine.daemon.nsqd_import.message_join import MessageJoin
from queue_engine.daemon.nsqd_import.state import STATE_NAME
from queue_engine.engine.topology.change_log import TOPOLOGY_NAMES, read_topology
from queue_engine.engine.topology.entries import TopicEntry
from queue_engine.engine.topology.topology import LOG_KIND
from queue_engine.storage.disk.files import Files
from queue_engine.storage.disk_queue.fifo.look import QueueLook
from queue_engine.vocabulary.errors import NsqdImportError

IMPORTED_NAME = "penstock-imported"
LARGEST_MSG_SIZE = 16 << 20


@dataclass(frozen=True, slots=True)
class SourceTopic:
    """A topic of the directory. channels: in the order of nsqd's file. paused: those of them, and "" for the topic."""

    name: str
    channels: tuple[str, ...]
    paused: frozenset[str]

    @property
    def queues(self) -> tuple[str, ...]:
        """The names of its disk queues, the topic's own first."""
        return (self.name, *(f"{self.name}:{channel}" for channel in self.channels))


class NsqdSource:
    """A directory that this process has locked."""

    def __init__(self, directory: str, files: Files) -> None:
        """Raises NsqdImportError or TopologyError when it is no data directory, or its topics can't be read."""
        self.directory = directory
        self._files = files
        found = read_topology(directory, files)
        # nsqd.dat moves last: a directory whose only nsqd.dat is the moved one is imported.
        if not found.source and files.size_of(os.path.join(directory, IMPORTED_NAME, "nsqd.dat")) is None:
            raise NsqdImportError(f"{directory} has no nsqd.dat: it is no directory of nsqd")
        self.topics = [
            _source_topic(topic)
            for topic in found.state.topics.values()
            if topic.storage != LOG_KIND and topic.trash is None
        ]
        # The rest that a kill left of the import's own file belongs to it.
        self._names = [name for name in files.listdir(directory) if not name.startswith(f"{STATE_NAME}.")]

    def look(self, queue: str) -> QueueLook:
        return QueueLook(queue, self.directory, LARGEST_MSG_SIZE)

    def join(self) -> MessageJoin:
        """For the messages of one topic; to be closed. Raises NsqdImportError."""
        return MessageJoin(os.path.join(self.directory, f"{STATE_NAME}.joined"))

    def files_of(self, topic: SourceTopic) -> list[str]:
        """Names of its files that nsqd would read, sorted."""
        starts = tuple(f"{queue}.diskqueue." for queue in topic.queues)
        return sorted(name for name in self._names if name.startswith(starts) and name.endswith(".dat"))

    def checksum_of(self, topic: SourceTopic) -> str:
        """Of the names and sizes of its files, and of its meta files' bytes."""
        crc = 0
        for name in self.files_of(topic):
            path = os.path.join(self.directory, name)
            crc = crc32c(f"{name} {self._files.size_of(path)}\n".encode(), crc)
            if name.endswith(".meta.dat"):
                crc = crc32c(self._files.read_whole(path, 1 << 20) or b"", crc)
        return f"{crc:08x}"

    def move(self, topic: SourceTopic, damaged: Collection[str]) -> int:
        """Move its files to the folder beside them, but those that are damaged; returns how many. Raises OSError; moved
        files stay there."""
        target = os.path.join(self.directory, IMPORTED_NAME)
        self._files.make_directory(target)
        moved = 0
        # Data before meta files: a queue that is moved in part can't be read as if it had more in front.
        for name in sorted(self.files_of(topic), key=lambda name: name.endswith(".meta.dat")):
            if name not in damaged:
                self._files.rename(os.path.join(self.directory, name), os.path.join(target, name))
                moved += 1
        self._files.sync_directory(target)
        self._files.sync_directory(self.directory)
        self._names = self._files.listdir(self.directory)
        return moved

    def move_metadata(self) -> None:
        """Move nsqd.dat, too: nothing of nsqd's is left to be read. Raises OSError."""
        if any(name in self._names for name in TOPOLOGY_NAMES):
            return
        source, target = os.path.join(self.directory, "nsqd.dat"), os.path.join(self.directory, IMPORTED_NAME)
        self._files.make_directory(target)  # there was no topic, perhaps
        if self._files.size_of(source) is not None:  # else a run before was ended behind this
            self._files.rename(source, os.path.join(target, "nsqd.dat"))
        self._files.sync_directory(target)
        self._files.sync_directory(self.directory)

    def foreign(self) -> list[str]:
        """Names of files that belong to no topic of it, sorted; of a directory of ours those of disk queues alone."""
        expected = {"nsqd.dat", STATE_NAME, IMPORTED_NAME}
        for topic in self.topics:
            expected.update(self.files_of(topic))
        is_ours = any(name in self._names for name in TOPOLOGY_NAMES)
        return sorted(name for name in set(self._names) - expected if not is_ours or ".diskqueue." in name)


def _source_topic(topic: TopicEntry) -> SourceTopic:
    channels = [channel for channel in topic.channels.values() if channel.trash is None]
    paused = {channel.name for channel in channels if channel.paused} | ({""} if topic.paused else set())
    return SourceTopic(topic.name, tuple(channel.name for channel in channels), frozenset(paused))
