"""Real clients find servers by nsqlookupd: a server is killed and replaced, nsqlookupd is killed and comes back."""

from collections import Counter
from contextlib import ExitStack
from pathlib import Path

import nsq
import pytest

from tests.clients.gnsq_process import GnsqConsumer
from tests.support.nsq_socket import NsqSocket, mpub_body, sized
from tests.support.processes.daemon_process import DaemonProcess
from tests.support.processes.lookup_process import LookupProcess
from tests.support.waiting import wait_for, wait_for_async

pytestmark = [pytest.mark.slow(reason="starts four servers and kills two"), pytest.mark.timeout(400)]

BATCH = 50
# Clients ask nsqlookupd each second, a server tries a lost one after 15 s at most, and the machine may stall.
PATIENCE_S = 90.0


def node(path: Path, lookup: LookupProcess) -> DaemonProcess:
    path.mkdir(exist_ok=True)
    return DaemonProcess(
        path,
        options=[
            "--storage=log",
            f"--lookupd-tcp-address={lookup.tcp_address}",
            "--broadcast-address=127.0.0.1",
            # A topic must not go on without its channels where the machine stalls.
            "--lookupd-find-timeout=60s",
        ],
    )


def publish(server: DaemonProcess, bodies: list[bytes]) -> None:
    """All of them are acknowledged."""
    with NsqSocket(server.tcp_port) as client:
        for at in range(0, len(bodies), BATCH):
            client.send(b"MPUB quakes\n" + sized(mpub_body(bodies[at : at + BATCH])))
            client.expect_ok()


async def test_nothing_acknowledged_is_lost_while_servers_and_nsqlookupd_are_killed(
    tmp_path: Path, lines: list[bytes]
) -> None:
    parts = [lines[at::5] for at in range(5)]
    seen: Counter[bytes] = Counter()

    def handler(message: nsq.Message) -> bool:
        seen[message.body] += 1
        return True

    with ExitStack() as stack:
        lookup = stack.enter_context(LookupProcess())
        first = stack.enter_context(node(tmp_path / "first", lookup))
        second = stack.enter_context(node(tmp_path / "second", lookup))
        for channel in ("pynsq", "gnsq"):
            lookup.post(f"/channel/create?topic=quakes&channel={channel}")
        for server in (first, second):
            wait_for("its connection to nsqlookupd", lambda server=server: ": connected version" in server.log)
        # The topic is new on both: it has both channels from its first message on, without any consumer.
        publish(first, parts[0])
        publish(second, parts[1])
        assert {one["depth"] for one in first.topic_stats("quakes")["channels"]} == {len(parts[0])}

        # The first is killed with all of that, and comes back elsewhere.
        first.kill9()
        wait_for("its end at nsqlookupd", lambda: lookup.producer_ports("quakes") == [second.tcp_port])
        gnsq = stack.enter_context(GnsqConsumer(lookup.http_port, "quakes", "gnsq", "--lookup"))
        reader = nsq.Reader(
            "quakes",
            "pynsq",
            message_handler=handler,
            lookupd_http_addresses=[f"http://{lookup.http_address}"],
            lookupd_poll_interval=1,
            max_in_flight=100,
        )

        async def received(*numbers: int) -> None:
            """Both clients have these parts."""
            wanted = {body for number in numbers for body in parts[number]}
            await wait_for_async("pynsq's", lambda: wanted <= set(seen), timeout_s=PATIENCE_S, every_s=0.1)
            await wait_for_async("gnsq's", lambda: wanted <= set(gnsq.bodies), timeout_s=PATIENCE_S, every_s=0.1)

        await received(1)
        replaced = stack.enter_context(node(tmp_path / "first", lookup))
        assert replaced.tcp_port != first.tcp_port
        publish(replaced, parts[2])
        await received(0, 2)

        # Without nsqlookupd the servers and their consumers go on.
        lookup.kill9()
        publish(second, parts[3])
        await received(3)

        # It comes back and knows nothing; the servers tell it, and a new one is found as well.
        lookup.start()
        ports = {replaced.tcp_port, second.tcp_port}
        await wait_for_async(
            "both servers again", lambda: set(lookup.producer_ports("quakes")) == ports, timeout_s=PATIENCE_S
        )
        third = stack.enter_context(node(tmp_path / "third", lookup))
        await wait_for_async("the third", lambda: ": connected version" in third.log, timeout_s=PATIENCE_S)
        publish(third, parts[4])
        await received(4)
        reader.close()
    assert set(seen) == set(gnsq.bodies) == set(lines)
