"""Commands that are a line and nothing else, made of its words, in nsqd's order of checks and with nsqd's errors."""

from collections.abc import Callable

from queue_engine.vocabulary.errors import ProtocolError
from queue_engine.wire.protocol.commands import CLS, NOP, Command, Fin, Rdy, Req, Sub, Touch
from queue_engine.wire.protocol.words import checked_id, invalid, parse_number, quoted, text_of, topic_name, valid_name


class LineCommands:
    """verbs: verb → makes its command of all words of the line, or raises ProtocolError."""

    def __init__(self, *, max_req_timeout_ms: int, max_rdy_count: int) -> None:
        self._max_req_timeout_ms = max_req_timeout_ms
        self._max_rdy_count = max_rdy_count
        self.verbs: dict[bytes, Callable[[list[bytes]], Command]] = {
            b"FIN": self._fin,
            b"RDY": self._rdy,
            b"REQ": self._req,
            b"TOUCH": self._touch,
            b"NOP": lambda params: NOP,
            b"SUB": self._sub,
            b"CLS": lambda params: CLS,
        }

    def _fin(self, params: list[bytes]) -> Command:
        if len(params) < 2:
            raise invalid("FIN insufficient number of params")
        return Fin([checked_id(params[1])])

    def _touch(self, params: list[bytes]) -> Command:
        if len(params) < 2:
            raise invalid("TOUCH insufficient number of params")
        return Touch(checked_id(params[1]))

    def _req(self, params: list[bytes]) -> Command:
        if len(params) < 3:
            raise invalid("REQ insufficient number of params")
        message_id = checked_id(params[1])
        try:
            timeout_ms = parse_number(params[2])
        except ValueError:
            raise invalid(f"REQ could not parse timeout {text_of(params[2])}") from None
        return Req(message_id, min(timeout_ms, self._max_req_timeout_ms))

    def _rdy(self, params: list[bytes]) -> Command:
        if len(params) < 2:
            return Rdy(1)
        try:
            count = parse_number(params[1])
        except ValueError:
            raise invalid(f"RDY could not parse count {text_of(params[1])}") from None
        if count > self._max_rdy_count:
            raise invalid(f"RDY count {count} out of range 0-{self._max_rdy_count}")
        return Rdy(count)

    def _sub(self, params: list[bytes]) -> Command:
        if len(params) < 3:
            raise invalid("SUB insufficient number of parameters")
        topic = topic_name("SUB", params[1])
        if topic is None:
            raise ProtocolError("E_BAD_TOPIC", f"SUB topic name {quoted(params[1])} is not valid")
        channel = valid_name(params[2])
        if channel is None:
            raise ProtocolError("E_BAD_CHANNEL", f"SUB channel name {quoted(params[2])} is not valid")
        return Sub(topic, channel)
