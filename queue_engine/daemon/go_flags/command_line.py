"""A daemon's command line, read as Go's package `flag` reads it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from queue_engine.daemon.go_flags.flag import Flag, FlagType, Value
from queue_engine.daemon.go_flags.values import from_text
from queue_engine.vocabulary.errors import FlagError

CONFIG = Flag("config", FlagType.TEXT, "path to config file")
VERSION = Flag("version", FlagType.BOOL, "print version string")
_HELP = ("h", "help")


@dataclass(frozen=True, slots=True)
class Given:
    """A parsed command line. values: by flag name, of the command line or else of the configuration file. unknown_keys:
    of the configuration file. wants_help, wants_version: then nothing else counts."""

    values: dict[str, Value]
    unknown_keys: tuple[str, ...] = ()
    wants_help: bool = False
    wants_version: bool = False


class FlagSet:
    """All flags of one program; `--config` and `--version` come by themselves."""

    def __init__(self, program: str, flags: Sequence[Flag]) -> None:
        self._program = program
        self._flags = {flag.name: flag for flag in sorted((CONFIG, VERSION, *flags), key=lambda flag: flag.name)}

    def read(self, arguments: Sequence[str]) -> Given:
        """Read the arguments, without the program's name, and the configuration file that they name. Raises FlagError
        with Go's sentence."""
        values = self._parse(arguments)
        if values is None:
            return Given({}, wants_help=True)
        config_path = values.pop(CONFIG.name, "")
        if values.pop(VERSION.name, False):
            return Given({}, wants_version=True)
        unknown: list[str] = []
        if config_path:
            from queue_engine.daemon.go_flags.config_file import read_config  # takes TOML's parser with it

            in_file = [flag for flag in self._flags.values() if flag not in (CONFIG, VERSION)]
            config, unknown = read_config(str(config_path), in_file)
            values = {**config, **values}
        return Given(values, tuple(unknown))

    def usage(self) -> Iterator[str]:
        """Lines that list all flags, in the form of Go's own usage."""
        yield f"Usage of {self._program}:"
        for flag in self._flags.values():
            word = flag.kind.value.rstrip(" …?")
            yield f"  -{flag.name} {word}".rstrip()
            shown = f'"{flag.default}"' if flag.kind is FlagType.TEXT else flag.default
            yield f"    \t{flag.help}" + (f" (default {shown})" if flag.default else "")

    def _parse(self, arguments: Sequence[str]) -> dict[str, Value] | None:
        """The values by flag name; None when help is wanted."""
        values: dict[str, Value] = {}
        rest = list(arguments)
        while rest:
            argument = rest.pop(0)
            if argument == "--" and not rest:
                break
            if len(argument) < 2 or argument[0] != "-" or argument == "--":
                stray = rest[0] if argument == "--" else argument
                raise FlagError(f"unexpected argument {stray!r}: flags begin with a dash")
            name, equals, text = argument[2 if argument.startswith("--") else 1 :].partition("=")
            if not name or name[0] in "-=":
                raise FlagError(f"bad flag syntax: {argument}")
            flag = self._flags.get(name)
            if flag is None:
                if name in _HELP:
                    return None
                raise FlagError(f"flag provided but not defined: -{name}{self._near(name)}")
            if not equals:
                if flag.may_be_bare:
                    text = "true"
                elif rest:
                    text = rest.pop(0)
                else:
                    raise FlagError(f"flag needs an argument: -{name}")
            value = _value(flag, text)
            before = values.get(name)
            if isinstance(value, tuple) and isinstance(before, tuple):
                value = (*before, *value)
            values[name] = value
        return values

    def _near(self, name: str) -> str:
        import difflib  # for mistakes alone

        near = difflib.get_close_matches(name, self._flags, 1)
        return f". Did you mean -{near[0]}?" if near else ""


def _value(flag: Flag, text: str) -> Value:
    try:
        return from_text(flag.kind, text)
    except ValueError as exc:
        if flag.kind is FlagType.BOOL:
            raise FlagError(f'invalid boolean value "{text}" for -{flag.name}: {exc}') from exc
        raise FlagError(f'invalid value "{text}" for flag -{flag.name}: {exc}') from exc
