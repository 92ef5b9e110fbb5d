"""nsqlookupd in this process, behind its real sockets, on a thread of its own."""

import asyncio
import threading
import urllib.request
from types import TracebackType
from typing import Any
from urllib.parse import quote

import orjson
import uvloop

from queue_engine.lookup.options import LookupOptions
from queue_engine.lookup.server import LookupServer
from tests.support.processes.ports import free_ports
from tests.support.waiting import wait_for_async

ANSWER_TIMEOUT_S = 30.0  # for what comes at once, on a machine that may stall


class LookupApi:
    """Requests to an nsqlookupd on loopback, whose ports the subclass knows."""

    tcp_port: int
    http_port: int

    @property
    def tcp_address(self) -> str:
        return f"127.0.0.1:{self.tcp_port}"

    @property
    def http_address(self) -> str:
        return f"127.0.0.1:{self.http_port}"

    def get(self, target: str) -> Any:
        """The JSON of a GET. Raises HTTPError from 400 up."""
        with urllib.request.urlopen(f"http://{self.http_address}{target}", timeout=ANSWER_TIMEOUT_S) as answer:
            return orjson.loads(answer.read())

    def post(self, target: str) -> None:
        request = urllib.request.Request(f"http://{self.http_address}{target}", method="POST")
        urllib.request.urlopen(request, timeout=ANSWER_TIMEOUT_S).close()

    def channels(self, topic: str) -> list[str]:
        found: list[str] = self.get(f"/channels?topic={quote(topic)}")["channels"]
        return found

    def producer_ports(self, topic: str) -> list[int]:
        """The TCP ports of the producers that /lookup names; none for a topic that it does not know."""
        if topic not in self.get("/topics")["topics"]:
            return []
        return [one["tcp_port"] for one in self.get(f"/lookup?topic={quote(topic)}")["producers"]]


class RunningLookup(LookupApi):
    """A LookupServer on loopback ports that it keeps over restarts. Use as a context."""

    def __init__(self, **options: Any) -> None:
        self._options = {"broadcast_address": "127.0.0.1", **options}
        self.tcp_port, self.http_port = free_ports(2)
        self._stop = lambda: None
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        started: threading.Event = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(started,), name="nsqlookupd")
        self._thread.start()
        assert started.wait(ANSWER_TIMEOUT_S), "nsqlookupd did not start"

    def stop(self) -> None:
        if self._thread is not None:
            self._stop()
            self._thread.join(ANSWER_TIMEOUT_S)
            self._thread = None

    def _run(self, started: threading.Event) -> None:
        async def serve() -> None:
            options = LookupOptions(tcp_address=self.tcp_address, http_address=self.http_address, **self._options)
            server = LookupServer(options)
            await server.start()
            stopped = asyncio.Event()
            loop = asyncio.get_running_loop()
            self._stop = lambda: loop.call_soon_threadsafe(stopped.set) and None
            started.set()
            await stopped.wait()
            server.stop()
            await wait_for_async("the connections' end", lambda: not server._tcp._connections)

        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(serve())

    def __enter__(self) -> "RunningLookup":
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
