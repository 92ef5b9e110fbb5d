"""The demo's limit on backlog: a paused channel, or one without consumers, must not fill the disk."""

import asyncio
import http.client
import json
import logging
from typing import Any

logger = logging.getLogger(__name__)

# About 20 MB of earthquakes: a quarter of an hour of a paused channel.
BACKLOG_MAX = 100_000
LOOK_INTERVAL_S = 2.0
LOOK_TIMEOUT_S = 2.0


class BacklogLimit:
    """Reads /stats at intervals; finds topics whose backlog is too large to publish to."""

    def __init__(self, host: str, port: int, *, backlog_max: int = BACKLOG_MAX) -> None:
        """backlog_max: messages that wait at a topic, or that one of its channels or cursors has not finished."""
        self._host = host
        self._port = port
        self._backlog_max = backlog_max
        self._resting: set[str] = set()
        self._is_blind = False

    def is_reached(self, topic: str) -> bool:
        """Whether the demo must not publish to the topic. True for every topic while /stats can't be read."""
        return self._is_blind or topic in self._resting

    async def watch_forever(self) -> None:
        """Look every two seconds, and log when publishing stops or goes on."""
        while True:
            await self.look()
            await asyncio.sleep(LOOK_INTERVAL_S)

    async def look(self) -> None:
        """Read /stats once."""
        try:
            stats = await asyncio.to_thread(self._fetch)
        except (OSError, http.client.HTTPException, ValueError) as exc:
            if not self._is_blind:
                logger.info("demo rests reason=no figures: %s", exc)
            self._is_blind = True
            return
        self._is_blind = False
        full = {topic["topic_name"] for topic in stats["topics"] if _backlog(topic) >= self._backlog_max}
        for name in sorted(full - self._resting):
            logger.info("demo rests topic=%s reason=%d messages wait", name, self._backlog_max)
        for name in sorted(self._resting - full):
            logger.info("demo goes on topic=%s", name)
        self._resting = full

    def _fetch(self) -> dict[str, Any]:
        # Not urllib, which would send a request for a loopback address to the environment's proxy.
        connection = http.client.HTTPConnection(self._host, self._port, timeout=LOOK_TIMEOUT_S)
        try:
            connection.request("GET", "/stats?format=json&include_clients=false&include_mem=false")
            answer = connection.getresponse()
            body = answer.read()
            if answer.status != 200:
                raise ValueError(f"/stats answered {answer.status}")
            stats: dict[str, Any] = json.loads(body)
            return stats
        finally:
            connection.close()


def _backlog(topic: dict[str, Any]) -> int:
    """The messages that wait at the topic, or that its fullest channel or slowest cursor has not finished."""
    channels = (
        channel["depth"] + channel["in_flight_count"] + channel["deferred_count"] for channel in topic["channels"]
    )
    most: int = max((topic["depth"], *channels, *(cursor["depth"] for cursor in topic["cursors"])))
    return most
