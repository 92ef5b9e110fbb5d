"""A proxy before an engine's HTTP API that counts requests: a test sees whether a reader used HTTP."""

import http.client
import threading
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from urllib.parse import urlsplit


class CountingProxy:
    """On a free loopback port, in threads of its own. Use as a context.

    answered_bytes: of bodies of answers, by path.
    """

    def __init__(self, backend_port: int) -> None:
        self.answered_bytes: Counter[str] = Counter()
        mutex = threading.Lock()

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def setup(self) -> None:
                super().setup()
                self._backend = http.client.HTTPConnection("127.0.0.1", backend_port, timeout=60)

            def finish(self) -> None:
                self._backend.close()
                super().finish()

            def _pass_on(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                try:
                    self._backend.request(self.command, self.path, body=body)
                    answer = self._backend.getresponse()
                    data = answer.read()
                except (http.client.RemoteDisconnected, ConnectionError):
                    # The engine closes connections that were idle: so does this one, and the client asks again.
                    self.close_connection = True
                    return
                with mutex:
                    proxy.answered_bytes[urlsplit(self.path).path] += len(data)
                self.send_response(answer.status)
                for name, value in answer.getheaders():
                    if name.lower().startswith(("content-type", "x-")):
                        self.send_header(name, value)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            do_GET = do_POST = _pass_on

            def log_message(self, *_: object) -> None:
                pass

        proxy = self
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> "CountingProxy":
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
