"""Waiting for something to become true, where another process decides when."""

import asyncio
import threading
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

_pause = threading.Event()  # never set: a pause between two looks

TIMEOUT_S = 30.0  # for what comes at once, on a machine that may stall


def wait_for(what: str, look: Callable[[], T], *, timeout_s: float = TIMEOUT_S, every_s: float = 0.02) -> T:
    """The first truthy answer of `look`; AssertionError naming `what` and the last answer when none comes in time."""
    deadline = time.monotonic() + timeout_s
    while True:
        answer = look()
        if answer:
            return answer
        assert time.monotonic() < deadline, f"waited {timeout_s:g} s in vain for {what}; last answer: {answer!r}"
        _pause.wait(every_s)


async def wait_for_async(what: str, look: Callable[[], T], *, timeout_s: float = TIMEOUT_S, every_s: float = 0.02) -> T:
    """`wait_for` while an event loop goes on."""
    deadline = time.monotonic() + timeout_s
    while True:
        answer = look()
        if answer:
            return answer
        assert time.monotonic() < deadline, f"waited {timeout_s:g} s in vain for {what}; last answer: {answer!r}"
        await asyncio.sleep(every_s)
