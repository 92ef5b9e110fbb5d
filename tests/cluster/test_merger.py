"""The merged snapshot of the cluster: sums over the nodes that answer, and what each counter has grown."""

from collections.abc import Collection
from dataclasses import fields, replace
from random import Random
from typing import Any

import pytest

from admin_console.cluster.calls.node_clock import ClockOffset
from admin_console.cluster.merging.merged import NO_GROWTH, TOTAL, ClusterSnapshot
from admin_console.cluster.merging.merger import Merger
from admin_console.cluster.merging.node_clients import client_stats
from admin_console.cluster.merging.node_figures import CHANNEL_COUNTS
from admin_console.cluster.merging.topic_sums import merged_topic
from admin_console.cluster.reading.nodes import Node
from admin_console.rings.depth_jumps import jump_in_channel
from queue_engine.delivery.stats import ChannelStats, EngineSnapshot, TopicStats
from queue_engine.vocabulary.clock import NS_PER_S
from queue_engine.vocabulary.figures import CLIENT
from tests.support.cluster_states import node, silent, state, unread
from tests.support.fake_nsqd import channel, client, topic
from tests.support.pages import snapshots
from tests.support.pages.snapshots import START_S

A, B, C = "nsq-a:4151", "nsq-b:4151", "nsq-c:4151"
OWN = "127.0.0.1:4151"
BILLING = ("orders", "billing")
_CLIENT_NAMES = [row.name for row in CLIENT]


class Seconds:
    """A merger and a second that goes on with each tick."""

    def __init__(self) -> None:
        self.merger = Merger(lambda: OWN)
        self.second = START_S

    @property
    def now_ms(self) -> int:
        return self.second * 1000

    def tick(
        self, *nodes: Node, own: EngineSnapshot | None = None, watched: Collection[str] = ("orders",)
    ) -> ClusterSnapshot:
        found = self.merger.tick(own, state(nodes), self.second * NS_PER_S, watched)
        self.second += 1
        return found


def orders(waiting: int = 0, **billing: int) -> dict[str, Any]:
    """A topic with a channel, as an nsqd answers. waiting: at the topic itself."""
    return topic("orders", channel("billing", **billing), depth=waiting, message_count=billing.get("message_count", 0))


def channel_of(found: ClusterSnapshot, topic_name: str, name: str) -> ChannelStats:
    (one,) = [one for one in found.merged.topics if one.topic_name == topic_name]
    return next(each for each in one.channels if each.channel_name == name)


def test_counts_are_summed_over_nodes_and_this_server_and_each_place_stays_readable() -> None:
    seconds = Seconds()
    own = snapshots.snapshot(
        snapshots.topic("orders", snapshots.channel(*BILLING, depth=5, message_count=50, finish_count=45), depth=1),
        second=START_S,
    )
    a = node(A, orders(2, message_count=30, in_flight_count=3), read_at_ms=1)
    b = node(B, orders(4, message_count=20), topic("clicks"), read_at_ms=1)
    found = seconds.tick(a, b, own=own)
    assert [one.topic_name for one in found.merged.topics] == ["clicks", "orders"]
    assert found.merged.topics[1].depth == 7
    assert found.merged.topics[1].storage == own.topics[0].storage, "acts of this server go by it"
    merged = channel_of(found, *BILLING)
    assert (merged.depth, merged.in_flight_count, merged.message_count) == (5, 3, 100)
    # Of an nsqd: what came less what is unfinished.
    assert merged.finish_count == 45 + 27 + 20
    assert [(one.node, one.is_embedded, one.stats.depth) for one in found.places(*BILLING)] == [
        (OWN, True, 5),
        (A, False, 0),
        (B, False, 0),
    ]
    assert [one.node for one in found.places("clicks")] == [B]
    assert found.places("none") == found.places("orders", "none") == ()
    assert found.silent == {}


def test_a_silent_node_is_in_no_sum_and_is_named_at_what_it_has() -> None:
    seconds = Seconds()
    a = node(A, orders(2, depth=7, message_count=30), read_at_ms=1)
    b = node(B, orders(4, depth=1, message_count=20), topic("clicks", channel("all", depth=9)), read_at_ms=1)
    seconds.tick(a, b)
    found = seconds.tick(a, silent(b), unread(C, "mails"))
    assert channel_of(found, *BILLING).depth == 7
    # What it alone has stays, so that its page and its graphs do.
    assert channel_of(found, "clicks", "all").depth == 0
    assert found.silent == {
        TOTAL: (B, C),
        ("orders", ""): (B,),
        BILLING: (B,),
        ("clicks", ""): (B,),
        ("clicks", "all"): (B,),
        ("mails", ""): (C,),
    }
    assert [(one.node, one.is_answering, one.stats.depth) for one in found.places(*BILLING)] == [
        (A, True, 7),
        (B, False, 1),
    ]
    assert [(one.node, one.read_at_ms) for one in found.places("mails")] == [(C, 0)]
    assert seconds.tick(a, b).silent == {}


def test_a_topic_that_did_not_change_for_long_grows_since_its_newest_reading() -> None:
    seconds = Seconds()

    def read(messages: int, before: Node | None = None) -> Node:
        found = node(A, orders(message_count=messages), read_at_ms=seconds.now_ms)
        assert found.stats is not None
        return found if before is None else replace(found, stats=found.stats.after(before.stats))

    first = idle = read(100)
    seconds.tick(first)
    for _ in range(5):
        for _ in range(9):
            seconds.tick(idle)
        newer = read(100, idle)
        assert newer.stats is not None
        assert idle.stats is not None
        assert newer.stats.topics["orders"] is idle.stats.topics["orders"], "it would be merged for nothing"
        idle = newer
        found = seconds.tick(idle)
        (place,) = found.places(*BILLING)
        assert place.read_at_ms == seconds.now_ms - 1000
    for _ in range(9):
        seconds.tick(idle)
    found = seconds.tick(read(200, idle))
    assert found.growth["orders", ""].raw[0] == 100
    assert found.growth["orders", ""].spread[0] == 9, "of ten seconds and a tick, not of the whole minute"


def billing_of(seconds: Seconds, message_count: int, **fields: Any) -> Node:
    """The node A as it answers at this second: a channel that got so many messages, of which 5 wait."""
    document = orders(0, depth=5, message_count=message_count)
    return node(A, document, read_at_ms=seconds.now_ms, **fields)


def raw_and_spread(found: ClusterSnapshot, key: tuple[str, str] = BILLING) -> tuple[tuple[int, ...], tuple[int, ...]]:
    growth = found.growth.get(key, NO_GROWTH)
    return growth.raw, growth.spread


def test_a_reading_every_ten_seconds_is_growth_of_each_of_them() -> None:
    seconds = Seconds()
    message_count, found = 1_000, billing_of(seconds, 1_000)
    seconds.tick(found)
    read: list[int] = []
    spread: list[int] = []
    for second in range(1, 31):
        if second % 10 == 0:
            message_count += 105
            found = billing_of(seconds, message_count)
        growth = seconds.tick(found).growth.get(BILLING, NO_GROWTH)
        read.append(growth.raw[0])
        spread.append(growth.spread[0])
        assert growth.raw[:2] == growth.raw[1::-1]  # of an nsqd, what came and waits no more is finished
    assert sum(read) == 315
    assert [count for count in read if count] == [105] * 3
    # From the first growth on 9 to 11 a second, none of it lost.
    assert spread[:9] == [0] * 9
    assert set(spread[9:29]) <= {9, 10, 11}
    rest = [seconds.tick(found).growth.get(BILLING, NO_GROWTH).spread[0] for _ in range(12)]
    assert sum(spread) + sum(rest) == 315
    assert rest[-1] == 0


@pytest.mark.parametrize(("period", "rate"), [(1, 100), (10, 100)])
def test_readings_out_of_step_with_the_seconds_draw_neither_gaps_nor_peaks(period: int, rate: int) -> None:
    seconds, random = Seconds(), Random(7)
    count = 1_000
    found = billing_of(seconds, count)
    seconds.tick(found)
    due, read_s, spread = period, 0, []
    for second in range(1, 40 * period):
        if second >= due + random.choice((0, 1)):
            # What came until then: one reading comes a tick late, the next one in time.
            count, read_s, due = count + rate * (second - read_s), second, due + period
            found = billing_of(seconds, count)
        spread.append(seconds.tick(found).growth.get(BILLING, NO_GROWTH).spread[0])
    steady = spread[3 * period :]
    assert min(steady) >= 0.85 * rate
    assert max(steady) <= 1.15 * rate
    spread += [seconds.tick(found).growth.get(BILLING, NO_GROWTH).spread[0] for _ in range(period + 2)]
    assert abs(sum(spread) - (count - 1_000)) <= 1


def test_a_count_that_an_answer_lacks_and_that_comes_back_is_no_growth() -> None:
    seconds = Seconds()
    seconds.tick(billing_of(seconds, 1_000))
    for missing in ("message_count", "depth"):
        for of in (0, 1):
            document = orders(0, depth=5, message_count=1_000)
            (document["channels"][0] if of else document).pop(missing)
            lacking = seconds.tick(node(A, document, read_at_ms=seconds.now_ms))
            assert sum(lacking.growth.get(TOTAL, NO_GROWTH).raw) == 0, (missing, of)
            again = seconds.tick(billing_of(seconds, 1_000))
            assert sum(again.growth.get(TOTAL, NO_GROWTH).raw) == 0, (missing, of)
    assert raw_and_spread(seconds.tick(billing_of(seconds, 1_003)))[0][0] == 3


def test_messages_that_two_nodes_pass_on_to_different_channels_are_all_passed_on() -> None:
    seconds = Seconds()

    def nodes(came: int) -> list[Node]:
        """Each topic had 100 messages, of which `came` have gone on to its channel."""
        made = []
        for address, name in ((A, "billing"), (B, "mail")):
            document = topic("orders", channel(name, depth=came, message_count=came), depth=100 - came)
            made.append(node(address, {**document, "message_count": 100}, read_at_ms=seconds.now_ms))
        return made

    seconds.tick(*nodes(0))
    growth = seconds.tick(*nodes(40)).growth["orders", ""]
    assert (growth.raw[0], growth.passed_on) == (0, 80)


def test_a_node_that_restarts_adds_what_it_counted_since() -> None:
    seconds = Seconds()
    seconds.tick(billing_of(seconds, 1_000))
    assert raw_and_spread(seconds.tick(billing_of(seconds, 1_010)))[0] == (10, 10, 0, 0)
    restarted = seconds.tick(billing_of(seconds, 8, started_s=seconds.second))
    assert raw_and_spread(restarted)[0] == (8, 3, 0, 0)
    # It counts more than before its restart, and none of that twice.
    again = seconds.tick(billing_of(seconds, 2_000, started_s=seconds.second))
    assert raw_and_spread(again)[0] == (2_000, 1_995, 0, 0)
    assert channel_of(again, *BILLING).message_count == 2_000


def test_another_process_at_a_nodes_address_that_was_running_before_adds_nothing() -> None:
    seconds = Seconds()
    seconds.tick(billing_of(seconds, 1_000))
    ran = {"started_s": seconds.second - 3_600}
    found = node(A, orders(message_count=2_000), topic("far", message_count=3_000), read_at_ms=seconds.now_ms, **ran)
    assert seconds.tick(found).growth == {}
    found = node(A, orders(message_count=2_007), topic("far", message_count=3_000), read_at_ms=seconds.now_ms, **ran)
    assert raw_and_spread(seconds.tick(found), ("orders", ""))[0][0] == 7


def test_a_node_whose_clock_is_off_restarts_by_this_servers_clock() -> None:
    seconds = Seconds()

    def found(message_count: int, started_s: int) -> Node:
        """Its clock is an hour ahead."""
        one = billing_of(seconds, message_count, started_s=started_s + 3_600)
        return replace(one, clock=ClockOffset(3_599_500, 3_600_500))

    ran = seconds.second - 3_600
    # It seems to have started this very second, and has been running for an hour.
    assert BILLING not in seconds.tick(found(1_000, ran)).growth
    assert raw_and_spread(seconds.tick(found(1_002, ran)))[0][0] == 2
    assert raw_and_spread(seconds.tick(found(8, seconds.second)))[0][0] == 8


def test_a_channel_that_was_deleted_and_made_again_counts_from_0() -> None:
    seconds = Seconds()
    seconds.tick(billing_of(seconds, 1_000))
    assert raw_and_spread(seconds.tick(billing_of(seconds, 20)))[0] == (20, 15, 0, 0)


def test_a_node_that_joins_brings_no_messages_and_one_that_returns_those_of_its_silence() -> None:
    seconds = Seconds()
    a = node(A, orders(message_count=100), read_at_ms=seconds.now_ms)
    seconds.tick(a)
    b = node(B, orders(message_count=5_000, depth=40), read_at_ms=seconds.now_ms)
    joined = seconds.tick(a, b)
    assert joined.growth == {}
    assert channel_of(joined, *BILLING).message_count == 5_100
    seconds.tick(a, silent(b))
    assert channel_of(seconds.tick(a, silent(b)), *BILLING).message_count == 100
    back = seconds.tick(a, node(B, orders(message_count=5_040, depth=40), read_at_ms=seconds.now_ms))
    assert back.growth[BILLING].raw == (40, 40, 0, 0)
    assert back.growth[BILLING].spread[0] == 40 // 4
    left = seconds.tick(a)
    assert channel_of(left, *BILLING).message_count == 100
    assert left.growth[BILLING].raw == (0, 0, 0, 0)


def test_a_node_whose_clock_is_ahead_brings_no_messages_when_it_joins() -> None:
    seconds = Seconds()
    ahead_s = START_S + 1800
    found = seconds.tick(node(A, orders(message_count=5_000_000), read_at_ms=seconds.now_ms, started_s=ahead_s))
    assert found.growth.get(TOTAL, NO_GROWTH) == NO_GROWTH


def test_a_topic_that_comes_to_a_node_counts_from_its_beginning() -> None:
    seconds = Seconds()
    seconds.tick(node(A, read_at_ms=seconds.now_ms))
    one = node(A, orders(message_count=8), read_at_ms=seconds.now_ms)
    # Over its second and one more: a reading of the next one may be late.
    for raw in (8, 0):
        found = seconds.tick(one)
        for key in (BILLING, ("orders", ""), TOTAL):
            assert raw_and_spread(found, key) == ((raw, raw, 0, 0), (4, 4, 0, 0))


def test_finished_messages_of_an_nsqd_never_fall_though_it_counts_while_it_answers() -> None:
    seconds = Seconds()
    figures = [(1_000, 100), (1_000, 130), (1_100, 150)]
    finished = [
        channel_of(
            seconds.tick(node(A, orders(message_count=came, depth=depth), read_at_ms=seconds.now_ms)), *BILLING
        ).finish_count
        for came, depth in figures
    ]
    assert finished == [900, 900, 950]


def test_a_channel_of_an_nsqd_that_is_emptied_is_a_jump_of_its_depth_and_finishes_nothing() -> None:
    seconds = Seconds()
    full = node(A, orders(message_count=1_000, depth=800), read_at_ms=seconds.now_ms)
    had = channel_of(seconds.tick(full), *BILLING)
    read = node(A, orders(message_count=1_010, depth=10), read_at_ms=seconds.now_ms)
    assert full.stats is not None
    assert read.stats is not None
    found = seconds.tick(replace(read, stats=read.stats.after(full.stats)))
    has = channel_of(found, *BILLING)
    assert (had.finish_count, has.finish_count) == (200, 200)
    raw, spread = raw_and_spread(found)
    assert (raw, spread[1]) == ((10, 0, 0, 0), 0)
    assert jump_in_channel((had.depth, had.depth, 0), (has.depth, has.depth, 0), *raw[:2]) == -790


def test_ages_take_the_greatest_and_are_unknown_where_a_node_reports_none() -> None:
    def penstock(name: str, age_ms: int | None, depth: int = 1) -> Node:
        document = topic("orders", channel("billing", depth=depth, oldest_age_ms=age_ms, finish_count=3))
        return node(name, document, read_at_ms=1_000_000)

    def oldest_ns(*nodes: Node) -> int | None:
        return channel_of(Seconds().tick(*nodes), *BILLING).oldest_ns

    a, b = penstock(A, 500), penstock(B, 90_000)
    assert oldest_ns(a, b) == (1_000_000 - 90_000) * 1_000_000
    # A node without messages has no oldest one.
    assert oldest_ns(a, penstock(B, None, depth=0)) == (1_000_000 - 500) * 1_000_000
    assert oldest_ns(a, penstock(B, None)) is None
    assert oldest_ns(a, silent(b)) is None
    waiting = node(C, topic("orders", depth=1, oldest_age_ms=500), read_at_ms=1_000_000)
    assert Seconds().tick(waiting, a).merged.topics[0].oldest_ns == (1_000_000 - 500) * 1_000_000
    assert Seconds().tick(waiting, silent(b)).merged.topics[0].oldest_ns is None


def test_sentences_and_flags_of_any_node_count_and_name_it() -> None:
    seconds = Seconds()
    own = snapshots.snapshot(snapshots.topic("orders", snapshots.channel(*BILLING)), second=START_S)
    a = node(A, orders(paused=False), read_at_ms=1)
    b = node(B, topic("orders", channel("billing", paused=True, fenced="its file is gone.")), read_at_ms=1)
    merged = channel_of(seconds.tick(a, b, own=own), *BILLING)
    assert (merged.paused, merged.fenced) == (True, f"{B}: its file is gone.")


def test_the_totals_name_the_nodes_that_answer_without_all_counts() -> None:
    seconds = Seconds()
    a, b = node(A, orders(depth=4), read_at_ms=1), node(B, orders(depth=1 << 63), read_at_ms=1)
    c = node(C, topic("clicks"), topic("bad name"), read_at_ms=1)
    found = seconds.tick(a, b, c)
    assert (found.partial_total, TOTAL in found.silent) == ((B, C), False)
    assert seconds.tick(a, silent(b), c).partial_total == (C,)
    whole = node(C, topic("clicks"), read_at_ms=2)
    assert seconds.tick(a, node(B, orders(), read_at_ms=2), whole).partial_total == ()


def test_a_row_that_a_node_s_limit_touches_is_the_least_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("admin_console.cluster.reading.node_stats.TOPICS_MAX", 2)
    a = node(A, topic("clicks"), orders(depth=4), read_at_ms=1)
    b = node(B, topic("clicks"), topic("mails"), orders(depth=7), read_at_ms=1)
    found = Seconds().tick(a, b)
    assert channel_of(found, *BILLING).depth == 4
    assert found.silent == {("orders", ""): (B,), BILLING: (B,)}
    monkeypatch.setattr("admin_console.cluster.reading.node_stats.CHANNELS_MAX", 1)
    seconds = Seconds()
    three = topic("orders", channel("mails"), channel("billing", depth=1), channel("pdf"))
    # The channel that the answer still has is whole.
    assert seconds.tick(node(A, three, read_at_ms=1), node(B, orders(depth=4), read_at_ms=1)).silent == {
        ("orders", ""): (A,),
        BILLING: (A,),
    }
    whole = node(A, orders(depth=4), read_at_ms=2)
    assert seconds.tick(whole, node(B, orders(depth=4), read_at_ms=1)).silent == {}


def test_two_clients_whose_names_have_one_crc_have_two_keys() -> None:
    names = [{**dict.fromkeys(_CLIENT_NAMES), "client_id": one} for one in ("plumless", "buckeroo")]
    one, other = [client_stats(A, figures).client_key for figures in names]
    assert one != other
    assert -(1 << 63) <= min(one, other) <= max(one, other) < 0


def test_a_count_that_is_missing_or_too_large_costs_its_own_row() -> None:
    seconds = Seconds()
    broken = topic("orders", channel("billing", depth=1 << 63, message_count=9), channel("mails", depth=2))
    del broken["channels"][0]["in_flight_count"]
    found = seconds.tick(
        node(A, orders(depth=4, in_flight_count=1), topic("clicks"), read_at_ms=1), node(B, broken, read_at_ms=1)
    )
    merged = channel_of(found, *BILLING)
    assert (merged.depth, merged.in_flight_count, merged.message_count) == (4, 1, 9)
    assert channel_of(found, "orders", "mails").depth == 2
    assert found.silent == {BILLING: (B,), ("orders", ""): (B,)}
    assert seconds.tick(node(A, orders(depth=4), read_at_ms=1), node(B, orders(), read_at_ms=2)).silent == {}


def test_sums_are_beyond_what_one_node_may_report() -> None:
    most = (1 << 63) - 1
    nodes = [node(name, orders(depth=most), read_at_ms=1) for name in (A, B, C)]
    assert channel_of(Seconds().tick(*nodes), *BILLING).depth == 3 * most


def test_a_topic_at_one_node_is_that_nodes_own() -> None:
    seconds = Seconds()
    own = snapshots.snapshot(
        snapshots.topic("orders", snapshots.channel(*BILLING, failures=snapshots.failures(requeued=3))),
        second=START_S,
    )
    found = seconds.tick(node(A, topic("clicks"), read_at_ms=1), own=own)
    assert found.merged.topics[1] is own.topics[0]
    assert found.merged.topics[1:] + found.merged.topics[:1] == (*own.topics, found.places("clicks")[0].stats)


def test_a_tick_beyond_its_budget_leaves_topics_that_no_page_shows_for_the_next() -> None:
    spent = iter(range(1_000))
    seconds = Seconds()
    seconds.merger = Merger(budget_s=0.5, cpu_s=lambda: float(next(spent)))
    names = [f"t{number}" for number in range(4)]

    def depths(*given: int) -> list[int]:
        document = [topic(name, depth=depth) for name, depth in zip(names, given, strict=True)]
        found = seconds.merger.tick(
            None, state([node(A, *document, read_at_ms=seconds.now_ms)]), seconds.now_ms * 1_000_000, ["t2"]
        )
        seconds.second += 1
        return [one.depth for one in found.merged.topics]

    assert depths(0, 0, 0, 0) == [0, 0, 0, 0]  # new ones wait for nothing
    assert depths(1, 1, 1, 1) == [0, 0, 1, 0]


def test_without_an_engine_snapshots_are_of_the_nodes_alone() -> None:
    seconds = Seconds()
    first = seconds.tick(node(A, orders(3), read_at_ms=1)).merged
    second = seconds.tick(node(A, orders(3), read_at_ms=1)).merged
    assert (first.sequence, second.sequence) == (1, 2)
    assert second.taken_at_ns - first.taken_at_ns == NS_PER_S
    assert second.started_at_ns == first.taken_at_ns
    assert [one.topic_name for one in second.topics] == ["orders"]


def test_a_topic_that_no_node_has_any_more_is_gone() -> None:
    seconds = Seconds()
    seconds.tick(node(A, orders(3), read_at_ms=1))
    found = seconds.tick(node(A, topic("clicks"), read_at_ms=2))
    assert [one.topic_name for one in found.merged.topics] == ["clicks"]
    assert found.places("orders") == ()


def test_a_clock_that_is_set_costs_no_message() -> None:
    seconds = Seconds()
    count = 1_000
    seconds.tick(billing_of(seconds, count))
    for step_s in (3_600, -7_200):
        for jump_s in (step_s, 0):
            seconds.second += jump_s
            count += 50
            assert seconds.tick(billing_of(seconds, count)).growth[BILLING].raw[0] == 50


def test_clients_of_nodes_are_listed_together_and_their_rdy_is_the_channels() -> None:
    seconds = Seconds()
    own = snapshots.snapshot(
        snapshots.topic("orders", snapshots.channel(*BILLING, ready_count=1, clients=(snapshots.client(1),))),
        second=START_S,
    )
    workers = [client(f"worker-{number}", ready_count=5, remote_address=f"10.0.0.{number}:1") for number in (1, 2)]
    document = topic("orders", channel("billing", clients=tuple(workers)))
    a = node(A, document, read_at_ms=1, with_clients=True)
    b = node(B, document, read_at_ms=1)
    merged = channel_of(seconds.tick(a, own=own), *BILLING)
    assert merged.clients is not None
    assert [one.client_id for one in merged.clients] == ["worker-1", "worker-1", "worker-2"]
    assert (merged.client_count, merged.ready_count) == (2, 11)
    # Keys of other nodes' connections are none of this process's, and the same at each reading.
    keys = [one.client_key for one in merged.clients]
    assert keys[0] == 1
    assert max(keys[1:]) < 0
    assert len(set(keys)) == 3
    again = channel_of(seconds.tick(node(A, document, read_at_ms=2, with_clients=True), own=own), *BILLING)
    assert [one.client_key for one in again.clients or ()] == keys
    # Of a node whose clients were not read RDY is unknown.
    assert channel_of(seconds.tick(a, b, own=own), *BILLING).ready_count is None


def test_a_page_of_all_clients_costs_no_list_of_each_channel_and_an_opened_channel_has_its_own_at_once() -> None:
    """20,000 clients were listed again at each reading, for pages that no browser had open."""
    seconds = Seconds()
    document = topic("orders", channel("billing", clients=(client("worker-1", ready_count=5),)))
    a, b = (node(one, document, read_at_ms=1, with_clients=True) for one in (A, B))
    for watched, listed in ((), None), (("orders",), 2), ((), None):
        found = channel_of(seconds.tick(a, b, watched=watched), *BILLING)
        assert (None if found.clients is None else len(found.clients), found.ready_count) == (listed, 10)


def test_sums_that_readings_changed_are_those_of_all_readings_anew() -> None:
    """Whatever nodes report, one after the other: the sums went along with the differences."""
    chance = Random(35)
    seconds = Seconds()
    nodes: dict[str, Node] = {}

    def figures() -> dict[str, Any]:
        given = {name: chance.randrange(9) for name in CHANNEL_COUNTS if chance.random() < 0.7}
        given["paused"] = chance.random() < 0.1
        if chance.random() < 0.5:
            given |= {"finish_count": 3, "ready_count": 2, "oldest_age_ms": chance.randrange(500), "disk_bytes": 7}
        if chance.random() < 0.1:
            given |= {"fenced": "a fault", "max_attempts": 3, "quarantined_count": 1, "quarantine_full": "10 messages"}
        if chance.random() < 0.2:
            given["e2e_processing_latency"] = {"count": 2, "percentiles": [{"quantile": 0.5, "value": 7_000}]}
        return given

    for _ in range(200):
        name = chance.choice((A, B, C))
        if chance.random() < 0.2 and name in nodes:
            nodes[name] = silent(nodes[name])
        elif chance.random() < 0.1:
            nodes.pop(name, None)
        else:
            names = chance.sample(["billing", "archive", "mails"], chance.randrange(4))
            documents = [channel(one, **figures()) for one in names]
            nodes[name] = node(
                name, topic("orders", *documents, depth=chance.randrange(5)), read_at_ms=seconds.now_ms, started_s=1
            )
        found = seconds.tick(*nodes.values())
        # Counts that are worked out go on from reading to reading: they are compared as they are at the places.
        anew = [merged_topic("orders", places) for places in found.by_topic.values()]
        assert [plain(one) for one in found.merged.topics] == [plain(one) for one in anew]


def plain(one: TopicStats) -> list[dict[str, Any]]:
    """All figures of a topic and its channels but for failures, which are of the time between readings; windows as what
    pages show of them."""
    apart = ("channels", "window", "failures")
    return [
        {field.name: getattr(each, field.name) for field in fields(each) if field.name not in apart}
        | {"latency of": (each.window.count, each.window.worst_of, each.window.percentiles_ns((0.5,)))}
        for each in (one, *one.channels)
    ]


def test_producers_of_nodes_stand_beside_this_servers_while_a_page_shows_them() -> None:
    def publishing(name: str, topic_name: str, count: int) -> Node:
        found = node(name, topic(topic_name), read_at_ms=1)
        assert found.stats is not None
        figures = {**dict.fromkeys(_CLIENT_NAMES), "client_id": "shop", "pub_counts": {topic_name: count}}
        one = replace(found.stats.topics[topic_name], producers=(figures,))
        return replace(found, stats=replace(found.stats, topics={topic_name: one}))

    own = snapshots.snapshot(producers=(snapshots.client(1, pub_counts=(("orders", 5),)),), second=START_S)
    nodes = [publishing(A, "orders", 7), publishing(B, "orders", 8), publishing(C, "clicks", 9)]
    merger = Merger()

    def published(*watched: str) -> list[tuple[str, tuple[tuple[str, int], ...]]]:
        found = merger.tick(own, state(nodes), START_S * NS_PER_S, watched)
        return [(one.client_id, one.pub_counts) for one in found.merged.producers]

    ours = ("worker-1", (("orders", 5),))
    assert published() == [ours]
    assert published("orders") == [ours, ("shop", (("orders", 7),)), ("shop", (("orders", 8),))]
    assert published("clicks") == [ours, ("shop", (("clicks", 9),))]
