"""Three nights on call, played at 360 px as somebody would who has not seen the console before."""

import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, ViewportSize, expect

from tests.browser.conftest import WAIT_MS, OpenPage
from tests.support.nsq_socket import Message, NsqSocket
from tests.support.pages.browser import Complaints, close
from tests.support.pages.console_page import audit_row, create_channel, wait_for_figure, wait_until_live
from tests.support.processes.server import ADMIN_PASSWORD, ADMIN_USER, ServerProcess
from tests.support.waiting import wait_for

pytestmark = [
    pytest.mark.slow(reason="drives the real Chromium"),
    pytest.mark.browser,
    pytest.mark.timeout(400),  # several rules begin and end in each
]

PHONE: ViewportSize = {"width": 360, "height": 740}
# Found by the third tap at the latest; the machine may be slow, the person is not.
RULES_BEGIN_MS = 60_000
BEFORE = {"depth": 4, "deferred_count": 1}  # of trades/fills


@contextmanager
def consumer(
    server: ServerProcess, topic: str, channel: str, client_id: str, answer: Callable[[Message], bytes], *, rdy: int = 5
) -> Iterator[NsqSocket]:
    """A consumer at work until the block ends: it answers each message with what `answer` says, b"" for nothing."""
    connection = NsqSocket(server.tcp_port)
    connection.identify(client_id=client_id, hostname=client_id, feature_negotiation=True, msg_timeout=600_000)
    connection.subscribe(topic, channel, rdy=rdy)
    is_over = threading.Event()

    def work() -> None:
        try:
            while not is_over.is_set():
                try:
                    message = connection.read_message(0.5)
                except TimeoutError:
                    continue
                connection.send(answer(message))
        except (EOFError, OSError):
            pass  # the block has ended, or the server closed

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    try:
        yield connection
    finally:
        is_over.set()
        thread.join(30)
        connection.close()


def finished(message: Message) -> bytes:
    return b"FIN %s\n" % message.id


def requeued(message: Message) -> bytes:
    return b"REQ %s 100\n" % message.id


def on_the_phone(open_page: OpenPage, path: str = "/") -> Page:
    page = open_page(path, viewport=PHONE)
    wait_until_live(page)
    return page


def test_a_failing_consumer_is_named_its_channel_paused_with_a_reason_and_all_recovers(
    server: ServerProcess, open_page: OpenPage
) -> None:
    create_channel(server, "payments", "ledger")
    server.http("POST", "/mpub?topic=payments", b"\n".join(b"payment %d" % number for number in range(40)))
    with consumer(server, "payments", "ledger", "ledger-7", requeued):
        page = on_the_phone(open_page)
        # The overview says who it is; one tap leads to the channel.
        row = page.locator('[data-table="urgent"] tr[data-key="payments/ledger"]')
        expect(row).to_contain_text("▲ requeues", timeout=RULES_BEGIN_MS)
        row.get_by_role("link", name="ledger").click()
        banner = page.locator("[data-banner]")
        expect(banner).to_contain_text("Failing:", timeout=RULES_BEGIN_MS)
        expect(banner).to_contain_text("100 % of them by ledger-7")
        # Its one likely act: the second tap; the third one does it.
        banner.get_by_role("link", name="Pause").click()
        dialog = page.get_by_role("dialog")
        dialog.get_by_label("Reason").fill("ledger-7 fails since its deploy")
        dialog.get_by_label("The pause ends").select_option("15m")
        with page.expect_navigation():
            dialog.get_by_role("button", name="Pause payments/ledger").click()
        expect(page.locator("#messages")).to_contain_text("Paused payments/ledger")
        expect(page.locator("#messages").get_by_role("link", name="Undo")).to_be_visible()
        expect(page.get_by_text("ledger-7 fails since its deploy").first).to_be_visible()
    assert server.channel_stats("payments", "ledger")["paused"] is True
    row_of_audit = audit_row(page, "payments/ledger")
    assert (row_of_audit["Who"], row_of_audit["Act"]) == (f"{ADMIN_USER} admin", "pause channel")
    assert row_of_audit["Reason"] == "ledger-7 fails since its deploy"

    # Mended: another consumer comes, and the channel is resumed.
    with consumer(server, "payments", "ledger", "ledger-8", finished):
        page.get_by_role("button", name="Acts").click()
        page.locator("#acts").get_by_role("link", name="Resume…").click()
        dialog = page.get_by_role("dialog")
        expect(dialog).to_contain_text("It releases 40 messages")
        with page.expect_navigation():
            dialog.get_by_role("button", name="Resume payments/ledger").click()
        wait_until_live(page)
        wait_for("all to be finished", lambda: server.channel_stats("payments", "ledger")["depth"] == 0)
        wait_for_figure(page, "depth", "0")
        expect(page.locator("[data-banner]")).to_be_hidden(timeout=RULES_BEGIN_MS)


def test_a_poison_message_is_found_quarantined_redriven_and_another_finished_by_hand(
    server: ServerProcess, open_page: OpenPage
) -> None:
    create_channel(server, "mails", "outbox")
    server.http("POST", "/pub?topic=mails", b"to: nobody@nowhere")
    server.http("POST", "/mpub?topic=mails", b"\n".join(b"to: ada%d@example.org" % number for number in range(20)))
    is_mended = threading.Event()

    def answer(message: Message) -> bytes:
        return requeued(message) if b"nobody" in message.body and not is_mended.is_set() else finished(message)

    with consumer(server, "mails", "outbox", "mailer-1", answer):
        page = on_the_phone(open_page)
        row = page.locator('[data-table="urgent"] tr[data-key="mails/outbox"]')
        expect(row).to_contain_text("poison message", timeout=RULES_BEGIN_MS)
        row.get_by_role("link", name="outbox").click()
        # The banner names the message; one tap leads to it, another one sets it aside.
        banner = page.locator("[data-banner]")
        expect(banner).to_contain_text("Poison message:", timeout=RULES_BEGIN_MS)
        banner.get_by_role("link", name=re.compile("^Message ")).click()
        expect(page.locator("main")).to_contain_text("nobody@nowhere")
        page.go_back()
        banner.get_by_role("link", name="Quarantine the message…").click()
        with page.expect_navigation():
            page.get_by_role("dialog").get_by_role("button", name="Quarantine 1 message of mails/outbox").click()
        wait_for(
            "the message to be set aside",
            lambda: server.channel_stats("mails", "outbox")["quarantined_count"] == 1,
        )
        assert server.channel_stats("mails", "outbox")["depth"] == 0, "it blocks no other message"

        # Its consumer is mended, and it is redriven.
        is_mended.set()
        page.goto("/topics/mails/outbox/")
        wait_until_live(page)
        page.locator("#quarantine").get_by_role("link", name="Redrive…").click()
        dialog = page.get_by_role("dialog")
        expect(dialog).to_contain_text("1 quarantined message will wait again in this channel alone.")
        with page.expect_navigation():
            dialog.get_by_role("button", name="Redrive mails/outbox").click()

        def is_all_done() -> bool:
            stats = server.channel_stats("mails", "outbox")
            return (stats["quarantined_count"], stats["depth"], stats["in_flight_count"]) == (0, 0, 0)

        wait_for("the redriven message to be finished", is_all_done)

    # Another one is finished by hand: it waits, and nobody will ever want it.
    server.http("POST", "/pub?topic=mails", b"to: wrong@example.org")
    page.goto("/topics/mails/outbox/~messages/")
    card = page.locator("main tbody").filter(has_text="wrong@example.org")
    card.get_by_text("Finish…", exact=True).click()
    expect(card).to_contain_text("This channel never delivers it again")
    with page.expect_navigation():
        card.get_by_role("button", name="Finish this message").click()
    expect(page.locator("#messages")).to_contain_text("Finished")
    assert server.channel_stats("mails", "outbox")["depth"] == 0
    assert audit_row(page, "mails/outbox")["Act"] == "finish messages"


def test_a_channel_emptied_by_mistake_and_a_deleted_topic_come_back_as_they_were_even_after_kills(
    browser: Browser, complaints: Complaints, tmp_path: Path
) -> None:
    with ServerProcess(tmp_path / "data", options=["--no-pipeline", "--storage=log"]) as server:
        create_channel(server, "trades", "fills")
        server.http("POST", "/mpub?topic=trades", b"\n".join(b"trade %d" % number for number in range(6)))
        with NsqSocket(server.tcp_port) as first:
            first.subscribe("trades", "fills", rdy=3)
            held = [first.read_message() for _ in range(3)]
            # No more than these three: what is finished makes room.
            first.send(b"RDY 0\n" + finished(held[0]) + b"REQ %s 3600000\n" % held[1].id)
            wait_for("the deferral", lambda: figures(server)["deferred_count"] == 1)
        # One finished, one deferred for an hour, one that was in flight, three never delivered.
        wait_for("what was in flight to wait", lambda: figures(server) == BEFORE)

        page = log_in_on_the_phone(browser, server, complaints)
        page.goto("/topics/trades/fills/")
        confirm_typed(page, "Empty…", "Empty trades/fills", "trades/fills")
        toast = page.locator("#messages")
        expect(toast).to_contain_text("Emptied trades/fills")
        assert figures(server) == {"depth": 0, "deferred_count": 0}
        # The wrong channel: one tap asks, the next one brings it back.
        toast.get_by_role("link", name="Undo").click()
        dialog = page.get_by_role("dialog")
        expect(dialog).to_contain_text("5 messages will come back, with their attempts and due times.")
        with page.expect_navigation():
            dialog.get_by_role("button", name="Restore trades/fills").click()
        assert figures(server) == BEFORE

        # Once more, with a kill before anybody notices; then the whole topic.
        page.goto("/topics/trades/fills/")
        confirm_typed(page, "Empty…", "Empty trades/fills", "trades/fills")
        restart_killed(server)
        restore(page, "trades/fills")
        assert figures(server) == BEFORE
        page.goto("/topics/trades/")
        confirm_typed(page, "Delete…", "Delete trades", "trades")
        restart_killed(server)
        assert [one for one in server.stats()["topics"] if one["topic_name"] == "trades"] == []
        restore(page, "trades")
        restart_killed(server)
        assert figures(server) == BEFORE

        with NsqSocket(server.tcp_port) as second:
            second.subscribe("trades", "fills", rdy=6)
            came = [second.read_message() for _ in range(4)]
        assert sorted((one.body, one.attempts) for one in came) == [
            (b"trade 2", 2),
            (b"trade 3", 1),
            (b"trade 4", 1),
            (b"trade 5", 1),
        ]
        close(page.context)


def figures(server: ServerProcess) -> dict[str, object]:
    stats = server.channel_stats("trades", "fills")
    return {name: stats[name] for name in BEFORE}


def restart_killed(server: ServerProcess) -> None:
    server.kill9()
    server.start()


def log_in_on_the_phone(browser: Browser, server: ServerProcess, complaints: Complaints) -> Page:
    context = browser.new_context(base_url=server.console_url, viewport=PHONE)
    complaints.watch(context)
    # While the server is killed the page's socket and its requests fail, where it asks meanwhile.
    complaints.allow("WebSocket|ERR_CONNECTION|ERR_EMPTY_RESPONSE|ERR_SOCKET|Failed to load resource")
    context.set_default_timeout(WAIT_MS)
    page = context.new_page()
    page.goto("/login/")
    page.get_by_label("Name").fill(ADMIN_USER)
    page.get_by_label("Password").fill(ADMIN_PASSWORD)
    page.get_by_role("button", name="Log in").click()
    page.wait_for_url(f"{server.console_url}/")
    return page


def confirm_typed(page: Page, act: str, button: str, name: str) -> None:
    """Do an act of the page for which its name must be typed."""
    page.get_by_role("button", name="Acts").click()
    page.get_by_role("link", name=act).click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("This can be undone for")
    dialog.get_by_label("to confirm").fill(name)
    with page.expect_navigation():
        dialog.get_by_role("button", name=button, exact=True).click()


def restore(page: Page, name: str) -> None:
    """Restore the newest entry of the trash."""
    page.goto("/trash/")
    entry = page.locator("tbody tr").first
    expect(entry.locator("td").first).to_have_text(name)
    entry.get_by_role("link", name="Restore…").click()
    with page.expect_navigation():
        page.get_by_role("dialog").get_by_role("button", name=f"Restore {name}").click()
    expect(page.locator("#messages")).to_contain_text("Restored")
