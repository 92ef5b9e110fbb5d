"""A secret in the first line of a file, which a running server follows: --http-token-file."""

import logging
import os
from functools import partial

from queue_engine.service.tls.replaceable import MadeOfFiles
from queue_engine.vocabulary.errors import PenstockError

logger = logging.getLogger(__name__)

SECRET_BYTES_MAX = 4 << 10


def secret_file(flag: str, path: str) -> MadeOfFiles[bytes]:
    """The secret of the file, replaced when the file is. flag: the option that names the file, for sentences.

    Raises PenstockError, naming option and file, where the file has no secret.
    """
    return MadeOfFiles([path], partial(_read, path, f"{flag} {path}"), subject=f"the secret of {flag}")


def _read(path: str, name: str) -> bytes:
    try:
        with open(path, "rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            first, _, _ = file.read(SECRET_BYTES_MAX + 1).partition(b"\n")
    except OSError as exc:
        raise PenstockError(f"{name} can't be read: {exc.strerror or exc}") from exc
    secret = first.strip()
    if not secret:
        raise PenstockError(f"{name}: its first line is empty")
    if len(secret) > SECRET_BYTES_MAX:
        raise PenstockError(f"{name}: its first line has more than {SECRET_BYTES_MAX} bytes")
    if mode & 0o077:
        logger.warning("%s can be read or written by other accounts: chmod 600", name)
    return secret
