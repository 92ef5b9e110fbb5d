"""The README's recipe for a console below a path of a host, on a port of its own, as a browser meets it."""

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.support.pages.browser import Complaints, chromium
from tests.support.pages.console_page import (
    audit_row,
    create_channel,
    message,
    open_act,
    plotted,
    topology,
    wait_for_figure,
    wait_until_live,
)
from tests.support.processes.ports import free_ports
from tests.support.processes.recipe_proxy import HOST, Nginx
from tests.support.processes.server import ADMIN_PASSWORD, ADMIN_USER, ServerProcess
from tests.support.processes.sub_path_proxy import ROOT_PATH, nginx_recipe
from tests.support.waiting import wait_for

pytestmark = [pytest.mark.slow(reason="drives the real Chromium"), pytest.mark.browser]

TOPIC = "below"


@pytest.fixture(scope="module")
def address() -> str:
    return f"https://{HOST}:{free_ports(1)[0]}{ROOT_PATH}"


@pytest.fixture(scope="module")
def server(address: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    options = ["--console-origin", address, "--trusted-proxy", "127.0.0.1", "--no-pipeline"]
    with ServerProcess(tmp_path_factory.mktemp("below") / "data", options=options) as running:
        yield running


@pytest.fixture(scope="module")
def browser_outside(
    browser: Browser, address: str, server: ServerProcess, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Browser]:
    """A browser for which the host is nginx; beside the folder's own one, whose loop it shares."""
    port = int(address.split(":")[2].partition("/")[0])
    with (
        Nginx(tmp_path_factory.mktemp("nginx"), nginx_recipe(), port=port, console_port=server.console_port),
        chromium(launcher=browser.browser_type, hosts={f"{HOST}:{port}": f"127.0.0.1:{port}"}) as running,
    ):
        yield running


def test_log_in_live_figures_graphs_and_an_act_work_below_a_path(
    address: str, server: ServerProcess, browser_outside: Browser, complaints: Complaints
) -> None:
    create_channel(server, TOPIC, "home")
    with browser_outside.new_context(base_url=address, ignore_https_errors=True) as context:
        complaints.watch(context)
        page = context.new_page()
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        page.on("websocket", lambda live: asked.append(live.url))
        page.goto(f"topics/{TOPIC}/")
        log_in(page)
        expect(page.get_by_role("heading", name=TOPIC)).to_be_visible()
        assert page.url == f"{address}topics/{TOPIC}/"

        wait_until_live(page)
        server.http("POST", f"/mpub?topic={TOPIC}", b"1\n2\n3")
        wait_for_figure(page, "waiting", "3")
        wait_for("the graph to be drawn", lambda: plotted(page, "depth") is not None, timeout_s=30)
        with page.expect_response(re.compile("/api/history/")) as past:
            page.locator('[data-preset="1h"]').click()
        assert past.value.status == 200

        dialog = open_act(page, "Pause…")
        with page.expect_navigation():
            dialog.get_by_role("button", name=f"Pause {TOPIC}").click()
        assert message(page).startswith(f"Paused {TOPIC}")
        found = topology(server, TOPIC)
        assert found is not None
        assert found["paused"] is True
        assert audit_row(page, TOPIC)["Act"] == "pause topic"
        wait_until_live(page)

        assert f"{address.replace('https', 'wss')}ws/live/" in asked
        below = (address, address.replace("https", "wss"), "data:", "blob:")
        assert [url for url in asked if not url.startswith(below)] == []
        cookies = {cookie["name"].rpartition("_")[0]: cookie for cookie in context.cookies()}
        assert cookies.keys() == {"penstock_session", "penstock_csrf", "penstock_browser"}
        assert all(cookie["path"].startswith(ROOT_PATH) and cookie["secure"] for cookie in cookies.values())


def test_a_page_whose_session_has_ended_leads_to_the_log_in_and_back(
    address: str, browser_outside: Browser, complaints: Complaints
) -> None:
    """By a link that a script makes."""
    with browser_outside.new_context(base_url=address, ignore_https_errors=True) as context:
        complaints.watch(context)
        page = context.new_page()
        # The list has no graphs, which might fetch what they missed and be refused before the socket is.
        page.goto("topics/")
        log_in(page)
        wait_until_live(page)
        elsewhere = context.new_page()
        elsewhere.goto("password/")  # nor has this one
        elsewhere.locator(".who summary").click()
        elsewhere.get_by_role("button", name="Log out").click()
        expect(elsewhere).to_have_url(f"{address}login/")
        page.bring_to_front()
        page.get_by_role("link", name="Log in again").click()
        expect(page).to_have_url(re.compile(rf"{ROOT_PATH}login/\?next=%2Fqueue%2Ftopics%2F$"))
        log_in(page)
        expect(page).to_have_url(f"{address}topics/")


def log_in(page: Page) -> None:
    page.get_by_label("Name").fill(ADMIN_USER)
    page.get_by_label("Password").fill(ADMIN_PASSWORD)
    page.get_by_role("button", name="Log in").click()
