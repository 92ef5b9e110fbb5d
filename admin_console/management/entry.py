"""Where the command `penstock` begins: what has to be right before anything else is imported.

So this module imports nothing but the standard library at its top: the rest takes half a second.
"""

import io
import os
import signal
import sys

# What a shell reports for a program that SIGINT or SIGPIPE ended.
INTERRUPTED = 130
READER_GONE = 141


def main() -> None:
    """Run the command line, and exit with its status."""
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:  # a shell's background process has it ignored
        # Ctrl-C while modules are imported is no error to report. Commands that have something to end change this.
        signal.signal(signal.SIGINT, lambda *_: os._exit(INTERRUPTED))
    open_missing_descriptors()
    from admin_console.management.program import run

    try:
        status = run(sys.argv)
        sys.stdout.flush()
    except KeyboardInterrupt:
        status = INTERRUPTED
    except BrokenPipeError:  # `penstock user list | head -1`
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        status = READER_GONE
    sys.exit(status)


def open_missing_descriptors() -> None:
    """Open /dev/null where standard input, output or error is closed (`serve >&-`).

    Otherwise the next file or socket gets the number, and what is printed goes into it; uvloop ends the process.
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
