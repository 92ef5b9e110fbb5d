"""The start of the commands `penstock` and `penstock-admin`: checks that come before all other imports.

So this module imports next to nothing at its top: the rest takes half a second.
"""

import gc
import os
import signal
import sys
from collections.abc import Callable, Sequence

from queue_engine.service.process.streams import open_missing_descriptors

# The exit status that a shell reports for a program that SIGINT or SIGPIPE ended.
INTERRUPTED = 130
READER_GONE = 141


def main() -> None:
    """Run the command line, and exit with its status."""
    _begin()
    from admin_console.management.program import run

    _run_and_exit(run)


def nsqadmin() -> None:
    """`penstock-admin`: as `main`, with nsqadmin's flags."""
    _begin()
    from admin_console.management.nsqadmin_program import run

    _run_and_exit(run)


def _begin() -> None:
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:  # a shell's background process has it ignored
        # Ctrl-C while modules are imported is no error to report. Commands that have something to end change this.
        signal.signal(signal.SIGINT, lambda *_: os._exit(INTERRUPTED))
    # The objects of a start stay: collecting among them would take a twelfth of the start. `quiet_collector` switches
    # it on for `serve`, `program.py` for other commands.
    gc.disable()
    open_missing_descriptors()


def _run_and_exit(run: Callable[[Sequence[str]], int]) -> None:
    try:
        status = run(sys.argv)
        sys.stdout.flush()
    except KeyboardInterrupt:
        status = INTERRUPTED
    except BrokenPipeError:  # `penstock user list | head -1`
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        status = READER_GONE
    sys.exit(status)
