"""The parts that all topics of one open log share."""

from collections.abc import Callable

from queue_engine.storage.commit_log.commit_log import CommitLog
from queue_engine.storage.commit_log.log_size import LogSize
from queue_engine.storage.log_store.log_files import LogFiles
from queue_engine.storage.log_store.log_settings import LogSettings
from queue_engine.storage.log_store.pending_batches import PendingBatches
from queue_engine.storage.progress.channel_progress import ChannelProgress
from queue_engine.storage.progress.histories import Quarantines
from queue_engine.storage.progress.journal import ProgressJournal
from queue_engine.vocabulary.byte_budget import ByteBudget


class SharedLog:
    """Belongs to the engine's thread.

    damaged_count: messages passed over because their bodies are lost. is_closed: everything is on the disk. on_reserve:
    called when topology.json is to be written because a topic needs more offsets.
    """

    def __init__(
        self,
        files: LogFiles,
        settings: LogSettings,
        *,
        log: CommitLog,
        journal: ProgressJournal,
        pending: PendingBatches,
        quarantines: Quarantines,
        recovered: dict[int, ChannelProgress],
        deferred_budget: ByteBudget,
        on_reserve: Callable[[], None],
    ) -> None:
        """recovered: the progress of each channel before the start, by number."""
        self.files = files
        self.settings = settings
        self.log = log
        self.journal = journal
        self.pending = pending
        self.quarantines = quarantines
        self.size = LogSize(log, files.segments, files.holes)
        self.deferred_budget = deferred_budget
        self.on_reserve = on_reserve
        self.damaged_count = 0
        self.is_closed = False
        self._recovered = dict(recovered)
        self._last_channel = max([0, *recovered])

    def take_recovered(self, number: int) -> ChannelProgress | None:
        """The progress of a channel before the start; None when it is new."""
        return self._recovered.pop(number, None)

    def put_back_recovered(self, number: int, progress: ChannelProgress) -> None:
        """The same for a channel that was in the trash; the journal has it."""
        self._recovered[number] = progress

    def take_channel_number(self) -> int:
        self._last_channel += 1
        return self._last_channel
