"""A connected NSQ client: its identity, its permissions, and its commands.

nsqd's states: a client begins as `init`, is `subscribed` after SUB and `closing` after CLS. Its connection, a Session,
parses its input and writes its output.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Protocol

from queue_engine.delivery.channel import Channel
from queue_engine.delivery.consumer import Consumer, Sink
from queue_engine.delivery.stats import (
    CLIENT_STATE_CLOSING,
    CLIENT_STATE_INIT,
    CLIENT_STATE_SUBSCRIBED,
    ClientStats,
)
from queue_engine.engine.engine import Engine
from queue_engine.service.identity.gate import Gate
from queue_engine.service.tcp.answers import Answers, failed_command
from queue_engine.service.tcp.client_auth import ClientAuth, HeldConnection
from queue_engine.service.tcp.pub_groups import PubGroups
from queue_engine.service.tls.server_context import TlsState
from queue_engine.vocabulary.client_key import UNIX
from queue_engine.vocabulary.clock import NS_PER_MS, NS_PER_S, Clock
from queue_engine.vocabulary.errors import PenstockError, ProtocolError, QuotaError, RequestError
from queue_engine.vocabulary.figures import CLIENT, field_reader
from queue_engine.vocabulary.ticket import Ticket
from queue_engine.wire.protocol import frames
from queue_engine.wire.protocol.commands import (
    Auth,
    Cls,
    Dpub,
    Fin,
    Identify,
    Mpub,
    Nop,
    Pub,
    Rdy,
    Req,
    Sub,
    Touch,
)
from queue_engine.wire.protocol.features import Features
from queue_engine.wire.protocol.identify import AgreedSettings, default_identity, parse_identify
from queue_engine.wire.protocol.words import text_of

_fields_of_consumer = field_reader(CLIENT)
_WITHOUT_CONSUMER = {row.attribute: 0 for row in CLIENT if row.path}
_VERBS_OF_ANY_STATE = frozenset((b"PUB", b"MPUB", b"DPUB", b"NOP"))


class ClientConnection(Sink, HeldConnection, Protocol):
    """A connection, as a client's commands need it. answers: those that are still to leave."""

    answers: Answers

    def agree(self, identity: AgreedSettings) -> None:
        """Buffer output from now on as IDENTIFY has agreed."""
        ...

    def upgrade(self, answer: bytes, features: Features) -> None:
        """Answer IDENTIFY, and put the layers that it has agreed on between this connection and its socket."""
        ...

    def ok_when(self, ticket: Ticket, verb: str, body_bytes: int, then: Callable[[], None] | None = None) -> None:
        """Answer OK to `verb` once the ticket is done, and call `then`; `body_bytes` wait for that."""
        ...

    def refuse(self, error: ProtocolError) -> None:
        """Answer an error; a fatal one ends the connection."""
        ...


class ConnectedClient:
    """Implements `Client` for the engine's figures. Belongs to the engine's thread.

    handlers: by a command's type, the method that does it; they raise ProtocolError. identity: the result of IDENTIFY.
    consumer: its subscription; None before SUB and after the channel's deletion. pub_counts: messages it published, by
    topic. auth: its permissions. is_sub_pending: the answer to SUB has not left
    yet, and no message goes before it.
    """

    def __init__(self, engine: Engine, clock: Clock, pubs: PubGroups, connection: ClientConnection, gate: Gate) -> None:
        self._engine = engine
        self._options = engine.options
        self._clock = clock
        self._creations = pubs.creations
        self._quotas = pubs.quotas
        self._connection = connection
        self._answers = connection.answers
        self._ok_when = connection.ok_when
        self._refuse = connection.refuse
        self._key = 0
        self._state = CLIENT_STATE_INIT
        self._channel: Channel | None = None
        self._connected_at_s = clock.time_ns() // NS_PER_S
        self.remote_address = ""
        self.identity = default_identity("", engine.options)
        self.consumer: Consumer | None = None
        self.pub_counts: dict[str, int] = {}
        self.is_sub_pending = False
        self._tls: TlsState | None = None
        self._is_tls_missing = engine.options.is_tls_required
        self.handlers: dict[type, Callable[[Any], None]] = {
            Fin: self._on_fin,
            Pub: self._on_pub,
            Mpub: self._on_mpub,
            Dpub: self._on_dpub,
            Rdy: self._on_rdy,
            Req: self._on_req,
            Touch: self._on_touch,
            Nop: self._on_nop,
            Sub: self._on_sub,
            Cls: self._on_cls,
            Identify: self._on_identify,
        }
        self._gate = gate
        self.auth = ClientAuth(gate, clock, connection, self.handlers)
        self.handlers[Auth] = self.auth.on_auth

    @property
    def tls(self) -> TlsState | None:
        """Its TLS; None in plain."""
        return self._tls

    @tls.setter
    def tls(self, state: TlsState | None) -> None:
        self._tls = state
        self._is_tls_missing = state is None and self._options.is_tls_required

    # The connection's life.

    def connected(self, host: str, remote_address: str) -> None:
        """The connection is open. host: of the peer, IDENTIFY's default. remote_address: for pages and logs."""
        self.remote_address = remote_address
        self.identity = default_identity(host, self._options)
        self._connection.agree(self.identity)
        self.auth.connected()

    def register(self) -> None:
        """Count this client in the engine's figures."""
        self._key = self._engine.add_client(self)

    def disconnected(self) -> None:
        """The connection has ended: take this client out of the figures."""
        self._state = CLIENT_STATE_CLOSING
        self.auth.disconnected()
        self._engine.remove_client(self._key)

    def leave_channel(self) -> None:
        """End the subscription. `Catalog.leave` decides whether its messages wait again now, or for their timeout."""
        channel, consumer = self._channel, self.consumer
        self._channel = self.consumer = None
        if consumer is not None:
            consumer.is_closing = True
            consumer.ready_count = 0
            if channel is not None:
                self._engine.catalog.leave(channel, consumer)

    def channel_closed(self) -> None:
        """The subscription has ended because its channel was deleted."""
        self._channel = self.consumer = None
        self._state = CLIENT_STATE_CLOSING

    def wake_channel(self) -> None:
        """Have the channel send messages again, since the connection takes more."""
        if self._channel is not None and self.consumer is not None:
            self._channel.set_ready(self.consumer, self.consumer.ready_count)

    # Commands, the most frequent first.

    def admit(self, verb: bytes, params: list[bytes]) -> bool:
        """Check a command against the client's state, before its parameters, as nsqd does. Returns whether the parser
        passes over the command. Raises ProtocolError."""
        if self._is_tls_missing and verb != b"IDENTIFY":
            raise _in_state(verb, " (TLS required)")
        if verb in _VERBS_OF_ANY_STATE:
            return False
        state = self._state
        if verb in (b"FIN", b"REQ", b"TOUCH"):
            if state not in (CLIENT_STATE_SUBSCRIBED, CLIENT_STATE_CLOSING):
                raise _in_state(verb)
        elif verb == b"RDY":
            if state == CLIENT_STATE_CLOSING:
                return True  # after CLS: no message comes, whatever RDY says
            if state != CLIENT_STATE_SUBSCRIBED:
                raise _in_state(verb)
        elif verb in (b"IDENTIFY", b"AUTH", b"SUB"):
            if state != CLIENT_STATE_INIT:
                raise _in_state(verb)
            if verb == b"SUB" and self.identity.heartbeat_interval_ms == 0:
                raise ProtocolError("E_INVALID", "cannot SUB with heartbeats disabled")
        elif verb == b"CLS" and state != CLIENT_STATE_SUBSCRIBED:
            raise _in_state(verb)
        return False

    def _on_fin(self, command: Fin) -> None:
        if self._channel is None or self.consumer is None:
            return  # the channel was deleted, the connection is about to end
        for message_id, error in self._channel.finish(self.consumer, command.ids):
            self._refuse(_failed("FIN", message_id, error))

    def _on_pub(self, command: Pub) -> None:
        body = command.body
        self._publish("PUB", command.topic, [body], len(body), 0)

    def _on_mpub(self, command: Mpub) -> None:
        self._publish("MPUB", command.topic, command.bodies, sum(map(len, command.bodies)), 0)

    def _on_dpub(self, command: Dpub) -> None:
        self._publish("DPUB", command.topic, [command.body], len(command.body), command.defer_ms)

    def _publish(self, verb: str, topic: str, bodies: list[bytes], body_bytes: int, defer_ms: int) -> None:
        try:
            self.take_quota(topic, len(bodies), body_bytes)
        except QuotaError as exc:
            self._refuse(failed_command(verb, exc, fatal=False))
            return  # the commands behind it go on
        missing = self._creations.missing(topic)
        try:
            ticket = self._engine.publish(topic, bodies, defer_ms=defer_ms)
        except PenstockError as exc:
            raise failed_command(verb, exc) from exc
        if missing:
            self._creations.note(missing, ticket, self.remote_address)
        self.pub_counts[topic] = self.pub_counts.get(topic, 0) + len(bodies)
        self._ok_when(ticket, verb, body_bytes)

    def take_quota(self, topic: str, count: int, body_bytes: int) -> None:
        """Take so many messages from the client's quotas. Raises QuotaError."""
        if not self._quotas.has_any:
            return
        authorization = self.auth.authorization
        token = authorization.identity if authorization is not None else ""
        self._quotas.take(token, self._connection.peer().remote_ip or UNIX, topic, count, body_bytes)

    def _on_rdy(self, command: Rdy) -> None:
        if self._channel is not None and self.consumer is not None:
            self._channel.set_ready(self.consumer, command.count)
        elif self.consumer is not None:
            self.consumer.ready_count = command.count  # used once its channel is made

    def _on_req(self, command: Req) -> None:
        if self._channel is None or self.consumer is None:
            return
        try:
            self._channel.requeue(self.consumer, command.id, command.timeout_ms * NS_PER_MS, self._clock.monotonic_ns())
        except RequestError as exc:
            self._refuse(_failed("REQ", command.id, exc))

    def _on_touch(self, command: Touch) -> None:
        if self._channel is None or self.consumer is None:
            return
        try:
            self._channel.touch(self.consumer, command.id, self._clock.monotonic_ns())
        except RequestError as exc:
            self._refuse(_failed("TOUCH", command.id, exc))

    def _on_nop(self, command: Nop) -> None:
        pass

    def _on_sub(self, command: Sub) -> None:
        consumer = Consumer(
            self._key,
            self._connection,
            msg_timeout_ns=self.identity.msg_timeout_ms * NS_PER_MS,
            max_msg_timeout_ns=self._options.max_msg_timeout_ms * NS_PER_MS,
            sample_rate=self.identity.sample_rate,
            name=self.identity.client_id or self.identity.hostname,
            address=self.remote_address,
        )
        missing = self._creations.missing(command.topic, command.channel)
        try:
            channel, ticket = self._engine.catalog.subscribe(command.topic, command.channel, consumer)
        except PenstockError as exc:
            raise failed_command("SUB", exc) from exc
        if missing:
            self._creations.note(missing, ticket, self.remote_address)
        self._channel = channel
        self.consumer = consumer
        self._state = CLIENT_STATE_SUBSCRIBED
        self.is_sub_pending = True
        if channel is None:
            ticket.when_done(lambda done: self._subscribed(done, command))
        self._ok_when(ticket, "SUB", 0, self._sub_settled)

    def _subscribed(self, done: Ticket, command: Sub) -> None:
        """Take the channel that SUB has made, unless the disk refused it."""
        topic = self._engine.topics.get(command.topic)
        if done.error is None and self.consumer is not None and topic is not None:
            self._channel = topic.channels.get(command.channel)

    def _sub_settled(self) -> None:
        self.is_sub_pending = False
        self.wake_channel()

    def _on_cls(self, command: Cls) -> None:
        self._state = CLIENT_STATE_CLOSING
        if self._channel is not None and self.consumer is not None:
            self._channel.set_closing(self.consumer)
        elif self.consumer is not None:
            self.consumer.is_closing = True
            self.consumer.ready_count = 0
        self._answers.add(frames.CLOSE_WAIT)

    def _on_identify(self, command: Identify) -> None:
        before = self.identity.features
        identity = parse_identify(command.body, self.identity, self._options)
        if before.has_layers and identity.features.has_layers:
            raise _in_state(b"IDENTIFY")  # it has its layers
        answer = identity.response(self._options, is_auth_required=self._gate.is_required)
        frame = frames.response_frame(answer)
        self.identity = replace(identity, features=before) if before.has_layers else identity
        self._connection.agree(identity)
        if identity.features.has_layers:
            self._connection.upgrade(frame, identity.features)
        else:
            self._answers.add(frame)

    def check_rights(self) -> None:
        """Raises ProtocolError when the client has lost the right to be here."""
        self.auth.check(is_subscribed=self.consumer is not None)

    @property
    def is_producer(self) -> bool:
        return bool(self.pub_counts)

    def stats(self) -> ClientStats:
        consumer = self.consumer
        identity = self.identity
        authorization = self.auth.authorization
        return ClientStats(
            client_key=self._key,
            client_id=identity.client_id,
            hostname=identity.hostname,
            user_agent=identity.user_agent,
            remote_address=self.remote_address,
            version="V2",
            state=self._state,
            connect_ts=self._connected_at_s,
            msg_timeout_ms=identity.msg_timeout_ms,
            pub_counts=tuple(self.pub_counts.items()),
            authed=authorization is not None,
            auth_identity=authorization.identity if authorization is not None else "",
            auth_identity_url=authorization.identity_url if authorization is not None else "",
            sample_rate=identity.sample_rate,
            snappy=identity.features.snappy,
            deflate=identity.features.deflate,
            tls=self.tls is not None,
            tls_cipher_suite=self.tls.cipher_suite if self.tls is not None else "",
            tls_version=self.tls.version if self.tls is not None else "",
            **(_fields_of_consumer(consumer) if consumer else _WITHOUT_CONSUMER),
        )


def _in_state(verb: bytes, why: str = "") -> ProtocolError:
    return ProtocolError("E_INVALID", f"cannot {text_of(verb)} in current state{why}")


def _failed(verb: str, message_id: bytes, error: RequestError) -> ProtocolError:
    text = message_id.decode("utf-8", "replace")
    return ProtocolError(f"E_{verb}_FAILED", f"{verb} {text} failed {error}", fatal=False)
