"""The figures of the log and of pipeline cursors, as rows of `figures.py`: /metrics, the samples' `log` and OpenAPI.

A row's name is the field of `LogStats` or `CursorStats`. To add a figure: that field, its row, and the line that counts
it. No row is a histogram, a time in seconds or a finding of the last start.
"""

from queue_engine.vocabulary.figures import COUNTED, FLAG, MEASURED, Figure

LOG = (
    Figure("bytes", MEASURED, "bytes", "Bytes in the log's segments", metric="penstock_log_bytes", sample="bytes"),
    Figure(
        "hole_bytes",
        MEASURED,
        "bytes",
        "Bytes given back to the disk from inside segments",
        metric="penstock_log_hole_bytes",
        sample="hole_bytes",
    ),
    Figure("segment_count", MEASURED, "segments", "Segments of the log", metric="penstock_log_segments"),
    Figure(
        "key_index_missing",
        MEASURED,
        "messages",
        "Messages of the log that are not in the key index yet",
        metric="penstock_key_index_missing_messages",
    ),
    Figure(
        "is_full",
        MEASURED,
        FLAG,
        "The disk is full and the log refuses publishes",
        metric="penstock_log_full",
        sample="full",
    ),
    Figure(
        "error",
        MEASURED,
        FLAG,
        "The log accepts nothing more until the next start",
        metric="penstock_log_failed",
    ),
    Figure(
        "damaged_count",
        COUNTED,
        "messages",
        "Messages passed over because their bodies are lost",
        metric="penstock_log_damaged_messages_total",
        sample="damaged",
    ),
    Figure(
        "written_bytes",
        COUNTED,
        "bytes",
        "Bytes written to the log",
        metric="penstock_log_written_bytes_total",
        sample="written_bytes",
    ),
    Figure("group_count", COUNTED, "writes", "Writes to the log", metric="penstock_log_writes_total"),
    Figure(
        "failed_group_count",
        COUNTED,
        "writes",
        "Writes to the log that the disk refused",
        metric="penstock_log_failed_writes_total",
    ),
    Figure("sync_count", COUNTED, "syncs", "Syncs of the log", metric="penstock_log_syncs_total", sample="sync_count"),
    Figure(
        "is_progress_out_of_room",
        MEASURED,
        FLAG,
        "The disk is too full for what channels did: messages finished meanwhile come again after a kill",
        metric="penstock_progress_out_of_room",
    ),
    Figure(
        "progress_fault_count",
        COUNTED,
        "errors",
        "Errors of the disk that the journal of channels' progress met",
        metric="penstock_progress_faults_total",
    ),
)

CURSOR = (
    Figure(
        "depth", MEASURED, "messages", "Messages that a pipeline cursor has not passed", metric="penstock_cursor_depth"
    ),
    Figure(
        "lag_bytes",
        MEASURED,
        "bytes",
        "Bytes of the log that stay for the cursor",
        metric="penstock_cursor_lag_bytes",
    ),
    Figure(
        "is_warned",
        MEASURED,
        FLAG,
        "The lag is near --pipeline-retention-bytes",
        metric="penstock_cursor_warned",
    ),
    Figure(
        "gap_count",
        MEASURED,
        "ranges",
        "Ranges of messages that the cursor gave up, the newest hundred",
        metric="penstock_cursor_gaps",
    ),
)
