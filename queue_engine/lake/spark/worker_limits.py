"""The limits of the pipeline's worker on this machine: its priority, its Java's heap, its Python processes, its rest.

All are options of `serve`; `queue_engine/vocabulary/options/log_options.py` has their names, limits and defaults.
Commands by hand take the same flags and variables, except for the rest: `serve` alone ends a worker that has no work.
"""

import argparse
import os
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any

from queue_engine.vocabulary.errors import OptionsError
from queue_engine.vocabulary.options.durations import format_duration
from queue_engine.vocabulary.options.log_options import python_processes_of
from queue_engine.vocabulary.options.option import environment_name_of, flag_of
from queue_engine.vocabulary.options.options import Options
from queue_engine.vocabulary.options.parsing import parse_option

NICE = "worker_nice"
MEMORY = "worker_memory_bytes"
PYTHON_PROCESSES = "worker_python_processes"


@dataclass(frozen=True, slots=True)
class WorkerLimits:
    """nice: 0 (as the server) to 19 (only when nothing else runs). memory_bytes: Java's heap on this machine.
    python_processes: at once, for tasks; 0: as the cores allow. rest_ms: how long the worker waits for work before it
    ends; 0: for ever."""

    nice: int
    memory_bytes: int
    python_processes: int
    rest_ms: int

    @classmethod
    def of(cls, options: Options) -> "WorkerLimits":
        return cls(
            options.worker_nice, options.worker_memory_bytes, options.worker_python_processes, options.worker_rest_ms
        )

    def arguments(self) -> list[str]:
        """The limits as arguments of the worker's command line."""
        return [
            f"{flag_of(NICE)}={self.nice}",
            f"{flag_of(MEMORY)}={self.memory_bytes}",
            f"{flag_of(PYTHON_PROCESSES)}={self.python_processes}",
        ]


DEFAULT = WorkerLimits.of(Options())


def processes_on_this_machine(chosen: int) -> int:
    """The worker's Python processes on the cores that this process may use. chosen: by the option."""
    return python_processes_of(chosen, len(os.sched_getaffinity(0)))


def add_option(parser: argparse.ArgumentParser, name: str) -> None:
    """Add one of `serve`'s options to `parser`, with the same flag, variable and limits."""
    spec = next(spec for spec in fields(Options) if spec.name == name)
    variable = environment_name_of(name)
    is_time = name.endswith("_ms")
    default = format_duration(int(str(spec.default))) if is_time else str(spec.default)
    # Where "" stands for a value, the option's text names that.
    text, _, default_text = str(spec.metadata["help"]).partition(" (default: ")
    parser.add_argument(
        flag_of(name),
        dest=name,
        type=_checked(name),
        # A text, so that argparse checks the environment's value like an argument.
        default=os.environ.get(variable) or default,
        metavar="TIME" if is_time else "PLACE" if spec.default == "" else "N",
        help=f"{text} (default: ${variable}, else {default or default_text.removesuffix(')') or 'none'})",
    )


def _checked(name: str) -> Callable[[str], Any]:
    def read(text: str) -> Any:
        try:
            value = parse_option(name, text)
            changes: dict[str, Any] = {name: value}
            replace(Options(), **changes).validate()
        except OptionsError as exc:
            raise argparse.ArgumentTypeError("; ".join(exc.complaints)) from exc
        except ValueError as exc:
            raise argparse.ArgumentTypeError(str(exc)) from exc
        return value

    return read
