"""Ends of pauses on Go nsqds, which have no such thing: this console resumes them at the time that was set.

    pause-ends.json, of a named cluster pause-ends.NAME.json, mode 0600: one checked line (storage/disk/checked_line.py)

    {"version": 1, "ends": [END…]}
    END   {"node", "topic", "channel": text, "until_ms", "since_ms": Unix, "by", "reason": text}

An end is on the disk before its pause is sent. A console that was away at that time resumes at its next start, a node
that does not answer once it does. The file of a cluster that no option names stays, and each start names its pauses in
the log. To change the format: a new key that an older version may ignore keeps the version;
anything else raises it, and older versions then refuse the file with a sentence.
"""

import logging
import os
import threading
import time
from collections.abc import Callable, Collection, MutableSet
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from admin_console.cluster.cluster import Cluster
from admin_console.gateway.gateway import DONE, NO_AUTHOR, ActOrder, ActResult, Pause
from admin_console.gateway.sentences import and_list
from admin_console.vocabulary.current_cluster import PerCluster, file_of, in_this_cluster, is_cluster_name
from queue_engine.delivery.stats import VIA_TIMER, ActRecord, Outcome
from queue_engine.storage.disk.checked_line import decode_versioned, encode_line
from queue_engine.storage.disk.files import Files
from queue_engine.vocabulary.errors import StorageError

VERSION = 1
NAME = "pause-ends.json"
_BYTES_MAX = 16 << 20
_NAMED_MAX = 3  # pauses in a line of the log
RETRY_S = 5.0
_LOOK_S = 60.0  # the clock may be set meanwhile
# A node that is not there for so long after the end has lost its pause with its files, or is gone for good.
GIVE_UP_MS = 7 * 24 * 3600 * 1000

logger = logging.getLogger(__name__)

Key = tuple[str, str, str]  # node, topic, channel; the channel is "" for a topic


@dataclass(frozen=True, slots=True)
class End:
    """Of a pause that this console set. Times are Unix milliseconds."""

    node: str
    topic: str
    channel: str
    until_ms: int
    since_ms: int
    by: str = ""
    reason: str = ""

    @property
    def key(self) -> Key:
        return self.node, self.topic, self.channel


class PauseEnds:
    """Any thread. on_ended: gets each resume, for the audit list."""

    def __init__(
        self,
        directory: str | Path,
        cluster: Cluster,
        on_ended: Callable[[ActRecord], None],
        *,
        files: Files | None = None,
        now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
        retry_s: float = RETRY_S,
    ) -> None:
        self._path = os.path.join(directory, file_of(NAME, cluster.name))
        self._cluster = cluster
        self._on_ended = on_ended
        self._files = files or Files()
        self.now_ms = now_ms
        self._retry_s = retry_s
        self._ends: dict[Key, End] = {}
        self._changed = threading.Condition()
        self._is_stopping = self._has_news = False
        self._started_ms = 0
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Read the file. A damaged one counts as none, with a line in the log. Raises StorageError for one of a newer
        version, or that can't be read."""
        self._started_ms = self.now_ms()
        ends = _read(self._files, self._path)
        with self._changed:
            self._ends = {end.key: end for end in ends}
            if ends:
                self._run()

    def stop(self) -> None:
        """Once the cluster has stopped: the calls of the thread are over then."""
        with self._changed:
            self._is_stopping = True
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join()

    def of(self, node: str, topic: str, channel: str = "") -> End | None:
        return self._ends.get((node, topic, channel))

    def set(self, end: End) -> None:
        """Durable when this returns. Raises StorageError; then the ends are as before."""
        with self._changed:
            self._write({**self._ends, end.key: end})
            self._has_news = True
            self._run()
            self._changed.notify_all()

    def drop(self, node: str, topic: str, channel: str = "", *, with_channels: bool = False) -> None:
        """There is no end any more; with_channels: nor one of a channel of that topic. An end that stays in the file,
        since the disk refuses the change, is a resume that changes nothing."""
        with self._changed:
            left = {
                key: end
                for key, end in self._ends.items()
                if key != (node, topic, channel) and not (with_channels and key[:2] == (node, topic))
            }
            if len(left) == len(self._ends):
                return
            try:
                self._write(left)
            except StorageError as exc:
                logger.warning("%s", exc)

    def _write(self, ends: dict[Key, End]) -> None:
        content = {"version": VERSION, "ends": [asdict(end) for end in ends.values()]}
        try:
            self._files.replace(self._path, encode_line(content))
        except OSError as exc:
            raise StorageError(f"{self._path} can't be written: {exc}") from exc
        self._ends = ends

    # The thread.

    def _run(self) -> None:
        if self._thread is None and not self._is_stopping:
            self._thread = threading.Thread(
                target=in_this_cluster(self._end_each), name="penstock-pause-ends", daemon=True
            )
            self._thread.start()

    def _end_each(self) -> None:
        wait_s = 0.0
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._is_stopping or self._has_news, wait_s)
                self._has_news = False
                if self._is_stopping:
                    return
                now_ms = self.now_ms()
                due = sorted(
                    (end for end in self._ends.values() if end.until_ms <= now_ms), key=lambda end: end.until_ms
                )
                later = [end.until_ms - now_ms for end in self._ends.values() if end.until_ms > now_ms]
            wait_s = min([_LOOK_S, *(one / 1000 for one in later)])
            unreachable: set[str] = set()  # nodes of this round: each call would wait for its timeout
            for end in due:
                try:
                    is_over = end.node not in unreachable and self._end(end, unreachable)
                except Exception:
                    # A fault of ours with this one: the others end at their time.
                    logger.exception("the pause of %s on %s can't be ended", end.topic, end.node)
                    is_over = False
                if not is_over:
                    wait_s = min(wait_s, self._retry_s)

    def _end(self, end: End, unreachable: MutableSet[str]) -> bool:
        """Whether it is over. False: it is tried again. unreachable: gets the node where it gives no answer."""
        node = next((one for one in self._cluster.state.nodes if one.name == end.node), None)
        if node is None or node.info is None:
            return self._is_given_up(end)
        # Here: a server without other nodes starts without an HTTP client.
        from admin_console.gateway.node_gateway import NodeGateway

        action = "unpause_channel" if end.channel else "unpause_topic"
        order = ActOrder(action, end.topic, end.channel, NO_AUTHOR, {})
        result = NodeGateway(node, self._cluster).begin(order)()
        if result.verdict != DONE and not result.code.endswith("_NOT_FOUND"):
            if result.code in ("UNREACHABLE", "OUTCOME_UNKNOWN"):
                unreachable.add(end.node)
            return self._is_given_up(end)
        with self._changed:
            if self._ends.get(end.key) != end:
                return True  # a user set another one meanwhile
        self.drop(*end.key)
        if result.verdict == DONE and not result.already:
            self._on_ended(self._record(end, action, result))
        return True

    def _is_given_up(self, end: End) -> bool:
        if self.now_ms() - end.until_ms < GIVE_UP_MS:
            return False
        name = f"{end.topic}/{end.channel}" if end.channel else end.topic
        logger.warning("the pause of %s on %s was not ended: the node does not answer", name, end.node)
        self.drop(*end.key)
        return True

    def _record(self, end: End, action: str, result: ActResult) -> ActRecord:
        pause = Pause(by=end.by, reason=end.reason, since_ms=end.since_ms, until_ms=end.until_ms)
        details: dict[str, Any] = {"pause": pause, "was_down": end.until_ms < self._started_ms}
        if self._cluster.name:
            details["cluster"] = self._cluster.name
        outcome = Outcome(depth=result.counts.get("depth", 0))
        return ActRecord(
            action, end.topic, end.channel, end.node, "", outcome, via=VIA_TIMER, details=details, at_ms=self.now_ms()
        )


def warn_of_absent_clusters(directory: str | Path, names: Collection[str]) -> None:
    """Write a line to the log for each cluster that had a name, is none of `names` any more and left ends of pauses:
    its nsqds stay paused. A file that can't be read has a line, too."""
    stem, _, ending = NAME.rpartition(".")
    for path in sorted(Path(directory).glob(f"{stem}.*.{ending}")):
        name = path.name.removeprefix(f"{stem}.").removesuffix(f".{ending}")
        if name in names or not is_cluster_name(name):
            continue
        try:
            ends = _read(Files(), str(path))
        except StorageError as exc:
            logger.warning("%s", exc)
            continue
        if ends:
            listed = [f"{end.topic}/{end.channel}".strip("/") + f" on {end.node}" for end in ends[:_NAMED_MAX]]
            more = [f"{len(ends) - _NAMED_MAX:,} more"] if len(ends) > _NAMED_MAX else []
            logger.warning(
                "no option names the cluster %s any more, and this console does not end the pauses that it set there "
                "(%s): name the cluster again, or resume them at the nodes",
                name,
                and_list([*listed, *more]),
            )


def _read(files: Files, path: str) -> list[End]:
    """The ends of a file; none without one. A damaged one counts as none, with a line in the log. Raises StorageError
    for one of a newer version, or that can't be read."""
    try:
        data = files.read_whole(path, _BYTES_MAX)
    except OSError as exc:
        raise StorageError(f"{path} can't be read: {exc}") from exc
    if data is None:
        return []
    content = decode_versioned(data, path, VERSION)
    try:
        if content is None:
            raise ValueError("its checksum does not fit")
        return [_end_in(one) for one in content["ends"]]
    except (ValueError, TypeError, KeyError) as exc:
        logger.warning("%s is damaged (%s): nsqds that this console paused stay paused", path, exc)
        return []


def _end_in(fields: Any) -> End:
    """Raises KeyError, TypeError or ValueError for another form."""
    end = End(**{name: fields[name] for name in End.__dataclass_fields__})
    are_texts = all(isinstance(one, str) for one in (*end.key, end.by, end.reason))
    if not are_texts or not all(type(one) is int for one in (end.until_ms, end.since_ms)):
        raise ValueError("an end has a value of another kind")
    return end


_pause_ends = PerCluster[PauseEnds]()


def set_pause_ends(ends: PauseEnds | None) -> None:
    """Called by `serve` once the cluster runs, and with None before it stops."""
    _pause_ends.put(ends)


def get_pause_ends() -> PauseEnds | None:
    """Those of the cluster that the running code works for; None where `serve` is not running."""
    return _pause_ends.get()
