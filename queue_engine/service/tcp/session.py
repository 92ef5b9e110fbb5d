"""One TCP connection: commands in, answers and messages out. The commands themselves are in connected_client.py.

Answers leave in the order of the commands: an answer whose ticket is not done yet holds back those behind it, a fatal
error included. Messages and heartbeats may go between.
"""

import asyncio
import logging
import ssl
from collections.abc import Callable
from typing import Protocol, cast

from queue_engine.engine.engine import Engine
from queue_engine.service.admission.pending_bodies import PendingBodies
from queue_engine.service.admission.refused_publishes import reason_of_answer
from queue_engine.service.admission.unread_bytes import has_unread_bytes
from queue_engine.service.identity.gate import Gate, Peer
from queue_engine.service.layers.compression_layer import STEP_BYTES
from queue_engine.service.layers.tls_layer import HANDSHAKE_TIMEOUT_MS
from queue_engine.service.tcp import reading
from queue_engine.service.tcp.answers import Answers, failed_command
from queue_engine.service.tcp.body_in_progress import BodyInProgress
from queue_engine.service.tcp.connected_client import ConnectedClient
from queue_engine.service.tcp.deadlines import Deadlines
from queue_engine.service.tcp.heartbeat import Heartbeat
from queue_engine.service.tcp.heartbeat_timer import HeartbeatTimer
from queue_engine.service.tcp.output_buffer import OutputBuffer
from queue_engine.service.tcp.pub_groups import PubGroup, PubGroups
from queue_engine.service.tcp.reading import Reading
from queue_engine.service.tcp.stranger_turns import STRANGER_COMMANDS, STRANGER_STEP_BYTES, StrangerTurns
from queue_engine.service.tcp.upgrade import Upgrade
from queue_engine.service.tcp.write_room import WriteRoom
from queue_engine.service.tls.server_context import TlsState
from queue_engine.vocabulary.client_key import UNIX, ClientKey, ClientKeys
from queue_engine.vocabulary.clock import NS_PER_S, Clock
from queue_engine.vocabulary.errors import ProtocolError, QuotaError
from queue_engine.vocabulary.run import Run
from queue_engine.vocabulary.ticket import Ticket
from queue_engine.wire.protocol import frames
from queue_engine.wire.protocol.commands import Fin
from queue_engine.wire.protocol.features import Features
from queue_engine.wire.protocol.identify import AgreedSettings
from queue_engine.wire.protocol.parser import Parser

logger = logging.getLogger(__name__)

MAGIC = b"  V2"
# Reading pauses while so many published bytes wait for their OK.
UNSETTLED_BYTES_MAX = 8 << 20
# Reading pauses, too, while the peer has left so many bytes unread: answers are not held back like messages.
UNREAD_BYTES_MAX = 256 << 10
# Commands of one connection that are done in a row; then other connections have their turn.
COMMANDS_PER_TURN = 1_000
# Behind a large read the loop would read on from the same socket, up to 32 times.
_LARGE_READ_BYTES = 128 << 10
# With so many commands in it that is held up: messages of some size are no work to speak of.
_MANY_COMMANDS = 64
# A closed connection whose peer does not take the rest is cut after this long.
CLOSE_TIMEOUT_NS = 5 * NS_PER_S


class SessionOwner(Protocol):
    """Counts the connections. heartbeats: calls `beat`. pubs: takes PUBs of clients that wait for each OK. bodies:
    limits those being read. gate: decides on rights. strangers: the work of clients without one. client_keys: who a
    limit counts. tls: None without one."""

    heartbeats: HeartbeatTimer
    pubs: PubGroups
    bodies: PendingBodies
    gate: Gate
    strangers: StrangerTurns
    client_keys: ClientKeys

    @property
    def tls(self) -> ssl.SSLContext | None: ...

    def opened(self, session: "Session") -> str:
        """Count a new connection; returns why it is refused, or ""."""
        ...

    def identified(self, session: "Session") -> str:
        """Count the connection for its identity from now on; returns why it is refused, or ""."""
        ...

    def closed(self, session: "Session") -> None: ...

    def flush_soon(self, session: "Session") -> None:
        """Call `write_replies` of the session at the end of this turn of the loop."""
        ...


class Session(asyncio.Protocol):
    """Serves one client. Implements `ClientConnection` for its commands, and `Sink` for delivery."""

    def __init__(self, engine: Engine, clock: Clock, owner: SessionOwner) -> None:
        options = engine.options
        self._engine = engine
        self._clock = clock
        self._owner = owner
        self._flush_soon = owner.flush_soon
        self._pubs = owner.pubs
        self._pub_group: PubGroup | None = None  # that this client's PUB waits in; it waits for no other answer
        self._transport: asyncio.Transport | None = None  # of the socket, or the topmost layer
        self._upgrade: Upgrade | None = None  # until the layers are complete
        self._parser = Parser(
            max_msg_size=options.max_msg_size,
            max_body_size=options.max_body_size,
            max_mpub_messages=options.max_mpub_messages,
            max_req_timeout_ms=options.max_req_timeout_ms,
            max_rdy_count=options.max_rdy_count,
        )
        self._whole_pub = self._allowed_pub if owner.pubs.quotas.has_any else self._parser.whole_pub
        self._now_ns = clock.monotonic_ns
        self._magic: bytes | None = b""  # the part that has come; None once it was right
        self._refused_publishes = engine.stats.refused_publishes
        self.answers = Answers(self._answers_settled, self._count_refusal)
        self._heartbeat = Heartbeat()
        self._output = OutputBuffer(asyncio.get_running_loop(), self._write)
        self._room = WriteRoom()
        self._remote_ip = ""
        self._client = ConnectedClient(engine, clock, owner.pubs, self, owner.gate)
        self._parser.admit = self._client.admit
        self._handlers = self._client.handlers
        self._pub_counts = self._client.pub_counts
        self._reading = Reading(self._note_resumed)
        self._body = BodyInProgress(owner.bodies, self._parser, self._reading, self._refuse_slow)
        self._is_turn_due = False
        self._ends_after_waiting = False
        self._has_ended = False  # the client's side has, while commands before that waited
        self._is_write_paused = False
        # Time, monotonic ns.
        now_ns = clock.monotonic_ns()
        self._deadlines = Deadlines(options, now_ns)
        self.heard_ns = now_ns
        self._command_began_ns: int | None = None
        self._closing_ns: int | None = None

    # The connection.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are asyncio's in all but inheritance.
        transport = self._transport = self._reading.transport = cast(asyncio.Transport, transport)
        peer = transport.get_extra_info("peername")
        if isinstance(peer, tuple):
            host, port = peer[0], peer[1]
            self._remote_ip = host
            self._client.connected(host, f"[{host}]:{port}" if ":" in host else f"{host}:{port}")
        else:
            self._client.connected("unix", "unix")
        if refusal := self._owner.opened(self):
            transport.write(frames.error_frame(f"E_INVALID {refusal}".encode()))
            self._end()
            return
        self._client.register()

    def connection_lost(self, exc: Exception | None) -> None:
        self._closing_ns = self._closing_ns or self._clock.monotonic_ns()
        self._reading.transport = None
        self._output.drop()
        self._pub_group = None
        try:
            self._parser.end()  # frees its buffers; the collector may free the session much later
            self._body.leave()
            self._client.leave_channel()
        finally:
            self._client.disconnected()
            self._owner.heartbeats.set(self, 0)
            self._owner.closed(self)
            # The layers' memory, OpenSSL's and zlib's, goes now; that of the session when the collector comes by.
            self._transport = self._upgrade = None

    def _end(self) -> None:
        """Close once all written bytes are sent; bytes that come in meanwhile are not read."""
        if self._closing_ns is None:
            self._closing_ns = self._clock.monotonic_ns()
            self._body.leave()
            # Its messages are given back now, not when the peer has read the rest.
            self._client.leave_channel()
            self._reading.transport = None
            if self._transport is not None:
                self._transport.close()

    def close(self) -> None:
        """Take no more commands, answer those taken, then close."""
        self._output.flush()
        self._ends_after_waiting = True
        self._client.leave_channel()
        self.write_replies()

    def abort(self) -> None:
        """End at once; unsent bytes are dropped."""
        self._end()
        if self._transport is not None:
            self._transport.abort()

    def data_received(self, data: bytes) -> None:
        if self._closing_ns is not None or self._ends_after_waiting:
            return
        self.heard_ns = now_ns = self._now_ns()
        answers = self.answers
        try:
            if self._magic is not None:
                data = self._take_magic(data)
            if self._pub_group is not None and not self._line_up():
                return
            if not answers.waiting and not answers.ready:
                pub = self._whole_pub(data)
                if pub is not None:
                    self._pub_group = self._pubs.add(self, *pub)
                    return
            self._read_commands(data, now_ns)
        except ProtocolError as error:
            self.refuse(error)
        except Exception as exc:
            self.fail(exc)
        # Answers go out together at the end of the turn, so that a client wakes up once for all of them.
        if answers.ready or self._ends_after_waiting:
            self._flush_soon(self)

    def eof_received(self) -> bool:
        """The client sends nothing more. It gets the answers to all that it sent; then the connection ends."""
        if self._client.auth.is_asking or self._reading.pauses & reading.TURN:
            self._has_ended = True  # TLS read the end together with commands that wait: `_take_end` comes back to it
        elif self._closing_ns is None and not self._ends_after_waiting:
            try:
                if self._magic is None:
                    self._parser.finish()
            except ProtocolError as error:
                self.refuse(error)
            except Exception as exc:
                self.fail(exc)
            self.close()
        return True  # the transport stays until `_end` closes it

    def fail(self, error: Exception) -> None:
        """End this connection, and no other, after an unexpected error."""
        logger.error("connection failed remote=%s", self._client.remote_address, exc_info=error)
        if self._closing_ns is None and not self._ends_after_waiting:
            text = "the server failed at this; its log has the error, and other connections go on"
            self.refuse(ProtocolError("E_INVALID", text))
            self._flush_soon(self)
        else:
            self.abort()  # ending it failed, too

    def _read_commands(self, data: bytes, now_ns: int) -> None:
        parser = self._parser
        parser.feed(data)
        handlers = self._handlers
        began_ns = self._command_began_ns
        fins = 0
        for count in range(STRANGER_COMMANDS if self._client.auth.is_stranger else COMMANDS_PER_TURN):
            command = parser.next()
            if command is None:
                if count + fins > _MANY_COMMANDS and len(data) >= _LARGE_READ_BYTES:
                    self._give_turn()
                break
            handlers[type(command)](command)
            if type(command) is Fin:
                fins += len(command.ids)  # one command may be thousands of them
            began_ns = None  # an unfinished command now began in this read
        else:
            self._give_turn()
        if self._body.is_begun and began_ns is None:
            self._body.leave()  # it is complete
        if not parser.in_progress:
            self._command_began_ns = None
            return
        if began_ns is None:
            self._command_began_ns = now_ns
        if not self._body.is_begun and (body_bytes := parser.awaited_body_bytes):
            self._body.begin(self.client_key, body_bytes, now_ns)

    def _give_turn(self) -> None:
        """Take the next commands after other connections had their turn."""
        if not self._is_turn_due:
            self._is_turn_due = True
            self._reading.pause(reading.TURN)
            self.soon(self._take_turn)

    # The pace of its work, and of its layers: `Pace`.

    @property
    def step_bytes(self) -> int:
        return STRANGER_STEP_BYTES if self._client.auth.is_stranger else STEP_BYTES

    def soon(self, piece: Callable[[], object]) -> None:
        """Call `piece` when other connections had their turn. Clients that owe a secret share one turn."""
        if self._client.auth.is_stranger:
            self._owner.strangers.soon(piece)
        else:
            asyncio.get_running_loop().call_soon(piece)

    def _take_turn(self) -> None:
        self._is_turn_due = False
        self.data_received(b"")
        if not self._is_turn_due:
            self._reading.resume(reading.TURN)
            self._take_end()

    def _take_end(self) -> None:
        """The end that came while commands before it waited, once they are taken."""
        if self._has_ended:
            self._has_ended = False
            self.eof_received()

    @property
    def client_key(self) -> ClientKey:
        """Who a limit counts: by the address until AUTH, then by the identity, too."""
        return self._owner.client_keys.of(self._remote_ip or UNIX, self._client.auth.identity)

    @property
    def connection_key(self) -> ClientKey:
        """Who the limit on connections counts."""
        return self._owner.client_keys.of_connection(self._remote_ip or UNIX, self._client.auth.identity)

    def hold_reading(self, is_crowded: bool) -> None:
        """Pause reading while bodies are crowded, but not from consumers, whose FINs make room, nor within a body."""
        if not is_crowded:
            if not self._reading.pauses & reading.CROWDED:
                return
            if has_unread_bytes(self._transport):
                self._deadlines.begin_anew(self._clock.monotonic_ns())  # its magic could not be read meanwhile
            self._reading.resume(reading.CROWDED)
        elif self._client.consumer is None and not self._body.is_begun and self._upgrade is None:
            self._reading.pause(reading.CROWDED)

    def _take_magic(self, data: bytes) -> bytes:
        """Read the first four bytes; returns the bytes behind them. Raises ProtocolError for other magic."""
        assert self._magic is not None
        wanted = len(MAGIC) - len(self._magic)
        self._magic += data[:wanted]
        if len(self._magic) < len(MAGIC):
            return b""
        if self._magic != MAGIC:
            raise ProtocolError("E_BAD_PROTOCOL", "")
        self._magic = None
        return data[wanted:]

    def pause_writing(self) -> None:
        self._is_write_paused = True
        self._deadlines.writing_paused(self._clock.monotonic_ns(), self._write_buffer_bytes())

    def resume_writing(self) -> None:
        self._is_write_paused = False
        self._deadlines.writing_resumed()
        self._reading.resume(reading.UNREAD)
        self._client.wake_channel()

    def _note_resumed(self, reason: int) -> None:
        """While reading was paused the client could send no sign of life and finish no command. One that sent nothing
        while it had no room has no excuse."""
        if reason == reading.TURN or (reason & reading.WITHOUT_ROOM and not has_unread_bytes(self._transport)):
            return
        self.heard_ns = self._clock.monotonic_ns()
        if self._command_began_ns is not None:
            self._command_began_ns = self.heard_ns

    def _write_buffer_bytes(self) -> int:
        return 0 if self._transport is None else self._transport.get_write_buffer_size()

    def _write(self, data: bytes) -> None:
        if self._closing_ns is None and self._transport is not None:
            self._transport.write(data)

    # Layers: `LayeredConnection`.

    def upgrade(self, answer: bytes, features: Features) -> None:
        rest = self._parser.take_rest()
        self._reading.pause(reading.HELD)
        self.answers.add(answer, lambda: self._begin_upgrade(features, rest))

    def _begin_upgrade(self, features: Features, rest: bytes) -> None:
        """All answers up to that to IDENTIFY are ready: they go in plain."""
        self.write_replies()
        transport = self._transport
        if self._closing_ns is not None or transport is None:
            return
        self._reading.begin_anew()
        self._upgrade = Upgrade(self, self, transport, features, self._owner.tls, self._now_ns())
        self._upgrade.begin(rest)

    def upgraded(self, transport: asyncio.Transport, tls: TlsState | None) -> None:
        self._upgrade = None
        self._transport = self._reading.transport = transport
        self._client.tls = tls
        self.heard_ns = self._now_ns()

    def upgrade_failed(self, reason: str) -> None:
        self._upgrade = None
        self.refuse(ProtocolError("E_IDENTIFY_FAILED", f"IDENTIFY failed {reason}"))
        self._flush_soon(self)

    # AUTH: `HeldConnection`.

    def peer(self) -> Peer:
        tls = self._client.tls
        return Peer(self._remote_ip, tls is not None, tls.common_name if tls is not None else "")

    def identified(self) -> str:
        return self._owner.identified(self)

    def begin_checks(self) -> None:
        self._whole_pub = self._allowed_pub
        self._parser.check_mpub = self._client.auth.check_mpub

    def _allowed_pub(self, data: bytes) -> tuple[str, bytes] | None:
        """A PUB that may be published at once; every other one goes to its handler, which refuses it where it must."""
        pub = self._parser.whole_pub(data)
        if pub is None or not self._client.auth.lets_publish(pub[0], self.heard_ns):
            return None
        try:
            self._client.take_quota(pub[0], 1, len(pub[1]))
        except QuotaError:
            return None
        return pub

    def hold(self) -> None:
        self._parser.hold()
        self._reading.pause(reading.HELD)

    def go_on(self, then: Callable[[], None]) -> None:
        if self._closing_ns is not None or self._ends_after_waiting:
            return
        self._parser.release()
        try:
            then()
        except ProtocolError as error:
            self.refuse(error)
        except Exception as exc:
            self.fail(exc)
        self._reading.resume(reading.HELD)
        self.data_received(b"")  # the bytes behind AUTH
        self._take_end()
        if self.answers.ready or self._ends_after_waiting:
            self._flush_soon(self)

    def agree(self, identity: AgreedSettings) -> None:
        self._output.agree(identity)
        self._room.agree(identity.output_buffer_size)
        self._heartbeat.begin(identity.heartbeat_interval_ms, self._clock.monotonic_ns())
        self._owner.heartbeats.set(self, self._heartbeat.due_ns)
        if self._transport is not None:
            self._transport.set_write_buffer_limits(high=identity.output_buffer_size)

    # Answers.

    def ok_when(self, ticket: Ticket, verb: str, body_bytes: int, then: Callable[[], None] | None = None) -> None:
        answers = self.answers
        answers.add_ok_when(ticket, verb, body_bytes, then)
        if answers.unsettled_bytes > UNSETTLED_BYTES_MAX and not self._reading.pauses & reading.UNSETTLED:
            self._reading.pause(reading.UNSETTLED)

    def _answers_settled(self) -> None:
        try:
            self._after_answers()
        except Exception as exc:
            # Other connections may wait for the same ticket.
            self.fail(exc)

    def _after_answers(self) -> None:
        answers = self.answers
        if answers.has_failed:
            self._ends_after_waiting = True
        if self._reading.pauses & reading.UNSETTLED and answers.unsettled_bytes <= UNSETTLED_BYTES_MAX // 2:
            self._reading.resume(reading.UNSETTLED)
        if self._ends_after_waiting:
            self._flush_soon(self)
        elif answers.ready:
            self.write_replies()  # the transport sends when all of this turn's are written

    def refuse(self, error: ProtocolError) -> None:
        """Answer an error; a fatal one ends the connection behind the answers that are still due."""
        self._count_refusal(error)
        self.answers.add(frames.error_frame(error.payload))
        if error.fatal:
            logger.info("client refused remote=%s error=%s", self._client.remote_address, error)
            self._ends_after_waiting = True
            self._command_began_ns = None
            self._body.leave()

    def _count_refusal(self, error: ProtocolError) -> None:
        reason = reason_of_answer(error)
        if reason is not None:
            self._refused_publishes[reason.value] += 1

    def write_replies(self) -> None:
        """Send the answers that are ready; end the connection if the last of them was fatal."""
        ready = self.answers.ready
        if ready:
            if self._output.is_holding:
                self._output.flush()  # messages that are held go out first
            if self._closing_ns is None and self._transport is not None:
                self._transport.write(ready[0] if len(ready) == 1 else b"".join(ready))
            ready.clear()
            if self._is_write_paused and self._write_buffer_bytes() > UNREAD_BYTES_MAX:
                self._reading.pause(reading.UNREAD)
        if self._ends_after_waiting and not self.answers.waiting and self._pub_group is None:
            self._end()

    # PUBs of clients that wait for each OK: `Publisher`.

    @property
    def remote_address(self) -> str:
        return self._client.remote_address

    def pub_settled(self, group: PubGroup, ticket: Ticket) -> None:
        """Answer the PUB that the client waits for: `Publisher`."""
        if self._pub_group is not group:
            return  # the answer stands among others now, or the connection has ended
        self._pub_group = None
        if ticket.error is not None:
            self.refuse(failed_command("PUB", ticket.error))
        elif self._closing_ns is None and self._transport is not None:
            counts = self._pub_counts
            counts[group.topic] = counts.get(group.topic, 0) + 1
            if self._output.is_holding or self._is_write_paused:
                self.answers.add(frames.OK)
            else:
                self._transport.write(frames.OK)
                if not self._ends_after_waiting:
                    return
        self._flush_soon(self)

    def _line_up(self) -> bool:
        """Publish the PUB that waits, since more came behind it, and line its answer up before those to come.

        Returns whether the client's further commands may be read: not when the PUB was refused."""
        group = self._pub_group
        assert group is not None
        self._pubs.publish_group(group)
        if self._pub_group is None:
            return not self._ends_after_waiting  # answered by that
        self._pub_group = None
        assert group.ticket is not None
        self._pub_counts[group.topic] = self._pub_counts.get(group.topic, 0) + 1
        self.ok_when(group.ticket, "PUB", 0)
        return True

    # Messages: `Sink`.

    @property
    def is_writable(self) -> bool:
        return not self._is_write_paused and not self._client.is_sub_pending and self._closing_ns is None

    @property
    def run_bytes_max(self) -> int:
        return self._room.run_bytes_max(self._transport, self._output.gathered_bytes)

    def send_run(self, run: Run) -> None:
        if self.answers.ready:
            self.write_replies()  # SUB's OK goes before the first message
        if self._closing_ns is not None:
            return  # an error has just ended it; its messages went back to the channel
        consumer = self._client.consumer
        try:
            self._room.written(len(run.frames))
            self._output.add(run.frames, is_last=consumer is None or consumer.credit <= 0)
        except Exception as exc:
            self.fail(exc)  # ends this connection and does not fence the channel

    def close_consumer(self) -> None:
        self._client.channel_closed()
        self._end()

    # Time.

    def check(self, now_ns: int) -> None:
        """Cut a connection that is silent, stuck or too slow. Called a few times a second."""
        transport = self._transport
        if transport is None:
            return
        if self._closing_ns is not None:
            if now_ns - self._closing_ns > CLOSE_TIMEOUT_NS:
                transport.abort()
            return
        if self._upgrade is not None:
            if self._upgrade.is_late(now_ns):
                self._cut("TLS handshake not complete", HANDSHAKE_TIMEOUT_MS)
            return
        # A client that waits for the server need send nothing.
        waits_for_server = self._ends_after_waiting or self._reading.waits_for_server()
        if not waits_for_server and self._is_too_slow(now_ns):
            return
        if not self._ends_after_waiting and self._has_lost_rights():
            return
        heartbeat = self._heartbeat
        if not heartbeat.interval_ns:
            return
        if not waits_for_server and heartbeat.is_silent(now_ns, self.heard_ns):
            if heartbeat.is_one_missing(self.heard_ns):
                self._beat()
            self._log_cut("silent", 2 * self._client.identity.heartbeat_interval_ms)
            self._end()
            return
        if self._is_write_paused and self._deadlines.is_stuck(
            now_ns, self._write_buffer_bytes(), heartbeat.interval_ns
        ):
            self._cut("does not read", self._client.identity.heartbeat_interval_ms)

    def beat(self, now_ns: int) -> int:
        """Send the heartbeat that is due: `Beating`."""
        if self._heartbeat.is_due(now_ns, self.heard_ns) and self._closing_ns is None and self._upgrade is None:
            self._beat()
        return self._heartbeat.due_ns

    def _beat(self) -> None:
        if not self._is_write_paused and self._transport is not None:
            self._output.flush()
            self._transport.write(frames.HEARTBEAT)

    def _has_lost_rights(self) -> bool:
        try:
            self._client.check_rights()
        except ProtocolError as error:
            self.refuse(error)
            self._flush_soon(self)
            return True
        return False

    def _is_too_slow(self, now_ns: int) -> bool:
        """Cut the connection when its magic or a command takes too long; returns whether it was cut."""
        deadlines = self._deadlines
        if self._magic is not None and deadlines.is_magic_late(now_ns):
            self._cut("no magic", deadlines.magic_timeout_ms)
            return True
        if self._command_began_ns is not None:
            why = deadlines.why_late(now_ns, self._command_began_ns, self.heard_ns, self._parser.awaited_body_bytes)
            if why:
                self._refuse_slow(why)
                return True
        return False

    def _refuse_slow(self, why: str) -> None:
        """Tell the client why, and end the connection."""
        awaited_bytes, held_bytes = self._parser.awaited_body_bytes, self._parser.buffered_bytes
        come = (
            f"{held_bytes} of {awaited_bytes} bytes of its body came" if awaited_bytes else f"{held_bytes} bytes came"
        )
        self._parser.end()
        self.refuse(ProtocolError("E_INVALID", f"{why}: {come}"))
        self._flush_soon(self)

    def _cut(self, reason: str, limit_ms: int) -> None:
        self._log_cut(reason, limit_ms)
        self.abort()

    def _log_cut(self, reason: str, limit_ms: int) -> None:
        logger.info("client cut remote=%s reason=%r limit_ms=%d", self._client.remote_address, reason, limit_ms)
