"""The samples of the engine's surroundings: the process, the disk, the console and its pipeline."""

import platform
from collections.abc import Mapping, Sequence

from queue_engine.delivery.stats import LookupdStats
from queue_engine.service.admission.refused_connections import Reason
from queue_engine.service.monitoring.console_figures import ConsoleFigures
from queue_engine.service.monitoring.exposition import Exposition, labels
from queue_engine.service.monitoring.process_figures import DiskRoom, ProcessFigures
from queue_engine.vocabulary.version import full_version

# Each from the start on, so that a first refusal is an increase.
_REFUSING = (
    *(
        (who, reason.value)
        for who in ("tcp", "http", "console")
        for reason in (Reason.TOO_MANY, Reason.TOO_MANY_OF_ONE)
    ),
    ("tcp", Reason.BODIES_CROWDED.value),
)


def add_process(to: Exposition, process: ProcessFigures, engine_cpu_s: float) -> None:
    """engine_cpu_s: of the engine's thread alone."""
    to.add("penstock_build_info", [(labels(version=full_version(), python=platform.python_version()), 1)])
    to.add_one("penstock_engine_cpu_seconds_total", engine_cpu_s)
    to.add_one("process_cpu_seconds_total", process.cpu_s)
    to.add_one("process_resident_memory_bytes", process.resident_bytes)
    to.add_one("process_virtual_memory_bytes", process.virtual_bytes)
    to.add_one("process_open_fds", process.open_descriptors)
    to.add_one("process_max_fds", process.descriptors_max)
    to.add_one("process_start_time_seconds", process.start_s)


def add_disk_room(to: Exposition, room: DiskRoom | None) -> None:
    """Add the room on the disk; None: unknown."""
    to.add("penstock_disk_free_bytes", [] if room is None else [("", room.free_bytes)])
    to.add("penstock_disk_size_bytes", [] if room is None else [("", room.size_bytes)])


def add_refused_connections(to: Exposition, engine: Mapping[tuple[str, str], int], console: Mapping[str, int]) -> None:
    """engine: by listener and reason. console: by reason."""
    counts = {
        **dict.fromkeys(_REFUSING, 0),
        **engine,
        **{("console", reason): count for reason, count in console.items()},
    }
    to.add(
        "penstock_connections_refused_total",
        [(labels(listener=who, reason=reason), count) for (who, reason), count in sorted(counts.items())],
    )


def add_certificates(to: Exposition, engine: Mapping[str, float], console: float | None) -> None:
    """When each listener's certificate expires, Unix seconds. engine: by listener. console: None without TLS."""
    expiries = {**engine, **({} if console is None else {"console": console})}
    to.add("penstock_tls_certificate_expiry_seconds", [(labels(listener=who), at_s) for who, at_s in expiries.items()])


def add_lookupds(to: Exposition, lookupds: Sequence[LookupdStats]) -> None:
    to.add("penstock_lookupd_connected", [(labels(address=one.address), one.is_connected) for one in lookupds])


def add_console(to: Exposition, console: ConsoleFigures) -> None:
    log_ins = sorted(console.failed_log_ins.items())
    to.add("penstock_failed_log_ins_total", [(labels(reason=reason), count) for reason, count in log_ins])
    size = console.audit_list
    to.add("penstock_audit_list_bytes", [] if size is None else [("", size.bytes)])
    to.add("penstock_audit_list_limit_bytes", [] if size is None else [("", size.bytes_max)])
    to.add_one("penstock_console_notices", console.notice_count)
    to.add(
        "penstock_pipeline_worker",
        [(labels(state=state), state == console.worker) for state in console.worker_states],
    )
    to.add_one("penstock_pipeline_worker_restarts_total", console.worker_restart_count)
    jobs = sorted(console.jobs.items())
    to.add(
        "penstock_pipeline_job",
        [(labels(name=name, state=state), state == job.state) for name, job in jobs for state in console.job_states],
    )
    to.add("penstock_pipeline_job_in_trouble", [(labels(name=name), job.is_in_trouble) for name, job in jobs])
    to.add("penstock_pipeline_job_lag", [(labels(name=name), job.lag) for name, job in jobs if job.lag is not None])
    to.add(
        "penstock_pipeline_replays", [(labels(state=state), count) for state, count in sorted(console.replays.items())]
    )
