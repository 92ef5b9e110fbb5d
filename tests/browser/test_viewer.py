"""A viewer sees everything and may do nothing: said by the page, and enforced behind it."""

import re

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import OpenPage
from tests.support.pages.browser import Complaints
from tests.support.pages.console_page import audit_row, create_channel, topology, wait_until_live
from tests.support.processes.server import ServerProcess

pytestmark = [pytest.mark.slow(reason="drives the real Chromium"), pytest.mark.browser]

OPERATORS = "Needs the role operator; yours is viewer."
ADMINS = "Needs the role admin; yours is viewer."
TOPIC_ACTS = {
    "Publish…": OPERATORS,
    "New channel…": OPERATORS,
    "Pause…": OPERATORS,
    "Empty…": ADMINS,
    "Delete…": ADMINS,
}
CHANNEL_ACTS = {
    "Requeue in flight…": OPERATORS,
    "Pause…": OPERATORS,
    "Rewind…": ADMINS,
    "Empty…": ADMINS,
    "Delete…": ADMINS,
}


@pytest.mark.parametrize(
    ("path", "acts", "line"),
    [
        (
            "/topics/ours/",
            TOPIC_ACTS,
            (
                "Publish, New channel, Pause and Archive need the role operator, Empty and Delete need the role admin; "
                "yours is viewer."
            ),
        ),
        (
            "/topics/ours/read/",
            CHANNEL_ACTS,
            (
                "Requeue in flight, Pause and Max attempts need the role operator, Rewind, Empty and Delete need the "
                "role admin; yours is viewer."
            ),
        ),
    ],
    ids=["topic", "channel"],
)
def test_every_act_is_disabled_with_the_reason(
    server: ServerProcess, open_page: OpenPage, path: str, acts: dict[str, str], line: str
) -> None:
    create_channel(server, "ours", "read")
    page = open_page(path, user="vera", graphs=False)
    wait_until_live(page)
    expect(page.get_by_text(line)).to_be_visible()  # touch shows no titles
    for act, reason in acts.items():
        button = page.get_by_text(re.compile(re.escape(act))).first
        expect(button).to_have_attribute("aria-disabled", "true")
        expect(button).to_have_attribute("title", reason)
    assert page.get_by_role("main").get_by_role("link", name=re.compile("…$")).count() == 0
    button = page.get_by_text(re.compile(re.escape("Pause…"))).first
    button.click()
    assert page.get_by_role("dialog").count() == 0
    assert page.url.endswith(path)


def test_a_forged_form_is_refused_and_recorded(
    server: ServerProcess, open_page: OpenPage, complaints: Complaints
) -> None:
    complaints.expect("/topics/fort/~pause/.*403")
    create_channel(server, "fort", "gate")
    page = open_page("/topics/fort/", user="vera", graphs=False)
    # The form that the page does not offer, with the token that it has for logging out.
    with page.expect_navigation():
        page.evaluate(
            """() => {
              const form = document.createElement("form");
              form.method = "post";
              form.action = "/topics/fort/~pause/";
              form.append(document.querySelector("[name=csrfmiddlewaretoken]").cloneNode());
              document.body.append(form);
              form.submit();
            }"""
        )
    expect(page.get_by_role("heading", name="Not allowed")).to_be_visible()
    expect(page.get_by_role("alert")).to_have_text("This act needs the role operator; yours is viewer.")
    assert topology(server, "fort")["paused"] is False
    row = audit_row(open_page("/topics/", graphs=False), "fort")
    assert (row["Who"], row["From"], row["Act"]) == ("vera viewer", "127.0.0.1", "pause topic")
    assert (row["Result"], row["Outcome"]) == ("refused", "This act needs the role operator; yours is viewer.")


def test_the_audit_list_is_not_for_viewers(open_page: OpenPage, complaints: Complaints) -> None:
    complaints.expect("/audit/.*403")
    page = open_page("/topics/", user="vera", graphs=False)
    expect(page.get_by_role("link", name="Audit")).to_have_count(0)
    page.goto("/audit/")
    expect(page.get_by_role("heading", name="Not allowed")).to_be_visible()
