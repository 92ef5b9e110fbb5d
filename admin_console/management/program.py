"""The command `penstock`, which manage.py runs as well: our commands and none of Django's.

A command that fails, or that is called wrongly, costs one sentence on standard error and status 2. Status 1 is for a
command that did its work and found damage, and for a server that did not end well. `serve` makes the data directory;
for the others, but for `pipeline`, `sql` and `systemd`, it has to be there.
"""

import difflib
import gc
import importlib
import logging
import os
import re
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from admin_console import paths
from admin_console.management.known_variables import complaints_about_variables
from admin_console.options import ConsoleOptions, take_early_flags
from queue_engine.vocabulary import log_lines
from queue_engine.vocabulary.terminal import for_terminal
from queue_engine.vocabulary.version import full_version

logger = logging.getLogger(__name__)

MISTAKE = 2
HELP = ("help", "--help", "-h")
# Each is a module of management/commands.
COMMANDS = {
    "audit": "check that no row of the audit list was changed or removed",
    "backup": "copy the data directory; the server may run meanwhile",
    "forward": "publish the messages of topics to other servers",
    "import_nsqd": "copy the topics of nsqd's data directory into the log of a server that runs",
    "pipeline": "run a job of the data pipeline by hand, or show the state of the jobs",
    "publish": "publish the lines of standard input, each as a message",
    "serve": "start the queue engine and its console",
    "sql": "query the archive, the history and the audit list with SQL, read only",
    "stat": "print the figures of topics and channels, again and again",
    "systemd": "print a unit that runs the server under systemd",
    "tail": "print the messages of topics as they come",
    "to_file": "write the messages of topics to files",
    "to_http": "send the messages of a topic to HTTP addresses",
    "token": "create, list and revoke the tokens of programs",
    "topology": "show, check and repair topology.json",
    "user": "add, list, change and disable the users of the console",
}
# `pipeline run` may work on another server's messages, and makes its own files; `sql` may read a lake alone.
WITHOUT_DATA_DIRECTORY = ("pipeline", "sql")
# `systemd` prints a unit that another account is to run, before there is a directory or beside a running server. The
# others are clients of servers, wherever these are.
ABOUT_NO_DATA = ("forward", "import_nsqd", "publish", "stat", "systemd", "tail", "to_file", "to_http")


def run(arguments: Sequence[str]) -> int:
    """Run one command as the command line gives it, the program's name first; return the exit status."""
    # The files that console and engine write belong to the account that runs them alone.
    os.umask(0o077)
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "admin_console.settings")
    program = Path(arguments[0]).name
    try:
        given = take_early_flags(list(arguments[1:]), os.environ)
        if complaints := complaints_about_variables(os.environ):
            raise ValueError("\n".join(complaints))
        name, rest = (given[0], given[1:]) if given else ("help", [])
        if name in ("--version", "version"):
            print(f"penstock {full_version()}")
            return 0
        if name in HELP and (not rest or rest[0] in HELP):
            print(_list_of_commands(program))
            return 0
        if name in HELP:
            name, rest = rest[0], ["--help"]
        if name not in COMMANDS:
            raise ValueError(_unknown(name, program))
        is_help = not {"-h", "--help"}.isdisjoint(rest)
        ConsoleOptions.from_environment(os.environ)
        if not is_help:
            _prepare(program, name, rest)
    except BrokenPipeError:
        raise
    except (ValueError, OSError) as exc:
        return _refuse(str(exc), is_log_line="serve" in arguments[1:])
    return _run_command(program, name, rest)


def _prepare(program: str, name: str, arguments: list[str]) -> None:
    """Make the data directory for the server; for the other commands it has to be there. Raises ValueError or OSError;
    then nothing was made."""
    path = paths.data_path()
    if name in ABOUT_NO_DATA:
        return
    if name == "serve":
        _check_options_of_serve(program, arguments)
        paths.check_account(path)
        paths.make_data_directory(path)
        paths.make_secret_key(path)
        return
    if name not in WITHOUT_DATA_DIRECTORY or os.path.lexists(path):
        paths.check_data_directory(path)
    paths.check_account(path)


def _check_options_of_serve(program: str, arguments: list[str]) -> None:
    """Raises ValueError for options that `serve` refuses, before it makes any file."""
    from django.core.management.base import CommandError

    from admin_console.management.serve_options import ServeOptions, ServeParser

    try:
        ServeOptions.of(_parsed(ServeParser(), program, "serve", arguments))
    except CommandError as exc:
        raise ValueError(str(exc)) from exc


def _parsed(command: Any, program: str, name: str, arguments: list[str]) -> dict[str, Any]:
    """The options by name. Raises ValueError with the complaint and the nearest flag."""
    from django.core.management.base import CommandError

    parser = command.create_parser(program, name)
    try:
        return dict(vars(parser.parse_args(arguments)))
    except CommandError as exc:
        complaint = str(exc).removeprefix("Error: ")
        raise ValueError(_about_arguments(complaint, parser.format_help(), f"{program} {name}")) from exc


def _run_command(program: str, name: str, arguments: list[str]) -> int:
    # Imported here: Django takes a third of a second, and its settings read the prepared environment.
    import django
    from django.core.management.base import CommandError
    from django.db import connections

    from admin_console.management.command import DamageFound

    django.setup()
    command: Any = importlib.import_module(f"admin_console.management.commands.{name}").Command()
    try:
        options = _parsed(command, program, name, arguments)
    except ValueError as exc:
        return _refuse(str(exc))
    try:
        if name != "serve":
            gc.freeze()
            gc.enable()
            if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
                # Ctrl-C ends the command as an error does, so that it removes its unfinished files. `serve` has its own
                # way.
                signal.signal(signal.SIGINT, signal.default_int_handler)
        command.execute(**options)
    except BrokenPipeError:
        raise
    except (ValueError, OSError) as exc:
        if name == "serve":
            raise  # its own refusals are CommandErrors: this is a fault, and the log needs where
        return _refuse(_sentence_of(exc))
    except DamageFound as exc:
        _refuse(str(exc))
        return 1
    except CommandError as exc:
        return _refuse(str(exc), is_log_line=name == "serve")
    finally:
        # SQLite then takes its journal into the database.
        connections.close_all()
    return 0


def _sentence_of(error: ValueError | OSError) -> str:
    if isinstance(error, OSError) and error.filename:
        return f"{error.filename}: {error.strerror}"
    return str(error)


def _refuse(sentence: str, *, is_log_line: bool = False) -> int:
    """is_log_line: standard error is a server's log, all of which is JSON with --log-format json."""
    if is_log_line and log_lines.is_json(os.environ):
        print(log_lines.line_of(logger, sentence, os.environ, logging.CRITICAL), file=sys.stderr)
    else:
        # A server's or a file's text may be in it.
        print(f"penstock: {for_terminal(sentence) if sys.stderr.isatty() else sentence}", file=sys.stderr)
    return MISTAKE


def _unknown(name: str, program: str) -> str:
    near = difflib.get_close_matches(name, COMMANDS, 1)
    meant = f" Did you mean {near[0]}?" if near else ""
    return f"there is no command {name!r}.{meant} `{program} help` lists the commands."


def _about_arguments(complaint: str, help_text: str, command: str) -> str:
    """argparse's complaint, with the nearest flag for one that does not exist."""
    wrong = re.search(r"unrecognized arguments: --([\w-]+)", complaint)
    # Without the hyphens, in which all are alike; --limit is no slip for --list.
    near = difflib.get_close_matches(wrong[1], re.findall(r"--([\w-]+)", help_text), 1, cutoff=0.75) if wrong else []
    meant = f" Did you mean --{near[0]}?" if near else ""
    return f"{complaint}.{meant} `{command} --help` lists its options."


def _list_of_commands(program: str) -> str:
    width = max(map(len, COMMANDS))
    lines = [f"Usage: {program} COMMAND …", ""]
    lines += [f"  {name:<{width}}  {summary}" for name, summary in COMMANDS.items()]
    lines += [
        "",
        f"`{program} COMMAND --help` lists the options of a command, `{program} --version` prints the version.",
    ]
    default = f"{paths.DATA_PATH_VARIABLE}, else {paths.DATA_PATH_DEFAULT}"
    lines.append(f"Each command takes --data-path DIR, the data directory (default: {default}).")
    return "\n".join(lines)
