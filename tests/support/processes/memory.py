"""The memory and the descriptors of processes, as Linux counts them."""

import os
from pathlib import Path

from tests.support.processes.live_processes import live_processes

PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


def pss_bytes(pid: int) -> int:
    """The memory of a process, pages that several processes share divided by their number; 0 when it has ended."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return sum(int(line.split()[1]) << 10 for line in lines if line.startswith("Pss:"))


def rss_bytes(pid: int) -> int:
    """The memory of a process, shared pages in full; 0 when it has ended."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE_BYTES
    except (FileNotFoundError, ProcessLookupError):
        return 0


def descriptor_count(pid: int) -> int:
    """The open descriptors of a process."""
    return len(os.listdir(f"/proc/{pid}/fd"))


def session_pids(leader_pid: int) -> list[int]:
    """The processes of a session that have not ended, its leader included: all that it has started stays in it."""
    return [one.pid for one in live_processes() if one.session == leader_pid]


def is_java(pid: int) -> bool:
    """Whether a process runs Java."""
    try:
        return Path(os.readlink(f"/proc/{pid}/exe")).name == "java"
    except OSError:
        return False


def directory_bytes(path: Path) -> int:
    """The blocks that the files of a directory take on the disk; a file that goes meanwhile counts for nothing."""
    total = 0
    for folder, _, names in os.walk(path):
        for name in names:
            try:
                total += os.lstat(os.path.join(folder, name)).st_blocks * 512
            except FileNotFoundError:
                continue
    return total
