"""One browser for all tests of this folder, and one server for those of a storage kind; each has topics of its own.

The browser ends with the folder's last test: playwright keeps an event loop running in the main thread, in which
neither Django's ORM nor an async test could work. So nothing here touches the ORM.
"""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, StorageState, expect

from tests.support import storage_kinds
from tests.support.browser import Complaints, chromium
from tests.support.server import ADMIN_PASSWORD, ADMIN_USER, ROOT, ServerProcess

VIEWER_PASSWORD = "only looking, not touching"

OpenPage = Callable[..., Page]

WAIT_MS = 15_000  # at most, for whatever comes as a rule at once
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


@pytest.fixture(scope="package")
def server(storage_kind: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """The server that the tests of one storage kind share, with a viewer called vera beside its admin.

    It lives long enough to want a worker, whose start would take the processors from the pages: test_pipeline has
    one."""
    with ServerProcess(tmp_path_factory.mktemp("browser") / "data", options=["--no-pipeline"]) as running:
        environment = {name: value for name, value in os.environ.items() if name != "DJANGO_SETTINGS_MODULE"}
        subprocess.run(
            [
                sys.executable,
                "manage.py",
                "user",
                "add",
                "vera",
                "--role",
                "viewer",
                "--password-stdin",
                f"--data-path={running.data_path}",
            ],
            cwd=ROOT,
            env=environment,
            input=VIEWER_PASSWORD + "\n",
            text=True,
            check=True,
            capture_output=True,
        )
        yield running


@pytest.fixture(scope="package")
def sessions(server: ServerProcess) -> dict[str, StorageState]:
    """Cookies of the server's users by their names: logging in is tested once, and slow by design."""
    return {}


@pytest.fixture
def complaints() -> Iterator[Complaints]:
    """What the browser says in this test; at its end there must be nothing but what was expected."""
    heard = Complaints()
    yield heard
    heard.check()


@pytest.fixture
def open_page(
    browser: Browser, server: ServerProcess, sessions: dict[str, StorageState], complaints: Complaints
) -> Iterator[OpenPage]:
    """`open_page(path, user=…, graphs=…, **context)`: a page in a browser of its own, logged in unless user is "".

    graphs: False leaves plotly.js away, which takes a second of every page load.
    """
    contexts = []

    def open_one(path: str, *, user: str = ADMIN_USER, graphs: bool = True, **options: Any) -> Page:
        if user and user not in sessions:
            password = ADMIN_PASSWORD if user == ADMIN_USER else VIEWER_PASSWORD
            sessions[user] = _logged_in(browser, server.console_url, user, password)
        context = browser.new_context(base_url=server.console_url, storage_state=sessions.get(user), **options)
        contexts.append(context)
        complaints.watch(context)
        context.set_default_timeout(WAIT_MS)
        if not graphs:
            context.route("**/plotly*.js", lambda route: route.fulfill(body="", content_type="text/javascript"))
        page = context.new_page()
        page.goto(path)
        return page

    yield open_one
    for context in contexts:
        context.close()


def _logged_in(browser: Browser, console_url: str, user: str, password: str) -> StorageState:
    with browser.new_context(base_url=console_url) as context:
        page = context.new_page()
        page.goto("/login/")
        page.get_by_label("Name").fill(user)
        page.get_by_label("Password").fill(password)
        page.get_by_role("button", name="Log in").click()
        page.wait_for_url("**/")
        return context.storage_state()
