"""Where each thread of the process is, and each task of the loop."""

import asyncio
import sys
import threading
import traceback
from collections.abc import Iterator
from types import FrameType

# More would be a leak, and its beginning shows it.
TASKS_MAX = 500
FRAMES_MAX = 50


def threads_text() -> str:
    """Each thread with its stack, the innermost call last. May be called on any thread: its own is in it."""
    frames = sys._current_frames()
    threads = sorted(threading.enumerate(), key=lambda thread: thread.name)
    lines = [f"{len(threads)} threads of Python"]
    for thread in threads:
        kind = "daemon " if thread.daemon else ""
        lines += ["", f"{thread.name} ({kind}thread {thread.native_id})"]
        frame = frames.pop(thread.ident, None) if thread.ident is not None else None
        lines += _stack(frame) if frame is not None else ["    has no stack: it begins or ends"]
    # Threads that a library began without Python's `threading`.
    for ident, frame in frames.items():
        lines += ["", f"thread {ident:#x}", *_stack(frame)]
    return "\n".join([*lines, ""])


def tasks_text(loop: asyncio.AbstractEventLoop) -> str:
    """Each task of the loop with where it waits. Call it on the loop's thread."""
    tasks = sorted(asyncio.all_tasks(loop), key=lambda task: task.get_name())
    lines = [f"{len(tasks)} tasks of the engine's loop"]
    for task in tasks[:TASKS_MAX]:
        lines += ["", task.get_name()]
        for frame in task.get_stack(limit=FRAMES_MAX):
            lines += _stack_lines(traceback.extract_stack(frame, limit=1))
        lines += _awaited(task)
    if len(tasks) > TASKS_MAX:
        lines += ["", f"and {len(tasks) - TASKS_MAX} more"]
    return "\n".join([*lines, ""])


def _awaited(task: "asyncio.Task[object]") -> Iterator[str]:
    """The frames of a task's coroutine down to its future: get_stack has the outermost coroutine alone."""
    waits_for = getattr(task.get_coro(), "cr_await", None)
    for _ in range(FRAMES_MAX):
        frame = getattr(waits_for, "cr_frame", None)
        if frame is None:
            return
        yield from _stack_lines(traceback.extract_stack(frame, limit=1))
        waits_for = getattr(waits_for, "cr_await", None)


def _stack(frame: FrameType) -> list[str]:
    return list(_stack_lines(traceback.extract_stack(frame, limit=FRAMES_MAX)))


def _stack_lines(stack: traceback.StackSummary) -> Iterator[str]:
    for one in stack:
        yield f"    {one.filename}:{one.lineno} in {one.name}"
        if one.line:
            yield f"        {one.line}"
