"""A token is made in a real browser, and its secret copied: on a server of its own, which then asks for tokens."""

from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from tests.support.pages.browser import Complaints
from tests.support.processes.server import ADMIN_PASSWORD, ADMIN_USER, ServerProcess

pytestmark = [pytest.mark.slow(reason="drives the real Chromium"), pytest.mark.browser]


def test_the_secret_of_a_new_token_is_copied_with_one_button(
    browser: Browser, complaints: Complaints, tmp_path: Path
) -> None:
    with (
        ServerProcess(tmp_path / "data", options=["--no-pipeline"]) as server,
        browser.new_context(
            base_url=server.console_url,
            viewport={"width": 360, "height": 740},
            permissions=["clipboard-read", "clipboard-write"],
        ) as context,
    ):
        complaints.watch(context)
        page = context.new_page()
        page.goto("/login/?next=/tokens/~create/")
        page.get_by_label("Name").fill(ADMIN_USER)
        page.get_by_label("Password").fill(ADMIN_PASSWORD)
        page.get_by_role("button", name="Log in").click()
        page.locator("[name=token_name]").fill("deploy")
        page.get_by_label("publish messages").check()
        page.get_by_role("button", name="Create token").click()
        page.get_by_role("button", name="Copy the secret").click()
        expect(page.get_by_role("button", name="Copied")).to_be_visible()
        secret = page.locator("#secret").input_value()
        assert secret.startswith("pst_")
        assert page.evaluate("navigator.clipboard.readText()") == secret
        page.get_by_role("link", name="Back to the list").click()
        expect(page.locator("tbody tr")).to_contain_text("deploy")
