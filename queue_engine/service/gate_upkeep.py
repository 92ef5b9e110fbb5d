"""Makes the gate of a server's options, and looks after it."""

import asyncio
import logging

from queue_engine.service.identity.auth_servers import AuthServers
from queue_engine.service.identity.gate import Gate
from queue_engine.service.identity.guesses import Guesses
from queue_engine.service.identity.loaded_tokens import LoadedTokens
from queue_engine.service.identity.secret_file import secret_file
from queue_engine.service.identity.token_file import TokenFile, encode_used
from queue_engine.storage.disk.background import Background
from queue_engine.storage.disk.files import Files
from queue_engine.storage.disk.replaced_file import Composed, ReplacedFile
from queue_engine.vocabulary.clock import NS_PER_S, Clock
from queue_engine.vocabulary.options.options import Options

logger = logging.getLogger(__name__)

# How long a revoked token lets in at most: this, and the interval at which connections are checked.
CHECK_INTERVAL_S = 0.25
# How often the times at which tokens were last used go to the disk.
USED_INTERVAL_NS = 60 * NS_PER_S


class GateUpkeep:
    """Belongs to the engine's thread. gate: decides the permissions of clients."""

    def __init__(
        self, options: Options, clock: Clock, worker: Background, *, own_token: str = "", files: Files | None = None
    ) -> None:
        """own_token: of the server's own processes. worker: writes when tokens were last used. Raises StorageError for
        a token file that can't be read, PenstockError for another secret."""
        self._clock = clock
        files = files or Files()
        file = TokenFile(options.data_path, files)
        self._tokens = LoadedTokens(file, clock)
        servers = None
        if options.auth_http_address:
            servers = AuthServers(
                options.auth_http_address,
                clock,
                method=options.auth_http_request_method,
                connect_timeout_ms=options.http_client_connect_timeout_ms,
                request_timeout_ms=options.http_client_request_timeout_ms,
                root_ca_file=options.tls_root_ca_file,
            )
        self.gate = Gate(
            self._tokens,
            servers=servers,
            guesses=Guesses(clock),
            http_token=options.http_token,
            http_token_file=secret_file("--http-token-file", path) if (path := options.http_token_file) else None,
            own_token=own_token,
            lets_anonymous=options.allow_anonymous,
        )
        self._used = ReplacedFile(file.used_path, self._compose, files=files, worker=worker)
        self._used_written_ns = clock.monotonic_ns() - USED_INTERVAL_NS  # the first use is written at the next look

    async def check_once(self) -> None:
        """Wait for the interval, then take notice of tokens that were made, revoked or have expired."""
        await asyncio.sleep(CHECK_INTERVAL_S)
        self.look()

    def look(self) -> None:
        self.gate.check()
        now_ns = self._clock.monotonic_ns()
        if self._tokens.is_used_changed and now_ns - self._used_written_ns >= USED_INTERVAL_NS:
            self._used_written_ns = now_ns
            self._used.save()

    def read_again(self) -> None:
        """Read tokens and secrets again, whatever their files look like, and log how it went."""
        self.gate.read_again()
        self.look()

    async def close(self) -> None:
        """Write when tokens were last used, and end requests to auth servers."""
        await self.gate.close()
        if self._tokens.is_used_changed:
            self._used.note_changed()
            try:
                self._used.close()
            except OSError as exc:
                logger.warning("the times of tokens' last use are not on the disk: %s", exc)

    def _compose(self) -> Composed:
        self._tokens.is_used_changed = False
        return encode_used(self._tokens.used_ms), lambda: None
