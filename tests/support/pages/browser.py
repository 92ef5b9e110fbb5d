"""Debian's Chromium, and what it complained about."""

import os
import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext

from playwright.sync_api import Browser, BrowserContext, BrowserType, ConsoleMessage, Page, Request, sync_playwright

_FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--no-default-browser-check",
    "--metrics-recording-only",
    "--disable-extensions",
    "--disable-features=OptimizationHints,MediaRouter,Translate,DialMediaRouteProvider",
    "--force-color-profile=srgb",
    "--hide-scrollbars",
)
# Chromium names most violations in its console; this names every one of them.
_REPORT_VIOLATIONS = """
document.addEventListener("securitypolicyviolation", (event) => {
  console.error(`policy violated: ${event.effectiveDirective} by ${event.blockedURI} ${event.sample}`);
});
"""


# Neither UTC nor a whole number of hours from it: what mixes up zones shows in every test. Its clock is never changed.
ZONE = "Asia/Kathmandu"

# Nothing may leave the machine.
_NAMES = "MAP * ~NOTFOUND , EXCLUDE 127.0.0.1 , EXCLUDE localhost"


@contextmanager
def chromium(*, launcher: BrowserType | None = None, hosts: Mapping[str, str] | None = None) -> Iterator[Browser]:
    """A headless Chromium in ZONE. Without one installed this fails: a missing browser is no reason to test less.

    hosts: "name:port" → "address:port" that it really connects to. launcher: that of another one that runs, since
    playwright can be started once at a time only.
    """
    path = shutil.which("chromium")
    assert path, "chromium is not installed; README's test command installs it"
    names = " , ".join([*(f"MAP {name} {address}" for name, address in (hosts or {}).items()), _NAMES])
    flags = [*_FLAGS, f"--host-resolver-rules={names}"]
    with nullcontext() if launcher else sync_playwright() as playwright:
        browser = (launcher or playwright.chromium).launch(
            executable_path=path, headless=True, args=flags, env={**os.environ, "TZ": ZONE}
        )
        try:
            yield browser
        finally:
            browser.close()


def close(context: BrowserContext) -> None:
    """Close a context whose pages may be going elsewhere: Chromium has been seen to hang when it closes such a page."""
    for page in context.pages:
        page.goto("about:blank")
    context.close()


class Complaints:
    """Errors in the console, exceptions, requests that failed, violated policies: of every page of its contexts."""

    def __init__(self) -> None:
        self._seen: list[str] = []
        self._expected: list[str] = []
        self._allowed: list[str] = []

    def watch(self, context: BrowserContext) -> None:
        context.add_init_script(_REPORT_VIOLATIONS)
        context.on("page", self._watch_page)

    def forget(self) -> None:
        """Begin anew, as for another test; contexts stay watched."""
        self._seen.clear()
        self._expected.clear()
        self._allowed.clear()

    def expect(self, pattern: str) -> None:
        """Complaints that `pattern` finds are part of the test: at least one has to come."""
        self._expected.append(pattern)

    def allow(self, pattern: str) -> None:
        """Complaints that `pattern` finds may come or not: what they are about depends on the moment."""
        self._allowed.append(pattern)

    def check(self) -> None:
        """Raises AssertionError for a complaint that was not expected, and for an expected one that did not come."""
        known = [*self._expected, *self._allowed]
        foreign = [text for text in self._seen if not any(re.search(pattern, text) for pattern in known)]
        assert not foreign, "the browser complained:\n" + "\n".join(foreign)
        for pattern in self._expected:
            assert any(re.search(pattern, text) for text in self._seen), f"the browser said nothing like {pattern!r}"

    def _watch_page(self, page: Page) -> None:
        page.on("console", self._on_console)
        page.on("pageerror", lambda error: self._seen.append(f"exception on {page.url}: {error}"))
        page.on("requestfailed", self._on_request_failed)
        page.on("dialog", lambda dialog: self._on_dialog(page, dialog))

    def _on_console(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "assert"):
            self._seen.append(f"console {message.type} at {message.location.get('url', '')}: {message.text}")

    def _on_request_failed(self, request: Request) -> None:
        # Going to another page ends what the last one was still loading.
        if request.failure != "net::ERR_ABORTED":
            self._seen.append(f"request failed: {request.method} {request.url}: {request.failure}")

    def _on_dialog(self, page: Page, dialog: object) -> None:
        self._seen.append(f"a script opened a dialog on {page.url}: {dialog}")
        dialog.dismiss()
