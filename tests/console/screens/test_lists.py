"""Long lists: the busy channels among hundreds, filters with counts, orders, and what a link keeps."""

import re
from html import unescape
from urllib.parse import parse_qs, urlsplit

import orjson
import pytest

from admin_console.hub.hub import Hub, LiveState
from admin_console.rings.rings import SECONDS
from admin_console.screens import channel_list
from admin_console.screens.build import Request, build_screen
from admin_console.screens.overview import ROWS_MAX
from admin_console.screens.parts import Screen
from admin_console.screens.topics import PAGE_ROWS
from admin_console.vocabulary.roles import Role
from queue_engine.delivery.stats import ChannelStats, TopicStats
from tests.support.pages.snapshots import START_S, channel, snapshot, topic

BUSY = 20
SICK = ["t007/store", "t011/store"]


def busy_channel(number: int, second: int, **given: object) -> ChannelStats:
    """Messages flow through it, `number` of them a second; a consumer is ready for more."""
    count = number * second
    return channel(
        f"t{number:03}",
        "store",
        **{"message_count": count, "finish_count": count, "client_count": 1, "ready_count": 9} | given,
    )


def five_hundred(second: int) -> list[TopicStats]:
    """Topics of one channel each: two are not drained, 20 are busy, the others idle; every second idle one has no
    consumer. The last one has no channel."""
    made = []
    for number in range(499):
        name = f"t{number:03}"
        one = channel(name, "store", client_count=number % 2, ready_count=number % 2)
        if f"{name}/store" in SICK:
            one = channel(name, "store", depth=number, oldest_ns=(START_S - number) * 10**9)
        elif 300 <= number < 300 + BUSY:
            one = busy_channel(number, second)
        made.append(topic(name, one, message_count=one.message_count))
    return [*made, topic("t499")]


def after(seconds: int, topics: object = five_hundred) -> LiveState:
    hub = Hub()
    for second in range(seconds):
        hub.write(snapshot(*topics(second), second=START_S + second))
    assert hub.live is not None
    return hub.live


@pytest.fixture(scope="module")
def live() -> LiveState:
    return after(20)


def overview(live: LiveState, role: Role = Role.OPERATOR, **asked: str) -> Screen:
    return build_screen(Request("overview", role, **asked), live)


def keys(screen: Screen, table: str = "urgent") -> list[str]:
    return [row.key for row in screen.tables[table].rows]


def column(screen: Screen, name: str, table: str = "urgent") -> list[str]:
    cells = screen.tables[table].wire()["columns"][name]
    return [cell if isinstance(cell, str) else cell[0] for cell in cells]


def test_of_five_hundred_channels_the_sick_come_first_and_then_what_moves_most(live: LiveState) -> None:
    busiest = [f"t{number}/store" for number in range(319, 299, -1)]
    assert keys(overview(live)) == [*SICK, *busiest][:ROWS_MAX]
    assert keys(overview(live, number="2")) == busiest[-2:]
    everything = overview(live, show="all")
    assert keys(everything) == keys(overview(live))
    assert everything.texts["page"] == "1–20 of 499"
    assert keys(overview(live, show="all", number="2"))[:4] == [*busiest[-2:], "t000/store", "t001/store"]


def test_each_filter_has_a_count_and_lists_so_many(live: LiveState) -> None:
    counted = {one.name: one.count for one in overview(live).list_bar.filters}
    assert counted == {"busy": "22", "attention": "2", "paused": "0", "no-consumer": "242", "all": "499"}
    for name, count in counted.items():
        assert overview(live, show=name).texts["passing"] == count, name
        assert len(channel_list.passing(live, name)) == int(count)
    assert keys(overview(live, show="attention")) == SICK
    assert overview(live, show="quiet").list_bar.filters[-2].name == "quiet", "what is chosen is shown"


def test_a_filter_that_nothing_passes_says_so_and_an_unknown_one_is_the_usual(live: LiveState) -> None:
    assert overview(live, show="paused").tables["urgent"].empty.title == "No channel is paused"
    assert keys(overview(live, show="<script>")) == keys(overview(live))
    assert [one.name for one in overview(live, show="<script>").list_bar.filters if one.is_chosen] == ["busy"]


def test_the_banner_says_how_many_more_need_attention_whatever_the_list_shows(live: LiveState) -> None:
    for show in ("", "attention", "paused"):
        assert overview(live, show=show).banner.note.endswith(" 1 more channel needs attention.")


def test_quiet_channels_are_one_line_that_says_what_it_hides(live: LiveState) -> None:
    screen = overview(live)
    assert screen.flags["quiet"]
    assert screen.texts["quiet"] == "477 quiet channels"
    assert screen.texts["quiet_rest"].endswith("nothing moved for 15 minutes. 240 have no consumer.")
    assert screen.list_bar.links["quiet"] == "/?show=quiet"
    assert len(keys(overview(live, show="quiet", number="24"))) == 17
    assert not overview(live, show="all").flags["quiet"], "they are in the list"


def test_a_channel_is_quiet_when_nothing_has_moved_for_fifteen_minutes() -> None:
    hub = Hub()

    def write(second: int, **given: object) -> dict[str, int]:
        hub.write(snapshot(topic("orders", busy_channel(0, 0, **given)), second=START_S + second))
        assert hub.live is not None
        return channel_list.counts(hub.live)

    assert write(0)["quiet"] == 1
    moved = {"message_count": 5, "finish_count": 5}
    assert write(1, **moved)["busy"] == 1
    for second in range(2, SECONDS + 1):
        counts = write(second, **moved)
        assert (counts["busy"], counts["quiet"]) == (1, 0), second
    assert write(SECONDS + 1, **moved)["quiet"] == 1
    assert write(SECONDS + 2, **moved, deferred_count=1, next_due_ns=9)["busy"] == 1, "a message is in it"


def test_a_channel_that_was_just_emptied_is_not_quiet() -> None:
    hub = Hub()
    for second, depth in enumerate((40, 0)):
        hub.write(snapshot(topic("orders", busy_channel(0, 0, depth=depth)), second=START_S + second))
    assert hub.live is not None
    assert channel_list.counts(hub.live)["busy"] == 1


def test_a_name_narrows_the_list_its_counts_and_its_line(live: LiveState) -> None:
    screen = overview(live, q=" T01 ")
    assert keys(screen) == ["t011/store"]
    assert {one.name: one.count for one in screen.list_bar.filters}["all"] == "10"
    assert screen.texts["quiet"] == "9 quiet channels"
    assert keys(overview(live, q="t301/sto")) == ["t301/store"]
    none = overview(live, q="nothing").tables["urgent"].empty
    assert (none.title, none.href) == ("No channel of this filter matches “nothing”", "/?q=nothing&show=all")


def named(second: int) -> list[TopicStats]:
    """Four channels, each of which is first in some order; two have nothing unfinished."""
    ready = {"client_count": 1, "ready_count": 9}
    given: dict[str, dict[str, object]] = {
        "deep": {"depth": 900, "oldest_ns": (START_S + second - 2) * 10**9, "in_flight_count": 1},
        "grows": {"depth": 20 * second, "message_count": 20 * second},
        "holds": {"in_flight_count": 7, "deferred_count": 3, "oldest_ns": (START_S - 3) * 10**9},
        "fails": {"timeout_count": second, "requeue_count": 2 * second},
    }
    return [topic("orders", *(channel("orders", name, **ready, **figures) for name, figures in given.items()))]


@pytest.mark.parametrize(
    ("sort", "first"),
    [
        ("-depth", "deep"),
        ("-growth", "grows"),
        ("-in_flight", "holds"),
        ("-deferred", "holds"),
        ("-requeued", "fails"),
        ("-timeouts", "fails"),
        ("-oldest", "holds"),
        ("name", "deep"),
        ("-name", "holds"),
    ],
)
def test_the_list_is_sorted_by_each_column(sort: str, first: str) -> None:
    live = after(40, named)
    screen = overview(live, sort=sort)
    assert keys(screen)[0] == f"orders/{first}"
    other = sort.removeprefix("-") if sort.startswith("-") else f"-{sort}"
    shown = keys(overview(live, sort=other))
    if sort == "-oldest":
        assert set(shown[-2:]) == {"orders/grows", "orders/fails"}, "what is unknown is last either way"
    else:
        assert shown[-1] == f"orders/{first}"
    if sort != "-oldest":
        # The page of a topic has the same orders.
        page = build_screen(Request("topic", Role.VIEWER, topic="orders", sort=sort), live)
        assert page.tables["channels"].rows[0].key == first
        direction = "descending" if sort.startswith("-") else "ascending"
        assert f"{direction} /topics/orders/?sort={other}" in heads(page, "channels").values()


def heads(screen: Screen, table: str = "urgent") -> dict[str, str]:
    """What the head of each column that sorts says."""
    html = screen.tables[table].html.split("</thead>")[0]
    found = re.findall(r"<th [^>]*?(?:aria-sort=\"(\w+)\")?>\s*<a href=\"([^\"]+)\"[^>]*>(.*?)</a>", html, re.DOTALL)
    return {
        unescape(re.sub(r"<[^>]+>", "", words)).replace("\u00a0", " "): f"{direction} {href}".strip()
        for direction, href, words in found
    }


def test_the_sorted_column_is_marked_and_the_others_can_be(live: LiveState) -> None:
    usual = heads(overview(live))
    assert usual["State ↓ worst first"] == "descending /?sort=state"
    assert usual["Depth ↕"] == "/?sort=-depth"
    assert usual["Channel ↕"] == "/?sort=name"
    assert not any("↑" in words for words in usual)
    sorted_by = heads(overview(live, sort="-depth", show="all", q="t0"))
    assert sorted_by["Depth ↓"] == "descending /?q=t0&amp;show=all&amp;sort=depth"
    assert sorted_by["State ↕"] == "/?q=t0&amp;show=all"
    assert heads(overview(live, sort="depth"))["Depth ↑"] == "ascending /?sort=-depth"
    assert heads(build_screen(Request("topics", Role.VIEWER), live), "topics")["State ↓ worst first"].startswith("desc")


def test_every_link_of_the_list_keeps_the_other_choices(live: LiveState) -> None:
    asked = {"q": "store", "show": "all", "sort": "-depth", "draw": "t001/store"}
    screen = overview(live, number="3", **asked)
    bar = screen.list_bar
    hrefs = [one.href for one in bar.filters] + list(bar.links.values())
    hrefs += [one.sort_href for one in screen.tables["urgent"].columns if one.sort_href]
    for href in hrefs:
        said = {name: values[0] for name, values in parse_qs(urlsplit(href).query).items()}
        kept = {name: value for name, value in asked.items() if said.get(name) == value}
        assert len(kept) >= len(asked) - 1, href
    assert dict(bar.hidden_fields) == {name: value for name, value in asked.items() if name != "q"}
    assert bar.links["earlier"].endswith("number=2")


def test_live_updates_keep_the_order_that_was_chosen() -> None:
    hub = Hub()
    for second in range(20):
        hub.write(snapshot(*named(second), second=START_S + second))
        assert hub.live is not None
        update = orjson.loads(overview(hub.live, sort="name", show="all").update_json())
        by_name = [f"orders/{name}" for name in ("deep", "fails", "grows", "holds")]
        assert update["tables"]["urgent"]["keys"] == by_name, second
    subscription = overview(hub.live, sort="name", show="all", q="d", draw="a/b").subscription
    assert subscription == {"page": "overview", "sort": "name", "show": "all", "q": "d", "draw": "a/b"}


def test_viewers_share_one_order() -> None:
    live = after(2)

    def orders() -> int:
        return sum(isinstance(key, tuple) and key[:1] == ("passing",) for key in live.derived)

    before = orders()
    for role in Role:
        for number in ("", "2", "3"):
            overview(live, role, sort="-deferred", show="all", number=number)
    assert orders() == before + 1


def test_the_graph_draws_the_channels_that_were_chosen(live: LiveState) -> None:
    screen = overview(live, draw="t300/store, t007/store,t300/store,<b>,a/b/c,orders")
    assert [line.label for line in screen.graphs[1].legend] == ["t300/store", "t007/store"]
    assert screen.list_bar.drawn == ("t300/store", "t007/store", "", "")
    assert screen.points["waiting:t007/store"] == 7
    many = overview(live, draw=",".join(f"t{number}/store" for number in range(100, 109)))
    assert len(many.graphs[1].legend) == 4
    deepest = overview(live, draw="<b>")
    assert [line.label for line in deepest.graphs[1].legend] == [line.label for line in overview(live).graphs[1].legend]


def test_topics_have_growth_the_oldest_message_and_filters() -> None:
    def topics(second: int) -> list[TopicStats]:
        old = channel("orders", "old", depth=5 * second, message_count=5 * second, oldest_ns=(START_S - 60) * 10**9)
        return [
            topic("orders", old, busy_channel(0, 0, oldest_ns=(START_S + second) * 10**9), message_count=5 * second),
            topic("mail", channel("mail", "sender", paused=True), oldest_ns=(START_S - 7) * 10**9, depth=1),
            topic("lonely", depth=3),
            *(topic(f"idle{number}", channel(f"idle{number}", "c", client_count=1)) for number in range(60)),
        ]

    live = after(41, topics)

    def shown(**asked: str) -> Screen:
        return build_screen(Request("topics", Role.OPERATOR, **asked), live)

    assert keys(shown(), "topics")[:4] == ["orders", "lonely", "mail", "idle0"]
    assert column(shown(), "growth", "topics")[:3] == ["+5", "0", "0"]
    assert column(shown(), "oldest", "topics")[:4] == ["1m 40s", "–", "47 s", "–"]
    assert keys(shown(sort="-growth"), "topics")[0] == "orders"
    assert keys(shown(sort="-oldest"), "topics")[:2] == ["orders", "mail"]
    counted = {one.name: one.count for one in shown().list_bar.filters}
    wanted = {"busy": 3, "attention": 2, "paused": 1, "no-consumer": 2, "no-channel": 1, "all": 63}
    assert counted == {name: str(count) for name, count in wanted.items()}
    for name, count in wanted.items():
        assert len(keys(shown(show=name), "topics")) == min(count, PAGE_ROWS)
    assert keys(shown(show="no-channel"), "topics") == ["lonely"]
    assert keys(shown(show="paused"), "topics") == ["mail"]
    assert shown(show="paused", q="orders").tables["topics"].empty.title == "No topic or channel matches “orders”"
