"""Checks that a data directory's log and its topology.json belong together, before a start changes anything.

    log/identity
    {"version": 1, "identity": "5f1c…", "segments": true} LF
    CRC-32C of the line before, without its LF, as 8 hex digits LF

    log/segments/identity
    {"version": 1, "identity": "5f1c…"} LF
    CRC-32C as above

`identity` is that of topology.json. It is written once: when the log gets its first segment, or when a start finds a
log of a version that wrote none. From then on topology.json says `has_log`. `segments` says that the directory of
segments has the identity, too: a directory with another one, or with none, belongs to another data directory, or a
volume is not mounted there. An older version did not write `segments`; the next start does. A log without a segment
belongs elsewhere or was lost, unless it had none yet (no `has_log`), or the checkpoint says that all of it was removed.

A topic number in the log is unknown when topology.json has it neither as a topic of the log nor as a deleted one. Its
messages may be wanted, so a start refuses to drop them. Numbers below `unlisted_below` were given by a version that did
not list deleted topics.
"""

import logging
import os

from queue_engine.engine.topology.topology import Topology
from queue_engine.storage.commit_log.checkpoint import Checkpoint, read_checkpoint
from queue_engine.storage.commit_log.segment import LogSegments
from queue_engine.storage.commit_log.survey import SurveyedTopic, unlisted_topics
from queue_engine.storage.disk.checked_line import decode_line, encode_line
from queue_engine.storage.disk.files import Files
from queue_engine.vocabulary.errors import NewerFormatError, StorageError, TopologyError

logger = logging.getLogger(__name__)

LOG_DIRECTORY = "log"
IDENTITY_NAME = "identity"
VERSION = 1
_NAMED_MAX = 20


class UnknownTopicsError(TopologyError):
    """The log holds messages of topics that topology.json does not know. unknown: those."""

    def __init__(self, unknown: list[SurveyedTopic], directory: str) -> None:
        named = "; ".join(topic.sentence() for topic in unknown[:_NAMED_MAX])
        more = f"; and {len(unknown) - _NAMED_MAX} more" if len(unknown) > _NAMED_MAX else ""
        super().__init__(
            f"the log in {directory} holds messages of topics that topology.json does not know as topics of the log: "
            f"{named}{more}. Nothing was changed. Put the right topology.json back, or let `penstock topology "
            "rebuild` give these topics names, or start once with --drop-unknown-topics true to let their messages go"
        )
        self.unknown = unknown


class LogGuard:
    """Checks one data directory. Only `join` writes."""

    def __init__(self, data_path: str, files: Files) -> None:
        self.directory = os.path.join(data_path, LOG_DIRECTORY)
        self._path = os.path.join(self.directory, IDENTITY_NAME)
        self._segments_path = os.path.join(self.directory, "segments")
        self._of_segments_path = os.path.join(self._segments_path, IDENTITY_NAME)
        self._files = files
        self.is_joined = False
        """Whether the log and its segments have an identity, as `check` and `join` saw it."""

    @property
    def has_segments(self) -> bool:
        """Raises StorageError."""
        try:
            names = self._files.listdir(self._segments_path)
        except FileNotFoundError:
            return False
        except OSError as exc:
            raise StorageError(f"{self.directory} can't be read: {exc}") from exc
        return any(".log" in name for name in names)

    @property
    def _has_directory(self) -> bool:
        """Whether the directory of segments exists, empty perhaps. Raises StorageError."""
        try:
            return os.path.basename(self._segments_path) in self._files.listdir(self.directory)
        except FileNotFoundError:
            return False
        except OSError as exc:
            raise StorageError(f"{self.directory} can't be read: {exc}") from exc

    def identity(self) -> str:
        """The log's identity, "" when it has none. Raises StorageError."""
        return self._read(self._path)[0]

    def _read(self, path: str) -> tuple[str, bool]:
        """A file's identity, "" without one, and whether it says that the segments have theirs."""
        try:
            data = self._files.read_whole(path, 1 << 16)
        except OSError as exc:
            raise StorageError(f"{path} can't be read: {exc}") from exc
        if data is None:
            return "", False
        content = decode_line(data)
        if content is None:
            raise StorageError(
                f"{path} does not match its checksum, so the log's data directory is unknown; nothing was changed. "
                "If it belongs here, remove that file and let `penstock topology accept` write it anew"
            )
        if content["version"] > VERSION:
            raise NewerFormatError(path, content["version"], VERSION)
        return str(content["identity"]), bool(content.get("segments"))

    def join(self, identity: str) -> None:
        """Write the identity of the log and of its segments. Raises OSError."""
        self._files.make_directory(self._segments_path)
        # In this order, so that after a crash between the two `segments` is not true too early.
        content = {"version": VERSION, "identity": identity}
        self._files.replace(self._of_segments_path, encode_line(content))
        self._files.replace(self._path, encode_line({**content, "segments": True}))
        self.is_joined = True

    def check(self, state: Topology, source: str) -> None:
        """Check that the log belongs to `state`, which was read from the file `source`; "" for no file. Raises
        TopologyError when it does not, StorageError when a file can't be read."""
        has_segments = self.has_segments
        identity, covers_segments = self._read(self._path)
        of_segments = self._read(self._of_segments_path)[0]
        if identity and identity == state.identity and of_segments != identity and (of_segments or covers_segments):
            whose = f"is of data directory {of_segments}" if of_segments else "has no identity"
            raise TopologyError(
                f"{self.directory} is of data directory {identity}, and {self._segments_path} {whose}: it is "
                "another's, or a volume is not mounted there. Nothing was changed. Put back the one that belongs here, "
                "or let `penstock topology accept` join them"
            )
        expects = state.has_log or any(topic.reserved_offset for topic in state.log_topics)
        if expects and not has_segments and not self._may_be_empty(state, identity):
            count = len(state.log_topics)
            raise TopologyError(
                f"{source} (data directory {state.identity or 'without identity'}) has {count} topics of the log, and "
                f"{self.directory} holds no segment: a volume that is not mounted, perhaps. Nothing was changed. Bring "
                "the log back, or let `penstock topology accept` begin an empty one"
            )
        if identity and not source:
            raise TopologyError(
                f"topology.json is missing beside the log of data directory {identity} in {self.directory}; nothing "
                "was changed. Put it back, or let `penstock topology rebuild` make one from the log"
            )
        if identity and identity != state.identity:
            raise TopologyError(
                f"{source} is of data directory {state.identity or '(none)'} and {self.directory} is of {identity}: "
                "they don't belong together; nothing was changed. Put back the one that does, or let `penstock "
                "topology accept` join them"
            )
        if state.has_log and has_segments and not identity:
            raise TopologyError(
                f"{source} is of data directory {state.identity}, and the log in {self.directory} has no identity: it "
                "is another's, or was put back from an older backup; nothing was changed. Put back the one that "
                "belongs here, or let `penstock topology accept` join them"
            )

        self.is_joined = bool(identity) and covers_segments

    def _may_be_empty(self, state: Topology, identity: str) -> bool:
        """Whether a log without a segment can be the one that `state` knows. Raises StorageError."""
        if not state.has_log and not identity:
            # The disk had no room for its first segment yet. A file of an older version does not say so.
            return state.is_checked and self._has_directory
        if not identity or identity != state.identity:
            return False
        if not state.has_log:
            return True  # `accept` has begun an empty log
        # All was consumed and removed while the disk had no room for another segment.
        checkpoint = self._checkpoint()
        return (
            checkpoint is not None
            and checkpoint.first_position is not None
            and checkpoint.position <= checkpoint.first_position
            and all(queue.oldest_offset == queue.end_offset for queue in checkpoint.queues.values())
        )

    def unknown(self, state: Topology, *, reads_all: bool = False) -> list[SurveyedTopic]:
        """The topics in the log that `state` does not know. Raises StorageError."""
        if not self.has_segments:
            return []
        numbers = {topic.number for topic in state.log_topics} | set(state.deleted)
        segments = self._segments()
        try:
            checkpoint = None if reads_all else self._checkpoint()
            return unlisted_topics(
                segments, checkpoint, lambda number: number in numbers or number < state.unlisted_below
            )
        finally:
            segments.close()

    def _segments(self) -> LogSegments:
        segments = LogSegments(self._segments_path, self._files)
        segments.load()
        return segments

    def _checkpoint(self) -> Checkpoint | None:
        try:
            return read_checkpoint(self._files, self.directory)
        except OSError as exc:
            # Derived: without it all of the log is looked at.
            logger.warning("the log is read from its beginning, since its checkpoint can't be read: %s", exc)
            return None
