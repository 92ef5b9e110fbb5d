"""How long messages took, on the pages of a channel and of its topic: of both together, never an average."""

from typing import Any

import pytest

from admin_console.hub.hub import Hub, LiveState
from admin_console.screens.channel import parts as channel_parts
from admin_console.screens.topic import parts as topic_parts
from admin_console.vocabulary.roles import Role
from queue_engine.delivery.latency_window import ChannelWindow, TopicWindow
from queue_engine.vocabulary.latency.latency_buckets import bucket_of
from tests.support.pages.snapshots import channel, snapshot, topic

LATELY = "in the last 5 to 10 min"
# A minute's worth was finished before the window: it is not told.
BEFORE = {bucket_of(60_000_000_000): 500}
QUICK = {bucket_of(3_000_000): 990, bucket_of(400_000_000): 10}
SLOW = {bucket_of(90_000_000_000): 10}


def window(counts: dict[int, int]) -> ChannelWindow:
    return ChannelWindow(BEFORE, BEFORE | counts)


def live(quick: dict[int, int], slow: dict[int, int], **given: Any) -> LiveState:
    hub = Hub()
    channels = (channel("orders", "quick", window=window(quick)), channel("orders", "slow", window=window(slow)))
    together = TopicWindow(tuple(one.window for one in channels))
    hub.write(snapshot(topic("orders", *channels, window=together), latency_window_ms=600_000, **given))
    assert hub.live is not None
    return hub.live


def told(parts: dict[str, Any]) -> tuple[str, str]:
    return parts["texts"]["latency"], parts["texts"]["latency_of"]


def test_a_channel_tells_its_own_and_the_topic_those_of_all_its_messages() -> None:
    now = live(QUICK, SLOW)
    assert told(channel_parts(now, Role.VIEWER, "orders", "quick", None)) == (
        "half within 3.0 ms · 95\N{NO-BREAK SPACE}% within 3.0 ms · 99\N{NO-BREAK SPACE}% within 3.0 ms",
        f"of 1,000 messages finished {LATELY}",
    )
    assert told(channel_parts(now, Role.VIEWER, "orders", "slow", None))[0].startswith("half within 1m ")
    half, most, nearly_all = told(topic_parts(now, Role.VIEWER, "orders"))[0].split(" · ")
    assert (half, most) == ("half within 3.0 ms", "95\N{NO-BREAK SPACE}% within 3.0 ms")
    # 10 of 1,010 took 90 s and 10 took 0.4 s: the rank of 99 % is among the latter. An average would be 45 s.
    assert nearly_all.startswith(("99\N{NO-BREAK SPACE}% within 39", "99\N{NO-BREAK SPACE}% within 4"))
    assert nearly_all.endswith(" ms")
    assert told(topic_parts(now, Role.VIEWER, "orders"))[1] == f"of 1,010 messages finished {LATELY}"


def test_the_percentiles_of_the_server_s_options_are_told_the_least_first() -> None:
    now = live(QUICK, {}, percentiles=(1.0, 0.999, 0.5))
    text, _ = told(channel_parts(now, Role.VIEWER, "orders", "quick", None))
    assert [part.partition(" within ")[0] for part in text.split(" · ")] == ["half", "99.9\N{NO-BREAK SPACE}%", "all"]


@pytest.mark.parametrize("name", ["quick", "slow"])
def test_what_was_not_finished_has_no_latency(name: str) -> None:
    assert told(channel_parts(live({}, {}), Role.VIEWER, "orders", name, None)) == (
        "unknown: no message was finished",
        LATELY,
    )
    assert told(topic_parts(live({}, {}), Role.VIEWER, "orders"))[0] == "unknown: no message was finished"


def test_a_panel_that_would_say_nothing_is_not_shown() -> None:
    """Latency while nothing was finished, and the quarantine of a channel without any."""
    for counts, is_shown in (({}, False), (QUICK, True)):
        for parts in (
            channel_parts(live(counts, {}), Role.VIEWER, "orders", "quick", None),
            topic_parts(live(counts, {}), Role.VIEWER, "orders"),
        ):
            assert parts["flags"]["has_latency"] is is_shown
    for figures, is_shown in (({}, False), ({"quarantined_count": 1}, True)):
        hub = Hub()
        hub.write(snapshot(topic("orders", channel("orders", "quick", **figures))))
        flags = channel_parts(hub.live, Role.VIEWER, "orders", "quick", None)["flags"]
        assert flags["has_quarantine"] is is_shown
