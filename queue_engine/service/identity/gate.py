"""The gate: whether clients must identify themselves, and the permissions of those that have."""

import asyncio
import hmac
from dataclasses import dataclass
from typing import Protocol

from queue_engine.service.identity.authorization import Allowance, Authorization
from queue_engine.service.identity.guesses import Guesses
from queue_engine.service.identity.loaded_tokens import LoadedTokens
from queue_engine.service.identity.token import looks_like_token
from queue_engine.service.tls.replaceable import MadeOfFiles
from queue_engine.vocabulary.errors import PenstockError
from queue_engine.vocabulary.permission import Permission

OWN_TOKEN_NAME = "pipeline"  # noqa: S105 - a name, no secret
HTTP_TOKEN_NAME = "http-token"  # noqa: S105 - a name, no secret


class SecretRefusedError(PenstockError):
    """A secret does not count. The text is the reason, for the server's log: the client must not learn it."""


@dataclass(frozen=True, slots=True)
class Peer:
    """The other end of a connection, as the server describes it to an auth server. remote_ip: its address without the
    port. common_name: of its TLS certificate; "" without one."""

    remote_ip: str
    is_tls: bool = False
    common_name: str = ""


class Everything:
    """Allows all, as --http-token does."""

    permissions = tuple(Permission)

    def allows(self, permission: Permission, topic: str, channel: str) -> bool:
        return True


class AskedServers(Protocol):
    """Auth servers: `AuthServers`, which imports this module."""

    async def request(self, secret: bytes, peer: Peer) -> Authorization: ...

    def read_again(self) -> None: ...

    async def close(self) -> None: ...


class Gate:
    """Decides on secrets, by tokens, --http-token and auth servers. Belongs to the engine's thread.

    is_enabled: whether a secret can be given at all, over TCP. is_required: whether a TCP client without one may do
    nothing. is_required_by_http: the same of requests to the HTTP API that need a right.
    """

    def __init__(
        self,
        tokens: LoadedTokens | None = None,
        *,
        servers: AskedServers | None = None,
        guesses: Guesses | None = None,
        http_token: str = "",
        http_token_file: MadeOfFiles[bytes] | None = None,
        own_token: str = "",
        lets_anonymous: bool = False,
    ) -> None:
        """http_token_file: has the HTTP token instead of http_token. own_token: of the server's own processes.
        lets_anonymous: a client without a secret may do everything, though there are tokens or auth servers."""
        self.tokens = tokens
        self.guesses = guesses
        self._servers = servers
        self._http_token = http_token.encode()
        self._http_token_file = http_token_file
        self._own_token = own_token.encode()
        # One authorization for all who use a token: its memory is shared.
        self._by_http_token = Authorization(HTTP_TOKEN_NAME, [_EVERYTHING])
        self._by_own_token = Authorization(OWN_TOKEN_NAME, [_EVERYTHING])
        self._lets_anonymous = lets_anonymous
        self.is_enabled = self.is_required = self.is_required_by_http = False
        self._look()

    def _look(self) -> None:
        has_tokens = self.tokens is not None and self.tokens.exists
        guards = has_tokens or self._servers is not None
        has_http_token = self._http_token_file is not None or bool(self._http_token)
        self.is_enabled = guards or has_http_token
        self.is_required = guards and not self._lets_anonymous
        # HTTP does not use nsqd's auth servers.
        self.is_required_by_http = has_http_token or (has_tokens and not self._lets_anonymous)

    def check(self) -> None:
        """Take notice of tokens that were made, revoked, replaced or have expired. Called a few times a second."""
        if self._http_token_file is not None:
            self._http_token_file.current()
        if self.tokens is not None:
            self.tokens.check()
            self._look()

    def complaints(self) -> list[str]:
        """Why the file of the tokens, and that of the HTTP token, do not count; empty while they do."""
        found = []
        if self.tokens is not None and self.tokens.complaint:
            found.append(f"tokens are as they were: {self.tokens.complaint}")
        if self._http_token_file is not None and self._http_token_file.complaint:
            found.append(self._http_token_file.complaint)
        return found

    def read_again(self) -> None:
        """Read tokens and secrets from their files, whatever those look like, and log how it went."""
        if self.tokens is not None:
            self.tokens.read_again()
        if self._http_token_file is not None:
            self._http_token_file.read_again()
        if self._servers is not None:
            self._servers.read_again()
        self._look()

    def find(self, secret: bytes) -> Authorization | None:
        """The permissions of a client with this secret, where they are at hand; None where `request` must get them."""
        # In constant time, so that the duration says nothing about the token.
        file = self._http_token_file
        http_token = self._http_token if file is None else file.current()
        fixed = ((http_token, self._by_http_token), (self._own_token, self._by_own_token))
        for token, authorization in fixed:
            if token and hmac.compare_digest(secret, token):
                return authorization
        if self.tokens is None or not looks_like_token(secret):
            return None
        found = self.tokens.authorization_of(secret)
        if found is None:
            self.check()  # it may have been made this moment
            found = self.tokens.authorization_of(secret)
        return found

    def is_own(self, secret: bytes) -> bool:
        """Whether it is the token of the server's own processes."""
        return bool(self._own_token) and hmac.compare_digest(secret, self._own_token)

    async def request(self, secret: bytes, peer: Peer) -> Authorization:
        """The permissions of a client whose secret `find` does not have; a refusal takes its time. Raises
        SecretRefusedError."""
        try:
            if self._servers is None or looks_like_token(secret):
                raise SecretRefusedError("there is no such token, or it was revoked or has expired")
            return await self._servers.request(secret, peer)
        except SecretRefusedError:
            await asyncio.sleep(self.wrong(peer.remote_ip, "tcp"))
            raise

    def wrong(self, remote_ip: str, listener: str) -> float:
        """Count a wrong secret; returns how long its answer waits, in seconds. listener: "tcp" or "http"."""
        return self.guesses.note(remote_ip, listener) if self.guesses is not None else 0.0

    async def close(self) -> None:
        if self._servers is not None:
            await self._servers.close()


_EVERYTHING: Allowance = Everything()
