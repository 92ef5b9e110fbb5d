"""A browser's part in small: logs in to the console, keeps its cookies, sends forms with their token."""

import html
import http.client
import re
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from http.cookies import Morsel, SimpleCookie
from urllib.parse import urlencode

from tests.support.processes.engine_api import ANSWER_TIMEOUT_S
from tests.support.processes.server import ADMIN_PASSWORD, ADMIN_USER

_TOKEN = re.compile(r'name="csrfmiddlewaretoken" value="([^"]+)"')
_SUBSCRIPTION = re.compile(r'data-subscribe=(?:"([^"]*)"|\'([^\']*)\')')


@dataclass(frozen=True)
class Answer:
    """Status, headers (by lower-case name) and body of one answer."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode()


class _NamedServer(http.client.HTTPSConnection):
    """HTTPS to loopback with the name of another host, which its certificate has to have."""

    def __init__(
        self, name: str, port: int, *, context: ssl.SSLContext, source_address: tuple[str, int] | None
    ) -> None:
        super().__init__("127.0.0.1", port, timeout=ANSWER_TIMEOUT_S, context=context, source_address=source_address)
        self._name = name
        self._tls = context

    def connect(self) -> None:
        http.client.HTTPConnection.connect(self)
        self.sock = self._tls.wrap_socket(self.sock, server_hostname=self._name)


class ConsoleClient:
    """One session over one kept connection. Not for several threads at once.

    tls: makes it HTTPS; host: what stands in the Host header and in the origin, when it is not the address; source: the
    loopback address that it connects from; headers: goes with each request;
    root: the path of the console's first page.
    """

    def __init__(
        self,
        port: int,
        *,
        tls: ssl.SSLContext | None = None,
        host: str = "",
        source: str = "",
        headers: Mapping[str, str] | None = None,
        root: str = "/",
    ) -> None:
        self.host = host or f"127.0.0.1:{port}"
        self.origin = f"{'https' if tls else 'http'}://{self.host}"
        self.cookies: dict[str, Morsel[str]] = {}
        self._root = root
        self._headers = dict(headers or {})
        source_address = (source, 0) if source else None
        self._connection: http.client.HTTPConnection = (
            _NamedServer(self.host.partition(":")[0], port, context=tls, source_address=source_address)
            if tls
            else http.client.HTTPConnection("127.0.0.1", port, timeout=ANSWER_TIMEOUT_S, source_address=source_address)
        )

    @property
    def cookie(self) -> str:
        """The Cookie header of this session."""
        return "; ".join(f"{name}={morsel.value}" for name, morsel in self.cookies.items())

    def get(self, path: str) -> Answer:
        return self._ask("GET", path, b"", {})

    def post(self, path: str, fields: dict[str, str], *, form_path: str) -> Answer:
        """Send a form as the page at `form_path` would: its token and its origin with it."""
        return self.send(path, self.form(form_path) | fields)

    def form(self, path: str) -> dict[str, str]:
        """The fields that the form at `path` sends by itself: its CSRF token."""
        token = _TOKEN.search(self.get(path).text)
        assert token is not None, f"no form at {path}"
        return {"csrfmiddlewaretoken": token[1]}

    def send(self, path: str, fields: dict[str, str]) -> Answer:
        """POST all of a form."""
        headers = {
            "Content-Type": "application/x-www-form-urlencoded",
            "Origin": self.origin,
            "Referer": self.origin + path,
        }
        return self._ask("POST", path, urlencode(fields).encode(), headers)

    def log_in(self, user: str = ADMIN_USER, password: str = ADMIN_PASSWORD) -> None:
        """Raises AssertionError with the page when it is refused."""
        path = f"{self._root}login/"
        answer = self.post(path, {"username": user, "password": password}, form_path=path)
        assert answer.status == 302, answer.text

    def subscription(self, path: str) -> str:
        """The JSON that the page at `path` sends to its socket."""
        found = _SUBSCRIPTION.search(self.get(path).text)
        assert found is not None, f"no live page at {path}"
        return html.unescape(found[1] or found[2])

    def _ask(self, method: str, path: str, body: bytes, headers: dict[str, str]) -> Answer:
        headers = {"Host": self.host, "Cookie": self.cookie, **self._headers, **headers}
        self._connection.request(method, path, body or None, headers)
        with self._connection.getresponse() as response:
            for line in response.headers.get_all("Set-Cookie", []):
                for name, morsel in SimpleCookie(line).items():
                    self.cookies[name] = morsel
            return Answer(
                response.status, {name.lower(): value for name, value in response.headers.items()}, response.read()
            )

    def close(self) -> None:
        self._connection.close()
