"""IDENTIFY: the settings that a client may request, the server's answer, and nsqd's errors for values out of range."""

import json
from dataclasses import dataclass, replace
from typing import Any

from queue_engine.vocabulary.errors import ProtocolError
from queue_engine.vocabulary.options.options import Options
from queue_engine.vocabulary.version import VERSION

DEFAULT_OUTPUT_BUFFER_SIZE = 16 << 10
# Client libraries send these two by default.
DEFAULT_OUTPUT_BUFFER_TIMEOUT_MS = 250
OUTPUT_BUFFER_SIZE_MIN = 64
OUTPUT_BUFFER_TIMEOUT_MS_MIN = 25
HEARTBEAT_INTERVAL_MS_MIN = 1_000
MSG_TIMEOUT_MS_MIN = 1_000
SAMPLE_RATE_MAX = 99
MAX_DEFLATE_LEVEL = 6


@dataclass(frozen=True, slots=True)
class Identity:
    """A connection's names, and the settings agreed with its client. 0 in a time or size means off."""

    client_id: str
    hostname: str
    user_agent: str
    heartbeat_interval_ms: int
    output_buffer_size: int
    output_buffer_timeout_ms: int
    msg_timeout_ms: int
    feature_negotiation: bool = False

    def response(self, options: Options) -> bytes:
        """The answer: JSON of the settings when the client negotiates features, otherwise OK."""
        if not self.feature_negotiation:
            return b"OK"
        return json.dumps(
            {
                "max_rdy_count": options.max_rdy_count,
                "version": VERSION,
                "max_msg_timeout": options.max_msg_timeout_ms,
                "msg_timeout": self.msg_timeout_ms,
                "tls_v1": False,
                "deflate": False,
                "deflate_level": 0,
                "max_deflate_level": MAX_DEFLATE_LEVEL,
                "snappy": False,
                "sample_rate": 0,
                "auth_required": False,
                "output_buffer_size": self.output_buffer_size,
                "output_buffer_timeout": self.output_buffer_timeout_ms,
                "topology_region": "",
                "topology_zone": "",
            },
            separators=(",", ":"),
        ).encode()


def default_identity(host: str, options: Options) -> Identity:
    """The settings of a connection that sent no IDENTIFY."""
    return Identity(
        client_id=host,
        hostname=host,
        user_agent="",
        heartbeat_interval_ms=options.client_timeout_ms // 2,
        output_buffer_size=DEFAULT_OUTPUT_BUFFER_SIZE,
        output_buffer_timeout_ms=options.output_buffer_timeout_ms,
        msg_timeout_ms=options.msg_timeout_ms,
    )


def parse_identify(body: bytes, default: Identity, options: Options) -> Identity:
    """The settings for a client that sent `body`. Raises ProtocolError E_BAD_BODY, which is fatal."""
    fields = _Fields(body)
    heartbeat_ms = fields.integer("heartbeat_interval")
    buffer_size = fields.integer("output_buffer_size")
    buffer_timeout_ms = fields.integer("output_buffer_timeout")
    msg_timeout_ms = fields.integer("msg_timeout")
    sample_rate = fields.integer("sample_rate")
    for name in ("tls_v1", "deflate", "snappy"):
        fields.boolean(name)
    fields.integer("deflate_level")
    agreed = Identity(
        # Old clients send short_id and long_id instead.
        client_id=fields.text("client_id") or fields.text("short_id") or default.client_id,
        hostname=fields.text("hostname") or fields.text("long_id") or default.hostname,
        user_agent=fields.text("user_agent"),
        heartbeat_interval_ms=_agree(
            heartbeat_ms,
            default.heartbeat_interval_ms,
            HEARTBEAT_INTERVAL_MS_MIN,
            options.max_heartbeat_interval_ms,
            "heartbeat interval",
        ),
        output_buffer_size=_agree(
            buffer_size,
            default.output_buffer_size,
            OUTPUT_BUFFER_SIZE_MIN,
            options.max_output_buffer_size,
            "output buffer size",
        ),
        output_buffer_timeout_ms=_agree(
            buffer_timeout_ms,
            default.output_buffer_timeout_ms,
            OUTPUT_BUFFER_TIMEOUT_MS_MIN,
            options.max_output_buffer_timeout_ms,
            "output buffer timeout",
        ),
        msg_timeout_ms=default.msg_timeout_ms,
        feature_negotiation=fields.boolean("feature_negotiation"),
    )
    if not 0 <= sample_rate <= SAMPLE_RATE_MAX:
        raise _invalid(f"sample rate ({sample_rate}) is invalid")
    if msg_timeout_ms:
        if not MSG_TIMEOUT_MS_MIN <= msg_timeout_ms <= options.max_msg_timeout_ms:
            raise _invalid(f"msg timeout ({msg_timeout_ms}) is invalid")
        agreed = replace(agreed, msg_timeout_ms=msg_timeout_ms)
    return agreed


def _agree(requested: int, default: int, low: int, high: int, name: str) -> int:
    """-1 means off (0), 0 the default; low to high is taken as it is."""
    if requested == -1:
        return 0
    if requested == 0:
        return default
    if low <= requested <= high:
        return requested
    raise _invalid(f"{name} ({requested}) is invalid")


def _invalid(text: str) -> ProtocolError:
    return ProtocolError("E_BAD_BODY", f"IDENTIFY {text}")


class _Fields:
    """The body's JSON object. Each method reads a field of one type; a missing or null field is empty."""

    def __init__(self, body: bytes) -> None:
        try:
            document = json.loads(body)
        except (ValueError, RecursionError) as exc:
            raise _invalid("failed to decode JSON body") from exc
        if not isinstance(document, dict):
            raise _invalid("failed to decode JSON body")
        self._document: dict[str, Any] = document

    def _value(self, name: str, kind: type, empty: Any) -> Any:
        value = self._document.get(name)
        if value is None:
            return empty
        if type(value) is not kind:
            raise _invalid("failed to decode JSON body")
        return value

    def integer(self, name: str) -> int:
        value: int = self._value(name, int, 0)
        return value

    def text(self, name: str) -> str:
        value: str = self._value(name, str, "")
        return value

    def boolean(self, name: str) -> bool:
        value: bool = self._value(name, bool, False)
        return value
