"""The archive job: writes the messages of chosen topics to Parquet files, each exactly once, even when it is killed.

A topic is archived while it has a pipeline cursor named `archive`. One step takes ranges of offsets of one or several
topics and does, in this order:

    1. one Spark job writes them to staging           killed here: the next holder of the lake removes staging
    2. the staged files are checked, message by message
    3. files are synced and renamed to their places   killed here: no manifest names them; the next holder removes them
    4. each topic's manifest is replaced              from here on the files count
    5. each topic's cursor is moved                   killed before it: the next run moves it to the manifest's offset

The manifest says where the next step begins; the cursor only keeps the log from removing messages. Offsets that the log
no longer has (the cursor was cut off, the topic was not archived for a while) are recorded as gaps, with the reason.
"""

import logging
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from queue_engine.pipeline.archive.manifest import (
    DAMAGED,
    ArchivedFile,
    ArchiveGap,
    ArchiveManifest,
    joined_gaps,
    list_archives,
    read_archive,
    with_gaps_to,
    write_archive,
)
from queue_engine.pipeline.archive.staging import StagedTopic, staged_topics
from queue_engine.pipeline.archive.step import write_step
from queue_engine.pipeline.job.context import JobContext
from queue_engine.pipeline.job.state import RUNNING, WAITING, JobState, TopicProgress
from queue_engine.pipeline.source.record_columns import ABSENT
from queue_engine.pipeline.source.wanted_range import WantedRange, synced_messages, wanted_range
from queue_engine.vocabulary.clock import NS_PER_MS, NS_PER_S
from queue_engine.vocabulary.errors import OffsetBeyondEndError, PipelineError, TopicMissingError, TopicReplacedError
from queue_engine.wire.cursor import CursorStats
from queue_engine.wire.topic_state import TopicState

logger = logging.getLogger(__name__)

CURSOR = "archive"
JOB = "archive"
# A step costs a second, however small it is. This many messages make that second little, and few enough are done again
# after a kill.
STEP_ROWS = 1_000_000
STEP_BYTES = 256 << 20
# The messages of so many bytes are sampled to estimate how large a topic's messages are.
SAMPLED_BYTES = 256 << 10
STEP_TOPICS = 200
# How often one run lists the cursors again because topics changed meanwhile.
_PASSES_MAX = 5


def archive_once(
    context: JobContext,
    *,
    topics: Collection[str] | None = None,
    include_replayed: Collection[str] = (),
    step_rows: int = STEP_ROWS,
    step_bytes: int = STEP_BYTES,
) -> int:
    """Archive the messages that are synced now, until all are archived or context.stop is set.

    Returns the rows archived. topics: only these; None for all with the cursor. include_replayed: topics whose replayed
    messages are archived again. step_rows, step_bytes: about the most of one step. When a topic fails, the others are
    archived before its error is raised. Raises LakeDamagedError, PipelineError, OSError, and Spark's errors.
    """
    run = _Run(context, topics, frozenset(include_replayed), step_rows, step_bytes)
    for _ in range(_PASSES_MAX):
        if not run.run_pass():
            break
    run.report(WAITING)
    if run.errors and not context.stop.is_set():
        raise run.errors[0]
    return run.rows


@dataclass(slots=True)
class _Work:
    """A topic in a run. state: the engine's at the run's begin: it has the end, and which offsets have messages.
    rows_max: of one step. done: messages that are archived or recorded as damaged or replayed."""

    manifest: ArchiveManifest
    state: TopicState
    rows_max: int
    done: int
    is_done: bool = False

    @property
    def next_range(self) -> WantedRange:
        at = self.manifest.next_offset
        return wanted_range(self.state, at, synced_messages(self.state).offset_behind(at, self.rows_max))

    @property
    def left(self) -> int:
        """Messages."""
        return synced_messages(self.state).count_between(self.manifest.next_offset, self.state.synced_offset)

    @property
    def share(self) -> float:
        """How much of a step the next range is."""
        return self.next_range.count / self.rows_max


class _Run:
    def __init__(
        self,
        context: JobContext,
        topics: Collection[str] | None,
        include_replayed: frozenset[str],
        step_rows: int,
        step_bytes: int,
    ) -> None:
        self._context = context
        self._topics = topics
        self._include_replayed = include_replayed
        self._step_rows = step_rows
        self._step_bytes = step_bytes
        self._started_ns = context.clock.monotonic_ns()
        self._started_ms = self._now_ms()
        self._works: dict[tuple[str, int], _Work] = {}
        self._failed: set[tuple[str, int]] = set()
        self._step_count = 0
        self.rows = 0
        self.errors: list[BaseException] = []

    def run_pass(self) -> bool:
        """Archive all topics as they are now. Returns whether topics changed, so that another pass is needed."""
        self._works = {}
        has_changed = False
        for cursor in self._cursors():
            if cursor.offset >= cursor.synced_offset:
                # Nothing new: the manifest, which grows over the years, is not read.
                continue
            try:
                work = self._prepare(cursor)
            except (TopicMissingError, TopicReplacedError) as exc:
                logger.info("topic gone since the cursors were listed: %s", exc)
                has_changed = True
                continue
            except PipelineError as exc:
                self._fail((cursor.topic, cursor.number), exc)
                continue
            self._works[cursor.topic, cursor.number] = work
        self.report(RUNNING)
        for works in self._steps():
            if self._context.stop.is_set():
                return False
            has_changed = self._step(works) or has_changed
            self.report(RUNNING)
        return has_changed

    def report(self, state: str) -> None:
        """Report the run's progress; a run without work reports nothing."""
        if self._step_count == 0 and not any(self._unfinished()):
            return
        elapsed_s = max(self._context.clock.monotonic_ns() - self._started_ns, 1) / NS_PER_S
        topics = tuple(
            TopicProgress(
                work.manifest.topic,
                work.manifest.number,
                work.done,
                work.done + work.left,
            )
            for work in self._works.values()
        )
        done = sum(one.done for one in topics)
        total = sum(one.total for one in topics)
        self._context.report(
            JobState(
                JOB,
                state,
                started_ms=self._started_ms,
                updated_ms=self._now_ms(),
                done=done,
                total=total,
                unit="messages",
                rows_per_s=None if state == WAITING else round(self.rows / elapsed_s, 1),
                lag=total - done,
                topics=topics,
            )
        )

    # The work of a pass.

    def _cursors(self) -> list[CursorStats]:
        return [
            one
            for one in self._context.engine.cursor_list()
            if one.cursor == CURSOR
            and (self._topics is None or one.topic in self._topics)
            and (one.topic, one.number) not in self._failed
        ]

    def _prepare(self, cursor: CursorStats) -> _Work:
        """Prepare a topic: where its archive goes on. Messages that the log no longer has become a gap."""
        topic, number, id_base = cursor.topic, cursor.number, cursor.id_base
        lake = self._context.lake
        manifest = read_archive(lake, topic, number, id_base)
        if manifest is None:
            self._close_others(topic, number)
            manifest = ArchiveManifest(topic, number, id_base, cursor.offset, cursor.offset)
        if manifest.next_offset > cursor.synced_offset:
            raise OffsetBeyondEndError(
                f"{topic} is archived up to offset {manifest.next_offset}, and its log ends at "
                f"{cursor.synced_offset}: it lost messages that were synced"
            )
        begin = max(manifest.next_offset, cursor.offset, cursor.oldest_offset)
        if begin > manifest.next_offset:
            manifest = with_gaps_to(manifest, cursor, begin, self._now_ms())
            logger.warning("archive gap topic=%s number=%d next_offset=%d", topic, number, begin)
            manifest = self._write(manifest)
        if cursor.offset < manifest.next_offset:
            self._move_cursor(manifest)
        state = self._context.engine.topic(topic)
        if (state.number, state.id_base) != (number, id_base):
            raise TopicReplacedError(f"{topic} has the number {state.number}, not {number}: it was created again")
        rows_max = self._step_rows
        if cursor.lag_bytes > self._step_bytes and cursor.depth > 0:
            rows_max = max(min(rows_max, self._step_bytes // self._message_bytes(state, manifest.next_offset)), 1)
        return _Work(manifest, state, rows_max, manifest.rows + manifest.replayed_skipped + manifest.damaged_count)

    def _message_bytes(self, state: TopicState, offset: int) -> int:
        """The bytes of a message in the log, estimated from the next ones. The cursor's lag in bytes can't be used:
        other topics' messages lie in between."""
        page = self._context.engine.records(state.topic, offset, max_bytes=SAMPLED_BYTES)
        return max(len(page.data) // max(synced_messages(state).count_between(offset, page.next_offset), 1), 1)

    def _close_others(self, topic: str, number: int) -> None:
        """Close the archives of earlier topics of this name."""
        for other in list_archives(self._context.lake, topic):
            if other.number != number and other.closed_ms is None:
                self._write(replace(other, closed_ms=self._now_ms()))

    def _unfinished(self) -> Iterator[_Work]:
        for work in self._works.values():
            if not work.is_done and work.left:
                yield work

    def _steps(self) -> Iterator[list[_Work]]:
        """Yield the topics of one step after the other, as many as fit into a step, until none has work left."""
        while True:
            works: list[_Work] = []
            filled = 0.0
            for work in self._unfinished():
                if works and (filled + work.share > 1 or len(works) == STEP_TOPICS):
                    continue
                works.append(work)
                filled += work.share
                if filled >= 1:
                    break
            if not works:
                return
            yield works

    # One step.

    def _step(self, works: list[_Work]) -> bool:
        """Archive the next range of each topic. Returns whether topics changed, so that another pass is needed."""
        try:
            self._archive(works)
            return False
        except Exception as exc:
            if self._context.stop.is_set():
                return False
            if len(works) > 1:
                logger.warning("step of %d topics failed, each is tried alone", len(works), exc_info=exc)
                # A sum, not any(): every topic is tried, also after one has changed.
                return sum(self._step([work]) for work in works) > 0
            work = works[0]
            work.is_done = True
            key = (work.manifest.topic, work.manifest.number)
            # The engine is asked again: when it is gone, this raises and the run ends.
            now = {(one.topic, one.number): one for one in self._cursors()}
            if key not in now:
                logger.info("topic gone in mid-archive topic=%s number=%d", *key)
                self._close(work.manifest)
                return True
            if max(now[key].offset, now[key].oldest_offset) > work.manifest.next_offset:
                return True
            self._fail(key, exc)
            return False

    def _archive(self, works: list[_Work]) -> None:
        lake = self._context.lake
        ranges = [work.next_range for work in works]
        self._step_count += 1
        staged_at = f"{lake.staging()}/archive-{self._step_count}-{self._now_ms()}"
        directory = Path(lake.within(staged_at)).absolute()
        try:
            write_step(
                self._context.spark,
                self._context.engine,
                ranges,
                directory,
                include_replayed=self._include_replayed,
                read_from=self._context.read_from,
            )
            topics = staged_topics(directory, ranges)
            moves: list[tuple[str, str]] = []
            manifests = [
                self._with_staged(work.manifest, topic, f"{staged_at}/", directory, moves)
                for work, topic in zip(works, topics, strict=True)
            ]
            lake.publish(moves)
        finally:
            lake.remove_staged(staged_at)
        for work, manifest, topic in zip(works, manifests, topics, strict=True):
            before = work.manifest
            work.manifest = self._write(manifest)
            work.done += topic.wanted.count
            self.rows += manifest.rows - before.rows
            for first, after, reason in topic.missing:
                logger.warning(
                    "archive without messages topic=%s first_offset=%d next_offset=%d reason=%s",
                    manifest.topic,
                    first,
                    after,
                    reason,
                )
        for work in works:
            self._move_cursor(work.manifest)

    def _with_staged(
        self,
        manifest: ArchiveManifest,
        topic: StagedTopic,
        staged_at: str,
        directory: Path,
        moves: list[tuple[str, str]],
    ) -> ArchiveManifest:
        """The manifest with the staged files added; the files' moves are appended to `moves`."""
        now_ms = self._now_ms()
        files = []
        for number, one in enumerate(topic.files):
            file = self._archived_file(one, number)
            moves.append(
                (staged_at + str(Path(one.path).relative_to(directory)), f"{manifest.folder}/{file.path}"),
            )
            files.append(file)
        missing = [*topic.missing, *((first, after, ABSENT) for first, after in topic.wanted.unused)]
        gaps = [ArchiveGap(first, after, reason, now_ms) for first, after, reason in missing]
        damaged = sum(after - first for first, after, reason in topic.missing if reason == DAMAGED)
        return replace(
            manifest,
            next_offset=topic.wanted.next_offset,
            files=(*manifest.files, *files),
            gaps=joined_gaps([*manifest.gaps, *gaps]) if gaps else manifest.gaps,
            damaged_count=manifest.damaged_count + damaged,
            replayed_skipped=manifest.replayed_skipped + topic.replayed_skipped,
        )

    def _archived_file(self, one: ArchivedFile, number: int) -> ArchivedFile:
        name = self._context.lake.data_name(f"{one.first_offset}-{one.next_offset}-{number:03d}.parquet")
        return replace(one, path=f"date={one.date}/hour={one.hour}/{name}")

    def _write(self, manifest: ArchiveManifest) -> ArchiveManifest:
        manifest = replace(manifest, step=manifest.step + 1, updated_ms=self._now_ms())
        write_archive(self._context.lake, manifest)
        return manifest

    def _move_cursor(self, manifest: ArchiveManifest) -> None:
        """Move the cursor to the manifest's end. The messages before it are durable in the lake."""
        try:
            self._context.engine.cursor_move(
                manifest.topic, CURSOR, number=manifest.number, offset=manifest.next_offset
            )
        except PipelineError as exc:
            # The topic, the cursor or the engine is gone. The manifest is right; the next run moves the cursor from it.
            logger.warning("cursor not moved topic=%s offset=%d: %s", manifest.topic, manifest.next_offset, exc)

    def _close(self, manifest: ArchiveManifest) -> None:
        if manifest.step and manifest.closed_ms is None:
            self._write(replace(manifest, closed_ms=self._now_ms()))

    def _fail(self, key: tuple[str, int], error: BaseException) -> None:
        logger.warning("topic not archived topic=%s number=%d", *key, exc_info=error)
        self._failed.add(key)
        self.errors.append(error)

    def _now_ms(self) -> int:
        return self._context.clock.time_ns() // NS_PER_MS
