"""An S3 server on loopback, moto's, behind a proxy that a test can have lose, refuse or hold what it likes."""

import http.client
import logging
import threading
from collections.abc import Callable
from enum import Enum, auto
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from moto.server import ThreadedMotoServer

BUCKET = "lake"
SECRET = "s3cr3t-of-the-test"
KEY_ID = "KEYIDOFTHETEST"
# A held request ends by then, so that no test waits for ever.
HELD_S_MAX = 300


class Fate(Enum):
    """What the proxy does with a request."""

    PASS = auto()
    LOSE_ANSWER = auto()  # the store does it, and nobody hears of it
    CUT = auto()  # it never arrives
    HOLD = auto()  # it arrives, and nobody answers before the store is healed
    BUSY = auto()
    EXPIRED = auto()
    DENIED = auto()
    FULL = auto()


_ANSWERS = {
    Fate.BUSY: (503, "SlowDown", "Please reduce your request rate."),
    Fate.EXPIRED: (400, "ExpiredToken", "The provided token has expired."),
    Fate.DENIED: (403, "AccessDenied", "Access Denied"),
    Fate.FULL: (507, "XMinioStorageFull", "Storage backend has reached its minimum free drive threshold."),
}


class ObjectStore:
    """fate: decides for each request, by its method and path; called in the proxy's threads. requests: all so far."""

    def __init__(self) -> None:
        logging.getLogger("werkzeug").setLevel(logging.ERROR)
        self._moto = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
        self._moto.start()
        self.address = self._moto.get_host_and_port()
        self.fate: Callable[[str, str], Fate] = lambda method, path: Fate.PASS
        self.requests: list[tuple[str, str]] = []
        self.healed = threading.Event()
        self._proxy = ThreadingHTTPServer(("127.0.0.1", 0), _handler_of(self))
        self._proxy.daemon_threads = True
        threading.Thread(target=self._proxy.serve_forever, args=(0.01,), daemon=True).start()
        self.url = f"http://127.0.0.1:{self._proxy.server_port}"
        self.request("PUT", f"/{BUCKET}")

    @property
    def environment(self) -> dict[str, str]:
        """For a process that is to use it."""
        return {
            "AWS_ACCESS_KEY_ID": KEY_ID,
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "AWS_ENDPOINT_URL": self.url,
            "AWS_REGION": "us-east-1",
            "AWS_EC2_METADATA_DISABLED": "true",
        }

    def heal(self) -> None:
        """Let everything pass from now on, and forget the requests so far."""
        self.fate = lambda method, path: Fate.PASS
        self.requests = []
        self.healed.set()
        self.healed = threading.Event()

    def request(self, method: str, path: str, body: bytes = b"", headers: dict[str, str] | None = None) -> bytes:
        """Ask the store itself. Returns the answer's body."""
        return self._ask(method, path, body, headers or {})[2]

    def close(self) -> None:
        self.healed.set()
        self._proxy.shutdown()
        self._proxy.server_close()
        self._moto.stop()

    def _ask(
        self, method: str, path: str, body: bytes, headers: dict[str, str]
    ) -> tuple[int, list[tuple[str, str]], bytes]:
        connection = http.client.HTTPConnection(*self.address, timeout=60)
        try:
            connection.request(method, path, body, headers)
            answer = connection.getresponse()
            return answer.status, answer.getheaders(), answer.read()
        finally:
            connection.close()


def _handler_of(store: ObjectStore) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True
        wbufsize = -1  # an answer is written as a whole

        def _handle(self) -> None:
            try:
                body = self._body()
            except (ValueError, OSError):
                # The client was killed while it sent it.
                self.close_connection = True
                return
            store.requests.append((self.command, self.path))
            fate, healed = store.fate(self.command, self.path), store.healed
            if fate in _ANSWERS:
                status, code, text = _ANSWERS[fate]
                xml = f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>{text}</Message></Error>".encode()
                self._answer(status, [("Content-Type", "application/xml")], b"" if self.command == "HEAD" else xml)
                return
            if fate is Fate.HOLD:
                healed.wait(HELD_S_MAX)
                self.close_connection = True
                return
            if fate is not Fate.CUT:
                status, headers, data = store._ask(self.command, self.path, body, dict(self.headers.items()))
            if fate is not Fate.PASS:
                self.close_connection = True
                return
            self._answer(status, headers, data)

        do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = _handle

        def _body(self) -> bytes:
            if self.headers.get("Expect", "").lower() == "100-continue":
                pass  # the base class has answered
            if self.headers.get("Transfer-Encoding", "").lower() != "chunked":
                length = int(self.headers.get("Content-Length") or 0)
                body = self.rfile.read(length)
                if len(body) < length:
                    raise ValueError("the client was cut off")
                return body
            data = b""
            while size := int(self.rfile.readline().split(b";")[0], 16):
                data += self.rfile.read(size)
                self.rfile.readline()
            while self.rfile.readline().strip():
                pass
            del self.headers["Transfer-Encoding"]
            self.headers["Content-Length"] = str(len(data))
            return data

        def _answer(self, status: int, headers: list[tuple[str, str]], data: bytes) -> None:
            self.send_response_only(status)
            for name, value in headers:
                if name.lower() not in ("connection", "transfer-encoding", "content-length"):
                    self.send_header(name, value)
            length = next((value for name, value in headers if name.lower() == "content-length"), str(len(data)))
            self.send_header("Content-Length", length if self.command == "HEAD" else str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: object) -> None:
            pass

    return Handler
