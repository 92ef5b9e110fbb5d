"""The archive job: writes the messages of chosen topics to Delta tables, each exactly once, even when it is killed.

A topic is archived while it has a pipeline cursor named `archive`. One step takes ranges of offsets of one or several
topics and does, in this order:

    1. one Spark job writes them to data files        killed here: no commit names them; they are removed by age
    2. the job's files are checked, message by message
    3. the gaps are committed to `archive_gaps`       killed here: the next run writes the messages, and no gap twice
    4. each topic's files are committed to its table  from here on they count
    5. each topic's cursor is moved                   killed before it: the next run moves it to where the table ends

The next step begins where the table ends; the cursor only stops the log from removing messages. Offsets that the log
no longer has (the cursor was cut off, the topic was not archived for a while) are recorded as gaps, with the reason.
Before a topic's first step its cursor takes the lake's identity: from then on no other lake can archive it.
"""

import logging
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

from queue_engine.lake.archive.archive_files import offset_bounds
from queue_engine.lake.archive.archive_table import ArchivedIdentity
from queue_engine.lake.archive.archives import Archives, Commit
from queue_engine.lake.archive.gaps import gaps_of, gaps_to
from queue_engine.lake.archive.old_manifest import check_converted
from queue_engine.lake.archive.resting import RestingTopics
from queue_engine.lake.archive.step import write_step
from queue_engine.lake.archive.step_check import WrittenRange
from queue_engine.lake.archive.step_writer import StepTarget
from queue_engine.lake.job.context import JobContext
from queue_engine.lake.job.error_sentences import is_any_of, sentence_of
from queue_engine.lake.job.state import RUNNING, WAITING, JobState, TopicProgress
from queue_engine.lake.source.wanted_range import WantedRange, synced_messages, wanted_range
from queue_engine.lake.tables.table_files import TableFile
from queue_engine.vocabulary.clock import NS_PER_MS, NS_PER_S
from queue_engine.vocabulary.errors import (
    OffsetBeyondEndError,
    OtherLakeError,
    PenstockError,
    PipelineError,
    StoreBusyError,
    StoreFullError,
    StoreRefusedError,
    StoreUnreachableError,
    TopicMissingError,
    TopicReplacedError,
)
from queue_engine.vocabulary.names import ARCHIVE_CURSOR
from queue_engine.wire.cursor import CursorStats
from queue_engine.wire.topic_state import TopicState

logger = logging.getLogger(__name__)

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
_OF_THE_STORE = (StoreUnreachableError, StoreRefusedError, StoreBusyError, StoreFullError)
# A store's rules may refuse single topics. After so many refusals in a row it refuses all.
REFUSED_TOPICS_MAX = 20
# Each opens a table: so many at each look at the cursors hold no message up.
LOOKS_MAX = 10


class Archiver:
    """Archives to one lake. One object serves all runs: it remembers how far each topic is. One thread."""

    def __init__(
        self,
        context: JobContext,
        *,
        include_replayed: Collection[str] = (),
        step_rows: int = STEP_ROWS,
        step_bytes: int = STEP_BYTES,
    ) -> None:
        """include_replayed: topics whose replayed messages are archived again. step_rows, step_bytes: about the most of
        one step. Raises NotConvertedError for archives of before there were tables; StoreError,
        TableError, LakeDamagedError, EngineUnreachableError."""
        server, tables = context.engine.server(), context.open_tables()
        check_converted(context.lake, tables, server)
        self.context = context
        self.step_rows = step_rows
        self.step_bytes = step_bytes
        self.target = StepTarget(tables.storage, server, frozenset(include_replayed))
        self.archives = Archives(context.lake, tables, server, context.clock)
        self.resting = RestingTopics(context.clock)

    def run(self, topics: Collection[str] | None = None) -> int:
        """Archive the messages that are synced now, until all are archived or context.stop is set.

        Returns the rows archived. topics: only these; None for all with the cursor. When a topic fails, the others are
        archived before its error is raised; when the store does, the run ends at once. Raises LakeDamagedError,
        PipelineError, OSError, and Spark's errors.
        """
        run = self._passes(topics)
        run.report(WAITING)
        if run.errors and not self.context.stop.is_set():
            raise next(iter(run.errors.values()))
        return run.rows

    def run_round(self, due: Collection[str], archived: Collection[str]) -> int:
        """As `run` of the topics that are due, and of those whose rest is over; a topic that fails rests.

        archived: all topics with the cursor. The error of a topic that rests is shown with the job. It is raised when
        all of the machine may be at fault: nothing was archived, and the error is none of the project's."""
        before = self.resting.note
        self.resting.retain(archived)
        resting = self.resting.topics
        topics = (set(due) - resting) | self.resting.rested()
        run = self._passes(topics, is_round=True)
        if self.context.stop.is_set():
            return run.rows
        for topic, error in run.errors.items():
            if run.rows == 0 and topic not in resting and not isinstance(error, PenstockError):
                raise error
        self.resting.forget(topics - run.errors.keys())
        for topic, error in run.errors.items():
            self.resting.fail(topic, sentence_of(error))
        run.report(WAITING, is_due=self.resting.note != before)
        return run.rows

    def due_topics(self, cursors: Collection[CursorStats], *, is_once: bool = False) -> set[str]:
        """Topics of whose tables it is time to look for missing files: a few, or all with is_once."""
        due = [
            one.topic
            for one in cursors
            if one.topic not in self.resting.topics
            and self.archives.is_look_due(
                ArchivedIdentity(one.topic, self.target.server, one.number, one.id_base), is_anew=not one.lake
            )
        ]
        return set(due if is_once else due[:LOOKS_MAX])

    def _passes(self, topics: Collection[str] | None, *, is_round: bool = False) -> "_Run":
        run = _Run(self, topics)
        left = 0 if topics is not None and not topics else _PASSES_MAX
        try:
            while left and run.run_pass():
                if run.is_repairing and is_round:
                    # Other topics may be due meanwhile: the next round goes on with it.
                    break
                # Each such pass leaves fewer files missing.
                left -= not run.is_repairing
        finally:
            self.archives.summary.write(is_last=True)
        return run


@dataclass(slots=True)
class _Work:
    """A topic in a run. state: the engine's at the run's begin: it has the end, and which offsets have messages.
    next_offset: of its archive; is_first: whether nothing is archived yet. rows_max: of one step. done: messages that
    were archived so far."""

    identity: ArchivedIdentity
    state: TopicState
    next_offset: int
    is_first: bool
    rows_max: int
    done: int
    is_done: bool = False

    @property
    def next_range(self) -> WantedRange:
        at = self.next_offset
        return wanted_range(self.state, at, synced_messages(self.state).offset_behind(at, self.rows_max))

    @property
    def left(self) -> int:
        """Messages."""
        return synced_messages(self.state).count_between(self.next_offset, self.state.synced_offset)

    @property
    def share(self) -> float:
        """How much of a step the next range is."""
        return self.next_range.count / self.rows_max


class _Run:
    def __init__(self, archiver: Archiver, topics: Collection[str] | None) -> None:
        self._context = archiver.context
        self._archives = archiver.archives
        self._resting = archiver.resting
        self._target = archiver.target
        self._step_rows = archiver.step_rows
        self._step_bytes = archiver.step_bytes
        self._topics = topics
        self._started_ns = self._context.clock.monotonic_ns()
        self._started_ms = self._now_ms()
        self._works: dict[tuple[str, int], _Work] = {}
        self._failed: set[tuple[str, int]] = set()
        self._step_count = 0
        self._refused_count = 0  # since the last commit
        self._repairs: dict[tuple[str, int], TopicProgress] = {}
        self.is_repairing = False  # whether the last pass left a repair unfinished
        self.rows = 0
        self.errors: dict[str, BaseException] = {}  # by topic

    def run_pass(self) -> bool:
        """Archive all topics as they are now. Returns whether topics changed, so that another pass is needed."""
        self._works = {}
        self.is_repairing = has_changed = False
        for cursor in self._cursors():
            if self._context.stop.is_set():
                return False
            is_idle = cursor.offset >= cursor.synced_offset
            if is_idle and not self._archives.is_look_due(self._identity(cursor), is_anew=not cursor.lake):
                # Nothing new: its table is not read.
                continue
            try:
                work = self._prepare(cursor)
            except (TopicMissingError, TopicReplacedError) as exc:
                logger.info("topic gone since the cursors were listed: %s", exc)
                has_changed = True
                continue
            except Exception as exc:
                if self._context.stop.is_set():
                    return False
                if self._is_of_the_store(exc):
                    # It would fail for every topic, and slowly.
                    raise
                self._fail(self._identity(cursor), exc)
                continue
            if work is None:
                has_changed = True
            elif not is_idle:
                self._works[cursor.topic, cursor.number] = work
        self.report(RUNNING)
        for works in self._steps():
            if self._context.stop.is_set():
                return False
            has_changed = self._step(works) or has_changed
            self.report(RUNNING)
        return has_changed

    def report(self, state: str, *, is_due: bool = False) -> None:
        """Report the run's progress; a run without work reports nothing unless it is due."""
        if not (is_due or self._step_count or self._repairs or any(self._unfinished())):
            return
        error, next_try_ms = self._resting.note
        elapsed_s = max(self._context.clock.monotonic_ns() - self._started_ns, 1) / NS_PER_S
        topics = tuple(
            TopicProgress(
                work.identity.topic,
                work.identity.number,
                work.done,
                work.done + work.left,
            )
            for work in self._works.values()
        )
        topics += tuple(one for topic, one in self._repairs.items() if topic not in self._works)
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
                error=error,
                topics=topics,
                next_try_ms=next_try_ms,
            )
        )

    # The work of a pass.

    def _cursors(self) -> list[CursorStats]:
        return [
            one
            for one in self._context.engine.cursor_list()
            if one.cursor == ARCHIVE_CURSOR
            and (self._topics is None or one.topic in self._topics)
            and (one.topic, one.number) not in self._failed
        ]

    def _identity(self, cursor: CursorStats) -> ArchivedIdentity:
        return ArchivedIdentity(cursor.topic, self._target.server, cursor.number, cursor.id_base)

    def _prepare(self, cursor: CursorStats) -> _Work | None:
        """Prepare a topic: where its archive goes on. Messages that the log no longer has become a gap. None where a
        repair of its table is not finished, and another pass goes on with it."""
        identity, lake = self._identity(cursor), self._archives.identity
        topic, number = cursor.topic, cursor.number
        if cursor.lake not in ("", lake):
            raise OtherLakeError(
                f"{topic} is archived to the lake {cursor.lake}, and {self._target.storage.place} is the lake {lake}: "
                "start the server with the --lake that it had, or stop archiving the topic and begin anew here"
            )
        lost_end = self._archives.lost_end(cursor, identity)
        if lost_end is not None:
            if not cursor.lake and self._archives.gives_up(identity, cursor):
                # The offset was chosen for something else, such as "from now on". An operator sees the loss first.
                self._context.engine.cursor_move(topic, ARCHIVE_CURSOR, number=number, offset=cursor.offset, lake=lake)
                raise self._archives.lost(identity, lost_end)
            if cursor.lake:
                raise self._archives.lost(identity, lost_end)
            # An operator made the cursor anew.
            self._archives.begin_again(identity, lost_end, max(cursor.offset, cursor.oldest_offset))
        if self._archives.is_look_due(identity, is_anew=not cursor.lake):
            missing = self._archives.missing_files(identity)
            if missing and cursor.lake:
                raise self._archives.incomplete(identity, missing)
            if missing and not self._repair(cursor, identity, missing):
                return None
        archived = self._archives.next_offset(identity)
        # The log may have lost messages since the first step was killed: a gap from there.
        at = self._archives.begun_at(identity, cursor.offset) if archived is None else archived
        if at > cursor.synced_offset:
            raise OffsetBeyondEndError(
                f"{topic} is archived up to offset {at}, and its log ends at {cursor.synced_offset}: it lost messages "
                "that were synced"
            )
        state = self._state_of(cursor)
        if not cursor.lake:
            # Durable before the first commit: two lakes must not both begin.
            self._context.engine.cursor_move(topic, ARCHIVE_CURSOR, number=number, offset=cursor.offset, lake=lake)
        begin = max(at, cursor.offset, cursor.oldest_offset)
        if begin > at:
            logger.warning("archive gap topic=%s number=%d next_offset=%d", topic, number, begin)
            gap = Commit(identity, at, begin, archived is None, gaps=gaps_to(at, cursor, begin, self._now_ms()))
            if error := self._archives.commit([gap])[identity]:
                raise error
            archived = begin
        elif archived is not None and cursor.offset < archived:
            self._move_cursor(identity, archived)
        rows_max = self._step_rows
        if cursor.lag_bytes > self._step_bytes and cursor.depth > 0:
            rows_max = self._rows_max(state, begin)
        entry = self._archives.summary.topics.get(topic)
        done = 0 if entry is None else entry.rows + entry.damaged_count
        return _Work(identity, state, begin, archived is None, rows_max, done)

    def _repair(self, cursor: CursorStats, identity: ArchivedIdentity, missing: Sequence[TableFile]) -> bool:
        """Write about a step of the missing files of a table again, from the cursor's offset on; messages before it
        are lost. Returns whether the table lacks nothing more."""
        # Where no operator has seen that files are missing, the offset was chosen for something else.
        start = cursor.offset if self._archives.is_partial(identity) else 0
        state = self._state_of(cursor)
        at = max(start, state.oldest_offset, min(offset_bounds(one)[0] for one in missing))
        rows_max = self._rows_max(state, at) if at < state.synced_offset else self._step_rows
        repair = self._archives.plan_repair(identity, state, missing, start, rows_max)
        before = self._repairs.get((cursor.topic, cursor.number))
        done = 0 if before is None else before.done
        total = done + sum(one.rows for one in missing)
        written: list[WrittenRange] = []

        def report(rows: int) -> None:
            progress = TopicProgress(cursor.topic, cursor.number, min(done + rows, total), total)
            self._repairs[cursor.topic, cursor.number] = progress
            self.report(RUNNING)

        report(0)
        for wanted, leaves_out in repair.ranges(rows_max):
            if self._context.stop.is_set():
                return False
            # As it was when they were archived, whatever the option is now.
            replayed = frozenset[str]() if leaves_out else frozenset([identity.topic])
            target = replace(self._target, include_replayed=replayed)
            written += write_step(
                self._context.spark, self._context.engine, [wanted], target, read_from=self._context.read_from
            )
            report(sum(one.rows for one in written))
        if not self._archives.commit_repair(repair, written):
            return False
        self.rows += sum(one.rows for one in written)
        report(sum(one.rows for one in repair.files))
        self.is_repairing = repair.left_count > 0
        return repair.left_count == 0

    def _state_of(self, cursor: CursorStats) -> TopicState:
        """The topic now. Raises TopicReplacedError, TopicMissingError."""
        state = self._context.engine.topic(cursor.topic)
        if (state.number, state.id_base) != (cursor.number, cursor.id_base):
            raise TopicReplacedError(
                f"{cursor.topic} has the number {state.number}, not {cursor.number}: it was created again"
            )
        return state

    def _rows_max(self, state: TopicState, offset: int) -> int:
        """How many messages from `offset` on fill a step."""
        return max(min(self._step_rows, self._step_bytes // self._message_bytes(state, offset)), 1)

    def _message_bytes(self, state: TopicState, offset: int) -> int:
        """The bytes of a message in the log, estimated from the next ones. The cursor's lag in bytes can't be used:
        other topics' messages lie in between."""
        page = self._context.engine.records(state.topic, offset, max_bytes=SAMPLED_BYTES)
        return max(len(page.data) // max(synced_messages(state).count_between(offset, page.next_offset), 1), 1)

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
            if self._is_of_the_store(exc):
                raise
            if self._context.stop.is_set():
                return False
            if len(works) > 1:
                logger.warning("step of %d topics failed, each is tried alone", len(works), exc_info=exc)
                return self._step_alone(works)
            work = works[0]
            work.is_done = True
            # A request to the engine: when it is gone, this raises and the run ends.
            now = {self._identity(one): one for one in self._cursors()}
            if work.identity not in now:
                logger.info("topic gone in mid-archive topic=%s number=%d", work.identity.topic, work.identity.number)
                return True
            cursor = now[work.identity]
            if max(cursor.offset, cursor.oldest_offset) > work.next_offset:
                return True
            self._fail(work.identity, exc)
            return False

    def _step_alone(self, works: Sequence[_Work]) -> bool:
        """As `_step`, each topic by itself, whatever becomes of the others."""
        has_changed = False
        for work in works:
            if self._context.stop.is_set():
                break
            if work.is_done:
                continue
            try:
                archived = self._archives.next_offset(work.identity)
            except PipelineError as exc:
                if self._is_of_the_store(exc):
                    raise
                work.is_done = True
                self._fail(work.identity, exc)
                continue
            if archived != (None if work.is_first else work.next_offset):
                # The step failed behind this topic's commit: it is prepared anew.
                work.is_done = has_changed = True
            else:
                has_changed = self._step([work]) or has_changed
        return has_changed

    def _archive(self, works: Sequence[_Work]) -> None:
        self._step_count += 1
        written = write_step(
            self._context.spark,
            self._context.engine,
            [work.next_range for work in works],
            self._target,
            read_from=self._context.read_from,
        )
        commits = [self._commit_of(work, one) for work, one in zip(works, written, strict=True)]
        errors = self._archives.commit(commits)
        failure: PipelineError | None = None
        for work, one, commit in zip(works, written, commits, strict=True):
            if error := errors[work.identity]:
                if self._is_of_the_store(error) or len(works) == 1:
                    failure = error
                else:
                    work.is_done = True
                    self._fail(work.identity, error)
                continue
            work.next_offset, work.is_first = commit.next_offset, False
            work.done += one.wanted.count
            self._refused_count = 0
            self.rows += commit.rows
            for first, after, reason in one.missing:
                logger.warning(
                    "archive without messages topic=%s first_offset=%d next_offset=%d reason=%s",
                    work.identity.topic,
                    first,
                    after,
                    reason,
                )
            self._move_cursor(work.identity, work.next_offset)
        self._archives.summary.write()
        if failure is not None:
            raise failure

    def _commit_of(self, work: _Work, one: WrittenRange) -> Commit:
        gaps = gaps_of(one, self._now_ms())
        return Commit(work.identity, work.next_offset, one.wanted.next_offset, work.is_first, one.files, gaps)

    def _move_cursor(self, identity: ArchivedIdentity, offset: int) -> None:
        """Move the cursor to where the table ends. The messages before it are durable in the lake."""
        try:
            self._context.engine.cursor_move(
                identity.topic, ARCHIVE_CURSOR, number=identity.number, offset=offset, lake=self._archives.identity
            )
        except PipelineError as exc:
            # The topic, the cursor or the engine is gone. The table is right; the next run moves the cursor from it.
            logger.warning("cursor not moved topic=%s offset=%d: %s", identity.topic, offset, exc)

    def _fail(self, identity: ArchivedIdentity, error: BaseException) -> None:
        logger.warning("topic not archived topic=%s number=%d", identity.topic, identity.number, exc_info=error)
        self._failed.add((identity.topic, identity.number))
        self._archives.note_error(identity, error)
        self.errors.setdefault(identity.topic, error)

    def _now_ms(self) -> int:
        return self._context.clock.time_ns() // NS_PER_MS

    def _is_of_the_store(self, error: BaseException) -> bool:
        """Whether the error is the store's, and not of one topic's table or file alone."""
        if is_any_of(error, (StoreRefusedError,)):
            self._refused_count += 1
            return self._refused_count > REFUSED_TOPICS_MAX or not self._archives.is_lake_readable()
        return is_any_of(error, _OF_THE_STORE)
