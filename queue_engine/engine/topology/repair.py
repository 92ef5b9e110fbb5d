"""The operator's commands on topology.json while no server runs: check, show, accept and rebuild.

Each takes the data directory's lock, so that no server runs meanwhile. `accept` and `rebuild` write as a merge does:
the files before are copied to `….previous`.
"""

import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field

from queue_engine.engine.topology.entries import ChannelEntry, TopicEntry
from queue_engine.engine.topology.files import FoundTopology, TopologyFiles, encode_header, parse_changes
from queue_engine.engine.topology.log_guard import LogGuard
from queue_engine.engine.topology.topology import FORMAT_BEFORE_CHECKSUMS, LOG_KIND, Topology, parse_topology
from queue_engine.storage.commit_log.record import new_id_base
from queue_engine.storage.commit_log.survey import SurveyedTopic
from queue_engine.storage.disk.files import Files
from queue_engine.vocabulary.errors import NewerTopologyError, StorageError, TopologyError

RECOVERED_PREFIX = "recovered-"


@dataclass(frozen=True, slots=True)
class Checked:
    """state: topics and channels; None when the files can't be read. complaints: why a start would stop, or leave
    something out."""

    state: Topology | None
    complaints: tuple[str, ...] = ()
    unknown: tuple[SurveyedTopic, ...] = ()


@dataclass(slots=True)
class Repaired:
    """The topology that is written. report: the steps, a sentence each."""

    state: Topology
    report: list[str] = field(default_factory=list)


class TopologyRepair:
    """The topology of one data directory, which the caller has locked."""

    def __init__(self, data_path: str, files: Files) -> None:
        self._paths = TopologyFiles(data_path, files)
        self._guard = LogGuard(data_path, files)
        self._files = files

    def check(self) -> Checked:
        """The findings of a start, and why it would stop."""
        try:
            found = self._paths.read()
        except StorageError as exc:
            return Checked(None, (str(exc),))
        complaints = list(found.warnings)
        unknown: Sequence[SurveyedTopic] = ()
        try:
            self._guard.check(found.state, found.source)
        except StorageError as exc:
            complaints.append(str(exc))
        try:
            unknown = self._guard.unknown(found.state, reads_all=True)
        except StorageError as exc:
            complaints.append(str(exc))
        complaints += [f"The log has messages of an unknown topic: {topic.sentence()}." for topic in unknown]
        return Checked(found.state, tuple(complaints), tuple(unknown))

    def accept(self) -> Repaired:
        """Take topology.json as it stands, edited by hand perhaps, and write its checksum. Raises TopologyError when it
        is no topology at all, or StorageError."""
        data = self._paths.read_bytes(self._paths.path)
        if data is None:
            raise TopologyError(
                f"{self._paths.path} is missing: there is nothing to accept. `penstock topology rebuild` makes one"
            )
        state = parse_topology(data, self._paths.path, accepts_any=True)
        repaired = Repaired(state, [f"{self._paths.path} is accepted as it stands."])
        if state.format > FORMAT_BEFORE_CHECKSUMS:
            self._apply_changes(repaired, state)
        self._write(repaired)
        return repaired

    def rebuild(self) -> Repaired:
        """Make topology.json from the remains: it, or its predecessor, the changes, and the log. Raises
        NewerTopologyError when a newer version wrote one of them, or StorageError; then nothing is changed."""
        repaired = self._best()
        state = repaired.state
        for topic in self._guard.unknown(state, reads_all=True):
            name = f"{RECOVERED_PREFIX}{topic.number}"
            existing = state.topics.get(topic.number)
            if existing is not None:
                # It says diskqueue, and the log has its messages.
                existing.storage, name = LOG_KIND, existing.name
                entry = existing
            else:
                entry = state.topics[topic.number] = TopicEntry(name, number=topic.number, storage=LOG_KIND)
            entry.id_base = entry.id_base or new_id_base()
            entry.reserved_offset = max(entry.reserved_offset, topic.next_offset)
            # All of it waits at the topic, for the first channel that is made.
            entry.released = topic.first_offset
            state.note_given(topic.number)
            repaired.report.append(f"Topic {name} is made from the log: {topic.sentence()}.")
        self._write(repaired)
        return repaired

    def _best(self) -> Repaired:
        try:
            found = self._paths.read()
        except NewerTopologyError:
            raise
        except StorageError as exc:
            reason = str(exc).partition(";")[0]
        else:
            taken = (
                f"Topics and channels are taken from {found.source}." if found.source else "There was no topology.json."
            )
            return Repaired(found.state, [taken])
        for path in (self._paths.path, self._paths.previous_path):
            data = self._paths.read_bytes(path)
            if data is None:
                continue
            try:
                state = parse_topology(data, path)
            except NewerTopologyError:
                raise
            except TopologyError:
                continue
            repaired = Repaired(state, [f"{reason}.", f"Topics and channels are taken from {path}."])
            if path == self._paths.path and state.format == FORMAT_BEFORE_CHECKSUMS:
                return repaired  # an older version wrote it, behind all changes
            self._apply_changes(repaired, state)
            return repaired
        repaired = Repaired(
            Topology(),
            [f"{reason}.", "No topology file can be read: topics and channels are taken from the changes and the log."],
        )
        self._apply_changes(repaired, repaired.state)
        return repaired

    def _apply_changes(self, repaired: Repaired, state: Topology) -> None:
        """The changes that follow on the file's state, as many as there are."""
        data = self._paths.read_bytes(self._paths.changes_path)
        if data is None:
            repaired.report.append(f"{self._paths.changes_path} is missing: the changes since are unknown.")
            return
        before = state.sequence
        try:
            changes = parse_changes(data, self._paths.changes_path)
            if changes.after == 0 and not state.identity:
                # They begin with the first start that wrote any; its own number is 1.
                state.identity, state.sequence = changes.identity, 1
                before = 1
            self._paths.replay(FoundTopology(state, "", changes))
        except NewerTopologyError:
            raise
        except TopologyError as exc:
            repaired.report.append(f"Not all changes since could be applied: {str(exc).partition(';')[0]}.")
        if state.sequence > before:
            repaired.report.append(f"{state.sequence - before} changes since were applied.")

    def _write(self, repaired: Repaired) -> None:
        """Raises StorageError."""
        state, paths, files = repaired.state, self._paths, self._files
        has_segments = self._guard.has_segments
        identity = self._guard.identity()
        if identity and identity != state.identity:
            repaired.report.append(f"It belongs to the log of data directory {identity} from now on.")
            state.identity = identity
        state.identity = state.identity or secrets.token_hex(16)
        state.has_log = bool(identity) and has_segments
        if not has_segments:
            for topic in state.log_topics:
                # The log begins anew: nothing says any more that it has to be there. No offset is given again.
                topic.released = None
        state.sequence = max(state.sequence, 1)
        try:
            if (identity and has_segments) or (not has_segments and state.log_topics):
                self._guard.join(state.identity)
            for path, previous in (
                (paths.path, paths.previous_path),
                (paths.changes_path, paths.previous_changes_path),
            ):
                data = paths.read_bytes(path)
                if data is not None:
                    files.replace(previous, data)
            files.replace(paths.path, state.to_json())
            files.replace(paths.changes_path, encode_header(state.identity, state.sequence))
        except OSError as exc:
            raise StorageError(f"{paths.path} can't be written: {exc}") from exc


def lines_of(state: Topology) -> list[str]:
    """The topology for people: a line for the whole, and one for each topic and channel."""
    whose = f"data directory {state.identity}" if state.identity else "a data directory without an identity"
    lines = [f"{whose}, format {state.format}, {len(state.topics)} topics, changes up to {state.sequence}"]
    for topic in sorted(state.topics.values(), key=lambda one: one.name):
        lines.append(f"{topic.name}  number {topic.number}, {topic.storage}{_states_of(topic)}")
        lines += [
            f"  {channel.name}  number {channel.number}{_states_of(channel)}"
            for channel in sorted(topic.channels.values(), key=lambda one: one.name)
        ]
    if state.deleted:
        lines.append(f"deleted, and perhaps still in the log: numbers {', '.join(map(str, sorted(state.deleted)))}")
    return lines


def _states_of(one: TopicEntry | ChannelEntry) -> str:
    return (", paused" if one.paused else "") + ("" if one.trash is None else f", in the trash ({one.trash.act})")
