"""The state of the worker itself; each job has a state of its own (`job/state.py`).

    pipeline/worker.json    {"pid": 4711, "host": "…", "state": "ready", "started_ms": …, "updated_ms": …, "error": ""}

state: starting (Java starts), ready, ending, ended, or resting: ended because it had no work. The worker replaces the
file every few seconds. The lake's lock (`directory/lake_lock.py`) shows whether a worker runs, never this
file: a killed worker leaves it as it was.
"""

from dataclasses import asdict, dataclass
from pathlib import Path

from queue_engine.lake.directory.status_fields import read_fields
from queue_engine.lake.directory.status_file import BrokenStatusFileError, read_status_file, write_status_file

NAME = "worker.json"
STARTING = "starting"
READY = "ready"
ENDING = "ending"
ENDED = "ended"
RESTING = "resting"
_BYTES_MAX = 16 << 10


@dataclass(frozen=True, slots=True)
class WorkerState:
    """One worker at one moment; times are Unix milliseconds."""

    pid: int
    host: str
    state: str
    started_ms: int
    updated_ms: int
    error: str = ""


def write_worker_state(lake_path: Path, state: WorkerState) -> None:
    """Replace the file. Raises OSError."""
    write_status_file(lake_path / NAME, asdict(state))


def read_worker_state(lake_path: Path) -> WorkerState | None:
    """The last worker's state; None when there was no worker. Raises BrokenStatusFileError."""
    try:
        content = read_status_file(lake_path / NAME, _BYTES_MAX)
    except FileNotFoundError:
        return None
    try:
        return read_fields(WorkerState, content)
    except ValueError as exc:
        raise BrokenStatusFileError(f"{NAME}: {exc}") from exc
