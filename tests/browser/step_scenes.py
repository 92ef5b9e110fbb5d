"""Pictures of what a page shows once something was done on it: menus, forms that unfold, what an act left, errors.

Most leave everything as it is. Those that change something are the last.
"""

import os
from collections.abc import Callable

import django
from django.template.loader import render_to_string
from playwright.sync_api import Page

from tests.browser.act_forms import OF_SCENES, forms, open_dialog
from tests.browser.pages import ConsolePage
from tests.support.pages.console_page import open_act

_SEARCH = "/topics/shop.orders/search/"
_IMPORTS = "/topics/shop.imports/rows/"


def pages_of_steps() -> tuple[ConsolePage, ...]:
    """On the server of scenes.py, with its demo."""
    return (
        ConsolePage("who-menu", "/topics/", steps=_menu),
        ConsolePage("custom-range", "/topics/shop.payments/ledger/", steps=_clicked(".range-span summary")),
        ConsolePage("graph-as-table", "/topics/shop.payments/ledger/", steps=_clicked(".figure details summary")),
        ConsolePage("acts-unfolded", "/topics/shop.payments/ledger/", steps=_if_there(".acts-button")),
        ConsolePage("acts-unfolded-viewer", "/topics/shop.payments/", user="vera", steps=_if_there(".acts-button")),
        ConsolePage("filters-unfolded", f"{_SEARCH}~messages/?state=waiting", steps=_filters),
        ConsolePage("audit-filtered", "/audit/?actor=nobody-is-called-so", steps=_if_there(".fold > summary")),
        ConsolePage("messages-range", "/topics/shop.orders/~messages/?offset=5", steps=_if_there(".fold > summary")),
        ConsolePage("channels-selected", "/topics/shop.orders/", selects=2),
        ConsolePage("topic-diskqueue", "/topics/old.files/"),
        ConsolePage("channel-diskqueue", "/topics/old.files/mail/"),
        ConsolePage("messages-diskqueue", "/topics/old.files/mail/~messages/"),
        ConsolePage("form-delete-diskqueue", "/topics/old.files/~delete/"),
        ConsolePage("messages-of-all-kinds", "/topics/shop.bodies/all/~messages/?state=waiting", opens=3),
        ConsolePage("message-json", "/topics/shop.bodies/all/~messages/0/?form=json"),
        ConsolePage("message-text", "/topics/shop.bodies/all/~messages/0/?form=text"),
        ConsolePage("message-hex", "/topics/shop.bodies/all/~messages/1/"),
        ConsolePage("message-large", "/topics/shop.bodies/all/~messages/2/"),
        ConsolePage("message-in-flight", "/topics/shop.stock/counter/~messages/0/"),
        ConsolePage("message-viewer", f"{_IMPORTS}~messages/0/", user="vera"),
        ConsolePage("message-gone", f"{_SEARCH}~messages/999999/"),
        ConsolePage("question-beside-a-message", f"{_SEARCH}~messages/0/", steps=_clicked(".confirm > summary")),
        ConsolePage(
            "question-in-a-row", f"{_SEARCH}~messages/?state=waiting", steps=_clicked("tbody .confirm > summary")
        ),
        ConsolePage("message-not-found", f"{_SEARCH}~messages/?state=waiting&find=nothing-like-it"),
        ConsolePage("no-such-page", "/nothing/at/all/"),
        ConsolePage("no-such-topic", "/topics/nothing-is-called-so/"),
        ConsolePage("no-such-replay", "/pipeline/replays/20260101-000000-0000/"),
        ConsolePage("not-available", "/password/", steps=_not_available),
        ConsolePage("overview-viewer", "/", user="vera"),
        ConsolePage("topics-viewer", "/topics/", user="vera"),
        ConsolePage("form-not-allowed", "/topics/shop.orders/~delete/", user="vera"),
        ConsolePage("log-in-refused", "/login/", user="", steps=_log_in_refused),
        ConsolePage("password-refused", "/password/", steps=_password_refused),
        ConsolePage("form-complaint", "/topics/~create/", steps=_not_a_name),
        ConsolePage("dialog-complaint", "/topics/", steps=_not_a_name_in_a_dialog),
        ConsolePage("dialog-no-answer", "/password/", steps=_no_answer),
        *forms(OF_SCENES),
        ConsolePage("rewind-preview", "/topics/shop.orders/search/~rewind/", submits=True),
        ConsolePage("redriving", _IMPORTS, steps=_redriven_slowly),
        ConsolePage("ramping", "/topics/shop.orders/billing/", steps=_resumed_slowly),
        ConsolePage("undo", "/topics/shop.returns/refunds/", steps=_emptied),
    )


def _clicked(selector: str) -> Callable[[Page], None]:
    return lambda page: page.locator(selector).first.click()


def _if_there(selector: str) -> Callable[[Page], None]:
    """Clicked in the window that has it."""

    def click(page: Page) -> None:
        if page.locator(selector).is_visible():
            page.locator(selector).click()

    return click


def _menu(page: Page) -> None:
    """On a phone it is a part of the menu of the header."""
    page.locator(".menu-button:visible, .who summary:visible").first.click()


def _filters(page: Page) -> None:
    _if_there(".fold > summary")(page)
    page.locator(".more-filters > summary").click()


def _not_available(page: Page) -> None:
    """Made when the database fails; here it is only shown."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.support.settings")
    django.setup()
    html = render_to_string(
        "unavailable.html", {"status": 503, "sentence": "The audit list can't be written: the disk is full."}
    )
    page.route("**/unavailable/", lambda route: route.fulfill(body=html, content_type="text/html"))
    page.goto("/unavailable/")
    page.unroute_all()


def _log_in_refused(page: Page) -> None:
    page.get_by_label("Name").fill("nobody")
    page.get_by_label("Password").fill("not the password")
    page.get_by_role("button", name="Log in").click()
    page.locator(".errorlist, [role=alert]:not(:empty)").first.wait_for()


def _password_refused(page: Page) -> None:
    for field in page.locator("main input[type=password]").all():
        field.fill("short")
    page.get_by_role("button", name="Change password").click()
    page.locator(".errorlist").first.wait_for()


def _not_a_name(page: Page) -> None:
    page.get_by_label("Name").fill("not a name")
    page.get_by_role("button", name="Create topic").click()
    page.locator(".errorlist").wait_for()


def _not_a_name_in_a_dialog(page: Page) -> None:
    dialog = open_act(page, "New topic…")
    dialog.get_by_label("Name").fill("not a name")
    dialog.get_by_role("button", name="Create topic").click()
    page.locator(".errorlist").wait_for()


def _no_answer(page: Page) -> None:
    page.route("**/topics/~create/", lambda route: route.abort())
    open_dialog(page, "/topics/~create/")
    page.unroute_all()


def _redriven_slowly(page: Page) -> None:
    if page.get_by_text("Cancel redrive…").first.is_visible():
        return  # in the other width
    dialog = open_act(page, "Redrive…")
    dialog.get_by_label("Rate").fill("1")
    with page.expect_navigation():
        dialog.locator("button[type=submit]").click()
    page.get_by_text("Cancel redrive…").first.wait_for()


def _resumed_slowly(page: Page) -> None:
    if page.locator("[data-chips]").get_by_text("resuming slowly").is_visible():
        return  # in the other width; what the banner says is by then that no consumer is connected
    dialog = open_act(page, "Resume…")
    dialog.locator("[name=ramp]").select_option("15m")  # the other width comes a minute later
    with page.expect_navigation():
        dialog.locator("button[type=submit]").click()


def _emptied(page: Page) -> None:
    dialog = open_act(page, "Empty…")
    dialog.get_by_label("Type").fill("shop.returns/refunds")
    with page.expect_navigation():
        dialog.locator("button[type=submit]").click()
    page.locator("#messages li").wait_for()
