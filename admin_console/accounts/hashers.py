"""Argon2id with the memory and time that a log-in beside a busy queue can afford."""

from django.contrib.auth.hashers import Argon2PasswordHasher


class ConsoleArgon2Hasher(Argon2PasswordHasher):
    """19 MiB, two passes, one lane: OWASP's least; Django's own 100 MiB in 8 threads would be felt by the engine.

    A hash made with other figures is still checked, and made anew at the next log-in.
    """

    time_cost = 2
    memory_cost = 19 * 1024  # KiB
    parallelism = 1
