"""Topics by the parts of their names.

orders.eu.paid and orders.eu.late are in the group `orders.eu.`, which is in the group `orders.`.
"""

from collections.abc import Iterable, Sequence

SEPARATOR = "."


def grouped(names: Iterable[str], under: str) -> dict[str, list[str]]:
    """The names that begin with `under`, in groups by their next part: group → its names, in the given order.

    A group of several is called by its prefix, which ends with the separator; a name that shares its next part with no
    other is alone, under its own name.
    """
    found: dict[str, list[str]] = {}
    for name in names:
        if name.startswith(under):
            part, separator, _ = name[len(under) :].partition(SEPARATOR)
            found.setdefault(f"{under}{part}{separator}", []).append(name)
    return {group if len(inside) > 1 else inside[0]: inside for group, inside in found.items()}


def level_above(under: str) -> str:
    """The prefix one level above: "orders." for "orders.eu.", "" for "orders."."""
    return under.rstrip(SEPARATOR).rpartition(SEPARATOR)[0] + SEPARATOR if SEPARATOR in under[:-1] else ""


def total(values: Sequence[float | None]) -> float | None:
    """The sum of the values that are not None; None without any."""
    numbers = [value for value in values if value is not None]
    return sum(numbers) if numbers else None
