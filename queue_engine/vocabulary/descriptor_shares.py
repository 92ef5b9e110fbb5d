"""How the descriptors of the process are shared: files, NSQ clients, the HTTP API and the console.

Each has its own share, so that many clients can't keep a person from the console or a probe from /ping. All listeners
take their limits from here.
"""

import resource
from dataclasses import dataclass

# Enough for 10,000 clients, as many over HTTP, and disk queues. More costs memory for the kernel's tables, and programs
# that the server starts inherit the limit.
LIMIT_MAX = 65_536
# Logs, journals, consume queues, syncs under way, listening sockets, event loops, pipes, standard streams.
OWN = 80
# A request of the console holds its connection, and while it is answered up to three descriptors of SQLite.
DESCRIPTORS_PER_CONSOLE_CONNECTION = 2
# A share is never smaller, however small the limit is.
SHARE_MIN = 16


@dataclass(frozen=True, slots=True)
class DescriptorShares:
    """limit: descriptors of the process. files: descriptors of disk queues. The others are connections at once;
    console: 0 where none runs."""

    limit: int
    files: int
    clients: int
    http: int
    console: int

    @classmethod
    def of(cls, limit: int, max_connections: int, *, has_console: bool = True) -> "DescriptorShares":
        """Share `limit` descriptors. max_connections: the wanted number for clients and the HTTP API, each."""
        files = files_share(limit)
        console = max(SHARE_MIN, min(limit // 16, 512)) if has_console else 0
        rest = limit - OWN - files - console * DESCRIPTORS_PER_CONSOLE_CONNECTION
        # Clients come first, but a fifth stays with the HTTP API.
        http = min(max_connections, max(SHARE_MIN, rest // 5, rest - max_connections))
        clients = min(max_connections, max(SHARE_MIN, rest - http))
        return cls(limit, files, clients, http, console)

    def lowered(self, max_connections: int) -> str:
        """A sentence on the shares that `max_connections` became; "" when there are descriptors for all of it."""
        if self.clients >= max_connections and self.http >= max_connections:
            return ""
        for_console = f", {self.console} for the console" if self.console else ""
        return (
            f"--max-connections is {max_connections} and the process may have {self.limit} descriptors: "
            f"{self.clients} connections are for NSQ clients, {self.http} for the HTTP API{for_console}; for more, "
            "raise the hard limit (ulimit -Hn, systemd's LimitNOFILE)"
        )


def files_share(limit: int) -> int:
    """Descriptors that disk queues may hold, of a process that may have `limit`."""
    return max(SHARE_MIN, limit // 8)


def raise_limit() -> int:
    """Raise the process's soft limit of descriptors to the hard one, at most LIMIT_MAX; returns the new limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = LIMIT_MAX if hard == resource.RLIM_INFINITY else min(hard, LIMIT_MAX)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        except (OSError, ValueError):
            pass  # a system that forbids it: the shares are smaller, and all works
    return current_limit()


def current_limit() -> int:
    """Descriptors this process may have, at most LIMIT_MAX."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return LIMIT_MAX if soft == resource.RLIM_INFINITY else min(soft, LIMIT_MAX)
