"""The parser turns a client's bytes into commands. Its only state is the bytes of an unfinished command.

    command line:  VERB [SP parameter]… LF     (a CR before the LF is dropped)
    IDENTIFY AUTH  line, then | size i32 | body |
    PUB DPUB       line, then | size i32 | body |
    MPUB           line, then | size i32 | count i32 | count × ( size i32 | body ) |
                   the first size counts everything behind it

Numbers before bodies are signed, big-endian. The parser checks in nsqd's order and refuses with nsqd's errors: the
line, the connection's state (by `admit`), the parameters, and each length as soon as it can be read, before it awaits
or allocates anything behind it. It differs from nsqd in one point: the messages of an MPUB must fill its body
exactly, while nsqd reads the announced number of messages even beyond the body.

The two hot paths are MPUB and a series of FIN lines. The parser takes a series in bulk at its own position; it never
searches for one, since a body may contain bytes that look like one.
"""

import re
import struct
from collections.abc import Callable
from functools import partial

from queue_engine.vocabulary.errors import ProtocolError
from queue_engine.vocabulary.names import NAME_LENGTH_MAX
from queue_engine.wire.protocol.commands import NOP, Auth, Command, Dpub, Fin, Identify, Mpub, Pub
from queue_engine.wire.protocol.line_commands import LineCommands
from queue_engine.wire.protocol.mpub_body import mpub_count_refused, mpub_error, split_messages
from queue_engine.wire.protocol.words import invalid, parse_number, quoted, text_of, topic_name

LINE_BYTES_MAX = 16 << 10
# An MPUB's size and count.
_LENGTHS_BYTES = 8
# The bytes that `hold` waits for: more than any connection sends.
_MORE_THAN_EVER_COMES = 1 << 62

# A shorter read is joined with the ones before it: a client that sends its body byte by byte must not cost an object
# for each byte.
_SMALL_READ_BYTES = 4 << 10
_GATHERED_BYTES_MAX = 64 << 10

_FIN_LINE_BYTES = 21
# Ids with other bytes in them are taken line by line.
# Greedy and not possessive, which would be a little faster: in Python 3.11.2, which is Debian 12's, a possessive
# repeat of a group may end in the middle of a line that turned out not to fit.
_match_fins = re.compile(rb"(?:FIN [!-~]{16}\n)+").match
# The ids of so many lines in one step, largest steps first: a slice in Python costs five times as much.
_FIN_STEPS = [(lines, struct.Struct("4x16sx" * lines).unpack_from) for lines in (256, 32, 4, 1)]
_unpack_size_from = struct.Struct(">i").unpack_from

_PUB_LINE_BYTES_MAX = len("PUB ") + NAME_LENGTH_MAX + len("\n")
_PUB_LINES_MAX = 1 << 14


class _PubTopics(dict[bytes, str]):
    """PUB line, with its newline → the topic that it names. A cache of valid lines for all connections."""

    def note(self, line: bytes, topic: str) -> None:
        if len(self) >= _PUB_LINES_MAX:
            self.clear()
        self[line] = topic


_pub_topics = _PubTopics()

Admit = Callable[[bytes, list[bytes]], bool | None]
# A command's method with the words of its line; or `Parser._held`.
_ReadBody = Callable[[], Command | None]


class Parser:
    """Turns the bytes behind a client's magic into commands.

    Feed it whole socket reads, then call `next` until it returns None. The first ProtocolError ends it: from then on
    `feed` does nothing and `next` returns None.
    """

    def __init__(
        self,
        *,
        max_msg_size: int,
        max_body_size: int,
        max_mpub_messages: int,
        max_req_timeout_ms: int,
        max_rdy_count: int,
    ) -> None:
        """Sizes in bytes. max_msg_size: one message's body; max_body_size: the body of MPUB, IDENTIFY and AUTH.
        max_mpub_messages: how many messages one MPUB may have."""
        self.admit: Admit | None = None
        """Called with any verb and all words of its line before the parser checks any parameter.

        It may raise ProtocolError. When it returns True, the line becomes NOP (for commands without a body only), as
        RDY after CLS does. After a connection's first PUB it is not called for PUB lines in the cache.
        """
        self.check_mpub: Callable[[str], None] | None = None
        """Called with the topic of an MPUB before its body is read. It may raise ProtocolError."""
        self._max_msg_size = max_msg_size
        self._max_body_size = max_body_size
        self._max_mpub_messages = max_mpub_messages
        self._max_req_timeout_ms = max_req_timeout_ms
        # The parser reads _buffer from _position on. Too short a rest moves to _chunks and is joined with later
        # reads when there are enough bytes: once a command, not once a read.
        self._buffer = b""
        self._position = 0
        self._chunks: list[bytes | bytearray] = []
        self._chunk_bytes = 0
        self._needed_bytes = 0  # bytes that the next step needs; 0: parse at once
        self._awaits_line = False  # a newline is enough, too
        self._read_body: _ReadBody | None = None  # reads the body of the command whose line is parsed
        self._is_ended = False
        self._is_held = False
        self._has_admitted_pub = False
        self._verbs: dict[bytes, Callable[[list[bytes]], Command | None]] = {
            **LineCommands(max_req_timeout_ms=max_req_timeout_ms, max_rdy_count=max_rdy_count).verbs,
            b"PUB": self._pub,
            b"MPUB": self._mpub,
            b"DPUB": self._dpub,
            b"IDENTIFY": self._identify,
            b"AUTH": self._auth,
        }

    @property
    def buffered_bytes(self) -> int:
        """Bytes that are fed and not yet part of a returned command."""
        return len(self._buffer) - self._position + self._chunk_bytes

    @property
    def awaited_body_bytes(self) -> int:
        """The size of the unfinished body; 0 when there is none, or its size has not come yet. Valid after `next`
        returned None."""
        # While only a body's length, or an MPUB's count, is missing, _needed_bytes is that small.
        if self._is_held:
            return 0
        return self._needed_bytes if self._read_body is not None and self._needed_bytes > _LENGTHS_BYTES else 0

    @property
    def in_progress(self) -> bool:
        """Whether there is an unfinished command. Valid after `next` returned None."""
        if self._is_held:
            return False
        return bool(self._read_body is not None or self._chunks or self._position != len(self._buffer))

    def feed(self, data: bytes) -> None:
        """Take a socket read. It is not copied until a command is complete."""
        if self._is_ended or not data:
            return
        if not self._chunks and self._position == len(self._buffer):
            self._buffer = data
            self._position = 0
            return
        if self._awaits_line and b"\n" in data:
            self._needed_bytes = 0
        self._chunk_bytes += len(data)
        chunks = self._chunks
        if len(data) >= _SMALL_READ_BYTES:
            chunks.append(data)
        elif chunks and type(chunks[-1]) is bytearray and len(chunks[-1]) < _GATHERED_BYTES_MAX:
            chunks[-1] += data
        else:
            chunks.append(bytearray(data))

    def whole_pub(self, data: bytes) -> tuple[str, bytes] | None:
        """Topic and body when `data` is exactly one PUB, its line is in the cache and the parser holds no other bytes;
        otherwise None, and the caller feeds it. A publisher that waits for each OK sends such data only."""
        if self._read_body is not None or self._chunks or self._position != len(self._buffer):
            return None
        body_at = data.find(b"\n", 0, _PUB_LINE_BYTES_MAX) + 5
        topic = _pub_topics.get(data[: body_at - 4])
        size = len(data) - body_at
        if topic is None or not 0 < size <= self._max_msg_size or not self._has_admitted_pub:
            return None
        return (topic, data[body_at:]) if _unpack_size_from(data, body_at - 4)[0] == size else None

    def _cached_pub(self) -> Pub | None:
        """The command at the position, which moves behind it, when it is a whole PUB whose line is in the cache."""
        buffer, start = self._buffer, self._position
        body_at = buffer.find(b"\n", start, start + _PUB_LINE_BYTES_MAX) + 5
        topic = _pub_topics.get(buffer[start : body_at - 4])
        if topic is None or body_at > len(buffer) or not self._has_admitted_pub:
            return None
        size: int = _unpack_size_from(buffer, body_at - 4)[0]
        end = body_at + size
        if not 0 < size <= self._max_msg_size or end > len(buffer):
            return None
        self._position = end
        return Pub(topic, buffer[body_at:end])

    def next(self) -> Command | None:
        """The next command, or None when more bytes are needed.

        Raises ProtocolError, always fatal, with nsqd's text.
        """
        if self._position == len(self._buffer) and not self._chunks:
            return None  # the usual case: everything fed is parsed
        if self._is_ended:
            return None
        if self._read_body is None and not self._chunks:
            pub = self._cached_pub()
            if pub is not None:
                if self._position == len(self._buffer):
                    self._buffer = b""
                    self._position = 0
                return pub
        try:
            while True:
                if self._chunks and self._position == len(self._buffer):
                    if self._chunk_bytes < self._needed_bytes:
                        return None
                    self._buffer = b"".join(self._chunks)
                    self._position = 0
                    self._chunks = []
                    self._chunk_bytes = 0
                self._needed_bytes = 0
                self._awaits_line = False
                read_body = self._read_body
                if read_body is None:
                    command = self._line()
                else:
                    command = read_body()
                if command is not None:
                    self._read_body = None
                    if self._position == len(self._buffer):
                        self._buffer = b""  # an idle connection holds no memory
                        self._position = 0
                    return command
                rest = len(self._buffer) - self._position
                if rest:
                    self._chunks.insert(0, self._buffer[self._position :])
                    self._chunk_bytes += rest
                self._buffer = b""
                self._position = 0
                # A chunk that was fed before the parser began to await a newline may hold it.
                if self._awaits_line and b"\n" in b"".join(self._chunks[1:]):
                    self._needed_bytes = 0
                if not self._chunks:
                    return None
        except ProtocolError:
            self.end()
            raise

    def hold(self) -> None:
        """Return no command until `release`; bytes fed meanwhile wait."""
        self._is_held = True
        self._read_body = self._held

    def _held(self) -> None:
        self._needed_bytes = _MORE_THAN_EVER_COMES

    def release(self) -> None:
        """End `hold`."""
        self._is_held = False
        self._read_body = None
        self._needed_bytes = 0

    def finish(self) -> None:
        """The client sends nothing more: drop a line that is cut off, as nsqd does.

        Raises ProtocolError for a command whose body is cut off, with nsqd's text. Valid after `next` returned None.
        """
        read_body, rest = self._read_body, self._buffer[self._position :] + b"".join(self._chunks)
        self.end()
        if not isinstance(read_body, partial):
            return
        verb: str = read_body.args[0][0].decode()
        if verb in ("PUB", "DPUB"):
            missing = "message body size" if len(rest) < 4 else "message body"
            raise ProtocolError("E_BAD_MESSAGE", f"{verb} failed to read {missing}")
        if verb == "MPUB" and len(rest) >= 4:
            if len(rest) < _LENGTHS_BYTES:
                raise ProtocolError("E_BAD_BODY", "MPUB failed to read message count")
            raise mpub_error(rest, 4, len(rest), self._max_msg_size)
        raise ProtocolError("E_BAD_BODY", f"{verb} failed to read {'body size' if len(rest) < 4 else 'body'}")

    def take_rest(self) -> bytes:
        """The bytes behind the last command: the parser gives them up, for they belong to a layer below."""
        rest = b"".join((self._buffer[self._position :], *self._chunks))
        self._buffer = b""
        self._position = 0
        self._chunks = []
        self._chunk_bytes = 0
        return rest

    def end(self) -> None:
        """Drop the unfinished command; from now on `feed` does nothing and `next` returns None."""
        self._is_ended = True
        self._has_admitted_pub = False
        self._buffer = b""
        self._position = 0
        self._chunks = []
        self._chunk_bytes = 0
        self._read_body = None

    # Each of the following reads from _position and moves it behind its command. When the buffer ends too early it
    # sets _needed_bytes and returns None.

    def _line(self) -> Command | None:
        buffer = self._buffer
        start = self._position
        if buffer[start : start + 1] == b"F":
            series = _match_fins(buffer, start)
            if series is not None:
                return self._fin_series(series.end())
        end = buffer.find(b"\n", start, start + LINE_BYTES_MAX)
        if end < 0:
            if len(buffer) - start >= LINE_BYTES_MAX:
                raise invalid(f"command line longer than {LINE_BYTES_MAX} bytes")
            self._needed_bytes = LINE_BYTES_MAX
            self._awaits_line = True
            return None
        self._position = end + 1
        if end > start and buffer[end - 1] == 13:  # CR
            end -= 1
        params = buffer[start:end].split(b" ")
        verb = params[0]
        read = self._verbs.get(verb)
        is_passed_over = self.admit is not None and self.admit(verb, params)
        if read is None:
            raise invalid(f"invalid command {text_of(verb)}")
        if is_passed_over:
            return NOP
        return read(params)

    def _fin_series(self, end: int) -> Command:
        buffer = self._buffer
        at = self._position
        self._position = end
        # No FIN changes the connection's state: `admit` is called once for all.
        first = buffer[at + 4 : at + 20]
        if self.admit is not None and self.admit(b"FIN", [b"FIN", first]):
            return NOP
        count = (end - at) // _FIN_LINE_BYTES
        if count == 1:
            return Fin([first])
        ids: list[bytes] = []
        for lines, unpack in _FIN_STEPS:
            while count >= lines:
                ids += unpack(buffer, at)
                at += lines * _FIN_LINE_BYTES
                count -= lines
        return Fin(ids)

    def _pub(self, params: list[bytes]) -> Command | None:
        if len(params) < 2:
            raise invalid("PUB insufficient number of parameters")
        topic = topic_name("PUB", params[1])
        if topic is None:
            raise ProtocolError("E_BAD_TOPIC", f"PUB topic name {quoted(params[1])} is not valid")
        self._has_admitted_pub = True
        if len(params) == 2:
            _pub_topics.note(b"PUB " + params[1] + b"\n", topic)
        body = self._message_body("PUB")
        if body is None:
            self._read_body = partial(self._pub, params)
            return None
        return Pub(topic, body)

    def _dpub(self, params: list[bytes]) -> Command | None:
        if len(params) < 3:
            raise invalid("DPUB insufficient number of parameters")
        topic = topic_name("DPUB", params[1])
        if topic is None:
            raise ProtocolError("E_BAD_TOPIC", f"DPUB topic name {quoted(params[1])} is not valid")
        try:
            defer_ms = parse_number(params[2])
        except ValueError:
            raise invalid(f"DPUB could not parse timeout {text_of(params[2])}") from None
        if defer_ms > self._max_req_timeout_ms:
            raise invalid(f"DPUB timeout {defer_ms} out of range 0-{self._max_req_timeout_ms}")
        body = self._message_body("DPUB")
        if body is None:
            self._read_body = partial(self._dpub, params)
            return None
        return Dpub(topic, defer_ms, body)

    def _message_body(self, verb: str) -> bytes | None:
        at = self._position
        buffer = self._buffer
        if len(buffer) - at < 4:
            self._needed_bytes = 4
            return None
        size: int = _unpack_size_from(buffer, at)[0]
        if size <= 0:
            raise ProtocolError("E_BAD_MESSAGE", f"{verb} invalid message body size {size}")
        if size > self._max_msg_size:
            raise ProtocolError("E_BAD_MESSAGE", f"{verb} message too big {size} > {self._max_msg_size}")
        end = at + 4 + size
        if end > len(buffer):
            self._needed_bytes = 4 + size
            return None
        self._position = end
        return buffer[at + 4 : end]

    def _identify(self, params: list[bytes]) -> Command | None:
        size = self._body_size("IDENTIFY")
        if size is None:
            self._read_body = partial(self._identify, params)
            return None
        return Identify(self._take_sized(size))

    def _auth(self, params: list[bytes]) -> Command | None:
        if len(params) != 1:
            raise invalid("AUTH invalid number of parameters")
        size = self._body_size("AUTH")
        if size is None:
            self._read_body = partial(self._auth, params)
            return None
        return Auth(self._take_sized(size))

    def _take_sized(self, size: int) -> bytes:
        start = self._position + 4
        self._position = start + size
        return self._buffer[start : start + size]

    def _body_size(self, verb: str, *, count_too: bool = False) -> int | None:
        """The size of the body that begins at _position, once all of it is in the buffer.

        count_too: the body begins with the number of messages, which is checked before the rest has come.
        """
        at = self._position
        buffer = self._buffer
        if len(buffer) - at < 4:
            self._needed_bytes = 4
            return None
        size: int = _unpack_size_from(buffer, at)[0]
        # nsqd checks the two bounds in either order; no size breaks both.
        if size > self._max_body_size:
            raise ProtocolError("E_BAD_BODY", f"{verb} body too big {size} > {self._max_body_size}")
        if size <= 0:
            raise ProtocolError("E_BAD_BODY", f"{verb} invalid body size {size}")
        if count_too:
            if size < 4:
                raise ProtocolError("E_BAD_BODY", f"{verb} failed to read message count")
            if len(buffer) - at < 8:
                self._needed_bytes = 8
                return None
            count = _unpack_size_from(buffer, at + 4)[0]
            # The least a message takes is its size and one byte.
            if not 0 < count <= (self._max_body_size - 4) // 5:
                raise ProtocolError("E_BAD_BODY", f"{verb} invalid message count {count}")
            if count > self._max_mpub_messages:
                raise ProtocolError("E_BAD_BODY", f"{verb} {mpub_count_refused(count, self._max_mpub_messages)}")
        if len(buffer) - at < 4 + size:
            self._needed_bytes = 4 + size
            return None
        return size

    def _mpub(self, params: list[bytes]) -> Command | None:
        if len(params) < 2:
            raise invalid("MPUB insufficient number of parameters")
        topic = topic_name("MPUB", params[1])
        if topic is None:
            # nsqd sends the code twice.
            raise ProtocolError("E_BAD_TOPIC", f"E_BAD_TOPIC MPUB topic name {quoted(params[1])} is not valid")
        if self.check_mpub is not None:
            self.check_mpub(topic)
        size = self._body_size("MPUB", count_too=True)
        if size is None:
            self._read_body = partial(self._mpub, params)
            return None
        start = self._position + 4
        end = start + size
        bodies = split_messages(self._buffer, start, end, self._max_msg_size)
        self._position = end
        return Mpub(topic, bodies)
