"""For each alert rule: figures at which it fires, what it says then, and figures at which it does not."""

from typing import NamedTuple

INSTANCE = "queue:4151"
_OF = f'instance="{INSTANCE}",job="penstock"'


class AlertCase(NamedTuple):
    """fires, quiet: series, without the target's labels, and its values a minute apart, as promtool writes them.
    minutes: when to look. labels: of the alert, beside severity and the target's. summary: what it says."""

    alert: str
    minutes: int
    fires: dict[str, str]
    quiet: dict[str, str]
    severity: str
    labels: dict[str, str]
    summary: str
    has_job: bool = True


def series(name: str) -> str:
    """A series with the labels that Prometheus gives it."""
    metric, _, labels = name.rstrip("}").partition("{")
    return f"{metric}{{{labels + ',' if labels else ''}{_OF}}}"


_CHANNEL = 'topic="orders",channel="billing"'
_OF_CHANNEL = {"topic": "orders", "channel": "billing"}
_BUCKET = 'penstock_log_sync_seconds_bucket{le="'


def _waiting(depth: str, consumers: str, paused: str, oldest: str = "0x60") -> dict[str, str]:
    return {
        f"penstock_channel_depth{{{_CHANNEL}}}": depth,
        f"penstock_channel_consumers{{{_CHANNEL}}}": consumers,
        f"penstock_channel_paused{{{_CHANNEL}}}": paused,
        f"penstock_channel_oldest_seconds{{{_CHANNEL}}}": oldest,
    }


def _flag(name: str) -> tuple[dict[str, str], dict[str, str]]:
    return {name: "1x60"}, {name: "0x60"}


CASES = (
    AlertCase(
        "PenstockUnreachable",
        3,
        {"up": "0x60"},
        {"up": "0 0 1x60"},
        "critical",
        {},
        "queue:4151: the server does not answer",
    ),
    *(
        AlertCase(
            alert,
            2,
            {'penstock_tls_certificate_expiry_seconds{listener="https"}': f"{(days - 1) * 86_400}x60"},
            {'penstock_tls_certificate_expiry_seconds{listener="https"}': f"{(days + 1) * 86_400}x60"},
            severity,
            {"listener": "https"},
            f"queue:4151: the certificate of https expires within {words}",
        )
        for alert, days, severity, words in (
            ("PenstockCertificateExpiresSoon", 14, "warning", "two weeks"),
            ("PenstockCertificateExpires", 2, "critical", "two days, or has expired"),
        )
    ),
    AlertCase(
        "PenstockRestartsOften",
        20,
        {"process_start_time_seconds": "1 1 1 2 2 3 3 4x30"},
        {"process_start_time_seconds": "1 1 1 2 2 2 2 3x30"},
        "critical",
        {},
        "queue:4151: the server was started 3 times in half an hour",
    ),
    AlertCase(
        "PenstockUnhealthy",
        2,
        {"penstock_up": "0x60"},
        {"penstock_up": "1 0 1x60"},
        "critical",
        {},
        "queue:4151: /ping is not OK",
    ),
    AlertCase(
        "PenstockDiskFull",
        1,
        *_flag("penstock_log_full"),
        "critical",
        {},
        "queue:4151: the disk is full and publishes are refused",
    ),
    AlertCase(
        "PenstockFinishedMayComeAgain",
        1,
        *_flag("penstock_progress_out_of_room"),
        "critical",
        {},
        "queue:4151: the disk is full, and messages that are finished now come again after a kill",
    ),
    AlertCase(
        "PenstockDiskFillsUp",
        60,
        {"penstock_disk_free_bytes": "20000-100x90", "penstock_disk_size_bytes": "100000x90"},
        {"penstock_disk_free_bytes": "20000-10x90", "penstock_disk_size_bytes": "100000x90"},
        "warning",
        {},
        "queue:4151: the disk is full within six hours if it fills up as in the last hour",
    ),
    AlertCase(
        "PenstockDiskFillsUp",
        60,
        {"penstock_disk_free_bytes": "29000-100x90", "penstock_disk_size_bytes": "100000x90"},
        # A large disk with much room: a burst is no reason.
        {"penstock_disk_free_bytes": "40000-150x90", "penstock_disk_size_bytes": "100000x90"},
        "warning",
        {},
        "queue:4151: the disk is full within six hours if it fills up as in the last hour",
    ),
    AlertCase(
        "PenstockLogFailed",
        1,
        *_flag("penstock_log_failed"),
        "critical",
        {},
        "queue:4151: the log accepts nothing more until the next start",
    ),
    AlertCase(
        "PenstockMessagesLost",
        10,
        {"penstock_log_damaged_messages_total": "0 0 0 3x60", "penstock_recovery_lost_messages": "0x60"},
        {"penstock_log_damaged_messages_total": "3x60", "penstock_recovery_lost_messages": "0x60"},
        "critical",
        {},
        "queue:4151: messages are lost because of damage on the disk",
    ),
    AlertCase(
        "PenstockMessagesLost",
        1,
        *_flag("penstock_recovery_lost_messages"),
        "critical",
        {},
        "queue:4151: messages are lost because of damage on the disk",
    ),
    AlertCase(
        "PenstockPublishesRefused",
        20,
        {'penstock_publishes_refused_total{reason="disk_full"}': "0+5x60"},
        {
            'penstock_publishes_refused_total{reason="disk_full"}': "0 5x60",
            'penstock_publishes_refused_total{reason="invalid"}': "0+5x60",
            'penstock_publishes_refused_total{reason="forbidden"}': "0+5x60",
            'penstock_publishes_refused_total{reason="quota"}': "0+5x60",
        },
        "critical",
        {"reason": "disk_full"},
        "queue:4151: publishes are refused: disk_full",
        has_job=False,
    ),
    AlertCase(
        "PenstockPublishesRefused",
        20,
        {'penstock_publishes_refused_total{reason="host"}': "0+1x60"},
        {'penstock_publishes_refused_total{reason="host"}': "0 7x60"},
        "critical",
        {"reason": "host"},
        "queue:4151: publishes are refused: host",
        has_job=False,
    ),
    AlertCase(
        "PenstockRequestsRefused",
        30,
        {'penstock_requests_refused_total{reason="host"}': "0+1x60"},
        {
            'penstock_requests_refused_total{reason="host"}': "0 7x60",
            'penstock_publishes_refused_total{reason="host"}': "0+1x60",
        },
        "warning",
        {"reason": "host"},
        "queue:4151: requests are refused for their host",
        has_job=False,
    ),
    AlertCase(
        "PenstockPublishQuotaUsedUp",
        30,
        {'penstock_publishes_refused_total{reason="quota"}': "0+5x60"},
        {
            'penstock_publishes_refused_total{reason="quota"}': "0 5x60",
            'penstock_publishes_refused_total{reason="limit"}': "0+5x60",
        },
        "warning",
        {},
        "queue:4151: a client publishes more than its quota",
        has_job=False,
    ),
    AlertCase(
        "PenstockConnectionsRefused",
        20,
        {'penstock_connections_refused_total{listener="tcp",reason="too_many"}': "0+1x60"},
        {'penstock_connections_refused_total{listener="tcp",reason="too_many"}': "0 7x60"},
        "warning",
        {"listener": "tcp", "reason": "too_many"},
        "queue:4151: connections of tcp are refused: too_many",
        has_job=False,
    ),
    AlertCase(
        "PenstockBodiesWait",
        20,
        {"penstock_pending_body_wait_seconds": "3x60", "penstock_slow_bodies_ended_total": "0x60"},
        {"penstock_pending_body_wait_seconds": "1.5x60", "penstock_slow_bodies_ended_total": "0 7x60"},
        "warning",
        {},
        "queue:4151: bodies wait for room, or are ended because they come too slowly",
    ),
    AlertCase(
        "PenstockBodiesWait",
        20,
        {"penstock_pending_body_wait_seconds": "0x60", "penstock_slow_bodies_ended_total": "0+1x60"},
        {"penstock_pending_body_wait_seconds": "0 9 0x60", "penstock_slow_bodies_ended_total": "3x60"},
        "warning",
        {},
        "queue:4151: bodies wait for room, or are ended because they come too slowly",
    ),
    AlertCase(
        "PenstockTopicFenced",
        1,
        *_flag('penstock_topic_fenced{topic="orders"}'),
        "critical",
        {"topic": "orders"},
        "queue:4151: a fault has stopped the topic orders",
    ),
    AlertCase(
        "PenstockChannelFenced",
        1,
        *_flag(f"penstock_channel_fenced{{{_CHANNEL}}}"),
        "critical",
        _OF_CHANNEL,
        "queue:4151: a fault has stopped the channel orders/billing",
    ),
    AlertCase(
        "PenstockUnreadable",
        6,
        *_flag(f"penstock_channel_unreadable{{{_CHANNEL}}}"),
        "critical",
        _OF_CHANNEL,
        "queue:4151: the disk refuses something of the topic orders",
    ),
    AlertCase(
        "PenstockUnreadable",
        6,
        *_flag('penstock_topic_unreadable{topic="orders"}'),
        "critical",
        {"topic": "orders"},
        "queue:4151: the disk refuses something of the topic orders",
    ),
    AlertCase(
        "PenstockNoConsumers",
        20,
        _waiting("7x60", "0x60", "0x60"),
        _waiting("7x60", "1x60", "0x60"),
        "warning",
        _OF_CHANNEL,
        "queue:4151: orders/billing has no consumer, and 7 messages wait",
    ),
    AlertCase(
        "PenstockNoConsumers",
        20,
        _waiting("7+1x60", "0x60", "0x60"),
        _waiting("7x60", "0x60", "1x60"),
        "warning",
        _OF_CHANNEL,
        "queue:4151: orders/billing has no consumer, and 27 messages wait",
    ),
    AlertCase(
        "PenstockMessagesOld",
        10,
        _waiting("7x60", "2x60", "0x60", "3600x60"),
        _waiting("7x60", "2x60", "0x60", "850x60"),
        "warning",
        _OF_CHANNEL,
        "queue:4151: orders/billing has a message that is 1h 0m 0s old",
    ),
    AlertCase(
        "PenstockPauseOverdue",
        5,
        {f"penstock_channel_pause_overdue_seconds{{{_CHANNEL}}}": "0 0 60+60x60"},
        {f"penstock_channel_pause_overdue_seconds{{{_CHANNEL}}}": "0x60"},
        "warning",
        _OF_CHANNEL,
        "queue:4151: a pause of orders/billing has outlived its time by 4m 0s",
    ),
    AlertCase(
        "PenstockPauseOverdue",
        5,
        {'penstock_topic_pause_overdue_seconds{topic="orders"}': "0 0 60+60x60"},
        {'penstock_topic_pause_overdue_seconds{topic="orders"}': "0x60"},
        "warning",
        {"topic": "orders"},
        "queue:4151: a pause of orders has outlived its time by 4m 0s",
    ),
    AlertCase(
        "PenstockQuarantined",
        10,
        {f"penstock_channel_quarantined{{{_CHANNEL}}}": "0 0 3x60"},
        {f"penstock_channel_quarantined{{{_CHANNEL}}}": "3x60"},
        "warning",
        _OF_CHANNEL,
        "queue:4151: orders/billing has quarantined more messages in the last 15 minutes",
    ),
    AlertCase(
        "PenstockQuarantineFull",
        5,
        {f"penstock_quarantine_full{{{_CHANNEL}}}": "0 0 1x60"},
        {f"penstock_quarantine_full{{{_CHANNEL}}}": "0x60"},
        "warning",
        _OF_CHANNEL,
        "queue:4151: the quarantine of orders/billing is full, and failing messages wait again",
    ),
    AlertCase(
        "PenstockTimeouts",
        30,
        {
            f"penstock_channel_timeouts_total{{{_CHANNEL}}}": "0+20x60",
            f"penstock_channel_finished_total{{{_CHANNEL}}}": "0+100x60",
        },
        {
            f"penstock_channel_timeouts_total{{{_CHANNEL}}}": "0+5x60",
            f"penstock_channel_finished_total{{{_CHANNEL}}}": "0+100x60",
        },
        "warning",
        _OF_CHANNEL,
        "queue:4151: one message in ten of orders/billing times out",
    ),
    AlertCase(
        "PenstockSlowSyncs",
        30,
        {f'{_BUCKET}0.25"}}': "0+5x60", f'{_BUCKET}0.5"}}': "0+100x60", f'{_BUCKET}+Inf"}}': "0+100x60"},
        {f'{_BUCKET}0.25"}}': "0+95x60", f'{_BUCKET}0.5"}}': "0+100x60", f'{_BUCKET}+Inf"}}': "0+100x60"},
        "warning",
        {},
        "queue:4151: one sync of the log in ten takes longer than 473.7ms",
        has_job=False,
    ),
    AlertCase(
        "PenstockEngineBusy",
        40,
        {"penstock_engine_cpu_seconds_total": "0+57x60"},
        {"penstock_engine_cpu_seconds_total": "0+50x60"},
        "warning",
        {},
        "queue:4151: the engine's thread needs 95% of a processor",
    ),
    AlertCase(
        "PenstockDescriptorsShort",
        20,
        {"process_open_fds": "900x60", "process_max_fds": "1000x60"},
        {"process_open_fds": "700x60", "process_max_fds": "1000x60"},
        "warning",
        {},
        "queue:4151: 90% of the descriptors are in use",
    ),
    AlertCase(
        "PenstockLogInGuessing",
        20,
        {
            'penstock_failed_log_ins_total{reason="password"}': "0+3x60",
            'penstock_failed_log_ins_total{reason="throttled"}': "0+2x60",
        },
        {
            'penstock_failed_log_ins_total{reason="password"}': "0+1x60",
            'penstock_failed_log_ins_total{reason="busy"}': "0+9x60",
        },
        "warning",
        {},
        "queue:4151: 50 log-ins to the console failed within ten minutes",
        has_job=False,
    ),
    AlertCase(
        "PenstockConsoleNotices",
        15,
        *_flag("penstock_console_notices"),
        "warning",
        {},
        "queue:4151: the console reports trouble with its own files",
    ),
    AlertCase(
        "PenstockPipelineWorkerDown",
        20,
        *_flag('penstock_pipeline_worker{state="blocked"}'),
        "warning",
        {"state": "blocked"},
        "queue:4151: the pipeline's worker can't run: blocked",
    ),
    AlertCase(
        "PenstockPipelineWorkerDown",
        20,
        {'penstock_pipeline_worker{state="waiting"}': "1x60"},
        {'penstock_pipeline_worker{state="running"}': "1x60", 'penstock_pipeline_worker{state="waiting"}': "1 1 0x60"},
        "warning",
        {"state": "waiting"},
        "queue:4151: the pipeline's worker can't run: waiting",
    ),
    AlertCase(
        "PenstockPipelineJobFails",
        20,
        *_flag('penstock_pipeline_job_in_trouble{name="archive"}'),
        "warning",
        {"name": "archive"},
        "queue:4151: the job archive of the pipeline fails",
    ),
    AlertCase(
        "PenstockCursorNearLimit",
        10,
        *_flag('penstock_cursor_warned{topic="orders",cursor="archive"}'),
        "warning",
        {"topic": "orders", "cursor": "archive"},
        "queue:4151: the cursor archive on orders soon gives up messages",
    ),
    AlertCase(
        "PenstockLookupdLost",
        8,
        {'penstock_lookupd_connected{address="lookup:4160"}': "0x60"},
        {'penstock_lookupd_connected{address="lookup:4160"}': "0 0 0 1x60"},
        "warning",
        {"address": "lookup:4160"},
        "queue:4151: it is not registered with the nsqlookupd lookup:4160",
    ),
    AlertCase(
        "PenstockSeriesLeftOut",
        20,
        {"penstock_metrics_series_left_out": "120x60"},
        {"penstock_metrics_series_left_out": "0x60"},
        "warning",
        {},
        "queue:4151: /metrics leaves out 120 series of topics and channels",
    ),
)
