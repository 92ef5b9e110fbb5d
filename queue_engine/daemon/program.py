"""Where the commands `penstock-queue` and `python -m queue_engine` begin.

So this module imports next to nothing at its top: Ctrl-C while the rest is imported is no error to report.
"""

import gc
import os
import signal
import sys
from collections.abc import Sequence

from queue_engine.service.process.streams import open_missing_descriptors

# The statuses that a shell reports for a program that SIGINT or SIGPIPE ended.
INTERRUPTED = 130
READER_GONE = 141
# As Go's package `flag` has it, for a command line that can't be read; nsqd's own for errors of its start.
MISTAKE = 2
PROGRAM = "nsqd"


def main() -> None:
    """Run the daemon with the arguments of the command line, and exit with its status."""
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:  # a shell's background process has it ignored
        signal.signal(signal.SIGINT, lambda *_: os._exit(INTERRUPTED))
    # The objects of a start stay: collecting among them would take a sixth of the start. `quiet_collector` switches it
    # on.
    gc.disable()
    open_missing_descriptors()
    try:
        status = run(sys.argv[1:])
        sys.stdout.flush()
    except BrokenPipeError:  # `penstock-queue --version | true`
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        status = READER_GONE
    sys.exit(status)


def run(arguments: Sequence[str]) -> int:
    """arguments: without the program's name. Returns the exit status."""
    from queue_engine.daemon.daemon_options import DaemonOptions
    from queue_engine.daemon.flags import flag_set
    from queue_engine.vocabulary.errors import FlagError
    from queue_engine.vocabulary.version import version_line

    # The engine's files belong to the account that runs it, and to no other.
    os.umask(0o077)
    flags = flag_set()
    try:
        given = flags.read(arguments)
    except FlagError as exc:
        print(exc, *flags.usage(), sep="\n", file=sys.stderr)
        return MISTAKE
    if given.wants_help:
        print(*flags.usage(), sep="\n", file=sys.stderr)
        return 0
    if given.wants_version:
        print(version_line(PROGRAM))
        return 0
    options = DaemonOptions.of(given, os.environ)
    options.configure_log()

    from queue_engine.daemon.serving import Serving  # the engine, which takes longest to import

    return Serving(options, version_line(PROGRAM)).run()
