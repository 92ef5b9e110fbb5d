"""What pages say of one thing at one second agrees, wherever it stands: banner, cards, rows, legends, chips.

A script moves the messages of one channel second by second. Its topic and the engine have no other, so the overview,
the list of topics, the topic and the channel speak of the same figures.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from admin_console.hub.hub import Hub, LiveState
from admin_console.rings import figures
from admin_console.screens.build import Request, build_screen
from admin_console.screens.channel_list import ATTENTION, counts
from admin_console.screens.parts import Screen
from admin_console.vocabulary import units
from admin_console.vocabulary.roles import Role
from queue_engine.delivery.failure_window import FailureWindow
from queue_engine.delivery.stats import ChannelStats
from tests.support.pages.snapshots import START_S, channel, client, snapshot, topic

PAGES = ("overview", "topics", "topic", "channel")
RDY = 20


class Traffic:
    """One channel with a consumer, and the engine's own look at its failures."""

    def __init__(self) -> None:
        self.arrived = self.finished = self.requeued = self.timed_out = self.held = self.deferred = 0
        self.now_s = START_S
        self.worker = SimpleNamespace(
            key=1,
            name="worker-1",
            address="10.0.0.1:50000",
            requeue_count=0,
            timeout_count=0,
            requeues_noted=0,
            timeouts_noted=0,
        )
        self.window = FailureWindow(lambda: self.now_s * 10**9)

    @property
    def waiting(self) -> int:
        return self.arrived - self.finished - self.held - self.deferred

    def move(self, *, arrive: int = 0, finish: int = 0, requeue: int = 0, timeout: int = 0) -> None:
        self.arrived += arrive
        self.held += min(RDY - self.held, self.waiting)
        self.finished += finish
        self.requeued += requeue
        self.timed_out += timeout
        self.worker.requeue_count, self.worker.timeout_count = self.requeued, self.timed_out
        self.held -= min(finish, self.held)
        self.held += min(RDY - self.held, self.waiting)

    def stats(self, oldest_s: int | None) -> ChannelStats:
        failed = self.window.look((self.worker,), self.requeued, self.timed_out, attempts_max=0, attempts_max_id="")
        return channel(
            "orders",
            "billing",
            depth=self.waiting,
            in_flight_count=self.held,
            message_count=self.arrived,
            finish_count=self.finished,
            requeue_count=self.requeued,
            timeout_count=self.timed_out,
            client_count=1,
            ready_count=RDY,
            oldest_ns=None if oldest_s is None else oldest_s * 10**9,
            failures=failed,
            clients=(client(1, finish_count=self.finished),),
        )


def first_seconds(second: int) -> dict[str, int]:
    """What the first snapshot shows was done before it; then all is requeued."""
    return {"arrive": 100, "finish": 50, "requeue": 30} if second == 0 else {"requeue": 2}


def sawtooth(second: int) -> dict[str, int]:
    """Ten a second come, a batch of 120 is finished every twelve seconds, a few of each batch fail."""
    return {"arrive": 10, "finish": 0 if second % 12 else min(120, 10 * second), "requeue": 0 if second % 12 else 40}


def burst(second: int) -> dict[str, int]:
    return {
        "arrive": 3_000 if second == 5 else 0,
        "finish": 40 if 5 < second <= 80 else 0,
        "timeout": 9 * (second == 7),
    }


def stall(second: int) -> dict[str, int]:
    """Nothing ends any more after twenty seconds."""
    return {"arrive": 4, "finish": 4 if second < 20 else 0}


def all_in_flight(second: int) -> dict[str, int]:
    return {"arrive": RDY if second == 0 else 0}


def fails_in_bursts(second: int) -> dict[str, int]:
    return {"arrive": 5, "finish": 1, "requeue": 30 if second % 25 == 3 else 0, "timeout": second % 2}


def forgets_some(second: int) -> dict[str, int]:
    """Three of a hundred deliveries time out; later, by bursts, 54 to 63 a minute."""
    timeout = 3 if second < 130 else 9 * (second % 9 == 0)
    return {"arrive": 97, "finish": 97 if second else 0, "timeout": timeout if second else 0}


HISTORIES = (first_seconds, sawtooth, burst, stall, all_in_flight, fails_in_bursts)


def played(
    script: Callable[[int], dict[str, int]], seconds: int = 130, *, age_s: int = 400
) -> Iterator[tuple[int, Traffic, LiveState]]:
    """age_s: of the oldest message, at most."""
    hub, traffic = Hub(), Traffic()
    hub.write(snapshot(second=START_S))
    for second in range(seconds):
        traffic.now_s = START_S + 1 + second
        traffic.move(**script(second))
        oldest_s = max(START_S - 240, traffic.now_s - age_s) if traffic.waiting or traffic.held else None
        hub.write(
            snapshot(topic("orders", traffic.stats(oldest_s), message_count=traffic.arrived), second=traffic.now_s)
        )
        assert hub.live is not None
        yield second, traffic, hub.live


def screens_of(live: LiveState) -> dict[str, Screen]:
    return {page: build_screen(Request(page, Role.VIEWER, topic="orders", channel="billing"), live) for page in PAGES}


def texts_of(screen: Screen) -> Iterator[tuple[str, str]]:
    """(place, text) of all that the page says, titles included; rows as "heading: cell"."""
    yield "subtitle", screen.subtitle
    for chip in screen.chips:
        yield "chip", f"{chip.text}: {chip.title}"
    if screen.banner and "figures are from that time" not in screen.banner.note:
        yield "banner", f"{screen.banner.title} {screen.banner.text} {screen.banner.note}"
    for stat in screen.stats:
        for cell in (stat.value, stat.note):
            yield f"card {stat.name}", f"{stat.label}: {cell.text}"
    for graph in screen.graphs:
        for line in graph.legend:
            yield f"legend {graph.name}", f"{line.label}: {line.value}"
    for table in screen.tables.values():
        for row in table.rows if table.name in ("urgent", "topics", "channels") else ():
            for column, cell in row.cells:
                yield f"row {column.name}", f"{column.label}: {cell.html}"


FIGURE = r"(?:<0\.01|[0-9.,]+)"
RATE = rf"({FIGURE}(?:/s|/min))"
# Thing → how it is said; "steady" and "no messages" are a growth of 0.
SAID = {
    "growth": [
        rf"^Depth: ([▲▼] {RATE}) over",
        r"^Depth: (steady|no messages)",
        rf"the depth ((?:grew|shrank|grows|shrinks|changes) by [+−]?{RATE})",
        r"^Growth[^:]*: (.*)$",
    ],
    "arrived": [
        rf"{RATE} in ·",
        rf"{RATE} (?:arrived|come)",
        rf"^(?:received|published): {RATE}",
        rf"^Published(?: /s)?: ({FIGURE}(?:/s|/min)?)$",
    ],
    "finished": [
        rf"{RATE} (?:are |were )?finished",
        rf"^finished[a-z ]*: {RATE}",
        rf"^Finished(?: /s)?: ({FIGURE}(?:/s|/min)?)$",
    ],
    "requeued": [
        r"^Requeued(?: /min)?: ([0-9,]+)(?:/min)?$",
        r"([0-9,]+)/min requeued",
        r"^requeued: ([0-9,]+)/min$",
        r"\b([0-9,]+) requeued in the last",
    ],
    "timeouts": [
        r"^Timeouts(?: /min)?: ([0-9,]+)(?:/min)?$",
        r"^timed out: ([0-9,]+)/min$",
        r"\b([0-9,]+) of [0-9,]+ came back unfinished",
        r"\b([0-9,]+) timed out in the last",
    ],
    "depth": [r"^Depth: ([0-9,]+)$", r"The depth is ([0-9,]+)", r"^(?:depth|orders/billing): ([0-9,]+)$"],
    "in flight": [r"^In flight: ([0-9,]+)$", r"^in flight: ([0-9,]+)$", r"([0-9,]+) in flight of RDY"],
}


def meaning(thing: str, text: str) -> str:
    """A statement in the form in which it is compared: the bare figure with its sign, per second."""
    if thing == "growth":
        if text in ("steady", "no messages", "0"):
            return "0"
        sign = "+" if text.startswith(("▲", "grew", "grows", "+")) else units.MINUS
        return sign + text.split()[-1].lstrip(f"+{units.MINUS}").removesuffix("/s")
    return text.removesuffix("/s")


def statements_of(screens: dict[str, Screen]) -> dict[str, dict[str, set[str]]]:
    """Thing → what is said of it → where."""
    found: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for page, screen in screens.items():
        for place, text in texts_of(screen):
            for thing, ways in SAID.items():
                for way in ways:
                    for match in re.finditer(way, text):
                        found[thing][meaning(thing, match[1])].add(f"{page} {place}: {text}")
    return found


@pytest.mark.parametrize("script", HISTORIES, ids=lambda script: script.__name__)
def test_all_pages_say_the_same_of_one_thing(script: Callable[[int], dict[str, int]]) -> None:
    said: dict[str, set[str]] = defaultdict(set)
    for second, traffic, live in played(script):
        statements = statements_of(screens_of(live))
        for thing, values in statements.items():
            assert len(values) == 1, f"second {second}, {thing}: {dict(values)}"
            said[thing] |= {place.partition(":")[0] for places in values.values() for place in places}
        assert statements["depth"].keys() == {units.number(traffic.waiting)}
        assert statements["in flight"].keys() == {units.number(traffic.held)}
    # The test reads what it is about: of each thing all pages speak, and most places.
    for thing in ("growth", "requeued", "timeouts", "depth"):
        assert {place.partition(" ")[0] for place in said[thing]} >= {"overview", "topic", "channel"}, thing
        assert {place.split(" ")[1] for place in said[thing]} >= {"card", "row"}, thing
    assert any("legend" in place for place in said["finished"])


@pytest.mark.parametrize("script", HISTORIES, ids=lambda script: script.__name__)
def test_what_was_counted_is_what_was_done(script: Callable[[int], dict[str, int]]) -> None:
    """From the first second of a channel on, also what came before its first snapshot."""
    done: list[dict[str, int]] = []
    for second, _, live in played(script):
        done.append(script(second))
        screen = screens_of(live)["channel"]
        values = {stat.name: stat.value.text for stat in screen.stats}
        for name, act in (("requeued", "requeue"), ("timeouts", "timeout")):
            assert values[name] == units.per_minute(sum(one.get(act, 0) for one in done[-60:])), f"second {second}"
        finished = sum(one.get("finish", 0) for one in done[-60:])
        for place, text in texts_of(screen):
            assert not (finished and re.search("none was finished|[Ee]very delivery fails|^0 finished", text)), place
        if values["requeued"] == "0/min" and screen.banner:
            assert "requeued in the last" not in screen.banner.title


def test_timeouts_that_a_card_complains_about_have_the_chip_the_banner_and_the_filter() -> None:
    """Also while they swing around the limit."""
    said = [""] * 300
    for second, _, live in played(forgets_some, len(said), age_s=2):
        screens = screens_of(live)
        (row,) = screens["overview"].tables["urgent"].rows
        tones = {
            "channel": next(stat for stat in screens["channel"].stats if stat.name == "timeouts").note.tone,
            "overview": next(stat for stat in screens["overview"].stats if stat.name == "timeouts").note.tone,
            "row": next(cell for column, cell in row.cells if column.name == "timeouts").tone.replace("muted", ""),
        }
        banner = screens["overview"].banner
        has_chip = any("times out" in chip.text for chip in screens["channel"].chips)
        has_banner = banner is not None and "timed out" in banner.title
        assert set(tones.values()) == ({"warning"} if has_chip else {""}), f"second {second}: {tones}"
        assert has_banner == has_chip, f"second {second}: {banner}"
        assert not has_chip or counts(live)[ATTENTION] == 1
        said[second] = "X" if has_chip else "."
    assert "".join(said).strip(".") == "X" * (300 - said.index("X")), "".join(said)
    assert said.index("X") < 30


def test_growth_is_what_arrives_less_what_is_finished() -> None:
    """From the first second on. With everything in flight that may be, so that nothing goes there."""
    for second, traffic, live in played(stall):
        rings = live.rings_of("orders", "billing")
        flow = (figures.ARRIVED.rate(rings) or 0) - (figures.FINISHED.rate(rings) or 0)
        if traffic.held == 0 or second > 60:
            assert figures.GROWTH.rate(rings) == pytest.approx(flow), second


def test_a_channel_whose_messages_are_in_flight_has_messages() -> None:
    for _, traffic, live in played(all_in_flight, 60):
        assert (traffic.waiting, traffic.held) == (0, RDY)
        for page, screen in screens_of(live).items():
            assert not [text for _, text in texts_of(screen) if "no messages" in text], page


def test_a_column_of_rates_has_one_unit_which_its_heading_names() -> None:
    """0.05 a second and 40 a second stand below each other."""
    hub = Hub()
    for second in range(60):
        slow = channel("orders", "slow", depth=second // 20, message_count=second // 20)
        fast = channel("orders", "fast", depth=40 * second, message_count=40 * second)
        hub.write(snapshot(topic("orders", slow, fast, message_count=40 * second), second=START_S + second))
    assert hub.live is not None
    cells: dict[str, list[Any]] = defaultdict(list)
    for screen in screens_of(hub.live).values():
        for table in screen.tables.values():
            for row in table.rows:
                for column, cell in row.cells:
                    if re.match("Growth|Published|Finished|Requeued|Timeouts", column.label):
                        cells[column.label].append(cell.html)
    assert {label for label in cells if not re.search(" /(s|min)\\b", label)} == set()
    assert {"+40", "+0.03"} <= set(cells["Growth /s"])
    assert not [html for column in cells.values() for html in column if "/" in html]
