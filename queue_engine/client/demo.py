"""The traffic of `serve --demo`: ordinary clients that send a week of real earthquakes about, until stdin ends.

    earthquakes           every line of the file: 30 to 110 a second, and at times 350 more for a few seconds
      dashboard           keeps up
      warehouse           140 a second at most: falls behind when the ground shakes, catches up afterwards
      geocoder            forgets one message in thirty; they time out and come again
      strong-filter       publishes those of magnitude 4 or more to the next topic
    earthquakes.strong
      notifier            requeues every fourth one with a delay; publishes alerts from magnitude 5
      archive             has a consumer only once a minute, which takes everything
    alerts                some of them deferred: the reminders
      email               keeps up
      sms                 4 a second at most

The archive of earthquakes is switched on where the server has a pipeline, so that its page has figures to show.

The demo is a process of its own, so that the server's CPU time and memory do not include its clients':
python -m queue_engine.client.demo FILE TCP_HOST TCP_PORT HTTP_HOST HTTP_PORT [archive]. It ends when its stdin does,
and so with the server, even if that is killed.
"""

import asyncio
import contextlib
import http.client
import json
import logging
import math
import os
import random
import signal
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from queue_engine.client.backlog_limit import BacklogLimit
from queue_engine.client.connection import ClientIdentity, DisconnectedError, RefusedError
from queue_engine.client.consumer import Consumer, Message
from queue_engine.client.producer import Producer
from queue_engine.vocabulary import log_lines
from queue_engine.vocabulary.version import VERSION

logger = logging.getLogger(__name__)

QUAKES = "earthquakes"
STRONG = "earthquakes.strong"
ALERTS = "alerts"

STRONG_MAGNITUDE = 4.0
ALERT_MAGNITUDE = 5.0

TICK_S = 0.1
WAVE_RATE_MIN, WAVE_RATE_MAX, WAVE_PERIOD_S = 30.0, 110.0, 120.0
BURST_RATE, BURST_S, BURST_GAP_S = 350.0, 6.0, (40.0, 70.0)
FIRST_BURST_S = 1.5  # soon, so that the first page a visitor opens shows a backlog

WAREHOUSE_RATE = 70.0  # each of two
SMS_RATE = 4.0
GEOCODER_TIMEOUT_MS = 2_000
GEOCODER_FORGETS = 1 / 30
NOTIFIER_DELAYS = 1 / 4
NOTIFIER_DELAY_MS = (4_000, 12_000)
REMINDERS = 1 / 5
REMINDER_DELAY_MS = (10_000, 20_000)
SWITCH_TIMEOUT_S = 10.0
ARCHIVE_AWAY_S = 60.0
ARCHIVE_IDLE_S = 5.0

RECONNECT_S = (0.5, 10.0)  # at first, at most

_random = random.Random()  # noqa: S311 - it only makes the curves less regular


class Pace:
    """Limits work to `rate` a second on average, even when sleeps end late; idle time is not saved up."""

    def __init__(self, rate: float) -> None:
        self._step_s = 1 / rate
        self._next_at = 0.0

    async def wait(self) -> None:
        now = time.monotonic()
        self._next_at = max(self._next_at, now - 4 * self._step_s) + self._step_s
        if self._next_at > now:
            await asyncio.sleep(self._next_at - now)


@dataclass(frozen=True, slots=True)
class Demo:
    """One demo: the server's address, the lines to publish, and the limit on backlog."""

    tcp_host: str
    tcp_port: int
    lines: Sequence[bytes]
    limit: BacklogLimit

    async def run(self) -> None:
        """Run all clients until cancelled."""
        roles: list[tuple[str, Callable[[ClientIdentity], Awaitable[None]]]] = [
            ("usgs-feed", self._feed_wave),
            ("aftershock-feed", self._feed_bursts),
            ("dashboard-1", lambda who: self._finish_all(who, QUAKES, "dashboard")),
            ("dashboard-2", lambda who: self._finish_all(who, QUAKES, "dashboard")),
            ("warehouse-1", lambda who: self._finish_slowly(who, QUAKES, "warehouse", WAREHOUSE_RATE)),
            ("warehouse-2", lambda who: self._finish_slowly(who, QUAKES, "warehouse", WAREHOUSE_RATE)),
            ("geocoder-1", self._geocode),
            ("strong-filter-1", self._filter_strong),
            ("notifier-1", self._notify),
            ("archive-nightly", self._archive),
            ("email-1", lambda who: self._finish_all(who, ALERTS, "email")),
            ("sms-1", lambda who: self._finish_slowly(who, ALERTS, "sms", SMS_RATE)),
        ]
        async with asyncio.TaskGroup() as group:
            group.create_task(self.limit.watch_forever())
            for name, role in roles:
                group.create_task(_keep_up(name, role))

    # Producers.

    async def _feed_wave(self, who: ClientIdentity) -> None:
        """The steady part, which rises and falls."""
        async with await Producer.open(self.tcp_host, self.tcp_port, who) as producer:
            await self._feed(producer, _wave_rate, math.inf)

    async def _feed_bursts(self, who: ClientIdentity) -> None:
        """Many at once after a pause, like aftershocks."""
        async with await Producer.open(self.tcp_host, self.tcp_port, who) as producer:
            await asyncio.sleep(FIRST_BURST_S)
            while True:
                await self._feed(producer, lambda _: BURST_RATE, BURST_S)
                await asyncio.sleep(_random.uniform(*BURST_GAP_S))

    async def _feed(self, producer: Producer, rate_at: Callable[[float], float], duration_s: float) -> None:
        """Publish lines at `rate_at(seconds so far)` a second, beginning somewhere in the file."""
        position = _random.randrange(len(self.lines))
        due = 0.0
        began_at = last_at = time.monotonic()
        while last_at - began_at < duration_s:
            await asyncio.sleep(TICK_S)
            now = time.monotonic()
            # A late tick publishes the missed lines, up to a second's worth: not the hours of a machine that slept.
            due += rate_at(now - began_at) * min(now - last_at, 1.0)
            last_at = now
            count = int(due)
            due -= count
            if count and not self.limit.is_reached(QUAKES):
                await producer.publish_many(
                    QUAKES, [self.lines[(position + at) % len(self.lines)] for at in range(count)]
                )
                position += count

    # Consumers.

    async def _open(self, who: ClientIdentity, topic: str, channel: str, ready_count: int) -> Consumer:
        return await Consumer.open(self.tcp_host, self.tcp_port, topic, channel, who, ready_count=ready_count)

    async def _finish_all(self, who: ClientIdentity, topic: str, channel: str) -> None:
        async with await self._open(who, topic, channel, 200) as consumer:
            while True:
                consumer.finish(await consumer.receive())

    async def _finish_slowly(self, who: ClientIdentity, topic: str, channel: str, rate: float) -> None:
        pace = Pace(rate)
        # Few, so that messages wait in the channel, where other consumers can take them.
        async with await self._open(who, topic, channel, max(5, int(rate / 4))) as consumer:
            while True:
                message = await consumer.receive()
                await pace.wait()
                consumer.finish(message)

    async def _geocode(self, who: ClientIdentity) -> None:
        """Leave some unfinished, so that they time out and come again; each at most twice."""
        async with await self._open(who, QUAKES, "geocoder", 150) as consumer:
            while True:
                message = await consumer.receive()
                if message.attempts > 2 or _random.random() >= GEOCODER_FORGETS:
                    consumer.finish(message)

    async def _filter_strong(self, who: ClientIdentity) -> None:
        async with (
            await Producer.open(self.tcp_host, self.tcp_port, who) as producer,
            await self._open(who, QUAKES, "strong-filter", 200) as consumer,
        ):
            while True:
                message = await consumer.receive()
                if _magnitude(message) >= STRONG_MAGNITUDE and not self.limit.is_reached(STRONG):
                    await producer.publish(STRONG, message.body)
                consumer.finish(message)

    async def _notify(self, who: ClientIdentity) -> None:
        async with (
            await Producer.open(self.tcp_host, self.tcp_port, who) as producer,
            await self._open(who, STRONG, "notifier", 50) as consumer,
        ):
            while True:
                message = await consumer.receive()
                if message.attempts == 1 and _random.random() < NOTIFIER_DELAYS:
                    consumer.requeue(message, delay_ms=_random.randint(*NOTIFIER_DELAY_MS))
                    continue
                if _magnitude(message) >= ALERT_MAGNITUDE and not self.limit.is_reached(ALERTS):
                    await producer.publish(ALERTS, message.body)
                    if _random.random() < REMINDERS:
                        await producer.publish_deferred(
                            ALERTS, message.body, defer_ms=_random.randint(*REMINDER_DELAY_MS)
                        )
                consumer.finish(message)

    async def _archive(self, who: ClientIdentity) -> None:
        """Subscribe once, which creates the channel; then consume its backlog at intervals."""
        await (await self._open(who, STRONG, "archive", 0)).close()
        while True:
            await asyncio.sleep(ARCHIVE_AWAY_S)
            async with await self._open(who, STRONG, "archive", 100) as consumer:
                arrived_ns = time.time_ns()
                with contextlib.suppress(TimeoutError):
                    while True:
                        async with asyncio.timeout(ARCHIVE_IDLE_S):
                            message = await consumer.receive()
                        consumer.finish(message)
                        if message.timestamp_ns >= arrived_ns:
                            break


async def _keep_up(name: str, role: Callable[[ClientIdentity], Awaitable[None]]) -> None:
    """Run a client for ever: it reconnects after its topic was deleted or the server restarted."""
    service = name.rstrip("-0123456789")
    who = ClientIdentity(
        client_id=name,
        hostname=f"{name}.example",
        user_agent=f"{service}/1.0 penstock-client/{VERSION}",
        msg_timeout_ms=GEOCODER_TIMEOUT_MS if service == "geocoder" else 0,
    )
    wait_s = RECONNECT_S[0]
    while True:
        began_at = time.monotonic()
        try:
            await role(who)
        except (DisconnectedError, RefusedError) as exc:
            if time.monotonic() - began_at > RECONNECT_S[1]:
                wait_s = RECONNECT_S[0]
            logger.info("demo client=%s waits_s=%g reason=%s", name, wait_s, exc)
        await asyncio.sleep(wait_s)
        wait_s = min(2 * wait_s, RECONNECT_S[1])


def switch_archive_on(host: str, port: int, topic: str) -> None:
    """Create the topic and its pipeline cursor `archive`, which the pipeline's worker follows; both may be there. Logs
    a refusal, such as of a topic that is not of the log: the traffic goes on without an archive."""
    for path in (f"/topic/create?topic={topic}", f"/cursor/create?topic={topic}&cursor=archive"):
        connection = http.client.HTTPConnection(host, port, timeout=SWITCH_TIMEOUT_S)
        try:
            connection.request("POST", path)
            answer = connection.getresponse()
            body = answer.read()
        except (OSError, http.client.HTTPException) as exc:
            logger.warning("demo has no archive topic=%s reason=%s", topic, exc)
            return
        finally:
            connection.close()
        if answer.status != 200:
            reason = body.decode("utf-8", "replace")
            logger.warning("demo has no archive topic=%s status=%d answer=%s", topic, answer.status, reason)
            return


def _wave_rate(elapsed_s: float) -> float:
    middle, swing = (WAVE_RATE_MAX + WAVE_RATE_MIN) / 2, (WAVE_RATE_MAX - WAVE_RATE_MIN) / 2
    return middle + swing * math.sin(2 * math.pi * elapsed_s / WAVE_PERIOD_S)


def _magnitude(message: Message) -> float:
    """The earthquake's magnitude; 0 for a message that is no earthquake."""
    try:
        return float(json.loads(message.body)["magnitude"])
    except (ValueError, TypeError, LookupError, RecursionError):
        return 0.0


async def _run_until_stdin_ends(demo: Demo) -> None:
    loop = asyncio.get_running_loop()
    end = asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, end.set)
    # The server writes nothing to stdin: readable means that its end is closed.
    loop.add_reader(sys.stdin.fileno(), lambda: end.set() if not os.read(sys.stdin.fileno(), 1) else None)
    running = asyncio.create_task(demo.run())
    ending = asyncio.create_task(end.wait())
    await asyncio.wait([running, ending], return_when=asyncio.FIRST_COMPLETED)
    if running.done():
        running.result()
    running.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await running


def main(arguments: Sequence[str]) -> None:
    log_lines.configure(os.environ)
    log_lines.log_uncaught()
    file, tcp_host, tcp_port, http_host, http_port, *with_archive = arguments
    if with_archive:
        switch_archive_on(http_host, int(http_port), QUAKES)
    lines = Path(file).read_bytes().splitlines()
    demo = Demo(tcp_host, int(tcp_port), lines, BacklogLimit(http_host, int(http_port)))
    asyncio.run(_run_until_stdin_ends(demo))


if __name__ == "__main__":
    main(sys.argv[1:])
