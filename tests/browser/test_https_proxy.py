"""The recipe for a console behind an HTTPS proxy, as a browser meets it."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect

from tests.support.pages.browser import Complaints, chromium
from tests.support.pages.console_page import (
    audit_row,
    create_channel,
    message,
    open_act,
    topology,
    wait_for_figure,
    wait_until_live,
)
from tests.support.processes.server import ADMIN_PASSWORD, ADMIN_USER, ServerProcess
from tests.support.processes.tls_proxy import TlsProxy

pytestmark = [pytest.mark.slow(reason="drives the real Chromium"), pytest.mark.browser]

HOST = "queue.example.org"
ORIGIN = f"https://{HOST}"
PROXYS_CLIENT = "203.0.113.9"  # what the proxy says that its client is


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    options = ["--console-origin", ORIGIN, "--trusted-proxy", "127.0.0.1", "--no-pipeline"]
    with ServerProcess(tmp_path_factory.mktemp("behind") / "data", options=options) as running:
        yield running


@pytest.fixture(scope="module")
def browser_outside(
    browser: Browser, server: ServerProcess, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Browser]:
    """A browser for which the host's port 443 is the proxy's; beside the folder's own one, whose loop it shares."""
    with TlsProxy(tmp_path_factory.mktemp("proxy"), HOST, server.console_port) as proxy:
        hosts = {f"{HOST}:443": f"127.0.0.1:{proxy.port}"}
        with chromium(launcher=browser.browser_type, hosts=hosts) as running:
            yield running


def test_log_in_an_act_and_the_socket_work_through_the_proxy(
    server: ServerProcess, browser_outside: Browser, complaints: Complaints
) -> None:
    create_channel(server, "abroad", "home")
    with browser_outside.new_context(base_url=ORIGIN, ignore_https_errors=True) as context:
        complaints.watch(context)
        page = context.new_page()
        page.goto("/topics/abroad/")
        page.get_by_label("Name").fill(ADMIN_USER)
        page.get_by_label("Password").fill(ADMIN_PASSWORD)
        page.get_by_role("button", name="Log in").click()
        expect(page.get_by_role("heading", name="abroad")).to_be_visible()
        assert page.url == f"{ORIGIN}/topics/abroad/"
        cookies = {cookie["name"].rpartition("_")[0]: cookie for cookie in context.cookies()}
        assert cookies.keys() == {"penstock_session", "penstock_csrf", "penstock_browser"}
        assert all(cookie["secure"] and cookie["httpOnly"] for cookie in cookies.values())

        wait_until_live(page)
        server.http("POST", "/mpub?topic=abroad", b"1\n2\n3")
        wait_for_figure(page, "waiting", "3")

        dialog = open_act(page, "Pause…")
        with page.expect_navigation():
            dialog.get_by_role("button", name="Pause abroad").click()
        assert message(page).startswith("Paused abroad")
        assert topology(server, "abroad")["paused"] is True
        assert audit_row(page, "abroad")["From"] == PROXYS_CLIENT
