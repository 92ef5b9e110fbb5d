"""Confines the process of a query in the operating system: it may read, and compute for a while, and little else.

duckdb's own lock (child.py) keeps a query from files and settings. This is the second wall, in case that one has a
hole: the kernel refuses every change of a file, and every start of a program (Landlock, Linux 5.13 and newer); memory
is limited as a whole; a crash leaves no core dump with bodies in it; and the process ends when the one that started it
does.
"""

import ctypes
import fcntl
import os
import resource
import select

_SYS_LANDLOCK_CREATE_RULESET, _SYS_LANDLOCK_RESTRICT_SELF = 444, 446
_CREATE_RULESET_VERSION = 1
_PR_SET_NO_NEW_PRIVS = 38
# Bits of linux/landlock.h: run a program; write to a file; remove, make; of later kernels: link across, truncate.
_EXECUTE, _WRITE_FILE, _REMOVE_AND_MAKE = 1 << 0, 1 << 1, 0b1_1111_1111 << 4
_REFER, _TRUNCATE = 1 << 13, 1 << 14
_NICE = 10


def forbid_writing() -> bool:
    """From now on the process, and no other, can't change, make or remove a file, nor start a program; files that are
    open stay usable. Before it starts threads: only later ones are bound. False where the kernel can't do that."""
    libc = ctypes.CDLL(None, use_errno=True)
    version = libc.syscall(_SYS_LANDLOCK_CREATE_RULESET, None, 0, _CREATE_RULESET_VERSION)
    if version < 1:
        return False
    handled = _EXECUTE | _WRITE_FILE | _REMOVE_AND_MAKE
    handled |= (_REFER if version >= 2 else 0) | (_TRUNCATE if version >= 3 else 0)
    # struct landlock_ruleset_attr: its first field alone. No rule is added: the handled rights are allowed nowhere.
    attributes = ctypes.c_uint64(handled)
    ruleset = libc.syscall(_SYS_LANDLOCK_CREATE_RULESET, ctypes.byref(attributes), ctypes.sizeof(attributes), 0)
    if ruleset < 0:
        return False
    try:
        if libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
            return False
        return bool(libc.syscall(_SYS_LANDLOCK_RESTRICT_SELF, ruleset, 0) == 0)
    finally:
        os.close(ruleset)


def limit_process(data_bytes_max: int) -> None:
    """data_bytes_max: of memory that the process may have of its own, all libraries together."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_DATA, (data_bytes_max, data_bytes_max))
    os.nice(_NICE)
    try:
        with open("/proc/self/oom_score_adj", "w") as file:
            file.write("1000")  # where memory runs out, this process goes, and not the server
    except OSError:
        pass


def end_with(pipe_fd: int) -> None:
    """End at once when the other end of the pipe is closed, as by the death of the process that holds it. The kernel
    sees to it (SIGIO, whose default is the end): no thread of Python's has to get a turn."""
    fcntl.fcntl(pipe_fd, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(pipe_fd, fcntl.F_SETFL, fcntl.fcntl(pipe_fd, fcntl.F_GETFL) | os.O_ASYNC)
    if select.select([pipe_fd], [], [], 0)[0]:  # closed before that
        os._exit(1)
