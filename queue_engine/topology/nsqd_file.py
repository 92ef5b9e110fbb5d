"""nsqd's own file of topics and channels: what a clean stop leaves for nsqd, and what nsqd did meanwhile.

    nsqd.dat
    {"topics":[{"name":"orders","paused":false,"channels":[{"name":"billing","paused":false}]}],"version":"1.3.0"}

A clean stop writes it with all topics of kind `diskqueue`; as its version it has "penstock", a blank and ours. nsqd
writes the file anew as soon as it starts. topology.json has the checksum of the file as it was written or read last, so
a start knows whether nsqd ran since: then nsqd's file says which topics and channels of that kind there are.

    "nsqd": {"crc": "1a2b3c4d", "current": true}      in topology.json

`current` is true from a clean stop to the next start: nsqd began with everything that exists. What is missing in its
file then was deleted by nsqd, unless its data files are there.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import orjson
from crc32c import crc32c

from queue_engine.topology.entries import ChannelEntry, TopicEntry
from queue_engine.topology.topology import LOG_KIND, Topology
from queue_engine.vocabulary.version import VERSION

_OURS = "penstock "


def nsqd_bytes(state: Topology) -> bytes:
    """The file for nsqd. Ephemeral topics and channels are not part of the state."""
    topics = [
        {
            "name": topic.name,
            "paused": topic.paused,
            "channels": [
                {"name": channel.name, "paused": channel.paused}
                for channel in topic.channels.values()
                if channel.trash is None
            ],
        }
        for topic in state.topics.values()
        if topic.storage != LOG_KIND and topic.trash is None
    ]
    return orjson.dumps({"topics": topics, "version": f"{_OURS}{VERSION}"})


def checksum(data: bytes) -> str:
    return f"{crc32c(data):08x}"


# The checksum in topology.json while there is no nsqd.dat.
NO_FILE = checksum(b"")


def is_ours(data: bytes) -> bool:
    """Whether a clean stop wrote these bytes. False for what can't be read."""
    try:
        document = orjson.loads(data)
    except orjson.JSONDecodeError:
        return False
    return isinstance(document, dict) and str(document.get("version", "")).startswith(_OURS)


@dataclass(slots=True)
class NsqdRun:
    """What nsqd did to the topics and channels while it ran: names, a channel as TOPIC/CHANNEL. kept: not in nsqd's
    file, and kept since their data files are there. foreign: topics of the log of which nsqd has one, too."""

    added: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)
    foreign: list[str] = field(default_factory=list)

    def sentences(self) -> list[str]:
        """For the server's log."""
        told = ["nsqd ran in this directory since the last stop; its topics and channels are taken over"]
        for names, what in (
            (self.added, "nsqd made"),
            (self.removed, "nsqd deleted"),
            (self.kept, "not in nsqd.dat, and kept, since their data files are there:"),
        ):
            if names:
                told.append(f"{what} {', '.join(names)}")
        told += [
            f"topic {name} is of the log, and nsqd has made one of that name: its messages are in {name}.diskqueue.* "
            "and are not delivered. Nothing was changed there. With the server stopped, move these files and nsqd.dat "
            "into another directory, and let `penstock import_nsqd` copy them"
            for name in self.foreign
        ]
        return told


def take_over(state: Topology, theirs: Topology, *, knew_all: bool, has_files: Callable[[str], bool]) -> NsqdRun:
    """Make the topics and channels of kind `diskqueue` those that nsqd's file has.

    knew_all: nsqd began with everything that `state` has; otherwise nothing is removed. has_files: whether there are
    files of the disk queue of that name."""
    run = NsqdRun()
    ours = {topic.name: topic for topic in state.topics.values() if topic.trash is None}
    for their_topic in theirs.topics.values():
        name = their_topic.name
        topic = ours.pop(name, None)
        if topic is not None and topic.storage == LOG_KIND:
            if has_files(name) or any(has_files(f"{name}:{one.name}") for one in their_topic.channels.values()):
                run.foreign.append(name)
            continue
        if topic is None:
            topic = TopicEntry(name, number=state.take_number())
            state.topics[topic.number] = topic
            run.added.append(name)
        if topic.paused != their_topic.paused:
            topic.paused, topic.pause = their_topic.paused, None
        _take_over_channels(state, topic, their_topic, run, knew_all, has_files)
    for topic in ours.values():
        if topic.storage == LOG_KIND or not knew_all:
            continue
        channels = (f"{topic.name}:{channel.name}" for channel in topic.channels.values())
        if has_files(topic.name) or any(map(has_files, channels)):
            run.kept.append(topic.name)
        else:
            del state.topics[topic.number]
            run.removed.append(topic.name)
    return run


def _take_over_channels(
    state: Topology,
    topic: TopicEntry,
    their_topic: TopicEntry,
    run: NsqdRun,
    knew_all: bool,
    has_files: Callable[[str], bool],
) -> None:
    ours = {channel.name: channel for channel in topic.channels.values() if channel.trash is None}
    for theirs in their_topic.channels.values():
        channel = ours.pop(theirs.name, None)
        if channel is None:
            channel = ChannelEntry(theirs.name, number=state.take_number())
            topic.channels[channel.number] = channel
            run.added.append(f"{topic.name}/{channel.name}")
        if channel.paused != theirs.paused:
            channel.paused, channel.pause = theirs.paused, None
    for channel in ours.values() if knew_all else ():
        if has_files(f"{topic.name}:{channel.name}"):
            run.kept.append(f"{topic.name}/{channel.name}")
        else:
            del topic.channels[channel.number]
            run.removed.append(f"{topic.name}/{channel.name}")
