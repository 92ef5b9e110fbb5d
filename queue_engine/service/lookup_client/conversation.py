"""The commands and replies of one connection to an nsqlookupd, without its socket.

    us → nsqlookupd   "  V1", IDENTIFY; then REGISTER and UNREGISTER for each change of a name, and PING
    nsqlookupd → us   size (4 bytes, big-endian) and that many bytes: JSON to IDENTIFY, OK to the rest, or an error

Topics that changed are noted by name and compared when there is room to send, so however much happens, no more is
waiting than the names of topics. A new connection begins with all topics.
"""

import struct
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import orjson

from queue_engine.vocabulary.clock import NS_PER_S, Clock
from queue_engine.vocabulary.errors import PenstockError

MAGIC = b"  V1"
PING_INTERVAL_NS = 15 * NS_PER_S
# nsqd gives up after one second, which a busy machine may need.
REPLY_TIMEOUT_NS = 5 * NS_PER_S
# Commands sent ahead of their replies.
AHEAD_MAX = 100
REPLY_BYTES_MAX = 1 << 20
_ERROR_SHOWN_MAX = 300  # characters of a reply
_SIZE = struct.Struct(">i")


class LookupdError(PenstockError):
    """nsqlookupd refused a command or broke the protocol: the connection is of no use any more."""


@dataclass(frozen=True, slots=True)
class TopicNumbers:
    """The numbers of a topic and its channels. A name that was deleted and created anew has another one."""

    number: int
    channels: Mapping[str, int]


class Names(Protocol):
    """The names that this server has to register."""

    def all_topics(self) -> Iterable[str]: ...

    def topic(self, name: str) -> TopicNumbers | None:
        """The numbers of a topic and its channels; None for a missing topic."""
        ...


@dataclass(frozen=True, slots=True)
class LookupdInfo:
    """nsqlookupd's answer to IDENTIFY. broadcast_address: "" when it names none."""

    broadcast_address: str
    http_port: int
    version: str


class LookupConversation:
    """Makes commands, takes replies. Belongs to the engine's thread.

    info: None until IDENTIFY is answered. channel_count: registered channels. pinged_at_ns: wall time of the
    last PING that was answered; 0: none was. refusal: why it does not take some of the names, "" when it takes all;
    they are registered anew with each PING.
    """

    def __init__(self, clock: Clock, identity: Mapping[str, Any], names: Names) -> None:
        """identity: IDENTIFY's fields."""
        self.info: LookupdInfo | None = None
        self.pinged_at_ns = 0
        self.channel_count = 0
        self.refusal = ""
        self._clock = clock
        self._identity = identity
        self._names = names
        self._received = bytearray()
        self._changed: dict[str, None] = {}
        self._refused: dict[str, None] = {}  # topics of which it did not take all
        self._registered: dict[str, TopicNumbers] = {}
        self._unsent: deque[str] = deque()  # commands of one topic
        self._awaited: deque[str] = deque()  # commands without their reply
        self._waiting_since_ns = clock.monotonic_ns()
        self._ping_at_ns = 0

    @property
    def topic_count(self) -> int:
        """The number of registered topics."""
        return len(self._registered)

    @property
    def is_up_to_date(self) -> bool:
        """Whether it has answered everything that there was to say."""
        return self.info is not None and not (self._changed or self._unsent or self._awaited or self._refused)

    def begin(self) -> bytes:
        """The first bytes."""
        body = orjson.dumps(self._identity)
        self._await("IDENTIFY")
        self._ping_at_ns = self._clock.monotonic_ns() + PING_INTERVAL_NS
        return MAGIC + b"IDENTIFY\n" + _SIZE.pack(len(body)) + body

    def changed(self, topic: str) -> None:
        """The topic, or a channel of it, has come or gone."""
        if self.info is not None:  # else all topics are to be compared anyway
            self._changed[topic] = None

    def output(self) -> bytes:
        """The bytes to send now, perhaps none."""
        if self.info is None:
            return b""
        lines = []
        if self._clock.monotonic_ns() >= self._ping_at_ns:
            self._ping_at_ns = self._clock.monotonic_ns() + PING_INTERVAL_NS
            lines.append("PING")
            self._await("PING")
            self._try_refused_again()
        while len(self._awaited) < AHEAD_MAX:
            if self._unsent:
                command = self._unsent.popleft()
                lines.append(command)
                self._await(command)
            elif self._changed:
                topic = next(iter(self._changed))
                del self._changed[topic]
                self._unsent.extend(self._commands_for(topic))
            else:
                break
        return "".join(f"{line}\n" for line in lines).encode()

    def receive(self, data: bytes) -> None:
        """Take the replies in it. Raises LookupdError."""
        self._received += data
        while len(self._received) >= _SIZE.size:
            (size,) = _SIZE.unpack_from(self._received)
            if not 0 <= size <= REPLY_BYTES_MAX:
                raise LookupdError(f"a reply has {size} bytes and the most is {REPLY_BYTES_MAX}")
            if len(self._received) < _SIZE.size + size:
                return
            reply = bytes(self._received[_SIZE.size : _SIZE.size + size])
            del self._received[: _SIZE.size + size]
            self._take(reply)

    def overdue(self) -> str:
        """Why the connection is to be given up; "" while no reply is late."""
        if self._awaited and self._clock.monotonic_ns() - self._waiting_since_ns > REPLY_TIMEOUT_NS:
            return f"no reply to {self._awaited[0]} came in {REPLY_TIMEOUT_NS // NS_PER_S} s"
        return ""

    def _await(self, command: str) -> None:
        if not self._awaited:
            self._waiting_since_ns = self._clock.monotonic_ns()
        self._awaited.append(command)

    def _take(self, reply: bytes) -> None:
        if not self._awaited:
            raise LookupdError(f"a reply came to no command: {_shown(reply)}")
        command = self._awaited.popleft()
        self._waiting_since_ns = self._clock.monotonic_ns()
        if command == "IDENTIFY":
            self.info = _read_info(reply)
            self._changed = dict.fromkeys(self._names.all_topics())
        elif reply.startswith(b"E_INVALID REGISTER refused") and command.startswith("REGISTER "):
            # It has no room. A new connection would cost time, and the names that it has.
            self.refusal = f"{command} was answered: {_shown(reply)}"
            self._refused[command.split(" ")[1]] = None
        elif reply != b"OK":
            raise LookupdError(f"{command} was answered: {_shown(reply)}")
        elif command == "PING":
            self.pinged_at_ns = self._clock.time_ns()

    def _try_refused_again(self) -> None:
        self.refusal = ""
        for topic in self._refused:
            registered = self._registered.pop(topic, None)
            self.channel_count -= len(registered.channels) if registered is not None else 0
            self._changed[topic] = None
        self._refused.clear()

    def _commands_for(self, topic: str) -> list[str]:
        """Commands that lead from a topic's registered names to its present ones."""
        registered, there_is = self._registered.get(topic), self._names.topic(topic)
        self.channel_count -= len(registered.channels) if registered is not None else 0
        commands = []
        if registered is not None and (there_is is None or there_is.number != registered.number):
            commands = [*(f"UNREGISTER {topic} {channel}" for channel in registered.channels), f"UNREGISTER {topic}"]
            registered = None
        if there_is is None:
            self._registered.pop(topic, None)
            return commands
        before = {} if registered is None else registered.channels
        for channel, number in before.items():
            if there_is.channels.get(channel) != number:
                commands.append(f"UNREGISTER {topic} {channel}")
        new = [channel for channel, number in there_is.channels.items() if before.get(channel) != number]
        if registered is None and not new:
            commands.append(f"REGISTER {topic}")
        commands += [f"REGISTER {topic} {channel}" for channel in new]
        self._registered[topic] = there_is
        self.channel_count += len(there_is.channels)
        return commands


def _read_info(reply: bytes) -> LookupdInfo:
    """Raises LookupdError."""
    try:
        fields = orjson.loads(reply)
    except orjson.JSONDecodeError:
        fields = None
    if not isinstance(fields, dict):
        raise LookupdError(f"IDENTIFY was answered: {_shown(reply)}")
    address, port, version = (fields.get(name) for name in ("broadcast_address", "http_port", "version"))
    return LookupdInfo(
        address if isinstance(address, str) else "",
        port if isinstance(port, int) and 0 < port < 1 << 16 else 0,
        version if isinstance(version, str) else "",
    )


def _shown(reply: bytes) -> str:
    return reply[:_ERROR_SHOWN_MAX].decode("utf-8", "replace")
