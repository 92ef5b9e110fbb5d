"""Every page has one clock: the browser's zone or UTC, by the user's choice or by the link; forms take times in it."""

import re
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import OpenPage
from tests.support.lakes.pipeline_lake import archived_topic, planned_replay
from tests.support.pages.console_page import create_channel, open_act, wait_until_live
from tests.support.processes.server import ServerProcess

pytestmark = [pytest.mark.slow(reason="drives the real Chromium"), pytest.mark.browser]

KATHMANDU, AUCKLAND, BERLIN = "Asia/Kathmandu", "Pacific/Auckland", "Europe/Berlin"
TOPIC = "clockwork"
CHANNEL_PATH = f"/topics/{TOPIC}/ticks/"
REPLAY = "20260301-143000-7f3a"
IN_A_BODY = "2026-03-01 14:30:05 UTC"
# What it shows of times: how many at least, heads of columns and labels of fields that name the zone.
PAGES = {
    "/": (0, []),
    f"/topics/{TOPIC}/": (0, []),
    CHANNEL_PATH: (1, []),
    f"{CHANNEL_PATH}?range=24h&as=table": (1, []),
    f"{CHANNEL_PATH}~pause/": (0, ["Time"]),
    f"{CHANNEL_PATH}~rewind/": (0, ["Time"]),
    f"{CHANNEL_PATH}~messages/": (1, ["Published from", "up to"]),
    f"{CHANNEL_PATH}~messages/0/": (1, []),
    f"/topics/{TOPIC}/~messages/": (0, ["or from"]),
    "/audit/": (3, ["When"]),
    "/trash/": (1, ["When"]),
    "/tokens/": (1, ["Expires", "Last used", "Created"]),
    "/pipeline/": (2, ["From, to"]),
    f"/pipeline/replays/{REPLAY}/": (0, []),
    "/pipeline/~replay/": (0, ["From", "To"]),
}
# Half a day ahead of UTC, where every date differs: one page of each kind of time.
IN_AUCKLAND = (CHANNEL_PATH, f"{CHANNEL_PATH}~messages/", "/audit/", "/pipeline/")


@pytest.fixture(scope="module")
def clockwork(server: ServerProcess) -> None:
    """A topic that is paused until tomorrow, one in the trash, a token, an archive and a planned replay."""
    lake = server.data_path / "pipeline"
    create_channel(server, TOPIC, "ticks")
    server.http("POST", f"/pub?topic={TOPIC}", IN_A_BODY.encode())
    server.http("POST", f"/channel/pause?topic={TOPIC}&channel=ticks&reason=why&for=24h")
    create_channel(server, "gone", "by")
    server.http("POST", "/topic/delete?topic=gone")
    archived_topic(lake, TOPIC, 1, 0)
    planned_replay(lake, REPLAY, topic=TOPIC)


@pytest.fixture
def token(clockwork: None, open_page: OpenPage) -> None:
    page = open_page("/tokens/", graphs=False)
    if not page.get_by_text("ticker").count():
        page.goto("/tokens/~create/")
        page.locator("[name=token_name]").fill("ticker")
        page.get_by_label("publish messages").check()
        page.get_by_role("button", name="Create token").click()


@pytest.fixture
def in_zone(open_page: OpenPage) -> Any:
    return lambda path, zone=KATHMANDU, **options: open_page(path, timezone_id=zone, graphs=False, **options)


def times_of(page: Page) -> list[dict[str, Any]]:
    """Each moment on the page: what it is, its words, and whether the head of its column names the zone for it."""
    found: list[dict[str, Any]] = page.evaluate(
        """[...document.querySelectorAll("main time, dialog time")].map((one) => (
             {at: one.dateTime, words: one.textContent, isInColumn: one.hasAttribute("data-column")}))"""
    )
    return found


def zoned(at: str, zone: str, *, with_zone: bool) -> str:
    """The words of a moment in a zone."""
    moment = datetime.fromisoformat(at).astimezone(ZoneInfo(zone))
    words = moment.strftime("%Y-%m-%d %H:%M")
    if re.search(r":\d\d:\d\d", at):
        words += at[16:].removesuffix("Z")
    minutes = int((moment.utcoffset() or timedelta()).total_seconds() // 60)
    rest = f":{minutes % 60:02d}" if minutes % 60 else ""
    return f"{words} UTC{f'+{minutes // 60}{rest}' if minutes else ''}" if with_zone else words


def unwrapped(page: Page) -> list[str]:
    """Moments that no <time> has, and titles in another zone than the page's; fields of heads that name UTC."""
    found: list[str] = page.evaluate(
        r"""() => {
          const moment = /\d{4}-\d\d-\d\d \d\d:\d\d/;
          const others = "[data-verbatim], .json, .preview, pre, script, time";
          const places = [...document.querySelectorAll("main *")].filter((one) => !one.closest(others));
          const nodes = places.flatMap((one) => [...one.childNodes]).filter((node) => node.nodeType === 3);
          const texts = nodes.map((node) => node.data);
          const titles = places.flatMap((one) => [one.title, one.dataset.label]).filter(Boolean);
          const isLocal = document.documentElement.dataset.clock === "local";
          return [...texts.filter((text) => moment.test(text)),
                  ...[...texts, ...titles].filter((text) => isLocal && /UTC(?![+−])/.test(text))];
        }"""
    )
    return found


def choose(page: Page, clock: str) -> None:
    """The menu's choice, which the server has stored when this returns."""
    page.locator(".who summary").click()
    with page.expect_response("**/clock/") as answer:
        page.get_by_label("UTC" if clock == "utc" else "Local", exact=clock == "utc").check()
    assert answer.value.status == 204
    page.keyboard.press("Escape")


def place_of(page: Page) -> str:
    """As the browser names its zone: Chromium writes Katmandu."""
    name: str = page.evaluate("Intl.DateTimeFormat().resolvedOptions().timeZone")
    return name.partition("/")[2]


def complaints_about(page: Page, clock: str, zone: str, path: str) -> list[str]:
    """What the page shows otherwise than in this clock; zone: the browser's."""
    least, heads = PAGES[path]
    times = times_of(page)
    named = place_of(page) if clock == "local" else "UTC"
    words = page.locator("main").text_content() or ""
    found = [f"{text!r} is in no <time>, or in another zone" for text in unwrapped(page)]
    found += [f"no {head} ({named})" for head in heads if f"{head} ({named})" not in words]
    found += [f"{len(times)} times, not {least}"] if len(times) < least else []
    for one in times:
        expected = zoned(one["at"], zone if clock == "local" else "UTC", with_zone=not one["isInColumn"])
        found += [f"{one['words']!r}, not {expected!r}"] if one["words"] != expected else []
    return [f"{path} {clock}: {text}" for text in found]


@pytest.mark.usefixtures("token")
@pytest.mark.parametrize(("zone", "paths"), [(KATHMANDU, tuple(PAGES)), (AUCKLAND, IN_AUCKLAND)])
def test_every_page_shows_times_in_the_zone_of_the_browser_or_in_utc_and_names_it(
    in_zone: Any, zone: str, paths: tuple[str, ...]
) -> None:
    """Each page as it comes, and after the other choice: so each clock is seen on each page, at half of the loads."""
    page = in_zone("/", zone)
    clock, wrong = "local", []
    for path in paths:
        page.goto(path)
        assert page.locator("html").get_attribute("data-clock") == clock
        wrong += complaints_about(page, clock, zone, path)
        clock = "local" if clock == "utc" else "utc"
        choose(page, clock)
        wrong += complaints_about(page, clock, zone, path)
    if clock == "utc":
        choose(page, "local")
    assert not wrong, "\n".join(wrong)


@pytest.mark.usefixtures("clockwork")
def test_the_choice_follows_the_user_to_another_browser_and_a_link_has_its_own_for_one_page(in_zone: Any) -> None:
    one, other = in_zone("/audit/"), in_zone("/trash/", AUCKLAND)
    choose(one, "utc")
    other.reload()
    expect(other.locator("th", has_text="When")).to_have_text("When (UTC)")
    other.goto("/trash/?tz=local")
    expect(other.locator("th", has_text="When")).to_have_text("When (Auckland)")
    other.goto("/trash/")
    expect(other.locator("th", has_text="When")).to_have_text("When (UTC)")
    choose(one, "local")


@pytest.mark.usefixtures("clockwork")
def test_a_pause_ends_at_the_time_of_the_zone_and_its_sentences_and_updates_say_it_so(
    server: ServerProcess, in_zone: Any
) -> None:
    create_channel(server, TOPIC, "tocks")
    page = in_zone(f"/topics/{TOPIC}/tocks/", AUCKLAND)
    wait_until_live(page)
    until = (datetime.now(UTC) + timedelta(hours=30)).replace(second=0, microsecond=0)
    words = f"{zoned(f'{until:%Y-%m-%dT%H:%M:%SZ}', AUCKLAND, with_zone=True)}"
    dialog = open_act(page, "Pause…")
    dialog.get_by_label("The pause ends").select_option("until")
    dialog.get_by_label("Time (Auckland)").fill(f"{until.astimezone(ZoneInfo(AUCKLAND)):%Y-%m-%dT%H:%M}")
    dialog.get_by_role("button", name="Pause").click()
    expect(page.locator("#messages li").first).to_contain_text(words)
    expect(page.locator("[data-text=pause_until]")).to_contain_text(words)
    expect(page.locator("[data-banner]")).to_contain_text(words)
    # The field of the next dialog has the end that the pause has; one that is not touched says the same.
    dialog = open_act(page, "Change end")
    expect(dialog.get_by_label("Time (Auckland)")).to_have_value(
        f"{until.astimezone(ZoneInfo(AUCKLAND)):%Y-%m-%dT%H:%M}"
    )
    dialog.get_by_label("The pause ends").select_option("until")
    with page.expect_response("**/~pause/") as answer:
        dialog.get_by_role("button", name="Change").click()
    assert f"until={until:%Y-%m-%dT%H}%3A{until:%M}Z" in (answer.value.request.post_data or "")
    expect(page.get_by_role("dialog")).to_have_count(0)
    # An update, of what another browser does: the sentence comes in UTC.
    server.http("POST", f"/channel/unpause?topic={TOPIC}&channel=tocks")
    expect(page.locator("[data-text=pause_until]")).to_be_hidden()
    server.http("POST", f"/channel/pause?topic={TOPIC}&channel=tocks&for=1h")
    since = page.locator("[data-text=pause_since] time")
    expect(since).to_be_visible()
    assert since.text_content() == zoned(since.get_attribute("datetime") or "", AUCKLAND, with_zone=True)


@pytest.mark.usefixtures("clockwork")
def test_filters_and_replays_take_times_of_the_zone_and_links_carry_utc(in_zone: Any) -> None:
    page = in_zone(f"{CHANNEL_PATH}~messages/?state=waiting&from=2026-03-01T10:00Z")
    place = place_of(page)
    field = page.get_by_label(f"Published from ({place})")
    expect(field).to_have_value("2026-03-01T15:45")
    field.fill("2026-03-02T05:00")
    page.get_by_role("button", name="Show", exact=True).click()
    page.wait_for_url("**from=2026-03-01T23%3A15Z**")
    expect(field).to_have_value("2026-03-02T05:00")
    page.goto(f"/topics/{TOPIC}/~messages/?tz=utc")
    page.get_by_label("or from (UTC)").fill("2026-03-02T05:00")
    page.get_by_role("button", name="Show", exact=True).click()
    page.wait_for_url("**at=2026-03-02T05%3A00Z**")
    page.goto("/pipeline/~replay/")
    page.get_by_label("Publish to topic").fill(TOPIC)
    page.get_by_label(f"From ({place})").fill("2026-03-02T05:00")
    with page.expect_request("**/~replay/") as sent:
        page.get_by_role("button", name="Plan").click()
    assert "start=2026-03-01T23%3A15Z&end=&" in (sent.value.post_data or "")
    page.goto(f"{CHANNEL_PATH}~rewind/")
    page.get_by_label("Rewind to").select_option("time")
    page.get_by_label(f"Time ({place})").fill("2026-03-02T05:00")
    with page.expect_request("**/~rewind/") as sent:
        page.get_by_role("button", name="Preview").click()
    assert "at=2026-03-01T23%3A15Z" in (sent.value.post_data or "")


@pytest.mark.usefixtures("clockwork")
def test_a_time_that_the_clock_skips_is_refused_and_of_a_repeated_one_the_first_is_taken_and_said(in_zone: Any) -> None:
    page = in_zone(f"{CHANNEL_PATH}~messages/?from=2026-10-25T01:30Z", BERLIN)
    field, note = page.get_by_label("Published from (Berlin)"), page.locator("[data-time-note]")
    show = page.get_by_role("button", name="Show", exact=True)
    # The second of the two: a field that is not touched stays what it is.
    expect(field).to_have_value("2026-10-25T02:30")
    expect(note).to_have_text("On that day the clock in Berlin shows 02:30 twice: the second is taken, UTC+1.")
    show.click()
    page.wait_for_url("**from=2026-10-25T01%3A30Z**")
    field.fill("2026-03-29T02:30")
    expect(note).to_have_text("On that day the clock in Berlin skips 02:30. Choose another time.")
    show.click()
    expect(field).to_be_focused()  # where the browser says that it is not valid
    assert "from=2026-10-25T01%3A30Z" in page.url
    field.fill("2026-10-25T02:30")
    expect(note).to_have_text("On that day the clock in Berlin shows 02:30 twice: the first is taken, UTC+2.")
    show.click()
    page.wait_for_url("**from=2026-10-25T00%3A30Z**")
    field.fill("2026-10-25T03:30")
    expect(note).to_have_text("")
    # A column says which of the two it means, a sentence always has the offset.
    page.locator("main").evaluate(
        """(main) => main.insertAdjacentHTML("beforeend", `<p id="fall">${["00:59:59", "01:00:00", "02:00:00"]
             .map((clock) => `<time data-column datetime="2026-10-25T${clock}Z">2026-10-25 ${clock}</time>`).join(", ")
             } and 2026-03-29 00:59:59 UTC, 2026-03-29 01:00 UTC</p>`)"""
    )
    expect(page.locator("#fall")).to_have_text(
        "2026-10-25 02:59:59 UTC+2, 2026-10-25 02:00:00 UTC+1, 2026-10-25 03:00:00 and "
        "2026-03-29 01:59:59 UTC+1, 2026-03-29 03:00 UTC+2"
    )


@pytest.mark.usefixtures("clockwork")
def test_the_text_of_a_message_stays_as_it_is(in_zone: Any) -> None:
    for path in (f"{CHANNEL_PATH}~messages/", f"{CHANNEL_PATH}~messages/0/", f"/topics/{TOPIC}/~messages/"):
        page = in_zone(path)
        assert IN_A_BODY in (page.locator("main").text_content() or ""), path
