"""The console's part of probes and metrics, which the engine reads from one object."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Protocol

from admin_console.accounts.failed_log_ins import FAILED_LOG_INS
from admin_console.audit.upkeep import list_size
from admin_console.gateway.pipeline import JOB_SENTENCES, STATES, WORKER_STATES, Pipeline, PipelineView
from admin_console.views.notices import notices
from queue_engine.service.monitoring.console_figures import AuditListFigures, ConsoleFigures, JobFigures

OFF = "off"  # no worker is ever started: --no-pipeline


class RefusingServer(Protocol):
    """The console's server, as far as the figures go: `console_server.py` needs Twisted's reactor."""

    @property
    def refused_connections(self) -> Mapping[str, int]: ...

    @property
    def certificate_expires_s(self) -> float | None: ...

    def read_certificate_again(self) -> None: ...


class ConsoleReport:
    """Implements the engine's `Console`. pipeline, server: set by `serve` once there are any."""

    def __init__(self) -> None:
        self.pipeline: Pipeline | None = None
        self.server: RefusingServer | None = None

    def notices(self) -> list[str]:
        failing = () if self.pipeline is None else self.pipeline.failing()
        return [
            *(f"console: {notice.title} {notice.text}" for notice in notices()),
            *(f"pipeline: {sentence}" for sentence in failing),
        ]

    def figures(self) -> ConsoleFigures:
        refused = {} if self.server is None else self.server.refused_connections
        size = list_size()
        audit_list = None if size is None else AuditListFigures(size.bytes, size.bytes_max)
        figures = ConsoleFigures(
            FAILED_LOG_INS.counts(),
            refused,
            len(notices()),
            audit_list,
            certificate_expires_s=None if self.server is None else self.server.certificate_expires_s,
        )
        if self.pipeline is None:
            return figures
        view = self.pipeline.view()
        return replace(
            figures,
            worker=OFF if view.process is None else view.process.word,
            worker_states=(*WORKER_STATES, OFF),
            worker_restart_count=0 if view.process is None else view.process.restart_count,
            jobs={name: _job(name, view) for name in JOB_SENTENCES if name in view.jobs},
            job_states=STATES,
            replays={
                **dict.fromkeys(STATES, 0),
                **Counter(_state(name, view) for name in view.jobs if name not in JOB_SENTENCES),
            },
        )


def _job(name: str, view: PipelineView) -> JobFigures:
    job = view.jobs[name]
    # Of a job that failed the last lag is of before that.
    return JobFigures(_state(name, view), job.is_in_trouble, None if job.is_in_trouble else job.lag)


def _state(name: str, view: PipelineView) -> str:
    """A job's state. Where no worker runs, none of its jobs does, even if its file has another state."""
    state = view.jobs[name].state
    return "waiting" if state == "running" and view.holder is None else state
