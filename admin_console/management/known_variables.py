"""The environment variables that Penstock reads, so that a misspelled one is reported instead of ignored."""

import dataclasses
import difflib
import re
from collections.abc import Mapping

from admin_console.options import CONSOLE_OPTIONS, SWITCHES
from admin_console.vocabulary import variables
from queue_engine.lake import variables as pipeline
from queue_engine.vocabulary.options.option import environment_name_of
from queue_engine.vocabulary.options.options import Options

PREFIX = "PENSTOCK_"

VARIABLES = frozenset(
    [
        *(environment_name_of(spec.name) for spec in dataclasses.fields(Options)),
        *(option.variable for option in (*CONSOLE_OPTIONS, *SWITCHES)),
        *variables.HELP,
        *pipeline.HELP,
    ]
)

# The variables that a pod gets for each Kubernetes service named penstock or penstock-…; Penstock reads none of them.
_OF_KUBERNETES = re.compile(r"PENSTOCK_(\w+_)?(SERVICE_(HOST|PORT(_\w+)?)|PORT(_[0-9]+_\w+)?)")


def complaints_about_variables(environment: Mapping[str, str]) -> list[str]:
    """A sentence for each variable with our prefix that Penstock does not read; [] without any."""
    complaints = []
    unknown = (name for name in environment if name.startswith(PREFIX) and name not in VARIABLES)
    for name in sorted(name for name in unknown if not _OF_KUBERNETES.fullmatch(name)):
        near = difflib.get_close_matches(
            name.removeprefix(PREFIX), [variable.removeprefix(PREFIX) for variable in VARIABLES], 1
        )
        meant = f"did you mean {PREFIX}{near[0]}?" if near else "nothing reads it."
        complaints.append(f"the environment variable {name} is unknown: {meant}")
    return complaints
