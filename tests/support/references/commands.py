"""The tables of the commands' options, beside `serve`, whose options have tables of their own."""

from argparse import SUPPRESS, Action, ArgumentParser, _SubParsersAction
from collections import defaultdict
from collections.abc import Iterator
from importlib import import_module

from admin_console.management import replay_command
from admin_console.management.program import COMMANDS
from admin_console.management.serve_options import ServeParser
from queue_engine.lake import jobs
from queue_engine.lake.rearchive import rearchive
from tests.support.references.generated import code, table

# An option of so many commands stands in the second table, once.
SHARED_BY_MIN = 2


def commands() -> list[str]:
    rows = list[tuple[str, ...]]()
    for name in COMMANDS:
        command = import_module(f"admin_console.management.commands.{name}").Command()
        parser = command.create_parser("penstock", name)
        if name == "pipeline":
            rows += _rows("pipeline run", jobs.command_line(), set())
            rows += _rows("pipeline rearchive", rearchive.command_line(), set(), rearchive.SENTENCE)
            rows += _rows("pipeline replay", replay_command.command_line(), set())
            rows += [(code("pipeline status"), "", "print what the jobs do")]
        elif name != "serve":
            # `systemd` takes what `serve` takes.
            rows += _rows(name, parser, _serve_flags() if isinstance(command, ServeParser) else set())
    sharing: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for name, *option in rows:
        sharing[tuple(option)].append(name)
    common = {option for option, names in sharing.items() if option[-1] and len(names) >= SHARED_BY_MIN}
    shared = [(", ".join(names), *option) for option, names in sharing.items() if option in common]
    own = [row for row in rows if row[1:] not in common]
    head = ("command", "takes", "")
    return [*table(head, own), "", "Options of several commands:", "", *table(head, shared)]


def _serve_flags() -> set[str]:
    return {
        flag for action in ServeParser().create_parser("penstock", "serve")._actions for flag in action.option_strings
    }


def _rows(name: str, parser: ArgumentParser, without: set[str], text: str = "") -> Iterator[tuple[str, ...]]:
    """A row for each argument; one without for a command that takes none."""
    own = [one for one in parser._actions if not without & set(one.option_strings) and one.help != SUPPRESS]
    own = [one for one in own if "--help" not in one.option_strings]
    for action in own:
        if isinstance(action, _SubParsersAction):
            texts = {one.dest: one.help or "" for one in action._choices_actions}
            for verb, sub in action.choices.items():
                yield from _rows(f"{name} {verb}", sub, without, texts[verb])
            return
    if not own or text:
        yield (code(name), "", text or parser.description or "")
    for action in own:
        yield (code(name), _shown(action), (action.help or "").replace("%%", "%"))


def _shown(action: Action) -> str:
    value = action.metavar if isinstance(action.metavar, str) else action.dest.upper()
    if action.choices is not None:
        value = "|".join(map(str, action.choices))
    if not action.option_strings:
        return code(value)
    required = ", required" if action.required else ""
    return code(action.option_strings[-1] + ("" if action.nargs == 0 else f" {value}")) + required
