"""A second parser, as plain as the protocol's description, to compare the fast one with.

It holds all bytes at once, reads one thing after another, takes FIN lines singly, and starts over when told more.
"""

from dataclasses import dataclass

from queue_engine.vocabulary.errors import ProtocolError
from queue_engine.vocabulary.names import is_valid_name
from queue_engine.wire.protocol import commands as c
from queue_engine.wire.protocol import words as w


class Unfinished(Exception):
    """The input ends within a command."""


@dataclass
class Limits:
    max_msg_size: int = 1000
    max_body_size: int = 5000
    max_mpub_messages: int = 500
    max_req_timeout_ms: int = 3_600_000
    max_rdy_count: int = 2500


class Input:
    def __init__(self, data: bytes) -> None:
        self.data = data

    def line(self) -> bytes:
        line, newline, rest = self.data.partition(b"\n")
        if len(line) >= 16384:
            raise ProtocolError("E_INVALID", "command line longer than 16384 bytes")
        if not newline:
            raise Unfinished
        self.data = rest
        return line[:-1] if line.endswith(b"\r") else line

    def take(self, count: int) -> bytes:
        if len(self.data) < count:
            raise Unfinished
        taken, self.data = self.data[:count], self.data[count:]
        return taken

    def size(self) -> int:
        return int.from_bytes(self.take(4), "big", signed=True)


def parse_all(data: bytes, limits: Limits) -> tuple[list[c.Command], str, bytes]:
    """All commands, the text of the error that ended them ("" for none), and what is left unfinished."""
    done: list[c.Command] = []
    left = Input(data)
    while left.data:
        unread = left.data
        try:
            done.append(_command(left, limits))
        except Unfinished:
            return done, "", unread
        except ProtocolError as error:
            return done, str(error), b""
    return done, "", b""


def _command(left: Input, limits: Limits) -> c.Command:
    words = left.line().split(b" ")
    verb = words[0].decode("utf-8", "replace")
    if verb == "NOP":
        return c.Nop()
    if verb == "CLS":
        return c.Cls()
    if verb in ("FIN", "TOUCH", "REQ"):
        need(len(words) >= (3 if verb == "REQ" else 2), "E_INVALID", f"{verb} insufficient number of params")
        need(len(words[1]) == 16, "E_INVALID", "invalid message ID")
        if verb == "FIN":
            return c.Fin([words[1]])
        if verb == "TOUCH":
            return c.Touch(words[1])
        timeout_ms = number(words[2], f"REQ could not parse timeout {show(words[2])}")
        return c.Req(words[1], min(timeout_ms, limits.max_req_timeout_ms))
    if verb == "RDY":
        if len(words) == 1:
            return c.Rdy(1)
        count = number(words[1], f"RDY could not parse count {show(words[1])}")
        need(count <= limits.max_rdy_count, "E_INVALID", f"RDY count {count} out of range 0-{limits.max_rdy_count}")
        return c.Rdy(count)
    if verb == "SUB":
        need(len(words) >= 3, "E_INVALID", "SUB insufficient number of parameters")
        topic = name(words[1], "E_BAD_TOPIC", f"SUB topic name {w.quoted(words[1])} is not valid")
        channel = name(words[2], "E_BAD_CHANNEL", f"SUB channel name {w.quoted(words[2])} is not valid")
        return c.Sub(topic, channel)
    if verb in ("IDENTIFY", "AUTH"):
        need(verb == "IDENTIFY" or len(words) == 1, "E_INVALID", "AUTH invalid number of parameters")
        body = left.take(body_size(left, verb, limits))
        return c.Identify(body) if verb == "IDENTIFY" else c.Auth(body)
    if verb in ("PUB", "DPUB"):
        need(len(words) >= len(verb) - 1, "E_INVALID", f"{verb} insufficient number of parameters")
        topic = name(words[1], "E_BAD_TOPIC", f"{verb} topic name {w.quoted(words[1])} is not valid")
        defer_ms = 0
        if verb == "DPUB":
            defer_ms = number(words[2], f"DPUB could not parse timeout {show(words[2])}")
            limit = limits.max_req_timeout_ms
            need(defer_ms <= limit, "E_INVALID", f"DPUB timeout {defer_ms} out of range 0-{limit}")
        size = left.size()
        need(size > 0, "E_BAD_MESSAGE", f"{verb} invalid message body size {size}")
        limit = limits.max_msg_size
        need(size <= limit, "E_BAD_MESSAGE", f"{verb} message too big {size} > {limit}")
        body = left.take(size)
        return c.Pub(topic, body) if verb == "PUB" else c.Dpub(topic, defer_ms, body)
    if verb == "MPUB":
        need(len(words) >= 2, "E_INVALID", "MPUB insufficient number of parameters")
        topic = name(words[1], "E_BAD_TOPIC", f"E_BAD_TOPIC MPUB topic name {w.quoted(words[1])} is not valid")
        size = body_size(left, "MPUB", limits)
        need(size >= 4, "E_BAD_BODY", "MPUB failed to read message count")
        count = left.size()
        need(0 < count <= (limits.max_body_size - 4) // 5, "E_BAD_BODY", f"MPUB invalid message count {count}")
        limit = limits.max_mpub_messages
        why = f"MPUB has {count} messages and the most is {limit} (--max-mpub-messages)"
        need(count <= limit, "E_BAD_BODY", why)
        return c.Mpub(topic, messages(Input(left.take(size - 4)), count, limits.max_msg_size))
    raise ProtocolError("E_INVALID", f"invalid command {verb}")


def messages(left: Input, count: int, limit: int) -> list[bytes]:
    bodies: list[bytes] = []
    for index in range(count):
        need(len(left.data) >= 4, "E_BAD_MESSAGE", f"MPUB failed to read message({index}) body size")
        size = left.size()
        need(size > 0, "E_BAD_MESSAGE", f"MPUB invalid message({index}) body size {size}")
        need(size <= limit, "E_BAD_MESSAGE", f"MPUB message too big {size} > {limit}")
        need(len(left.data) >= size, "E_BAD_MESSAGE", "MPUB failed to read message body")
        bodies.append(left.take(size))
    need(not left.data, "E_BAD_BODY", f"MPUB body has {len(left.data)} bytes behind its {count} messages")
    return bodies


def body_size(left: Input, verb: str, limits: Limits) -> int:
    size = left.size()
    need(size <= limits.max_body_size, "E_BAD_BODY", f"{verb} body too big {size} > {limits.max_body_size}")
    need(size > 0, "E_BAD_BODY", f"{verb} invalid body size {size}")
    return size


def need(holds: bool, code: str, description: str) -> None:
    if not holds:
        raise ProtocolError(code, description)


def name(raw: bytes, code: str, description: str) -> str:
    text = raw.decode("latin-1")
    need(is_valid_name(text), code, description)
    return text


def number(raw: bytes, description: str) -> int:
    need(all(48 <= byte <= 57 for byte in raw) and len(raw) <= 19, "E_INVALID", description)
    return int(b"0" + raw)


def show(raw: bytes) -> str:
    return raw.decode("utf-8", "replace")


def one_at_a_time(found: list[c.Command]) -> list[c.Command]:
    """The same commands, with each FIN of a series for itself."""
    singly: list[c.Command] = []
    for command in found:
        singly += [c.Fin([one]) for one in command.ids] if isinstance(command, c.Fin) else [command]
    return singly
