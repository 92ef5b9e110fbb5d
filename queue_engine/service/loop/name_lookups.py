"""Looks host names up on threads of its own: a name server that does not answer holds up neither the loop nor its end.

The loop's own lookups would: uvloop has four threads for all of them, and a loop that ends waits for each.
"""

import asyncio
import contextlib
import socket
import threading
from collections.abc import Callable
from typing import Any, Generic, TypeVar

Found = TypeVar("Found")

# Family, socket type, protocol, canonical name, address; as socket.getaddrinfo has it.
SocketAddress = tuple[Any, ...]


def tcp_addresses(host: str, port: int) -> list[SocketAddress]:
    """The addresses of a host, at least one. Raises OSError or UnicodeError for an unknown host. May take long."""
    return list(socket.getaddrinfo(host, port, type=socket.SOCK_STREAM))


class NameLookups(Generic[Found]):
    """Belongs to one event loop. resolve: takes host and port, on a thread; may raise OSError or UnicodeError."""

    def __init__(self, resolve: Callable[[str, int], Found]) -> None:
        self._resolve = resolve
        self._under_way: dict[tuple[str, int], asyncio.Future[Found]] = {}

    async def find(self, host: str, port: int, within_s: float) -> Found:
        """The result of `resolve`. Raises its errors as OSError, and TimeoutError; then the lookup goes on, and the
        next call for this name waits for the same one."""
        name = (host, port)
        looking_up = self._under_way.get(name)
        if looking_up is None:
            looking_up = self._under_way[name] = self._on_a_thread(name)
        done, _ = await asyncio.wait([looking_up], timeout=within_s)
        if not done:
            raise TimeoutError(f"no answer within {within_s:g} s")
        if self._under_way.get(name) is looking_up:
            del self._under_way[name]
        return looking_up.result()

    def _on_a_thread(self, name: tuple[str, int]) -> "asyncio.Future[Found]":
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Found] = loop.create_future()
        # The caller may be gone: asyncio would log the error then.
        future.add_done_callback(lambda done: done.cancelled() or done.exception())

        def work() -> None:
            try:
                found = self._resolve(*name)
            except (OSError, UnicodeError) as exc:
                error = exc if isinstance(exc, OSError) else OSError(str(exc))
                settle: Callable[[], None] = lambda: future.set_exception(error)  # noqa: E731
            else:
                settle = lambda: future.set_result(found)  # noqa: E731
            with contextlib.suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(settle)

        # A daemon: looking up may take longer than the server's stop.
        threading.Thread(target=work, name="penstock-names", daemon=True).start()
        return future
