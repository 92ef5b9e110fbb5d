"""Logging in, out, and being sent to the log-in."""

import re

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import OpenPage
from tests.support.pages.browser import Complaints
from tests.support.processes.server import ADMIN_PASSWORD, ADMIN_USER

pytestmark = [pytest.mark.slow(reason="drives the real Chromium"), pytest.mark.browser]


def test_a_wrong_password_is_refused_in_words_and_the_right_one_lands_on_the_overview(
    open_page: OpenPage, complaints: Complaints
) -> None:
    complaints.expect("/login/.*400")  # Chromium mentions the status of the refusal
    page = open_page("/", user="")
    assert page.url.endswith("/login/?next=%2F")
    page.get_by_label("Name").fill(ADMIN_USER)
    page.get_by_label("Password").fill("correct horse battery stable")
    page.get_by_role("button", name="Log in").click()
    expect(page.get_by_role("alert")).to_have_text("This name and password do not go together.")
    expect(page.get_by_label("Name")).to_have_value(ADMIN_USER)
    expect(page.get_by_label("Password")).to_be_focused()
    page.get_by_label("Password").fill(ADMIN_PASSWORD)
    page.get_by_label("Password").press("Enter")
    expect(page.get_by_role("heading", name="Overview")).to_be_visible()
    assert page.url.endswith("/")
    expect(page.get_by_role("link", name="Overview", exact=True)).to_have_attribute("aria-current", "page")


def test_logging_in_leads_to_the_page_that_was_asked_for_and_logging_out_ends_the_session(open_page: OpenPage) -> None:
    page = open_page("/topics/?q=x", user="", graphs=False)
    page.get_by_label("Name").fill(ADMIN_USER)
    page.get_by_label("Password").fill(ADMIN_PASSWORD)
    page.get_by_role("button", name="Log in").click()
    expect(page.get_by_role("heading", name="Topics")).to_be_visible()
    assert page.url.endswith("/topics/?q=x")
    page.get_by_text(re.compile(ADMIN_USER)).first.click()
    page.get_by_role("button", name="Log out").click()
    expect(page.get_by_role("heading", name="Log in")).to_be_visible()
    page.goto("/topics/")
    assert "/login/" in page.url
