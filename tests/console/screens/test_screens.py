"""What the screens say: figures as people read them, what is urgent, why a channel does not drain."""

import re

import orjson
import pytest
from django.template.loader import render_to_string

from admin_console.diagnosis.diagnosis import Diagnosis
from admin_console.gateway.in_flight_list import LIMIT as IN_FLIGHT_MAX
from admin_console.gateway.in_flight_list import InFlightList
from admin_console.hub.hub import Hub, LiveState
from admin_console.screens.build import Request, build_screen
from admin_console.screens.cells import spark_path
from admin_console.screens.channel import parts as channel_parts
from admin_console.screens.channel_list import ALL, SORTS, passing
from admin_console.screens.channel_rows import chips_of, diagnosis_of, spark_levels
from admin_console.screens.diagnosis import channel_banner
from admin_console.screens.list_links import parse_sort
from admin_console.screens.topics import PAGE_ROWS
from admin_console.vocabulary import units
from admin_console.vocabulary.roles import Role
from queue_engine.delivery.stats import ChannelStats, TopicStats
from queue_engine.vocabulary.figures import CHANNEL, CLIENT
from tests.support.pages.snapshots import START_S, channel, client, failures, in_flight, snapshot, topic


def live_of(*topics: TopicStats, seconds: int = 1) -> LiveState:
    hub = Hub()
    for index in range(seconds):
        hub.write(snapshot(*topics, second=START_S + index))
    assert hub.live is not None
    return hub.live


def most_urgent(live: LiveState, count: int) -> list[Diagnosis]:
    """Of the first channels in the overview's own order."""
    return [diagnosis_of(live, live.topics[key[0]], live.channels[key]) for key in passing(live, ALL)[:count]]


def growing(seconds: int = 90, timeouts: int = 0, finished: int = 0, **given: object) -> LiveState:
    """orders/billing for a minute and a half: twenty messages a second come, `finished` of them are finished."""
    hub = Hub()
    for index in range(seconds):
        stats = channel(
            "orders",
            "billing",
            depth=index * (20 - finished),
            message_count=index * 20,
            finish_count=index * finished,
            timeout_count=index * timeouts,
            oldest_ns=START_S * 1_000_000_000,
            **given,
        )
        hub.write(snapshot(topic("orders", stats), second=START_S + index))
    assert hub.live is not None
    return hub.live


@pytest.mark.parametrize(
    ("value", "text", "title"),
    [
        (None, "–", ""),
        (0, "0", ""),
        (9_999_999, "9,999,999", ""),
        (12_345_678, "12.3 M", "12,345,678"),
        (2_500_000_000, "2.5 G", "2,500,000,000"),
        (-3, "−3", ""),
    ],
)
def test_counts_are_full_to_ten_million_and_exact_beside(value: int | None, text: str, title: str) -> None:
    assert (units.number(value), units.exact(value)) == (text, title)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "–"),
        (0, "0/s"),
        (5612, "5,612/s"),
        (12.4, "12/s"),
        (3.44, "3.4/s"),
        (0.05, "0.05/s"),
        (0.0001, "<0.01/s"),
    ],
)
def test_rates_have_their_unit(value: float | None, text: str) -> None:
    assert units.rate(value) == text


@pytest.mark.parametrize(("value", "text"), [(412, "+412/s"), (-3, "−3/s"), (0, "0/s"), (None, "–")])
def test_growth_is_signed(value: float | None, text: str) -> None:
    assert units.growth(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "–"),
        (0.34, "340 ms"),
        (2.5, "2.5 s"),
        (12, "12 s"),
        (842, "14m 02s"),
        (3720, "1h 02m"),
        (525600, "6d 02h"),
    ],
)
def test_durations_have_two_units_at_most(value: float | None, text: str) -> None:
    assert units.duration(value) == text


def test_no_line_ends_between_a_figure_and_its_unit() -> None:
    """In what wraps: the words under a figure, a banner. What only looks like a unit stays."""
    text = "3 messages, 100 % in 14m 02s, 1.5 KiB in 43 ms at 2 sites, 12.3 M of 5 Mails, mail-7 s"
    assert units.unbroken(text).replace("\u00a0", "_") == (
        "3 messages, 100_% in 14m_02s, 1.5_KiB in 43_ms at 2 sites, 12.3_M of 5 Mails, mail-7_s"
    )
    screen = build_screen(Request("channel", Role.VIEWER, "orders", "billing"), growing())
    update = orjson.loads(screen.update_json())
    assert "is 1m\u00a029s old" in update["banner"][2]
    assert update["stats"]["depth"][1] == "▲ 20/s over 30\u00a0s"


def meaning_of(live: LiveState) -> str:
    banner = channel_banner(live, most_urgent(live, 1)[0], Role.VIEWER)
    return banner.title if banner else ""


def only(stats: ChannelStats, **topic_given: object) -> LiveState:
    return live_of(topic("orders", stats, **topic_given), seconds=10)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, ""),
        ({"depth": 5, "paused": True}, "Paused: nothing is delivered."),
        ({"depth": 5}, "Not draining: no consumer is connected."),
        ({"depth": 5, "client_count": 2}, "Not draining: RDY is 0."),
        ({"depth": 5, "client_count": 2, "ready_count": 10, "in_flight_count": 1}, ""),
    ],
)
def test_why_a_channel_does_not_drain(given: dict[str, object], said: str) -> None:
    assert meaning_of(only(channel("orders", "billing", **given))) == said


def test_a_paused_topic_is_why_nothing_comes() -> None:
    assert "topic orders is paused" in meaning_of(only(channel("orders", "billing"), paused=True))


def test_a_channel_that_is_held_back_says_why() -> None:
    reason = "3 messages are deferred and the most is 2 (--max-deferred-per-channel): nothing is delivered"
    held = channel("orders", "billing", depth=5, client_count=2, ready_count=10, held_back=reason)
    live = only(held)
    banner = channel_banner(live, most_urgent(live, 1)[0], Role.VIEWER)
    assert banner is not None
    assert banner.title == "Held back: a limit of memory is reached."
    assert banner.text.startswith(f"{reason}.")


def test_what_was_dropped_for_want_of_room_is_told() -> None:
    dropped = channel("orders#ephemeral", "billing", dropped_count=12)
    screen = channel_parts(
        live_of(topic("orders#ephemeral", dropped)), Role.VIEWER, "orders#ephemeral", "billing", None
    )
    assert "12 dropped for lack of room" in screen["subtitle"]


def test_the_rates_of_a_channel_are_its_own_and_not_the_topics() -> None:
    hub = Hub()
    for index in range(61):
        stats = channel("orders", "billing", depth=15 * index, message_count=20 * index, finish_count=5 * index)
        hub.write(snapshot(topic("orders", stats, message_count=300 * index), second=START_S + index))
    assert hub.live is not None
    stats_shown = {one.name: one for one in channel_parts(hub.live, Role.VIEWER, "orders", "billing", None)["stats"]}
    assert stats_shown["oldest"].note.text == "20/s in · 5/s finished"


def test_consumers_that_hold_all_they_asked_for_are_saturated() -> None:
    live = growing(client_count=3, ready_count=100, in_flight_count=100, finished=10)
    assert meaning_of(live).startswith("Every consumer is full: it holds as many")


def test_a_queue_that_grows_with_room_left_falls_behind() -> None:
    live = growing(client_count=3, ready_count=100, in_flight_count=10, finished=10)
    assert meaning_of(live).startswith("Falling behind")
    assert most_urgent(live, 1)[0].tone == "danger"


def test_timeouts_name_their_share_and_the_client_that_has_most() -> None:
    most = failures(timed_out=120, by=1, share=0.99)
    live = growing(client_count=2, ready_count=10, finished=8, timeouts=2, failures=most)
    banner = channel_banner(live, most_urgent(live, 1)[0], Role.VIEWER)
    assert banner is not None
    assert banner.title == "20 % of the deliveries that ended in the last minute timed out: 99 % of them at worker-1."
    assert "worker-1 is connected from 10.0.0.1:50000." in banner.text


def test_a_few_timeouts_are_no_alarm() -> None:
    hub = Hub()
    for second, timeouts in ((START_S, 0), (START_S + 1, 2)):
        stats = channel("orders", "billing", timeout_count=timeouts, client_count=1, ready_count=1)
        hub.write(snapshot(topic("orders", stats), second=second))
    assert hub.live is not None
    assert chips_of(most_urgent(hub.live, 1)[0], hub.live) == ()


def test_most_urgent_first_and_paused_is_no_alarm() -> None:
    live = live_of(
        topic(
            "orders",
            channel("orders", "calm", client_count=1, ready_count=1),
            channel("orders", "held", depth=900_000, paused=True),
            channel("orders", "lonely", depth=3),
        ),
        seconds=10,
    )
    assert [each.vitals.stats.channel_name for each in most_urgent(live, 9)] == ["lonely", "held", "calm"]
    assert [each.tone for each in most_urgent(live, 9)] == ["warning", "held", ""]


def test_the_list_in_flight_is_called_cut_only_at_its_limit() -> None:
    live = live_of(topic("orders", channel("orders", "billing", in_flight_count=80)))

    def said(length: int) -> str:
        held = tuple(in_flight(f"{index:016}", 1) for index in range(length))
        request = Request("channel", Role.VIEWER, topic="orders", channel="billing")
        return build_screen(request, live, in_flight=InFlightList(held)).texts["in_flight_count"]

    assert said(IN_FLIGHT_MAX) == f"the first {IN_FLIGHT_MAX} of 80"
    assert said(IN_FLIGHT_MAX - 1) == "80", "the list came a moment later"


def test_a_trend_tells_its_span_and_turns() -> None:
    hub = Hub()
    for index in range(60):
        depth = index * 10 if index < 24 else 240 - (index - 24) * 6
        stats = channel("orders", "billing", depth=depth, message_count=1_000, finish_count=1_000 - depth)
        hub.write(snapshot(topic("orders", stats), second=START_S + index))
    for page, figure in (("overview", "waiting"), ("topic", "waiting"), ("channel", "depth")):
        screen = build_screen(Request(page, Role.VIEWER, topic="orders", channel="billing"), hub.live)
        told = "▼ 6/s over 30 s" + (" · empty in about 5 s" if page == "channel" else "")
        assert {each.name: each.note.text for each in screen.stats}[figure] == told


def test_sparkline_breaks_where_nothing_is_known() -> None:
    assert spark_levels(None) == (None,) * 60
    assert spark_path((0, 35, None, 35, 35, 35, 34)) == "m0 35 1 -35 m2 0 2 0 1 1"


def test_page_without_figures_shows_dashes_and_never_zero() -> None:
    for page in ("overview", "topic", "channel"):
        screen = build_screen(Request(page, Role.VIEWER, topic="t", channel="c"), None)
        assert {figure.value.text for figure in screen.stats} == {"–"}, page
        assert set(screen.points.values()) <= {None}


def test_every_screen_is_an_update_in_json() -> None:
    live = growing(client_count=1, ready_count=1, clients=(client(1),))
    for page in ("overview", "topics", "topic", "channel"):
        request = Request(page, Role.ADMIN, topic="orders", channel="billing")
        screen = build_screen(request, live, in_flight=InFlightList((in_flight("0" * 16, 1),)))
        update = orjson.loads(screen.update_json())
        assert update["seq"] == live.snapshot.sequence
        for table in update["tables"].values():
            assert {len(cells) for cells in table["columns"].values()} == {len(table["keys"])}


def test_update_of_a_calm_page_stays_small() -> None:
    """Fifty topics a second to every open page: what is not news is not said."""
    live = live_of(*(topic(f"topic-{index:03}", channel(f"topic-{index:03}", "c")) for index in range(200)))
    update = build_screen(Request("topics", Role.ADMIN), live).update_json()
    assert len(orjson.loads(update)["tables"]["topics"]["keys"]) == PAGE_ROWS
    assert len(update) < 22_000


def test_topics_are_searched_by_channel_too_and_cut_into_pages() -> None:
    many = [topic(f"t{index:03}") for index in range(120)] + [topic("orders", channel("orders", "billing"))]
    live = live_of(*many)

    def keys(**asked: str) -> list[str]:
        screen = build_screen(Request("topics", Role.ADMIN, **asked), live)
        return [row.key for row in screen.tables["topics"].rows]

    assert keys(q="BILLING") == ["orders"]
    assert keys(q="orders/bil") == ["orders"]
    assert keys(q="no such") == []
    assert keys(sort="name", number="3") == [f"t{index:03}" for index in range(99, 120)]
    assert keys(sort="-name")[0] == "t119"
    assert len(keys(sort="name", number="99")) == 21, "a page beyond the last is the last"


@pytest.mark.parametrize(
    ("asked", "meant"),
    [
        ("", ("state", True)),
        ("depth", ("depth", False)),
        ("-depth", ("depth", True)),
        ("__class__", ("state", True)),
    ],
)
def test_sort_is_a_column_or_urgency(asked: str, meant: tuple[str, bool]) -> None:
    assert parse_sort(asked, SORTS) == meant


def test_buttons_say_why_a_viewer_may_not() -> None:
    live = live_of(topic("orders", channel("orders", "billing")))
    for role, href in ((Role.VIEWER, ""), (Role.OPERATOR, "/topics/orders/billing/~pause/")):
        table = build_screen(Request("overview", role, show="all"), live).tables["urgent"]
        action = {column.name: cell for column, cell in table.rows[0].cells}["action"]
        assert action.href == href
        assert ("operator" in action.reason) == (role == Role.VIEWER)


@pytest.mark.parametrize(
    ("asked", "complaint"),
    [
        ([], "takes an object"),
        ({"page": "users"}, "one of overview"),
        ({"page": "topic", "topic": "x" * 131}, "at most 130"),
        ({"page": "topic", "topic": 5}, "text of at most"),
        ({"page": "topic", "role": "admin"}, "no field 'role'"),
    ],
)
def test_a_subscription_that_no_page_sends_is_refused(asked: object, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        Request.parse(asked, Role.VIEWER)


def test_headings_say_what_their_figure_is_as_the_reference_does() -> None:
    live = only(channel("orders", "billing", depth=3, clients=(client(7),)))
    page = build_screen(Request("channel", Role.VIEWER, "orders", "billing"), live)
    above = build_screen(Request("topic", Role.VIEWER, "orders"), live)
    stats = render_to_string("partials/stats.html", {"screen": page})
    # Each heading, and the figure that it is of.
    for html, rows, headings in (
        (stats, CHANNEL, {"Depth": "depth", "In flight": "in_flight_count", "Oldest message": "oldest_age_ms"}),
        (above.tables["channels"].html, CHANNEL, {"Requeued /min": "requeue_count", "Timeouts /min": "timeout_count"}),
        (page.tables["clients"].html, CLIENT, {"RDY": "ready_count", "Finished": "finish_count"}),
    ):
        texts = {row.name: row.text for row in rows}
        for heading, name in headings.items():
            assert re.search(rf' title="{re.escape(texts[name])}\.">(<a [^>]*>)?{heading}<', html), heading
