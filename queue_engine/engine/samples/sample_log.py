"""The samples' own log, beside the log of the topics; its errors and limits never affect the topics.

    DATA/samples/            segments of 16 MiB, consume queue and checkpoint, as in DATA/log (commit_log/README.md)
    DATA/samples/identity.json
        {"version": 1, "number": 1, "id_base": 81985529216486895, "reserved_offset": 1048576} LF
        CRC-32C of the line before, without its LF, as 8 hex digits LF
    DATA/samples.bad-1       a directory that could not be used, set aside; Penstock does not read it, and
                             removes it after --set-aside-retention

Offset + `id_base` is a sample's id. Offsets below `reserved_offset` may be in use; it is exact after a clean stop.
After any other stop new samples begin at it, so that no reader gets an offset twice, also when a power cut lost the
end. To change the file: add keys, never give an old one another meaning, keep reading files without the new one.

The log syncs only full segments (policy `os`): a kill loses no sample, a power cut some of the last ones. Retention by
age and by size removes the oldest samples, whatever readers have read. Samples that are too old but share a segment
with newer ones stay on the disk and can't be read.

No error of this log stops the server: `append` raises it to the sampler, which leaves the sample out, and a start sets
aside files that it can't use and makes new ones. Only files of a newer version of Penstock stay in place, unread; until
that version runs again no samples are stored.
"""

import logging
import os
from dataclasses import dataclass

from queue_engine.delivery.fences import Fences
from queue_engine.delivery.topic import Topic
from queue_engine.delivery.workload import Workload
from queue_engine.storage.commit_log.open_segment import is_passing
from queue_engine.storage.commit_log.options import SyncPolicy
from queue_engine.storage.commit_log.record import new_id_base
from queue_engine.storage.disk.background import Background, Backgrounds
from queue_engine.storage.disk.background_job import BackgroundJob
from queue_engine.storage.disk.checked_line import decode_versioned, encode_line
from queue_engine.storage.disk.files import Files
from queue_engine.storage.fetch.log_reader import LogReader
from queue_engine.storage.log_store.log_settings import LogSettings
from queue_engine.storage.log_store.log_store import LogStore
from queue_engine.storage.log_store.log_topic import TopicOpening
from queue_engine.storage.log_store.log_topic_store import LogTopicStore
from queue_engine.storage.progress.journal import RESERVE_BYTES
from queue_engine.vocabulary.byte_budget import MemoryBudgets
from queue_engine.vocabulary.byte_sizes import byte_count
from queue_engine.vocabulary.clock import NS_PER_MS, NS_PER_S, Clock
from queue_engine.vocabulary.errors import CorruptError, NewerFormatError, StorageError
from queue_engine.vocabulary.names import SAMPLES_TOPIC
from queue_engine.vocabulary.next_turn import NextTurn
from queue_engine.vocabulary.options.options import Options

logger = logging.getLogger(__name__)

DIRECTORY = "samples"
IDENTITY_NAME = "identity.json"
VERSION = 1
TOPIC_NUMBER = 1
SEGMENT_BYTES = 16 << 20
CACHE_BYTES = 1 << 20
# Samples leave this much free on the disk: as much as the log of messages needs to go on after the disk was full.
ROOM_BYTES_MIN = 2 * RESERVE_BYTES
# Room beside full segments: the segment being written, one that has just become full, and the consume queue.
SEGMENTS_BESIDE = 3
# How often a log that could not be opened is tried again, and samples that are too old are trimmed.
LOOK_INTERVAL_NS = 60 * NS_PER_S


@dataclass(frozen=True, slots=True)
class SampleLogIdentity:
    """Identifies this log, so that its offsets are not taken for those of an earlier log in the same place."""

    number: int
    id_base: int
    reserved_offset: int


class SamplesLog:
    """Keeps samples. Belongs to the engine's thread. Only `append` raises.

    topic: the samples as a topic to read, without channels; None while the log is not open. retention_bytes: of all
    files together.
    """

    def __init__(
        self,
        data_path: str,
        *,
        files: Files,
        clock: Clock,
        background: Background,
        retention_ms: int,
        retention_bytes: int,
        segment_bytes: int = SEGMENT_BYTES,
    ) -> None:
        self.topic: Topic | None = None
        self._data_path = data_path
        self._directory = os.path.join(data_path, DIRECTORY)
        self._identity_path = os.path.join(self._directory, IDENTITY_NAME)
        self._files = files
        self._clock = clock
        self._background = background
        self._retention_ms = retention_ms
        self._retention_bytes = retention_bytes
        self._segment_bytes = segment_bytes
        self._log: LogStore | None = None
        self._store: LogTopicStore
        self._look_at_ns = 0
        self._is_closed = False
        self._is_reserving = False
        self._is_reserving_due = False

    @property
    def log(self) -> LogStore | None:
        """The log that samples are written to; None while it is not open."""
        return self._log

    # Start and stop.

    def open(self) -> None:
        """Open the log, or make it. Files that can't be used are set aside; after an error of the disk `tick` tries
        again."""
        self._look_at_ns = self._clock.monotonic_ns() + LOOK_INTERVAL_NS
        try:
            try:
                self._open()
            except Exception as exc:
                self._close_failed()
                if is_passing(exc) or isinstance(exc, NewerFormatError):
                    raise  # files of a newer version stay as they are
                self._set_aside(exc)
                self._open()
        except Exception as exc:
            self._close_failed()
            logger.warning("samples not stored for now directory=%s error=%s", self._directory, exc)

    def _open(self) -> None:
        """Raises StorageError or OSError, or any error that damaged files lead to."""
        self._files.make_directory(self._directory)
        identity = self._read_identity()
        if identity is None:
            if os.path.exists(os.path.join(self._directory, "segments")):
                raise CorruptError(f"{self._identity_path} is missing, and there are samples")
            identity = SampleLogIdentity(TOPIC_NUMBER, new_id_base(), 0)
            self._files.replace(self._identity_path, encode_identity(identity))
        settings = LogSettings(
            policy=SyncPolicy.OS,
            sync_interval_ms=0,
            sync_interval_bytes=0,
            segment_bytes=self._segment_bytes,
            memory_count_max=1,
            journal_reserve_bytes=0,  # there are no channels
            room_bytes_min=ROOM_BYTES_MIN,
            retention_ms=self._retention_ms,
            retention_bytes=max(self._retention_bytes - SEGMENTS_BESIDE * self._segment_bytes, self._segment_bytes),
            cache_bytes=CACHE_BYTES,
            reads_unsynced=True,
            has_key_index=False,
        )
        log = self._log = LogStore(
            self._directory,
            settings,
            files=self._files,
            clock=self._clock,
            backgrounds=Backgrounds.of(self._background),
        )
        opening = TopicOpening(SAMPLES_TOPIC, identity.number, identity.id_base, identity.reserved_offset)
        opened = log.open([opening], on_reserve=self._reserve)
        self._store = opened.topics[identity.number]
        for damage in opened.log.damages:
            logger.warning("samples damaged position=%d size=%d: %s", damage.position, damage.size, damage.reason)
        # Offsets are reserved on the disk before they are used.
        reserving = log.reserving()
        self._files.replace(self._identity_path, encode_identity(self._identity()))
        log.reserved(reserving)
        self._trim_old()
        self.topic = Topic(
            SAMPLES_TOPIC,
            identity.number,
            self._store,
            budgets=MemoryBudgets(Options()),
            workload=Workload(self._clock, NextTurn()),
            clock=self._clock,
            fences=Fences(self._clock.time_ns),  # no operator is needed: each sample tries again
        )

    def _read_identity(self) -> SampleLogIdentity | None:
        """The identity in its file; None without one. Raises CorruptError or OSError."""
        data = self._files.read_whole(self._identity_path, 1 << 16)
        return None if data is None else decode_identity(data, self._identity_path)

    def _identity(self) -> SampleLogIdentity:
        """The identity that must be on the disk before further offsets are used."""
        return SampleLogIdentity(self._store.number, self._store.id_base, self._store.positions().reserved_offset)

    def _set_aside(self, reason: Exception) -> None:
        """Rename the directory, so that a new one can be made. Raises OSError."""
        number = 1
        while self._files.size_of(f"{self._directory}.bad-{number}") is not None:
            number += 1
        self._files.rename(self._directory, f"{self._directory}.bad-{number}")
        self._files.sync_directory(self._data_path)
        logger.error("samples can't be used and are set aside as %s.bad-%d error=%s", DIRECTORY, number, reason)

    def _close_failed(self) -> None:
        """Close a log that could not be opened as a whole."""
        log, self._log, self.topic = self._log, None, None
        if log is not None:
            try:
                log.segments.close()
            except Exception as exc:
                logger.warning("samples not closed directory=%s error=%s", self._directory, exc)

    def close(self) -> None:
        """Sync and close the log."""
        self._is_closed = True
        log = self._log
        if log is None:
            return
        try:
            log.close()
            self._files.replace(self._identity_path, encode_identity(self._identity()))
        except Exception as exc:
            # The next start recovers the log as after a kill.
            logger.warning("samples not closed completely directory=%s error=%s", self._directory, exc)

    # While it works.

    def append(self, body: bytes) -> None:
        """Write one sample; it survives a kill. Raises StorageError; then it was not written."""
        log = self._log
        if log is None or self._is_closed:
            raise StorageError("the log of samples is not open")
        free = self._files.free_bytes(self._directory)
        if free < ROOM_BYTES_MIN:
            raise StorageError(
                f"a sample is refused: {byte_count(free)} are free, "
                f"and the last {byte_count(ROOM_BYTES_MIN)} are for messages"
            )
        ticket = self._store.append(self._store.make_batch([body]))
        log.end_turn()
        if not ticket.done:
            raise StorageError("the sample was not written at once")
        if ticket.error is not None:
            raise ticket.error
        self._store.empty()  # no channel will deliver it: retention alone keeps it

    def tick(self, now_ns: int) -> None:
        """Remove samples past retention; try again to open the log. now_ns: monotonic."""
        if self._is_closed:
            return
        try:
            if self._log is not None:
                self._log.tick(now_ns)
            if now_ns >= self._look_at_ns:
                self._look_at_ns = now_ns + LOOK_INTERVAL_NS
                self._look()
        except Exception:
            logger.exception("samples not looked after directory=%s", self._directory)
            self._look_at_ns = now_ns + LOOK_INTERVAL_NS

    def _look(self) -> None:
        if self._log is None:
            self.open()
            return
        if self._is_reserving_due:
            self._reserve()
        self._trim_old()

    def _trim_old(self) -> None:
        """Trim samples that are too old, though their segment may stay. Raises StorageError or OSError."""
        store = self._store
        oldest_ns = self._clock.time_ns() - self._retention_ms * NS_PER_MS
        store.queue.trim(LogReader(store).offset_at(oldest_ns))

    def _reserve(self) -> None:
        """Reserve further offsets on the disk, by the worker."""
        log = self._log
        if log is None or self._is_reserving:
            return
        self._is_reserving, self._is_reserving_due = True, False
        reserving = log.reserving()
        content = encode_identity(self._identity())

        def done(error: Exception | None) -> None:
            self._is_reserving = False
            if error is None:
                log.reserved(reserving)
            else:
                logger.warning("identity of the samples not written error=%s", error)
                self._is_reserving_due = True

        BackgroundJob(lambda: self._files.replace(self._identity_path, content), then=done).start(self._background)


def encode_identity(identity: SampleLogIdentity) -> bytes:
    """The file's content."""
    return encode_line(
        {
            "version": VERSION,
            "number": identity.number,
            "id_base": identity.id_base,
            "reserved_offset": identity.reserved_offset,
        }
    )


def decode_identity(data: bytes, path: str) -> SampleLogIdentity:
    """The identity in the file's content. Raises CorruptError when it is damaged, and NewerFormatError."""
    content = decode_versioned(data, path, VERSION)
    if content is None:
        raise CorruptError(f"{path} does not agree with its checksum")
    return SampleLogIdentity(content["number"], content["id_base"], content["reserved_offset"])
