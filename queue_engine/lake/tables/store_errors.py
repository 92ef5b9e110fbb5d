"""Makes one sentence of an error of delta-rs, pyarrow or the system about a place for tables.

delta-rs and pyarrow raise OSError, or errors of their own, whose texts quote the store's answers; some quote an access
key. The sentence for a recognized text quotes none of it; an unknown text is quoted without credentials.
"""

import errno
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager

from queue_engine.vocabulary.errors import (
    PipelineError,
    StoreBusyError,
    StoreError,
    StoreFullError,
    StoreRefusedError,
    StoreUnreachableError,
    TableDamagedError,
    TableFormatError,
)

_FULL = (errno.ENOSPC, errno.EDQUOT)
_SECRET_VARIABLES = re.compile(r"(?:AWS|AZURE|GOOGLE)_.*(?:KEY|SECRET|TOKEN|PASSWORD|CREDENTIAL|STRING|SAS).*")
TEXT_LENGTH_MAX = 200
_RESTORE = "estore it from a backup, or move the table away, so that a new one begins"
_FROM_COMMITS = (
    "If the commits from 00000000000000000000.json on are all there, move the newest *.checkpoint.parquet and"
    f" _last_checkpoint away, and the table is read from its commits. If not, r{_RESTORE}"
)
# delta-rs about a log on an object store; on a disk log_mending.py has looked at it before.
_DAMAGES = {
    "Json error": f"a commit can't be read in its _delta_log. R{_RESTORE}",
    "Parquet error": f"a checkpoint can't be read in its _delta_log. {_FROM_COMMITS}",
    "less than footer": f"a checkpoint can't be read in its _delta_log. {_FROM_COMMITS}",
    "contiguous commit files": f"a commit is missing in its _delta_log. R{_RESTORE}",
    "Invalid Checkpoint": f"a checkpoint is missing in its _delta_log. {_FROM_COMMITS}",
}
_DAMAGED_LOG = re.compile(rf"Kernel error: .*?({'|'.join(_DAMAGES)})", re.DOTALL)
_NAMES = re.compile(r"\w+://\S+|'[^']*'|\bin [\d.]+\s?(?:ns|µs|ms|s)\b")

_NO_ROOM = "there is no room left; make room, and the job goes on by itself"
# A pattern of the store's text, and the sentence about it. The first pattern that matches is taken.
_SENTENCES: tuple[tuple[re.Pattern[str], type[StoreError], str], ...] = (
    (
        re.compile(r"NoSuchBucket|NO_SUCH_BUCKET|ContainerNotFound|The specified bucket does not exist"),
        StoreRefusedError,
        "there is no such bucket; make it, or give --lake another place",
    ),
    (
        re.compile(r"ExpiredToken|EXPIRED_TOKEN|TokenRefreshRequired|token.{0,40}expired", re.IGNORECASE),
        StoreRefusedError,
        "the credentials have expired; start the server with new ones in its environment",
    ),
    (
        re.compile(
            r"AccessDenied|ACCESS_DENIED|InvalidAccessKeyId|INVALID_ACCESS_KEY_ID|SignatureDoesNotMatch"
            r"|SIGNATURE_DOES_NOT_MATCH|INVALID_CLIENT_TOKEN_ID|InvalidToken|AuthFailure|Unauthenticated|Unauthorized"
            r"|\b40[13] (?:Forbidden|Unauthorized)|HTTP status code: 40[13]|HTTP response code: 40[13]|credential"
            r"|HTTP status 40[03]\) during Head",
            re.IGNORECASE,
        ),
        StoreRefusedError,
        (
            "the store refuses the credentials of the server's environment: they are wrong, have expired, or may not"
            " read, write, list and remove there"
        ),
    ),
    (
        re.compile(r"QuotaExceeded|StorageFull|Insufficient ?Storage|No space left|HTTP status 507"),
        StoreFullError,
        _NO_ROOM,
    ),
    (
        re.compile(
            r"SlowDown|SLOW_DOWN|Throttl|TooManyRequests|ServiceUnavailable|SERVICE_UNAVAILABLE"
            r"|(?:429|503) (?:Too|Service|Slow)|HTTP status (?:429|503)"
        ),
        StoreBusyError,
        "the store wants fewer requests; the job waits and goes on by itself",
    ),
    (
        re.compile(
            r"NETWORK_CONNECTION|curlCode|error sending request|error decoding response"
            r"|connect(?:ion (?:closed|reset|refused)| error)|dns error"
            r"|timed out|timeout|body (?:write|read)|incomplete|INTERNAL_FAILURE"
            r"|HTTP status 5\d\d|50\d (?:Internal|Bad|Gateway)|REQUEST_TIMEOUT",
            re.IGNORECASE,
        ),
        StoreUnreachableError,
        (
            "no answer came from the store; the job waits and goes on by itself. See AWS_ENDPOINT_URL, the network and"
            " the store's own log"
        ),
    ),
)


def table_error(error: BaseException, place: str) -> PipelineError:
    """The error of `vocabulary/errors.py` for an error about the table or store at `place`."""
    if isinstance(error, PipelineError):
        return error
    if isinstance(error, OSError) and error.errno is not None:
        if error.errno in _FULL:
            return StoreFullError(f"{place}: {_NO_ROOM}")
        return StoreError(f"{error.filename or place}: the system refused: {error.strerror}")
    text = str(error)
    if "://" in place:
        # Names and durations may have any number in them.
        unnamed = _NAMES.sub("", text)
        for pattern, kind, sentence in _SENTENCES:
            if pattern.search(unnamed):
                return kind(f"{place}: {sentence}")
    if damage := _DAMAGED_LOG.search(text):
        return TableDamagedError(f"{place}: {_DAMAGES[damage[1]]}")
    if type(error).__name__ == "DeltaProtocolError" or "Unsupported" in text:
        return TableFormatError(
            f"{place} has features that this version lacks: {first_line(text)}. Use the program that switched"
            " them on to switch them off, or move the table away"
        )
    return StoreError(f"{place}: {first_line(text)}")


def is_worth_trying_again(error: PipelineError) -> bool:
    """Whether the same request may succeed a moment later."""
    return isinstance(error, StoreBusyError | StoreUnreachableError)


@contextmanager
def sentences(place: str) -> Iterator[None]:
    """Errors of an object store at `place`, raised within, become StoreError or one of its classes;
    FileNotFoundError stays."""
    try:
        yield
    except FileNotFoundError:
        raise
    except OSError as exc:
        # Not as its cause, either: a log would have the store's own text.
        raise table_error(exc, place) from None


def first_line(text: str) -> str:
    """The begin of a library's text, without its quotes and without credentials."""
    text = without_credentials(re.split(r"\n\s*\d+: <unknown>|<\?xml|<Error", text)[0])
    text = re.sub(r"\x1b\[[0-9;]*m|↳", "", text)
    return " ".join(text.split())[:TEXT_LENGTH_MAX]


def without_credentials(text: str) -> str:
    """A library's text without the credentials in this process's environment."""
    for name, value in os.environ.items():
        if len(value) >= 4 and _SECRET_VARIABLES.fullmatch(name):
            text = text.replace(value, "…")
    return text
