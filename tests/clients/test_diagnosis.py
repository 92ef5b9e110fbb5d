"""A channel that does not drain, as an operator meets it: a real server, real consumers, and the console over HTTP.

The console says who is to blame after some seconds of its own figures; a machine that stalls makes the test slower.
"""

import re
from html import unescape

import pytest

from tests.support.nsq_socket import NsqSocket
from tests.support.pages.console_client import ConsoleClient
from tests.support.processes.server import ServerProcess
from tests.support.waiting import wait_for

pytestmark = pytest.mark.slow(reason="waits for states that last some seconds")


class Worker:
    """A consumer of orders/billing that requeues, or finishes, whatever it gets."""

    def __init__(self, server: ServerProcess, name: str, *, fails: bool) -> None:
        self.socket = NsqSocket(server.tcp_port)
        self.socket.identify(client_id=name, heartbeat_interval=60_000)
        self.socket.subscribe("orders", "billing", rdy=4)
        self._verb, self._end = (b"REQ ", b" 100\n") if fails else (b"FIN ", b"\n")

    def work(self, count: int) -> None:
        for _ in range(count):
            self.socket.send(self._verb + self.socket.read_message().id + self._end)


def words(html: str) -> str:
    html = re.sub(r"<(template|script|noscript)\b.*?</\1>", " ", html, flags=re.DOTALL)
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", html)).split())


def test_the_consumer_that_fails_is_named_on_the_first_paint(server: ServerProcess) -> None:
    failing, finishing = Worker(server, "payments-2", fails=True), Worker(server, "payments-1", fails=False)
    console = ConsoleClient(server.console_port)
    console.log_in()
    with failing.socket, finishing.socket:

        def overview() -> str:
            for _ in range(6):
                server.http("POST", "/pub?topic=orders", body=b"pay")
            failing.work(4)
            finishing.work(1)
            return words(console.get("/").text)

        # No page of the channel is open: the overview names it all the same.
        wait_for("the consumer's name", lambda: "of them by payments-2" in overview(), timeout_s=90, every_s=0.2)
        # The page of the channel names it at once, with its share, its act and the way to it.
        html = console.get("/topics/orders/billing/").text
    banner = r"Failing: \d+ requeued in the last [^,]+, 100 % of them by payments-2; \d+ were finished\."
    assert re.search(banner, words(html)), words(html)
    assert re.search(r'~pause/" data-dialog>❚❚ Pause…</a>', html)
    assert re.search(r'href="/topics/orders/billing/#consumer-\d+">Show payments-2</a>', html)
