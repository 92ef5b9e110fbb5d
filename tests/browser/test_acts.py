"""Every act is clicked; then what the page says, what is on disk, and what the audit list has."""

import re

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser.conftest import OpenPage
from tests.support.nsq_socket import NsqSocket
from tests.support.pages.browser import Complaints
from tests.support.pages.console_page import (
    LIVE_TIMEOUT_S,
    audit_row,
    create_channel,
    figure,
    is_marked,
    mark,
    message,
    open_act,
    topology,
    wait_for_figure,
    wait_until_live,
)
from tests.support.processes.server import ADMIN_USER, ServerProcess
from tests.support.waiting import wait_for

pytestmark = [pytest.mark.slow(reason="drives the real Chromium"), pytest.mark.browser]

HELD_MS = 600_000  # longer than any test takes: what a consumer holds does not time out


def press(dialog: Locator, button: str, **fields: str) -> None:
    """Fill in a dialog's fields by their labels, and press its button."""
    for label, text in fields.items():
        dialog.get_by_label(re.compile(label.replace("_", " "), re.IGNORECASE)).fill(text)
    dialog.get_by_role("button", name=button, exact=True).click()


def confirm(dialog: Locator, button: str, **fields: str) -> None:
    """Fill in and press; the act is done, and a page says so."""
    # Until the next page has loaded: before that its scripts are not there, and a link is only a link.
    with dialog.page.expect_navigation():
        press(dialog, button, **fields)


def expect_refused(dialog: Locator, sentence: str) -> None:
    """The dialog is still there and says why, with the focus on it."""
    alert = dialog.get_by_role("alert")
    expect(alert).to_contain_text(sentence)
    expect(alert).to_be_focused()


def expect_audited(page: Page, name: str, action: str, sentence: str, reason: str = "–") -> None:
    """The newest row about `name` says who did what, from where, with what result."""
    row = audit_row(page, name)
    assert row["Who"] == f"{ADMIN_USER} admin"
    assert row["From"] == "127.0.0.1"
    assert row["Act"] == action
    assert row["Object"] == name
    assert row["Result"] == "done"
    assert row["Outcome"].startswith(sentence), row
    assert row["Reason"] == reason


def publish(server: ServerProcess, topic: str, count: int) -> None:
    server.http("POST", f"/mpub?topic={topic}", b"\n".join(b"%d" % number for number in range(count)))


# Topics.


def test_create_a_topic_and_a_channel(
    server: ServerProcess, open_page: OpenPage, complaints: Complaints, storage_kind: str
) -> None:
    complaints.expect("/topics/~create/.*400")
    page = open_page("/topics/", graphs=False)
    dialog = open_act(page, "New topic…")
    press(dialog, "Create topic", name="not a name")
    expect_refused(dialog, "'not a name' is not a topic name: 1 to 64 of letters")
    expect(dialog.get_by_label("Name")).to_have_value("not a name")
    confirm(dialog, "Create topic", name="born")
    assert message(page) == "Created born."
    assert page.url.endswith("/topics/born/")
    made = {"name": "born", "storage": storage_kind, "paused": False, "channels": []}
    assert made.items() <= topology(server, "born").items()
    expect_audited(page, "born", "create topic", "Created born.")

    publish(server, "born", 3)
    wait_for_figure(page, "waiting", "3")
    dialog = open_act(page, "New channel…")
    expect(dialog).to_contain_text("It is the first channel, and takes over 3 messages from the topic.")
    confirm(dialog, "Create channel", name="reader")
    assert message(page) == "Created born/reader."
    assert page.url.endswith("/topics/born/reader/")
    assert figure(page, "depth") == "3"
    assert [channel["name"] for channel in topology(server, "born")["channels"]] == ["reader"]
    expect_audited(page, "born/reader", "create channel", "Created born/reader.")


def test_publish_one_message(server: ServerProcess, open_page: OpenPage) -> None:
    create_channel(server, "letters", "box")
    page = open_page("/topics/letters/", graphs=False)
    confirm(open_act(page, "Publish…"), "Publish to letters", body="Grüße\nzwei Zeilen")
    assert message(page) == "Published 1 message of 19 bytes to letters."
    expect_audited(page, "letters", "publish", "Published 1 message of 19 bytes to letters.")
    with NsqSocket(server.tcp_port) as consumer:
        consumer.subscribe("letters", "box", rdy=1)
        delivered = consumer.read_message()
        assert delivered.body == "Grüße\nzwei Zeilen".encode()
        consumer.finish(delivered)
    confirm(open_act(page, "Publish…"), "Publish to letters", body="later", delay="1m30s")
    assert re.search(r"to letters, to be delivered in (90s|1m30s)\.$", message(page)), message(page)
    wait_for("the deferral", lambda: server.channel_stats("letters", "box")["deferred_count"] == 1)


def test_pause_and_unpause_a_topic(server: ServerProcess, open_page: OpenPage) -> None:
    create_channel(server, "lock", "gate")
    page = open_page("/topics/lock/", graphs=False)
    confirm(open_act(page, "Pause…"), "Pause lock", reason="the weir is being repaired")
    assert message(page).startswith("Paused lock: its messages stay at the topic")
    assert topology(server, "lock")["paused"] is True
    expect(page.get_by_text("❚❚ paused").first).to_be_visible()
    expect_audited(page, "lock", "pause topic", "Paused lock:", reason="the weir is being repaired")
    publish(server, "lock", 2)
    wait_for_figure(page, "depth", "2")
    assert server.channel_stats("lock", "gate")["depth"] == 0

    dialog = open_act(page, "Resume…")
    expect(dialog).to_contain_text("It releases 2 messages to 1 channel.")
    confirm(dialog, "Resume lock")
    assert message(page).startswith("Resumed lock:")
    assert topology(server, "lock")["paused"] is False
    expect_audited(page, "lock", "unpause topic", "Resumed lock:")
    wait_for("the messages at the channel", lambda: server.channel_stats("lock", "gate")["depth"] == 2)
    expect(page.get_by_role("link", name="Pause…").first).to_be_visible()
    expect(page.get_by_role("link", name="Resume…")).to_be_hidden()


def test_a_pause_is_undone_from_its_sentence(server: ServerProcess, open_page: OpenPage) -> None:
    create_channel(server, "hasty", "one")
    page = open_page("/topics/?q=hasty", graphs=False)
    confirm(open_act(page, "^Pause…$", page.get_by_role("table")), "Pause hasty")
    assert topology(server, "hasty")["paused"] is True
    confirm(open_act(page, "Undo"), "Resume hasty")
    assert message(page).startswith("Resumed hasty:")
    assert topology(server, "hasty")["paused"] is False


def test_empty_a_topic_and_its_channels(server: ServerProcess, open_page: OpenPage, complaints: Complaints) -> None:
    complaints.expect("/~empty/.*400")
    publish(server, "flush", 4)
    page = open_page("/topics/flush/", graphs=False)
    dialog = open_act(page, "Empty…")
    press(dialog, "Empty flush", confirm="flash", reason="a test")
    expect_refused(dialog, "'flash' is not flush. Nothing was done.")
    expect(dialog.get_by_label("Reason")).to_have_value("a test")
    assert server.topic_stats("flush")["depth"] == 4
    confirm(dialog, "Empty flush", confirm="flush", reason="")
    assert message(page).removesuffix(" Undo") == "Emptied flush: removed 4 messages."
    assert server.topic_stats("flush")["depth"] == 0
    assert topology(server, "flush") is not None
    expect_audited(page, "flush", "empty topic", "Emptied flush: removed 4 messages.")

    create_channel(server, "flush", "a")
    create_channel(server, "flush", "b")
    publish(server, "flush", 2)
    dialog = open_act(page, "Empty…")
    dialog.get_by_label("Its channels too: 4 messages").check()
    confirm(dialog, "Empty flush", confirm="flush")
    assert message(page).removesuffix(" Undo") == "Emptied flush and its 2 channels: removed 4 messages."
    assert server.channel_stats("flush", "b")["depth"] == 0
    expect_audited(page, "flush", "empty topic", "Emptied flush and its 2 channels: removed 4 messages.")


def test_delete_a_topic(server: ServerProcess, open_page: OpenPage, complaints: Complaints) -> None:
    complaints.expect("/~delete/.*400")
    complaints.allow("/api/series/doomed/.*404")  # asked for as it goes, where an update was missed
    create_channel(server, "doomed", "too")
    publish(server, "doomed", 5)
    page = open_page("/topics/doomed/", graphs=False)
    dialog = open_act(page, "Delete…")
    expect(dialog).to_contain_text("5 messages will be removed.")
    press(dialog, "Delete doomed", confirm="Doomed")
    expect_refused(dialog, "'Doomed' is not doomed. Nothing was done.")
    assert topology(server, "doomed") is not None
    confirm(dialog, "Delete doomed", confirm="doomed", reason="nobody reads it")
    assert message(page).removesuffix(" Undo") == "Deleted doomed with 1 channel: removed 5 messages."
    assert page.url.endswith("/topics/")
    assert topology(server, "doomed") is None
    expect_audited(page, "doomed", "delete topic", "Deleted doomed with 1 channel", reason="nobody reads it")


# Channels.


def test_pause_and_unpause_a_channel(server: ServerProcess, open_page: OpenPage) -> None:
    create_channel(server, "sluice", "left")
    page = open_page("/topics/sluice/left/", graphs=False)
    dialog = open_act(page, "Pause…")
    assert dialog.evaluate("(dialog) => dialog.matches(':not(:modal)')"), "the page stays in use"
    dialog.get_by_label("The pause ends").select_option("4h")
    confirm(dialog, "Pause sluice/left", reason="the weir")
    assert message(page).startswith("Paused sluice/left for 4h: its consumers get no")
    assert topology(server, "sluice")["channels"][0]["paused"] is True
    facts = page.get_by_role("region", name="Pause")
    for fact in ("Paused by" + ADMIN_USER, "Reason" + "the weir", "Resumes" + "20"):
        expect(facts).to_contain_text(fact)
    expect_audited(page, "sluice/left", "pause channel", "Paused sluice/left for 4h:", reason="the weir")
    publish(server, "sluice", 1)
    with NsqSocket(server.tcp_port) as consumer:
        consumer.subscribe("sluice", "left", rdy=1)
        consumer.expect_silence(0.3)
        confirm(open_act(page, "Resume…"), "Resume sluice/left", reason="done")
        assert message(page).startswith("Resumed sluice/left:")
        assert topology(server, "sluice")["channels"][0]["paused"] is False
        expect_audited(page, "sluice/left", "unpause channel", "Resumed sluice/left:", reason="done")
        consumer.finish(consumer.read_message())


def test_requeue_all_one_clients_and_one_message(server: ServerProcess, open_page: OpenPage) -> None:
    create_channel(server, "weir", "crew")
    publish(server, "weir", 4)
    page = open_page("/topics/weir/crew/", graphs=False)
    wait_until_live(page)
    with NsqSocket(server.tcp_port) as ann, NsqSocket(server.tcp_port) as bob:
        ann.identify(client_id="ann", msg_timeout=HELD_MS)
        ann.subscribe("weir", "crew", rdy=1)
        bob.identify(client_id="bob", msg_timeout=HELD_MS)
        bob.subscribe("weir", "crew", rdy=2)
        of_ann = ann.read_message()
        of_bob = [bob.read_message(), bob.read_message()]
        # From here on nobody takes more: what is requeued stays in the queue.
        ann.send(b"RDY 0\n")
        bob.send(b"RDY 0\n")
        wait_for_figure(page, "in_flight", "3")
        held = page.get_by_role("table", name="Messages in flight")

        one = of_bob[1].id.decode()
        row = held.get_by_role("row").filter(has_text=one)
        row.wait_for()
        dialog = open_act(page, "Requeue now", row)
        expect(dialog.get_by_label("One message", exact=True)).to_be_checked()
        expect(dialog.get_by_label("Message id")).to_have_value(one)
        expect(dialog).to_contain_text("A requeued message may be processed twice")
        confirm(dialog, "Requeue weir/crew")
        assert message(page) == "Requeued 1 message of weir/crew."
        expect_audited(page, "weir/crew", "requeue channel", "Requeued 1 message of weir/crew.")
        assert f"message {one}" in audit_row(page, "weir/crew")["Outcome"]
        wait_for_figure(page, "in_flight", "2")

        clients = page.get_by_role("table", name="Connected consumers")
        row = clients.get_by_role("row").filter(has_text="ann")
        row.wait_for()
        dialog = open_act(page, "Requeue now", row)
        expect(dialog.get_by_label("All messages of one consumer")).to_be_checked()
        confirm(dialog, "Requeue weir/crew", reason="ann hangs")
        assert message(page) == "Requeued 1 message of weir/crew."
        expect_audited(page, "weir/crew", "requeue channel", "Requeued 1 message of weir/crew.", reason="ann hangs")
        assert server.channel_stats("weir", "crew")["in_flight_count"] == 1
        # The one left is bob's: a message that ann no longer holds is not hers to finish.
        ann.finish(of_ann)
        assert ann.read_error().startswith("E_FIN_FAILED")

        dialog = open_act(page, "Requeue in flight…")
        expect(dialog).to_contain_text("1 message is in flight now.")
        confirm(dialog, "Requeue weir/crew")
        assert message(page) == "Requeued 1 message of weir/crew."
        wait_for_figure(page, "in_flight", "0")
        assert figure(page, "depth") == "4"
        expect_audited(page, "weir/crew", "requeue channel", "Requeued 1 message of weir/crew.")

        bob.send(b"RDY 4\n")
        again = [bob.read_message() for _ in range(4)]
        assert sorted(delivered.attempts for delivered in again) == [1, 2, 2, 2]
        assert {of_ann.id, *(delivered.id for delivered in of_bob)} == {
            delivered.id for delivered in again if delivered.attempts == 2
        }


def test_rewind_to_the_end_while_messages_are_published(server: ServerProcess, open_page: OpenPage) -> None:
    create_channel(server, "mill", "race")
    publish(server, "mill", 5)
    page = open_page("/topics/mill/race/", graphs=False)
    dialog = open_act(page, "Rewind…")
    dialog.get_by_label("Rewind to").select_option("end")
    press(dialog, "Preview")
    expect(dialog).to_contain_text("It skips 5 messages that it has not finished")
    publish(server, "mill", 2)
    confirm(dialog, "Rewind mill/race to offset 5", reason="old news")
    assert message(page) == "Rewound mill/race to offset 5: its depth is 2 now."
    assert server.channel_stats("mill", "race")["depth"] == 2
    expect_audited(page, "mill/race", "rewind channel", "Rewound mill/race to offset 5", reason="old news")


def test_release_deferred(server: ServerProcess, open_page: OpenPage) -> None:
    create_channel(server, "later", "now")
    server.http("POST", "/pub?topic=later&defer=600000", b"patience")
    page = open_page("/topics/later/now/", graphs=False)
    wait_for_figure(page, "deferred", "1")
    server.http("POST", "/channel/empty?topic=later&channel=now")
    wait_for_figure(page, "deferred", "0")
    act = page.locator(".actions").get_by_role("link", name="Release deferred…")
    expect(act).to_be_visible()  # else each second moves the acts beside it
    server.http("POST", "/pub?topic=later&defer=600000", b"patience")
    wait_for_figure(page, "deferred", "1")
    dialog = open_act(page, "Release deferred…")
    expect(dialog).to_contain_text("1 deferred message will be due now.")
    confirm(dialog, "Release deferred messages of later/now")
    assert message(page) == "Released 1 deferred message of later/now."
    assert (figure(page, "deferred"), figure(page, "depth")) == ("0", "1")
    expect_audited(page, "later/now", "release deferred", "Released 1 deferred message of later/now.")
    with NsqSocket(server.tcp_port) as consumer:
        consumer.subscribe("later", "now", rdy=1)
        assert consumer.read_message().body == b"patience"


def test_empty_a_channel(server: ServerProcess, open_page: OpenPage, complaints: Complaints) -> None:
    complaints.expect("/~empty/.*400")
    create_channel(server, "basin", "east")
    create_channel(server, "basin", "west")
    publish(server, "basin", 3)
    page = open_page("/topics/basin/east/", graphs=False)
    dialog = open_act(page, "Empty…")
    press(dialog, "Empty basin/east", confirm="east")
    expect_refused(dialog, "'east' is not basin/east. Nothing was done.")
    assert server.channel_stats("basin", "east")["depth"] == 3
    confirm(dialog, "Empty basin/east", confirm="basin/east")
    assert message(page).removesuffix(" Undo") == "Emptied basin/east: removed 3 messages."
    assert figure(page, "depth") == "0"
    assert server.channel_stats("basin", "west")["depth"] == 3
    assert [channel["name"] for channel in topology(server, "basin")["channels"]] == ["east", "west"]
    expect_audited(page, "basin/east", "empty channel", "Emptied basin/east: removed 3 messages.")


def test_delete_a_channel(server: ServerProcess, open_page: OpenPage, complaints: Complaints) -> None:
    complaints.expect("/~delete/.*400")
    complaints.allow("/api/series/delta/arm/.*404")  # asked for as it goes, where an update was missed
    create_channel(server, "delta", "arm")
    publish(server, "delta", 2)
    page = open_page("/topics/delta/arm/", graphs=False)
    with NsqSocket(server.tcp_port) as consumer:
        consumer.subscribe("delta", "arm")
        wait_for(
            "the consumer on the page",
            lambda: page.get_by_role("table", name="Connected consumers").is_visible(),
            timeout_s=LIVE_TIMEOUT_S,
            every_s=0.1,
        )
        dialog = open_act(page, "Delete…")
        expect(dialog).to_contain_text("1 consumer will be disconnected.")
        press(dialog, "Delete delta/arm", confirm="delta")
        expect_refused(dialog, "'delta' is not delta/arm. Nothing was done.")
        assert topology(server, "delta")["channels"] != []
        confirm(dialog, "Delete delta/arm", confirm="delta/arm")
        assert message(page).removesuffix(" Undo") == "Deleted delta/arm: removed 2 messages, disconnected 1 consumer."
        assert page.url.endswith("/topics/delta/")
        assert topology(server, "delta")["channels"] == []
        expect_audited(page, "delta/arm", "delete channel", "Deleted delta/arm: removed 2 messages")
        consumer.expect_closed()


def test_what_goes_wrong_is_said_in_the_dialog(
    server: ServerProcess, open_page: OpenPage, complaints: Complaints
) -> None:
    complaints.expect("/~requeue/.*409")
    complaints.expect("/~requeue/.*net::ERR_FAILED")
    complaints.expect("/~requeue/.*401")
    # Where an update was missed the page asks for its second, perhaps while it has no session.
    complaints.allow("/api/series/spill/way/.*401")
    complaints.expect("/~pause/.*404")
    complaints.expect("/~pause/.*401")
    create_channel(server, "spill", "way")
    publish(server, "spill", 1)
    page = open_page("/topics/spill/way/", graphs=False)
    mark(page)
    with NsqSocket(server.tcp_port) as consumer:
        consumer.identify(msg_timeout=HELD_MS)
        consumer.subscribe("spill", "way", rdy=1)
        held = consumer.read_message()
        row = page.get_by_role("table", name="Messages in flight").get_by_role("row").filter(has_text=held.id.decode())
        row.wait_for()
        dialog = open_act(page, "Requeue now", row)
        consumer.finish(held)
        wait_for("the FIN", lambda: server.channel_stats("spill", "way")["in_flight_count"] == 0)
    press(dialog, "Requeue spill/way", reason="it hangs")
    expect_refused(dialog, "Nothing was done to spill/way:")
    expect(dialog.get_by_label("Reason")).to_have_value("it hangs")

    page.route("**/~requeue/", lambda route: route.abort())
    press(dialog, "Requeue spill/way")
    expect_refused(dialog, "The server did not answer: the act may be done or not.")
    page.unroute("**/~requeue/")

    cookies = page.context.cookies()
    page.context.clear_cookies(name=re.compile("^penstock_session"))
    press(dialog, "Requeue spill/way")
    expect_refused(dialog, "Your session is over, or you have not logged in. Nothing was done; log in to go on.")
    expect(dialog.get_by_role("link", name="Log in")).to_have_attribute("href", re.compile("^/login/"))
    page.context.add_cookies(cookies)
    dialog.get_by_role("link", name="Cancel").click()

    # What can't even be asked about is said in a dialog as well.
    pause = page.get_by_role("link", name="Pause…")
    pause.evaluate("(link) => { link.href = link.href.replace('way', 'gone'); }")
    pause.click()
    expect(dialog.get_by_role("alert")).to_have_text("There is no channel spill/gone.")
    dialog.get_by_role("button", name="Close").click()
    expect(dialog).to_have_count(0)
    assert is_marked(page), "it left the page"

    # Without a session nothing is asked about: the log-in leads back to the page, not to the act.
    page.context.clear_cookies(name=re.compile("^penstock_session"))
    pause.click()
    expect(page).to_have_url(re.compile(r"/login/\?next=%2Ftopics%2Fspill%2Fway%2F$"))
    page.context.add_cookies(cookies)


def test_cancelling_does_nothing(server: ServerProcess, open_page: OpenPage) -> None:
    create_channel(server, "spared", "too")
    page = open_page("/topics/spared/", graphs=False)
    dialog = open_act(page, "Delete…")
    expect(dialog.get_by_role("link", name="Cancel")).to_be_focused()
    dialog.get_by_role("link", name="Cancel").click()
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(page.get_by_role("link", name="Delete…")).to_be_focused()
    open_act(page, "Delete…")
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    assert topology(server, "spared") is not None


def test_after_an_act_the_focus_is_at_its_undo_or_its_row_and_never_at_the_body(
    server: ServerProcess, open_page: OpenPage
) -> None:
    for channel in ("left", "right"):
        create_channel(server, "focus", channel)
    page = open_page("/topics/focus/", graphs=False)
    row = page.locator('[data-table="channels"] tr[data-key="right"]')
    confirm(open_act(page, "Pause…", row), "Pause focus/right")
    assert page.url.endswith("/topics/focus/"), "an act of a row leads back to its list"
    assert message(page).endswith(" Undo")
    expect(page.get_by_role("link", name="Undo")).to_be_focused()
    confirm(open_act(page, "Resume…", row), "Resume focus/right")
    assert not message(page).endswith(" Undo")
    expect(row.locator(".action-cell a")).to_be_focused()
    # Acts of the page itself.
    confirm(open_act(page, "New channel…"), "Create channel", name="middle")
    expect(page.locator("body")).not_to_be_focused()
    # After a dialog of several, from the bar that goes with the selection.
    page.goto("/topics/focus/")
    row.get_by_role("checkbox").check()
    page.locator(".selected-acts").get_by_role("button", name="Pause…").click()
    page.get_by_role("dialog").get_by_role("button", name="Pause 1 channel").click()
    page.get_by_role("dialog").get_by_role("link", name="Close").click()
    expect(page.locator("[data-select-all]")).to_be_focused()


def test_a_question_mark_lists_the_keys(server: ServerProcess, open_page: OpenPage) -> None:
    create_channel(server, "keys", "all")
    server.http("POST", "/pub?topic=keys", b"1")
    page = open_page("/topics/keys/all/~messages/", graphs=False)
    page.keyboard.press("?")
    dialog = page.get_by_role("dialog", name="Keys")
    for text in ("Search topics and channels", "Go to Pipeline", "Next message", "List the keys"):
        expect(dialog).to_contain_text(text)
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    page.goto("/topics/")
    page.get_by_role("searchbox", name="Search topics").press("?")
    expect(dialog).to_have_count(0)
    page.locator("h1").click()
    page.keyboard.press("?")
    expect(dialog).not_to_contain_text("Next message")
