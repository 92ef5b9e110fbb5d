"""What strangers may write is text on every page: nothing of it runs, and nothing breaks the layout."""

import json
from urllib.parse import quote

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import OpenPage
from tests.support.nsq_socket import NsqSocket
from tests.support.pages.browser import Complaints
from tests.support.pages.console_page import create_channel, message, open_act, wait_for_figure, wait_until_live
from tests.support.processes.server import ServerProcess

pytestmark = [pytest.mark.slow(reason="drives the real Chromium"), pytest.mark.browser]

# Each would leave a trace when it ran: an error in the console, a request, a dialog, or the mark on the window.
PAYLOADS = (
    "<script>window.ran=1</script>",
    "</script><script>window.ran=1</script>",
    "<img src=/ran onerror=window.ran=1>",
    "<svg onload=window.ran=1>",
    "\"><img src=/ran onerror='window.ran=1'>",
    "'-window.ran=1-'",
    "javascript:window.ran=1",
    "<a href=javascript:alert(1)>click</a>",
    "{{7*7}}{% debug %}${7*7}",
    "</td></tr></table></main><h1>owned</h1>",
    "</template><script>window.ran=1</script>",
    "<iframe srcdoc='<script>parent.ran=1</script>'>",
    "<style>body{display:none}</style>",
    "<meta http-equiv=refresh content='0;url=/ran'>",
    "\u202eevil\u0000\u0007\r\n\x1b[31m",
    "<!--",
    "&lt;script&gt;&amp;#x3c;",
)
LONG = "W" * 64


def expect_harmless(page: Page) -> None:
    """No script ran, nothing of the payloads became an element, and the page is no wider than its window."""
    assert page.evaluate("window.ran === undefined"), "a payload ran"
    made = page.evaluate(
        """() => document.querySelectorAll(
          'main h1:not(:first-of-type), main img, main iframe, main script:not(#figures), main style, main meta, '
          + 'a[href^="javascript:"]').length"""
    )
    assert made == 0, "a payload became an element"
    expect(page.get_by_role("contentinfo")).to_be_visible()
    width = page.evaluate("[document.scrollingElement.scrollWidth, innerWidth]")
    assert width[0] <= width[1], f"{page.url} is {width[0]} pixels wide in a window of {width[1]}"


def test_what_clients_say_of_themselves_is_only_text(server: ServerProcess, open_page: OpenPage) -> None:
    create_channel(server, "wild", "west")
    server.http("POST", "/mpub?topic=wild", b"\n".join([b"<script>window.ran=1</script>"] * len(PAYLOADS)))
    clients = []
    try:
        # Half are there when the page is made, half come by the socket: two ways of writing the same row.
        for payload in PAYLOADS[::2]:
            clients.append(hostile_client(server, payload))
        page = open_page("/topics/wild/west/")
        wait_until_live(page)
        for payload in PAYLOADS[1::2]:
            clients.append(hostile_client(server, payload))
        rows = page.get_by_role("table", name="Connected consumers").locator("tbody tr")
        expect(rows).to_have_count(len(PAYLOADS))
        wait_for_figure(page, "in_flight", str(len(PAYLOADS)))
        text = page.locator("main").inner_text()
        for payload in (
            "<script>window.ran=1</script>",
            "{{7*7}}{% debug %}${7*7}",
            "&lt;script&gt;&amp;#x3c;",
            "<!--",
        ):
            assert payload in text, f"{payload!r} is not shown as it is"
        expect_harmless(page)
        page.set_viewport_size({"width": 360, "height": 740})
        expect_harmless(page)
        # Now that they are known the server itself writes them into the page.
        page.reload()
        expect(rows).to_have_count(len(PAYLOADS))
        expect_harmless(page)
        # In the dialog the consumers are choices.
        dialog = open_act(page, "Requeue in flight…")
        expect(dialog.get_by_label("Consumer", exact=True)).to_contain_text("</script><script>window.ran=1</script>")
        expect_harmless(page)
    finally:
        for client in clients:
            client.close()


def hostile_client(server: ServerProcess, payload: str) -> NsqSocket:
    """A consumer that holds one message, and a producer as well, called `payload` in every way."""
    client = NsqSocket(server.tcp_port)
    client.identify(client_id=payload, hostname=payload * 3, user_agent=payload)
    client.publish("wild", payload.encode())
    client.subscribe("wild", "west", rdy=1)
    client.read_message()
    return client


def test_bodies_and_their_keys_are_only_text(
    server: ServerProcess, open_page: OpenPage, complaints: Complaints
) -> None:
    complaints.expect("find=.*400")
    create_channel(server, "jungle", "path")
    for payload in PAYLOADS:
        server.http("POST", "/pub?topic=jungle", payload.encode())
    server.http("POST", "/pub?topic=jungle", json.dumps({payload: [payload] for payload in PAYLOADS}).encode())
    server.http("POST", "/pub?topic=jungle", b'["\\ud800", "\\u202e", "\\u0000"]')
    server.http("POST", "/pub?topic=jungle", b"\xff<script>window.ran=1</script>")
    key = quote(PAYLOADS[0])
    server.http("POST", f"/pub?topic=jungle&key={key}", b"with a key")
    client = NsqSocket(server.tcp_port)
    try:
        client.identify(client_id=PAYLOADS[0], msg_timeout=60_000)
        client.subscribe("jungle", "path", rdy=1)
        client.read_message()
        page = open_page("/topics/jungle/path/~messages/", graphs=False)
        # An id or a text that a link of a stranger asks for.
        wild = quote('"><script>window.ran=1</script>')
        for path in ("", "?form=text", "?form=hex", "?state=in_flight", "17/", "17/?form=text", f"?find={wild}"):
            page.goto(f"/topics/jungle/path/~messages/{path}")
            page.evaluate("for (const each of document.querySelectorAll('details')) each.open = true")
            expect_harmless(page)
            page.set_viewport_size({"width": 360, "height": 740})
            expect_harmless(page)
            page.set_viewport_size({"width": 1280, "height": 740})
        page.goto("/topics/jungle/path/~messages/?form=text")
        text = page.locator("main").inner_text()
        assert "⟨202E⟩evil␀␇" in text, "what can't be seen is made visible"
    finally:
        client.close()


def test_producers_names_are_only_text_on_the_topic_page(server: ServerProcess, open_page: OpenPage) -> None:
    producers = []
    try:
        for payload in PAYLOADS:
            producer = NsqSocket(server.tcp_port)
            producer.identify(client_id=payload, hostname=payload, user_agent=payload)
            producer.publish("mail", payload.encode())
            producers.append(producer)
        page = open_page("/topics/mail/", graphs=False)
        rows = page.get_by_role("table", name="Connected producers").locator("tbody tr")
        expect(rows).to_have_count(len(PAYLOADS))
        expect_harmless(page)
        page.reload()
        expect(rows).to_have_count(len(PAYLOADS))
        expect_harmless(page)
    finally:
        for producer in producers:
            producer.close()


def test_the_longest_names_fit_on_every_page(server: ServerProcess, open_page: OpenPage) -> None:
    topic, channel = f"{LONG[:-9]}.topic_-1", f"{LONG[:-10]}#ephemeral"
    create_channel(server, topic, channel.replace("#", "%23"))
    server.http("POST", f"/mpub?topic={topic}", b"1\n2")
    with NsqSocket(server.tcp_port) as consumer:
        consumer.subscribe(topic, channel, rdy=1)
        consumer.read_message()
        page = open_page("/", graphs=False)
        channel_path = f"/topics/{topic}/{channel.replace('#', '%23')}/"
        for path in ("/", f"/topics/?q={topic}", f"/topics/{topic}/", channel_path, f"{channel_path}~delete/"):
            page.goto(path)
            for width in (1280, 360):
                page.set_viewport_size({"width": width, "height": 740})
                expect_harmless(page)
        page.goto(channel_path)
        expect(page.get_by_role("heading", name=channel)).to_be_visible()
        open_act(page, "Delete…")
        expect_harmless(page)


def test_forms_and_the_search_give_back_only_text(server: ServerProcess, open_page: OpenPage) -> None:
    server.http("POST", "/topic/create?topic=forms")
    page = open_page("/topics/forms/", graphs=False)
    for payload in ("<img src=/ran onerror=window.ran=1>", "</textarea><script>window.ran=1</script>"):
        dialog = open_act(page, "Publish…")
        dialog.get_by_label("Body").fill(payload)
        with page.expect_navigation():
            dialog.get_by_role("button", name="Publish to forms").click()
        assert message(page).startswith("Published 1 message")
        expect_harmless(page)
        dialog = open_act(page, "Pause…|Resume…")
        dialog.get_by_label("Reason").fill(payload)
        with page.expect_navigation():
            dialog.get_by_role("button", name="forms").click()
        page.goto("/audit/?object=forms")
        assert payload in page.get_by_role("main").inner_text()
        expect_harmless(page)
        page.get_by_role("searchbox", name="Search topics").fill(payload)
        with page.expect_navigation():  # this page has the payload as well
            page.get_by_role("searchbox", name="Search topics").press("Enter")
        expect(page.get_by_role("main")).to_contain_text(payload)
        expect_harmless(page)
        page.goto("/topics/forms/")
