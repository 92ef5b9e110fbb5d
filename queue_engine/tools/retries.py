"""What becomes of a message whose destination fails: it is requeued, and the work slows down until something works."""

import asyncio
import logging

from queue_engine.client.subscription import Delivery

logger = logging.getLogger(__name__)

PAUSE_S = (0.5, 60.0)  # at first, at most
DELAY_MS = 1_000  # after the first attempt; it grows with the square of the attempts
_DELAY_MS_MAX = 15 * 60_000


class Retries:
    """Slows down all workers of a tool while its destinations fail."""

    def __init__(self) -> None:
        self._pause_s = 0.0
        self._logged_pause_s = -1.0
        self._stopped = asyncio.Event()

    def stop(self) -> None:
        """Wait no longer: the tool ends."""
        self._stopped.set()

    def succeeded(self) -> None:
        """The destinations work."""
        if self._pause_s:
            logger.info("the destination takes messages again")
        self._pause_s = 0.0

    async def failed(self, delivery: Delivery, reason: str) -> None:
        """Requeue the message, later the more often it was tried, then wait before the next one."""
        attempts = min(delivery.message.attempts, 16)
        delivery.requeue(min(DELAY_MS * attempts * attempts, _DELAY_MS_MAX))
        before_s = self._pause_s
        pause_s = before_s or PAUSE_S[0]
        if self._logged_pause_s != before_s:
            self._logged_pause_s = before_s
            logger.warning("a message is requeued reason=%r next_in_s=%g", reason, pause_s)
        try:
            async with asyncio.timeout(pause_s):
                await self._stopped.wait()
        except TimeoutError:
            pass
        if self._pause_s == before_s:  # once for all workers that failed together
            self._pause_s = min(pause_s * 2, PAUSE_S[1])
