"""The tokens that a running server knows: it reads their file again when that was replaced."""

import logging

from queue_engine.service.identity.authorization import Authorization
from queue_engine.service.identity.token import Token, TokenState, id_in
from queue_engine.service.identity.token_file import Stamp, TokenFile
from queue_engine.vocabulary.clock import NS_PER_MS, Clock
from queue_engine.vocabulary.errors import StorageError

logger = logging.getLogger(__name__)


class LoadedTokens:
    """Belongs to the engine's thread.

    exists: whether there is a file, or was one since the start: then clients must give a token. used_ms: when each
    token was last used, by id. is_used_changed: since it was last written. complaint: why the file on the disk does not
    count; "" while it does.
    """

    def __init__(self, file: TokenFile, clock: Clock) -> None:
        """Raises StorageError where the file can't be read."""
        self._file = file
        self._clock = clock
        self._tokens: dict[str, Token] = {}
        self._authorizations: dict[str, Authorization] = {}  # of tokens in use, shared by their connections
        self._stamp: Stamp | None = None
        self._reads_again = False
        self.complaint = ""
        self.exists = False
        self.used_ms: dict[str, int] = dict(file.used_ms())
        self.is_used_changed = False
        self._read(self._stamp_now())

    def authorization_of(self, secret: bytes) -> Authorization | None:
        """The permissions of a client with this secret; None for a wrong, revoked or expired one."""
        token = self._tokens.get(id_in(secret))
        now_ms = self._now_ms()
        if token is None or not token.fits(secret) or token.state(now_ms) is not TokenState.VALID:
            return None
        self.used_ms[token.id] = now_ms
        self.is_used_changed = True
        found = self._authorizations.get(token.id)
        if found is None:
            found = self._authorizations[token.id] = Authorization(token.name, [token], token_id=token.id)
        return found

    def read_again(self) -> None:
        """Read the file, whatever it looks like, and log how it went."""
        self._reads_again = True
        self.check()
        if not self.complaint:
            logger.info("%s was read again, tokens: %d", self._file.path, len(self._tokens))

    def check(self) -> None:
        """Read the file again where it has changed, and end the rights of tokens that no longer count."""
        try:
            stamp = self._stamp_now()
            if stamp != self._stamp or self.complaint or self._reads_again:
                self._reads_again = False
                self._read(stamp)
                self.complaint = ""
        except StorageError as exc:
            # The loaded tokens stay: a damaged file neither lets clients in nor cuts them off.
            if not self.complaint:
                logger.error("tokens are as they were: %s", exc)
            self.complaint = str(exc)
        now_ms = self._now_ms()
        for token_id, authorization in list(self._authorizations.items()):
            token = self._tokens.get(token_id)
            state = TokenState.REVOKED if token is None else token.state(now_ms)
            if state is not TokenState.VALID:
                del self._authorizations[token_id]
                how = "has expired" if state is TokenState.EXPIRED else "was revoked"
                authorization.end(f"the token {authorization.identity} {how}")

    def _read(self, stamp: Stamp | None) -> None:
        tokens = self._file.read()
        self._tokens = {token.id: token for token in tokens or ()}
        # The oldest tokens make room for new ones: a program that makes one for each of its runs makes many.
        self.used_ms = {token_id: at_ms for token_id, at_ms in self.used_ms.items() if token_id in self._tokens}
        self._stamp = stamp
        self.exists = self.exists or tokens is not None

    def _stamp_now(self) -> Stamp | None:
        try:
            return self._file.stamp()
        except OSError as exc:
            raise StorageError(f"{self._file.path} can't be read: {exc}") from exc

    def _now_ms(self) -> int:
        return self._clock.time_ns() // NS_PER_MS
