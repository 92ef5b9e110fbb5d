"""The tokens by which the console calls Penstock nodes, from the file of --node-token-file.

    # comment
    PATTERN TOKEN        a line each; the first whose pattern has the node's host counts

PATTERN is a host name, `*.DOMAIN`, an address, a network or `*`, as --allowed-node has them.
"""

import os
from collections.abc import Callable, Iterable
from functools import partial

from admin_console.cluster.calls.addresses import HttpAddress
from queue_engine.client.secret_hosts import SecretHosts
from queue_engine.service.tls.replaceable import MadeOfFiles

FILE_BYTES_MAX = 1 << 20


class NodeTokens:
    """Tokens by host. Immutable."""

    def __init__(self, lines: Iterable[tuple[SecretHosts, str]] = ()) -> None:
        self._lines = tuple(lines)

    def of(self, address: HttpAddress) -> str:
        """The token to send to this node; "" for none."""
        return next((token for hosts, token in self._lines if hosts.allow(address.host)), "")

    @staticmethod
    def followed(path: str) -> "Callable[[], NodeTokens]":
        """Returns the tokens of the file as it is; a file that can't be used later leaves those before. path: "" for no
        tokens. Raises ValueError with a sentence."""
        if not path:
            return NodeTokens
        file = MadeOfFiles([path], partial(NodeTokens.read, path), subject="the tokens for nodes")
        return file.current

    @classmethod
    def read(cls, path: str) -> "NodeTokens":
        """Read the file. Raises ValueError with a sentence that names the line, never its token."""
        try:
            with open(path, "rb") as file:
                mode = os.fstat(file.fileno()).st_mode
                data = file.read(FILE_BYTES_MAX + 1)
        except OSError as exc:
            raise ValueError(f"{path} can't be read: {exc.strerror or exc}") from exc
        if mode & 0o077:
            raise ValueError(f"{path} can be read or written by other accounts: chmod 600 {path}")
        if len(data) > FILE_BYTES_MAX:
            raise ValueError(f"{path} has more than {FILE_BYTES_MAX} bytes")
        found = []
        for number, raw in enumerate(data.split(b"\n"), start=1):
            line = raw.strip()
            if not line or line.startswith(b"#"):
                continue
            parts = line.split()
            try:
                if len(parts) != 2:
                    raise ValueError("it is not PATTERN TOKEN")
                found.append((SecretHosts([parts[0].decode("ascii")]), parts[1].decode("ascii")))
            except (ValueError, UnicodeDecodeError) as exc:
                reason = exc if not isinstance(exc, UnicodeDecodeError) else "it has other characters than ASCII"
                raise ValueError(f"{path}, line {number}: {reason}") from exc
        return cls(found)
