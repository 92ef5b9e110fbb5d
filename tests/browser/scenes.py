"""What the pictures show beside the demo: a channel for each thing that can be wrong, messages in every state, a trash.

Topics have names of several parts, so that the list can group them. Consumers stay connected until the scene ends.
"""

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from tests.browser.pages import ConsolePage
from tests.support.nsq_socket import Message, NsqSocket
from tests.support.processes.server import ServerProcess
from tests.support.waiting import wait_for

# Channel → what its page's banner says.
CHANNELS = {
    "shop.payments/ledger": "failing",
    "shop.mails/outbox": "poison message",
    "shop.stock/counter": "consumers are full",
    "shop.stock/labels": "messages time out",
    "shop.orders/billing": "paused",
    "shop.orders/search": "no consumers",
    "shop.returns/refunds": "consumers at RDY 0",
    "shop.reports/nightly": "deferred",
    "shop.imports/rows": "quarantined",
}
REPLACED = "shop.orders/copies"
BODIES = "shop.bodies"  # one of JSON, one binary, one of 3,000 lines
FILES = "old.files"  # of nsqd's files
_HOUR_MS = 3_600_000
# All pictures take up to half an hour: until then a pause must not end, and no message that is kept time out.
SERVER_OPTIONS = ("--max-msg-timeout=2h",)


def pages_of_scenes() -> tuple[ConsolePage, ...]:
    """The pages and dialogs that only a scene can fill."""
    imports, payments = "/topics/shop.imports/rows/", "/topics/shop.payments/ledger/"
    orders, stock = "/topics/shop.orders/billing/", "/topics/shop.stock/counter/"
    selected = "?on=shop.orders&on=shop.returns&on=shop.stock"
    return (
        *(ConsolePage(f"banner-{kind.replace(' ', '-')}", f"/topics/{name}/") for name, kind in CHANNELS.items()),
        ConsolePage("overview-troubles", "/"),
        ConsolePage("topics-grouped", "/topics/?by=group"),
        ConsolePage("topics-grouped-inside", "/topics/?by=group&under=shop."),
        ConsolePage("dialog-pause", payments, act="Pause…"),
        ConsolePage("dialog-change-pause", orders, act="Change end or reason…"),
        ConsolePage("dialog-resume", orders, act="Resume…"),
        ConsolePage("dialog-max-attempts", imports, act="Max attempts…"),
        ConsolePage("dialog-redrive", imports, act="Redrive…"),
        ConsolePage("dialog-empty-channel", payments, act="Empty…"),
        ConsolePage("dialog-delete-topic", "/topics/shop.orders/", act="Delete…"),
        ConsolePage("dialog-rewind", payments, act="Rewind…"),
        ConsolePage("dialog-restore", "/trash/", act="Restore…"),
        ConsolePage("dialog-delete-trash", "/trash/", act="Delete…"),
        ConsolePage("messages-waiting", "/topics/shop.orders/search/~messages/?state=waiting"),
        ConsolePage("messages-waiting-json", "/topics/shop.orders/search/~messages/?state=waiting&form=json", opens=1),
        ConsolePage("messages-in-flight", f"{stock}~messages/?state=in_flight"),
        ConsolePage("messages-deferred", "/topics/shop.reports/nightly/~messages/?state=deferred"),
        ConsolePage("messages-quarantined", f"{imports}~messages/?state=quarantined"),
        ConsolePage("messages-finished", "/topics/shop.mails/outbox/~messages/?state=finished"),
        ConsolePage("messages-none", f"{orders}~messages/?state=quarantined"),
        ConsolePage("messages-selected", f"{imports}~messages/?state=quarantined", selects=2),
        ConsolePage("messages-viewer", f"{imports}~messages/?state=quarantined", user="vera"),
        ConsolePage("message-quarantined", f"{imports}~messages/0/"),
        ConsolePage("message-waiting", "/topics/shop.orders/search/~messages/0/"),
        ConsolePage("search", "/topics/shop.orders/search/~messages/?in=waiting&text=ada"),
        ConsolePage("search-none", "/topics/shop.orders/search/~messages/?in=waiting&text=nowhere"),
        ConsolePage("topics-selected", "/topics/?q=shop", selects=3),
        ConsolePage("bulk-question-pause", f"/topics/~selected/pause-topic/{selected}"),
        ConsolePage("bulk-question-empty", f"/topics/~selected/empty-topic/{selected}"),
        ConsolePage("bulk-results", f"/topics/~selected/unpause-topic/{selected}", submits=True),
        ConsolePage("trash-viewer", "/trash/", user="vera"),
    )


@contextmanager
def scenes(server: ServerProcess) -> Iterator[None]:
    """All of them on the server, until the block ends."""
    for name in (*CHANNELS, REPLACED, f"{BODIES}/all"):
        topic, channel = name.split("/")
        server.http("POST", f"/topic/create?topic={topic}&storage=log")
        server.http("POST", f"/channel/create?topic={topic}&channel={channel}")
    server.http("POST", "/channel/max_attempts?topic=shop.imports&channel=rows&max_attempts=2")
    server.http("POST", "/channel/pause?topic=shop.orders&channel=billing&reason=the+bank+is+down&for=2h")
    for topic in {name.split("/")[0] for name in CHANNELS} - {"shop.reports"}:
        server.http("POST", f"/mpub?topic={topic}", _bodies(24))
    for _ in range(3):
        server.http("POST", f"/pub?topic=shop.reports&defer={_HOUR_MS}", b'{"report": "nightly"}')
    server.http("POST", "/channel/empty?topic=shop.orders&channel=copies")
    server.http("POST", "/channel/delete?topic=shop.orders&channel=copies")
    for body in (
        b'{"order": {"id": 7, "lines": [{"sku": "A-1", "prices": [1, 2.5, null, true]}]}}',
        bytes(range(256)) * 3,
        b"line\n" * 3_000,
    ):
        server.http("POST", f"/pub?topic={BODIES}", body)
    server.http("POST", f"/topic/create?topic={FILES}&storage=diskqueue")
    server.http("POST", f"/channel/create?topic={FILES}&channel=mail")
    server.http("POST", f"/mpub?topic={FILES}", _bodies(3))
    server.http("POST", "/topic/create?topic=shop.old&storage=log")
    server.http("POST", "/mpub?topic=shop.old", _bodies(5))
    server.http("POST", "/topic/delete?topic=shop.old")
    with ExitStack() as consumers:
        for channel, client, answer, options in (
            ("shop.payments/ledger", "ledger-7", _requeued, {"rdy": 5}),
            ("shop.mails/outbox", "mailer-1", _poisoned, {"rdy": 5}),
            ("shop.stock/counter", "counter-1", _kept, {"rdy": 3}),
            ("shop.stock/labels", "labels-1", _kept, {"rdy": 2, "msg_timeout": 1000}),
            ("shop.returns/refunds", "refunds-1", _kept, {"rdy": 0}),
            ("shop.imports/rows", "importer-1", _requeued, {"rdy": 5}),
        ):
            consumers.enter_context(_consumer(server, channel, client, answer, **options))
        wait_for(
            "messages to be quarantined",
            lambda: server.channel_stats("shop.imports", "rows")["quarantined_count"] > 0,
        )
        yield


def _bodies(count: int) -> bytes:
    return b"\n".join(
        json.dumps({"number": number, "customer": "ada@example.org", "lines": [{"sku": "A-1", "count": 2}]}).encode()
        for number in range(count)
    )


def _requeued(message: Message) -> bytes:
    return b"REQ %s 100\n" % message.id


def _poisoned(message: Message) -> bytes:
    return _requeued(message) if b'"number": 0,' in message.body else b"FIN %s\n" % message.id


def _kept(message: Message) -> bytes:
    return b""


@contextmanager
def _consumer(
    server: ServerProcess,
    name: str,
    client_id: str,
    answer: Callable[[Message], bytes],
    *,
    rdy: int,
    msg_timeout: int = 2 * _HOUR_MS,
) -> Iterator[None]:
    """One that gives each message its answer, b"" for none, and answers heartbeats."""
    connection = NsqSocket(server.tcp_port)
    settings: dict[str, Any] = {"client_id": client_id, "hostname": client_id, "msg_timeout": msg_timeout}
    connection.identify(feature_negotiation=True, **settings)
    connection.subscribe(*name.split("/"), rdy=rdy)
    is_over = threading.Event()

    def work() -> None:
        try:
            while not is_over.is_set():
                try:
                    connection.send(answer(connection.read_message(0.5)))
                except TimeoutError:
                    continue
                time.sleep(0.05)  # as fast as a consumer that has something to do
        except (EOFError, OSError, AssertionError):
            pass  # the scene has ended, or the server closed

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join(30)
        connection.close()
