"""The command `penstock-admin`: started where nsqadmin was, with its flags; it runs `penstock serve --console-only`."""

import logging
import os
import sys
from collections.abc import Sequence

from admin_console.management import program
from admin_console.management.nsqadmin_flags import PROGRAM, arguments_of, flag_set, notes_of
from admin_console.options import take_early_flags
from queue_engine.vocabulary import log_lines
from queue_engine.vocabulary.errors import FlagError
from queue_engine.vocabulary.version import version_line

logger = logging.getLogger(__name__)


def run(arguments: Sequence[str]) -> int:
    """arguments: the program's name first. Returns the exit status."""
    flags = flag_set()
    try:
        given = flags.read(arguments[1:])
    except FlagError as exc:
        print(exc, *flags.usage(), sep="\n", file=sys.stderr)
        return program.MISTAKE
    if given.wants_help:
        print(*flags.usage(), sep="\n", file=sys.stderr)
        return 0
    if given.wants_version:
        print(version_line(PROGRAM))
        return 0
    command_line = ["serve", *arguments_of(given)]
    take_early_flags(command_line, environment := dict(os.environ))  # the form of the log's lines
    for note in notes_of(given):
        print(log_lines.line_of(logger, note, environment, logging.WARNING), file=sys.stderr)
    return program.run([arguments[0], *command_line])
