"""The gate: whether clients must say who they are, and what those may do that have."""

from dataclasses import dataclass

from queue_engine.identity.authorization import Authorization
from queue_engine.vocabulary.errors import PenstockError


class SecretRefusedError(PenstockError):
    """A secret lets nobody in. The text says why, for the server's log: the client must not learn it."""


@dataclass(frozen=True, slots=True)
class Peer:
    """The other end of a connection, as an auth server is told of it. remote_ip: its address without the port.
    common_name: of its TLS certificate; "" without one."""

    remote_ip: str
    is_tls: bool = False
    common_name: str = ""


class Gate:
    """Decides on secrets. Belongs to the engine's thread.

    is_enabled: whether a secret can be given at all. is_required: whether a client without one may do nothing.
    """

    def __init__(self) -> None:
        self.is_enabled = False
        self.is_required = False

    def known(self, secret: bytes) -> Authorization | None:
        """What the client with this secret may do, where that can be said at once; None: `ask` finds it out."""
        return None

    async def ask(self, secret: bytes, peer: Peer) -> Authorization:
        """What the client with this secret may do. Raises SecretRefusedError."""
        raise SecretRefusedError("AUTH is disabled")
