"""AUTH on one connection, and the check of each command that needs a right, with nsqd's errors.

A connection without AUTH on a server that wants none never comes here after its first command: the checks are put
around the handlers of PUB, MPUB, DPUB and SUB only once they are needed.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Any, Protocol

import orjson

from queue_engine.service.identity.auth_servers import SECRET_BYTES_MAX
from queue_engine.service.identity.authorization import Authorization
from queue_engine.service.identity.gate import Gate, Peer, SecretRefusedError
from queue_engine.service.tcp.answers import Answers
from queue_engine.vocabulary.clock import Clock
from queue_engine.vocabulary.errors import ProtocolError
from queue_engine.vocabulary.permission import Permission
from queue_engine.wire.protocol import frames
from queue_engine.wire.protocol.commands import Auth, Dpub, Mpub, Pub, Sub
from queue_engine.wire.protocol.words import invalid, quoted

logger = logging.getLogger(__name__)

_PUBLISHES: dict[type, str] = {Pub: "PUB", Mpub: "MPUB", Dpub: "DPUB"}


class HeldConnection(Protocol):
    """A connection that can wait for an answer to AUTH. answers: those that are still to leave."""

    answers: Answers

    def hold(self) -> None:
        """Read nothing, and take no command that has come already, until `go_on`."""
        ...

    def go_on(self, then: Callable[[], None]) -> None:
        """Do `then`, whose error is answered as that of a command, and take commands again."""
        ...

    def peer(self) -> Peer: ...

    def identified(self) -> str:
        """Take notice of who the client is; returns why it can't be served, or ""."""
        ...

    def begin_checks(self) -> None:
        """From now on hand over no PUB that `ClientAuth.lets_publish` does not allow."""
        ...


class ClientAuth:
    """The permissions of one client. Belongs to the engine's thread.

    authorization: the answer to its AUTH; None before it.
    """

    def __init__(
        self, gate: Gate, clock: Clock, connection: HeldConnection, handlers: dict[type, Callable[[Any], None]]
    ) -> None:
        """handlers: of the client's commands; those that need a right are replaced when checks begin."""
        self._gate = gate
        self._clock = clock
        self._connection = connection
        self._handlers = handlers
        self._unchecked: dict[type, Callable[[Any], None]] = {}
        self._secret = b""
        self._question: asyncio.Task[None] | None = None
        self.authorization: Authorization | None = None

    def connected(self) -> None:
        """The connection is open."""
        if self._gate.is_required:
            self._begin_checks()

    def _begin_checks(self) -> None:
        if self._unchecked:
            return
        for kind in _PUBLISHES:
            self._unchecked[kind] = self._handlers[kind]
            self._handlers[kind] = self._on_publish
        self._unchecked[Sub] = self._handlers[Sub]
        self._handlers[Sub] = self._on_sub
        self._connection.begin_checks()

    # Commands. Each raises ProtocolError.

    def on_auth(self, command: Auth) -> None:
        if self.authorization is not None:
            raise invalid("AUTH already set")
        if not self._gate.is_enabled:
            self._gate.check()  # the first token may have been made this moment
        if not self._gate.is_enabled:
            raise ProtocolError("E_AUTH_DISABLED", "AUTH disabled")
        # No more than shows that it is too long: a connection keeps it, and its answer may take seconds.
        self._secret = command.secret[: SECRET_BYTES_MAX + 1]
        self._with_authorization(self._answer)

    def _answer(self) -> None:
        authorization = self.authorization
        assert authorization is not None
        answer = {
            "identity": authorization.identity,
            "identity_url": authorization.identity_url,
            "permission_count": authorization.permission_count,
        }
        self._connection.answers.add(frames.response_frame(orjson.dumps(answer)))

    def _on_publish(self, command: Any) -> None:
        verb = _PUBLISHES[type(command)]
        self._checked(command, verb, Permission.PUBLISH, command.topic, "")

    def _on_sub(self, command: Sub) -> None:
        self._checked(command, "SUB", Permission.CONSUME, command.topic, command.channel)

    def _checked(self, command: Any, verb: str, permission: Permission, topic: str, channel: str) -> None:
        do = self._unchecked[type(command)]
        if self._is_expired():
            # The permission is requested anew, once, and then the command is done or refused.
            def again() -> None:
                self._require(verb, permission, topic, channel)
                do(command)

            self._with_authorization(again)
            return
        self._require(verb, permission, topic, channel)
        do(command)

    def _require(self, verb: str, permission: Permission, topic: str, channel: str) -> None:
        authorization = self.authorization
        if authorization is None:
            if self._gate.is_required:
                raise ProtocolError("E_AUTH_FIRST", f"AUTH required before {verb}")
        elif not authorization.may(permission, topic, channel):
            names = f"{quoted(topic.encode())} {quoted(channel.encode())}"
            raise ProtocolError("E_UNAUTHORIZED", f"AUTH failed for {verb} on {names}")

    def check_mpub(self, topic: str) -> None:
        """Check the right to an MPUB before its body is read, as nsqd does."""
        if self._unchecked and not self._is_expired():
            self._require("MPUB", Permission.PUBLISH, topic, "")

    def lets_publish(self, topic: str, now_ns: int) -> bool:
        """Whether a PUB needs no further check."""
        authorization = self.authorization
        if authorization is None:
            return not self._gate.is_required
        ends_ns = authorization.ends_ns
        return (ends_ns is None or now_ns < ends_ns) and authorization.may(Permission.PUBLISH, topic)

    @property
    def identity(self) -> str:
        """The name that its secret has; "" without one."""
        return "" if self.authorization is None else self.authorization.identity

    @property
    def is_stranger(self) -> bool:
        """Whether the client has given no secret, and needs one."""
        return self.authorization is None and self._gate.is_required

    @property
    def is_asking(self) -> bool:
        """Whether the connection waits for an answer about its secret."""
        return self._question is not None

    # Time.

    def check(self, *, is_subscribed: bool) -> None:
        """Take notice of rights that have ended, a few times a second. Raises ProtocolError when the connection must
        end."""
        if self._gate.is_required:
            self._begin_checks()
        authorization = self.authorization
        if authorization is not None and authorization.end_reason:
            raise ProtocolError("E_UNAUTHORIZED", f"AUTH {authorization.end_reason}")
        if authorization is None and is_subscribed and self._gate.is_required:
            raise ProtocolError("E_AUTH_FIRST", "AUTH required before SUB")

    def disconnected(self) -> None:
        if self._question is not None:
            self._question.cancel()

    def _is_expired(self) -> bool:
        authorization = self.authorization
        if authorization is None or authorization.ends_ns is None:
            return False
        return self._clock.monotonic_ns() >= authorization.ends_ns

    # The question, to which an auth server may take its time to answer.

    def _with_authorization(self, then: Callable[[], None]) -> None:
        """Find the secret's permissions, and do `then`; meanwhile the connection reads nothing."""
        found = self._gate.find(self._secret)
        if found is not None:
            self._take(found)
            then()
            return
        self._connection.hold()
        self._question = asyncio.get_running_loop().create_task(self._ask(then))

    async def _ask(self, then: Callable[[], None]) -> None:
        found: Authorization | Exception
        try:
            found = await self._gate.request(self._secret, self._connection.peer())
        except Exception as exc:
            found = exc
        self._question = None

        def answered() -> None:
            if isinstance(found, Authorization):
                self._take(found)
                then()
            elif isinstance(found, SecretRefusedError):
                # The reason may name auth servers: it is no client's business.
                logger.warning("AUTH failed remote=%s reason=%s", self._connection.peer().remote_ip, found)
                raise ProtocolError("E_AUTH_FAILED", "AUTH failed")
            else:
                logger.error("AUTH failed unexpectedly", exc_info=found)
                raise ProtocolError("E_AUTH_ERROR", "AUTH error: the server failed at this; its log has the error")

        self._connection.go_on(answered)

    def _take(self, authorization: Authorization) -> None:
        if not authorization.permission_count:
            raise ProtocolError("E_UNAUTHORIZED", "AUTH no authorizations found")
        self.authorization = authorization
        if refusal := self._connection.identified():
            raise ProtocolError("E_INVALID", refusal)
        self._begin_checks()
