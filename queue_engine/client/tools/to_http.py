"""Sends each message to HTTP addresses, and finishes it when one has answered 2xx."""

import contextlib
import itertools
import logging
import random
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import quote_from_bytes

import aiohttp
from yarl import URL

from queue_engine.client.subscription import Delivery, Subscription
from queue_engine.client.tools.connecting import Connecting
from queue_engine.client.tools.retries import ATTEMPTS_MAX, BACKOFF_S_MAX, Failure, Retries, touching
from queue_engine.client.tools.running import Counts, Stopping, together

logger = logging.getLogger(__name__)

ANSWER_BYTES_MAX = 1 << 20
# Answers from 400 to 499 refuse the message that was sent, and those from 500 on may come of it. These are about the
# sender, or the time, and not about the message; a redirect is about the place: a site that moved, or that is closed
# for a while.
_NOT_ABOUT_THE_MESSAGE = frozenset((401, 403, 407, 408, 421, 423, 425, 429, 503))


@dataclass(frozen=True, slots=True)
class ToHttpOptions:
    """post, get: URLs, one kind of them; %s in a GET's stands for the message. requests: how many at once.

    sample: the share of messages that are sent, above 0 to 1; the others are finished. headers: name and value.
    attempts_max, backoff_s_max: as `Retries` has them.
    """

    topic: str
    channel: str
    post: Sequence[str] = ()
    get: Sequence[str] = ()
    requests: int = 100
    max_in_flight: int = 200
    sample: float = 1.0
    content_type: str = "application/octet-stream"
    headers: Sequence[tuple[str, str]] = ()
    timeout_s: float = 20.0
    attempts_max: int = ATTEMPTS_MAX
    backoff_s_max: float = BACKOFF_S_MAX

    def check(self) -> None:
        """Raises ValueError with a sentence."""
        if bool(self.post) == bool(self.get):
            raise ValueError("give either --post URL or --get URL, not both")
        for url in (*self.post, *self.get):
            if not url.startswith(("http://", "https://")):
                raise ValueError(f"{url!r} is no http or https URL")
        for url in self.get:
            if url.count("%s") != 1:
                raise ValueError(f"--get {url!r} needs one %s, which stands for the message")
        if not 0 < self.sample <= 1:
            raise ValueError(f"--sample is {self.sample:g}: it is above 0, and 1 at most")


class ToHttp:
    """One run of the tool."""

    def __init__(self, connecting: Connecting, options: ToHttpOptions) -> None:
        self._connecting = connecting
        self._options = options
        self._turns = itertools.count()
        self.counts = Counts("received", "sent", "left out", "requeued", "given up")
        self.retries = Retries(options.attempts_max, options.backoff_s_max)

    async def run(self, stopping: Stopping) -> None:
        """Send until the stop. A message that no address takes is requeued, and less comes until one takes some."""
        options = self._options
        async with (
            self._connecting.source() as source,
            aiohttp.ClientSession(
                timeout=aiohttp.ClientTimeout(total=options.timeout_s),
                connector=aiohttp.TCPConnector(
                    limit=options.requests, ssl=self._connecting.tls if self._connecting.tls is not None else True
                ),
            ) as session,
            Subscription(
                options.topic,
                options.channel,
                source,
                self._connecting.identity("to_http"),
                options.max_in_flight,
                poll_s=self._connecting.poll_s,
            ) as subscription,
        ):
            with stopping.calling(subscription.stop), self.retries.backoff.holding(subscription):
                workers = min(options.requests, options.max_in_flight)
                await together(self._send_forever(subscription, session) for _ in range(workers))

    async def _send_forever(self, subscription: Subscription, session: aiohttp.ClientSession) -> None:
        async for delivery in subscription:
            self.counts.add("received")
            if self._options.sample < 1 and random.random() >= self._options.sample:  # noqa: S311 - a draw, no secret
                delivery.finish()
                self.counts.add("left out")
                continue
            try:
                with touching(delivery):
                    await self._send(delivery, session)
            except _NotTakenError as exc:
                self.counts.add(self.retries.failed(delivery, str(exc), exc.failure))
                continue
            delivery.finish()
            self.counts.add("sent")
            self.retries.succeeded(delivery)

    async def _send(self, delivery: Delivery, session: aiohttp.ClientSession) -> None:
        """Send to each address until one takes it, beginning with another each time.

        Raises _NotTakenError: refused when all addresses refuse.
        """
        urls = self._options.post or self._options.get
        first = next(self._turns)
        reasons, failure = [], Failure.REFUSED
        for step in range(len(urls)):
            url = urls[(first + step) % len(urls)]
            try:
                await self._send_to(url, delivery.message.body, session)
                return
            except _NotTakenError as exc:
                reasons.append(f"{url} {exc}")
                failure = failure.combined_with(exc.failure)
        raise _NotTakenError("; ".join(reasons), failure)

    async def _send_to(self, url: str, body: bytes, session: aiohttp.ClientSession) -> None:
        options = self._options
        headers = dict(options.headers)
        try:
            if options.post:
                headers.setdefault("Content-Type", options.content_type)
                request = session.post(url, data=body, headers=headers, allow_redirects=False)
            else:
                request = session.get(
                    URL(url.replace("%s", quote_from_bytes(body, safe="")), encoded=True),
                    headers=headers,
                    allow_redirects=False,
                )
            async with request as response:
                await _read_away(response)
        except TimeoutError as exc:
            raise _NotTakenError(f"did not answer within {options.timeout_s:g} s", Failure.UNCLEAR) from exc
        except aiohttp.ClientConnectorError as exc:
            raise _NotTakenError(f"can't be reached: {exc}", Failure.DOWN) from exc
        except (aiohttp.ClientError, OSError, ValueError) as exc:
            raise _NotTakenError(f"broke the connection: {exc or type(exc).__name__}", Failure.UNCLEAR) from exc
        status = response.status
        if not 200 <= status < 300:
            raise _NotTakenError(f"answered {status}", _failure_of(status))


async def _read_away(response: aiohttp.ClientResponse) -> None:
    """Read the rest of an answer, so that its connection can be used again. Its status is there: the rest
    changes nothing."""
    left_bytes = ANSWER_BYTES_MAX
    with contextlib.suppress(TimeoutError, aiohttp.ClientError, OSError):
        while left_bytes > 0 and (part := await response.content.read(left_bytes)):
            left_bytes -= len(part)


def _failure_of(status: int) -> Failure:
    if status < 400 or status in _NOT_ABOUT_THE_MESSAGE:
        return Failure.DOWN
    return Failure.REFUSED if status < 500 else Failure.UNCLEAR


class _NotTakenError(Exception):
    """Why a message was not taken."""

    def __init__(self, reason: str, failure: Failure) -> None:
        super().__init__(reason)
        self.failure = failure
