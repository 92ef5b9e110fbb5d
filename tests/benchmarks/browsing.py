"""What pages cost a browser: their first paint, and how busy its main thread is while they are live.

Measured in Chromium itself: the first paint by its performance timeline, the main thread's share by the time of its
tasks, in processor time, which other work of the machine changes little.
"""

import time
import zlib
from collections.abc import Sequence
from dataclasses import dataclass

from playwright.sync_api import Browser, CDPSession

from tests.support.pages.browser import chromium
from tests.support.pages.console_client import ConsoleClient

VISITS = 3  # of which the median counts; before them one, which reads and compiles the scripts
_FIRST_PAINT = """() => new Promise((told) => {
  const look = () => {
    const found = performance.getEntriesByName("first-contentful-paint")[0];
    if (found) told(found.startTime); else setTimeout(look, 20);
  };
  look();
})"""


@dataclass(frozen=True, slots=True)
class Browsed:
    """A page in a browser. first_paint_ms: median, from the navigation's start. busy_share: of the main thread's time,
    while the page is live. updates: those that came meanwhile, 0 for a page that is not live. text_bytes_s: of theirs;
    frame_bytes_s: as they are sent, each compressed by itself."""

    path: str
    first_paint_ms: float
    busy_share: float
    updates: int
    text_bytes_s: float = 0.0
    frame_bytes_s: float = 0.0


def browse(client: ConsoleClient, paths: Sequence[str], seconds: float) -> list[Browsed]:
    """Each page in a tab of its own, watched for so many seconds. client: a session that has logged in."""
    with chromium() as browser:
        return [_browse(browser, client, path, seconds) for path in paths]


def _browse(browser: Browser, client: ConsoleClient, path: str, seconds: float) -> Browsed:
    cookies = [{"name": name, "value": one.value, "url": client.origin} for name, one in client.cookies.items()]
    with browser.new_context(base_url=client.origin) as context:
        context.add_cookies(cookies)
        page = context.new_page()
        updates: list[bytes] = []
        page.on("websocket", lambda socket: socket.on("framereceived", lambda frame: updates.append(_bytes_of(frame))))
        paints = []
        for _ in range(1 + VISITS):
            page.goto(path)
            paints.append(float(page.evaluate(_FIRST_PAINT)))
        page.wait_for_load_state("networkidle")
        session = context.new_cdp_session(page)
        session.send("Performance.enable", {"timeDomain": "threadTicks"})
        page.wait_for_timeout(1_000)  # what the load itself began ends
        before_s, came, began_s = _task_s(session), len(updates), time.monotonic()
        page.wait_for_timeout(1e3 * seconds)
        took_s = time.monotonic() - began_s
        busy_share = (_task_s(session) - before_s) / took_s
        texts = updates[came:]
        return Browsed(
            path,
            sorted(paints[1:])[VISITS // 2],
            busy_share,
            len(texts),
            sum(map(len, texts)) / took_s,
            sum(len(zlib.compress(text, wbits=-zlib.MAX_WBITS)) for text in texts) / took_s,
        )


def _bytes_of(frame: str | bytes) -> bytes:
    return frame.encode() if isinstance(frame, str) else frame


def _task_s(session: CDPSession) -> float:
    """The processor seconds of the main thread's tasks so far."""
    metrics = session.send("Performance.getMetrics")["metrics"]
    return float(next(one["value"] for one in metrics if one["name"] == "TaskDuration"))
