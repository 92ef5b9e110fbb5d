"""What is said of a channel from its figures: what it says, when it begins to say so, and when it ends."""

import re
from collections.abc import Callable
from typing import Any

import pytest

from admin_console.hub.hub import TOTAL, Hub, LiveState
from admin_console.rings.figures import GROWTH
from admin_console.screens.build import Request, build_screen
from admin_console.screens.parts import Screen
from admin_console.vocabulary.roles import Role
from queue_engine.delivery.stats import ChannelStats
from tests.support.pages.snapshots import START_S, channel, failures, snapshot, topic

Figures = Callable[[int], dict[str, Any]]


def watched(figures: Figures, seconds: int = 90, hub: Hub | None = None, start: int = 0) -> LiveState:
    """orders/billing through so many seconds. figures: of the channel at each of them."""
    hub = hub or Hub()
    for second in range(start, start + seconds):
        stats = channel("orders", "billing", **figures(second))
        hub.write(snapshot(topic("orders", stats), second=START_S + second))
    assert hub.live is not None
    return hub.live


def page(live: LiveState, name: str = "channel") -> Screen:
    return build_screen(Request(name, Role.VIEWER, topic="orders", channel="billing"), live)


def title(live: LiveState) -> str:
    banner = page(live).banner
    return banner.title if banner else ""


def text(live: LiveState) -> str:
    banner = page(live).banner
    return banner.text if banner else ""


def requeues_all(second: int, **given: Any) -> dict[str, Any]:
    """A thousand messages go round and round: 40 are requeued each second, and none is finished."""
    return {
        "depth": 960,
        "in_flight_count": 40,
        "client_count": 2,
        "ready_count": 40,
        "message_count": 1_000,
        "requeue_count": 40 * second,
        "oldest_ns": START_S * 10**9,
        "failures": failures(requeued=40 * min(second, 60)) if second else None,
    } | given


def test_a_channel_that_requeues_everything_says_so_in_figures() -> None:
    live = watched(requeues_all)
    assert title(live) == "Failing: 2,400 requeued in the last minute, 100 % of them by worker-1; none was finished."
    chip = page(live).chips[0]
    assert (chip.text, chip.tone) == ("▲ requeues", "danger")
    assert "The depth is 960. More consumers would fail" in text(live), "an age that each REQ begins anew says nothing"


def test_nothing_tells_to_add_consumers_that_would_fail_too() -> None:
    # Older than five minutes, growing, and as many in flight as RDY: it looks saturated but for the requeues.
    def figures(second: int) -> dict[str, Any]:
        grown = {"depth": 960 + 10 * second, "message_count": 1_000 + 10 * second}
        return requeues_all(second, oldest_ns=(START_S - 600) * 10**9, **grown)

    said = title(watched(figures)) + text(watched(figures))
    assert "Failing: 2,400 requeued" in said
    assert "dd consumers" not in said
    assert "aturated" not in said


def test_a_part_that_is_requeued_is_told_as_its_share() -> None:
    live = watched(lambda second: requeues_all(second, finish_count=60 * second, message_count=10**6))
    assert title(live).endswith("100 % of them by worker-1; 3,600 were finished.")
    chip = page(live).chips[0]
    assert (chip.text, chip.tone) == ("▲ requeues", "warning")


def test_a_few_requeues_among_many_are_nothing_to_tell() -> None:
    assert title(watched(lambda second: requeues_all(second, finish_count=400 * second, message_count=10**6))) == ""


def test_the_consumer_that_fails_is_named_with_its_share() -> None:
    live = watched(
        lambda second: requeues_all(
            second, requeue_count=214 * second // 89, failures=failures(requeued=143, by=2, share=0.83)
        )
    )
    assert title(live) == "Failing: 145 requeued in the last minute, 83 % of them by worker-2; none was finished."
    assert text(live).startswith(
        "worker-2 (10.0.0.2:50000) requeues its messages (REQ); 1 other consumer is connected."
    )


def test_no_consumer_is_named_for_what_several_do() -> None:
    live = watched(
        lambda second: requeues_all(
            second, requeue_count=214 * second // 89, failures=failures(requeued=143, share=0.5)
        )
    )
    assert title(live) == "Failing: 145 requeued in the last minute; none was finished."
    assert text(live).startswith("2 consumers requeue their messages (REQ), none of them most.")


def test_a_failing_consumer_is_told_within_five_seconds() -> None:
    assert states_through(requeues_all, 8) == "....XXXX"


def test_what_an_operator_requeues_once_is_no_failure() -> None:
    hub = Hub()
    for second in range(90):
        live = watched(lambda at: requeues_all(at, requeue_count=0 if at < 30 else 500, failures=None), 1, hub, second)
        assert "Failing" not in title(live)


def test_a_failing_channel_stands_above_calm_ones_in_the_overview() -> None:
    hub = Hub()
    for second in range(30):
        calm = channel("orders", "archive", depth=90_000, client_count=1, ready_count=9, in_flight_count=1)
        failing = channel("orders", "billing", **requeues_all(second, depth=0, deferred_count=960))
        hub.write(snapshot(topic("orders", calm, failing), second=START_S + second))
    assert hub.live is not None
    screen = page(hub.live, "overview")
    assert [row.key for row in screen.tables["urgent"].rows] == ["orders/billing", "orders/archive"]
    assert screen.banner is not None
    assert screen.banner.title.startswith("orders/billing: failing: 1,160 requeued in the last 29 s, 100 % of them")
    assert "960 messages are deferred. More consumers would fail" in screen.banner.text
    assert {figure.name: figure.note.text for figure in screen.stats}["timeouts"] == "1,160/min requeued"
    cells = {column.name: cell.wire() for column, cell in screen.tables["urgent"].rows[0].cells}
    assert (cells["requeued"], cells["deferred"]) == (["1,160", "danger"], "960")


def test_one_message_at_hundreds_of_attempts_is_named() -> None:
    figures = {"attempts_max": 398, "attempts_max_id": "0f" * 8, "deferred_count": 1}
    live = watched(lambda second: {"client_count": 1, "ready_count": 1, "message_count": 1} | figures)
    assert title(live) == "Poison message: the message 0f0f0f0f0f0f0f0f was delivered 398 times and never finished."
    assert [chip.text for chip in page(live).chips] == ["▲ poison message", "deferred only"]


def test_a_few_attempts_are_nothing_to_tell() -> None:
    assert title(watched(lambda second: {"attempts_max": 6, "in_flight_count": 1, "client_count": 1})) == ""


def test_consumers_that_end_nothing_are_told_and_no_more_are_asked_for() -> None:
    held = {"depth": 50, "in_flight_count": 10, "client_count": 2, "ready_count": 20, "message_count": 60}
    live = watched(lambda second: held | {"oldest_ns": (START_S - 600) * 10**9})
    assert title(live) == "0 finished in the last minute: 2 consumers hold 10 messages and end none."
    assert "dd consumers" not in text(live)


# States begin and end.


def no_consumer_in(*seconds: int) -> Figures:
    return lambda second: {
        "depth": 5,
        "client_count": 0 if second in seconds else 1,
        "ready_count": 1,
        "message_count": 5,
    }


def states_through(figures: Figures, seconds: int) -> str:
    """A letter for each second: X while the page says that something is wrong."""
    hub = Hub()
    return "".join("X" if title(watched(figures, 1, hub, second)) else "." for second in range(seconds))


def test_a_state_begins_after_it_was_seen_for_three_seconds_and_ends_three_after() -> None:
    assert states_through(no_consumer_in(*range(2, 10)), 16) == ".....XXXXXXX...."


def test_a_swing_around_a_limit_neither_begins_a_state_nor_ends_one() -> None:
    assert "X" not in states_through(no_consumer_in(*range(0, 20, 2)), 20)
    lasting = states_through(no_consumer_in(*range(10), *range(10, 30, 2)), 30)
    assert lasting == "..." + "X" * 27


def quiet(second: int, **given: Any) -> dict[str, Any]:
    """24 old messages, and consumers that ask for none."""
    figures = {
        "depth": 24,
        "client_count": 1,
        "ready_count": 0,
        "message_count": 24,
        "oldest_ns": (START_S - 600) * 10**9,
    }
    return figures | given


EMPTIED = {"depth": 0, "oldest_ns": None}


@pytest.mark.parametrize(
    "after",
    [
        EMPTIED,
        # A producer goes on, and its first message is there already.
        {"depth": 1, "message_count": 25, "ready_count": 5, "oldest_ns": (START_S + 20) * 10**9},
        # Rewound to the newest ones.
        {"depth": 3, "ready_count": 5, "oldest_ns": (START_S + 10) * 10**9},
    ],
)
def test_what_an_act_took_away_is_no_longer_said_to_be_there(after: dict[str, Any]) -> None:
    hub = Hub()
    assert "The depth is 24" in text(watched(quiet, 20, hub))
    live = watched(lambda second: quiet(second) | after, 1, hub, 20)
    assert (title(live), text(live)) == ("", "")
    assert page(live).chips == ()


def test_the_page_after_an_act_says_nothing_of_before_it() -> None:
    """It shows the engine's figures of the moment beside the hub's of a second ago."""
    hub = Hub()
    newest = watched(quiet, 20, hub)
    emptied = snapshot(topic("orders", channel("orders", "billing", **(quiet(20) | EMPTIED))), second=START_S + 19.6)
    live = LiveState(emptied, newest.rings, newest.second, newest.states, newest.diagnoses, takes_turns=False)
    assert title(live) == ""


def test_figures_that_the_newest_snapshot_does_not_show_are_said_to_be_of_then() -> None:
    hub = Hub()
    banner = page(watched(quiet, 20, hub)).banner
    assert banner is not None
    assert banner.note.startswith("Seen since ")
    live = watched(lambda second: quiet(second, ready_count=5, oldest_ns=(START_S + 20) * 10**9), 2, hub, 20)
    banner = page(live).banner
    assert banner is not None
    assert "The depth is 24" in banner.text
    assert re.search(r"Seen from [0-9: -]{19} UTC to [0-9: -]{19} UTC; the figures are from that time\.", banner.note)


def test_a_poison_message_that_is_quarantined_or_finished_is_no_longer_named() -> None:
    hub = Hub()
    figures = {"client_count": 1, "ready_count": 1, "message_count": 5, "depth": 5}
    named = figures | {"attempts_max": 398, "attempts_max_id": "0f" * 8}
    assert title(watched(lambda second: named, 10, hub)).startswith("Poison message: the message 0f0f")
    assert "oison" not in title(watched(lambda second: figures | {"depth": 4, "finish_count": 1}, 1, hub, 10))


def test_a_pause_is_told_at_once_and_so_is_its_end() -> None:
    assert states_through(lambda second: {"paused": 2 <= second < 5}, 8) == "..XXX..."


def test_time_is_the_snapshots_own_and_a_silence_begins_anew() -> None:
    hub = Hub()
    figures = no_consumer_in(*range(10_000))
    watched(figures, 2, hub)
    assert title(watched(figures, 1, hub, 60)) == "", "what was in between is not known"
    assert title(watched(figures, 1, hub, 63)) != ""


def test_a_clock_set_back_ends_no_state_and_keeps_none_for_ever() -> None:
    hub = Hub()
    watched(no_consumer_in(*range(10)), 10, hub)
    assert title(watched(no_consumer_in(-3_600), 1, hub, -3_600)) != ""
    assert title(watched(no_consumer_in(), 4, hub, -3_599)) == ""


def test_the_banner_names_one_channel_while_ages_and_depths_swing() -> None:
    hub = Hub()
    named, orders = set(), set()
    for second in range(60):
        swing = [(second * 37 + index * 59) % 100 for index in range(4)]
        channels = [
            channel(
                "orders",
                f"c{index}",
                depth=1_000 + swing[index],
                message_count=1_000 + swing[index],
                client_count=0,
                oldest_ns=(START_S - 60 - 10 * swing[index]) * 10**9,
            )
            for index in range(4)
        ]
        hub.write(snapshot(topic("orders", *channels), second=START_S + second))
        assert hub.live is not None
        screen = page(hub.live, "overview")
        if second >= 5:
            assert screen.banner is not None
            named.add(screen.banner.link)
            orders.add(tuple(row.key for row in screen.tables["urgent"].rows))
    assert (len(named), len(orders)) == (1, 1)


def test_when_it_began_is_told() -> None:
    # Seen for the first time at START_S, which is 15:06:40 UTC.
    banner = page(watched(no_consumer_in(*range(20)), 20)).banner
    assert banner is not None
    assert banner.note == "Seen since 2025-06-15 15:06:40 UTC."


# A jump that an act made is no flow.


def growth_of(live: LiveState, name: str = "overview") -> str:
    (row,) = page(live, name).tables["urgent" if name == "overview" else "channels"].rows
    return {column.name: cell for column, cell in row.cells}["growth"].text


@pytest.mark.parametrize(("before", "after"), [(40_000, 0), (0, 40_000)])
def test_a_channel_that_was_emptied_or_moved_back_neither_drains_nor_grows(before: int, after: int) -> None:
    live = watched(
        lambda second: {"depth": before if second < 25 else after, "message_count": 40_000, "client_count": 1}, 30
    )
    assert (growth_of(live), growth_of(live, "topic")) == ("0", "0")
    notes = {figure.name: figure.note.text for figure in page(live).stats}
    assert notes["depth"] == ("steady" if after else "no messages")
    assert {figure.name: figure.note.text for figure in page(live, "overview").stats}["waiting"] == notes["depth"]


def test_what_flows_beside_an_act_is_still_a_trend() -> None:
    """Ten a second come before it was emptied and after."""
    live = watched(
        lambda second: {"depth": 10 * (second if second < 25 else second - 25), "message_count": 10 * second}, 31
    )
    assert growth_of(live) == "+9.7", "but for the second of the act"


def test_requeues_timeouts_and_deferrals_are_flow() -> None:
    """What is deferred leaves the depth and is no act: it comes back."""
    live = watched(
        lambda second: {"depth": 3_000 - 10 * second, "deferred_count": 10 * second, "message_count": 3_000}, 31
    )
    assert growth_of(live) == "−10"


def test_a_deleted_channel_takes_no_flow_with_it() -> None:
    hub = Hub()
    for second in range(10):
        channels: list[ChannelStats] = [channel("orders", "kept", depth=5)]
        if second < 7:
            channels.append(channel("orders", "gone", depth=900))
        hub.write(snapshot(topic("orders", *channels), second=START_S + second))
    for key in (("orders", ""), TOTAL):
        assert GROWTH.rate(hub.rings[key]) == 0
        assert hub.rings[key].newest("waiting") == 5


def test_an_emptied_topic_does_not_drain_and_one_that_passes_on_does() -> None:
    def depths(passed: int) -> float | None:
        hub = Hub()
        for second in range(10):
            depth = 1_000 if second < 7 else 0
            billing = channel("orders", "billing", message_count=passed - (passed * depth) // 1_000)
            hub.write(snapshot(topic("orders", billing, depth=depth, message_count=1_000), second=START_S + second))
        change = hub.rings["orders", ""].depth_change("depth", 5)
        return change and change[0] / change[1]

    assert depths(passed=0) == 0
    assert depths(passed=1_000) == -200
