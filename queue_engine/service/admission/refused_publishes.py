"""The words for why a publish is refused. The listeners count refused publishes by them in `engine_stats.py`."""

from enum import StrEnum

from queue_engine.vocabulary.errors import (
    BatchKeyConflictError,
    ClosedError,
    FencedError,
    LimitError,
    NoRoomError,
    PenstockError,
    ProtocolError,
    QuotaError,
    StorageError,
    TopicChangedError,
)


class Reason(StrEnum):
    """Why a publish is refused."""

    INVALID = "invalid"  # a name, a size or a count is wrong, or a body is too large
    FORBIDDEN = "forbidden"  # no token, or one that does not allow it
    HOST = "host"  # the Host header is no name of this server: --allowed-host
    ORIGIN = "origin"  # a web page of another origin
    BUSY = "busy"  # unfinished bodies leave no room: --max-pending-body-bytes
    QUOTA = "quota"  # the client publishes faster than --publish-quota lets it
    LIMIT = "limit"  # too many topics, or too much deferred
    CONFLICT = "conflict"  # another batch has the key, or another topic the name
    FENCED = "fenced"  # a fault has stopped the topic
    DISK_FULL = "disk_full"
    DISK = "disk"  # the disk refuses for another reason
    STOPPING = "stopping"
    FAULT = "fault"  # an unexpected error; the server's log has it


_REASONS: tuple[tuple[type[Exception] | tuple[type[Exception], ...], Reason], ...] = (
    (ClosedError, Reason.STOPPING),
    (NoRoomError, Reason.DISK_FULL),
    (StorageError, Reason.DISK),
    (QuotaError, Reason.QUOTA),
    (LimitError, Reason.LIMIT),
    (FencedError, Reason.FENCED),
    ((TopicChangedError, BatchKeyConflictError), Reason.CONFLICT),
    (PenstockError, Reason.INVALID),
)
_FAILED = ("E_PUB_FAILED", "E_MPUB_FAILED", "E_DPUB_FAILED")
_VERBS = frozenset({"PUB", "MPUB", "DPUB"})


def reason_of(error: BaseException | None) -> Reason:
    """error: the cause of the failed publish; None where the request itself was wrong."""
    if error is None:
        return Reason.INVALID
    return next((reason for kinds, reason in _REASONS if isinstance(error, kinds)), Reason.FAULT)


def reason_of_answer(error: ProtocolError) -> Reason | None:
    """Why an error over TCP refuses a publish; None for an answer to another command."""
    if error.code in _FAILED:
        return reason_of(error.__cause__)
    is_publish = not _VERBS.isdisjoint(error.description.split(maxsplit=2)[:2])
    return Reason.INVALID if is_publish else None
