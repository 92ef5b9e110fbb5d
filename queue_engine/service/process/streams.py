"""Standard input, output and error of a server, wherever it was started from."""

import io
import os
import sys


def open_missing_descriptors() -> None:
    """Open /dev/null where standard input, output or error is closed (`serve >&-`).

    Otherwise the next file or socket gets the number, and printed text goes into it; uvloop ends the process.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # gets the lowest free number, which is this one
            os.set_inheritable(number, True)
        if getattr(sys, name) is None:
            file = io.FileIO(number, "w" if number else "r", closefd=False)
            setattr(sys, name, io.TextIOWrapper(file, encoding="utf-8", write_through=True))


def is_on_terminal() -> bool:
    """Whether one of them is a terminal: the server was started by hand, and SIGHUP says that the terminal is closed.

    Elsewhere, as under systemd, SIGHUP asks a server to read its files again."""
    return any(os.isatty(number) for number in (0, 1, 2))
