"""IDENTIFY: the settings that a client may request, the server's answer, and nsqd's errors for values out of range."""

import json
from dataclasses import dataclass

from queue_engine.vocabulary.errors import ProtocolError
from queue_engine.vocabulary.options.options import Options
from queue_engine.vocabulary.version import NSQ_VERSION
from queue_engine.wire.protocol.features import NO_FEATURES, Features, agreed_features
from queue_engine.wire.protocol.go_json import JsonError, JsonObject

# Clients send some hundred bytes. All other connections wait while a body is decoded: 5 MiB would take a second.
BODY_BYTES_MAX = 64 << 10
DEFAULT_OUTPUT_BUFFER_SIZE = 16 << 10
# Client libraries send these two by default.
DEFAULT_OUTPUT_BUFFER_TIMEOUT_MS = 250
OUTPUT_BUFFER_SIZE_MIN = 64
# nsqd's answer for no buffer at all: it writes each message by itself.
NO_OUTPUT_BUFFER_SIZE = 1
HEARTBEAT_INTERVAL_MS_MIN = 1_000
MSG_TIMEOUT_MS_MIN = 1_000
SAMPLE_RATE_MAX = 99
SAMPLE_RATE_BITS = 32


@dataclass(frozen=True, slots=True)
class AgreedSettings:
    """A connection's names, and the settings agreed with its client. 0 in a time means off.

    output_buffer_size: NO_OUTPUT_BUFFER_SIZE for none. sample_rate: the percent of messages that it gets, 0 for all.
    """

    client_id: str
    hostname: str
    user_agent: str
    heartbeat_interval_ms: int
    output_buffer_size: int
    output_buffer_timeout_ms: int
    msg_timeout_ms: int
    feature_negotiation: bool = False
    sample_rate: int = 0
    features: Features = NO_FEATURES

    def response(self, options: Options, *, is_auth_required: bool = False) -> bytes:
        """The answer: JSON of the settings when the client negotiates features, otherwise OK."""
        if not self.feature_negotiation:
            return b"OK"
        return json.dumps(
            {
                "max_rdy_count": options.max_rdy_count,
                "version": NSQ_VERSION,
                "max_msg_timeout": options.max_msg_timeout_ms,
                "msg_timeout": self.msg_timeout_ms,
                "tls_v1": self.features.tls,
                "deflate": self.features.deflate,
                "deflate_level": self.features.deflate_level,
                "max_deflate_level": options.max_deflate_level,
                "snappy": self.features.snappy,
                "sample_rate": self.sample_rate,
                "auth_required": is_auth_required,
                "output_buffer_size": self.output_buffer_size,
                "output_buffer_timeout": self.output_buffer_timeout_ms,
                "topology_region": "",
                "topology_zone": "",
            },
            separators=(",", ":"),
        ).encode()


def default_identity(host: str, options: Options) -> AgreedSettings:
    """The settings of a connection that sent no IDENTIFY."""
    return AgreedSettings(
        client_id=host,
        hostname=host,
        user_agent="",
        heartbeat_interval_ms=options.client_timeout_ms // 2,
        output_buffer_size=DEFAULT_OUTPUT_BUFFER_SIZE,
        output_buffer_timeout_ms=options.output_buffer_timeout_ms,
        msg_timeout_ms=options.msg_timeout_ms,
    )


def parse_identify(body: bytes, default: AgreedSettings, options: Options) -> AgreedSettings:
    """The settings for a client that sent `body`. Raises ProtocolError E_BAD_BODY or
    E_IDENTIFY_FAILED, which are fatal.

    Checks the values in nsqd's order, which decides the error. Names are those of this body alone.
    """
    if len(body) > BODY_BYTES_MAX:
        raise _invalid(f"body too big {len(body)} > {BODY_BYTES_MAX}")
    try:
        fields = JsonObject(body)
        requested = {name: fields.integer(name) for name in _TIMES_AND_SIZES}
        sample_rate = fields.integer("sample_rate", SAMPLE_RATE_BITS)
        deflate_level = fields.integer("deflate_level")
        tls, deflate, snappy = (fields.boolean(name) for name in ("tls_v1", "deflate", "snappy"))
        client_id, hostname = fields.text("client_id"), fields.text("hostname")
        user_agent = fields.text("user_agent")
        feature_negotiation = fields.boolean("feature_negotiation")
        for name in ("topology_region", "topology_zone"):
            fields.text(name)
    except JsonError as exc:
        raise _invalid("failed to decode JSON body") from exc
    heartbeat_interval_ms = _agree(
        requested["heartbeat_interval"],
        default.heartbeat_interval_ms,
        HEARTBEAT_INTERVAL_MS_MIN,
        options.max_heartbeat_interval_ms,
        "heartbeat interval",
    )
    output_buffer_timeout_ms = _agree(
        requested["output_buffer_timeout"],
        default.output_buffer_timeout_ms,
        options.min_output_buffer_timeout_ms,
        options.max_output_buffer_timeout_ms,
        "output buffer timeout",
    )
    output_buffer_size = _agree(
        requested["output_buffer_size"],
        default.output_buffer_size,
        OUTPUT_BUFFER_SIZE_MIN,
        options.max_output_buffer_size,
        "output buffer size",
    )
    if not output_buffer_size:
        output_buffer_size, output_buffer_timeout_ms = NO_OUTPUT_BUFFER_SIZE, 0
    if not 0 <= sample_rate <= SAMPLE_RATE_MAX:
        raise _invalid(f"sample rate ({sample_rate}) is invalid")
    msg_timeout_ms = requested["msg_timeout"]
    if msg_timeout_ms and not MSG_TIMEOUT_MS_MIN <= msg_timeout_ms <= options.max_msg_timeout_ms:
        raise _invalid(f"msg timeout ({msg_timeout_ms}) is invalid")
    features = NO_FEATURES
    if feature_negotiation:  # without it the client could not learn the agreed values
        features = agreed_features(options, tls=tls, snappy=snappy, deflate=deflate, deflate_level=deflate_level)
    return AgreedSettings(
        client_id=client_id,
        hostname=hostname,
        user_agent=user_agent,
        heartbeat_interval_ms=heartbeat_interval_ms,
        output_buffer_size=output_buffer_size,
        output_buffer_timeout_ms=output_buffer_timeout_ms,
        msg_timeout_ms=msg_timeout_ms or default.msg_timeout_ms,
        feature_negotiation=feature_negotiation,
        sample_rate=sample_rate,
        features=features,
    )


_TIMES_AND_SIZES = ("heartbeat_interval", "output_buffer_timeout", "output_buffer_size", "msg_timeout")


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
