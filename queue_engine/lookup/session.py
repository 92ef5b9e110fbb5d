"""One peer's conversation in nsqlookupd's TCP protocol V1, without its socket.

    peer → us   "  V1", then commands, each a line: IDENTIFY, REGISTER topic [channel], UNREGISTER topic [channel],
                PING. Behind IDENTIFY's line: size (4 bytes, big-endian) and that many bytes of JSON
    us → peer   size (4 bytes, big-endian) and that many bytes: OK, JSON, or an error such as "E_BAD_TOPIC REGISTER …"

An error ends the conversation, but for a REGISTER beyond --max-registrations: the nsqd would only connect and register
anew, again and again, and lose its registrations meanwhile. The texts are nsqlookupd's own.
"""

import logging
import struct
from collections.abc import Callable
from typing import Any

import orjson

from queue_engine.lookup.registrations import Peer, PeerInfo, Registrations, TooManyRegistrationsError
from queue_engine.vocabulary.clock import NS_PER_MS, Clock
from queue_engine.vocabulary.errors import ProtocolError
from queue_engine.vocabulary.names import is_valid_name
from queue_engine.wire.protocol.go_json import JsonError, JsonObject

logger = logging.getLogger(__name__)

MAGIC = b"  V1"
LINE_BYTES_MAX = 16 << 10
BODY_BYTES_MAX = 64 << 10
FIELD_LENGTH_MAX = 255  # characters of an address or version: the most of a host name
# nsqds send a PING each 15 s. A peer without IDENTIFY has no reason to stay.
IDENTIFY_TIMEOUT_MS = 60_000
COMMAND_TIMEOUT_MS = 10_000  # from a command's first byte to its last
_SIZE = struct.Struct(">i")


class LookupSession:
    """Takes a peer's bytes and makes the replies. Belongs to one thread.

    remote_address: HOST:PORT. own_info: makes the answer to IDENTIFY. silence_ms: a peer that sends nothing for longer
    is to be cut: its machine is gone.
    """

    def __init__(
        self,
        registrations: Registrations,
        clock: Clock,
        remote_address: str,
        own_info: Callable[[], dict[str, Any]],
        *,
        silence_ms: int,
    ) -> None:
        self.is_over = False
        """Whether the connection is to be closed once the replies are out."""
        self._registrations = registrations
        self._clock = clock
        self.remote_address = remote_address
        self._own_info = own_info
        self._silence_ns = silence_ms * NS_PER_MS
        self._peer: Peer | None = None
        self._has_magic = False
        self._received = bytearray()
        self._identify_size: int | None = None  # of the body that is being read; -1 while its size is
        self._opened_ns = self._heard_ns = self._begun_ns = clock.monotonic_ns()

    def receive(self, data: bytes) -> bytes:
        """Handle received bytes; returns the replies, perhaps none."""
        if self.is_over:
            return b""
        self._heard_ns = self._clock.monotonic_ns()
        if not self._received:
            self._begun_ns = self._heard_ns
        self._received += data
        replies: list[bytes] = []
        try:
            while (reply := self._next_reply()) is not None:
                replies.append(reply)
                self._begun_ns = self._heard_ns
        except ProtocolError as error:
            replies.append(self._fail(error))
        return b"".join(_SIZE.pack(len(reply)) + reply for reply in replies)

    def end_of_input(self) -> bytes:
        """The peer sends nothing more: the reply to a command that was cut off, if any. The conversation is over."""
        if self.is_over:
            return b""
        self.is_over = True
        if self._identify_size is None:
            return b""
        part = "body size" if self._identify_size < 0 else "body"
        reply = self._fail(ProtocolError("E_BAD_BODY", f"IDENTIFY failed to read {part}"))
        return _SIZE.pack(len(reply)) + reply

    def closed(self) -> None:
        """The connection ended: the peer produces nothing any more."""
        self.is_over = True
        if self._peer is not None:
            logger.info("client(%s) closing topics=%d", self.remote_address, len(self._peer.topics))
            self._registrations.remove_peer(self._peer)
            self._peer = None

    def overdue(self) -> str:
        """Why the connection is to be cut now; "" while nothing is overdue."""
        now_ns = self._clock.monotonic_ns()
        is_within = bool(self._received) or not self._has_magic or self._identify_size is not None
        if is_within and now_ns - self._begun_ns > COMMAND_TIMEOUT_MS * NS_PER_MS:
            return f"a command was not complete after {COMMAND_TIMEOUT_MS} ms"
        if self._peer is None:
            is_late = now_ns - self._opened_ns > IDENTIFY_TIMEOUT_MS * NS_PER_MS
            return f"no IDENTIFY came in {IDENTIFY_TIMEOUT_MS} ms" if is_late else ""
        if now_ns - self._heard_ns > self._silence_ns:
            return f"nothing came for {self._silence_ns // NS_PER_MS} ms"
        return ""

    def _fail(self, error: ProtocolError) -> bytes:
        self.is_over = True
        self._received.clear()
        logger.error("client(%s) - %s", self.remote_address, error)
        return error.payload

    def _take(self, count: int) -> bytes:
        taken = bytes(self._received[:count])
        del self._received[:count]
        return taken

    def _next_reply(self) -> bytes | None:
        """The reply to the next command; None until more bytes come. Raises ProtocolError."""
        if not self._has_magic:
            if len(self._received) < len(MAGIC):
                return None
            if self._take(len(MAGIC)) != MAGIC:
                raise ProtocolError("E_BAD_PROTOCOL", "")
            self._has_magic = True
        if self._identify_size is None:
            end = self._received.find(b"\n")
            if (end < 0 and len(self._received) > LINE_BYTES_MAX) or end > LINE_BYTES_MAX:
                raise ProtocolError("E_INVALID", f"a command's line has more than {LINE_BYTES_MAX} bytes")
            if end < 0:
                return None
            # As nsqlookupd: spaces around the line go, two between words make an empty word.
            line = self._take(end + 1).decode("utf-8", "replace").strip()
            command, *words = line.split(" ")
            if command != "IDENTIFY":
                return self._execute(command, words)
            if self._peer is not None:
                raise ProtocolError("E_INVALID", "cannot IDENTIFY again")
            self._identify_size = -1
        return self._read_identify()

    def _execute(self, command: str, words: list[str]) -> bytes:
        if command == "PING":
            if self._peer is not None:
                self._registrations.ping(self._peer)
            return b"OK"
        if command not in ("REGISTER", "UNREGISTER"):
            raise ProtocolError("E_INVALID", f"invalid command {command}")
        if self._peer is None:
            raise ProtocolError("E_INVALID", "client must IDENTIFY")
        topic, channel = _names_of(command, words)
        if command == "UNREGISTER":
            self._registrations.unregister(self._peer, topic, channel)
        else:
            try:
                self._registrations.register(self._peer, topic, channel)
            except TooManyRegistrationsError as exc:
                refusal = ProtocolError("E_INVALID", f"REGISTER refused: {exc}")
                logger.error("client(%s) - %s", self.remote_address, refusal)
                return refusal.payload
        logger.info("client(%s) %s topic:%s channel:%s", self.remote_address, command, topic, channel)
        return b"OK"

    def _read_identify(self) -> bytes | None:
        if self._identify_size == -1:
            if len(self._received) < _SIZE.size:
                return None
            (size,) = _SIZE.unpack(self._take(_SIZE.size))
            if size < 0:
                raise ProtocolError("E_BAD_BODY", f"IDENTIFY invalid body size {size}")
            if size > BODY_BYTES_MAX:
                raise ProtocolError("E_BAD_BODY", f"IDENTIFY body too big {size} > {BODY_BYTES_MAX}")
            self._identify_size = size
        assert self._identify_size is not None
        if len(self._received) < self._identify_size:
            return None
        body = self._take(self._identify_size)
        self._identify_size = None
        info = read_peer_info(body, self.remote_address)
        self._peer = self._registrations.add_peer(info)
        logger.info(
            "client(%s) IDENTIFY address:%s tcp:%d http:%d version:%s",
            self.remote_address,
            info.broadcast_address,
            info.tcp_port,
            info.http_port,
            info.version,
        )
        return orjson.dumps(self._own_info())


def _names_of(command: str, words: list[str]) -> tuple[str, str]:
    """Topic and channel; "" for none. Raises ProtocolError."""
    if not words:
        raise ProtocolError("E_INVALID", f"{command} insufficient number of params")
    topic, channel = words[0], words[1] if len(words) > 1 else ""
    if not is_valid_name(topic):
        raise ProtocolError("E_BAD_TOPIC", f"{command} topic name '{topic}' is not valid")
    if channel and not is_valid_name(channel):
        raise ProtocolError("E_BAD_CHANNEL", f"{command} channel name '{channel}' is not valid")
    return topic, channel


def read_peer_info(body: bytes, remote_address: str) -> PeerInfo:
    """Decode IDENTIFY's body. Raises ProtocolError."""
    try:
        fields = JsonObject(body)
        info = PeerInfo(
            remote_address,
            hostname=fields.text("hostname"),
            broadcast_address=fields.text("broadcast_address"),
            tcp_port=fields.integer("tcp_port"),
            http_port=fields.integer("http_port"),
            version=fields.text("version"),
            topology_zone=fields.text("topology_zone"),
            topology_region=fields.text("topology_region"),
        )
    except JsonError as exc:
        raise ProtocolError("E_BAD_BODY", "IDENTIFY failed to decode JSON body") from exc
    for name in ("hostname", "broadcast_address", "version", "topology_zone", "topology_region"):
        length = len(getattr(info, name))
        if length > FIELD_LENGTH_MAX:
            text = f"IDENTIFY {name} has {length} characters and the most is {FIELD_LENGTH_MAX}"
            raise ProtocolError("E_BAD_BODY", text)
    if not (info.broadcast_address and info.tcp_port and info.http_port and info.version):
        raise ProtocolError("E_BAD_BODY", "IDENTIFY missing fields")
    return info
