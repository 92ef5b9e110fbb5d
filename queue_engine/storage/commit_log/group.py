"""A group: the records of one turn, or of several that gathered; written to the commit log whole or not at all."""

from typing import NamedTuple, Protocol

from queue_engine.storage.commit_log.open_segment import OpenSegment, is_passing
from queue_engine.vocabulary.errors import StorageError


class LogListener(Protocol):
    """Hears how far the log has come, on the engine's thread."""

    def became_visible(self, visible_end: int) -> None:
        """Records up to `visible_end` may be read and acknowledged."""

    def log_failed(self, error: StorageError) -> None:
        """Records behind `visible_end` are rejected, and their positions are taken back. Called once with the error
        that stops the log, even when no record was rejected."""


class LogPiece(NamedTuple):
    """The part of a group that goes to one segment, in one write."""

    segment: OpenSegment
    position: int
    data: bytes
    is_last: bool  # ends with the seal
    first_time_ns: int
    last_time_ns: int


class LogGroup(NamedTuple):
    pieces: list[LogPiece]
    end: int
    size: int
    since_ns: int  # monotonic, of its first append


def write_group(group: LogGroup, good_end: int) -> None:
    """Write a group. After an error, zeros replace the written part where the disk allows that. Raises OSError."""
    try:
        for piece in group.pieces:
            piece.segment.write(piece.data, piece.position, is_last=piece.is_last)
    except OSError as exc:
        if is_passing(exc):
            for piece in reversed(group.pieces):
                try:
                    piece.segment.take_back(good_end)
                except OSError as exc_back:
                    if not is_passing(exc_back):
                        raise
                    # No room for zeros either: room_probe.py tries again before anything else is written.
        raise
