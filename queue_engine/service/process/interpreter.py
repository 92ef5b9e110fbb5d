"""How the threads of a server share Python's interpreter, of which one thread at a time can run."""

import sys

# Python's default is 5 ms: so long one thread may keep another waiting. A sync that has ended waits for the engine's
# thread while that makes stats, and the engine's thread, each time that it reads or writes, for one that makes a page.
THREAD_SWITCH_INTERVAL_S = 0.0002


def share_interpreter() -> None:
    """Have threads of this process wait for each other no longer than that."""
    sys.setswitchinterval(THREAD_SWITCH_INTERVAL_S)
