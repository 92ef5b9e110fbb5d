"""Imports nsqd's data directory: topic after topic, each resumed where a run before it ended."""

import os
import time
from collections.abc import Callable
from hashlib import blake2b

from queue_engine.daemon.nsqd_import.import_client import ImportClient
from queue_engine.daemon.nsqd_import.source import IMPORTED_NAME, NsqdSource, SourceTopic
from queue_engine.daemon.nsqd_import.state import BEGUN, COPIED, MOVED, STATE_NAME, ImportState, TopicProgress
from queue_engine.daemon.nsqd_import.topic_copy import Copied, TopicCopy
from queue_engine.storage.disk.dirlock import DirectoryLock
from queue_engine.storage.disk.files import Files
from queue_engine.vocabulary.errors import EngineUnreachableError, NsqdImportError, PipelineError, StorageError

REASON = "import_nsqd copies messages of nsqd"
TOLD_EVERY_S = 1.0
SYNCED_WITHIN_S = 120.0


class NsqdImport:
    """One run over one directory. print_line: prints a line for people.

    The directory is locked from the start to `close`, as nsqd and servers lock theirs.
    """

    def __init__(self, directory: str, client: ImportClient, print_line: Callable[[str], None]) -> None:
        """Raises DirectoryLockedError when nsqd or a server holds the directory, NsqdImportError, TopologyError or
        StorageError; nothing was changed then."""
        self._directory = os.path.abspath(directory)
        self._client = client
        self._print = print_line
        self._lock = DirectoryLock(self._directory)
        try:
            files = Files()
            self._source = NsqdSource(self._directory, files)
            self._state = ImportState(self._directory, files)
        except BaseException:
            self._lock.release()
            raise
        self._told_at = time.monotonic()
        self._left: list[str] = []  # why something stays where it is

    def close(self) -> None:
        self._lock.release()

    def __enter__(self) -> "NsqdImport":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def run(self) -> bool:
        """Import all topics; whether nothing is left. Raises PipelineError when the server can't be reached: another
        run goes on from there."""
        for topic in self._source.topics:
            try:
                self._import(topic)
            except EngineUnreachableError:
                self._resume_after_failure(topic.name)
                raise
            except (NsqdImportError, PipelineError, StorageError, OSError) as exc:
                self._leave(f"topic {topic.name} is left as it is: {exc}")
                self._resume_after_failure(topic.name)
            except Exception as exc:  # a fault of this program costs the one topic
                self._leave(f"topic {topic.name} is left as it is: {type(exc).__name__} {exc}")
                self._resume_after_failure(topic.name)
        foreign = self._source.foreign()
        if foreign:
            self._leave(f"belongs to no topic, and is left as it is: {', '.join(foreign)}")
        if not self._left:
            self._source.move_metadata()
        return not self._left

    def _leave(self, sentence: str) -> None:
        self._left.append(sentence)
        self._print(sentence)

    def _import(self, topic: SourceTopic) -> None:
        name, progress = topic.name, self._state.topics.get(topic.name)
        if progress is None or progress.state == BEGUN:
            progress = self._begin(topic, progress)
            progress.damaged = sorted(self._copy(topic, progress))
            progress.state = COPIED
            self._state.save()
        if progress.state == COPIED:
            self._resume(name, progress.paused)
            moved = self._source.move(topic, progress.damaged)
            progress.state = MOVED
            self._state.save()
            self._print(f"{name}: {moved} files moved to {os.path.join(self._directory, IMPORTED_NAME)}")
        if left := self._source.files_of(topic):
            self._leave(f"topic {name}: left as it is, since a part of it can't be read: {', '.join(left)}")

    def _resume(self, topic: str, channels: list[str]) -> None:
        """Resume those whose pause is the import's: an operator's has another reason."""
        found = self._client.topic_stats(topic)
        there = {one["channel_name"]: one for one in found["channels"]} if found is not None else {}
        for channel in channels:
            if channel in there and _is_ours(there[channel]):
                self._client.unpause(topic, channel)

    def _resume_after_failure(self, topic: str) -> None:
        """The topic's channels go on with the copied messages; the next run pauses them again."""
        progress = self._state.topics.get(topic)
        if progress is None:
            return
        for channel in progress.paused[:]:
            try:
                self._resume(topic, [channel])
                progress.paused.remove(channel)
            except PipelineError as exc:
                self._leave(f"topic {topic}: channel {channel} may stay paused until the topic is imported: {exc}")
        try:
            self._state.save()
        except OSError as exc:
            self._leave(f"{STATE_NAME} can't be written: {exc}")

    def _begin(self, topic: SourceTopic, progress: TopicProgress | None) -> TopicProgress:
        """Have the topic and its channels there, paused, and in the state file."""
        name, files = topic.name, self._source.checksum_of(topic)
        if progress is not None and progress.files != files:
            raise NsqdImportError(
                f"its files are others than when its import began, so a server ran in between. Without {STATE_NAME} "
                "the import begins anew, and messages copied before come twice"
            )
        self._client.create_topic(name)
        found = self._client.topic_stats(name)
        if found is None:
            raise NsqdImportError("it was deleted on the server just now")
        if found["paused"] and not _is_ours(found):
            raise NsqdImportError("it is paused on the server: resume it there, then run this again")
        if progress is None:
            progress = TopicProgress(BEGUN, files, self._client.number_of(name))
            self._state.topics[name] = progress
        for channel in topic.channels:
            self._client.create_channel(name, channel)
        there = {one["channel_name"]: one for one in (self._client.topic_stats(name) or found)["channels"]}
        # A channel that is paused here already stays paused at the end.
        if gone := [channel for channel in topic.channels if channel not in there]:
            raise NsqdImportError(f"its channel {gone[0]} was deleted on the server just now")
        to_pause = [channel for channel in topic.channels if not there[channel]["paused"]]
        progress.paused = sorted({*progress.paused, *(one for one in to_pause if one not in topic.paused)})
        self._state.save()
        for channel in to_pause:
            self._client.pause(name, channel, REASON)
        return progress

    def _copy(self, topic: SourceTopic, progress: TopicProgress) -> set[str]:
        """All messages, durable; the names of damaged files."""
        name = topic.name

        def key_of(batch: int) -> bytes:
            return blake2b(f"{self._state.name} {name} {batch}".encode(), digest_size=16).digest()

        copy = TopicCopy(
            self._source,
            topic,
            self._client,
            number=progress.number,
            key_of=key_of,
            advanced=lambda copied: self._advanced(name, copied),
        )
        copy.copy_channels()
        if "" in topic.paused:
            self._client.pause(name, "", REASON)
        copy.copy_topic()
        self._wait_for_sync(name, copy.copied.end_offset)
        self._print(f"{name}: {_sentence(copy.copied)}; all on the server's disk")
        return copy.copied.damaged

    def _advanced(self, topic: str, copied: Copied) -> None:
        if time.monotonic() - self._told_at >= TOLD_EVERY_S:
            self._told_at = time.monotonic()
            self._print(f"{topic}: {_sentence(copied)}")

    def _wait_for_sync(self, topic: str, end_offset: int) -> None:
        ends_at = time.monotonic() + SYNCED_WITHIN_S
        while self._client.synced_offset(topic) < end_offset:
            if time.monotonic() > ends_at:
                raise NsqdImportError(
                    f"the server has not synced its last messages within {SYNCED_WITHIN_S:g} s; run this again"
                )
            time.sleep(0.05)


def _is_ours(found: dict[str, object]) -> bool:
    pause = found.get("pause")
    return isinstance(pause, dict) and pause.get("reason") == REASON


def _sentence(copied: Copied) -> str:
    repeated = f", {copied.written_before:,} of them by a run before" if copied.written_before else ""
    return f"{copied.read:,} messages read, {copied.written:,} written{repeated}"
