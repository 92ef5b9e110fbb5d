"""`penstock systemd`: prints a unit that runs the server with the given options. It makes and changes nothing."""

import os
import re
import sys
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import CommandError

from admin_console import paths
from admin_console.management.serve_options import ServeOptions, ServeParser, arguments_of
from admin_console.management.systemd_unit import (
    DATA_PATH_DEFAULT,
    ENVIRONMENT_PATH,
    Service,
    complaint_about_word,
    unit_text,
)

ACCOUNT_DEFAULT = "penstock"
# Names that useradd takes.
_ACCOUNT = re.compile(r"[a-z_][a-z0-9_-]{0,30}")
# The directory that holds our packages.
_CODE = Path(__file__).resolve().parents[3]


class Command(ServeParser):
    help = (
        "Print a unit for systemd that runs `serve` with the given options, from this installation. It makes and "
        f"changes nothing. Without --data-path the data is in {DATA_PATH_DEFAULT}. --http-token is not written into "
        "the unit, which other accounts can read: its text names the file."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        unit = parser.add_argument_group("unit")
        unit.add_argument("--user", default=ACCOUNT_DEFAULT, metavar="NAME", help="the account that the server runs as")
        unit.add_argument("--group", default="", metavar="NAME", help="its group (default: named as the account)")
        super().add_arguments(parser)

    def handle(self, **given: Any) -> None:
        options, arguments = ServeOptions.of(given), arguments_of(given)
        user, group = given["user"], given["group"] or given["user"]
        for flag, name in (("--user", user), ("--group", group)):
            if not _ACCOUNT.fullmatch(name):
                raise CommandError(
                    f"{flag}: {name!r} is no name of an account: a-z, 0-9, _ and -, 31 characters at most"
                )
        is_given = bool(os.environ.get(paths.DATA_PATH_VARIABLE))
        data_path = Path(os.path.normpath(settings.DATA_PATH)) if is_given else DATA_PATH_DEFAULT
        program = _program(Path(sys.argv[0]))
        command_line = [
            *program,
            "systemd",
            f"--user={user}",
            f"--group={group}",
            f"--data-path={data_path}",
            *arguments,
        ]
        if options.engine.http_token:
            command_line.append("--http-token=TOKEN")  # that there is one is all that matters
        for position, word in enumerate(command_line):
            if complaint := complaint_about_word(word, is_program=position == 0):
                raise CommandError(complaint)
        text = unit_text(
            Service(
                program=program,
                arguments=tuple(arguments),
                options=options.engine,
                data_path=data_path,
                installed=tuple(Path(path) for path in (program[0], sys.prefix, sys.base_prefix, _CODE)),
                console_port=settings.CONSOLE.port,
                user=user,
                group=group,
                with_pipeline=options.with_pipeline,
                with_engine=options.with_engine,
                command_line=tuple(command_line),
            )
        )
        self.stdout.write(text, ending="")
        if options.engine.http_token:
            self.stderr.write(
                f"The token is not in the unit, which other accounts can read. Put PENSTOCK_HTTP_TOKEN=… into "
                f"{ENVIRONMENT_PATH}."
            )


def _program(called: Path) -> tuple[str, ...]:
    """The first words of the command: the installed script, which names its interpreter, or manage.py with ours."""
    path = called.resolve()
    return (str(path),) if path.suffix != ".py" else (sys.executable, str(path))
