"""The texts of `/stats` in JSON for a channel, a topic and a client, with places for the values that change often.

`stats.py` explains the keys.
"""

import json
from functools import lru_cache
from typing import Any

import orjson

from queue_engine.delivery.readings import ChannelState, ClientReading, TopicState
from queue_engine.delivery.stats import ClientStats
from queue_engine.vocabulary.clock import NS_PER_MS

# Between these parts stands what the state says.
_CHANNEL_COUNTS = (
    b'{"channel_name":"%b","depth":%d,"backend_depth":%d,"in_flight_count":%d,"deferred_count":%d,"message_count":%d,'
    b'"requeue_count":%d,"timeout_count":%d,"client_count":%d,"clients":%b,'
)
_CHANNEL_REST = (
    b',"e2e_processing_latency":%b,"finish_count":%d,"disconnect_count":%d,"ready_count":%d,"oldest_age_ms":%b,'
    b'"disk_bytes":%b,'
)
_CHANNEL = (_CHANNEL_COUNTS, _CHANNEL_REST)
_TOPIC = (
    b'{"topic_name":"%b","channels":[%b],"depth":%d,"backend_depth":%d,"message_count":%d,"message_bytes":%d,',
    b',"e2e_processing_latency":%b,',
    b',"oldest_age_ms":%b,"disk_bytes":%b,',
    b',"cursors":%b}',
)
# Topics and channels that rest are nearly all in the same few states.
_FRAMES_MAX = 64
_PUB_COUNTS = "pub_counts"
_CLIENT_COUNTS = set(ClientReading._fields) - {_PUB_COUNTS, "who"}


def channel_template(state: ChannelState) -> bytes:
    """With places for the fields of a ChannelReading but its state, in their order, and for its bytes on disk."""
    return _joined(_CHANNEL, *_channel_parts(state))


def topic_template(state: TopicState) -> bytes:
    """With places for name, channels, the four counts, latency, age, bytes on disk and cursors."""
    return _joined(_TOPIC, *_topic_parts(state))


@lru_cache(_FRAMES_MAX)
def channel_frame(state: ChannelState) -> bytes:
    """As `channel_template`, and each value is text, which may have places of its own."""
    return _frame(_CHANNEL, _channel_parts(state))


@lru_cache(_FRAMES_MAX)
def topic_frame(state: TopicState) -> bytes:
    """As `topic_template`, and each value is text, which may have places of its own."""
    return _frame(_TOPIC, _topic_parts(state))


def client_template(client: ClientStats) -> bytes:
    """With places for the fields of a ClientReading but `who`, in their order."""
    members: list[bytes] = []
    fixed: dict[str, Any] = {}  # those that stand together are written at once
    for key, value in client_document(client, "").items():
        place = b"%d" if key in _CLIENT_COUNTS else b"%b" if key == _PUB_COUNTS else None
        if place is None:
            fixed[key] = value
            continue
        if fixed:
            members.append(_members(fixed))
            fixed = {}
        members.append(b'"%b":%b' % (key.encode(), place))
    members.append(_members(fixed))
    return b"{%b}" % b",".join(members)


def _channel_parts(state: ChannelState) -> tuple[bytes, bytes]:
    rest = {
        "fenced": state.fenced,
        "unreadable": state.unreadable,
        "held_back": state.held_back,
        "dropped_count": state.dropped_count,
        "pause": state.pause and state.pause.document(),
        "resume_refused": state.resume_refused,
        "ramp": state.ramp and state.ramp.document(),
        "quarantined_count": state.quarantine.count,
        "quarantined_bytes": state.quarantine.bytes,
        "quarantined_since_ms": state.quarantine.oldest_ns and state.quarantine.oldest_ns // NS_PER_MS,
        "quarantine_full": state.quarantine.full,
        "max_attempts": state.quarantine.max_attempts,
        "redrive": state.redrive and state.redrive.document(),
    }
    return _members({"paused": state.paused}), _members(rest) + b"}"


def _topic_parts(state: TopicState) -> tuple[bytes, ...]:
    rest = {
        "fenced": state.fenced,
        "unreadable": state.unreadable,
        "dropped_count": state.dropped_count,
        "pause": state.pause and state.pause.document(),
        "resume_refused": state.resume_refused,
    }
    return _members({"paused": state.paused}), _members({"storage": state.storage}), _members(rest), b""


def _joined(places: tuple[bytes, ...], *parts: bytes) -> bytes:
    return b"".join(text for pair in zip(places, parts, strict=True) for text in pair)


def _frame(places: tuple[bytes, ...], parts: tuple[bytes, ...]) -> bytes:
    """What the state says is filled in twice."""
    texts = [place.replace(b"%d", b"%b") for place in places]
    return _joined(tuple(texts), *(part.replace(b"%", b"%%") for part in parts))


def _members(document: dict[str, Any]) -> bytes:
    """The members of a JSON object, as part of a template."""
    return encoded(document)[1:-1].replace(b"%", b"%%")


def client_document(client: ClientStats, topic: str) -> dict[str, Any]:
    """One connection; of its counts of published messages those of `topic`, "" for all."""
    # As nsqd does, only of a client that has sent AUTH.
    auth: dict[str, Any] = {}
    if client.authed:
        auth = {
            "authed": True,
            "auth_identity": client.auth_identity,
            "auth_identity_url": client.auth_identity_url,
        }
    return {
        "client_id": client.client_id,
        "hostname": client.hostname,
        "version": client.version,
        "remote_address": client.remote_address,
        "state": client.state,
        "ready_count": client.ready_count,
        "in_flight_count": client.in_flight_count,
        "message_count": client.message_count,
        "finish_count": client.finish_count,
        "requeue_count": client.requeue_count,
        "connect_ts": client.connect_ts,
        "sample_rate": client.sample_rate,
        "deflate": client.deflate,
        "snappy": client.snappy,
        "user_agent": client.user_agent,
        **auth,
        "topology_zone": "",
        "topology_region": "",
        "pub_counts": [
            {"topic": name, "count": count} for name, count in client.pub_counts if not topic or name == topic
        ],
        "tls": client.tls,
        "tls_cipher_suite": client.tls_cipher_suite,
        "tls_version": client.tls_version,
        "tls_negotiated_protocol": "",  # NSQ's clients negotiate none
        "tls_negotiated_protocol_is_mutual": client.tls,  # as Go says of every TLS connection
        "timeout_count": client.timeout_count,
        "msg_timeout": client.msg_timeout_ms,
    }


def encoded(value: Any) -> bytes:
    try:
        return orjson.dumps(value)
    except TypeError:
        # A client's name may have lone surrogates, which orjson refuses and the standard encoder escapes.
        return json.dumps(value, separators=(",", ":")).encode()
