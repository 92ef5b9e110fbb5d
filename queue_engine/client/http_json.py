"""GET of JSON from nsqd's and nsqlookupd's HTTP APIs, within a deadline and a size."""

import json
import ssl
from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote

import aiohttp

from queue_engine.client.connection import connect_reason
from queue_engine.vocabulary.errors import PenstockError

ANSWER_BYTES_MAX = 64 << 20  # /stats of ten thousand channels has about 9 MB
REDIRECTS_MAX = 3
_DETAIL_HEADER = "X-Penstock-Detail"  # where a server of ours has more than nsqd's word
_DETAIL_LENGTH_MAX = 500


class UnreachableError(PenstockError):
    """There was no answer, or none that could be read; the text names the URL and the reason."""


class HttpRefusedError(PenstockError):
    """An answer other than 200. status: its status."""

    def __init__(self, url: str, status: int, text: str) -> None:
        super().__init__(f"{url} answered {status}" + (f": {text}" if text else ""))
        self.status = status


class HttpJson:
    """Reads JSON from HTTP APIs. `async with HttpJson(…) as http`; belongs to one event loop."""

    def __init__(self, *, timeout_s: float = 5.0, tls: ssl.SSLContext | None = None, token: str = "") -> None:
        """timeout_s: for connecting, and for the whole answer. tls: for https. token: sent as Bearer where `get` may
        send it, "" for none; with `tls` never without it."""
        self._timeout_s = timeout_s
        self._tls = tls
        self._token = token
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> "HttpJson":
        self._session = aiohttp.ClientSession(
            timeout=aiohttp.ClientTimeout(total=self._timeout_s),
            connector=aiohttp.TCPConnector(ssl=self._tls if self._tls is not None else True),
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._session is not None
        await self._session.close()

    async def get(self, url: str, query: Mapping[str, str] | None = None, *, sends_token: bool = False) -> Any:
        """The answer's document. sends_token: for the API of an nsqd; an nsqlookupd needs none. Raises UnreachableError
        or HttpRefusedError."""
        assert self._session is not None
        # An nsqlookupd before 1.0 wraps its answers unless the request accepts those of 1.0.
        headers = {"Accept": "application/vnd.nsq; version=1.0"}
        if self._token and sends_token and (self._tls is None or url.startswith("https://")):
            headers["Authorization"] = f"Bearer {self._token}"
        try:
            async with self._session.get(url, params=query, headers=headers, max_redirects=REDIRECTS_MAX) as response:
                body = await response.content.read(ANSWER_BYTES_MAX + 1)
                while not response.content.at_eof() and len(body) <= ANSWER_BYTES_MAX:
                    body += await response.content.read(ANSWER_BYTES_MAX + 1 - len(body))
        except TimeoutError as exc:
            raise UnreachableError(f"{url} did not answer within {self._timeout_s:g} s") from exc
        except aiohttp.ClientConnectorError as exc:
            raise UnreachableError(f"{url} can't be reached: {connect_reason(exc.os_error)}") from exc
        except (aiohttp.ClientError, OSError, ValueError) as exc:
            raise UnreachableError(f"{url} can't be reached: {exc}") from exc
        if len(body) > ANSWER_BYTES_MAX:
            raise UnreachableError(f"{url} answered with more than {ANSWER_BYTES_MAX} bytes")
        if response.status != 200:
            detail = unquote(response.headers.get(_DETAIL_HEADER, ""))[:_DETAIL_LENGTH_MAX]
            texts = (_message_in(body), detail.replace("\r", " ").replace("\n", " "))
            raise HttpRefusedError(url, response.status, ": ".join(filter(None, texts)))
        try:
            document = json.loads(body)
        except (ValueError, RecursionError) as exc:
            raise UnreachableError(f"{url} answered with no JSON") from exc
        return document


def list_in(document: Any, name: str) -> list[Any]:
    """The list called `name` of an answer, also below "data", as servers before 1.0 answer; [] for another form."""
    for place in (document, document.get("data") if isinstance(document, dict) else None):
        if isinstance(place, dict) and isinstance(place.get(name), list):
            return list(place[name])
    return []


def _message_in(body: bytes) -> str:
    try:
        document = json.loads(body)
    except (ValueError, RecursionError):
        return ""
    message = document.get("message") if isinstance(document, dict) else None
    return message[:200] if isinstance(message, str) else ""
