"""One option: a field with its help and its limits; its name on the command line and in the environment."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar


def option(
    default: Any, help: str, *, low: int | None = None, high: int | None = None, choices: tuple[str, ...] = ()
) -> Any:
    """A field of an OptionGroup. help: half a sentence. low, high: the limits of a number, in the field's unit."""
    return field(default=default, metadata={"help": help, "low": low, "high": high, "choices": choices})


@dataclass(frozen=True, init=False, repr=False, eq=False)
class OptionGroup:
    """Options of one subject. `Options` inherits all groups, so each field has one name in all of them. No object of a
    group is made, so groups have no methods of dataclasses, which take long to make.

    TITLE: the group's heading in the help and in tables, without a capital."""

    TITLE: ClassVar[str]

    def complaints(self) -> Iterator[str]:
        """The faults of this group's values beside the limits of single fields: whole sentences without a stop, each
        naming flag, value and limit. `Options.validate` calls it for every group."""
        yield from ()


def flag_of(field_name: str) -> str:
    """The command line's name of a field: `msg_timeout_ms` → `--msg-timeout`."""
    return "--" + field_name.removesuffix("_ms").replace("_", "-")


def environment_name_of(field_name: str) -> str:
    """The environment's name of a field: `msg_timeout_ms` → `PENSTOCK_MSG_TIMEOUT`."""
    return "PENSTOCK_" + field_name.removesuffix("_ms").upper()
