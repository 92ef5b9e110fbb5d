"""The scan loop: nsqd's intervals and counts, but channels by earliest deadline instead of at random."""

import asyncio

from queue_engine.engine import Engine


async def scan_forever(engine: Engine) -> None:
    """Handle what is due every interval, until cancelled.

    A pass takes a bounded number of channels; while more than the dirty percentage of them had work another
    pass follows, after the loop has served its sockets.
    """
    interval_s = engine.options.queue_scan_interval_ms / 1000
    while True:
        await asyncio.sleep(interval_s)
        while engine.is_pass_dirty(*engine.scan_pass()):
            await asyncio.sleep(0)
        engine.tick()
