"""One flag of a daemon's command line."""

from dataclasses import dataclass
from enum import Enum

Value = bool | int | str | tuple[str | float, ...]  # a list has values of one type


class FlagType(Enum):
    """The type of a flag's value. The value is the word that the usage shows behind its name, as Go's does."""

    BOOL = ""
    INT = "int"
    DURATION = "duration"  # milliseconds, as an int
    TEXT = "string"
    TEXTS = "value"  # tuple[str, …]
    FLOATS = "value …"  # tuple[float, …]
    SWITCH = "value?"  # a text that may be given bare, which is "true"


@dataclass(frozen=True, slots=True)
class Flag:
    """name: without dashes. help: half a sentence, as the usage shows it. default: as a user would write it; "" for
    none. config_name: its key in a configuration file, where that is not the name with underscores."""

    name: str
    kind: FlagType
    help: str
    default: str = ""
    config_name: str = ""

    @property
    def key(self) -> str:
        """Its key in a configuration file."""
        return self.config_name or self.name.replace("-", "_")

    @property
    def may_be_bare(self) -> bool:
        return self.kind in (FlagType.BOOL, FlagType.SWITCH)
