"""Which topics and channels exist: the state that `topology.json` and `topology.changes` store, and its changes.

    topology.json            all that exists, as of one moment; nsqd's keys are a subset
    {"format": 3, "version": "0.1.0", "identity": "5f1c…", "has_log": true, "sequence": 7,
     "next_number": 65543, "unlisted_below": 0, "largest_msg_size": 1048576,
     "topics": [{"name": "orders", "paused": false, "number": 1, "storage": "diskqueue",
                 "channels": [{"name": "billing", "paused": true, "number": 2,
                               "pause": {"by": "anna", "reason": "bad deploy", "since_ms": 1760000000000,
                                         "until_ms": 1760000900000, "depth": 12}}]},
                {"name": "clicks", "paused": true, "number": 3, "storage": "log",
                 "id_base": 81985529216486895, "reserved_offset": 1048576, "released": 17,
                 "channels": [{"name": "counts", "paused": false, "number": 4, "start": 0}]}],
     "deleted": [5],
     "checksum": "1a2b3c4d"}

    topology.changes         the changes since, a line for each write (`files.py` draws it)
    topology.json.previous, topology.changes.previous        the same two files before the last merge

A number is given once and never again, so that records of a deleted topic can't be taken for those of another topic of
the same name: `next_number` is ahead of the numbers that were given, and exact after a clean stop. A topic of the log
has an `id_base` (offset + base = message id), `reserved_offset` (offsets below it may have been given; exact after a
clean stop) and `released` (the offset up to which messages were passed on to its channels; null while they flow), and
its channels the offset where they start. `deleted` are numbers of deleted topics whose records the log may still hold;
those below `unlisted_below` were given by a version that did not list them. `identity` is the data directory's; once
`has_log` is true, `log/identity` holds the same. `sequence` is the last change that is merged. `largest_msg_size` is
the largest --max-msg-size that was ever set: messages of that size may be on disk though only smaller ones may be
published now. A topic without `storage` is `diskqueue`. Ephemeral names are left out.

A topic or channel that is paused has a `pause` (`queue_engine/vocabulary/flow/pause.py`): who paused it, why, since
when, until when (0: no end), and how much waited then; `changed_by` and `changed_ms` tell who gave it that reason and
end later. Without one, author and reason are unknown. A channel that was resumed with a ramp has a `ramp`, {"from_ms":
…, "until_ms": …}.
An entry of the trash has a `trash` (`trash_entry.py`): who put it there by which act, until when it can be restored,
and how much it had. A topic that was deleted keeps all but its name; so does a channel, and one that was emptied leaves
a channel without a name that has the progress it had. `name` then is the former one, and may be that of another; ""
stands for the messages that waited at the topic itself.
A channel of the log may have `max_attempts` (1 to 1,000), and while it is redriven a `redrive`
(`queue_engine/vocabulary/flow/redrive.py`): {"rate": …, "total": …, "began_ms": …, "keeps_attempts": …, "by": …}.
All keys that came with format 3 stand only where they say something.

`checksum` is the CRC-32C of the document without it, written with sorted keys and no blanks. Format 2 lacks the keys
of format 3; a start merges it at once, so that no older version reads changes that it would not understand. A file
without `format` is of version 1 (up to 897736b): it has no checksum, identity, sequence or deleted numbers, and is
taken over once.
Where there is no topology.json but an nsqd.dat, that is read instead. To go back to version 1 or to nsqd, stop
cleanly: then topology.json holds everything, and its keys are a superset of theirs.

To change the format: raise FORMAT, never give an old key another meaning, keep reading files of the formats before,
and keep a file of each among the tests.
"""

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import orjson
from crc32c import crc32c

from queue_engine.engine.topology.entries import ChannelEntry, TopicEntry, flag_of, noted, topic_document, topic_of
from queue_engine.engine.topology.trash_entry import TrashEntry, trash_of
from queue_engine.vocabulary.errors import NewerTopologyError, TopologyError
from queue_engine.vocabulary.flow.pause import Pause, Ramp, pause_of, ramp_of
from queue_engine.vocabulary.flow.redrive import Redrive, redrive_of
from queue_engine.vocabulary.json_fields import number_of
from queue_engine.vocabulary.names import is_ephemeral, is_valid_name
from queue_engine.vocabulary.version import VERSION

logger = logging.getLogger(__name__)

FORMAT = 3
FORMAT_BEFORE_CHECKSUMS = 1
LOG_KIND = "log"
NSQD_WRITTEN = "nsqd_written"

Change = dict[str, Any]
"""One change as a line has it: "do" names it, the other keys are its details. Made by the functions below."""


@dataclass(slots=True)
class Topology:
    """All that exists. topics: by number. deleted: numbers that the log may still hold records of.

    format: of the file it was read from. is_checked: whether that file had a checksum, and it was right. nsqd_crc: the
    checksum of nsqd.dat as it was last read or written, `nsqd_file.NO_FILE` where there was none, "" for a file of an
    older version; nsqd_upto: the change up to which it has all that exists, -1: unknown (`nsqd_file.py`).
    """

    topics: dict[int, TopicEntry] = field(default_factory=dict)
    next_number: int = 1
    largest_msg_size: int = 0  # bytes
    deleted: set[int] = field(default_factory=set)
    unlisted_below: int = 0
    identity: str = ""
    has_log: bool = False
    sequence: int = 0
    format: int = FORMAT
    is_checked: bool = False
    nsqd_crc: str = ""
    nsqd_upto: int = -1

    @property
    def log_topics(self) -> list[TopicEntry]:
        return [topic for topic in self.topics.values() if topic.storage == LOG_KIND]

    def take_number(self) -> int:
        number = self.next_number
        self.next_number += 1
        return number

    def apply(self, change: Change) -> None:
        """Make one change. Raises TopologyError when this version does not know it, or it names a topic or channel that
        is not there."""
        try:
            _APPLY[change["do"]](self, change)
        except (KeyError, TypeError, ValueError) as exc:
            raise TopologyError(f"the change {change} can't be made: {type(exc).__name__} {exc}") from exc

    def note_given(self, number: int) -> None:
        self.next_number = max(self.next_number, number + 1)

    def to_json(self) -> bytes:
        """The bytes of topology.json."""
        document: dict[str, Any] = {
            "format": FORMAT,
            "version": VERSION,
            "identity": self.identity,
            "has_log": self.has_log,
            "sequence": self.sequence,
            "next_number": self.next_number,
            "largest_msg_size": self.largest_msg_size,
            "topics": [topic_document(topic) for topic in self.topics.values()],
            "unlisted_below": self.unlisted_below,
            "deleted": sorted(self.deleted),
        }
        if self.nsqd_crc:
            document["nsqd"] = {"crc": self.nsqd_crc, "current": self.nsqd_upto == self.sequence}
        document["checksum"] = checksum_of(document)
        return orjson.dumps(document, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)


# The changes.


def topic_created(entry: TopicEntry) -> Change:
    document = topic_document(entry)
    del document["channels"]
    return {"do": "create_topic", **document}


def channel_created(topic: int, entry: ChannelEntry) -> Change:
    return {
        "do": "create_channel",
        "topic": topic,
        "name": entry.name,
        "number": entry.number,
        "start": entry.start,
        **noted(None, trash=entry.trash),
    }


def topic_deleted(number: int) -> Change:
    return {"do": "delete_topic", "number": number}


def channel_deleted(topic: int, number: int) -> Change:
    return {"do": "delete_channel", "topic": topic, "number": number}


def topic_trashed(number: int, trash: TrashEntry) -> Change:
    """The topic has no name from here on; its number, its channels and its records stay."""
    return {"do": "trash_topic", "number": number, **noted(None, trash=trash)}


def topic_restored(number: int, name: str) -> Change:
    return {"do": "restore_topic", "number": number, "name": name}


def channel_trashed(topic: int, number: int, trash: TrashEntry) -> Change:
    """The channel has no name from here on; its number and its progress stay."""
    return {"do": "trash_channel", "topic": topic, "number": number, **noted(None, trash=trash)}


def trash_limited(topic: int, number: int, upto: int) -> Change:
    """A channel of the name of the one in the trash exists again, and has the messages from `upto` on."""
    return {"do": "limit_trash", "topic": topic, "number": number, "upto": upto}


def topic_paused(number: int, paused: bool, pause: Pause | None = None) -> Change:
    """pause: the record of the pause that begins, or goes on with another reason or end."""
    return {"do": "pause_topic", "number": number, "paused": paused, **noted(pause)}


def channel_paused(
    topic: int, number: int, paused: bool, pause: Pause | None = None, ramp: Ramp | None = None
) -> Change:
    """pause: as for a topic. ramp: how a channel that is resumed begins; None: at once, as does an end of a ramp."""
    return {"do": "pause_channel", "topic": topic, "number": number, "paused": paused, **noted(pause, ramp)}


def max_attempts_set(topic: int, number: int, max_attempts: int) -> Change:
    """After how many deliveries a message of the channel is quarantined; 0: never."""
    return {"do": "max_attempts", "topic": topic, "number": number, "max_attempts": max_attempts}


def channel_redriven(topic: int, number: int, redrive: Redrive | None) -> Change:
    """A redrive begins; None: it is done or cancelled."""
    document = None if redrive is None else redrive.document()
    return {"do": "redrive", "topic": topic, "number": number, "redrive": document}


def released_upto(number: int, offset: int | None) -> Change:
    """How far a topic's messages went on to its channels, None: they flow."""
    return {"do": "release", "number": number, "released": offset}


def offsets_reserved(reserved: Iterable[tuple[int, int]]) -> Change:
    """(topic number, offset): offsets below may be given."""
    return {"do": "reserve", "offsets": [list(one) for one in reserved]}


def numbers_reserved(next_number: int) -> Change:
    return {"do": "number", "next_number": next_number}


def largest_msg_size_raised(size_bytes: int) -> Change:
    return {"do": "msg_size", "largest_msg_size": size_bytes}


def log_joined() -> Change:
    """The log in this data directory carries its identity."""
    return {"do": "join_log"}


def numbers_unknown(numbers: Iterable[int]) -> Change:
    """The log holds records of these numbers, which are unknown here; the operator allows that they are dropped."""
    return {"do": "let_go", "numbers": list(numbers)}


def numbers_forgotten(numbers: Iterable[int]) -> Change:
    """The log holds nothing of these deleted topics any more."""
    return {"do": "forget", "numbers": list(numbers)}


def nsqd_written(crc: str, upto: int) -> Change:
    """nsqd.dat has this checksum, and all changes up to this one."""
    return {"do": NSQD_WRITTEN, "crc": crc, "upto": upto}


def _create_topic(state: Topology, change: Change) -> None:
    topic = topic_of({**change, "channels": []})
    if topic.number in state.topics:
        raise ValueError(f"topic number {topic.number} is there already")
    # Names are looked at when all is read (`check_names`): to look for each would take a second for 10,000.
    state.topics[topic.number] = topic
    state.note_given(topic.number)


def _create_channel(state: Topology, change: Change) -> None:
    channel = ChannelEntry(
        str(change["name"]),
        number=number_of(change, "number"),
        start=number_of(change, "start"),
        trash=trash_of(change.get("trash")),
    )
    state.topics[change["topic"]].channels[channel.number] = channel
    state.note_given(channel.number)


def _delete_topic(state: Topology, change: Change) -> None:
    topic = state.topics.pop(change["number"])
    if topic.storage == LOG_KIND:
        state.deleted.add(topic.number)


def _delete_channel(state: Topology, change: Change) -> None:
    topic = state.topics.get(change["topic"])
    if topic is not None:  # else it was deleted, and with it the channel, while this was on its way
        del topic.channels[change["number"]]


def _trash_topic(state: Topology, change: Change) -> None:
    state.topics[change["number"]].trash = trash_of(change["trash"])


def _restore_topic(state: Topology, change: Change) -> None:
    topic = state.topics[change["number"]]
    topic.name, topic.trash = str(change["name"]), None


def _trash_channel(state: Topology, change: Change) -> None:
    state.topics[change["topic"]].channels[change["number"]].trash = trash_of(change["trash"])


def _limit_trash(state: Topology, change: Change) -> None:
    channel = state.topics[change["topic"]].channels[change["number"]]
    if channel.trash is not None:
        channel.trash = replace(channel.trash, upto=number_of(change, "upto"))


def _pause_topic(state: Topology, change: Change) -> None:
    topic = state.topics[change["number"]]
    topic.paused, topic.pause = flag_of(change), pause_of(change.get("pause"))


def _pause_channel(state: Topology, change: Change) -> None:
    channel = state.topics[change["topic"]].channels[change["number"]]
    channel.paused, channel.pause = flag_of(change), pause_of(change.get("pause"))
    channel.ramp = ramp_of(change.get("ramp"))


def _set_max_attempts(state: Topology, change: Change) -> None:
    state.topics[change["topic"]].channels[change["number"]].max_attempts = number_of(change, "max_attempts")


def _redrive(state: Topology, change: Change) -> None:
    topic = state.topics.get(change["topic"])
    channel = None if topic is None else topic.channels.get(change["number"])
    if channel is not None:  # else it was deleted while the end of its redrive was on its way
        channel.redrive = redrive_of(change["redrive"])


def _release(state: Topology, change: Change) -> None:
    topic = state.topics.get(change["number"])
    if topic is not None:  # else it was deleted while its last consumer left
        topic.released = None if change["released"] is None else number_of(change, "released")


def _reserve(state: Topology, change: Change) -> None:
    for number, offset in change["offsets"]:
        topic = state.topics.get(number)
        if topic is not None:  # else it was deleted while this was on its way
            topic.reserved_offset = max(topic.reserved_offset, offset)


def _reserve_numbers(state: Topology, change: Change) -> None:
    state.next_number = max(state.next_number, number_of(change, "next_number", 1))


def _grow_msg_size(state: Topology, change: Change) -> None:
    state.largest_msg_size = max(state.largest_msg_size, number_of(change, "largest_msg_size"))


def _join_log(state: Topology, change: Change) -> None:
    state.has_log = True


def _let_go(state: Topology, change: Change) -> None:
    for number in change["numbers"]:
        state.deleted.add(number)
        state.note_given(number)


def _forget(state: Topology, change: Change) -> None:
    state.deleted.difference_update(change["numbers"])


def _note_nsqd_file(state: Topology, change: Change) -> None:
    state.nsqd_crc, state.nsqd_upto = str(change["crc"]), number_of(change, "upto")


_APPLY: dict[str, Callable[[Topology, Change], None]] = {
    "create_topic": _create_topic,
    "create_channel": _create_channel,
    "delete_topic": _delete_topic,
    "delete_channel": _delete_channel,
    "trash_topic": _trash_topic,
    "restore_topic": _restore_topic,
    "trash_channel": _trash_channel,
    "limit_trash": _limit_trash,
    "pause_topic": _pause_topic,
    "pause_channel": _pause_channel,
    "max_attempts": _set_max_attempts,
    "redrive": _redrive,
    "release": _release,
    "reserve": _reserve,
    "number": _reserve_numbers,
    "msg_size": _grow_msg_size,
    "join_log": _join_log,
    "let_go": _let_go,
    "forget": _forget,
    NSQD_WRITTEN: _note_nsqd_file,
}


# The file.


def checksum_of(document: Mapping[str, Any]) -> str:
    """The checksum of topology.json's document; its own "checksum" is left out."""
    content = {key: value for key, value in document.items() if key != "checksum"}
    return f"{crc32c(orjson.dumps(content, option=orjson.OPT_SORT_KEYS)):08x}"


def parse_topology(text: bytes, file_name: str, *, accepts_any: bool = False) -> Topology:
    """The topology of a file's bytes. Raises TopologyError, naming the file and its fault.

    Names that are not valid are left out with a warning, as nsqd does. accepts_any: without a look at the checksum.
    """
    try:
        document = orjson.loads(text)
        if not isinstance(document, dict):
            raise ValueError(f"it holds a {type(document).__name__} and not an object")
        its_format = number_of(document, "format", FORMAT_BEFORE_CHECKSUMS)
        _check_format(document, its_format, file_name)
        is_checked = its_format > FORMAT_BEFORE_CHECKSUMS or "checksum" in document
        if is_checked and not accepts_any and document.get("checksum") != checksum_of(document):
            raise ChecksumError(file_name, document.get("checksum"), checksum_of(document))
        state = _topology_of(document, file_name)
    except TopologyError:
        raise
    except (ValueError, KeyError, TypeError, AttributeError) as exc:
        raise TopologyError(f"{file_name} can't be read: {type(exc).__name__} {exc}; it was left as it is") from exc
    state.format = its_format
    state.is_checked = is_checked
    return state


class ChecksumError(TopologyError):
    """topology.json does not match its checksum."""

    def __init__(self, file_name: str, found: object, expected: str) -> None:
        super().__init__(
            f"{file_name} does not match its checksum: it says {found or 'none'} and its content has "
            f"{expected}; it was left as it is"
        )


def _check_format(document: Mapping[str, Any], its_format: int, file_name: str) -> None:
    """Raises NewerTopologyError when a newer version wrote the file."""
    version = str(document.get("version", ""))
    if its_format > FORMAT:
        raise NewerTopologyError(
            f"{file_name} has format {its_format}, and this version of Penstock, {VERSION}, knows formats up to "
            f"{FORMAT}; it was left as it is. {_who_wrote(version)}"
        )


def _who_wrote(version: str) -> str:
    if version in ("", VERSION):
        return f"Start the newer build of Penstock{version and f' {version}'} that wrote it"
    return f"Start version {version}, which wrote it"


def _topology_of(document: Mapping[str, Any], file_name: str) -> Topology:
    found: list[TopicEntry] = []
    for one in document.get("topics") or ():
        if not _is_usable(one["name"], file_name):
            continue
        usable = [
            channel
            for channel in one.get("channels") or ()
            if (channel["name"] == "" and "trash" in channel) or _is_usable(channel["name"], file_name)
        ]
        found.append(topic_of({**one, "channels": usable}))
    state = Topology(
        next_number=number_of(document, "next_number", 1),
        largest_msg_size=number_of(document, "largest_msg_size"),
        deleted=set(document.get("deleted") or ()),
        unlisted_below=number_of(document, "unlisted_below"),
        identity=str(document.get("identity", "")),
        has_log=bool(document.get("has_log", False)),
        sequence=number_of(document, "sequence"),
    )
    nsqd = document.get("nsqd") or {}
    state.nsqd_crc = str(nsqd.get("crc", ""))
    state.nsqd_upto = state.sequence if nsqd.get("current", False) else -1
    channels = [(topic, channel) for topic in found for channel in topic.channels.values()]
    given = [topic.number for topic in found] + [channel.number for _, channel in channels]
    for number in [*given, *state.deleted]:
        state.note_given(number)
    _check_unique([f"number {number}" for number in given if number > 0])
    # nsqd's file has none. Negative ones stand for "none yet" until here.
    for topic in found:
        topic.number = topic.number if topic.number > 0 else state.take_number()
        topic.channels = {
            channel.number if channel.number > 0 else state.take_number(): channel
            for channel in topic.channels.values()
        }
        for number, channel in topic.channels.items():
            channel.number = number
        state.topics[topic.number] = topic
    if "format" not in document:
        state.unlisted_below = state.next_number
    check_names(state)
    return state


def check_names(state: Topology) -> None:
    """Raises ValueError when two topics, or two channels of one topic, have the same name; in the trash nothing has
    one."""
    _check_unique([f"topic {topic.name}" for topic in state.topics.values() if topic.trash is None])
    for topic in state.topics.values():
        names = [channel.name for channel in topic.channels.values() if channel.trash is None]
        _check_unique([f"channel {topic.name}/{name}" for name in names])


def _check_unique(things: list[str]) -> None:
    seen: set[str] = set()
    for thing in things:
        if thing in seen:
            raise ValueError(f"{thing} stands twice")
        seen.add(thing)


def _is_usable(name: object, file_name: str) -> bool:
    if isinstance(name, str) and is_valid_name(name) and not is_ephemeral(name):
        return True
    logger.warning("name skipped file=%s name=%r", file_name, name)
    return False
