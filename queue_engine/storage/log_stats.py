"""The stats of the log that all topics of kind `log` share."""

from dataclasses import dataclass

from queue_engine.storage.recovery_report import RecoveryReport
from queue_engine.vocabulary.latency.histogram import NO_SYNCS, HistogramCounts


@dataclass(frozen=True, slots=True)
class LeaseStats:
    """A lease keeps the messages of `topic` from `offset` on, until `expires_ms` (Unix)."""

    name: str
    topic: str
    offset: int
    expires_ms: int


@dataclass(frozen=True, slots=True)
class LogStats:
    """sync: the policy. bytes: of records in the segments. hole_bytes: freed inside them. end, synced_end: positions.
    oldest_unsynced_ms: how long the oldest unsynced byte has waited, 0 when all are synced. damaged_count: messages
    passed over because their bodies are lost. Counts are since the start; syncs under `interval` are counted by their
    cause. inline_sync_count: those made on the engine's thread. sync_times: how long each sync took, of one file or of
    those that a group filled. is_progress_out_of_room: whether the disk is too full for the progress of channels, so
    that finished messages come again after a kill. progress_fault_count: errors of the disk that the progress journal
    met; progress_fault, progress_fault_ms: the newest and its time, Unix ms, "" and 0 for none. key_index_missing:
    messages that are not in the key index yet; key_index_error: why it can't be written now, "" when it can."""

    sync: str
    segment_count: int
    bytes: int
    hole_bytes: int
    end: int
    synced_end: int
    oldest_unsynced_ms: int
    is_full: bool
    error: str
    damaged_count: int
    group_count: int
    written_bytes: int
    sync_count: int
    synced_bytes: int
    syncs_by_bytes: int
    syncs_by_time: int
    syncs_by_roll: int
    inline_sync_count: int
    failed_group_count: int
    recovery: RecoveryReport | None
    sync_times: HistogramCounts = NO_SYNCS
    is_progress_out_of_room: bool = False
    progress_fault_count: int = 0
    progress_fault: str = ""
    progress_fault_ms: int = 0
    key_index_missing: int = 0
    key_index_error: str = ""
    leases: tuple[LeaseStats, ...] = ()
