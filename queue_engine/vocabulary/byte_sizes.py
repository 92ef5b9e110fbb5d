"""Numbers of bytes as people read them: binary units and one decimal, on pages, in errors and in commands alike."""

_SCALES = ((1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))
# A value that rounds to 1024.0 of a unit is 1.0 of the next.
_ROUNDED = 0.05 / 1024
UNKNOWN = "–"


def byte_count(value: float | None) -> str:
    """18.2 GiB, 640 B; "–" for unknown."""
    if value is None:
        return UNKNOWN
    for size, unit in _SCALES:
        if value >= size * (1 - _ROUNDED):
            return f"{value / size:.1f} {unit}"
    return f"{value:.0f} B"


def whole_units(value: int) -> str:
    """`4 MiB` of a number that is a whole number of a unit, such as an option's default; "" for another."""
    for size, unit in _SCALES:
        if value and value % size == 0:
            return f"{value // size} {unit}"
    return ""
