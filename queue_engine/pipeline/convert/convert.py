"""Converts what earlier versions of the pipeline wrote: `penstock pipeline convert`.

    python -m queue_engine.pipeline.convert.convert --data-path .penstock

The command holds the lake, so no worker runs meanwhile; the server may run. It can be killed and run again, and does
nothing where nothing is left to convert.
"""

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from queue_engine.disk.files import Files
from queue_engine.pipeline.job.archive_settings import LAKE
from queue_engine.pipeline.jobs import add_data_path
from queue_engine.pipeline.lake.lake import Lake
from queue_engine.pipeline.spark.worker_limits import add_option
from queue_engine.topology.change_log import read_topology
from queue_engine.vocabulary import log_lines
from queue_engine.vocabulary.clock import SystemClock
from queue_engine.vocabulary.errors import LakeHeldError, PenstockError, PipelineError

SENTENCE = "make tables of what earlier versions wrote"


Say = Callable[[str], None]  # takes a sentence for whoever runs the command


def _convert_history(lake: Lake, _: argparse.Namespace, say: Say) -> bool:
    from queue_engine.pipeline.history.conversion import convert_history

    return convert_history(lake, say)


def _convert_archives(lake: Lake, given: argparse.Namespace, say: Say) -> bool:
    from queue_engine.pipeline.archive.conversion import convert_archives
    from queue_engine.pipeline.archive.old_manifest import old_folders
    from queue_engine.pipeline.tables.storage import TableStorage
    from queue_engine.pipeline.tables.tables import LakeTables

    if next(old_folders(lake), None) is None:
        return False
    server = read_topology(given.data_path, Files()).state.identity
    if not server:
        raise PipelineError(f"{given.data_path} has no identity yet: start the server once, and convert then")
    tables = LakeTables(TableStorage(given.lake or lake.path))
    count, rows = convert_archives(lake, tables, server, SystemClock(), say)
    if count:
        say(f"{count} archives are tables now, with {rows:,} messages.")
    return count > 0


# Each takes the lake, held by this process, and the command's options, and returns whether there was something to
# convert. A converter's module is imported when it runs.
CONVERTERS: tuple[Callable[[Lake, argparse.Namespace, Say], bool], ...] = (_convert_history, _convert_archives)


def command_line() -> argparse.ArgumentParser:
    """What `penstock pipeline convert` takes."""
    parser = argparse.ArgumentParser("pipeline convert", description=SENTENCE)
    add_data_path(parser)
    add_option(parser, LAKE)
    return parser


def main(arguments: Sequence[str]) -> int:
    """Convert everything that is left. Returns the exit status."""
    log_lines.configure(os.environ)
    given = command_line().parse_args(arguments)
    pipeline = Path(given.data_path).absolute() / "pipeline"
    os.umask(0o077)

    def say(sentence: str) -> None:
        sys.stdout.write(f"{sentence}\n")
        sys.stdout.flush()

    found, errors = [], []
    try:
        if not pipeline.is_dir():
            say(f"{pipeline.parent} has no pipeline directory: nothing to convert.")
            return 0
        lake = Lake(str(pipeline))
        with lake.lock():
            for convert in CONVERTERS:
                # What is damaged of the one keeps nothing of the other waiting.
                try:
                    found.append(convert(lake, given, say))
                except (PenstockError, OSError) as exc:
                    errors.append(str(exc))
    except LakeHeldError as exc:
        sys.stderr.write(f"penstock: {exc}: stop it, or run this again when it has ended\n")
        return 2
    except (PenstockError, OSError, ModuleNotFoundError) as exc:
        sys.stderr.write(f"penstock: {exc}\n")
        return 2
    for error in errors:
        sys.stderr.write(f"penstock: {error}\n")
    if errors:
        return 2
    if not any(found):
        say("Nothing is left to convert.")
    return 0


if __name__ == "__main__":
    log_lines.log_uncaught()
    sys.exit(main(sys.argv[1:]))
