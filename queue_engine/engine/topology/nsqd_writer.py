"""Keeps nsqd.dat up with topics, channels and pauses while the server runs, so that nsqd finds them after a kill, too.

Changes are put together: the file is written within a second of the first one, less often when it is longer than 5 MB.
Its content is on the disk in our own files before. When it is written, a line of topology.changes says up to which
change (`files.py` draws it). A kill between the two costs nothing: that line then tells of an older file, and a topic
that came since is not taken for one that nsqd deleted.
"""

import logging
from collections.abc import Callable

from queue_engine.engine.topology.nsqd_file import NO_FILE, checksum, is_nsqds, nsqd_bytes, topic_bytes
from queue_engine.engine.topology.topology import NSQD_WRITTEN, Change, Topology, nsqd_written
from queue_engine.storage.disk.background import Background
from queue_engine.storage.disk.background_job import BackgroundJob
from queue_engine.storage.disk.files import Files
from queue_engine.vocabulary.clock import NS_PER_MS, NS_PER_S

logger = logging.getLogger(__name__)

GATHER_NS = 500 * NS_PER_MS
# A file of 10 MB, some 150,000 topics, is written once a second.
GATHER_NS_PER_BYTE = 100
RETRY_NS = NS_PER_S


class NsqdWriter:
    """nsqd.dat of one data directory. Belongs to the engine's thread.

    written: gets the change that notes the content of nsqd.dat, when the file is durable.
    """

    def __init__(self, path: str, files: Files, background: Background, written: Callable[[Change], object]) -> None:
        self._path = path
        self._files = files
        self._background = background
        self._written = written
        self._parts: dict[int, bytes] = {}  # of each topic of kind `diskqueue`, by number
        self._stale: dict[int, None] = {}  # numbers of topics whose part is to be made again, in order
        self._exists = False  # whether there is a file: without one and without topics none is made
        self._is_dirty = False
        self._wait_ns = GATHER_NS  # from the first change on
        self._due_ns: int | None = None
        self._job: BackgroundJob | None = None

    @property
    def is_current(self) -> bool:
        """Whether nsqd.dat has all that the state has."""
        return not self._is_dirty and self._job is None

    def begin(self, state: Topology, file_crc: str) -> None:
        """The state is durable, and the file has this checksum."""
        self._exists = file_crc != NO_FILE
        self._parts = {number: topic_bytes(one) for number, one in state.topics.items() if is_nsqds(one)}
        self._stale.clear()
        self._is_dirty = (self._exists or bool(self._parts)) and checksum(self._bytes()) != file_crc

    def note(self, change: Change, state: Topology) -> None:
        """The state has this change, durably."""
        number = change["topic"] if "topic" in change else change.get("number", 0)
        if change["do"] != NSQD_WRITTEN and (number in self._parts or is_nsqds(state.topics.get(number))):
            self._stale[number] = None
            self._is_dirty = True

    def tick(self, now_ns: int, state: Topology) -> None:
        """Begin a due write. now_ns: monotonic. state: all of it is durable."""
        if not self._is_dirty or self._job is not None:
            return
        if self._due_ns is None:
            self._due_ns = now_ns + self._wait_ns
        if now_ns >= self._due_ns:
            self._due_ns = None
            self._start(state)

    def _start(self, state: Topology) -> None:
        self._refresh(state)
        parts, upto = list(self._parts.values()), state.sequence
        data = b""

        def write() -> None:
            nonlocal data
            data = nsqd_bytes(parts)
            self._files.replace(self._path, data)

        def done(error: Exception | None) -> None:
            self._job = None
            if error is None:
                self._exists = True
                self._wait_ns = max(GATHER_NS, GATHER_NS_PER_BYTE * len(data))
                self._written(nsqd_written(checksum(data), upto if self._is_dirty else state.sequence))
            else:
                self._is_dirty, self._wait_ns = True, RETRY_NS
                self._complain(error)

        # In this order: a merge, which another thread does, reads whether the file is current.
        self._job = job = BackgroundJob(write, then=done)
        self._is_dirty = False
        job.start(self._background)

    def write_now(self, state: Topology) -> None:
        """Write it in this thread; then the state has its checksum. state: all of it is durable."""
        self._refresh(state)
        if not self._exists and not self._parts:
            return
        data = self._bytes()
        try:
            if self._files.read_whole(self._path, len(data) + 1) != data:
                self._files.replace(self._path, data)
        except OSError as exc:
            self._is_dirty = True
            self._complain(exc)
            return
        self._exists, self._is_dirty = True, False
        state.nsqd_crc = checksum(data)

    def stop(self) -> None:
        """No other thread writes the file from here on."""
        if self._job is not None:
            self._job.call_off()
            self._job, self._is_dirty = None, True

    def _complain(self, error: Exception) -> None:
        logger.error("%s can't be written, so nsqd would miss what was made since the start: %s", self._path, error)

    def _refresh(self, state: Topology) -> None:
        """Make the parts of topics that changed."""
        for number in self._stale:
            topic = state.topics.get(number)
            if topic is not None and is_nsqds(topic):
                self._parts[number] = topic_bytes(topic)
            else:
                self._parts.pop(number, None)
        self._stale.clear()

    def _bytes(self) -> bytes:
        return nsqd_bytes(list(self._parts.values()))
