"""A line of 200 kbit/s and 600 ms: figures first, the graphs' script when they are live."""

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import OpenPage
from tests.support.nsq_socket import NsqSocket
from tests.support.pages.console_page import create_channel
from tests.support.processes.server import ServerProcess

pytestmark = [pytest.mark.slow(reason="drives the real Chromium"), pytest.mark.browser]

LINE = {"offline": False, "latency": 600, "downloadThroughput": 25_000, "uploadThroughput": 25_000}
FIRST_PAINT_MS_MAX = 3_000
TRIES = 3  # the machine itself may stall
CHANNELS = 20


def first_paint_ms(page: Page) -> float:
    found: float = page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime")
    return found


def test_the_overview_paints_in_three_seconds_and_its_graphs_come_after_the_figures(
    server: ServerProcess, open_page: OpenPage
) -> None:
    for number in range(CHANNELS):
        create_channel(server, f"slow-{number}", "line")
    with NsqSocket(server.tcp_port) as client:
        for number in range(CHANNELS):
            client.publish(f"slow-{number}", b"1")
    paints = []
    for attempt in range(TRIES):
        # Other options make another tab, whose cache is empty.
        page = open_page("about:blank", viewport={"width": 1280, "height": 720 + attempt})
        came: list[str] = []
        extensions: list[str] = []
        page.on("request", lambda request, came=came: came.append(request.url.rpartition("/")[2]))
        page.on("websocket", lambda socket, came=came: socket.on("framereceived", lambda _: came.append("update")))
        network = page.context.new_cdp_session(page)
        network.send("Network.enable")
        network.on(
            "Network.webSocketHandshakeResponseReceived",
            lambda event, found=extensions: found.append(event["response"]["headers"]["Sec-WebSocket-Extensions"]),
        )
        network.send("Network.emulateNetworkConditions", LINE)
        with page.expect_request("**/graphs.js"):
            page.goto("/", wait_until="commit")
            expect(page.locator("#freshness")).to_have_attribute("data-state", "live")
            expect(page.locator(".plot .waiting").first).to_have_text("graph loading")
        network.send("Network.emulateNetworkConditions", LINE | {"latency": 0, "downloadThroughput": -1})
        network.detach()
        assert came.index("update") < came.index("graphs.js"), came
        assert extensions == ["permessage-deflate"]
        paints.append(first_paint_ms(page))
        if paints[-1] <= FIRST_PAINT_MS_MAX:
            break
    assert min(paints) <= FIRST_PAINT_MS_MAX, paints
