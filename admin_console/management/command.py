"""The base of our commands: without the options that Django gives to every command, and with text of strangers escaped
on a terminal."""

import sys
from io import RawIOBase
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from admin_console.paths import DATA_PATH_DEFAULT, DATA_PATH_VARIABLE
from queue_engine.vocabulary.terminal import bytes_for_terminal, for_terminal


class DamageFound(CommandError):
    """A command found something wrong with the data that it looked at: its outcome, not a mistake of its caller. The
    program ends with status 1."""


class PlainCommand(BaseCommand):
    """A command with its own options alone: --settings, --pythonpath and their like would change nothing here."""

    requires_system_checks: list[str] = []
    # Whether the command works on the data directory, and its help names the option that every command takes.
    uses_data_path = False

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        # Django applies it on a terminal alone.
        self.stdout.style_func = for_terminal
        self.stderr.style_func = for_terminal

    def create_parser(self, prog_name: str, subcommand: str, **kwargs: Any) -> CommandParser:
        if self.uses_data_path:
            kwargs["epilog"] = (
                f"--data-path names the data directory (default: ${DATA_PATH_VARIABLE}, else {DATA_PATH_DEFAULT})."
            )
        # The program reads some options before Django does, and only their full names.
        parser = super().create_parser(prog_name, subcommand, allow_abbrev=False, **kwargs)
        parser.set_defaults(verbosity=1, traceback=False, no_color=False, force_color=False, skip_checks=True)
        return parser

    def add_base_argument(self, parser: CommandParser, *args: Any, **kwargs: Any) -> None:
        """Called for each of Django's options."""


def write_out(data: bytes) -> None:
    """Write whole texts of strangers to standard output at once: escaped on a terminal, else raw."""
    sys.stdout.buffer.write(bytes_for_terminal(data) if sys.stdout.isatty() else data)
    sys.stdout.buffer.flush()


class StandardOutput(RawIOBase):
    """Standard output as a file, written by `write_out`."""

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        write_out(bytes(data))
        return len(data)
