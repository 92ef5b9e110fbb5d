"""Converts what earlier versions of the pipeline wrote: `penstock pipeline convert`.

    python -m queue_engine.pipeline.convert.convert --data-path .penstock

The command holds the lake, so no worker runs meanwhile; the server may run. It can be killed and run again, and does
nothing where nothing is left to convert.
"""

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from queue_engine.pipeline.jobs import DATA_PATH_DEFAULT
from queue_engine.pipeline.lake.lake import Lake
from queue_engine.vocabulary import log_lines
from queue_engine.vocabulary.errors import LakeHeldError, PenstockError

SENTENCE = "make tables of what earlier versions wrote"


@dataclass(frozen=True, slots=True)
class Conversion:
    """What a converter gets. lake: held by this process. say: takes a sentence for whoever runs the command."""

    data_path: Path
    lake: Lake
    say: Callable[[str], None]


def _convert_history(given: Conversion) -> bool:
    from queue_engine.pipeline.history.conversion import convert_history

    return convert_history(given.lake, given.say)


# Each returns whether there was something to convert. A converter's module is imported when it runs.
CONVERTERS: tuple[Callable[[Conversion], bool], ...] = (_convert_history,)


def command_line() -> argparse.ArgumentParser:
    """What `penstock pipeline convert` takes."""
    parser = argparse.ArgumentParser("pipeline convert", description=SENTENCE)
    parser.add_argument(
        "--data-path",
        default=os.environ.get("PENSTOCK_DATA_PATH") or DATA_PATH_DEFAULT,
        help=f"the data directory (default: $PENSTOCK_DATA_PATH, else {DATA_PATH_DEFAULT})",
    )
    return parser


def main(arguments: Sequence[str]) -> int:
    """Convert everything that is left. Returns the exit status."""
    log_lines.configure(os.environ)
    data_path = Path(command_line().parse_args(arguments).data_path).absolute()
    os.umask(0o077)

    def say(sentence: str) -> None:
        sys.stdout.write(f"{sentence}\n")
        sys.stdout.flush()

    try:
        if not (data_path / "pipeline").is_dir():
            say(f"{data_path} has no pipeline directory: nothing to convert.")
            return 0
        lake = Lake(str(data_path / "pipeline"))
        with lake.lock():
            found = [convert(Conversion(data_path, lake, say)) for convert in CONVERTERS]
    except LakeHeldError as exc:
        sys.stderr.write(f"penstock: {exc}: stop it, or run this again when it has ended\n")
        return 2
    except (PenstockError, OSError, ModuleNotFoundError) as exc:
        sys.stderr.write(f"penstock: {exc}\n")
        return 2
    if not any(found):
        say("Nothing is left to convert.")
    return 0


if __name__ == "__main__":
    log_lines.log_uncaught()
    sys.exit(main(sys.argv[1:]))
