"""Makes the engine's options of the daemon's flags, and notes about the flags without effect."""

import logging
import os
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from queue_engine.daemon.flags import DEFAULTS, FLAGS_OF_NSQD, LOG_PREFIX, LOG_PREFIX_DEFAULT, field_of
from queue_engine.daemon.go_flags.command_line import Given
from queue_engine.daemon.go_flags.flag import Value
from queue_engine.daemon.nsqd_lines import NsqdLines
from queue_engine.vocabulary import log_lines
from queue_engine.vocabulary.errors import OptionsError
from queue_engine.vocabulary.options.option import environment_name_of
from queue_engine.vocabulary.options.options import Options
from queue_engine.vocabulary.options.parsing import parse_option

# nsqd's levels that have another name here. Fatal is an error that ends the process.
WORKER_POOL_MAX_DEFAULT = 4
_LEVELS = {"warn": "warning", "fatal": "error"}


@dataclass(frozen=True, slots=True)
class DaemonOptions:
    """engine: not validated yet. given: nsqd's options as `/config` answers them, where the engine has another value or
    none. complaints: why the daemon can't start with these flags; notes: flags without
    effect; a sentence each, without a stop."""

    engine: Options
    log_prefix: str
    notes: tuple[str, ...]
    complaints: tuple[str, ...]
    given: Mapping[str, Any]

    @classmethod
    def of(cls, given: Given, environment: Mapping[str, str]) -> "DaemonOptions":
        """Never raises: `check` does, when the log is set up."""
        values: dict[str, Any] = dict(DEFAULTS)
        notes = [f"--config: {key} is no flag, and has no effect" for key in given.unknown_keys]
        complaints = []
        for spec in fields(Options):
            variable = environment_name_of(spec.name)
            if variable in environment:
                try:
                    values[spec.name] = parse_option(spec.name, environment[variable])
                except ValueError as exc:
                    complaints.append(f"{variable}: {exc}")
        others = {flag.name: flag for flag in FLAGS_OF_NSQD}
        for name, value in given.values.items():
            field = field_of(name)
            if field is not None:
                text = _text_of(field, value)
                try:
                    values[field] = parse_option(field, text)
                except ValueError as exc:
                    complaints.append(f"--{name}: {exc}")
            elif others[name].note:
                notes.append(f"--{name} has no effect: {others[name].note}")
        prefix = str(given.values.get(LOG_PREFIX, LOG_PREFIX_DEFAULT))
        shown = {
            "data_path": values["data_path"],
            "log_prefix": prefix,
            "queue_scan_worker_pool_max": given.values.get("queue-scan-worker-pool-max", WORKER_POOL_MAX_DEFAULT),
        }
        values["data_path"] = os.path.abspath(values["data_path"])
        return cls(Options(**values), prefix, tuple(notes), tuple(complaints), shown)

    def check(self) -> None:
        """Raises OptionsError with every complaint."""
        complaints = list(self.complaints)
        try:
            self.engine.validate()
        except OptionsError as exc:
            complaints += exc.complaints
        if complaints:
            raise OptionsError(complaints)

    def configure_log(self) -> None:
        """Have the log's lines written to standard error, in nsqd's form or as JSON."""
        options = self.engine
        # A level or form that there is none of is complained of later, in a line of this log.
        level = options.log_level if options.log_level in log_lines.LEVELS else log_lines.LEVEL_DEFAULT
        handler = log_lines.LineHandler()
        handler.setFormatter(log_lines.JsonLines() if options.log_format == "json" else NsqdLines(self.log_prefix))
        logging.basicConfig(level=level.upper(), handlers=[handler])
        log_lines.log_uncaught()


def _text_of(field: str, value: Value) -> str:
    """As the command line of `serve` has it."""
    if isinstance(value, tuple):
        return ",".join(map(str, value))
    if isinstance(value, bool):
        return str(value).lower()
    if field.endswith("_ms"):
        return f"{value}ms"
    if field == "log_level":
        return _LEVELS.get(str(value).lower(), str(value).lower())
    return str(value)
