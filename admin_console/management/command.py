"""What our commands have in common: none of the options that Django gives to every command."""

from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from admin_console.paths import DATA_PATH_DEFAULT, DATA_PATH_VARIABLE


class PlainCommand(BaseCommand):
    """A command with its own options alone: --settings, --pythonpath and their like would change nothing here."""

    requires_system_checks: list[str] = []
    # Whether the command works on the data directory, and its help names the option that every command takes.
    uses_data_path = False

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
