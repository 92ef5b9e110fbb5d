"""The files of topics and channels, and reading them: topology.json and the changes since.

    topology.changes
    {"format": 1, "identity": "5f1c…", "after": 7} 1a2b3c4d LF      the header: changes behind number 7 follow
    {"seq": 8, "changes": [{"do": "create_topic", "name": "orders", …}, {"do": …}]} 9c0d1e2f LF
    {"seq": 9, "changes": [{"do": "pause_channel", …}]} 00ff11ee LF
    {"seq": 10, "changes": [], "nsqd": {"crc": "1a2b3c4d", "upto": 9}} 2b3c4d5e LF

A line is JSON, a blank, and the CRC-32C of the JSON as 8 hex digits. All changes that come while a line is being
written share the next one; a line is synced before its changes are answered. So only the last line can be unfinished:
an invalid line at the end was not acknowledged and is cut. An invalid line with a valid one behind it is damage.
`nsqd` is the content of nsqd.dat (`nsqd_file.py`); a version without the key ignores it, and deletes nothing
that nsqd deleted.

A merge writes everything into topology.json and begins topology.changes anew. Both files are copied to `….previous`
before, in this order, each replaced as a whole (tmp, fsync, rename, directory fsync):

    topology.json.previous, topology.json, topology.changes.previous, topology.changes

Lines up to topology.json's `sequence` are in it already and are passed over, so a merge may stop anywhere. The state of
topology.json also follows from topology.json.previous and both files of changes: copied in its place, it loses nothing.

`next_number`, `format` and the checksum are explained in `topology.py`, with the recipe to change the format.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson
from crc32c import crc32c

from queue_engine.engine.topology import nsqd_file
from queue_engine.engine.topology.topology import (
    FORMAT,
    FORMAT_BEFORE_CHECKSUMS,
    NSQD_WRITTEN,
    Change,
    Topology,
    check_names,
    nsqd_written,
    parse_topology,
)
from queue_engine.storage.disk.files import Files
from queue_engine.vocabulary.errors import NewerTopologyError, TopologyError

FILE_NAME = "topology.json"
CHANGES_NAME = "topology.changes"
PREVIOUS_SUFFIX = ".previous"
NSQD_FILE_NAME = "nsqd.dat"
CHANGES_FORMAT = 1
_CHECK_BYTES = 8
_SIZE_MAX = 1 << 30


def encode_changes(sequence: int, changes: Sequence[Change]) -> bytes:
    """One line of topology.changes behind the header."""
    content: dict[str, Any] = {"seq": sequence, "changes": [one for one in changes if one["do"] != NSQD_WRITTEN]}
    for one in changes:
        if one["do"] == NSQD_WRITTEN:
            content["nsqd"] = {"crc": one["crc"], "upto": one["upto"]}
    return encode_entry(content)


def encode_entry(content: Change) -> bytes:
    """One line of topology.changes."""
    line = orjson.dumps(content)
    return b"%s %08x\n" % (line, crc32c(line))


def decode_entry(line: bytes) -> Change | None:
    """The content of a line without its LF; None when the checksum is wrong."""
    text, check = line[: -_CHECK_BYTES - 1], line[-_CHECK_BYTES - 1 :]
    if check != b" %08x" % crc32c(text):
        return None
    try:
        content = orjson.loads(text)
    except orjson.JSONDecodeError:
        return None
    return content if isinstance(content, dict) else None


def encode_header(identity: str, after: int) -> bytes:
    return encode_entry({"format": CHANGES_FORMAT, "identity": identity, "after": after})


@dataclass(frozen=True, slots=True)
class ChangesFile:
    """The content of one file of changes. size: bytes that are valid. torn_bytes: those behind them, unfinished."""

    identity: str
    after: int
    entries: tuple[tuple[int, tuple[Change, ...]], ...]  # (sequence, changes)
    size: int
    torn_bytes: int


def parse_changes(data: bytes, path: str) -> ChangesFile:
    """Raises TopologyError when a line other than the last is invalid."""
    lines = data.split(b"\n")[:-1]
    entries: list[tuple[int, tuple[Change, ...]]] = []
    size = at = 0
    identity, after, first_bad = "", 0, -1
    for index, line in enumerate(lines):
        content = decode_entry(line)
        if content is None:
            if first_bad < 0:
                first_bad = at
        elif index == 0:
            its_format = content.get("format", 0)
            if its_format > CHANGES_FORMAT:
                raise NewerTopologyError(
                    f"{path} has format {its_format}, and this version knows formats up to {CHANGES_FORMAT}; it was "
                    "left as it is. Start the newer version"
                )
            identity, after = str(content["identity"]), int(content["after"])
        elif first_bad >= 0:
            raise TopologyError(
                f"{path} is damaged at byte {first_bad}: the line does not match its checksum, and lines behind it "
                f"are; nothing was changed. {_HELP}"
            )
        else:
            nsqd = content.get("nsqd")
            written = () if nsqd is None else (nsqd_written(nsqd["crc"], nsqd["upto"]),)
            entries.append((int(content["seq"]), (*content["changes"], *written)))
        at += len(line) + 1
        if first_bad < 0:
            size = at
    if not lines or first_bad == 0:
        raise TopologyError(
            f"{path} is damaged: its first line does not match its checksum; nothing was changed. {_HELP}"
        )
    return ChangesFile(identity, after, tuple(entries), size, len(data) - size)


_HELP = (
    "`penstock topology check` lists the findings, `penstock topology rebuild` makes the file anew as far as possible"
)


@dataclass(slots=True)
class FoundTopology:
    """The content of the files of a data directory.

    state: all that exists; empty without a file. source: the file it was read from first, "" for none. changes: of
    topology.changes, None without that file. warnings: for the server's log, a sentence each. nsqd_ran: since the last
    stop; the state has its changes, and the files do not yet. nsqd_crc: the checksum of nsqd.dat as it is now.
    """

    state: Topology = field(default_factory=Topology)
    source: str = ""
    changes: ChangesFile | None = None
    warnings: list[str] = field(default_factory=list)
    nsqd_ran: bool = False
    nsqd_crc: str = nsqd_file.NO_FILE

    @property
    def is_new_format(self) -> bool:
        """Whether changes can be appended to the files as they are; otherwise a merge is needed first, as for a file of
        an older format: the version that wrote it would drop changes that it does not know."""
        is_new = self.changes is not None and self.state.is_checked and self.state.format == FORMAT
        return is_new and not self.nsqd_ran


class TopologyFiles:
    """The four files of one data directory, and nsqd's. All raise TopologyError when a file can't be read."""

    def __init__(self, directory: str, files: Files) -> None:
        self.directory = directory
        self.path = os.path.join(directory, FILE_NAME)
        self.changes_path = os.path.join(directory, CHANGES_NAME)
        self.previous_path = self.path + PREVIOUS_SUFFIX
        self.previous_changes_path = self.changes_path + PREVIOUS_SUFFIX
        self.nsqd_path = os.path.join(directory, NSQD_FILE_NAME)
        self._files = files

    def read_bytes(self, path: str) -> bytes | None:
        """The file's bytes; None when there is no such file."""
        try:
            return self._files.read_whole(path, _SIZE_MAX)
        except OSError as exc:
            raise TopologyError(f"{path} can't be read: {exc.strerror}; it was left as it is") from exc

    def read(self) -> FoundTopology:
        """Read the files. Raises TopologyError when they are not certain; nothing is changed."""
        data = self.read_bytes(self.path)
        changes = self._read_changes(self.changes_path)
        if data is None:
            return self._read_without(changes)
        try:
            state = parse_topology(data, self.path)
        except NewerTopologyError:
            raise  # a repair with this version would lose entries that only the newer one reads
        except TopologyError as exc:
            raise TopologyError(f"{exc}. {self._advice()}") from exc
        found = FoundTopology(state, self.path, changes)
        if state.format == FORMAT_BEFORE_CHECKSUMS:
            self._check_first(state, data, changes)
            return found
        self.replay(found)
        self._see_what_nsqd_did(found, data)
        return found

    def _advice(self) -> str:
        has_previous = self.read_bytes(self.previous_path) is not None
        copy = f"its predecessor is {self.previous_path}; " if has_previous else ""
        return (
            f"If you edited it, `penstock topology accept` takes it as it is; otherwise {copy}`penstock topology "
            "check` lists the findings, and `penstock topology rebuild` makes it anew from these and the log"
        )

    def _check_first(self, state: Topology, data: bytes, changes: ChangesFile | None) -> None:
        """Accept a file without a checksum once: when no file with a checksum came before it."""
        # The first merge copies the file to its predecessor's place before it replaces it, and may end in between.
        if state.is_checked or changes is not None or self.read_bytes(self.previous_path) not in (None, data):
            raise TopologyError(
                f"{self.path} has no checksum, and there was one before: an older version or another program wrote it; "
                f"nothing was changed. {self._advice()}"
            )

    def _read_without(self, changes: ChangesFile | None) -> FoundTopology:
        if changes is not None or self.read_bytes(self.previous_path) is not None:
            raise TopologyError(
                f"{self.path} is missing, and it was there before; nothing was changed. {self._advice()}"
            )
        data = self.read_bytes(self.nsqd_path)
        if data is None:
            return FoundTopology(Topology(nsqd_crc=nsqd_file.NO_FILE))
        state = parse_topology(data, self.nsqd_path)
        state.unlisted_below = 0  # nsqd gives no numbers
        state.nsqd_crc, state.nsqd_upto = nsqd_file.checksum(data), state.sequence
        return FoundTopology(state, self.nsqd_path, nsqd_crc=state.nsqd_crc)

    def _see_what_nsqd_did(self, found: FoundTopology, topology: bytes) -> None:
        """Take over nsqd's topics and channels if nsqd ran since the last stop. topology: the bytes of topology.json.
        Raises TopologyError."""
        state = found.state
        data = self.read_bytes(self.nsqd_path)
        found.nsqd_crc = nsqd_file.NO_FILE if data is None else nsqd_file.checksum(data)
        if not state.nsqd_crc:
            # An older version wrote topology.json: topics of nsqd.dat may be long gone. Where there is none, the next
            # one is of an nsqd that ran.
            state.nsqd_crc = nsqd_file.NO_FILE if data is None else ""
            return
        if data is None or found.nsqd_crc == state.nsqd_crc or nsqd_file.is_ours(data):
            return
        try:
            theirs = parse_topology(data, self.nsqd_path)
        except TopologyError as exc:
            raise TopologyError(f"{exc}. Without that file the topics are those of {self.path}") from exc
        given = self._given_to_nsqd(found, topology)
        try:
            queues = nsqd_file.QueueFiles(self.directory, self._files)
            run = nsqd_file.take_over(state, theirs, given=given, queues=queues)
        except OSError as exc:
            raise TopologyError(f"disk queues in {self.directory} can't be read: {exc}; nothing was changed") from exc
        state.nsqd_crc = found.nsqd_crc
        state.nsqd_upto = state.sequence if nsqd_file.shown(state) == nsqd_file.shown(theirs) else -1
        found.nsqd_ran = True
        found.warnings += run.sentences()

    def _given_to_nsqd(self, found: FoundTopology, topology: bytes) -> Topology | None:
        """The content of nsqd.dat when the server wrote it last; None: unknown."""
        upto = found.state.nsqd_upto
        given = parse_topology(topology, self.path)
        if found.changes is None or not found.changes.after <= given.sequence <= upto:
            return None
        for sequence, made in found.changes.entries:
            if given.sequence < sequence <= upto:
                for change in made:
                    given.apply(change)
        return given

    def _read_changes(self, path: str) -> ChangesFile | None:
        data = self.read_bytes(path)
        return None if data is None else parse_changes(data, path)

    def replay(self, found: FoundTopology) -> None:
        """Apply the changes that topology.json does not have yet. Raises TopologyError."""
        state, changes = found.state, found.changes
        if changes is None and state.sequence == 0:
            return  # the first start stopped before it made topology.changes
        if changes is None:
            raise TopologyError(
                f"{self.changes_path} is missing: {self.path} does not have the changes since it was written; "
                "nothing was changed. Put it back, or let `penstock topology accept` go on without it"
            )
        if changes.identity != state.identity:
            raise TopologyError(
                f"{self.path} is of data directory {state.identity or '(none)'} and {self.changes_path} is of "
                f"{changes.identity or '(none)'}: they don't belong together; nothing was changed. {self._advice()}"
            )
        if changes.after > state.sequence:
            # An operator has put back topology.json from its predecessor.
            before = self._read_changes(self.previous_changes_path)
            if before is not None and before.identity == state.identity:
                self._make(state, before, self.previous_changes_path, upto=changes.after)
        if changes.after > state.sequence:
            raise TopologyError(
                f"{self.path} has the changes up to {state.sequence}, and {self.changes_path} those behind "
                f"{changes.after}: some are missing between; nothing was changed. {self._advice()}"
            )
        self._make(state, changes, self.changes_path)
        try:
            check_names(state)
        except ValueError as exc:
            raise TopologyError(f"{self.changes_path} can't be right: {exc}; nothing was changed. {_HELP}") from exc
        if changes.torn_bytes:
            found.warnings.append(
                f"{changes.torn_bytes} bytes at the end of {self.changes_path} are of a change that was being written; "
                "it was not answered, and is cut"
            )

    def _make(self, state: Topology, changes: ChangesFile, path: str, upto: int | None = None) -> None:
        for sequence, made in changes.entries:
            if sequence <= state.sequence:
                continue
            if sequence != state.sequence + 1 or (upto is not None and sequence > upto):
                raise TopologyError(
                    f"{path} goes on with change {sequence} behind {state.sequence}; nothing was changed. {_HELP}"
                )
            for change in made:
                state.apply(change)
            state.sequence = sequence
