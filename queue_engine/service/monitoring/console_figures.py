"""The console's figures for probes and metrics: one object, since the engine imports nothing of the console."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol


@dataclass(frozen=True, slots=True)
class JobFigures:
    """A job of the pipeline. lag: how far it is behind its source; None: unknown, as after a failure."""

    state: str
    is_in_trouble: bool
    lag: int | None


@dataclass(frozen=True, slots=True)
class AuditListFigures:
    """bytes_max: 0 for no limit."""

    bytes: int
    bytes_max: int


@dataclass(frozen=True, slots=True)
class ConsoleFigures:
    """The console and the pipeline at one moment. Counts are since the process started.

    certificate_expires_s: of the console's own TLS, Unix; None without it.
    failed_log_ins, refused_connections: by reason. audit_list: None before it was measured. worker: the state of the
    pipeline's worker, of `worker_states`.
    jobs: the services of the pipeline, by name. replays: jobs of replays, by state.
    """

    failed_log_ins: Mapping[str, int] = field(default_factory=dict)
    refused_connections: Mapping[str, int] = field(default_factory=dict)
    notice_count: int = 0
    audit_list: AuditListFigures | None = None
    worker: str = ""
    worker_states: tuple[str, ...] = ()
    worker_restart_count: int = 0
    jobs: Mapping[str, JobFigures] = field(default_factory=dict)
    job_states: tuple[str, ...] = ()
    replays: Mapping[str, int] = field(default_factory=dict)
    certificate_expires_s: float | None = None


class Console(Protocol):
    """A console beside the engine."""

    def notices(self) -> list[str]:
        """Its lines for /readyz. Called on the engine's thread: reads no file."""
        ...

    def figures(self) -> ConsoleFigures:
        """Called on a thread of the HTTP API; may read files."""
        ...


class NoConsole:
    """Where the engine runs without one."""

    def notices(self) -> list[str]:
        return []

    def figures(self) -> ConsoleFigures:
        return ConsoleFigures()
