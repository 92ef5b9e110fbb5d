"""The topics and channels of `/stats` in JSON: text with places for the counts, made once for each state.

Nearly all channels are in one state, of all that seldom changes: not paused, not fenced, nothing quarantined. Its text
is made once, and a channel costs filling in its name, counts, age and bytes. `stats.py` explains the keys.
"""

import json
from typing import Any

import orjson

from queue_engine.delivery.latency_window import NO_CHANNELS, LatencyWindow
from queue_engine.delivery.readings import ChannelState, KeptText, TopicReading, TopicState
from queue_engine.delivery.stats import ClientStats
from queue_engine.vocabulary.clock import NS_PER_MS
from queue_engine.vocabulary.latency.latency_percentiles import bucket_table

_NO_LATENCY = b'{"count":0,"percentiles":null}'
_AGE, _BYTES = b'"oldest_age_ms":%b,', b'"disk_bytes":%b,'


class StatsTemplates:
    """Keeps the templates of one answer with all topics for the next one."""

    def __init__(self) -> None:
        # By the state's identity. Each state is held, so that its identity stays its own.
        self._before: dict[int, tuple[ChannelState | TopicState, bytes]] = {}
        self._used: dict[int, tuple[ChannelState | TopicState, bytes]] = {}

    def begin(self) -> None:
        """An answer begins: forget what the one before did not use."""
        self._before, self._used = self._used, {}

    def topic(self, topic: TopicReading, latencies: "LatencyTexts", now_ns: int) -> bytes:
        """One topic with its channels. now_ns: ages run to it, Unix."""
        if topic.kept is not None:
            return self._kept_topic(topic, topic.kept, latencies, now_ns)
        return self._of(topic.state) % (
            topic.topic_name.encode(),
            b",".join(self._channels(topic, latencies, now_ns)),
            topic.depth,
            topic.backend_depth,
            topic.message_count,
            topic.message_bytes,
            latencies.of(topic.window),
            _age_ms(topic.oldest_ns, now_ns),
            b"null" if topic.disk_bytes is None else b"%d" % topic.disk_bytes,
            encoded(topic.cursors) if topic.cursors else b"[]",
        )

    def _kept_topic(self, topic: TopicReading, kept: KeptText, latencies: "LatencyTexts", now_ns: int) -> bytes:
        """The same of a reading that is kept: its text is, too, with places for ages and bytes."""
        if kept.template is None:
            kept.template = self._template_of(topic, latencies)
        values: list[int | None] = []
        for channel, disk_bytes in zip(topic.channels, topic.channel_bytes, strict=True):
            oldest_ns = channel.oldest_ns
            if oldest_ns is not None:
                values.append((now_ns - oldest_ns) // NS_PER_MS if now_ns > oldest_ns else 0)
            values.append(disk_bytes)
        values.append(topic.disk_bytes)
        return kept.template % tuple(values)

    def _template_of(self, topic: TopicReading, latencies: "LatencyTexts") -> bytes:
        """The text of a topic that rests: it has no age of its own, no clients, and no words but names."""
        places = [None] * len(topic.channels)
        # At the beginning of time every age is 0.
        text = self.topic(topic._replace(kept=None, disk_bytes=None, channel_bytes=places), latencies, 0)
        for known, place in ((b"%", b"%%"), (_AGE % b"0", _AGE % b"%d"), (_BYTES % b"null", _BYTES % b"%d")):
            text = text.replace(known, place)
        return text

    def _channels(self, topic: TopicReading, latencies: "LatencyTexts", now_ns: int) -> list[bytes]:
        used, of_window = self._used, latencies.of
        texts = []
        # Taking a reading apart costs a third of what reading its fields by name does.
        for channel, disk_bytes in zip(topic.channels, topic.channel_bytes, strict=True):
            (
                name,
                depth,
                backend_depth,
                in_flight_count,
                deferred_count,
                message_count,
                requeue_count,
                timeout_count,
                client_count,
                clients,
                window,
                finish_count,
                disconnect_count,
                ready_count,
                oldest_ns,
                state,
            ) = channel
            found = used.get(id(state))
            values = (
                name.encode(),
                depth,
                backend_depth,
                in_flight_count,
                deferred_count,
                message_count,
                requeue_count,
                timeout_count,
                client_count,
                _clients_text(clients) if clients else b"null" if clients is None else b"[]",
                of_window(window),
                finish_count,
                disconnect_count,
                ready_count,
                b"null" if oldest_ns is None else _age_ms(oldest_ns, now_ns),
                b"null" if disk_bytes is None else b"%d" % disk_bytes,
            )
            texts.append((self._of(state) if found is None else found[1]) % values)
        return texts

    def _of(self, state: ChannelState | TopicState) -> bytes:
        found = self._used.get(id(state))
        if found is None:
            found = self._before.get(id(state)) or (state, _template(state))
            self._used[id(state)] = found
        return found[1]


class LatencyTexts:
    """Writes latencies. quantiles: those that are asked for. has_buckets: whether they have their buckets, too."""

    def __init__(self, quantiles: tuple[float, ...], *, has_buckets: bool) -> None:
        self._quantiles = quantiles
        self._has_buckets = has_buckets

    def of(self, window: LatencyWindow) -> bytes:
        """Of one channel or topic."""
        # nsqd has none of a topic without channels.
        quantiles = () if window is NO_CHANNELS else self._quantiles
        if not quantiles and not self._has_buckets:
            return _NO_LATENCY
        counts = window.counts()
        answer: dict[str, Any] = {"count": sum(counts.values()), "percentiles": None}
        if quantiles:
            values = window.percentiles_ns(quantiles)
            answer["percentiles"] = [
                {"quantile": quantile, "value": value} for quantile, value in zip(quantiles, values, strict=True)
            ]
        if self._has_buckets:
            answer["buckets"] = bucket_table(counts)
        return encoded(answer)


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


def _template(state: ChannelState | TopicState) -> bytes:
    return _channel_template(state) if isinstance(state, ChannelState) else _topic_template(state)


def _channel_template(state: ChannelState) -> bytes:
    """With places for the fields of a ChannelReading but its state, in their order."""
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
    return (
        b'{"channel_name":"%b","depth":%d,"backend_depth":%d,"in_flight_count":%d,"deferred_count":%d,'
        b'"message_count":%d,"requeue_count":%d,"timeout_count":%d,"client_count":%d,"clients":%b,'
        + _members({"paused": state.paused})
        + b',"e2e_processing_latency":%b,"finish_count":%d,"disconnect_count":%d,"ready_count":%d,'
        + _AGE
        + _BYTES
        + _members(rest)
        + b"}"
    )


def _topic_template(state: TopicState) -> bytes:
    """With places for the values that `StatsTemplates.topic` fills in."""
    rest = {
        "fenced": state.fenced,
        "unreadable": state.unreadable,
        "dropped_count": state.dropped_count,
        "pause": state.pause and state.pause.document(),
        "resume_refused": state.resume_refused,
    }
    return (
        b'{"topic_name":"%b","channels":[%b],"depth":%d,"backend_depth":%d,"message_count":%d,"message_bytes":%d,'
        + _members({"paused": state.paused})
        + b',"e2e_processing_latency":%b,'
        + _members({"storage": state.storage})
        + b","
        + _AGE
        + _BYTES
        + _members(rest)
        + b',"cursors":%b}'
    )


def _members(document: dict[str, Any]) -> bytes:
    """The members of a JSON object, as part of a template."""
    return encoded(document)[1:-1].replace(b"%", b"%%")


def _clients_text(clients: tuple[ClientStats, ...]) -> bytes:
    return encoded([client_document(client, "") for client in clients])


def _age_ms(since_ns: int | None, now_ns: int) -> bytes:
    if since_ns is None:
        return b"null"
    # The clock may have been set back meanwhile.
    return b"%d" % ((now_ns - since_ns) // NS_PER_MS) if now_ns > since_ns else b"0"
