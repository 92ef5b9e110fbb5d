"""Requests a client's permissions from auth servers, as nsqd does.

    GET  /auth?common_name=…&remote_ip=…&secret=…&tls=true|false      --auth-http-request-method get
    POST /auth, the same as a form                                    --auth-http-request-method post

An answer with another status than 200 is a refusal, and so is a redirect: an auth server could send the secret to any
address of this network otherwise. Any trouble with one server moves the question to the next.
"""

import asyncio
import itertools
import logging
import ssl
from functools import partial
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from queue_engine.service.identity.auth_answer import AnswerError, parse_answer
from queue_engine.service.identity.authorization import Authorization
from queue_engine.service.identity.gate import Peer, SecretRefusedError
from queue_engine.service.tls.replaceable import MadeOfFiles
from queue_engine.vocabulary.clock import Clock
from queue_engine.vocabulary.errors import PenstockError
from queue_engine.vocabulary.options.addresses import auth_url

if TYPE_CHECKING:
    import aiohttp

logger = logging.getLogger(__name__)

ANSWER_BYTES_MAX = 1 << 20
SECRET_BYTES_MAX = 4 << 10
# Questions at once; further ones wait, so that a storm of reconnects is no storm at the auth server.
QUESTIONS_MAX = 64


class AuthServers:
    """The servers of --auth-http-address. Belongs to the engine's thread."""

    def __init__(
        self,
        addresses: tuple[str, ...],
        clock: Clock,
        *,
        method: str = "get",
        connect_timeout_ms: int,
        request_timeout_ms: int,
        root_ca_file: str = "",
    ) -> None:
        """addresses: HOST:PORT or a URL. root_ca_file: the authorities whose certificates count, "" for the
        system's. Raises PenstockError when that file can't be used."""
        self._urls = tuple(auth_url(address) for address in addresses)
        self._clock = clock
        self._method = method
        self._connect_s = connect_timeout_ms / 1000
        self._request_s = request_timeout_ms / 1000
        self._tls = (
            MadeOfFiles([root_ca_file], partial(_trusting, root_ca_file), subject="the authorities of auth servers")
            if root_ca_file
            else None
        )
        self._turn = itertools.count()
        self._places = asyncio.Semaphore(QUESTIONS_MAX)
        self._session: aiohttp.ClientSession | None = None

    async def request(self, secret: bytes, peer: Peer) -> Authorization:
        """The first server's answer that counts. Raises SecretRefusedError with each server's reason."""
        if len(secret) > SECRET_BYTES_MAX:
            raise SecretRefusedError(f"the secret has {len(secret)} bytes and the most is {SECRET_BYTES_MAX}")
        fields = urlencode(
            {
                "common_name": peer.common_name,
                "remote_ip": peer.remote_ip,
                "secret": secret,
                "tls": "true" if peer.is_tls else "false",
            }
        )
        # The load is shared out: the next question begins with the next server.
        first = next(self._turn) % len(self._urls)
        complaints: list[str] = []
        async with self._places:
            for url in self._urls[first:] + self._urls[:first]:
                try:
                    return parse_answer(await self._answer(url, fields), self._clock.monotonic_ns())
                except AnswerError as exc:
                    complaints.append(f"{url}: {exc}")
                except SecretRefusedError as exc:
                    complaints.append(f"{url} {exc}")
        raise SecretRefusedError("; ".join(complaints))

    def read_again(self) -> None:
        """Read the authorities again, whatever their file looks like, and log how it went."""
        if self._tls is not None:
            self._tls.read_again()

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()

    async def _answer(self, url: str, fields: str) -> bytes:
        """The body of the server's answer. Raises SecretRefusedError."""
        # Imported here: a start without auth servers need not wait for it.
        import aiohttp
        from yarl import URL

        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=QUESTIONS_MAX),
                cookie_jar=aiohttp.DummyCookieJar(),
                timeout=aiohttp.ClientTimeout(total=self._request_s, sock_connect=self._connect_s),
            )
        is_post = self._method == "post"
        question = self._session.request(
            self._method.upper(),
            URL(url if is_post else f"{url}{'&' if '?' in url else '?'}{fields}", encoded=True),
            data=fields.encode() if is_post else None,
            headers={"Content-Type": "application/x-www-form-urlencoded"} if is_post else None,
            allow_redirects=False,
            ssl=True if self._tls is None else self._tls.current(),
        )
        try:
            async with question as response:
                if response.status != 200:
                    raise SecretRefusedError(f"answered {response.status}")
                body = bytearray()
                async for part in response.content.iter_any():
                    body += part
                    if len(body) > ANSWER_BYTES_MAX:
                        raise SecretRefusedError(f"answered more than {ANSWER_BYTES_MAX} bytes")
                return bytes(body)
        except TimeoutError:
            raise SecretRefusedError(f"did not answer within {self._request_s:g} s") from None
        except aiohttp.ClientConnectorError as exc:
            raise SecretRefusedError(f"can't be reached: {exc.os_error.strerror or type(exc).__name__}") from None
        except (aiohttp.ClientError, OSError) as exc:
            # Not its text, which may have the URL, and with it the secret.
            raise SecretRefusedError(f"did not answer as HTTP wants it: {type(exc).__name__}") from None


def _trusting(root_ca_file: str) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=root_ca_file)
    except OSError as exc:
        raise PenstockError(f"--tls-root-ca-file {root_ca_file} can't be used: {exc.strerror or exc}") from exc
