"""Sends the stats to a statsd daemon at intervals, by UDP.

Nothing of it holds up the engine: the address is looked up on a thread of its own, the lines are made in short steps,
the packets go one by one with a pause between, so that the daemon can keep up, and a packet that can't be sent at once
is dropped. Where the daemon can't be found, the next packets have the counts.
"""

import asyncio
import contextlib
import logging
import socket
from collections.abc import Callable

from queue_engine.engine.engine import Engine
from queue_engine.service.loop.name_lookups import NameLookups, SocketAddress
from queue_engine.service.monitoring.process_memory import memory_stats
from queue_engine.service.statsd.lines import StatsdLines, packets_of
from queue_engine.vocabulary.clock import NS_PER_S, Clock
from queue_engine.vocabulary.options.addresses import split_address

logger = logging.getLogger(__name__)

# A daemon's socket takes some two hundred packets at once; a thousand channels are a thousand packets.
PAUSE_S = 0.005
# All packets are sent in this part of the interval.
SHARE_OF_INTERVAL = 0.8
LOOKED_UP_WITHIN_S = 5.0
COMPLAINT_EVERY_NS = 60 * NS_PER_S

LookUp = Callable[[str, int], SocketAddress]


def look_up(host: str, port: int) -> SocketAddress:
    """The daemon's address. Raises OSError for an unknown host. May take long."""
    return socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)[0]


class StatsdPush:
    """Belongs to the engine's loop. http_port: the server's own, once it listens. resolve: on a thread; see
    `look_up`."""

    def __init__(
        self, engine: Engine, clock: Clock, http_port: Callable[[], int], *, resolve: LookUp = look_up
    ) -> None:
        self._engine = engine
        self._clock = clock
        self._http_port = http_port
        self._names = NameLookups(resolve)
        self._lines: StatsdLines | None = None
        self._complained_ns = -COMPLAINT_EVERY_NS

    async def push_in_turn(self) -> None:
        """Wait for an interval to pass, then push once."""
        await asyncio.sleep(self._engine.options.statsd_interval_ms / 1_000)
        await self.push_once()

    async def push_once(self) -> None:
        """Send the present figures. Logs the error that prevents it, once a minute at most."""
        options = self._engine.options
        try:
            place = await self._find_address()
        except OSError as exc:
            self._complain(f"{options.statsd_address} can't be looked up: {exc.strerror or exc}")
            return
        packets = packets_of(await self._made(), options.statsd_udp_packet_size)
        pause_s = min(PAUSE_S, SHARE_OF_INTERVAL * options.statsd_interval_ms / 1_000 / max(len(packets), 1))
        unsent, error = 0, ""
        family, kind, protocol, _, address = place
        with contextlib.ExitStack() as open_sockets:
            try:
                to = open_sockets.enter_context(socket.socket(family, kind, protocol))
                to.setblocking(False)
                to.connect(address)
            except OSError as exc:
                self._complain(f"packets can't be sent to {options.statsd_address}: {exc.strerror or exc}")
                return
            for packet in packets:
                try:
                    to.send(packet)
                except OSError as exc:
                    unsent, error = unsent + 1, exc.strerror or str(exc)
                await asyncio.sleep(pause_s)
        if unsent:
            self._complain(f"{unsent} of {len(packets)} packets were not sent to {options.statsd_address}: {error}")

    async def _made(self) -> list[str]:
        options = self._engine.options
        if self._lines is None:
            prefix = options.effective_statsd_prefix(options.effective_broadcast_address, self._http_port())
            self._lines = StatsdLines(prefix, excludes_ephemeral=options.statsd_exclude_ephemeral)
        slices = self._engine.stats.in_slices(lambda topic, channel: False)
        while True:
            try:
                next(slices)
            except StopIteration as stop:
                snapshot = stop.value
                break
            await asyncio.sleep(0)
        steps = self._lines.of(snapshot, memory_stats() if options.statsd_mem_stats else None)
        while True:
            try:
                next(steps)
            except StopIteration as stop:
                lines: list[str] = stop.value
                return lines
            await asyncio.sleep(0)

    async def _find_address(self) -> SocketAddress:
        """Raises OSError. Looks the host up each time: a daemon may have moved."""
        host, port = split_address(self._engine.options.statsd_address)
        return await self._names.find(host or "127.0.0.1", port, LOOKED_UP_WITHIN_S)

    def _complain(self, complaint: str) -> None:
        now_ns = self._clock.monotonic_ns()
        if now_ns - self._complained_ns >= COMPLAINT_EVERY_NS:
            self._complained_ns = now_ns
            logger.warning("statsd gets no stats: %s", complaint)
