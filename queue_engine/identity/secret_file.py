"""A secret in the first line of a file, which a running server follows: --http-token-file."""

import logging
import os

from queue_engine.tls.replaceable import MadeOfFiles
from queue_engine.vocabulary.errors import PenstockError

logger = logging.getLogger(__name__)

SECRET_BYTES_MAX = 4 << 10


class SecretFile:
    """Belongs to the engine's thread. flag: the option that names the file, for sentences."""

    def __init__(self, flag: str, path: str) -> None:
        """Raises PenstockError, naming option and file, where there is no secret in it."""
        self._name = f"{flag} {path}"
        self._path = path
        self._files = MadeOfFiles([path], self._read, what=f"the secret of {flag}")

    def current(self) -> bytes:
        """As the file is, or was a second ago; while it can't be read, the last one."""
        return self._files.current()

    def read_again(self) -> None:
        """At once, and log how it went."""
        self._files.read_again()

    @property
    def complaint(self) -> str:
        """Why the file as it is does not count; "" while it does."""
        return self._files.complaint

    def _read(self) -> bytes:
        try:
            with open(self._path, "rb") as file:
                mode = os.fstat(file.fileno()).st_mode
                first, _, _ = file.read(SECRET_BYTES_MAX + 1).partition(b"\n")
        except OSError as exc:
            raise PenstockError(f"{self._name} can't be read: {exc.strerror or exc}") from exc
        secret = first.strip()
        if not secret:
            raise PenstockError(f"{self._name}: its first line is empty")
        if len(secret) > SECRET_BYTES_MAX:
            raise PenstockError(f"{self._name}: its first line has more than {SECRET_BYTES_MAX} bytes")
        if mode & 0o077:
            logger.warning("%s can be read or written by other accounts: chmod 600", self._name)
        return secret
