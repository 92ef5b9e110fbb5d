"""The messages of a channel in a real browser: unfolded, selected, finished, counted down; by finger and by keys."""

import json
import re

import pytest
from playwright.sync_api import Page, ViewportSize, expect

from tests.browser.conftest import OpenPage
from tests.support.nsq_socket import NsqSocket
from tests.support.pages.browser import Complaints
from tests.support.pages.console_page import audit_row, create_channel, message
from tests.support.processes.server import ServerProcess

pytestmark = [pytest.mark.slow(reason="drives the real Chromium"), pytest.mark.browser]

NARROW: ViewportSize = {"width": 360, "height": 740}
HELD_MS = 600_000


def row(page: Page, text: str) -> str:
    """The id of the message whose body has this text."""
    found = page.locator("tbody[data-message]").filter(has_text=text).get_attribute("data-message")
    assert found is not None
    return found


def seconds_left(page: Page) -> float:
    """Of the first deadline on the page: "9m 58s" is 598."""
    text = page.locator("[data-left-ms]").first.inner_text()
    minutes, seconds = re.fullmatch(r"(?:(\d+)m )?([\d.]+)s?", text.replace(" s", "s")).groups()
    return 60 * int(minutes or 0) + float(seconds)


def test_a_message_is_found_looked_at_and_finished_with_a_finger(server: ServerProcess, open_page: OpenPage) -> None:
    create_channel(server, "harbour", "crane")
    for body in (b'{"ship": "Ada", "crates": [1, 2]}', b'{"ship": "Poison"}', b"plain words"):
        server.http("POST", "/pub?topic=harbour", body)
    page = open_page("/topics/harbour/crane/~messages/", graphs=False, viewport=NARROW)
    poison = row(page, "Poison")
    ada = page.locator(f'tbody[data-message="{row(page, "Ada")}"]')
    tree = ada.locator(".json")
    expect(tree).to_be_hidden()
    ada.locator("details.unfold > summary").click()
    expect(tree).to_contain_text('"ship": "Ada"')
    tree.get_by_text('"crates"').click()
    expect(tree.get_by_text("2", exact=True)).to_be_hidden()

    # Nothing is selected, so nothing is offered for a selection.
    bar = page.locator(".message-acts")
    expect(bar.get_by_text("Finish…")).to_be_hidden()
    page.get_by_label(f"Select message {poison}").check()
    expect(bar).to_contain_text("1 selected")
    bar.get_by_text("Finish…").click()
    expect(bar).to_contain_text("This channel never delivers it again")
    for button in bar.locator(".button:visible").all():
        box = button.bounding_box()
        assert box is not None
        assert box["height"] >= 44, button.inner_text()
    bar.get_by_role("button", name="Finish the selected messages").click()
    assert message(page) == "Finished 1 message of harbour/crane."
    expect(page.locator("tbody[data-message]")).to_have_count(2)
    assert server.channel_stats("harbour", "crane")["depth"] == 2
    assert audit_row(page, "harbour/crane")["Outcome"].count(poison) == 1


def test_a_narrow_window_has_the_forms_of_a_list_behind_one_button(
    server: ServerProcess, open_page: OpenPage, complaints: Complaints
) -> None:
    create_channel(server, "attic", "shelf")
    server.http("POST", "/pub?topic=attic", b"box")
    narrow = open_page("/login/", graphs=False, viewport=NARROW)
    wide = open_page("/login/", graphs=False)
    for path, label, button in (
        ("/topics/attic/shelf/~messages/", "Id or offset", "Sort, search, filter"),
        ("/topics/attic/~messages/", "Offset", "Go to an offset, time or key"),
        ("/audit/", "Object", "Filters"),
    ):
        wide.goto(path)
        expect(wide.get_by_label(label, exact=True)).to_be_visible()
        expect(wide.locator(".fold > summary")).to_be_hidden()
        narrow.goto(path)
        field = narrow.get_by_label(label, exact=True)
        expect(field).to_be_hidden()
        first = narrow.locator("table.list tbody").first.bounding_box()
        assert first is not None
        assert first["y"] < NARROW["height"] / 2
        narrow.locator(".fold > summary", has_text=button).click()
        expect(field).to_be_visible()
    narrow.goto("/topics/attic/shelf/~messages/?key=none")
    expect(narrow.locator(".fold > summary")).to_contain_text("filters on")
    # What is wrong with a field is shown with the field.
    complaints.expect("status of 400")
    narrow.goto("/topics/attic/shelf/~messages/?first=x")
    expect(narrow.get_by_label("Offsets from")).to_have_value("x")
    expect(narrow.get_by_label("Offsets from")).to_be_visible()
    expect(narrow.get_by_role("alert").filter(has_text="'x' is not an offset")).to_be_in_viewport()
    # Two short fields stand side by side.
    boxes = [narrow.get_by_label(name, exact=True).bounding_box() for name in ("Offsets from", "to")]
    assert boxes[0] is not None
    assert boxes[1] is not None
    assert boxes[0]["y"] == boxes[1]["y"]


def test_deadlines_count_down_and_the_keyboard_selects_and_unfolds(server: ServerProcess, open_page: OpenPage) -> None:
    create_channel(server, "locks", "gate")
    server.http("POST", "/mpub?topic=locks", b"first\nsecond\nthird")
    page = open_page("/topics/locks/gate/~messages/", graphs=False)
    with NsqSocket(server.tcp_port) as consumer:
        consumer.identify(client_id="keeper", msg_timeout=HELD_MS)
        consumer.subscribe("locks", "gate", rdy=2)
        held = [consumer.read_message().id.decode() for _ in range(2)]
        consumer.send(b"RDY 0\n")
        page.goto("/topics/locks/gate/")
        page.get_by_role("table", name="Messages in flight").get_by_role("link", name=held[0]).click()
        expect(page.locator("h1")).to_have_text(held[0])
        expect(page.locator("dl.facts")).to_contain_text("keeper")
        page.goto("/topics/locks/gate/~messages/?state=in_flight")
        before = seconds_left(page)
        page.wait_for_function(
            "(was) => document.querySelector('[data-left-ms]').textContent !== was",
            arg=page.locator("[data-left-ms]").first.inner_text(),
        )
        assert seconds_left(page) < before

        rows = page.locator("tbody[data-message]")
        page.keyboard.press("j")
        page.keyboard.press("Enter")
        expect(rows.nth(0).locator("pre.body")).to_be_visible()
        page.keyboard.press("j")
        page.keyboard.press("x")
        expect(rows.nth(1).locator('input[name="id"]')).to_be_checked()
        expect(page.locator("[data-chosen]")).to_have_text("1 selected")
        page.keyboard.press("k")
        page.keyboard.press("x")
        expect(page.get_by_label("All of this page")).to_be_checked()
        # Not while typing.
        page.get_by_label("Id or offset").focus()
        page.keyboard.type("xj")
        expect(page.locator("[data-chosen]")).to_have_text("2 selected")

        page.get_by_role("button", name="Requeue now").first.click()
        assert message(page) == "Requeued 2 messages of locks/gate."
        expect(page.get_by_text("No message is in flight")).to_be_visible()


def test_after_an_act_on_a_message_the_focus_is_in_its_list_or_at_what_was_not_done(
    server: ServerProcess, open_page: OpenPage, complaints: Complaints
) -> None:
    complaints.expect("/~finish/.*409")
    create_channel(server, "focused", "list")
    server.http("POST", "/mpub?topic=focused", b"1\n2\n3")
    page = open_page("/topics/focused/list/~messages/", graphs=False)
    first, second = (page.locator("tbody[data-message]").nth(place) for place in (0, 1))
    left = second.get_attribute("data-message")
    first.get_by_text("Finish…").click()
    first.get_by_role("button", name="Finish this message").click()
    message(page)
    expect(page.get_by_label(f"Select message {left}")).to_be_focused()
    # From the bar, whose form goes with the selection.
    page.locator('input[name="id"]').last.check()
    bar = page.locator(".message-acts")
    bar.get_by_text("Finish…").click()
    bar.get_by_role("button", name="Finish the selected messages").click()
    message(page)
    expect(page.locator("#messages li")).to_be_focused()
    # What another consumer has finished meanwhile.
    page.locator('input[name="id"]').check()
    server.http("POST", "/channel/empty?topic=focused&channel=list")
    bar.get_by_text("Finish…").click()
    bar.get_by_role("button", name="Finish the selected messages").click()
    expect(page.get_by_role("alert").get_by_role("link")).to_be_focused()


def test_without_a_script_it_is_unfolded_and_finished_all_the_same(server: ServerProcess, open_page: OpenPage) -> None:
    create_channel(server, "quarry", "cart")
    server.http("POST", "/mpub?topic=quarry", b"one stone\ntwo stones")
    page = open_page("/topics/quarry/cart/~messages/", java_script_enabled=False)
    one = page.locator("tbody[data-message]").first
    one.locator("details.unfold > summary").click()
    expect(one.locator("pre.body")).to_have_text("one stone")
    one.get_by_text("Finish…").click()
    one.get_by_role("button", name="Finish this message").click()
    assert message(page) == "Finished 1 message of quarry/cart."
    assert server.channel_stats("quarry", "cart")["depth"] == 1


def test_a_list_says_how_old_it_is_and_refreshes_in_its_place(server: ServerProcess, open_page: OpenPage) -> None:
    create_channel(server, "stores", "shelf")
    server.http("POST", "/mpub?topic=stores", b"first\nsecond\nthird")
    page = open_page("/topics/stores/shelf/~messages/", graphs=False, permissions=["clipboard-read", "clipboard-write"])
    first, second = (page.locator(f'tbody[data-message="{row(page, text)}"]') for text in ("first", "second"))
    first.locator('input[name="id"]').check()
    second.locator("details.unfold > summary").click()
    expect(page.locator("[data-list-age]")).to_contain_text("old")
    # The first is finished elsewhere, another one comes.
    third = page.locator(f'tbody[data-message="{row(page, "third")}"] input[name="id"]')
    third.check()
    names = "topic=stores&channel=shelf"
    server.http("POST", f"/channel/message/finish?{names}&id={first.get_attribute('data-message')}")
    server.http("POST", "/pub?topic=stores", b"fourth")
    page.get_by_role("link", name="Refresh").click()
    expect(page.locator("[data-refreshed]")).to_have_text("Refreshed: 1 came, 1 left.")
    expect(page.locator("tbody[data-message]")).to_have_count(3)
    expect(second.locator("pre.body")).to_be_visible()
    expect(third).to_be_checked()
    expect(page.locator("[data-chosen]")).to_have_text("1 selected")
    expect(page.locator(".state-tab[aria-current] .count")).to_have_text("3")
    # What is selected is copied as its file has it, and the page goes on.
    second.locator('input[name="id"]').check()
    page.get_by_role("button", name="Copy selected").click()
    expect(page.get_by_role("button", name="Copied")).to_be_visible()
    lines = page.evaluate("navigator.clipboard.readText()").splitlines()
    assert [json.loads(line)["body"] for line in lines] == ["second", "third"]
    with page.expect_download() as downloaded:
        page.get_by_role("button", name="Download as NDJSON").click()
    assert downloaded.value.suggested_filename == "stores-shelf-messages.ndjson"
    page.get_by_role("button", name="Finish…").or_(page.locator("summary", has_text="Finish…")).first.click()
    page.get_by_role("button", name="Finish the selected messages").click()
    assert message(page) == "Finished 2 messages of stores/shelf."


def test_a_text_is_searched_for_while_the_page_shows_how_far_it_is(server: ServerProcess, open_page: OpenPage) -> None:
    create_channel(server, "letters", "post")
    server.http("POST", "/mpub?topic=letters", b"\n".join(b"letter <b>%d</b>" % number for number in range(150)))
    page = open_page("/topics/letters/post/~messages/", graphs=False)
    if page.locator("[aria-disabled]", has_text="Search").count():
        expect(page.get_by_text("only the log can be searched").first).to_be_attached()
        return
    page.get_by_label("Text", exact=True).fill("<b>7")
    page.get_by_role("search", name="Search the bodies").get_by_role("button", name="Search").click()
    status = page.locator(".search-state")
    expect(status).to_have_attribute("data-state", "at_end")
    # 7 and 70 to 79; what is found is marked, and is text.
    expect(page.locator("article.message")).to_have_count(11)
    expect(page.locator("article.message mark").first).to_have_text("<b>7")
    expect(status).to_contain_text("150 of 150 messages looked at")
    expect(page.get_by_role("button", name="Cancel")).to_be_hidden()
    page.locator("article.message a").first.click()
    expect(page.locator("pre.body")).to_have_text("letter <b>7</b>")
    # More than one search can have: it goes on from where it ended.
    page.go_back()
    page.goto("/topics/letters/post/~messages/?text=letter&in=all")
    expect(page.locator(".search-state")).to_have_attribute("data-state", "full")
    page.get_by_role("link", name="Continue from here").click()
    expect(page.locator("article.message")).to_have_count(50)
    expect(page.get_by_role("link", name="Continue from here")).to_have_count(0)


def test_shortcuts_of_a_single_key_can_be_switched_off_for_good(server: ServerProcess, open_page: OpenPage) -> None:
    create_channel(server, "bells", "rope")
    server.http("POST", "/pub?topic=bells", b"ding")
    page = open_page("/topics/bells/rope/~messages/", graphs=False)
    page.locator(".who summary").click()
    page.get_by_label("Single-key shortcuts").uncheck()
    page.reload()
    for key in ("j", "x", "/", "g", "t"):
        page.keyboard.press(key)
    expect(page.locator("tbody[data-at]")).to_have_count(0)
    expect(page.locator(".search input")).not_to_be_focused()
    expect(page.locator(".search kbd")).to_be_hidden()
    assert page.url.endswith("/~messages/")
    page.locator(".who summary").click()
    page.get_by_label("Single-key shortcuts").check()
    page.keyboard.press("Escape")
    page.keyboard.press("j")
    expect(page.locator("tbody[data-at]")).to_have_count(1)
    page.keyboard.press("/")
    expect(page.locator(".search input")).to_be_focused()


def test_a_second_click_posts_no_act_twice(server: ServerProcess, open_page: OpenPage) -> None:
    create_channel(server, "twice", "clicked")
    server.http("POST", "/pub?topic=twice", b"once")
    page = open_page("/topics/twice/clicked/~messages/", graphs=False)
    # Submit events alone: what the page does with them is what counts, and nothing is sent.
    is_prevented = page.evaluate(
        """() => [1, 2].map(() => {
          const event = new SubmitEvent("submit", { cancelable: true });
          document.querySelector("form[data-messages]").dispatchEvent(event);
          return event.defaultPrevented;
        })"""
    )
    assert is_prevented == [False, True]
