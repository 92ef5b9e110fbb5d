"""The options of `penstock serve`: their flags, their help, and complaints about them.

Read without Django's settings, so that a refused option costs nothing: the data directory is made after it.
"""

import dataclasses
import itertools
import os
from argparse import ArgumentParser, HelpFormatter
from collections.abc import Mapping
from typing import Any

from django.core.management.base import CommandError

from admin_console import paths
from admin_console.management.command import PlainCommand
from admin_console.options import CONSOLE_ONLY, CONSOLE_OPTIONS, DEMO, NO_PIPELINE, SWITCHES
from queue_engine.vocabulary.errors import OptionsError
from queue_engine.vocabulary.lake_place import absolute_lake
from queue_engine.vocabulary.options.option import environment_name_of, flag_of
from queue_engine.vocabulary.options.options import Options
from queue_engine.vocabulary.options.parsing import parse_bool, parse_option
from queue_engine.vocabulary.options.texts import BOOLEAN, engine_option_texts

SECRETS = ("http_token",)
FILES = (
    "tls_cert",
    "tls_key",
    "tls_root_ca_file",
    "http_token_file",
    "node_token_file",
    "http_client_tls_root_ca_file",
    "http_client_tls_cert",
    "http_client_tls_key",
)


@dataclasses.dataclass(frozen=True, slots=True)
class ServeOptions:
    """The checked options of `serve`. engine: the engine's options; the console reads its own from the environment."""

    engine: Options
    with_demo: bool
    with_pipeline: bool
    with_engine: bool

    @staticmethod
    def of(given: Mapping[str, Any]) -> "ServeOptions":
        """given: by name, as the parser returns them. Raises CommandError with every complaint."""
        found = ServeOptions(
            engine=_engine_options(given),
            with_demo=given["demo"] or _is_switched_on(DEMO.variable),
            with_pipeline=not (given["no_pipeline"] or _is_switched_on(NO_PIPELINE.variable)),
            with_engine=not (given["console_only"] or _is_switched_on(CONSOLE_ONLY.variable)),
        )
        if found.with_demo and not found.with_engine:
            raise CommandError("--demo publishes to the server's own queue, and with --console-only it has none.")
        return found


def arguments_of(given: Mapping[str, Any]) -> list[str]:
    """The options that the command line and the environment give, each as one argument for `serve`.

    Without --data-path, and without secrets: everybody on the machine can read an argument. Files are named from the
    root on, since a service begins elsewhere. given: as for `ServeOptions`, checked.
    """
    found = []
    places = [(text.flag, text.field_name, text.variable) for text in engine_option_texts()]
    places += [(option.flag, _field_of(option.flag), option.variable) for option in CONSOLE_OPTIONS]
    for flag, field, variable in places:
        value = given[field] if given.get(field) is not None else os.environ.get(variable) or None
        if value and field in FILES:
            value = os.path.abspath(value)
        if value is not None and field == "lake":
            value = absolute_lake(value)
        if value is not None and field not in ("data_path", *SECRETS):
            found.append(f"{flag}={','.join(value) if isinstance(value, list) else value}")
    return found + [
        option.flag for option in SWITCHES if given[_field_of(option.flag)] or _is_switched_on(option.variable)
    ]


class ServeParser(PlainCommand):
    """`serve`, as far as its options go."""

    help = (
        "Start the queue engine and its console. Ctrl-C stops both and loses nothing. Each option can also come from "
        "the environment: --msg-timeout 30s is PENSTOCK_MSG_TIMEOUT=30s, --demo is PENSTOCK_DEMO=true. A DURATION is "
        "written as 250ms, 30s or 1m30s; BYTES are a whole number."
    )

    def create_parser(self, prog_name: str, subcommand: str, **kwargs: Any) -> Any:
        return super().create_parser(prog_name, subcommand, formatter_class=_Formatter, **kwargs)

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.usage = "%(prog)s [OPTION …]"
        for group, texts in itertools.groupby(engine_option_texts(), key=lambda text: text.group):
            options = parser.add_argument_group(group)
            for text in texts:
                # A switch can stand alone, as with nsqd: --snappy is --snappy=true.
                bare: dict[str, Any] = {"nargs": "?", "const": "true"} if text.value == BOOLEAN else {}
                options.add_argument(
                    text.flag,
                    **bare,
                    dest=text.field_name,
                    action="append" if text.is_list else "store",
                    metavar=text.value,
                    help=_help(text.help, text.default),
                )
        console = parser.add_argument_group("console")
        for option in CONSOLE_OPTIONS:
            console.add_argument(
                option.flag,
                action="append" if option.is_list else "store",
                metavar=option.value,
                help=_help(option.help, option.default),
            )
        for option in SWITCHES:
            console.add_argument(option.flag, action="store_true", help=option.help)


class _Formatter(HelpFormatter):
    """Wide enough for the longest flag."""

    def __init__(self, prog: str, **_: Any) -> None:
        super().__init__(prog, max_help_position=38)


def _engine_options(given: Mapping[str, Any]) -> Options:
    """The command line, else the environment, else the default. Raises CommandError with every complaint."""
    values: dict[str, Any] = {}
    complaints: list[str] = []
    for spec in dataclasses.fields(Options):
        text, source = given.get(spec.name), flag_of(spec.name)
        if isinstance(text, list):
            text = ",".join(text)
        if text is None:
            source = environment_name_of(spec.name)
            text = os.environ.get(source)
        if text is not None:
            try:
                values[spec.name] = parse_option(spec.name, text)
            except ValueError as exc:
                complaints.append(f"{source}: {exc}")
    # One answer for both sides, absolute, wherever it came from.
    values["data_path"] = str(paths.data_path())
    try:
        options = Options(**values)
        options.validate()
    except OptionsError as exc:
        complaints.extend(exc.complaints)
    if complaints:
        raise CommandError("\n".join(complaints))
    return options


def _is_switched_on(variable: str) -> bool:
    """Raises CommandError for any other value than true or false."""
    try:
        return parse_bool(os.environ.get(variable) or "false")
    except ValueError as exc:
        raise CommandError(f"{variable}: {exc}") from exc


def _field_of(flag: str) -> str:
    return flag.removeprefix("--").replace("-", "_")


def _help(text: str, default: str) -> str:
    return (f"{text} (default: {default})" if default else text).replace("%", "%%")
