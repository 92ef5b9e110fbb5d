"""Freed memory is given back when the process has grown, and not before."""

import subprocess
import sys

from queue_engine.service.loop.freed_memory import GROWTH_BYTES_MIN, FreedMemory
from tests.support.processes.server import ROOT

LEAST = 50 << 20


class Process:
    """Says how large it is; giving back makes it `needed` bytes large."""

    def __init__(self) -> None:
        self.used = self.needed = LEAST
        self.given_back = 0

    def give_back(self) -> None:
        self.given_back += 1
        self.used = self.needed


def test_memory_is_given_back_once_the_process_has_grown() -> None:
    process = Process()
    freed = FreedMemory(lambda: process.used, process.give_back)
    process.used = LEAST + GROWTH_BYTES_MIN - 1
    freed.look()
    assert process.given_back == 0
    process.used += 1
    freed.look()
    assert (process.given_back, process.used) == (1, LEAST)
    freed.look()
    assert process.given_back == 1


def test_what_was_needed_for_long_is_given_back_when_it_is_not_any_more() -> None:
    process = Process()
    freed = FreedMemory(lambda: process.used, process.give_back)
    process.used = process.needed = 10 * LEAST
    for _ in range(101):
        freed.look()
    assert process.used == 10 * LEAST
    process.needed = LEAST
    freed.look()
    freed.look()
    assert process.used == LEAST


def test_while_nothing_can_be_given_back_it_is_tried_half_as_often() -> None:
    process = Process()
    freed = FreedMemory(lambda: process.used, process.give_back)
    process.used = process.needed = 10 * LEAST
    for _ in range(100):
        freed.look()
    assert process.given_back == 50
    process.needed -= 2 << 20  # what is freed all the time is given back at each look
    for _ in range(10):
        process.used = process.needed + (2 << 20)
        freed.look()
    assert process.given_back == 60


def test_the_least_is_what_the_process_has_shrunk_to() -> None:
    process = Process()
    process.used = process.needed = 10 * LEAST
    freed = FreedMemory(lambda: process.used, process.give_back)
    process.used = process.needed = LEAST
    freed.look()
    process.used = LEAST + GROWTH_BYTES_MIN
    freed.look()
    assert (process.given_back, process.used) == (1, LEAST)


def test_glibc_gives_back_what_python_freed() -> None:
    program = [sys.executable, "-m", "tests.service.loop.freed_memory_process"]
    done = subprocess.run(program, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 80 << 20
