"""topology.json: which topics and channels exist, and which are paused.

The JSON of nsqd's metadata file, with keys of our own beside its:

    {"version": "0.1.0", "next_number": 65543, "largest_msg_size": 1048576,
     "topics": [{"name": "orders", "paused": false, "number": 1, "storage": "diskqueue",
                 "channels": [{"name": "billing", "paused": true, "number": 2}]},
                {"name": "clicks", "paused": true, "number": 3, "storage": "log",
                 "id_base": 81985529216486895, "reserved_offset": 1048576, "released": 17,
                 "channels": [{"name": "counts", "paused": false, "number": 4, "start": 0}]}]}

Numbers are given once and never again, so that what a deleted topic left behind can't be taken for another's of the
same name: `next_number` is ahead of what was given by more than is given between two writes of this file, and exact
after a clean stop. A topic of the log has an `id_base` (offset + base = message id), `reserved_offset` (offsets below
it may have been given; exact after a clean stop) and `released` (how far its messages went on to its channels, where
they don't flow; null where they do), and its channels the offset where they start. `largest_msg_size` is the largest
--max-msg-size there ever was: messages of that size may be on disk though only smaller ones may be published now. A
topic without `storage` is `diskqueue`. Ephemeral names are left out. Where there is no topology.json but an nsqd.dat,
that is read instead: nsqd's keys are a subset. To go back, copy topology.json over nsqd.dat.

To change the format: add keys, never give an old key another meaning, keep reading files without the new key,
and keep a file of each version among the tests.
"""

import json
import logging
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from queue_engine.errors import TopologyError
from queue_engine.names import is_ephemeral, is_valid_name
from queue_engine.storage.background import Background
from queue_engine.storage.files import Files
from queue_engine.ticket import Ticket

logger = logging.getLogger(__name__)

FILE_NAME = "topology.json"
NSQD_FILE_NAME = "nsqd.dat"


@dataclass(frozen=True, slots=True)
class ChannelEntry:
    name: str
    paused: bool = False
    number: int = 0  # 0: none given yet
    start: int = 0  # the offset it began at; of a `log` topic


@dataclass(frozen=True, slots=True)
class TopicEntry:
    name: str
    paused: bool = False
    number: int = 0
    storage: str = "diskqueue"
    channels: tuple[ChannelEntry, ...] = ()
    id_base: int = 0
    reserved_offset: int = 0
    released: int | None = None


@dataclass(frozen=True, slots=True)
class Topology:
    """The file's content."""

    topics: tuple[TopicEntry, ...] = ()
    next_number: int = 1
    largest_msg_size: int = 0  # bytes

    def to_json(self, version: str) -> bytes:
        document = {
            "topics": [_topic_document(topic) for topic in self.topics],
            "next_number": self.next_number,
            "largest_msg_size": self.largest_msg_size,
            "version": version,
        }
        return json.dumps(document, indent=1).encode() + b"\n"


def _topic_document(topic: TopicEntry) -> dict[str, object]:
    document: dict[str, object] = {
        "name": topic.name,
        "paused": topic.paused,
        "number": topic.number,
        "storage": topic.storage,
    }
    channels: list[dict[str, object]] = [
        {"name": channel.name, "paused": channel.paused, "number": channel.number} for channel in topic.channels
    ]
    if topic.id_base:
        document |= {
            "id_base": topic.id_base,
            "reserved_offset": topic.reserved_offset,
            "released": topic.released,
        }
        for channel, entry in zip(topic.channels, channels, strict=True):
            entry["start"] = channel.start
    return document | {"channels": channels}


def parse_topology(text: bytes, file_name: str) -> Topology:
    """The topology of a file's bytes. Raises TopologyError, naming the file and what is wrong with it.

    Names that are not valid are left out with a warning, as nsqd does.
    """
    try:
        document = json.loads(text)
        if not isinstance(document, dict):
            raise ValueError(f"it holds a {type(document).__name__} and not an object")
        topics = tuple(
            TopicEntry(
                name=topic["name"],
                paused=_flag(topic),
                number=_number(topic, "number", 0),
                storage=str(topic.get("storage", "diskqueue")),
                channels=tuple(
                    ChannelEntry(
                        name=channel["name"],
                        paused=_flag(channel),
                        number=_number(channel, "number", 0),
                        start=_number(channel, "start", 0),
                    )
                    for channel in topic.get("channels") or ()
                    if _is_usable(channel["name"], file_name)
                ),
                id_base=_number(topic, "id_base", 0),
                reserved_offset=_number(topic, "reserved_offset", 0),
                released=None if topic.get("released") is None else _number(topic, "released", 0),
            )
            for topic in document.get("topics") or ()
            if _is_usable(topic["name"], file_name)
        )
        next_number = _number(document, "next_number", 1)
        largest_msg_size = _number(document, "largest_msg_size", 0)
        _check_unique([f"topic {topic.name}" for topic in topics])
        _check_unique([f"channel {topic.name}/{channel.name}" for topic in topics for channel in topic.channels])
        used = [topic.number for topic in topics] + [one.number for topic in topics for one in topic.channels]
        _check_unique([f"number {number}" for number in used if number])
    except (ValueError, KeyError, TypeError, AttributeError) as exc:
        raise TopologyError(f"{file_name} can't be read: {type(exc).__name__} {exc}; it was left as it is") from exc
    return Topology(
        topics=topics,
        next_number=max([next_number, *(number + 1 for number in used)]),
        largest_msg_size=largest_msg_size,
    )


def _flag(entry: dict[str, object]) -> bool:
    paused = entry.get("paused", False)
    if not isinstance(paused, bool):
        raise ValueError(f"paused is {paused!r} and neither true nor false")
    return paused


def _number(entry: dict[str, object], key: str, default: int) -> int:
    number = entry.get(key, default)
    if not isinstance(number, int) or isinstance(number, bool) or number < 0:
        raise ValueError(f"{key} is {number!r} and not a number from 0 up")
    return number


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


def load_topology(directory: str) -> Topology:
    """What the data directory holds; an empty topology where there is no file. Raises TopologyError."""
    for file_name in (FILE_NAME, NSQD_FILE_NAME):
        path = Path(directory) / file_name
        try:
            text = path.read_bytes()
        except FileNotFoundError:
            continue
        except OSError as exc:
            raise TopologyError(f"{path} can't be read: {exc.strerror}; it was left as it is") from exc
        return parse_topology(text, str(path))
    return Topology()


class TopologyFile:
    """Writes topology.json away from the engine's thread; changes that come meanwhile share the next write.

    compose: the file's content as of now, and what is to be called once that is on the disk.
    """

    def __init__(
        self,
        directory: str,
        files: Files,
        background: Background,
        compose: Callable[[], tuple[bytes, Callable[[], None]]],
    ) -> None:
        self._path = str(Path(directory) / FILE_NAME)
        self._files = files
        self._background = background
        self._compose = compose
        self._is_writing = False
        self._next: Ticket | None = None  # of the write that follows the one under way
        self.error: TopologyError | None = None  # why the newest write failed; None after one that did not

    def write_now(self) -> None:
        """Write the present state in this thread, while none is being written. Raises TopologyError."""
        assert not self._is_writing
        content, durable = self._compose()
        try:
            self._files.replace(self._path, content)
        except OSError as exc:
            self.error = TopologyError(f"{self._path} can't be written: {exc}")
            raise self.error from exc
        self.error = None
        durable()

    def save(self) -> Ticket:
        """Write the present state; the ticket is done when it is on disk, and rejected with TopologyError."""
        if self._next is None:
            self._next = Ticket()
        ticket = self._next
        if not self._is_writing:
            self._start()
        return ticket

    def _start(self) -> None:
        ticket = self._next
        assert ticket is not None
        self._next = None
        self._is_writing = True
        # Composed now: everything that was changed before this moment, and nothing after.
        content, durable = self._compose()

        def written(error: Exception | None) -> None:
            self._is_writing = False
            if error is None:
                self.error = None
                durable()
                ticket.resolve()
            else:
                logger.error("topology not written path=%s error=%s", self._path, error)
                self.error = TopologyError(f"{self._path} can't be written: {error}")
                ticket.reject(self.error)
            if self._next is not None and not self._is_writing:
                self._start()

        self._background.submit(lambda: self._files.replace(self._path, content), written)
