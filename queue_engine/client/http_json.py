"""Calls to nsqd's and nsqlookupd's HTTP APIs, within a deadline and a size: GET of JSON, and POST of acts."""

import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

import aiohttp
import orjson
from aiohttp.abc import AbstractResolver

from queue_engine.client.connection import connect_reason
from queue_engine.vocabulary.errors import PenstockError

ANSWER_BYTES_MAX = 64 << 20  # /stats of ten thousand channels has about 9 MB
# Of an answer of the greatest size. A value takes 64 bytes and more of memory: 64 MB of "[]," would take 1.5 GB.
BYTES_OF_A_VALUE = 16
REDIRECTS_MAX = 3
_DETAIL_HEADER = "X-Penstock-Detail"  # where a server of ours has more than nsqd's word
_DETAIL_LENGTH_MAX = 500
_TEXT_LENGTH_MAX = 2_000


class UnreachableError(PenstockError):
    """There was no answer, or none that could be read; the text names the URL and the reason. is_sent: whether the
    server may have got the request, so that an act may have been done."""

    def __init__(self, text: str, *, is_sent: bool = True) -> None:
        super().__init__(text)
        self.is_sent = is_sent


class HttpRefusedError(PenstockError):
    """An answer other than 200. status: its status. word: nsqd's for it, such as TOPIC_NOT_FOUND; "" without one.
    detail: a sentence, where the server has more to say. body: the answer's bytes."""

    def __init__(self, url: str, status: int, word: str = "", detail: str = "", body: bytes = b"") -> None:
        super().__init__(": ".join(filter(None, (f"{url} answered {status}", word, detail))))
        self.status = status
        self.word = word
        self.detail = detail
        self.body = body


@dataclass(frozen=True, slots=True)
class JsonAnswer:
    """An answer of 200. date: its header of this name, "" for none."""

    document: Any
    date: str


class HttpJson:
    """Calls HTTP APIs. `async with HttpJson(…) as http`; belongs to one event loop."""

    def __init__(
        self,
        *,
        timeout_s: float = 5.0,
        connect_timeout_s: float | None = None,
        tls: ssl.SSLContext | None = None,
        token: str = "",
        resolver: AbstractResolver | None = None,
        redirects_max: int = REDIRECTS_MAX,
        answer_bytes_max: int = ANSWER_BYTES_MAX,
    ) -> None:
        """timeout_s: for the whole answer. connect_timeout_s: for connecting; None for `timeout_s`. tls: for https.
        token: sent as Bearer where `get` may send it, "" for none; with `tls` never without it. resolver: finds the
        addresses of host names; None for the system's. redirects_max: 0 for none, then a redirect is refused."""
        self._timeout = aiohttp.ClientTimeout(total=timeout_s, sock_connect=connect_timeout_s)
        self._timeout_s = timeout_s
        self._connect_timeout_s = timeout_s if connect_timeout_s is None else connect_timeout_s
        self._tls = tls
        self._token = token
        self._resolver = resolver
        self._redirects_max = redirects_max
        self._answer_bytes_max = answer_bytes_max
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> "HttpJson":
        self._session = aiohttp.ClientSession(
            timeout=self._timeout,
            connector=aiohttp.TCPConnector(ssl=self._tls if self._tls is not None else True, resolver=self._resolver),
            # Some KB would become as many MB before their size is seen.
            auto_decompress=False,
            # A server's cookies would go to all servers of its domain.
            cookie_jar=aiohttp.DummyCookieJar(),
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._session is not None
        await self._session.close()

    async def get(
        self, url: str, query: Mapping[str, str] | None = None, *, sends_token: bool = False, token: str = ""
    ) -> Any:
        """The answer's document. sends_token: for the API of an nsqd; an nsqlookupd needs none. token: to send instead,
        whatever the scheme. Raises UnreachableError or HttpRefusedError."""
        return (await self.dated(url, query, sends_token=sends_token, token=token)).document

    async def dated(
        self,
        url: str,
        query: Mapping[str, str] | None = None,
        *,
        sends_token: bool = False,
        token: str = "",
        headers: Mapping[str, str] | None = None,
    ) -> JsonAnswer:
        """As `get`, with the date."""
        if self._token and sends_token and (self._tls is None or url.startswith("https://")):
            token = self._token
        body, date = await self._answer("GET", url, query, token, further=headers)
        if sum(map(body.count, b",[{")) > self._answer_bytes_max // BYTES_OF_A_VALUE:
            raise UnreachableError(f"{url} answered with too many values")
        try:
            return JsonAnswer(orjson.loads(body), date)
        except orjson.JSONDecodeError as exc:
            raise UnreachableError(f"{url} answered with no JSON") from exc

    async def post(
        self,
        url: str,
        query: Mapping[str, str] | None = None,
        *,
        body: bytes = b"",
        token: str = "",
        content_type: str = "",
        headers: Mapping[str, str] | None = None,
    ) -> bytes:
        """The answer's body, which acts leave empty. It is sent once. Raises UnreachableError or HttpRefusedError."""
        return bytes((await self._answer("POST", url, query, token, body, content_type, headers))[0])

    async def _answer(
        self,
        method: str,
        url: str,
        query: Mapping[str, str] | None,
        token: str,
        sent: bytes | None = None,
        content_type: str = "",
        further: Mapping[str, str] | None = None,
    ) -> tuple[bytearray, str]:
        """Its body and its date."""
        assert self._session is not None
        bytes_max = self._answer_bytes_max
        # An nsqlookupd before 1.0 wraps its answers unless the request accepts those of 1.0.
        headers = {"Accept": "application/vnd.nsq; version=1.0", "Accept-Encoding": "identity", **(further or {})}
        if token:
            headers["Authorization"] = f"Bearer {token}"
        if content_type:
            headers["Content-Type"] = content_type
        try:
            async with self._session.request(
                method,
                url,
                params=query,
                data=sent,
                headers=headers,
                # A redirected POST would be sent twice.
                allow_redirects=self._redirects_max > 0 and method == "GET",
                max_redirects=max(1, self._redirects_max),
            ) as response:
                body = bytearray()
                if (response.content_length or 0) > bytes_max:
                    raise UnreachableError(f"{url} answered with more than {bytes_max} bytes")
                async for part in response.content.iter_any():
                    body += part
                    if len(body) > bytes_max:
                        raise UnreachableError(f"{url} answered with more than {bytes_max} bytes")
        except aiohttp.ConnectionTimeoutError as exc:
            took = f"within {self._connect_timeout_s:g} s"
            raise UnreachableError(f"{url} can't be reached: no connection {took}", is_sent=False) from exc
        except TimeoutError as exc:
            raise UnreachableError(f"{url} did not answer within {self._timeout_s:g} s") from exc
        except aiohttp.ClientConnectorError as exc:
            reason = connect_reason(exc.os_error)
            raise UnreachableError(f"{url} can't be reached: {reason}", is_sent=False) from exc
        except (aiohttp.ClientError, OSError, ValueError) as exc:
            raise UnreachableError(f"{url} can't be reached: {_one_line(str(exc))[:_DETAIL_LENGTH_MAX]}") from exc
        if response.status != 200:
            detail = _one_line(unquote(response.headers.get(_DETAIL_HEADER, ""))[:_DETAIL_LENGTH_MAX])
            raise HttpRefusedError(url, response.status, _message_in(body), detail, bytes(body))
        return body, response.headers.get("Date", "")


def list_in(document: Any, name: str) -> list[Any]:
    """The list called `name` of an answer, also below "data", as servers before 1.0 answer; [] for another form."""
    for place in (document, document.get("data") if isinstance(document, dict) else None):
        if isinstance(place, dict) and isinstance(place.get(name), list):
            return list(place[name])
    return []


def _message_in(body: bytes | bytearray) -> str:
    try:
        document = orjson.loads(body)
    except orjson.JSONDecodeError:
        return ""
    message = document.get("message") if isinstance(document, dict) else None
    return _one_line(message[:200]) if isinstance(message, str) else ""


def _one_line(text: str) -> str:
    """A server's text for a sentence, in a log or on a page: an error of aiohttp repeats a line of 64 KB."""
    return " ".join("".join(one if one.isprintable() else " " for one in text[:_TEXT_LENGTH_MAX]).split())
