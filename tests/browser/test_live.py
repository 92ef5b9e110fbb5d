"""Figures move on an open page, without a reload, while a client works."""

import time
from itertools import pairwise

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import OpenPage
from tests.support.nsq_socket import NsqSocket
from tests.support.pages.browser import Complaints
from tests.support.pages.console_page import (
    LIVE_TIMEOUT_S,
    cell,
    create_channel,
    figure,
    figure_note,
    is_marked,
    mark,
    plotted,
    wait_for_figure,
    wait_until_live,
)
from tests.support.processes.server import ServerProcess
from tests.support.waiting import wait_for

pytestmark = [pytest.mark.slow(reason="drives the real Chromium"), pytest.mark.browser]

MSG_TIMEOUT_MS = 1_000


def test_depth_in_flight_and_timeouts_move_on_the_channel_page(server: ServerProcess, open_page: OpenPage) -> None:
    create_channel(server, "quakes", "alarm")
    page = open_page("/topics/quakes/alarm/")
    wait_until_live(page)
    mark(page)
    assert figure(page, "depth") == "0"
    with NsqSocket(server.tcp_port) as producer:
        producer.publish("quakes", *[b"%d" % number for number in range(7)])
        wait_for_figure(page, "depth", "7")
        with NsqSocket(server.tcp_port) as consumer:
            consumer.identify(client_id="seismograph", msg_timeout=MSG_TIMEOUT_MS)
            consumer.subscribe("quakes", "alarm", rdy=3)
            held = [consumer.read_message() for _ in range(3)]
            wait_for_figure(page, "in_flight", "3")
            wait_for_figure(page, "depth", "4")
            # Nothing is finished: the three time out and are given out again, with the second attempt counted.
            again = [consumer.read_message() for _ in range(3)]
            assert all(message.attempts in (1, 2) for message in again)
            consumer.send(b"RDY 0\n")
            wait_for(
                "timeouts on the page",
                lambda: figure(page, "timeouts") not in ("–", "0/min"),
                timeout_s=LIVE_TIMEOUT_S,
                every_s=0.1,
            )
            wait_for_figure(page, "in_flight", "0")
            timed_out = server.channel_stats("quakes", "alarm")["timeout_count"]
            assert timed_out >= len(held)
            wait_for(
                f"{timed_out} timeouts on the page",
                lambda: figure_note(page, "timeouts").startswith(f"{timed_out} since start"),
                timeout_s=LIVE_TIMEOUT_S,
                every_s=0.1,
            )
            assert "seismograph" in page.get_by_role("table", name="Connected consumers").inner_text()
    wait_for_figure(page, "depth", "7")
    assert is_marked(page), "the page was reloaded"


def test_depth_in_flight_and_timeouts_move_on_the_topic_page_and_in_the_list_of_topics(
    server: ServerProcess, open_page: OpenPage
) -> None:
    create_channel(server, "floods", "gauges")
    topic = open_page("/topics/floods/", graphs=False)
    topics = open_page("/topics/?q=floods")
    for page in (topic, topics):
        wait_until_live(page)
        mark(page)

    def shown() -> tuple[str, str, str, str]:
        return (
            figure(topic, "waiting"),
            cell(topic, "channels", "gauges", "depth"),
            cell(topics, "topics", "floods", "depth"),
            cell(topics, "topics", "floods", "in_flight"),
        )

    wait_for("no depth", lambda: shown() == ("0", "0", "0", "0"), timeout_s=LIVE_TIMEOUT_S, every_s=0.1)
    with NsqSocket(server.tcp_port) as client:
        client.publish("floods", *[b"water"] * 5)
        wait_for("a depth of 5", lambda: shown() == ("5", "5", "5", "0"), timeout_s=LIVE_TIMEOUT_S, every_s=0.1)
        with NsqSocket(server.tcp_port) as consumer:
            consumer.identify(msg_timeout=MSG_TIMEOUT_MS)
            consumer.subscribe("floods", "gauges", rdy=2)
            wait_for("2 in flight", lambda: shown() == ("3", "3", "3", "2"), timeout_s=LIVE_TIMEOUT_S, every_s=0.1)
            wait_for_figure(topic, "in_flight", "2")
            wait_for(
                "timeouts",
                lambda: (
                    cell(topic, "channels", "gauges", "timeouts") != "0"
                    and figure(topic, "timeouts") not in ("–", "0/min")
                    and cell(topics, "topics", "floods", "timeouts") not in ("–", "0")
                ),
                timeout_s=LIVE_TIMEOUT_S,
                every_s=0.1,
            )
    assert is_marked(topic), "the topic's page was reloaded"
    assert is_marked(topics), "the list of topics was reloaded"


def test_a_topic_that_comes_into_being_appears_in_the_open_list(server: ServerProcess, open_page: OpenPage) -> None:
    page = open_page("/topics/?q=newborn")
    wait_until_live(page)
    mark(page)
    assert page.get_by_role("link", name="newborn").count() == 0
    server.http("POST", "/pub?topic=newborn", b"first")
    page.get_by_role("link", name="newborn").wait_for(timeout=LIVE_TIMEOUT_S * 1000)
    expect(page.locator('[data-table="topics"] tr[data-key="newborn"] [data-cell="depth"]')).to_have_text("1")
    assert is_marked(page), "the page was reloaded"


def test_the_depth_graph_draws_what_the_engine_counts(server: ServerProcess, open_page: OpenPage) -> None:
    create_channel(server, "tides", "harbour")
    page = open_page("/topics/tides/harbour/")
    wait_until_live(page)
    wait_for("the graph", lambda: plotted(page, "depth"), timeout_s=LIVE_TIMEOUT_S, every_s=0.1)
    for expected in (11, 4):
        if expected == 11:
            server.http("POST", "/mpub?topic=tides", b"\n".join(b"%d" % number for number in range(11)))
        else:
            with NsqSocket(server.tcp_port) as consumer:
                consumer.subscribe("tides", "harbour", rdy=1)
                for _ in range(7):
                    consumer.finish(consumer.read_message())
            # The eighth, which it may hold already, goes back to the queue with its connection.
        wait_for(
            f"a point at {expected}",
            lambda wanted=expected: plotted(page, "depth")[0]["y"][-1] == wanted,
            timeout_s=LIVE_TIMEOUT_S,
            every_s=0.1,
        )
    (line,) = plotted(page, "depth") or []
    assert line["name"] == "depth"
    assert 11 in line["y"], line
    # A point a second, the newest at this second.
    assert {later - earlier for earlier, later in pairwise(line["x"])} == {1}
    wait_for(
        "a point at this second",
        lambda: abs(plotted(page, "depth")[0]["x"][-1] - time.time()) < 3,
        timeout_s=LIVE_TIMEOUT_S,
        every_s=0.1,
    )


def test_a_page_of_what_is_gone_stays_until_it_is_there_again(
    server: ServerProcess, open_page: OpenPage, complaints: Complaints
) -> None:
    complaints.expect("/topics/phoenix/.*404")
    # Where an update was missed the page asks for its second, perhaps at that moment.
    complaints.allow("/api/series/phoenix/.*404")
    create_channel(server, "phoenix", "ash")
    page = open_page("/topics/phoenix/", graphs=False)
    wait_until_live(page)
    server.http("POST", "/topic/delete?topic=phoenix")
    gone = page.get_by_text("There is no topic phoenix")
    gone.wait_for(timeout=LIVE_TIMEOUT_S * 1000)
    # A page that reloads itself with every update never gets so old.
    wait_for("a page that stays", lambda: page.evaluate("performance.now()") > 3_500, every_s=0.1)
    page.get_by_role("link", name="Create phoenix…").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_label("Name")).to_have_value("phoenix")
    dialog.get_by_role("link", name="Cancel").click()
    server.http("POST", "/pub?topic=phoenix", b"again")
    page.locator("[data-stats]").wait_for(timeout=LIVE_TIMEOUT_S * 1000)
    wait_for_figure(page, "waiting", "1")


def test_an_update_from_before_the_page_takes_nothing_back(server: ServerProcess, open_page: OpenPage) -> None:
    """The page knows of what was made a moment ago; the first update may not, and must not declare it gone."""
    page = open_page("/topics/", graphs=False)
    for channel in ("one", "two", "three"):
        create_channel(server, "sudden", channel)
        page.goto(f"/topics/sudden/{channel}/")
        wait_until_live(page)
        assert page.evaluate("performance.getEntriesByType('navigation')[0].type") == "navigate", "it reloaded itself"
