"""One option of the console, which is a flag of `serve` and a variable of the environment."""

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ConsoleOption:
    """A list is repeated on the command line, comma-separated in the environment.

    value: the text behind the flag. limits: in words; "" for none.
    """

    flag: str
    default: str
    value: str
    help: str
    limits: str = ""
    is_list: bool = False

    @property
    def variable(self) -> str:
        return environment_variable(self.flag)


def environment_variable(flag: str) -> str:
    """`--console-address` → `PENSTOCK_CONSOLE_ADDRESS`."""
    return "PENSTOCK_" + flag.removeprefix("--").replace("-", "_").upper()


def split_list(text: str) -> list[str]:
    """The parts of a list as the environment has it."""
    return [part.strip() for part in text.split(",") if part.strip()]


def seconds_of(text: str) -> float:
    """The seconds of a duration above 0, written as in the engine's options. Raises ValueError naming the text."""
    found = re.fullmatch(r"([0-9]{1,9}(?:\.[0-9]{1,3})?)(ms|s|m|h)", text)
    value = float(found[1]) * {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}[found[2]] if found else 0.0
    if not value:
        raise ValueError(f"{text!r} is not a duration such as 60s, 500ms or 1m")
    return value
