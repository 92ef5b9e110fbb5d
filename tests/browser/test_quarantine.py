"""The quarantine of a channel in a real browser: redriven slowly, seen on its way, cancelled."""

import json

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import OpenPage
from tests.support.pages.console_page import audit_row, create_channel, wait_until_live
from tests.support.processes.server import ServerProcess
from tests.support.waiting import wait_for

pytestmark = [pytest.mark.slow(reason="drives the real Chromium"), pytest.mark.browser]

COUNT = 900  # at one a second: a quarter of an hour, however long this machine stalls
CHANNEL = "/topics/parcels/belt/"
NAMES = "topic=parcels&channel=belt"


def test_a_redrive_shows_how_far_it_is_and_is_cancelled(server: ServerProcess, open_page: OpenPage) -> None:
    create_channel(server, "parcels", "belt")
    server.http("POST", "/mpub?topic=parcels", b"\n".join(b"parcel %d" % number for number in range(COUNT)))
    first = int(json.loads(server.http("GET", f"/channel/messages?{NAMES}&limit=1"))["messages"][0]["id"], 16)
    ids = "\n".join(f"{first + number:016x}" for number in range(COUNT))
    server.http("POST", f"/channel/message/quarantine?{NAMES}", ids.encode())
    page = open_page(CHANNEL, graphs=False)
    wait_until_live(page)
    panel = page.locator("#quarantine")
    expect(panel).to_contain_text(f"{COUNT} by an operator")
    expect(panel.get_by_role("link", name="Cancel redrive…")).to_be_hidden()
    panel.get_by_role("link", name="Redrive…").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text(f"{COUNT} quarantined messages will wait again in this channel alone.")
    dialog.get_by_label("Rate, messages/s").fill("1")
    with page.expect_navigation():
        dialog.get_by_role("button", name="Redrive parcels/belt").click()
    redrive = panel.locator('[data-text="quarantine_redrive"]')
    expect(redrive).to_contain_text(f"of {COUNT} wait again, 1 message/s")
    shown = redrive.inner_text()
    # The figures move by themselves, and the acts are those of a redrive under way.
    expect(redrive).not_to_have_text(shown)
    expect(panel.get_by_role("link", name="Redrive…", exact=True)).to_be_hidden()

    panel.get_by_role("link", name="Cancel redrive…").click()
    expect(page.get_by_role("dialog")).to_contain_text("will stay quarantined. The others wait already.")
    with page.expect_navigation():
        page.get_by_role("dialog").get_by_role("button", name="Cancel the redrive").click()
    stats = server.channel_stats("parcels", "belt")
    assert stats["depth"] + stats["quarantined_count"] == COUNT
    assert 0 < stats["quarantined_count"] < COUNT, "it was cancelled on its way"
    expect(redrive).to_have_text(f"cancelled: {stats['depth']} of {COUNT} wait again")
    expect(panel.get_by_role("link", name="Redrive…", exact=True)).to_be_visible()
    assert audit_row(page, "parcels/belt")["Act"] == "cancel redrive"

    # Without a hurry no longer: the rest comes back, and the panel says that no message is quarantined.
    server.http("POST", f"/channel/redrive?{NAMES}&rate=1000")
    wait_for("all to wait", lambda: server.channel_stats("parcels", "belt")["depth"] == COUNT)
    page.goto(CHANNEL)
    expect(panel.locator('[data-text="quarantine_held"]')).to_have_text("none")
