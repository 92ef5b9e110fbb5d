"""Pausing and resuming on pages: the form, what it does, and what pages say of a pause."""

import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from django.conf import settings
from django.test import Client

from admin_console.audit.models import AuditRow
from admin_console.hub.hub import LiveState
from admin_console.screens.channel_list import PAUSED, passing
from admin_console.screens.channel_rows import state_cell
from admin_console.screens.diagnosis import topic_banner
from admin_console.views.pausing import _moment_ms
from admin_console.vocabulary.roles import Role
from queue_engine.delivery.stats import ChannelStats
from queue_engine.service.runner import EngineRunner
from queue_engine.vocabulary.flow.pause import Pause
from tests.console.test_acts import channel_stats, post, subscribed, topic_stats
from tests.console.test_pages import page
from tests.support.pages.console import client_of, make_user, orders_engine, see, words
from tests.support.pages.snapshots import START_S, channel, snapshot, topic

pytestmark = pytest.mark.django_db

PAUSE, RESUME = "/topics/orders/billing/~pause/", "/topics/orders/billing/~unpause/"
MINUTE_MS = 60_000


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[EngineRunner]:
    with orders_engine(tmp_path) as runner:
        see(runner)
        yield runner


def billing(engine: EngineRunner) -> ChannelStats:
    found = channel_stats(engine)
    assert found is not None
    return found


def test_a_pause_with_a_reason_and_an_end_is_on_every_page(client: Client, engine: EngineRunner) -> None:
    answer = post(client, PAUSE, reason="bad deploy", **{"for": "15m"})
    assert answer["message"].startswith("Paused orders/billing for 15m: its consumers get nothing until")
    assert answer["undo"] == RESUME
    pause = billing(engine).pause
    assert pause is not None
    assert (pause.by, pause.reason, pause.depth) == ("ada", "bad deploy", 5)
    assert pause.until_ms - pause.since_ms == 15 * MINUTE_MS
    assert AuditRow.objects.filter(phase="result").get().reason == "bad deploy"
    see(engine)
    for path in ("/", "/topics/orders/", "/topics/orders/billing/"):
        text = words(page(client, path))
        assert "❚❚ paused" in text, path
    for path in ("/", "/topics/orders/"):
        assert re.search(
            r'title="Paused by ada for [^"]* Reason: bad deploy. It resumes by itself in', page(client, path)
        ), path
    for fact in ("Paused by ada", "Reason bad deploy", "Depth when it began 5, unchanged since"):
        assert fact in text


def test_the_form_and_the_sentence_count_what_is_deferred_too(client: Client, engine: EngineRunner) -> None:
    engine.calls.publish("orders", [b"later"], defer_ms=MINUTE_MS).result(30)
    see(engine)
    held = "It holds 6 messages (depth 5, 1 deferred) now."
    assert held in words(page(client, PAUSE))
    assert held in post(client, PAUSE)["message"]


def test_the_form_changes_a_pause_that_is_there(client: Client, engine: EngineRunner) -> None:
    post(client, PAUSE, reason="bad deploy", **{"for": "15m"})
    before = billing(engine).pause
    see(engine)
    assert before is not None
    form = words(page(client, PAUSE))
    assert "Change the pause of orders/billing" in form
    assert 'value="bad deploy"' in client.get(PAUSE).content.decode()
    other = client_of(make_user("ben"))
    answer = post(other, PAUSE, reason="bad deploy", **{"for": "none"})
    assert answer["message"] == "Changed the pause of orders/billing: it is paused until it is resumed."
    assert answer["undo"] == "", "to resume it would not take that back"
    after = billing(engine).pause
    assert after == replace(before, until_ms=0, changed_by="ben", changed_ms=after.changed_ms if after else 0)
    see(engine)
    assert "ada; changed by ben at" in words(page(client, "/topics/orders/billing/"))


def test_wrong_values_are_named_and_nothing_is_paused(client: Client, engine: EngineRunner) -> None:
    for form, told in (
        ({"for": "until", "until": "soon"}, "Time: 'soon' is no time such as 14:30 or 2026-03-01 14:30"),
        ({"for": "until", "until": "2020-01-01 10:00"}, "Time: 2020-01-01 10:00 UTC has passed"),
        ({"for": "15"}, "The pause ends: '15' is not a duration"),
        ({"for": "9000h"}, "is not between 0 and 8784h"),
        ({"reason": "x" * 201}, "Reason: it has 201 characters, at most 200"),
    ):
        answer = post(client, PAUSE, **form)
        assert (answer["ok"], answer["status"]) == (False, 400), form
        assert told in answer["message"], form
        assert not billing(engine).paused, form


def test_a_server_may_want_a_reason(client: Client, engine: EngineRunner, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings, "CONSOLE", replace(settings.CONSOLE, pause_reason_required=True))
    answer = post(client, PAUSE, reason=" ")
    assert answer["message"] == "Reason: this server requires one for each pause. Nothing was done."
    assert not billing(engine).paused
    assert post(client, PAUSE, reason="repair")["ok"]


def test_a_resume_says_what_it_releases_and_may_be_slow(client: Client, engine: EngineRunner) -> None:
    post(client, PAUSE)
    consumer = subscribed(engine, 1)
    see(engine)
    form = words(page(client, RESUME))
    assert "It releases 5 messages" in form
    assert "1 of 1 consumer is ready (RDY 1)." in form
    assert "The depth was 5 when the pause began, and is the same now." in form
    answer = post(client, RESUME, ramp="5m")
    assert answer["message"].startswith("Resumed orders/billing, slowly at first, for 5m: its depth was")
    assert billing(engine).ramp is not None
    see(engine)
    channel_page = page(client, "/topics/orders/billing/")
    assert "Resuming slowly: it delivers ever faster until its ramp ends. It was resumed" in words(channel_page)
    assert 'data-when="ramping" hidden' in channel_page, "the banner says it: once is enough"
    assert "Resume orders/billing fully now" in words(page(client, RESUME))
    post(client, RESUME)
    assert billing(engine).ramp is None
    assert post(client, RESUME, ramp="soon")["message"].startswith("It delivers: 'soon' is not a duration")
    consumer.close()


def test_a_topic_is_paused_with_an_end_too(client: Client, engine: EngineRunner) -> None:
    assert "New messages will stay at the topic and reach no channel until it is resumed." in words(
        page(client, "/topics/orders/~pause/")
    )
    assert post(client, "/topics/orders/~pause/", reason="repair", **{"for": "1h"})["ok"]
    found = topic_stats(engine)
    assert found is not None
    assert found.pause is not None
    assert (found.pause.by, found.pause.reason) == ("ada", "repair")
    see(engine)
    assert "Reason: repair." in words(page(client, "/topics/orders/"))
    assert "It releases 0 messages to 1 channel." in words(page(client, "/topics/orders/~unpause/"))
    answer = post(client, "/topics/orders/~unpause/")
    assert answer["message"].startswith("Resumed orders: 0 messages waited at the topic itself.")


def test_what_is_not_paused_is_not_asked_to_resume(client: Client) -> None:
    for path in (RESUME, "/topics/orders/~unpause/"):
        form = page(client, path)
        assert "It is not paused: there is nothing to resume." in form
        assert "Close</a>" in form
        assert 'type="submit">Resume' not in form


def live_of(pause: Pause | None, *, limit_ms: int = 0, refused: str = "") -> LiveState:
    paused = {"paused": True, "pause": pause, "resume_refused": refused}
    orders = topic("orders", channel("orders", "billing", depth=9, **paused), **paused)
    return LiveState(snapshot(orders, pause_limit_ms=limit_ms), {})


NOW_MS = START_S * 1000
BY_ADA = Pause("ada", "repair", NOW_MS - 90 * MINUTE_MS, 0, 4)


def chip_and_level(live: LiveState) -> tuple[str, str]:
    diagnosis = live.diagnoses["orders", "billing"]
    return diagnosis.states[0].finding.chip, diagnosis.tone


def test_a_pause_that_outlives_its_time_is_a_warning() -> None:
    assert chip_and_level(live_of(BY_ADA, limit_ms=120 * MINUTE_MS)) == ("❚❚ paused", "held")
    late = live_of(BY_ADA, limit_ms=60 * MINUTE_MS)
    assert chip_and_level(late) == ("▲ paused", "warning")
    finding = late.diagnoses["orders", "billing"].states[0].finding
    assert "It has no end, and lasts longer than 60m. Reason: repair." in finding.text
    assert "The depth was 4 when the pause began. The depth is 9" in finding.text
    banner = topic_banner(late, "orders", Role.VIEWER)
    assert banner is not None
    assert banner.tone == "warning"


def test_a_row_has_author_time_and_reason_of_a_pause_in_its_chip_s_title() -> None:
    live = live_of(BY_ADA, limit_ms=120 * MINUTE_MS)
    (chip, _) = state_cell(live.diagnoses["orders", "billing"], live).chips
    assert chip.title == "Paused by ada for 90m: nothing is delivered. Reason: repair."


def test_an_end_that_the_disk_refuses_is_told() -> None:
    live = live_of(replace(BY_ADA, until_ms=NOW_MS - MINUTE_MS), refused="no space left")
    assert chip_and_level(live)[1] == "warning"
    assert "the disk refuses to resume it: no space left" in live.diagnoses["orders", "billing"].states[0].finding.text


def test_what_ends_first_is_listed_first_and_what_is_overdue_before_it() -> None:
    def one(name: str, until_ms: int = 0, since_ms: int = NOW_MS - MINUTE_MS) -> ChannelStats:
        return channel("orders", name, paused=True, pause=Pause("ada", "", since_ms, until_ms))

    channels = (
        one("endless"),
        one("late", since_ms=NOW_MS - 90 * MINUTE_MS),
        one("later", NOW_MS + 9 * MINUTE_MS),
        one("soon", NOW_MS + MINUTE_MS),
        channel("orders", "unknown", paused=True),
    )
    live = LiveState(snapshot(topic("orders", *channels), pause_limit_ms=60 * MINUTE_MS), {})
    assert [name for _, name in passing(live, PAUSED)] == ["late", "soon", "later", "endless", "unknown"]


def test_a_time_of_day_is_the_next_one() -> None:
    now = datetime(2026, 3, 1, 14, 0, 30, tzinfo=UTC)
    times = {text: datetime.fromtimestamp(_moment_ms(text, now) / 1000, UTC) for text in ("14:30", "14:00", "9:05")}
    assert {text: f"{time:%d %H:%M}" for text, time in times.items()} == {
        "14:30": "01 14:30",
        "14:00": "02 14:00",
        "9:05": "02 09:05",
    }
    assert _moment_ms("2026-03-02 09:05", now) == _moment_ms("9:05", now)
