"""Where samples are kept: a log of the server's own, beside that of the topics and never a burden to them.

    DATA/samples/            segments of 16 MiB, consume queue and checkpoint, as in DATA/log (commit_log/README.md)
    DATA/samples/identity.json
        {"version": 1, "number": 1, "id_base": 81985529216486895, "reserved_offset": 1048576} LF
        CRC-32C of the line before, without its LF, as 8 hex digits LF
    DATA/samples.bad-1       a directory that could not be used, set aside; nothing reads or removes it

Offset + `id_base` is a sample's id. Offsets below `reserved_offset` may have been given; it is exact after a clean
stop. After any other the samples go on there, so that no reader meets an offset twice, also where a power cut took
the end. To change the file: add keys, never give an old one another meaning, keep reading files without the new
one.

The log syncs nothing but full segments (policy `os`): a kill loses no sample, a power cut some of the last ones. It is
kept as long as it is young and small enough; whichever limit is passed first lets the oldest go, and nothing holds
it back. Of what is too old but shares a file with what is not, only the bytes stay: it can't be read any more.

No error of this log reaches anybody: `append` raises it to the sampler, which leaves the sample out, and a start that
finds something it can't use sets it aside and begins anew. Only what a newer version of Penstock wrote stays in its
place, unread; until that is back no samples are kept.
"""

import logging
import os
from dataclasses import dataclass

from queue_engine.commit_log.open_segment import is_passing
from queue_engine.commit_log.options import SyncPolicy
from queue_engine.commit_log.record import new_id_base
from queue_engine.delivery.fences import Fences
from queue_engine.delivery.topic import Topic
from queue_engine.delivery.workload import Workload
from queue_engine.disk.background import Background, Backgrounds
from queue_engine.disk.checked_line import decode_versioned, encode_line
from queue_engine.disk.files import Files
from queue_engine.log_store.log_settings import LogSettings
from queue_engine.log_store.log_store import LogStore
from queue_engine.log_store.log_topic import TopicOpening
from queue_engine.log_store.log_topic_store import LogTopicStore
from queue_engine.progress.journal import RESERVE_BYTES
from queue_engine.reading.log_reader import LogReader
from queue_engine.vocabulary.byte_budget import MemoryBudgets
from queue_engine.vocabulary.clock import NS_PER_MS, NS_PER_S, Clock
from queue_engine.vocabulary.errors import CorruptError, NewerFormatError, StorageError
from queue_engine.vocabulary.names import SAMPLES_TOPIC
from queue_engine.vocabulary.next_turn import NextTurn
from queue_engine.vocabulary.options import Options

logger = logging.getLogger(__name__)

DIRECTORY = "samples"
IDENTITY_NAME = "identity.json"
VERSION = 1
TOPIC_NUMBER = 1
SEGMENT_BYTES = 16 << 20
CACHE_BYTES = 1 << 20
# What samples leave free on the disk: as much as the log of messages wants to go on after the disk was full.
ROOM_BYTES_MIN = 2 * RESERVE_BYTES
# Beside full segments there is the one that is written to, one that was full a moment ago, and the consume queue.
SEGMENTS_BESIDE = 3
# How often a log that could not be opened is tried again, and samples that are too old are passed.
LOOK_INTERVAL_NS = 60 * NS_PER_S


@dataclass(frozen=True, slots=True)
class Identity:
    """What tells this log's offsets from those of another that had its place before."""

    number: int
    id_base: int
    reserved_offset: int


class SamplesLog:
    """Keeps samples. Belongs to the engine's thread. Nothing but `append` raises.

    topic: what can be read, without channels; None while the log is not open. retention_bytes: all files together.
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
        self._is_promising = False
        self._is_promise_due = False

    @property
    def log(self) -> LogStore | None:
        """What they are written to; None while there is none."""
        return self._log

    # Start and stop.

    def open(self) -> None:
        """Go on with what there is. What can't be used is set aside; a disk that refuses is tried again by `tick`."""
        self._look_at_ns = self._clock.monotonic_ns() + LOOK_INTERVAL_NS
        try:
            try:
                self._open()
            except Exception as exc:
                self._let_go()
                if is_passing(exc) or isinstance(exc, NewerFormatError):
                    raise  # what a newer version wrote stays as it is
                self._set_aside(exc)
                self._open()
        except Exception as exc:
            self._let_go()
            logger.warning("samples not kept for now directory=%s error=%s", self._directory, exc)

    def _open(self) -> None:
        """Raises StorageError or OSError, or whatever strange bytes lead to."""
        self._files.make_directory(self._directory)
        identity = self._read_identity()
        if identity is None:
            if os.path.exists(os.path.join(self._directory, "segments")):
                raise CorruptError(f"{self._identity_path} is missing, and there are samples")
            identity = Identity(TOPIC_NUMBER, new_id_base(), 0)
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
        )
        log = self._log = LogStore(
            self._directory,
            settings,
            files=self._files,
            clock=self._clock,
            backgrounds=Backgrounds.of(self._background),
        )
        opening = TopicOpening(SAMPLES_TOPIC, identity.number, identity.id_base, identity.reserved_offset)
        opened = log.open([opening], on_reserve=self._promise)
        self._store = opened.topics[identity.number]
        for damage in opened.log.damages:
            logger.warning("samples damaged position=%d size=%d: %s", damage.position, damage.size, damage.reason)
        # Offsets are promised before they are given.
        reserving = log.reserving()
        self._files.replace(self._identity_path, encode_identity(self._identity()))
        log.reserved(reserving)
        self._pass_old()
        self.topic = Topic(
            SAMPLES_TOPIC,
            identity.number,
            self._store,
            budgets=MemoryBudgets(Options()),
            workload=Workload(self._clock, NextTurn()),
            time_ns=self._clock.time_ns,
            fences=Fences(self._clock.time_ns),  # no operator is asked: each sample tries again
        )

    def _read_identity(self) -> Identity | None:
        """None when there is none. Raises CorruptError or OSError."""
        data = self._files.read_whole(self._identity_path, 1 << 16)
        return None if data is None else decode_identity(data, self._identity_path)

    def _identity(self) -> Identity:
        """As it is to be on the disk before any further offset is given."""
        return Identity(self._store.number, self._store.id_base, self._store.positions().reserved_offset)

    def _set_aside(self, reason: Exception) -> None:
        """Raises OSError."""
        number = 1
        while self._files.size_of(f"{self._directory}.bad-{number}") is not None:
            number += 1
        self._files.rename(self._directory, f"{self._directory}.bad-{number}")
        self._files.sync_directory(self._data_path)
        logger.error("samples can't be used and are set aside as %s.bad-%d error=%s", DIRECTORY, number, reason)

    def _let_go(self) -> None:
        """What could not be opened as a whole is not kept open."""
        log, self._log, self.topic = self._log, None, None
        if log is not None:
            try:
                log.segments.close()
            except Exception as exc:
                logger.warning("samples not closed directory=%s error=%s", self._directory, exc)

    def close(self) -> None:
        """Put everything on the disk."""
        self._is_closed = True
        log = self._log
        if log is None:
            return
        try:
            log.close()
            self._files.replace(self._identity_path, encode_identity(self._identity()))
        except Exception as exc:
            # The next start is one as after a kill.
            logger.warning("samples not closed as they should be directory=%s error=%s", self._directory, exc)

    # While it works.

    def append(self, body: bytes) -> None:
        """Write one sample; it survives the end of the process. Raises StorageError; then it was not taken."""
        log = self._log
        if log is None or self._is_closed:
            raise StorageError("the log of samples is not open")
        free = self._files.free_bytes(self._directory)
        if free < ROOM_BYTES_MIN:
            raise StorageError(
                f"a sample is refused: {free / 1e6:.1f} MB are free, "
                f"and the last {ROOM_BYTES_MIN / 1e6:.1f} MB are for messages"
            )
        ticket = self._store.append(self._store.make_batch([body]))
        log.end_turn()
        if not ticket.done:
            raise StorageError("the sample was not written at once")
        if ticket.error is not None:
            raise ticket.error
        self._store.empty()  # nobody is to have it: it is kept by retention alone

    def tick(self, now_ns: int) -> None:
        """Let go of what is past retention; open the log where that failed. now_ns: monotonic."""
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
        if self._is_promise_due:
            self._promise()
        self._pass_old()

    def _pass_old(self) -> None:
        """Samples that are too old are there no more, though their file may be. Raises StorageError or OSError."""
        store = self._store
        oldest_ns = self._clock.time_ns() - self._retention_ms * NS_PER_MS
        store.queue.trim(LogReader(store).offset_at(oldest_ns))

    def _promise(self) -> None:
        """Write down, away from this thread, that further offsets may be given."""
        log = self._log
        if log is None or self._is_promising:
            return
        self._is_promising, self._is_promise_due = True, False
        reserving = log.reserving()
        content = encode_identity(self._identity())

        def done(error: Exception | None) -> None:
            self._is_promising = False
            if error is None:
                log.reserved(reserving)
            else:
                logger.warning("identity of the samples not written error=%s", error)
                self._is_promise_due = True

        self._background.submit(lambda: self._files.replace(self._identity_path, content), done)


def encode_identity(identity: Identity) -> bytes:
    """The file's content."""
    return encode_line(
        {
            "version": VERSION,
            "number": identity.number,
            "id_base": identity.id_base,
            "reserved_offset": identity.reserved_offset,
        }
    )


def decode_identity(data: bytes, path: str) -> Identity:
    """The identity of the file's content. Raises CorruptError when it is not what was written, and NewerFormatError."""
    content = decode_versioned(data, path, VERSION)
    if content is None:
        raise CorruptError(f"{path} does not agree with its checksum")
    return Identity(content["number"], content["id_base"], content["reserved_offset"])
