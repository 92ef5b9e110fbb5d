"""What every page must keep to, in a narrow window and in the dark. How they look is for eyes: see screenshots.py."""

import re
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Page, ViewportSize, expect

from tests.browser.conftest import OpenPage
from tests.browser.pages import ConsolePage, pages_of
from tests.support.nsq_socket import NsqSocket
from tests.support.pages.browser import Complaints
from tests.support.pages.console_page import create_channel, open_act
from tests.support.processes.server import ServerProcess

pytestmark = [pytest.mark.slow(reason="drives the real Chromium"), pytest.mark.browser]

NARROW: ViewportSize = {"width": 360, "height": 740}
WIDE: ViewportSize = {"width": 1440, "height": 900}
SIZES: tuple[ViewportSize, ...] = (NARROW, *({"width": width, "height": 760} for width in (600, 768, 1024, 1280)), WIDE)
HEADER_PX = 52
# How far what a card holds stands out of it.
# A range as a table scrolls within its card.
STICKS_OUT = """[...document.querySelectorAll("table.list:not(.range-table > *)")]
    .map((table) => [table, table.getBoundingClientRect().right - table.parentElement.getBoundingClientRect().right])
    .filter(([, px]) => px >= 1)
    .map(([table, px]) => `${table.dataset.table ?? table.className} by ${px} px`)"""

# What of the header stands on more than one line, and its height.
HEADER = """[document.querySelector(".header").offsetHeight,
    [...document.querySelectorAll(".header :is(a, summary, .badge, .freshness, .here)")]
      .filter((part) => part.checkVisibility() && part.getBoundingClientRect().bottom > 53)
      .map((part) => part.textContent)]"""
PLACES = "[...document.querySelectorAll('.places > a')].filter((place) => place.checkVisibility()).length"


def brightness(page: Page, of: str) -> float:
    """Of the body's "color" or "backgroundColor": 0 black to 255 white."""
    channels = page.evaluate("(name) => getComputedStyle(document.body)[name].match(/[0-9.]+/g).map(Number)", of)
    return float(sum(channels[:3]) / 3)


def go_to(page: Page, wanted: ConsolePage) -> None:
    page.goto(wanted.path)
    if wanted.act:
        open_act(page, wanted.act)


def test_no_page_scrolls_sideways_and_every_page_is_dark_in_the_dark(
    server: ServerProcess, open_page: OpenPage, complaints: Complaints
) -> None:
    complaints.expect("nothing-is-called-so/.*404")
    complaints.expect("/audit/.*403")
    create_channel(server, "looks", "fine")
    with NsqSocket(server.tcp_port) as consumer:
        consumer.identify(client_id="billing-worker-eu-west-1", user_agent="pynsq/0.9.1")
        consumer.subscribe("looks", "fine", rdy=2)
        server.http("POST", "/mpub?topic=looks", b"1\n2\n3")
        tabs = {
            user: open_page("/login/", user=user, graphs=False, viewport=NARROW, color_scheme="dark")
            for user in ("", "admin", "vera")
        }
        sizes = [*SIZES]
        last = dict.fromkeys(tabs, NARROW)
        for wanted in pages_of("looks", "fine"):
            page = tabs[wanted.user]
            go_to(page, wanted)
            expect(page.locator("h1, h2").first).to_be_visible()
            # From the window that there is: each change lays the whole page out anew.
            for size in sizes if last[wanted.user] == NARROW else sizes[::-1]:
                if size != last[wanted.user]:
                    page.set_viewport_size(size)
                    last[wanted.user] = size
                width, stick_out = page.evaluate(f"[document.scrollingElement.scrollWidth, {STICKS_OUT}]")
                assert width <= size["width"], f"{wanted.name} is {width} pixels wide in a window of {size['width']}"
                assert not stick_out, f"tables of {wanted.name} are wider than their cards at {size}"
                assert page.evaluate(HEADER) == [HEADER_PX, []], f"the header of {wanted.name} at {size}"
                if size == NARROW:
                    assert brightness(page, "backgroundColor") < 60, f"{wanted.name} is light in the dark"
                    assert brightness(page, "color") > 180, f"{wanted.name} has dark letters in the dark"


def test_a_long_value_of_a_card_goes_below_its_head(server: ServerProcess, open_page: OpenPage) -> None:
    create_channel(server, "cards", "long")
    server.http("POST", "/mpub?topic=cards", b"1\n2")
    page = open_page("/topics/cards/long/~messages/", graphs=False, viewport=NARROW)
    cell = page.locator("td.number[data-label]").last
    one_line = cell.bounding_box()
    cell.evaluate("(cell) => { cell.dataset.label = 'Quarantined'; cell.textContent = '23h 58m 12s ago'; }")
    box, card = cell.bounding_box(), page.locator("tbody").last.bounding_box()
    assert one_line is not None
    assert box is not None
    assert card is not None
    assert cell.evaluate("(cell) => cell.scrollWidth - cell.clientWidth") == 0
    assert box["height"] > 1.5 * one_line["height"]
    right_px = cell.evaluate(
        "(cell) => { const r = new Range(); r.selectNodeContents(cell); return r.getBoundingClientRect().right; }"
    )
    assert box["x"] + box["width"] - 1 <= right_px <= card["x"] + card["width"]


# Parts of names that stand on more than one line; those that are longer than any word may.
BROKEN = """[...document.querySelectorAll("td.name a, h1")].filter((name) => name.checkVisibility()).flatMap((name) => {
    const found = [];
    const texts = document.createTreeWalker(name, NodeFilter.SHOW_TEXT);
    while (texts.nextNode()) for (const part of texts.currentNode.data.matchAll(/[^./_\\s-]+/g)) {
      const range = new Range();
      range.setStart(texts.currentNode, part.index);
      range.setEnd(texts.currentNode, part.index + part[0].length);
      const lines = new Set([...range.getClientRects()].map((box) => Math.round(box.top)));
      if (part[0].length <= 24 && lines.size > 1) found.push(part[0]);
    }
    return found;
  })"""


def test_names_break_between_their_parts_alone_and_long_ones_widen_no_page(
    server: ServerProcess, open_page: OpenPage
) -> None:
    names = ("billing.eu-west-1.payments_and_refunds", "nightly-settlement_export"), ("n" * 64, "c" * 64)
    for topic, channel in names:
        create_channel(server, topic, channel)
        server.http("POST", f"/pub?topic={topic}", b"1")
    page = open_page("/login/", graphs=False, viewport=NARROW)
    paths = ["/", "/topics/", *(f"/topics/{topic}/" for topic, _ in names)]
    for path in (*paths, *(f"/topics/{topic}/{channel}/" for topic, channel in names)):
        page.goto(path)
        for size in SIZES:
            page.set_viewport_size(size)
            assert page.evaluate(BROKEN) == [], f"{path} at {size}"
            assert page.evaluate("document.scrollingElement.scrollWidth") <= size["width"], f"{path} at {size}"


def test_a_phone_shows_seventeen_channels_and_both_graphs_in_1900_pixels(
    server: ServerProcess, open_page: OpenPage
) -> None:
    for number in range(17):
        create_channel(server, f"phone-{number}", "line")
    page = open_page("/?show=all", graphs=False, viewport=NARROW)
    expect(page.locator(".figure .plot")).to_have_count(2)
    rows = page.locator('[data-table="urgent"] tbody tr')
    rows.nth(16).wait_for()
    heights = rows.evaluate_all("(rows) => rows.map((row) => row.offsetHeight)")
    assert min(heights) >= 44, "for a finger"
    assert max(heights) <= 66
    expect(rows.locator(".button:visible")).to_have_count(0)
    rows.last.locator("td.name").click()
    expect(page).to_have_url(re.compile(r"/topics/[^/]+/[^/]+/$"))
    # Quiet ones are one line.
    page.goto("/")
    expect(page.locator('[data-text="quiet"]')).to_be_visible()
    assert page.evaluate("document.scrollingElement.scrollHeight") <= 1_900


def top_of(page: Page, selector: str) -> float:
    box = page.locator(selector).first.bounding_box()
    assert box is not None, selector
    return box["y"]


def test_a_narrow_page_begins_with_what_is_wrong_and_has_its_acts_behind_one_button(
    server: ServerProcess, open_page: OpenPage
) -> None:
    create_channel(server, "narrows", "pass")
    server.http("POST", "/mpub?topic=narrows", b"1\n2\n3")
    page = open_page("/topics/narrows/pass/", graphs=False, viewport=NARROW)
    expect(page.locator("[data-banner]")).to_contain_text("no consumer is connected")
    assert top_of(page, "h1") < top_of(page, "[data-banner]") < top_of(page, "[data-stats]")
    acts, pause = page.get_by_role("button", name="Acts"), page.get_by_role("link", name="Pause…")
    expect(pause).to_be_hidden()
    expect(page.locator(".page-head .button:visible")).to_have_count(1)
    open_act(page, "Pause…")
    expect(pause).to_be_hidden()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(acts).to_be_focused()
    page.set_viewport_size(WIDE)
    expect(pause).to_be_visible()
    expect(acts).to_be_hidden()
    page.set_viewport_size(NARROW)
    for path, begin in (("/", ".list-bar"), ("/topics/narrows/", '[data-table="channels"] tbody tr')):
        page.goto(path)
        name_and_state_px = 48
        assert top_of(page, begin) + name_and_state_px < NARROW["height"], path
    # The heads of the channels sort, and the table keeps to its card at any width.
    card = page.get_by_role("region", name="Channels")
    for width in (641, 741, 1024, 1121, 1361, 1440, 1520):
        page.set_viewport_size({"width": width, "height": 740})
        assert card.evaluate("(card) => card.scrollWidth - card.clientWidth") == 0, width
        expect(card.get_by_role("columnheader", name="Depth").get_by_role("link")).to_be_visible()
    page.set_viewport_size(NARROW)
    page.goto("/")
    banner = page.locator("[data-banner]").bounding_box()
    assert banner is not None
    assert banner["height"] <= 136


def test_a_form_shows_the_fields_that_its_choice_needs(server: ServerProcess, open_page: OpenPage) -> None:
    create_channel(server, "choices", "one")
    with NsqSocket(server.tcp_port) as consumer:
        consumer.identify(client_id="only-one")
        consumer.subscribe("choices", "one", rdy=1)
        page = open_page("/topics/choices/one/", graphs=False)
        dialog = open_act(page, "Requeue in flight…")
        fields = dialog.get_by_label("Consumer", exact=True), dialog.get_by_label("Message id")
        for choice, is_shown in (
            ("All 0 messages", (0, 0)),
            ("All messages of one consumer", (1, 0)),
            ("One message", (0, 1)),
        ):
            dialog.get_by_label(choice).check()
            assert tuple(field.is_visible() for field in fields) == tuple(map(bool, is_shown)), choice
        dialog.get_by_role("link", name="Cancel").click()
    dialog = open_act(page, "Rewind…")
    fields = dialog.get_by_label("Offset"), dialog.get_by_label("Time (")
    for choice, is_shown in (("start", (0, 0)), ("offset", (1, 0)), ("time", (0, 1))):
        dialog.get_by_label("Rewind to").select_option(choice)
        assert tuple(field.is_visible() for field in fields) == tuple(map(bool, is_shown)), choice
    page.goto("/topics/choices/~archive-limits/")
    for choice, are_shown in (("default", False), ("own", True), ("default", False)):
        page.get_by_label("Limits").select_option(choice)
        fields = page.get_by_label("Keep for, days"), page.get_by_label("Keep at most, GiB")
        assert [field.is_visible() for field in fields] == [are_shown] * 2, choice


def test_a_narrow_card_has_no_line_for_what_there_is_not(server: ServerProcess, open_page: OpenPage) -> None:
    create_channel(server, "lines", "one")
    server.http("POST", "/pub?topic=lines", b"{}")
    page = open_page("/topics/lines/~messages/", viewport=NARROW, graphs=False)
    key = page.locator('td[data-label="Key"]')
    expect(key).to_have_text("–")
    expect(key).to_be_hidden()
    page.set_viewport_size(WIDE)
    expect(key).to_be_visible()
    page.goto("/topics/lines/one/~messages/0/")
    key = page.locator("dt", has_text="Key")
    expect(key).to_be_visible()
    page.set_viewport_size(NARROW)
    expect(key).to_be_hidden()


def test_a_narrow_page_has_its_reason_below_title_and_button(server: ServerProcess, open_page: OpenPage) -> None:
    create_channel(server, "reasons", "one")
    page = open_page("/topics/", user="vera", viewport=NARROW, graphs=False)
    boxes = [page.locator(f".page-head {part}").bounding_box() for part in ("h1", ".actions > .button", ".why-not")]
    title, button, reason = (box for box in boxes if box is not None)
    assert abs(title["y"] - button["y"]) < button["height"]
    assert reason["y"] >= button["y"] + button["height"]
    assert reason["width"] > 2 * NARROW["width"] / 3


def test_as_many_places_as_fit_stand_in_the_header_and_the_rest_behind_more(open_page: OpenPage) -> None:
    page = open_page("/audit/", graphs=False)
    all_places = page.locator(".places > a").all_text_contents()
    for width, count in ((1440, 8), (1280, 6), (1279, 5), (1024, 5), (1023, 3), (768, 3), (641, 3)):
        page.set_viewport_size({"width": width, "height": 760})
        assert page.evaluate(PLACES) == count, width
        more = page.locator(".more-places summary")
        assert more.is_visible() == (count < len(all_places)), width
        if more.is_visible():
            more.click()
            rest = page.locator(".more-places a:visible")
            assert rest.all_text_contents() == all_places[count:], width
            page.keyboard.press("Escape")
            expect(more).to_be_focused()
    more.click()
    page.get_by_role("navigation", name="Places").get_by_role("link", name="Pipeline").click()
    expect(page).to_have_url(re.compile("/pipeline/$"))


def test_below_1200_pixels_search_is_a_sign_until_it_has_the_focus(open_page: OpenPage) -> None:
    page = open_page("/topics/", graphs=False, viewport={"width": 768, "height": 760})
    search = page.get_by_role("searchbox", name="Search topics")
    assert search.evaluate("(field) => field.offsetWidth") == 44
    page.keyboard.press("/")
    expect(search).to_be_focused()
    assert search.evaluate("(field) => field.offsetWidth") > 200
    page.set_viewport_size(NARROW)
    page.locator("h2, .page-head").first.click()
    expect(search).to_be_hidden()
    page.keyboard.press("/")
    expect(search).to_be_focused()


def test_a_phone_has_all_places_and_the_users_entries_in_one_menu(open_page: OpenPage) -> None:
    page = open_page("/password/", graphs=False)
    page.set_viewport_size(NARROW)
    page.get_by_role("button", name="Menu").click()
    assert page.evaluate(PLACES) == 8
    expect(page.get_by_role("searchbox", name="Search topics")).to_be_visible()
    parts = page.locator(".menu :is(.who-menu .entry, .who-menu label, .places > a)")
    heights = parts.evaluate_all("(all) => all.filter((one) => one.checkVisibility()).map((one) => one.offsetHeight)")
    assert len(heights) == 17
    assert min(heights) >= 44
    page.get_by_role("link", name="Trash").click()
    page.wait_for_url("**/trash/")
    expect(page.locator(".here")).to_have_text("Trash")
    assert page.locator("h1").evaluate("(h1) => h1.offsetHeight") <= 1, "the header has the name"


def test_the_narrow_header_is_the_same_with_and_without_freshness(open_page: OpenPage) -> None:
    page = open_page("/topics/", graphs=False, viewport=NARROW)
    parts = {}
    for path in ("/topics/", "/audit/", "/password/", "/topics/~create/"):
        page.goto(path)
        boxes = {name: page.locator(name).bounding_box() for name in (".header", ".brand", ".menu-button")}
        parts[path] = {name: {key: round(value) for key, value in box.items()} for name, box in boxes.items() if box}
    assert all(each == parts["/topics/"] for each in parts.values()), parts


def test_the_theme_is_chosen_by_hand_and_kept(open_page: OpenPage) -> None:
    page = open_page("/topics/", graphs=False, color_scheme="light")
    assert brightness(page, "backgroundColor") > 200
    page.locator("summary").filter(has_text="admin").click()
    page.get_by_role("radio", name="Dark").check()
    assert brightness(page, "backgroundColor") < 60
    page.reload()
    assert brightness(page, "backgroundColor") < 60
    page.locator("summary").filter(has_text="admin").click()
    page.get_by_role("radio", name="System").check()
    assert brightness(page, "backgroundColor") > 200


def test_the_keyboard_reaches_search_and_every_place(open_page: OpenPage) -> None:
    page = open_page("/", graphs=False)
    page.keyboard.press("/")
    expect(page.get_by_role("searchbox", name="Search topics")).to_be_focused()
    page.keyboard.type("looks")
    page.keyboard.press("Enter")
    page.wait_for_url("**/topics/?q=looks")
    for key, path in (("a", "/audit/"), ("p", "/pipeline/"), ("t", "/topics/"), ("o", "/")):
        with page.expect_navigation():
            press_at_once(page, "g", key)
        assert urlsplit(page.url).path == path
    assert clicked_by(page, "gzagt") == ["Topics"], "another key in between ends it"
    # A viewer has no audit list, and comes nowhere else for it.
    assert clicked_by(open_page("/topics/", user="vera", graphs=False), "gagp") == ["Pipeline"]


def press_at_once(page: Page, *keys: str) -> None:
    """One key after the other, however slow the machine is: "g" waits 1.5 s for the next."""
    page.evaluate(
        """(keys) => {
          for (const key of keys) document.body.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
        }""",
        list(keys),
    )


def clicked_by(page: Page, keys: str) -> list[str]:
    """The links that these keys click, without following them."""
    page.evaluate(
        """() => {
          window.clickedLinks = [];
          document.addEventListener("click", (event) => {
            event.preventDefault();
            window.clickedLinks.push(event.target.textContent);
          });
        }"""
    )
    press_at_once(page, *keys)
    found: list[str] = page.evaluate("window.clickedLinks")
    return found
