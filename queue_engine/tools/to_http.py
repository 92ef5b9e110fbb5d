"""Sends each message to HTTP addresses, and finishes it when one has answered 2xx."""

import itertools
import logging
import random
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import quote_from_bytes

import aiohttp
from yarl import URL

from queue_engine.client.subscription import Delivery, Subscription
from queue_engine.tools.connecting import Connecting
from queue_engine.tools.retries import ATTEMPTS_MAX, BACKOFF_S_MAX, Retries
from queue_engine.tools.running import Counts, Stopping, together

logger = logging.getLogger(__name__)

ANSWER_BYTES_MAX = 1 << 20
# Answers from 400 to 499 refuse the message that was sent. These are about who sends, or when, and not about what; a
# redirect is about where: a site that moved, or that is closed for a while.
_NOT_ABOUT_THE_MESSAGE = frozenset((401, 403, 407, 408, 421, 423, 425, 429))


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
                await self._send(delivery, session)
            except _NotTakenError as exc:
                self.counts.add(self.retries.failed(delivery, str(exc), is_refused=exc.is_refused))
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
        reasons, is_refused = [], True
        for step in range(len(urls)):
            url = urls[(first + step) % len(urls)]
            try:
                await self._send_to(url, delivery.message.body, session)
                return
            except _NotTakenError as exc:
                reasons.append(f"{url} {exc}")
                is_refused &= exc.is_refused
        raise _NotTakenError("; ".join(reasons), is_refused=is_refused)

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
                await response.content.read(ANSWER_BYTES_MAX)
        except TimeoutError as exc:
            raise _NotTakenError(f"did not answer within {options.timeout_s:g} s") from exc
        except (aiohttp.ClientError, OSError, ValueError) as exc:
            raise _NotTakenError(f"can't be reached: {exc}") from exc
        status = response.status
        if not 200 <= status < 300:
            is_refused = 400 <= status < 500 and status not in _NOT_ABOUT_THE_MESSAGE
            raise _NotTakenError(f"answered {status}", is_refused=is_refused)


class _NotTakenError(Exception):
    """Why a message was not taken. is_refused: for what it is; another attempt would hardly help."""

    def __init__(self, reason: str, *, is_refused: bool = False) -> None:
        super().__init__(reason)
        self.is_refused = is_refused
