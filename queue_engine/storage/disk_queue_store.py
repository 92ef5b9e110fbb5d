"""Storage kind `diskqueue`: NSQ's own. A copy of every message per channel, in memory up to a count, on disk
beyond it, in files that nsqd reads and writes too.

The promise is nsqd's: OK means taken over, in memory or written to a file that is synced later. A clean stop
puts everything on disk; kill -9 loses what was in memory, in flight or deferred.
"""

from collections import deque
from collections.abc import Callable, Sequence

from queue_engine.clock import Clock
from queue_engine.errors import StorageError
from queue_engine.message import STORED_HEADER_BYTES, STORED_MESSAGE_START
from queue_engine.message_id import MessageIds
from queue_engine.names import is_ephemeral
from queue_engine.options import Options
from queue_engine.run import Batch, Run, join_runs
from queue_engine.storage.background import Background
from queue_engine.storage.deferred import DeferredMessages
from queue_engine.storage.disk_queue import DiskQueue
from queue_engine.storage.files import Files
from queue_engine.storage.overflow_queue import OverflowQueue
from queue_engine.storage.store import NO_POSITIONS, EmptyResult, StorePositions
from queue_engine.ticket import DONE, Ticket, failed

KIND = "diskqueue"
# Bodies of at least this size are expected on disk, whatever may be published now: nsqd does not tell what its
# --max-msg-size was when it wrote them.
LARGEST_MSG_SIZE_MIN = 16 << 20
PUMP_BYTES_MAX = 1 << 20
# Syncs given to the worker at once. Each holds a descriptor, and whoever else needs the worker waits behind them.
SYNCS_OUTSTANDING_MAX = 16
# Released deferred messages are joined to runs of about this size, so that each does not cost a step of its own.
RELEASED_RUN_BYTES = 64 << 10


class DiskQueueFolder:
    """All disk queues of one data directory: makes them, and syncs in time those that were used.

    Implements `Background` for them."""

    def __init__(self, directory: str, options: Options, files: Files, background: Background, clock: Clock) -> None:
        self._directory = directory
        self._options = options
        self._files = files
        self._background = background
        self._clock = clock
        self._node_id = options.effective_node_id
        self._largest_msg_size = max(options.max_msg_size, LARGEST_MSG_SIZE_MIN)
        self._used: dict[DiskQueue, None] = {}  # those that waited longest first
        self._due: deque[DiskQueue] = deque()
        self._outstanding = 0  # jobs of ours that the worker has not done yet
        self._is_starting = False
        self._failing: set[DiskQueue] = set()  # whose last sync failed

    @property
    def sync_error(self) -> StorageError | None:
        """Why some queue is not on disk as it should be by now; None when all are."""
        return next((queue.sync_error for queue in self._failing), None)

    def set_largest_msg_size(self, largest_msg_size: int) -> None:
        """Tell the bytes of the largest body that may be on disk: a longer record is taken for damage."""
        self._largest_msg_size = max(largest_msg_size, LARGEST_MSG_SIZE_MIN)

    def batch_maker(self) -> Callable[[Sequence[bytes]], Batch]:
        """What makes one topic's batches."""
        ids, clock = MessageIds(self._clock, self._node_id), self._clock
        return lambda bodies: Batch(clock.time_ns(), ids.take(len(bodies)), bodies)

    def open(self, name: str) -> OverflowQueue:
        """The queue called `name` (a topic, or topic:channel), with what it has on disk."""
        options = self._options
        disk = None
        if not is_ephemeral(name):
            disk = DiskQueue(
                name,
                self._directory,
                files=self._files,
                background=self,
                clock=self._clock,
                max_bytes_per_file=options.max_bytes_per_file,
                message_bytes_min=STORED_HEADER_BYTES,
                message_bytes_max=STORED_HEADER_BYTES + self._largest_msg_size,
                sync_every=options.sync_every,
                sync_timeout_ms=options.sync_timeout_ms,
                pattern=STORED_MESSAGE_START,
            )
            if disk.is_dirty:
                self._note_used(disk)  # what was recovered, or is to be removed, is not on the disk yet
        return OverflowQueue(options.mem_queue_size, disk, self._note_used)

    def submit(self, job: Callable[[], None], done: Callable[[Exception | None], None]) -> None:
        """The `Background` of our queues: the worker, with its jobs counted."""

        def ended(error: Exception | None) -> None:
            self._outstanding -= 1
            done(error)
            self._start_due()

        self._outstanding += 1
        self._background.submit(job, ended)

    def _note_used(self, queue: DiskQueue) -> None:
        self._used[queue] = None

    def sync_used(self, now_ns: int) -> None:
        """Sync every queue whose count or time has come: a few at once, the others as those are done."""
        self._due.clear()
        for queue in list(self._used):
            if queue.sync_error is not None:
                self._failing.add(queue)
            if queue.sync_due(now_ns):
                self._due.append(queue)
            elif not queue.is_dirty:
                del self._used[queue]
        if self._failing:
            self._failing = {queue for queue in self._failing if queue.sync_error is not None}
        self._start_due()

    def _start_due(self) -> None:
        if self._is_starting:
            return  # a job that was done at once; the loop below goes on
        self._is_starting = True
        try:
            while self._due and self._outstanding < SYNCS_OUTSTANDING_MAX:
                queue = self._due.popleft()
                if queue in self._used:
                    del self._used[queue]
                    self._used[queue] = None  # behind those that still wait
                queue.start_sync()
        finally:
            self._is_starting = False


class DiskQueueBacklog:
    """One channel's copies. Implements `Backlog`."""

    def __init__(self, queue: OverflowQueue, memory_count_max: int) -> None:
        self._queue = queue
        self._memory_count_max = memory_count_max
        # Given back: the unsent at the very front, the redeliveries in a line of their own.
        self._unsent: deque[Run] = deque()
        self._returned: deque[Run] = deque()
        self._side_count = 0  # messages in the two above
        self._take_returned_next = True
        self._deferred = DeferredMessages()
        self.message_count = 0
        self.write_failed = False

    @property
    def depth(self) -> int:
        return self._queue.depth + self._side_count

    @property
    def backend_depth(self) -> int:
        return self._queue.backend_depth

    @property
    def deferred_count(self) -> int:
        return len(self._deferred)

    def needs_disk_for(self, count: int) -> bool:
        """Whether `count` more messages would be written to disk at once."""
        return not self._queue.has_room_in_memory(count)

    def accept(self, messages: Batch | Run, due_ns: int | None = None) -> None:
        """Take the topic's messages. Raises StorageError, with nothing taken, when the disk refuses."""
        if due_ns is not None:
            self._deferred.put(messages if isinstance(messages, Run) else messages.run(), due_ns)
        else:
            self._queue.put(messages)
            self.write_failed = False
        self.message_count += len(messages.ids)

    def accept_in_memory(self, messages: Batch | Run) -> None:
        """Take the topic's messages over the memory limit, because the disk just refused them. Never fails."""
        self._queue.put_in_memory(messages)
        self.write_failed = True
        self.message_count += len(messages)

    def take(self, count_max: int, bytes_max: int) -> Run | None:
        if self._side_count:
            if self._unsent:
                return self._take_from(self._unsent, count_max, bytes_max)
            # Turn about, so that neither redeliveries nor new messages starve.
            is_returned_next = self._take_returned_next
            self._take_returned_next = not is_returned_next
            if self._returned and (is_returned_next or self._queue.depth == 0):
                return self._take_from(self._returned, count_max, bytes_max)
        run = self._queue.take(count_max, bytes_max)
        if run is None and self._returned:
            # What was counted on disk turned out unreadable: that is no reason to send nothing.
            return self._take_from(self._returned, count_max, bytes_max)
        return run

    def _take_from(self, line: deque[Run], count_max: int, bytes_max: int) -> Run:
        """From the front of a line that is not empty."""
        taken: list[Run] = []
        count_left, bytes_left = count_max, bytes_max
        while line and count_left > 0:
            run = line[0]
            count = min(len(run), count_left, run.count_within(0, bytes_left))
            if count == 0:
                if taken:
                    break
                count = 1
            if count < len(run):
                line[0] = run.slice(count, len(run))
                run = run.slice(0, count)
            else:
                line.popleft()
            taken.append(run)
            count_left -= count
            bytes_left -= len(run.frames)
        self._side_count -= count_max - count_left
        return join_runs(taken)

    def sent(self, run: Run) -> None:
        """Nothing to note: the files know no deliveries but the attempts of what is written back."""

    def give_back(self, run: Run, ids: Sequence[bytes], *, counted: bool, due_ns: int | None = None) -> None:
        if counted:
            run = run.for_next_attempt(ids)
        elif len(ids) != len(run):
            wanted = set(ids)
            run = run.select([index for index, one in enumerate(run.ids) if one in wanted])
        if due_ns is not None:
            self._deferred.put(run, due_ns)
        elif counted:
            self._return(run)
        else:
            self._unsent.appendleft(run)
            self._side_count += len(run)

    def _return(self, run: Run) -> None:
        if self._side_count + len(run) > self._memory_count_max and self._queue.holds_on_disk:
            try:
                self._queue.put(run)
                return
            except StorageError:
                # It was taken out of the queue, so it may not be refused: it stays in memory.
                self.write_failed = True
        self._returned.append(run)
        self._side_count += len(run)

    def settle(self, ids: Sequence[bytes]) -> None:
        """Nothing to note: a message left the files when it was taken."""

    def next_due_ns(self) -> int | None:
        return self._deferred.next_due_ns()

    def release_due(self, now_ns: int, count_max: int) -> int:
        due = self._deferred.pop_due(now_ns, count_max)
        self._return_joined(due)
        return len(due)

    def release_all_deferred(self) -> int:
        drained = self._deferred.drain()
        self._return_joined([run for _, run in drained])
        return len(drained)

    def _return_joined(self, runs: list[Run]) -> None:
        group: list[Run] = []
        group_bytes = 0
        for run in runs:
            group.append(run)
            group_bytes += len(run.frames)
            if group_bytes >= RELEASED_RUN_BYTES:
                self._return(join_runs(group))
                group, group_bytes = [], 0
        if group:
            self._return(join_runs(group))

    def disk_bytes(self) -> int:
        return self._queue.disk_bytes

    def oldest_ns(self) -> int | None:
        times = [line[0].timestamp_ns_at(0) for line in (self._unsent, self._returned) if line]
        queue_oldest_ns = self._queue.oldest_ns()
        if queue_oldest_ns is not None:
            times.append(queue_oldest_ns)
        return min(times, default=None)

    def empty(self) -> EmptyResult:
        deferred = len(self._deferred)
        self._deferred.drain()
        dropped = self._side_count + self._queue.empty()
        self._unsent.clear()
        self._returned.clear()
        self._side_count = 0
        return EmptyResult(depth=dropped, deferred=deferred)

    def delete(self) -> None:
        """Drop everything, files included."""
        self.empty()
        self._queue.delete()

    def close(self) -> None:
        """Put everything on disk. A due time can't be kept there: what was deferred comes at once after a
        restart, as with nsqd. Raises StorageError when the disk refuses."""
        self.release_all_deferred()
        for run in reversed(self._returned):
            self._queue.put_front(run)
        for run in reversed(self._unsent):
            self._queue.put_front(run)
        self._unsent.clear()
        self._returned.clear()
        self._side_count = 0
        self._queue.close()


class DiskQueueStore:
    """One topic's messages. Implements `TopicStore`."""

    def __init__(self, topic_name: str, folder: DiskQueueFolder, memory_count_max: int) -> None:
        self._topic_name = topic_name
        self._folder = folder
        self._memory_count_max = memory_count_max
        self._queue = folder.open(topic_name)
        self.make_batch = folder.batch_maker()
        self._withheld = DeferredMessages()  # deferred messages that wait for a channel
        self._channels: dict[str, DiskQueueBacklog] = {}
        self._is_flowing = False

    @property
    def kind(self) -> str:
        return KIND

    @property
    def depth(self) -> int:
        return self._queue.depth + len(self._withheld)

    @property
    def backend_depth(self) -> int:
        return self._queue.backend_depth

    @property
    def deferred_count(self) -> int:
        return len(self._withheld)

    def append(self, batch: Batch, due_ns: int | None = None) -> Ticket:
        try:
            if self._is_flowing and self._channels and not self._queue.depth and not len(self._withheld):
                self._fan_out(batch, due_ns)
            elif due_ns is not None:
                self._withheld.put(batch.run(), due_ns)
            else:
                self._queue.put(batch)
        except StorageError as exc:
            return failed(exc)
        return DONE

    def _fan_out(self, messages: Batch | Run, due_ns: int | None) -> None:
        """Give messages to every channel. Raises StorageError only while no channel has them yet."""
        backlogs = list(self._channels.values())
        if len(backlogs) > 1 and due_ns is None:
            # Those that may refuse go first, the one that refused last before all.
            count = len(messages)
            backlogs.sort(key=lambda backlog: (not backlog.write_failed, not backlog.needs_disk_for(count)))
        for index, backlog in enumerate(backlogs):
            try:
                backlog.accept(messages, due_ns)
            except StorageError:
                if index == 0:
                    backlog.write_failed = True
                    raise
                # Others have it already: it can't be refused any more. This channel keeps it in memory,
                # once: the next publish asks it first.
                backlog.accept_in_memory(messages)

    def set_flowing(self, is_flowing: bool) -> None:
        self._is_flowing = is_flowing

    def pump(self, count_max: int) -> int:
        if not self._is_flowing or not self._channels:
            return 0
        moved = 0
        for due_ns, run in self._withheld.pop(count_max):
            self._fan_out(run, due_ns)
            moved += 1
        bytes_left = PUMP_BYTES_MAX
        while moved < count_max and bytes_left > 0:
            taken = self._queue.take(count_max - moved, bytes_left)
            if taken is None:
                break
            bytes_left -= len(taken.frames)
            try:
                self._fan_out(taken, None)
            except StorageError:
                self._queue.put_front(taken)
                raise
            moved += len(taken)
        return moved

    def open_channel(self, name: str, number: int = 0) -> DiskQueueBacklog:
        full_name = f"{self._topic_name}:{name}"
        if is_ephemeral(self._topic_name) and not is_ephemeral(name):
            full_name = f"{full_name}#ephemeral"  # nothing of an ephemeral topic touches the disk
        backlog = DiskQueueBacklog(self._folder.open(full_name), self._memory_count_max)
        self._channels[name] = backlog
        return backlog

    def delete_channel(self, name: str, durable: Ticket = DONE) -> None:
        # Nothing waits for the topology: whoever has this name next begins with nothing, as in nsqd.
        self._channels.pop(name).delete()

    def synced(self) -> Ticket:
        return DONE

    def positions(self) -> StorePositions:
        return NO_POSITIONS

    def disk_bytes(self) -> int:
        return self._queue.disk_bytes

    def oldest_ns(self) -> int | None:
        return self._queue.oldest_ns()

    def empty(self) -> EmptyResult:
        withheld = len(self._withheld)
        self._withheld.drain()
        return EmptyResult(depth=self._queue.empty() + withheld, deferred=0)

    def delete(self) -> None:
        for backlog in self._channels.values():
            backlog.delete()
        self._channels.clear()
        self._withheld.drain()
        self._queue.delete()

    def close(self) -> None:
        errors: list[str] = []
        for _, run in self._withheld.drain():
            self._queue.put_in_memory(run)
        for backlog in self._channels.values():
            try:
                backlog.close()
            except StorageError as exc:
                errors.append(str(exc))
        try:
            self._queue.close()
        except StorageError as exc:
            errors.append(str(exc))
        if errors:
            raise StorageError("; ".join(errors))
