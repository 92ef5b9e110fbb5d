"""nsqd's own file of topics and channels: written for nsqd, and compared with nsqd's changes at a start.

    nsqd.dat
    {"topics":[{"name":"orders","paused":false,"channels":[{"name":"billing","paused":false}]}],"version":"1.3.0"}

The server writes it with all topics of kind `diskqueue`, within a second of a change (`nsqd_writer.py`) and at a clean
stop; as its version it has "penstock", a blank and ours. nsqd writes the file anew as soon as it starts. topology.json,
or a line of topology.changes, has the checksum of the file as it was written or read last, so a start knows whether
nsqd ran since: then nsqd's file says which topics and channels of that kind there are.

    "nsqd": {"crc": "1a2b3c4d", "current": true}      in topology.json
    "nsqd": {"crc": "1a2b3c4d", "upto": 8}            in a line of topology.changes

`current`: nsqd.dat has all that topology.json has. `upto`: it has all changes up to that one. So a start can tell the
topics that nsqd began with from changes behind it that never came to nsqd:

    stands in        given to nsqd   ours now   nsqd's now    the topic or channel
                     yes             yes        no            nsqd deleted it; it stays where its data files are there
                     no              yes        no            was made too late for nsqd: stays
                     yes             no         yes           was deleted too late for nsqd: goes, unless nsqd put
                                                              messages there, a channel or a pause
                     no              no         yes           nsqd made it
    a pause is nsqd's where nsqd's now differs from the one given to it, else ours

Where the given state is unknown (an older version wrote our files), nothing is deleted, and pauses are nsqd's.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass, field

import orjson
from crc32c import crc32c

from queue_engine.engine.topology.entries import ChannelEntry, TopicEntry
from queue_engine.engine.topology.topology import LOG_KIND, Topology
from queue_engine.storage.disk.files import Files
from queue_engine.vocabulary.version import VERSION

_OURS = "penstock "


def is_nsqds(topic: TopicEntry | None) -> bool:
    """Whether it is one that nsqd.dat has."""
    return topic is not None and topic.storage != LOG_KIND and topic.trash is None


def topic_bytes(topic: TopicEntry) -> bytes:
    """One topic of the file. Ephemeral topics and channels are not part of the state."""
    channels = [{"name": one.name, "paused": one.paused} for one in topic.channels.values() if one.trash is None]
    return orjson.dumps({"name": topic.name, "paused": topic.paused, "channels": channels})


def nsqd_bytes(topics: Sequence[bytes]) -> bytes:
    """The file for nsqd, of the results of `topic_bytes`."""
    return b'{"topics":[%s],"version":%s}' % (b",".join(topics), orjson.dumps(f"{_OURS}{VERSION}"))


def shown(state: Topology) -> dict[str, tuple[bool, dict[str, bool]]]:
    """The topics of the state that are in the file, in no order."""
    return {topic.name: shown_topic(topic) for topic in state.topics.values() if is_nsqds(topic)}


def shown_topic(topic: TopicEntry) -> tuple[bool, dict[str, bool]]:
    """Whether a topic is paused, and its channels likewise."""
    return topic.paused, {one.name: one.paused for one in topic.channels.values() if one.trash is None}


def queues_of(topic: TopicEntry) -> list[str]:
    """The names of a topic's disk queues."""
    return [topic.name, *(f"{topic.name}:{one.name}" for one in topic.channels.values() if one.trash is None)]


def checksum(data: bytes) -> str:
    return f"{crc32c(data):08x}"


# The checksum in topology.json while there is no nsqd.dat.
NO_FILE = checksum(b"")


def is_ours(data: bytes) -> bool:
    """Whether Penstock wrote these bytes. False for a file that can't be read."""
    try:
        document = orjson.loads(data)
    except orjson.JSONDecodeError:
        return False
    return isinstance(document, dict) and str(document.get("version", "")).startswith(_OURS)


@dataclass(slots=True)
class NsqdRun:
    """nsqd's changes of topics and channels while it ran: names, a channel as TOPIC/CHANNEL. retained: not in nsqd's
    file, but here, since their data files are there. foreign: topics of the log of which nsqd has one, too."""

    added: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    retained: list[str] = field(default_factory=list)
    foreign: list[str] = field(default_factory=list)

    def sentences(self) -> list[str]:
        """The changes as lines for the server's log."""
        lines = ["nsqd ran in this directory since the last stop; its topics and channels are taken over"]
        for names, change in (
            (self.added, "nsqd made"),
            (self.removed, "nsqd deleted"),
            (self.retained, "not in nsqd.dat, and still here, since their data files are there:"),
        ):
            if names:
                lines.append(f"{change} {', '.join(names)}")
        lines += [
            f"topic {name} is of the log, and nsqd has made one of that name: its messages are in {name}.diskqueue.* "
            "and are not delivered. Nothing was changed there. With the server stopped, move these files and nsqd.dat "
            "into another directory, and let `penstock import_nsqd` copy them"
            for name in self.foreign
        ]
        return lines


class QueueFiles:
    """The files of disk queues in a directory, as they are now (`storage/disk_queue/fifo/format.py` draws them). A
    queue has the name TOPIC, or TOPIC:CHANNEL. Raises OSError."""

    def __init__(self, directory: str, files: Files) -> None:
        self._directory = directory
        self._files = files
        self._ends: dict[str, list[str]] = {}
        for name in files.listdir(directory):
            queue, mark, end = name.rpartition(".diskqueue.")
            if mark:
                self._ends.setdefault(queue, []).append(end)

    def exist(self, queue: str) -> bool:
        return queue in self._ends

    def have_messages(self, queue: str) -> bool:
        """Whether there are messages behind the read position. nsqd leaves a meta file for an empty queue, too."""
        start = os.path.join(self._directory, f"{queue}.diskqueue.")
        data = [end for end in self._ends.get(queue, ()) if end.endswith(".dat") and end[:-4].isdigit()]
        try:
            meta = self._files.read_whole(f"{start}meta.dat", 1 << 10) or b""
            number, position = map(int, meta.split(b"\n")[1].split(b","))
        except (ValueError, IndexError):
            number, position = 0, 0
        return any((int(end[:-4]), self._files.size_of(start + end) or 0) > (number, position) for end in data)


def take_over(state: Topology, theirs: Topology, *, given: Topology | None, queues: QueueFiles) -> NsqdRun:
    """Change the topics and channels of kind `diskqueue` to their state after nsqd's run, by the table above.

    given: the state that nsqd began with, None: unknown. Raises OSError."""
    run = NsqdRun()
    taking = _TakeOver(state, given is not None, queues, run)
    ours = {topic.name: topic for topic in state.topics.values() if topic.trash is None}
    given_by_name = (
        {topic.name: topic for topic in given.topics.values() if is_nsqds(topic)} if given is not None else {}
    )
    for their_topic in theirs.topics.values():
        name = their_topic.name
        topic, before = ours.pop(name, None), given_by_name.get(name)
        if topic is not None and topic.storage == LOG_KIND:
            if any(map(queues.have_messages, queues_of(their_topic))):
                run.foreign.append(name)
            continue
        if topic is None:
            is_as_given = before is not None and shown_topic(before) == shown_topic(their_topic)
            if is_as_given and not any(map(queues.have_messages, queues_of(their_topic))):
                continue
            topic = TopicEntry(name, number=state.take_number())
            state.topics[topic.number] = topic
            run.added.append(name)
        if before is not None and before.number != topic.number:
            before = None  # it was another one of that name
        taking.pause(topic, their_topic, before)
        taking.channels(topic, their_topic, before)
    for topic in ours.values():
        before = given_by_name.get(topic.name)
        if not is_nsqds(topic) or before is None or before.number != topic.number:
            continue
        if any(map(queues.exist, queues_of(topic))):
            run.retained.append(topic.name)
        else:
            del state.topics[topic.number]
            run.removed.append(topic.name)
    return run


@dataclass(frozen=True, slots=True)
class _TakeOver:
    """has_given: whether the given state (the one that nsqd began with) is there."""

    state: Topology
    has_given: bool
    queues: QueueFiles
    run: NsqdRun

    def pause(
        self,
        ours: TopicEntry | ChannelEntry,
        theirs: TopicEntry | ChannelEntry,
        before: TopicEntry | ChannelEntry | None,
    ) -> None:
        was_paused = before is not None and before.paused
        if theirs.paused != ours.paused and (theirs.paused != was_paused or not self.has_given):
            ours.paused, ours.pause = theirs.paused, None

    def channels(self, topic: TopicEntry, their_topic: TopicEntry, before: TopicEntry | None) -> None:
        """before: the topic as it was given to nsqd, if it was."""
        ours = {channel.name: channel for channel in topic.channels.values() if channel.trash is None}
        given_by_name = {channel.name: channel for channel in before.channels.values()} if before is not None else {}
        for theirs in their_topic.channels.values():
            channel, was = ours.pop(theirs.name, None), given_by_name.get(theirs.name)
            if channel is None:
                is_as_given = was is not None and was.paused == theirs.paused
                if is_as_given and not self.queues.have_messages(f"{topic.name}:{theirs.name}"):
                    continue
                channel = ChannelEntry(theirs.name, number=self.state.take_number())
                topic.channels[channel.number] = channel
                self.run.added.append(f"{topic.name}/{channel.name}")
            self.pause(channel, theirs, was if was is not None and was.number == channel.number else None)
        for channel in ours.values():
            was = given_by_name.get(channel.name)
            if was is None or was.number != channel.number:
                continue
            if self.queues.exist(f"{topic.name}:{channel.name}"):
                self.run.retained.append(f"{topic.name}/{channel.name}")
            else:
                del topic.channels[channel.number]
                self.run.removed.append(f"{topic.name}/{channel.name}")
