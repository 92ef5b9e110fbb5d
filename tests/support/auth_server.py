"""An auth server of nsqd's kind: a real HTTP server on loopback that answers as the test says."""

import json
import socketserver
import ssl
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from types import TracebackType
from typing import Any
from urllib.parse import parse_qs, urlsplit

EVERYTHING = {"topic": ".*", "channels": [".*"], "permissions": ["subscribe", "publish"]}


def granted(*authorizations: dict[str, Any], ttl: Any = 3600, identity: str = "deploy", url: str = "") -> bytes:
    """An answer that allows these."""
    return json.dumps(
        {"ttl": ttl, "identity": identity, "identity_url": url, "authorizations": list(authorizations)}
    ).encode()


_ALL = granted(EVERYTHING)


@dataclass
class Question:
    """What the server was asked. fields: each with its one value."""

    method: str
    path: str
    fields: dict[str, str]


@dataclass
class AuthServer:
    """Use as a context. answer: the body for each question, a status with headers and a body, or what makes one of
    them; a callable may wait as long as the test wants."""

    answer: bytes | tuple[int, dict[str, str], bytes] | Callable[[Question], bytes] = _ALL
    tls: ssl.SSLContext | None = None
    questions: list[Question] = field(default_factory=list)

    def __enter__(self) -> "AuthServer":
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def _handle(self, raw: str) -> None:
                values = parse_qs(raw, keep_blank_values=True, strict_parsing=bool(raw))
                question = Question(
                    self.command, urlsplit(self.path).path, {name: one for name, (one,) in values.items()}
                )
                outer.questions.append(question)
                answer = outer.answer(question) if callable(outer.answer) else outer.answer
                status, headers, body = answer if isinstance(answer, tuple) else (200, {}, answer)
                self.send_response(status)
                for name, value in {"Content-Length": str(len(body)), **headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)

            def do_GET(self) -> None:
                self._handle(urlsplit(self.path).query)

            def do_POST(self) -> None:
                assert self.headers["Content-Type"] == "application/x-www-form-urlencoded"
                self._handle(self.rfile.read(int(self.headers["Content-Length"])).decode())

            def log_message(self, format: str, *args: Any) -> None:
                pass

        class Server(socketserver.ThreadingTCPServer):
            daemon_threads = True
            allow_reuse_address = True

            def handle_error(self, request: Any, client_address: Any) -> None:
                pass  # a client that did not wait for the answer

        self._server = Server(("127.0.0.1", 0), Handler)
        if self.tls is not None:
            self._server.socket = self.tls.wrap_socket(self._server.socket, server_side=True)
        self.port = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        self._thread.start()
        return self

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def secrets(self) -> Iterable[str]:
        return [question.fields["secret"] for question in self.questions]

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
