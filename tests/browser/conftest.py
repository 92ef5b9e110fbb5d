"""One browser for all tests of this folder, and one server for those of a file and a storage kind; each has topics of
its own. What a file leaves on its server would move the others' pages.

The browser ends with the folder's last test: playwright keeps an event loop running in the main thread, in which
neither Django's ORM nor an async test could work. So nothing here touches the ORM.
"""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from http.cookies import Morsel
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, StorageState, StorageStateCookie, ViewportSize, expect

from tests.support import storage_kinds
from tests.support.pages.browser import Complaints, chromium, close
from tests.support.pages.console_client import ConsoleClient
from tests.support.processes.server import ADMIN_PASSWORD, ADMIN_USER, ROOT, ServerProcess

VIEWER_USER = "vera"
VIEWER_PASSWORD = "only looking, not touching"

OpenPage = Callable[..., Page]

WAIT_MS = 30_000  # at most, for whatever comes as a rule at once
VIEWPORT: ViewportSize = {"width": 1280, "height": 720}  # what playwright gives without another
expect.set_options(timeout=WAIT_MS)


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    with chromium() as running:
        yield running


@pytest.fixture(scope="package", autouse=True)
def storage_kind(request: pytest.FixtureRequest) -> Iterator[str]:
    """The storage kind of the servers, for the folder's tests on it one after another."""
    with storage_kinds.chosen(request) as kind:
        yield kind


@pytest.fixture(scope="module")
def server(storage_kind: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """The server that a file's tests on one storage kind share.

    It lives long enough to want a worker, whose start would take the processors from the pages: test_pipeline has
    one."""
    with ServerProcess(
        tmp_path_factory.mktemp("browser") / "data", options=["--no-pipeline", "--allow-anonymous=true"]
    ) as running:
        yield running


@pytest.fixture(scope="module")
def viewer(server: ServerProcess) -> str:
    """The name of a viewer beside the server's admin; few files need one, and it takes a process."""
    environment = {name: value for name, value in os.environ.items() if name != "DJANGO_SETTINGS_MODULE"}
    command = [sys.executable, "manage.py", "user", "add", VIEWER_USER, "--role", "viewer", "--password-stdin"]
    subprocess.run(
        [*command, f"--data-path={server.data_path}"],
        cwd=ROOT,
        env=environment,
        input=VIEWER_PASSWORD + "\n",
        text=True,
        check=True,
        capture_output=True,
    )
    return VIEWER_USER


@pytest.fixture(scope="module")
def sessions(server: ServerProcess) -> dict[str, StorageState]:
    """Cookies of the server's users by their names: logging in is tested once, and slow by design."""
    return {}


@pytest.fixture(scope="module")
def tabs(browser: Browser) -> Iterator["Tabs"]:
    """What open_page has opened, for as long as the server runs."""
    kept = Tabs(browser)
    yield kept
    kept.close()


@pytest.fixture
def complaints(tabs: "Tabs") -> Iterator[Complaints]:
    """What the browser says in this test; at its end there must be nothing but what was expected."""
    tabs.heard.forget()
    yield tabs.heard
    tabs.heard.check()


@pytest.fixture
def open_page(
    request: pytest.FixtureRequest,
    server: ServerProcess,
    sessions: dict[str, StorageState],
    complaints: Complaints,
    tabs: "Tabs",
) -> Iterator[OpenPage]:
    """`open_page(path, user=…, graphs=…, **context)`: a page in a browser of its own, logged in unless user is "".
    user: the admin, or the `viewer` called vera.

    graphs: False leaves plotly.js away, which takes a second of a tab's first page.
    """

    def open_one(path: str, *, user: str = ADMIN_USER, graphs: bool = True, **options: Any) -> Page:
        if user and user not in sessions:
            if user == VIEWER_USER:
                request.getfixturevalue("viewer")
            password = ADMIN_PASSWORD if user == ADMIN_USER else VIEWER_PASSWORD
            sessions[user] = _logged_in(server.console_port, user, password)
        page = tabs.take(server.console_url, user, sessions.get(user), graphs, options)
        page.goto(path)
        return page

    yield open_one
    tabs.clear()


class Tabs:
    """Tabs that a test is done with are cleared and given to a later one that asks for the same.

    Each has a context of its own. The first page of a tab costs far more than the next ones, for which Chromium has
    read and compiled all scripts: plotly.js takes seconds.
    """

    def __init__(self, browser: Browser) -> None:
        self.heard = Complaints()
        self._browser = browser
        self._free: dict[str, list[Page]] = {}
        self._taken: list[tuple[str, Page, dict[str, Any]]] = []

    def take(
        self, base_url: str, user: str, session: StorageState | None, graphs: bool, options: dict[str, Any]
    ) -> Page:
        """A tab without a page. That of nobody is always new: somebody may log in there."""
        key = repr((base_url, user, graphs, sorted(options.items()))) if user else ""
        free = self._free.get(key, [])
        page = free.pop() if free else self._new(base_url, session, options)
        self._taken.append((key, page, options))
        if not graphs:
            page.context.route("**/plotly*.js", lambda route: route.fulfill(body="", content_type="text/javascript"))
        return page

    def _new(self, base_url: str, session: StorageState | None, options: dict[str, Any]) -> Page:
        context = self._browser.new_context(base_url=base_url, storage_state=session, **options)
        self.heard.watch(context)
        context.set_default_timeout(WAIT_MS)
        return context.new_page()

    def clear(self) -> None:
        """Take back what was taken, without anything that a test has left in it."""
        taken, self._taken = self._taken, []
        for key, page, options in taken:
            if not key or page.is_closed():
                close(page.context)
                continue
            for other in page.context.pages:
                if other != page:
                    other.close()
            page.unroute_all()
            page.context.unroute_all()
            page.evaluate("localStorage.clear()")
            page.goto("about:blank")
            page.set_viewport_size(options.get("viewport", VIEWPORT))
            page.emulate_media(color_scheme=options.get("color_scheme", "light"))
            self._free.setdefault(key, []).append(page)

    def close(self) -> None:
        for pages in self._free.values():
            for page in pages:
                page.context.close()
        self._free.clear()


def _logged_in(console_port: int, user: str, password: str) -> StorageState:
    """Without a page: Chromium has been seen to hang for minutes when it closes one that was just logged in."""
    client = ConsoleClient(console_port)
    try:
        client.log_in(user, password)
        return {"cookies": [_kept(cookie) for cookie in client.cookies.values()]}
    finally:
        client.close()


def _kept(cookie: Morsel[str]) -> StorageStateCookie:
    return {
        "name": cookie.key,
        "value": cookie.value,
        "domain": "127.0.0.1",
        "path": cookie["path"],
        "expires": -1,  # with the browser
        "httpOnly": bool(cookie["httponly"]),
        "secure": bool(cookie["secure"]),
        "sameSite": cookie["samesite"],
    }
