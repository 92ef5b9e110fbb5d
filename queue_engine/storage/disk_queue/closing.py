"""Closes all disk queues at a stop: writes and syncs their messages in memory, many queues at a time.

If the disk refuses, every queue is tried again as long as any queue advances, and for a while after; the error then
names the queues that were given up. A queue that fails does not keep the others from being written.
"""

import logging
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass

from queue_engine.storage.disk.files import Files
from queue_engine.storage.disk_queue.fifo.disk_queue import DiskQueue
from queue_engine.storage.disk_queue.fifo.sync import SyncJob
from queue_engine.storage.disk_queue.overflow_queue import OverflowQueue
from queue_engine.vocabulary.clock import Clock
from queue_engine.vocabulary.errors import StorageError
from queue_engine.vocabulary.faults import describe
from queue_engine.vocabulary.stop_progress import StopProgress

logger = logging.getLogger(__name__)

# Queues that are synced side by side and share one sync of the directory.
BATCH_QUEUES = 64
NAMED_MAX = 20  # queues that the error names; the log has a line for each

Job = Callable[[], None]


def run_in_turn(jobs: Sequence[Job]) -> list[OSError | None]:
    """Run each job; the error of each."""
    return [_error_of(job) for job in jobs]


def _error_of(job: Job) -> OSError | None:
    try:
        job()
    except OSError as exc:
        return exc
    return None


@dataclass(frozen=True, slots=True)
class Closing:
    """How a stop closes disk queues.

    patience_ns: how long a disk that refuses is tried again while nothing advances; 0 for one try. run_all: runs jobs,
    at the same time if it can, and returns the error of each.
    """

    patience_ns: int = 0
    run_all: Callable[[Sequence[Job]], list[OSError | None]] = run_in_turn


AT_ONCE = Closing()


@dataclass(slots=True)
class _Open:
    """A queue that is not closed yet."""

    queue: OverflowQueue
    disk: DiskQueue
    error: StorageError | None = None

    @property
    def messages(self) -> int:
        return self.queue.memory_count


def close_queues(
    queues: Sequence[OverflowQueue], directory: str, files: Files, clock: Clock, how: Closing
) -> Generator[StopProgress, None, None]:
    """Write, sync and close queues. Yields the progress after every batch; after a step with a `reason` the caller
    pauses. Raises StorageError at the end, naming each queue whose messages could not be written, and their number."""
    left = [_Open(queue, queue.disk) for queue in queues if queue.disk is not None]
    batch_queues = max(2, min(BATCH_QUEUES, files.budget.holder_max))
    advanced_ns = clock.monotonic_ns()
    least = _messages_of(left)
    while left:
        failed: list[_Open] = []
        for start in range(0, len(left), batch_queues):
            batch = left[start : start + batch_queues]
            failed += _close_batch(batch, directory, files, how)
            waiting = left[start + batch_queues :]
            yield StopProgress(len(waiting) + len(failed), _messages_of(waiting) + _messages_of(failed))
        now_ns = clock.monotonic_ns()
        messages = _messages_of(failed)
        if len(failed) < len(left) or messages < least:
            advanced_ns, least = now_ns, messages
        left = failed
        is_hopeless = all(one.disk.is_failed for one in left)
        if is_hopeless or now_ns - advanced_ns >= how.patience_ns:
            break
        reason = next(str(one.error) for one in left if not one.disk.is_failed)
        yield StopProgress(len(left), messages, reason)
    if left:
        raise StorageError("; ".join(_given_up(left)))


def _messages_of(queues: Sequence[_Open]) -> int:
    return sum(one.messages for one in queues)


def _close_batch(batch: Sequence[_Open], directory: str, files: Files, how: Closing) -> list[_Open]:
    """Write, sync and close; returns those that could not be. The order is each queue's own: data, meta file,
    directory, and only then do old files go."""
    jobs: list[tuple[_Open, SyncJob]] = []
    for one in batch:
        one.error = None
        try:
            one.queue.write_memory()
        except StorageError as exc:
            one.error = exc
        except Exception as exc:
            # The other queues must be written nevertheless.
            logger.exception("not written queue=%s", one.disk.name)
            one.error = StorageError(f"writing {one.disk.name} failed unexpectedly: {describe(exc)}")
        job = one.disk.begin_sync()
        if job is not None:
            jobs.append((one, job))
    errors = how.run_all([_writer(job) for _, job in jobs])
    directory_error = _error_of(lambda: files.sync_directory(directory)) if jobs else None
    for (one, job), error in zip(jobs, errors, strict=True):
        one.disk.sync_ended(job, error or directory_error or _error_of(job.remove))
    failed: list[_Open] = []
    for one in batch:
        one.error = one.error or one.disk.sync_error
        if one.error is None:
            one.disk.close()
        else:
            failed.append(one)
    return failed


def _writer(job: SyncJob) -> Job:
    def write() -> None:
        job.write()

    return write


def _given_up(queues: Sequence[_Open]) -> list[str]:
    """Close queues that could not be written; a sentence for each of the first, and one for the others."""
    sentences: list[str] = []
    for one in queues:
        refused = one.messages
        try:
            one.disk.close()
        except StorageError as exc:
            one.error = one.error or exc
        name = one.disk.name
        if refused:
            sentence = f"{refused} messages of {name} could not be stored: {one.error}"
        elif one.disk.is_failed:
            sentence = f"{one.disk.depth} messages of {name} may not be on the disk: {one.error}"
        else:
            sentence = f"the end of {name} may not be on the disk: {one.error}"
        logger.error("%s", sentence)
        sentences.append(sentence)
    if len(sentences) > NAMED_MAX:
        messages = _messages_of(queues)
        sentences[NAMED_MAX:] = [
            f"and {len(sentences) - NAMED_MAX} queues more, each named in the log; {messages} messages in all"
        ]
    return sentences
