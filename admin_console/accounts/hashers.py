"""Argon2id with the memory and time that a log-in beside a busy queue can afford."""

import os
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

from django.contrib.auth.hashers import Argon2PasswordHasher

# A hash then gets about a tenth of the processor while the engine is busy, and all of it while the engine is idle.
NICE = 10
NICE_MAX = 19


def _lower_priority() -> None:
    # Elsewhere a priority belongs to the process, and the engine is in it.
    if sys.platform == "linux":
        thread_id = threading.get_native_id()
        os.setpriority(os.PRIO_PROCESS, thread_id, min(os.getpriority(os.PRIO_PROCESS, thread_id) + NICE, NICE_MAX))


_thread = ThreadPoolExecutor(1, "password-hashing", initializer=_lower_priority)


class ConsoleArgon2Hasher(Argon2PasswordHasher):
    """19 MiB, two passes, one lane: OWASP's minimum. Django's 100 MiB in 8 threads would slow the engine down.

    A hash made with other figures is still checked, and made anew at the next log-in. One thread of lower priority
    computes them all: Argon2 leaves the interpreter's lock alone, but not the processor.
    """

    time_cost = 2
    memory_cost = 19 * 1024  # KiB
    parallelism = 1

    def encode(self, password: str, salt: str) -> str:
        return _thread.submit(super().encode, password, salt).result()

    def verify(self, password: str, encoded: str) -> bool:
        return _thread.submit(super().verify, password, encoded).result()
