"""The state of each job of the pipeline, for the page and `penstock pipeline status`.

    pipeline/jobs/<job>.json    {"job": "archive", "state": "running", "started_ms": …, "updated_ms": …, "done": 1200,
                                 "total": 5000, "unit": "messages", "rows_per_s": 812.5, "lag": 3800, "error": "",
                                 "next_try_ms": 0,
                                 "topics": [{"topic": "orders", "number": 3, "done": 1200, "total": 5000}, …]}

Times are Unix milliseconds. done and total count messages (or another `unit`), not offsets that no message has; total
0: no figure yet. lag: how many the job is behind its source, null: no figure. error: why the job failed, as a sentence;
it stays while the job is tried again, until it makes progress. next_try_ms: when a failed job, or the part of a waiting
or running one that failed, is tried again; 0: it is not. The worker writes the file. A job that an operator stopped
stays stopped when the worker is started again, because of this file. A missing field takes its default and an unknown
one is ignored: so fields can be added without a version, and no field may change its meaning.
"""

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from queue_engine.lake.directory.status_fields import read_fields
from queue_engine.lake.directory.status_file import (
    BrokenStatusFileError,
    names_in,
    read_status_file,
    write_status_file,
)

WAITING = "waiting"
RUNNING = "running"
STOPPED = "stopped"  # by a person, until a person starts it
FAILED = "failed"  # tried again by itself after a while
DONE = "done"
CANCELLED = "cancelled"
STATES = (WAITING, RUNNING, STOPPED, FAILED, DONE, CANCELLED)

DIRECTORY = "jobs"
REPLAY_PREFIX = "replay-"
PLAN_PREFIX = "plan-"  # the dry run of a replay
STATE_BYTES_MAX = 1 << 20
STATES_MAX = 500
_JOB_NAME = re.compile(r"[a-z](?:[A-Za-z0-9_.-]{0,94}[A-Za-z0-9])?")


@dataclass(frozen=True, slots=True)
class TopicProgress:
    """A job's progress in one topic; `number` separates topics of the same name."""

    topic: str
    number: int
    done: int
    total: int


@dataclass(frozen=True, slots=True)
class JobState:
    """One job at one moment; the fields are drawn above."""

    job: str
    state: str
    started_ms: int = 0
    updated_ms: int = 0
    done: int = 0
    total: int = 0
    unit: str = "messages"
    rows_per_s: float | None = None
    lag: int | None = None
    error: str = ""
    topics: tuple[TopicProgress, ...] = ()
    next_try_ms: int = 0

    @property
    def is_in_trouble(self) -> bool:
        """Whether the job failed, or is tried again and has made no progress yet."""
        return self.state == FAILED or (bool(self.error) and self.state in (RUNNING, WAITING))

    @property
    def is_partly_failed(self) -> bool:
        """Whether a part of its work failed and is tried again at next_try_ms, while the job goes on with the rest."""
        return self.is_in_trouble and self.state != FAILED and self.next_try_ms > 0

    @property
    def replay_id(self) -> str:
        """The id of the replay that this job runs, or ""."""
        return self.job.removeprefix(REPLAY_PREFIX) if self.job.startswith(REPLAY_PREFIX) else ""


@dataclass(frozen=True, slots=True)
class JobStates:
    """The states by job name, and a sentence for each file that can't be read."""

    by_name: Mapping[str, JobState]
    broken: tuple[str, ...] = ()


def is_job_name(text: str) -> bool:
    """Whether `text` can be a job's name, and so the name of its file."""
    return _JOB_NAME.fullmatch(text) is not None


def write_state(lake_path: Path, state: JobState) -> None:
    """Replace the job's file. Raises ValueError for a name that is not valid, OSError."""
    if not is_job_name(state.job):
        raise ValueError(f"{state.job!r} is not a job's name")
    write_status_file(_path(lake_path, state.job), asdict(state))


def read_state(lake_path: Path, job: str) -> JobState | None:
    """One job's state; None where it has none. Raises BrokenStatusFileError."""
    path = _path(lake_path, job)
    try:
        return _state_of(read_status_file(path, STATE_BYTES_MAX), job)
    except FileNotFoundError:
        return None
    except ValueError as exc:
        raise BrokenStatusFileError(f"{DIRECTORY}/{path.name}: {exc}") from exc


def read_states(lake_path: Path) -> JobStates:
    """The state of every job, and a sentence for each broken file; reads at most STATES_MAX files."""
    states: dict[str, JobState] = {}
    broken: list[str] = []
    for name in names_in(lake_path / DIRECTORY, STATES_MAX):
        job = name.removesuffix(".json")
        try:
            if not is_job_name(job):
                raise BrokenStatusFileError(f"{DIRECTORY}/{name[:120]} is not named after a job")
            state = read_state(lake_path, job)
        except BrokenStatusFileError as exc:
            broken.append(str(exc))
            continue
        if state is not None:
            states[job] = state
    return JobStates(states, tuple(broken))


def _path(lake_path: Path, job: str) -> Path:
    return lake_path / DIRECTORY / f"{job}.json"


def _state_of(content: Mapping[str, Any], job: str) -> JobState:
    """The state in a file's object. Raises ValueError for a field that no worker writes so."""
    if content.get("job") != job:
        raise ValueError(f"it names the job {str(content.get('job'))[:80]!r}")
    if content.get("state") not in STATES:
        raise ValueError(f"there is no state {str(content.get('state'))[:80]!r}")
    return read_fields(JobState, content)
