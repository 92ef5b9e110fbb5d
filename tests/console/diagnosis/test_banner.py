"""The banner that heads a channel: the sentence, its likely act, links to what is to blame, and what else is wrong."""

from dataclasses import replace
from typing import Any

from admin_console.hub.hub import Hub, LiveState
from admin_console.screens.build import Request, build_screen
from admin_console.screens.parts import Banner, Screen
from admin_console.vocabulary.roles import Role
from queue_engine.storage.quarantine_stats import QuarantineStats
from queue_engine.vocabulary.flow.redrive import Redrive, RedriveState
from tests.support.pages.snapshots import START_S, channel, client, failures, snapshot, topic

SECONDS = 20
FAILS = {
    "depth": 40,
    "in_flight_count": 5,
    "client_count": 2,
    "ready_count": 10,
    "requeue_count": 178,
    "failures": failures(requeued=178, by=2, share=0.9),
    "clients": (client(1), client(2, requeue_count=178)),
}
POISON = {"client_count": 1, "ready_count": 1, "attempts_max": 30, "attempts_max_id": "ab" * 8, "depth": 1}


def live_of(*, seconds: int = SECONDS, storage: str = "log", health: str = "OK", **figures: Any) -> LiveState:
    hub = Hub()
    for second in range(seconds):
        passed = second / (seconds - 1)
        now = figures | {"requeue_count": round(passed * figures.get("requeue_count", 0))}
        orders = topic("orders", channel("orders", "billing", **now), storage=storage)
        hub.write(snapshot(orders, second=START_S + second, health=health))
    assert hub.live is not None
    return hub.live


def screen_of(live: LiveState, page: str = "channel", role: Role = Role.OPERATOR) -> Screen:
    return build_screen(Request(page, role, topic="orders", channel="billing"), live)


def banner_of(live: LiveState, page: str = "channel", role: Role = Role.OPERATOR) -> Banner:
    banner = screen_of(live, page, role).banner
    assert banner is not None
    return banner


def test_a_failing_channel_offers_the_pause_and_leads_to_the_consumer() -> None:
    live = live_of(**FAILS)
    for page in ("channel", "overview"):
        html = banner_of(live, page).acts_html
        assert 'href="/topics/orders/billing/~pause/" data-dialog>❚❚ Pause…</a>' in html
        assert 'href="/topics/orders/billing/#consumer-2">Show worker-2</a>' in html
    rows = screen_of(live).tables["clients"].rows
    cells = [{column.name: cell for column, cell in row.cells} for row in rows]
    assert [row.key for row in rows] == ["2", "1"], "the one that is named comes first"
    assert '<span id="consumer-2">worker-2 10.0.0.2:50000</span>' in cells[0]["name"].html
    assert (cells[0]["requeued"].tone, cells[1]["requeued"].tone) == ("danger", "")


def test_a_role_that_may_not_act_reads_why() -> None:
    html = banner_of(live_of(**FAILS), role=Role.VIEWER).acts_html
    assert 'aria-disabled="true" title="Needs the role operator; yours is viewer.">❚❚ Pause…' in html
    assert "Show worker-2" in html


def test_a_poison_message_is_a_link_to_its_page() -> None:
    link = f'/~messages/{"ab" * 8}/">Message {"ab" * 8}</a>'
    for role in Role:
        assert link in banner_of(live_of(**POISON), role=role).acts_html


def test_timeouts_of_one_consumer_offer_to_requeue_what_it_holds() -> None:
    hub = Hub()
    for second in range(SECONDS):
        figures = {"timeout_count": 2 * second, "failures": failures(timed_out=2 * second, by=3) if second else None}
        orders = topic("orders", channel("orders", "billing", depth=9, client_count=2, ready_count=9, **figures))
        hub.write(snapshot(orders, second=START_S + second))
    assert hub.live is not None
    html = banner_of(hub.live).acts_html
    assert '~requeue/?client=3" data-dialog>Requeue messages of worker-3…</a>' in html


def test_a_consumer_of_another_node_is_neither_requeued_nor_linked() -> None:
    """Its key is negative: this server has no row of it, and requeues none of its messages."""
    hub = Hub()
    for second in range(SECONDS):
        figures = {"timeout_count": 2 * second, "failures": failures(timed_out=2 * second, by=-3) if second else None}
        orders = topic("orders", channel("orders", "billing", depth=9, client_count=2, ready_count=9, **figures))
        hub.write(snapshot(orders, second=START_S + second))
    assert hub.live is not None
    banner = banner_of(hub.live)
    assert "worker--3" in banner.title
    assert banner.acts_html == ""


def test_other_causes_stand_below_in_half_sentences() -> None:
    banner = banner_of(live_of(**POISON, oldest_ns=(START_S - 900) * 10**9))
    assert "Also: the oldest message is 15m 19s old" in banner.note


def test_the_oldest_age_is_told_once() -> None:
    banner = banner_of(live_of(depth=5, oldest_ns=(START_S - 900) * 10**9))
    assert banner.title == "Not draining: no consumer is connected."
    assert "15m 19s" in banner.text
    assert "Also" not in banner.note


def test_a_redrive_under_way_is_not_offered_again() -> None:
    quarantine = QuarantineStats(2, 3, 40, 1, reasons=(("requeued", 3),))
    for ended, is_offered in (("", False), ("done", True)):
        redrive = RedriveState(Redrive(rate=1, total=3, began_ms=1), left=2, ended=ended)
        html = banner_of(live_of(quarantined_count=3, quarantine=quarantine, redrive=redrive)).acts_html
        assert "Show the messages" in html
        assert ("Redrive…" in html) == is_offered


def test_a_broker_that_refuses_heads_all_but_a_graver_cause() -> None:
    waits = {"depth": 5, "health": "NOK - the disk is full (0.3 of 160 MB free)"}
    banner = banner_of(live_of(**waits))
    assert (banner.tone, banner.title) == ("danger", "The engine reports a problem.")
    assert banner.note == "Also: not draining: no consumer is connected."
    graver = banner_of(live_of(**FAILS, health="NOK - the disk is full"))
    assert graver.title.startswith("Failing:")
    assert graver.note.endswith("Also: the engine reports a problem.")


def test_the_cause_stays_the_same_while_its_figures_change() -> None:
    """A screen reader hears of it once."""
    hub = Hub()
    causes, titles = set(), set()
    for second in range(40):
        figures = FAILS | {"failures": failures(requeued=100 + second, by=2), "requeue_count": 9 * second}
        hub.write(snapshot(topic("orders", channel("orders", "billing", **figures)), second=START_S + second))
        if second >= 5 and hub.live:
            banner = banner_of(hub.live)
            causes.add(banner.wire()[-1])
            titles.add(banner.title)
    assert causes == {"failing worker-2"}
    assert len(titles) > 20


def test_lists_show_the_same_sentence() -> None:
    live = live_of(**FAILS)
    title = banner_of(live).title
    for page, table in (("overview", "urgent"), ("topic", "channels")):
        (row,) = screen_of(live, page).tables[table].rows
        html = {column.name: cell.html for column, cell in row.cells}["state"]
        assert f'<span class="chip chip-danger" title="{title}">▲ requeues</span>' in html


def test_names_of_consumers_are_escaped() -> None:
    bad = failures(requeued=90).most_requeued
    assert bad is not None
    named = replace(bad, name='<b>"x')
    live = live_of(**FAILS | {"failures": failures(requeued=90, most_requeued=named)})
    html = banner_of(live).acts_html + screen_of(live, "overview").tables["urgent"].html
    assert "<b>" not in html
    assert "Show &lt;b&gt;&quot;x" in html


def test_what_is_only_deferred_is_told_quietly_and_stands_among_the_calm() -> None:
    hub = Hub()
    for second in range(SECONDS):
        later = channel("orders", "later", deferred_count=3, next_due_ns=90 * 10**9)
        busy = channel("orders", "busy", depth=9, client_count=1, ready_count=9)
        hub.write(snapshot(topic("orders", later, busy), second=START_S + second))
    assert hub.live is not None
    screen = build_screen(Request("channel", Role.OPERATOR, topic="orders", channel="later"), hub.live)
    assert screen.banner is not None
    assert (screen.banner.tone, screen.chips[0].text, screen.chips[0].tone) == ("", "deferred only", "")
    assert "Release deferred…" in screen.banner.acts_html
    overview = screen_of(hub.live, "overview")
    assert overview.banner is None
    assert [row.key for row in overview.tables["urgent"].rows] == ["orders/busy", "orders/later"]


def test_a_poison_message_is_quarantined_from_the_banner_where_the_topic_can() -> None:
    html = banner_of(live_of(**POISON)).acts_html
    path = f"/topics/orders/billing/~messages/~quarantine/?id={'ab' * 8}"
    assert f'href="{path}" data-dialog>Quarantine the message…' in html
    html = banner_of(live_of(**POISON, storage="diskqueue")).acts_html
    assert 'aria-disabled="true" title="Topic orders has storage kind diskqueue: a disk queue has nsqd' in html
    html = banner_of(live_of(**POISON), role=Role.VIEWER).acts_html
    assert 'yours is viewer.">Quarantine the message…' in html
    assert "Quarantine" not in banner_of(live_of(**POISON | {"attempts_max_id": ""})).acts_html


def test_a_pause_ends_what_it_explains_at_once() -> None:
    hub = Hub()
    for second in range(SECONDS):
        hub.write(
            snapshot(
                topic("orders", channel("orders", "billing", **FAILS | {"requeue_count": 9 * second})),
                second=START_S + second,
            )
        )
    assert hub.live is not None
    assert banner_of(hub.live).title.startswith("Failing")
    paused = topic("orders", channel("orders", "billing", **FAILS, paused=True))
    hub.write(snapshot(paused, second=START_S + SECONDS))
    assert banner_of(hub.live).title == "Paused: nothing is delivered."
    assert "Failing" not in str(screen_of(hub.live).chips_html)


def test_a_topic_s_banner_has_the_act_that_helps() -> None:
    def html(role: Role = Role.OPERATOR, **figures: Any) -> str:
        channels = figures.pop("channels", (channel("orders", "billing"),))
        live = LiveState(snapshot(topic("orders", *channels, **figures)), {})
        banner = screen_of(live, "topic", role).banner
        assert banner is not None
        return banner.acts_html

    assert 'href="/topics/orders/~unpause/" data-dialog>▶ Resume the topic…' in html(paused=True)
    assert ">Try the topic again…" in html(fenced="a bug")
    assert ">Try the topic again…" in html(unreadable="EIO")
    assert ">New channel…" in html(channels=(), depth=3)
    assert 'title="Needs the role operator; yours is viewer.">▶ Resume the topic…' in html(Role.VIEWER, paused=True)
