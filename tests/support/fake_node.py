"""A node or nsqlookupd of another kind: a real HTTP server on loopback that answers as the test says."""

import json
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any
from urllib.parse import parse_qsl, urlsplit

Answer = bytes | tuple[int, dict[str, str], bytes | Iterator[bytes]] | Callable[[], "Answer"] | dict[str, Any]


@dataclass(frozen=True)
class Request:
    """What a caller sent."""

    method: str
    path: str
    query: dict[str, str]
    body: bytes = b""


@dataclass
class FakeNode:
    """Use as a context. answers: by path; a document, a body, a status with headers and a body, whole or in parts, or
    what makes one of them, which may wait as long as the test wants. requests: each path with its query, and its
    headers. acts: each POST. delay_s: before each answer. failing: instead of all answers. clock_s: how far the Date of
    its answers is ahead. tls: for HTTPS."""

    answers: dict[str, Answer] = field(default_factory=dict)
    port: int = 0
    requests: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    acts: list[Request] = field(default_factory=list)
    delay_s: float = 0.0
    failing: Answer | None = None
    clock_s: float = 0.0
    tls: ssl.SSLContext | None = None

    def answer_to(self, request: Request) -> Answer:
        """For those that keep a state; here `answers` alone."""
        return self.answers.get(request.path, (404, {}, b'{"message":"NOT_FOUND"}'))

    def __enter__(self) -> "FakeNode":
        outer = self
        is_over = self._is_over = threading.Event()

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.requests.append((self.path, dict(self.headers.items())))
                parts = urlsplit(self.path)
                body_sent = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                request = Request(self.command, parts.path, dict(parse_qsl(parts.query)), body_sent)
                if self.command == "POST":
                    outer.acts.append(request)
                is_over.wait(outer.delay_s)
                answer = outer.answer_to(request) if outer.failing is None else outer.failing
                while callable(answer):
                    answer = answer()
                if isinstance(answer, dict):
                    answer = json.dumps(answer).encode()
                status, headers, body = answer if isinstance(answer, tuple) else (200, {}, answer)
                self.send_response(status)
                if isinstance(body, bytes):
                    headers = {"Content-Length": str(len(body)), **headers}
                for name, value in headers.items():
                    self.send_header(name, value)
                self.end_headers()
                for part in (body,) if isinstance(body, bytes) else body:
                    self.wfile.write(part)

            do_POST = do_GET

            def date_time_string(self, timestamp: float | None = None) -> str:
                return super().date_time_string(timestamp or time.time() + outer.clock_s)

            def log_message(self, format: str, *args: object) -> None:
                pass

        class Server(ThreadingHTTPServer):
            request_queue_size = 64

            def handle_error(self, request: object, client_address: object) -> None:
                """A caller that went away early is what some tests are about."""

        self._server = Server(("127.0.0.1", self.port), Handler)
        self._server.daemon_threads = True
        if self.tls is not None:
            self._server.socket = self.tls.wrap_socket(self._server.socket, server_side=True)
        self.port = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), name="fake-node")
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._is_over.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def answer_as_nsqd(self, *topics: dict[str, Any], version: str = "1.3.0", started_s: int = 1_700_000_000) -> None:
        """Answer /info and /stats as an nsqd does that has these topics, whatever the query."""
        self.answers["/info"] = info(self.port, version=version, started_s=started_s)
        self.answers["/stats"] = {"version": version, "health": "OK", "start_time": started_s, "topics": list(topics)}

    def answer_as_lookupd(self, *nodes: "FakeNode", topics: tuple[str, ...] = ()) -> None:
        """Answer /nodes as an nsqlookupd does at which these nodes registered these topics."""
        self.answers["/nodes"] = {"producers": [producer(node.port, topics=topics) for node in nodes]}


def info(port: int, *, version: str, started_s: int) -> dict[str, Any]:
    """An nsqd's /info."""
    return {
        "version": version,
        "broadcast_address": "127.0.0.1",
        "hostname": f"host-{port}",
        "http_port": port,
        "tcp_port": 4150,
        "start_time": started_s,
    }


def producer(
    http_port: Any, *, address: Any = "127.0.0.1", topics: tuple[str, ...] = (), **fields: Any
) -> dict[str, Any]:
    """An entry of an nsqlookupd's /nodes."""
    return {
        "remote_address": "127.0.0.1:50000",
        "hostname": f"host-{http_port}",
        "broadcast_address": address,
        "tcp_port": 4150,
        "http_port": http_port,
        "version": "1.3.0",
        "tombstones": [False] * len(topics),
        "topics": list(topics),
        **fields,
    }
