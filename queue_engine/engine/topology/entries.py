"""One topic or channel of topology.json, and its JSON; `topology.py` draws the file and explains the keys."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from queue_engine.engine.topology.trash_entry import TrashEntry, trash_of
from queue_engine.vocabulary.flow.pause import Pause, Ramp, pause_of, ramp_of
from queue_engine.vocabulary.flow.redrive import Redrive, redrive_of
from queue_engine.vocabulary.json_fields import number_of


@dataclass(slots=True)
class ChannelEntry:
    name: str
    paused: bool = False
    number: int = 0  # 0: none given yet
    start: int = 0  # the offset it began at; of a `log` topic
    pause: Pause | None = None
    ramp: Ramp | None = None
    trash: TrashEntry | None = None  # why it has no name any more; `name` is the one it had
    max_attempts: int = 0
    redrive: Redrive | None = None


@dataclass(slots=True)
class TopicEntry:
    """channels: by number."""

    name: str
    paused: bool = False
    number: int = 0
    storage: str = "diskqueue"
    channels: dict[int, ChannelEntry] = field(default_factory=dict)
    id_base: int = 0
    reserved_offset: int = 0
    released: int | None = None
    pause: Pause | None = None
    trash: TrashEntry | None = None  # as of a channel


def topic_document(topic: TopicEntry) -> dict[str, Any]:
    document: dict[str, Any] = {
        "name": topic.name,
        "paused": topic.paused,
        "number": topic.number,
        "storage": topic.storage,
        **noted(topic.pause, trash=topic.trash),
    }
    channels: list[dict[str, Any]] = [
        {
            "name": channel.name,
            "paused": channel.paused,
            "number": channel.number,
            **noted(channel.pause, channel.ramp, channel.trash),
            **quarantine_noted(channel),
        }
        for channel in topic.channels.values()
    ]
    if topic.id_base:
        document["id_base"] = topic.id_base
        document["reserved_offset"] = topic.reserved_offset
        document["released"] = topic.released
        for channel, entry in zip(topic.channels.values(), channels, strict=True):
            entry["start"] = channel.start
    document["channels"] = channels
    return document


def noted(pause: Pause | None, ramp: Ramp | None = None, trash: TrashEntry | None = None) -> dict[str, Any]:
    """The keys of a pause, a ramp and a trash entry, where there is one."""
    given = {"pause": pause, "ramp": ramp, "trash": trash}
    return {key: one.document() for key, one in given.items() if one is not None}


def quarantine_noted(channel: ChannelEntry) -> dict[str, Any]:
    """The keys of a quarantine, where they say something."""
    document: dict[str, Any] = {"max_attempts": channel.max_attempts} if channel.max_attempts else {}
    return document if channel.redrive is None else {**document, "redrive": channel.redrive.document()}


def topic_of(document: Mapping[str, Any]) -> TopicEntry:
    """The entry of a document by `topic_document`. Channels without a number get negative ones. Raises ValueError,
    KeyError or TypeError."""
    channels: dict[int, ChannelEntry] = {}
    for one in document["channels"]:
        number = number_of(one, "number")
        channel = ChannelEntry(
            name=one["name"],
            paused=flag_of(one),
            number=number,
            start=number_of(one, "start"),
            pause=pause_of(one.get("pause")),
            ramp=ramp_of(one.get("ramp")),
            trash=trash_of(one.get("trash")),
            max_attempts=number_of(one, "max_attempts"),
            redrive=redrive_of(one.get("redrive")),
        )
        if number in channels:
            raise ValueError(f"number {number} stands twice")
        channels[number or -1 - len(channels)] = channel
    return TopicEntry(
        name=document["name"],
        paused=flag_of(document),
        number=number_of(document, "number"),
        storage=str(document.get("storage", "diskqueue")),
        channels=channels,
        id_base=number_of(document, "id_base"),
        reserved_offset=number_of(document, "reserved_offset"),
        released=None if document.get("released") is None else number_of(document, "released"),
        pause=pause_of(document.get("pause")),
        trash=trash_of(document.get("trash")),
    )


def flag_of(entry: Mapping[str, Any]) -> bool:
    paused = entry.get("paused", False)
    if not isinstance(paused, bool):
        raise ValueError(f"paused is {paused!r} and neither true nor false")
    return paused
