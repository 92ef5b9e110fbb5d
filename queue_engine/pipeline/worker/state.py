"""The state of the worker itself; each job has a state of its own (`job/state.py`).

    pipeline/worker.json    {"pid": 4711, "host": "…", "state": "ready", "started_ms": …, "updated_ms": …, "error": ""}

state: starting (Java starts), ready, ending, ended, or resting: ended because it had no work. The worker replaces the
file every few seconds. Whether a worker runs is known by the lake's lock (`lake/lake_lock.py`), never by this file: a
killed worker leaves it as it was.
"""

from dataclasses import asdict, dataclass
from pathlib import Path

from queue_engine.pipeline.lake.status_file import BrokenStatusFileError, read_status_file, write_status_file

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
    numbers = [content.get(name) for name in ("pid", "started_ms", "updated_ms")]
    texts = [content.get(name, "") for name in ("host", "state", "error")]
    if not all(isinstance(one, int) for one in numbers) or not all(isinstance(one, str) for one in texts):
        raise BrokenStatusFileError(f"{NAME} has not the fields of a worker's state")
    pid, started_ms, updated_ms = (int(str(one)) for one in numbers)
    host, state, error = (str(one)[:500] for one in texts)
    return WorkerState(pid, host, state, started_ms, updated_ms, error)
