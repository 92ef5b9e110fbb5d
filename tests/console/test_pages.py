"""The pages that read, on the real engine and without scripts: what they show, to whom, and when there is nothing."""

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from django.test import Client

from admin_console.gateway.embedded import EmbeddedGateway
from admin_console.hub.hub import get_hub
from admin_console.vocabulary.roles import Role
from queue_engine.delivery.stats import ChannelStats
from queue_engine.service.runner import EngineRunner
from queue_engine.vocabulary.clock import NS_PER_S
from tests.support.nsq_socket import NsqSocket
from tests.support.pages.console import client_of, console_engine, make_user, see, words
from tests.support.pages.snapshots import START_S
from tests.support.waiting import wait_for

pytestmark = pytest.mark.django_db


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[EngineRunner]:
    with console_engine(tmp_path) as runner:
        yield runner


@pytest.fixture
def browser() -> Client:
    return client_of(make_user(role=Role.ADMIN))


def do(engine: EngineRunner, act: str, *args: object, **details: object) -> None:
    if act == "create_channel":
        engine.calls.create_topic(args[0]).result(10)
    getattr(engine.calls, act)(*args, **details).result(10)


def page(browser: Client, path: str, status: int = 200) -> str:
    answer = browser.get(path)
    assert answer.status_code == status, answer.content.decode()
    return " ".join(answer.content.decode().split())


def test_first_run_shows_how_to_publish(engine: EngineRunner, browser: Client) -> None:
    see(engine)
    host, port = engine.http_address
    for path in ("/", "/topics/"):
        text = words(page(browser, path))
        assert "publish a first message" in text
        assert f"curl -d hello 'http://{host}:{port}/pub?topic=greetings'" in text


def test_a_message_that_is_requeued_again_and_again_is_told_of_on_every_page(
    engine: EngineRunner, browser: Client
) -> None:
    do(engine, "create_channel", "orders", "billing")
    do(engine, "publish", "orders", [b"poison"])
    with NsqSocket(engine.tcp_address[1]) as consumer:
        consumer.subscribe("orders", "billing", rdy=1)
        for second in range(25):
            consumer.send(b"REQ " + consumer.read_message().id + b" 0\n")
            taken = engine.calls.stats().result(30)
            get_hub().write(replace(taken, taken_at_ns=(START_S + second) * NS_PER_S))
        text = words(page(browser, "/"))
        assert re.search(
            r"orders/billing: poison message: the message [0-9a-f]{16} was delivered 2[0-9] times and never finished\.",
            text,
        )
        assert re.search(r"2[0-9] requeued in the last 24 s, 100 % of them by [^;]+\.", text)
        for path in ("/", "/topics/", "/topics/orders/", "/topics/orders/billing/"):
            assert "▲ poison message" in words(page(browser, path)), path
        assert "▲ requeues" in words(page(browser, "/topics/orders/billing/"))


@pytest.fixture
def impatient(tmp_path: Path) -> Iterator[EngineRunner]:
    """An engine whose messages time out at once, but for consumers that ask for more."""
    with console_engine(tmp_path, msg_timeout_ms=200) as runner:
        yield runner


def test_only_what_acts_do_to_a_depth_is_no_flow(impatient: EngineRunner) -> None:
    """Of all that happens to messages the engine's counters tell where they went."""
    engine = impatient
    do(engine, "create_channel", "orders", "billing")
    jumps = []

    def counts() -> ChannelStats:
        (found,) = engine.calls.stats().result(30).topics[0].channels
        assert isinstance(found, ChannelStats)
        return found

    def look() -> None:
        taken = engine.calls.stats().result(30)
        get_hub().write(replace(taken, taken_at_ns=(START_S + len(jumps)) * NS_PER_S))
        rings = get_hub().rings["orders", "billing"]
        jumps.append(rings.change("depth_jumps", 1)[0] if jumps else 0.0)

    look()
    with NsqSocket(engine.tcp_address[1]) as consumer, NsqSocket(engine.tcp_address[1]) as late:
        consumer.identify(msg_timeout=600_000)
        consumer.subscribe("orders", "billing", rdy=3)
        late.subscribe("orders", "billing", rdy=1)
        do(engine, "publish", "orders", [b"%d" % number for number in range(20)])
        do(engine, "publish", "orders", [b"later"], defer_ms=600_000)
        look()
        first, second, third = (consumer.read_message() for _ in range(3))
        late.read_message()
        look()
        consumer.send(b"RDY 0\n")
        late.send(b"RDY 0\n")
        consumer.finish(first)
        consumer.send(b"REQ " + second.id + b" 0\nREQ " + third.id + b" 600000\n")
        wait_for("the requeues", lambda: counts().requeue_count == 2)
        look()
        wait_for("the timeout", lambda: counts().timeout_count and not counts().in_flight_count)
        look()
        do(engine, "release_deferred", "orders", "billing")
        look()
        consumer.send(b"RDY 3\n")
        for _ in range(3):
            consumer.read_message()
    wait_for("what it held", lambda: counts().disconnect_count == 3)
    look()
    assert jumps == [0.0] * len(jumps)
    do(engine, "empty_channel", "orders", "billing")
    look()
    assert jumps[-1] == -20


def test_overview_lists_what_needs_somebody(engine: EngineRunner, browser: Client) -> None:
    do(engine, "create_channel", "orders", "billing")
    do(engine, "publish", "orders", [b"one", b"two"])
    do(engine, "create_channel", "mail", "sender")
    do(engine, "pause_channel", "mail", "sender")
    do(engine, "publish", "lonely", [b"three"])
    see(engine, for_s=3)
    html = page(browser, "/")
    text = words(html)
    assert "3 topics · 2 channels" in text
    assert "orders/billing: not draining: no consumer is connected." in text
    assert re.search(r'data-table="urgent".*?data-key="orders/billing".*?data-key="mail/sender"', html, re.DOTALL)
    assert "Resume" in text
    paused = page(browser, "/?show=paused")
    assert re.findall(r'data-key="([^"]+)"', paused.split("<tbody>")[1].split("</tbody>")[0]) == ["mail/sender"]
    assert "▸ 1 topic without a channel" in text
    assert "lonely" in page(browser, "/topics/?show=no-channel")


def test_topics_are_searched_and_say_what_was_not_found(engine: EngineRunner, browser: Client) -> None:
    do(engine, "create_channel", "orders", "billing")
    do(engine, "create_topic", "mail")
    see(engine)
    assert "1 of 2 topics match “billing”" in words(page(browser, "/topics/?q=billing"))
    nothing = page(browser, "/topics/?q=<script>")
    assert "No topic or channel matches “<script>”" in words(nothing)
    assert "<script>”" not in nothing, "what was asked is escaped"
    assert "Show all topics" in nothing


def test_sorted_column_says_so(engine: EngineRunner, browser: Client) -> None:
    do(engine, "create_topic", "mail")
    see(engine)
    html = page(browser, "/topics/?sort=-depth&q=m")
    assert html.count("aria-sort=") == 1
    assert re.search(r'aria-sort="descending"><a href="/topics/\?q=m&amp;sort=depth" data-list-link>Depth&nbsp;↓', html)


def test_topic_shows_all_that_nsqadmin_shows(engine: EngineRunner, browser: Client) -> None:
    do(engine, "create_channel", "orders", "billing")
    do(engine, "publish", "orders", [b"x" * 100] * 3)
    see(engine)
    text = words(page(browser, "/topics/orders/"))
    for heading in (
        "Memory + disk",
        "In flight",
        "Deferred",
        "Requeued /min",
        "Timeouts /min",
        "Messages",
        "Consumers",
    ):
        assert heading in text
    assert re.search(r"over [0-9]+ s · 3 since start", text)
    assert "300 B" in text
    assert "100 B a message" in text
    assert "No producer is connected over TCP now" in text


def test_topic_without_channel_says_where_messages_stay(engine: EngineRunner, browser: Client) -> None:
    do(engine, "publish", "orders", [b"x"])
    see(engine)
    text = words(page(browser, "/topics/orders/"))
    assert "The topic has no channel: no consumer receives its messages." in text
    assert "Messages stay at the topic until a channel is created" in text


def test_channel_shows_all_that_nsqadmin_shows(engine: EngineRunner, browser: Client) -> None:
    do(engine, "create_channel", "orders", "billing")
    see(engine)
    text = words(page(browser, "/topics/orders/billing/"))
    assert "No consumer is connected to this channel." in text
    assert "No message is in flight." in text
    for figure in ("Depth", "In flight", "Deferred", "Timeouts", "Requeued", "Oldest message"):
        assert figure in text


def test_page_after_an_act_shows_what_it_did_at_once(engine: EngineRunner, browser: Client) -> None:
    """The hub's figures are up to a second old; a page after a pause may not say that it runs."""
    do(engine, "create_channel", "orders", "billing")
    see(engine)
    do(engine, "pause_channel", "orders", "billing")
    do(engine, "publish", "orders", [b"x"])
    text = words(page(browser, "/topics/orders/billing/"))
    assert ": nothing is delivered." in text
    assert "The depth is 1" in text


@pytest.mark.parametrize("path", ["/topics/none/", "/topics/none/at-all/"])
def test_what_is_not_there_is_404_and_says_why(engine: EngineRunner, browser: Client, path: str) -> None:
    see(engine)
    assert "There is no " in words(page(browser, path, status=404))


def test_viewer_sees_everything_and_no_button_works(engine: EngineRunner) -> None:
    do(engine, "create_channel", "orders", "billing")
    see(engine)
    viewer = client_of(make_user("vera", Role.VIEWER))
    for path in ("/", "/topics/", "/topics/orders/", "/topics/orders/billing/"):
        html = page(viewer, path)
        assert not re.search(r'<a [^>]*href="[^"]+"[^>]*data-dialog', html), path
        assert "Needs the role" in html


def test_names_are_quoted_in_links(engine: EngineRunner, browser: Client) -> None:
    do(engine, "create_channel", "orders", "watch#ephemeral")
    see(engine)
    assert 'href="/topics/orders/watch%23ephemeral/"' in page(browser, "/topics/orders/")
    assert "watch#ephemeral" in words(page(browser, "/topics/orders/watch%23ephemeral/"))


def test_figures_of_the_page_know_their_age(engine: EngineRunner, browser: Client) -> None:
    seen = see(engine)
    html = page(browser, "/")
    taken, age = re.search(r'data-taken-at="(\d+)" data-age="(\d+)"', html).groups()
    assert int(taken) == seen.taken_at_ns // 1_000_000
    assert 0 <= int(age) < 10_000
    assert "are not updated without JavaScript" in html


def test_before_the_first_figures_nothing_is_zero(
    engine: EngineRunner, browser: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(EmbeddedGateway, "snapshot", lambda gateway: None)  # the engine makes its first any moment
    html = page(browser, "/")
    assert "No figures have come from the engine yet" in words(html)
    stats = html.split("data-stats")[1].split("</dl>")[0]
    assert re.findall(r'class="value"[^>]*>([^<]*)<', stats) == ["–"] * 6


def test_series_are_columns_of_fifteen_minutes(engine: EngineRunner, browser: Client) -> None:
    do(engine, "create_channel", "orders", "billing")
    see(engine)
    for path, columns in (
        ("/api/series/", {"published", "finished", "waiting:orders/billing"}),
        ("/api/series/orders/", {"waiting", "depth", "published", "finished"}),
        ("/api/series/orders/billing/", {"depth", "in_flight", "deferred", "received", "finished", "timeouts"}),
    ):
        answer = browser.get(path).json()
        assert columns <= answer["columns"].keys()
        assert {len(values) for values in answer["columns"].values()} == {answer["seconds"]} == {900}
        assert {name for lines in answer["graphs"].values() for name in lines} == answer["columns"].keys()


def test_the_header_names_the_place_that_a_page_lies_below(engine: EngineRunner, browser: Client) -> None:
    engine.calls.create_topic("orders", storage="log").result(30)
    engine.calls.create_channel("orders", "billing").result(30)
    for path, place in (
        ("/topics/orders/~messages/", "Topics"),
        ("/topics/orders/billing/~messages/", "Topics"),
        ("/topics/~selected/pause-topic/?on=orders", "Topics"),
        ("/trash/", "Trash"),
    ):
        page = browser.get(path).content.decode()
        # In the row of places, and behind "More" where the row is too short for it.
        assert re.findall(r'aria-current="page">([A-Z][a-z]+)</a>', page.partition("</nav>")[0]) == [place] * 2, path
