"""The scan loop: nsqd's intervals and counts, but channels by earliest deadline instead of at random."""

import asyncio

from queue_engine.engine.engine import Engine


async def scan_once(engine: Engine) -> None:
    """Wait for an interval, then handle timeouts and due messages.

    A pass takes a bounded number of channels; while more than the dirty percentage of them had work another
    pass follows, after the loop has served its sockets.
    """
    await asyncio.sleep(engine.options.queue_scan_interval_ms / 1000)
    try:
        while engine.is_pass_dirty(*engine.scan_pass()):
            await asyncio.sleep(0)
    finally:
        engine.tick()
