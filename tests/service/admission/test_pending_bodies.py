"""How much of unfinished bodies there may be: who reads, who waits, and that everybody's turn comes."""

import socket
from functools import partial
from itertools import product
from pathlib import Path
from random import Random

import pytest

from queue_engine.delivery.stats import PendingBodiesStats
from queue_engine.service.admission.pending_bodies import RATE_WINDOW_NS, PendingBodies
from queue_engine.service.tcp.server import TcpServer
from queue_engine.vocabulary.client_key import ClientKey
from queue_engine.vocabulary.clock import NS_PER_MS
from tests.service.http.server import HttpSocket, Server, http_server
from tests.service.tcp.session_bench import Bench
from tests.support.memory_session import MemorySession
from tests.support.nsq_socket import mpub_body, sized
from tests.support.waiting import wait_for_async

STALL_MS = 10_000
SLOW_BYTES_PER_S = (1 << 20) // 10


def address(number: int) -> ClientKey:
    return ClientKey.of(f"192.0.2.{number}")


class Reader:
    """Implements `BodyReader`: notes what it is told. Its body comes as the test says."""

    def __init__(self, client: ClientKey, size: int = 100) -> None:
        self.client = client
        self.size = size
        self.heard_ns = 0
        self.received_bytes = 0
        self.in_kernel_bytes = 0
        self.granted = 0
        self.stalled = 0

    def ask(self, budget: PendingBodies, held_bytes: int = 0) -> bool:
        return budget.request(self, self.client, self.size, held_bytes)

    def unread_bytes(self) -> int:
        return self.in_kernel_bytes

    def body_granted(self) -> None:
        self.granted += 1

    def body_stalled(self, bytes_per_s: int) -> None:
        assert bytes_per_s == SLOW_BYTES_PER_S
        self.stalled += 1


class ReadyReader(Reader):
    """Its body is complete as soon as it has room, as a short chunked one is."""

    def __init__(self, budget: PendingBodies) -> None:
        super().__init__(address(1))
        self.budget = budget
        self.turns: list[ReadyReader] = []

    def body_granted(self) -> None:
        super().body_granted()
        self.turns.append(self)
        self.budget.leave(self)


@pytest.mark.parametrize(("size", "fits"), [(99, 3), (100, 3), (101, 2), (300, 1), (301, 1), (10_000, 1)])
def test_bodies_of_many_clients_are_read_as_far_as_they_fit_and_one_always(size: int, fits: int) -> None:
    budget = PendingBodies(300, STALL_MS)
    readers = [Reader(address(number), size) for number in range(10)]
    assert [reader.ask(budget) for reader in readers] == [True] * fits + [False] * (10 - fits)
    for done, reader in enumerate(readers, 1):
        budget.leave(reader)
        assert [one.granted for one in readers[fits:]] == [1] * min(done, 10 - fits) + [0] * (10 - fits - done)
    assert (budget.used, budget.waiting_count) == (0, 0)


def test_one_client_leaves_half_of_the_room_to_others() -> None:
    budget = PendingBodies(1_000, STALL_MS)
    readers = [Reader(address(1)) for _ in range(200)]
    assert [reader.ask(budget) for reader in readers] == [True] * 5 + [False] * 195
    # The next client gets a share at once, whatever waits, and so does the one after that.
    assert [Reader(address(2)).ask(budget) for _ in range(4)] == [True] * 3 + [False]
    assert Reader(address(3)).ask(budget)


def test_an_identity_has_one_share_from_however_many_addresses() -> None:
    budget = PendingBodies(1_000, STALL_MS)
    keys = [ClientKey.of(f"192.0.2.{number}", "orders") for number in range(20)]
    assert sum(Reader(key).ask(budget) for key in keys) == 5
    assert Reader(ClientKey.of("192.0.2.1", "billing")).ask(budget)


def test_who_waits_longest_comes_before_who_holds_most() -> None:
    budget = PendingBodies(1_000, STALL_MS)
    most = [Reader(address(1)) for _ in range(8)]
    others = [Reader(address(number), 450) for number in (2, 3, 4)]
    assert [one.ask(budget) for one in (*most, *others)] == [True] * 5 + [False] * 3 + [True, False, False]
    granted: list[list[int]] = []
    for one in most[:5]:
        budget.leave(one)
        granted.append([one.granted for one in (*most[5:], *others)])
    assert granted == [
        [0, 0, 0, 0, 0, 0],  # the first client still holds too much
        [0, 0, 0, 0, 0, 0],
        [1, 0, 0, 0, 0, 0],  # now it has a share, and waits longest; then the third client does
        [1, 0, 0, 0, 0, 0],  # room is gathered for that one, though a small body would fit
        [1, 0, 0, 0, 1, 0],
    ]


def test_clients_that_wait_take_turns() -> None:
    budget = PendingBodies(300, STALL_MS)
    holder, many, one = Reader(address(1), 300), [ReadyReader(budget) for _ in range(3)], ReadyReader(budget)
    one.client = address(2)
    turns: list[ReadyReader] = []
    for reader in (*many, one):
        reader.turns = turns
    holder.ask(budget)
    for reader in (*many, one):
        reader.ask(budget)
    budget.leave(holder)
    assert turns == [many[0], one, many[1], many[2]]


def test_a_small_body_does_not_overtake_a_large_one_that_waits() -> None:
    budget = PendingBodies(100, STALL_MS)
    first, large, small = Reader(address(1), 60), Reader(address(2), 90), Reader(address(3), 1)
    assert first.ask(budget)
    assert not large.ask(budget)
    assert not small.ask(budget)
    budget.leave(first)
    assert (large.granted, small.granted) == (1, 1)


def test_who_waits_and_goes_leaves_its_place() -> None:
    budget = PendingBodies(100, STALL_MS)
    first, gone, last = (Reader(address(number)) for number in range(3))
    assert first.ask(budget)
    gone.ask(budget)
    last.ask(budget)
    budget.leave(gone)
    budget.leave(first)
    assert (gone.granted, last.granted) == (0, 1)


WINDOW_MS = RATE_WINDOW_NS // NS_PER_MS


def looked_at(budget: PendingBodies, *, after_ms: int = WINDOW_MS) -> None:
    """Rates are measured from one look to the next."""
    budget.check(NS_PER_MS)
    budget.check((1 + after_ms) * NS_PER_MS)


def test_who_drips_is_ended_only_while_others_wait() -> None:
    budget = PendingBodies(100, STALL_MS)
    first, other = Reader(address(1)), Reader(address(2))
    first.ask(budget)
    looked_at(budget)
    assert first.stalled == 0
    other.ask(budget)
    looked_at(budget, after_ms=WINDOW_MS - 1)
    assert first.stalled == 0
    budget.check((1 + WINDOW_MS) * NS_PER_MS)
    assert (first.stalled, other.stalled) == (1, 0)


@pytest.mark.parametrize("how", ["fast", "unread by the server", "begun since"])
def test_who_is_not_slow_goes_on_while_others_wait(how: str) -> None:
    budget = PendingBodies(100, STALL_MS)
    first, other = Reader(address(1)), Reader(address(2))
    if how != "begun since":
        first.ask(budget)
        other.ask(budget)
    budget.check(NS_PER_MS)
    if how == "fast":
        first.received_bytes = SLOW_BYTES_PER_S * WINDOW_MS // 1_000
    elif how == "unread by the server":
        first.in_kernel_bytes = 64 << 10
    else:
        holder = Reader(address(3))
        holder.ask(budget)
        other.ask(budget)
        budget.check(2 * NS_PER_MS)
        budget.leave(holder)
        assert other.granted
        first.ask(budget)
        first = other
    budget.check((1 + WINDOW_MS) * NS_PER_MS)
    assert first.stalled == 0


def test_a_slow_body_of_a_client_with_less_does_not_end_for_one_with_more() -> None:
    budget = PendingBodies(1_000, STALL_MS)
    flood, slow = [Reader(address(1)) for _ in range(9)], Reader(address(2))
    assert slow.ask(budget)
    for one in flood:
        one.ask(budget)
    looked_at(budget)
    assert slow.stalled == 0
    assert {one.stalled for one in flood if budget._granted.get(one)} == {1}


def test_a_long_wait_is_a_notice_a_line_a_minute_and_figures(caplog: pytest.LogCaptureFixture) -> None:
    budget = PendingBodies(2 << 20, STALL_MS)
    holder, waiting = Reader(address(1), 2 << 20), Reader(address(2), 1 << 20)
    holder.ask(budget)
    holder.received_bytes = 1
    waiting.ask(budget, 1_000)
    budget.check(900 * NS_PER_MS)
    assert budget.notice == ""
    for at_ms in range(1_100, 30_000, 200):
        holder.received_bytes += 1 << 20  # comes fast
        budget.check(at_ms * NS_PER_MS)
    budget.check(30_000 * NS_PER_MS)
    said = (
        "unfinished bodies wait for room: 1, the longest for {} s; "
        "2.0 of 2.0 MiB (--max-pending-body-bytes) are taken, "
        "2.0 by address 192.0.2.1"
    )
    assert budget.notice == said.format("30.0")
    assert [one.getMessage() for one in caplog.records] == [said.format("1.1")]
    assert budget.stats() == PendingBodiesStats(2 << 20, 2 << 20, 1, 30_000, 0)
    budget.leave(holder)
    budget.check(30_200 * NS_PER_MS)
    assert budget.notice == ""


def test_thousands_that_are_complete_at_once_have_room_one_after_the_other() -> None:
    budget = PendingBodies(100, STALL_MS)
    first = Reader(address(1))
    readers = [ReadyReader(budget) for _ in range(5_000)]
    assert first.ask(budget)
    assert not any(reader.ask(budget) for reader in readers)
    budget.leave(first)
    assert [reader.granted for reader in readers] == [1] * len(readers)
    assert (budget.used, budget.waiting_count) == (0, 0)


def test_a_client_is_crowded_alone_while_what_it_waits_with_is_much() -> None:
    budget = PendingBodies(800, STALL_MS)
    told: list[bool] = []
    one, other = address(1), address(2)
    budget.on_crowded.append(lambda: told.append(budget.is_crowded(one)))
    holder = Reader(address(3), 800)
    holder.ask(budget)
    readers = [Reader(one, 800) for _ in range(4)]
    for reader in readers[:2]:
        reader.ask(budget, 60)
    assert (told, budget.is_crowded(one), budget.is_crowded(other)) == ([True], True, False)
    budget.leave(readers[0])
    assert told == [True, False]


def test_all_are_crowded_once_many_clients_wait_with_much() -> None:
    budget = PendingBodies(800, STALL_MS)
    readers = [Reader(address(number), 800) for number in range(9)]
    for reader in readers:
        reader.ask(budget, 30)
    assert budget.is_crowded(address(99))
    for reader in readers[8:2:-1]:
        budget.leave(reader)
    assert not budget.is_crowded(address(99))
    assert not any(budget.is_crowded(address(number)) for number in range(9))


def test_every_body_completes_whatever_their_sizes_and_clients() -> None:
    for seed, clients in product(range(7), (1, 3, 500)):
        _complete_every_body(seed, clients)


def _complete_every_body(seed: int, clients: int) -> None:
    random = Random(seed)
    budget = PendingBodies(1_000, STALL_MS)
    readers: dict[Reader, int] = {}
    reading: set[Reader] = set()
    asked = 0
    for _ in range(2_000):
        if random.random() < 0.5 and asked < 500:
            identity = random.choice(["", "", "orders", "billing"])
            size = random.choice([1, 10, 400, 999, 1_000, 1_001, 5_000])
            reader = Reader(ClientKey.of(f"192.0.2.{random.randrange(clients)}", identity), size)
            readers[reader] = size
            asked += 1
            if reader.ask(budget, random.randrange(300)):
                reading.add(reader)
        elif readers:
            reading |= {one for one in readers if one.granted}
            assert reading, "somebody always reads"
            assert budget.used == sum(readers[one] for one in reading)
            assert budget.used <= 1_000 or len(reading) == 1
            of_all = random.random() >= 0.8
            leaves = random.choice([one for one in readers if of_all or one in reading])
            budget.leave(leaves)
            reading.discard(leaves)
            del readers[leaves]
    while readers:
        reading |= {one for one in readers if one.granted}
        done = next(one for one in readers if one in reading)
        reading.remove(done)
        del readers[done]
        budget.leave(done)
    assert (budget.used, budget.waiting_count, budget.is_crowded(address(1))) == (0, 0, False)
    assert budget._crowded == set()


# TCP.


class Clients:
    """Sessions that share one budget."""

    def __init__(self, path: Path, bytes_max: int) -> None:
        self.bench = Bench(path)
        self.store = self.bench.known_topic("t")
        self.budget = PendingBodies(bytes_max, STALL_MS)

    def add(self) -> MemorySession:
        session = self.bench.client(bodies=self.budget)
        own = session.session
        self.budget.on_crowded.append(lambda: own.hold_reading(self.budget.is_crowded(own.client_key)))
        return session


BODY = mpub_body([b"x" * 1_000] * 10)
LINE = b"MPUB t\n"
COMMAND = LINE + sized(BODY)


async def test_a_session_beyond_the_budget_is_not_read_from_until_there_is_room(tmp_path: Path) -> None:
    clients = Clients(tmp_path, len(BODY) + 1_000)
    first, second = clients.add(), clients.add()
    first.send(COMMAND[:5_000])
    second.send(COMMAND[:5_000])
    assert (first.transport.is_reading, second.transport.is_reading) == (True, False)
    first.send(COMMAND[5_000:])
    assert second.transport.is_reading
    second.send(COMMAND[5_000:])
    assert (clients.budget.used, clients.budget.waiting_count) == (0, 0)
    second.turn()
    clients.store.complete()
    first.turn()
    assert (first.frames, second.frames) == (["OK"], ["OK"])


async def test_what_comes_in_one_read_waits_for_nobody(tmp_path: Path) -> None:
    clients = Clients(tmp_path, 1)
    holder, other = clients.add(), clients.add()
    holder.send(COMMAND[:5_000])
    other.send(COMMAND * 3)
    assert other.transport.is_reading
    other.turn()
    clients.store.complete()
    other.turn()
    assert other.frames == ["OK"] * 3


async def test_bodies_of_one_client_behind_each_other_ask_one_by_one(tmp_path: Path) -> None:
    clients = Clients(tmp_path, 1 << 20)
    client = clients.add()
    stream = COMMAND * 20
    for at in range(0, len(stream), 7_777):
        client.send(stream[at : at + 7_777])
        assert clients.budget.used in (0, len(BODY) + 4)
    assert clients.budget.used == 0
    client.turn()
    clients.store.complete(len(clients.store.pending))
    client.turn()
    assert client.frames == ["OK"] * 20


@pytest.mark.parametrize("end", ["leave", "refused"])
async def test_a_client_that_ends_in_mid_body_makes_room(tmp_path: Path, end: str) -> None:
    clients = Clients(tmp_path, 1)
    first, second = clients.add(), clients.add()
    first.send(b"MPUB t\n" + sized(BODY + b"behind"[: 6 * (end == "refused")])[:5_000])
    second.send(COMMAND[:5_000])
    assert not second.transport.is_reading
    if end == "leave":
        first.leave()
    else:
        first.send(BODY[5_000 - 11 :] + b"behind")
    assert second.transport.is_reading
    assert first.session._parser.buffered_bytes == 0


async def test_a_client_that_stalls_with_room_is_cut_and_who_waits_is_not(tmp_path: Path) -> None:
    clients = Clients(tmp_path, 1)
    first, second = clients.add(), clients.add()
    first.send(COMMAND[:5_000])
    second.send(COMMAND[:5_000])
    clients.bench.clock.advance(ms=3 * STALL_MS)
    second.session.check(clients.bench.clock.monotonic_ns())
    assert not second.transport.is_aborted
    clients.budget.check(clients.bench.clock.monotonic_ns())
    first.transport.socket, other_end = socket.socketpair()  # with nothing in it
    clients.bench.clock.advance(ms=WINDOW_MS)
    clients.budget.check(clients.bench.clock.monotonic_ns())
    first.transport.socket.close()
    other_end.close()
    first.turn()
    why = (
        f"the body comes at less than {SLOW_BYTES_PER_S} bytes a second (a MiB in each --command-timeout), and others "
        "wait for room (--max-pending-body-bytes)"
    )
    come = f"{5_000 - len(LINE)} of {len(COMMAND) - len(LINE)} bytes of its body came"
    assert first.frames == [f"E_INVALID {why}: {come}"]
    assert first.transport.is_closed
    assert second.transport.is_reading
    second.check_after(STALL_MS - 1)
    assert not second.transport.is_aborted, "its time began when there was room"


async def test_who_waits_for_room_and_sends_nothing_more_is_ended_in_time(tmp_path: Path) -> None:
    clients = Clients(tmp_path, 1)
    holder, sending, stalled, late = (clients.add() for _ in range(4))
    pairs = [socket.socketpair() for _ in range(3)]
    for client, (_, end) in zip((sending, stalled, late), pairs, strict=True):
        client.transport.socket = end
    for client in (holder, sending, stalled, late):
        client.send(COMMAND[:5_000])
    pairs[0][0].send(b"more")
    clients.bench.clock.advance(ms=STALL_MS + 1)
    for client in (sending, stalled):
        client.session.check(clients.bench.clock.monotonic_ns())
        client.turn()
    assert sending.frames == []
    assert "command not complete" in stalled.frames[0]
    assert stalled.transport.is_closed
    # Room that comes too late is no excuse either.
    for client in (holder, sending):
        client.leave()
    assert late.transport.is_reading
    late.session.check(clients.bench.clock.monotonic_ns())
    late.turn()
    assert "command not complete" in late.frames[0]
    for pair in pairs:
        for end in pair:
            end.close()


async def test_an_http_body_that_waits_for_room_and_stalls_is_refused(tmp_path: Path) -> None:
    async with http_server(tmp_path, max_pending_body_bytes=1_000_000) as server:
        holder = Reader(address(1), 1_000_000)
        holder.ask(server.api._bodies)
        head = b"POST /pub?topic=t HTTP/1.1\r\nHost: localhost\r\nContent-Length: 400000\r\n\r\n"
        stalled, sending = await server.connect(), await server.connect()
        for client in (stalled, sending):
            await client.send(head + b"x" * 10)
        await wait_for_async("both to wait", lambda: server.api._bodies.waiting_count == 2)
        sending.writer.write(b"x" * 399_990)
        own = {one._remote_address.rpartition(":")[2]: one for one in server.api._connections}
        waiting, going_on = (own[str(one.writer.get_extra_info("sockname")[1])] for one in (stalled, sending))
        await wait_for_async("more to come", going_on._has_more)
        for connection in (waiting, going_on):
            connection._look_for_more()  # as the timer does
        assert (await stalled.read_answer()).status == 408
        server.api._bodies.leave(holder)
        assert (await sending.read_answer()).status == 200


async def test_while_it_is_crowded_consumers_alone_are_read_from(tmp_path: Path) -> None:
    clients = Clients(tmp_path, 4_000)
    consumer, producer = clients.add(), clients.add()
    consumer.send(b"SUB t c\n")
    clients.bench.background.finish()
    holders = [clients.add() for _ in range(3)]
    for holder in holders:
        holder.send(COMMAND[:1_500])
    assert clients.budget.is_crowded
    assert (consumer.transport.is_reading, producer.transport.is_reading) == (True, False)
    for holder in holders:
        holder.leave()
    assert producer.transport.is_reading


async def test_new_clients_are_refused_and_counted_while_it_is_crowded(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    clients = Clients(tmp_path, 4_000)
    bench = clients.bench
    server = TcpServer(bench.engine, bench.clock, bench.turns, 1, clients.budget)
    holders = [clients.add() for _ in range(3)]
    for holder in holders:
        holder.send(COMMAND[:1_500])
    for _ in range(2):
        late = MemorySession(bench.engine, bench.clock, bench.turns, owner=server, bodies=clients.budget)
        assert late.frames == ["E_INVALID too many unfinished bodies: connect again later"]
        assert late.transport.is_closing()
    for holder in holders:
        holder.leave()
    for refusals in ([], ["E_INVALID too many connections: the most is 1"]):
        session = MemorySession(bench.engine, bench.clock, bench.turns, owner=server, bodies=clients.budget)
        assert session.frames == refusals
    snapshot = bench.engine.stats.now()
    assert snapshot.refused_connections == {("tcp", "bodies_crowded"): 2, ("tcp", "too_many"): 1}
    crowded, too_many = [record.getMessage() for record in caplog.records]
    assert crowded.startswith("connections of NSQ clients refused: 1 while unfinished bodies took the room")
    assert too_many.startswith("connections of NSQ clients refused: 1 more than the 1 that there may be at once")


# HTTP.


async def test_http_bodies_beyond_the_budget_wait_for_their_turn(tmp_path: Path) -> None:
    async with http_server(tmp_path, max_pending_body_bytes=1) as server:
        head = b"POST /mpub?topic=t HTTP/1.1\r\nHost: localhost\r\nContent-Length: 200000\r\n"
        first, second, third = [await server.connect() for _ in range(3)]
        await first.send(head + b"\r\n" + b"one\n")
        await wait_for_async("the first body", lambda: server.api._bodies.used == 200_000)
        await second.send(head + b"Expect: 100-continue\r\n\r\n")
        await wait_for_async("one body to wait", lambda: server.api._bodies.waiting_count == 1)
        # Whatever is there as a whole is taken meanwhile.
        assert (await server.request("POST", "/pub?topic=t", b"small")).status == 200
        await third.send(head + b"\r\n" + b"x" * 200_000)
        await wait_for_async("two bodies to wait", lambda: server.api._bodies.waiting_count == 2)
        await first.send(b"\n" * 199_996)
        assert (await first.read_answer()).status == 200
        assert (await second.read_answer()).status == 100
        await second.send(b"x" * 200_000)
        assert (await second.read_answer()).status == 200
        assert (await third.read_answer()).status == 200
        assert (server.api._bodies.used, server.api._bodies.waiting_count) == (0, 0)


async def test_an_http_client_that_goes_or_stalls_makes_room(tmp_path: Path) -> None:
    async with http_server(tmp_path, max_pending_body_bytes=1_000) as server:
        head = b"POST /pub?topic=t HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n"
        clients = [await server.connect() for _ in range(3)]
        for number, client in enumerate(clients):
            await client.send(head + b"x" * 10)
            await wait_for_async("the body to begin", partial(_begun, server, 1 + number))
        clients[0].close()
        await wait_for_async("one body to wait", lambda: server.api._bodies.waiting_count == 1)
        looked_at(server.api._bodies)
        assert (await clients[1].read_answer()).status == 408
        await clients[2].send(b"x" * 990)
        assert (await clients[2].read_answer()).status == 200
        assert server.api._bodies.used == 0


async def test_while_it_is_crowded_probes_are_answered_and_new_bodies_refused(tmp_path: Path) -> None:
    async with http_server(tmp_path, max_pending_body_bytes=1) as server:
        head = b"POST /pub?topic=t HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n"
        for _ in range(2):
            await (await server.connect()).send(head + b"x" * 10)
        await wait_for_async("the budget to be crowded", lambda: server.api._bodies.is_crowded)
        assert (await server.request("GET", "/ping")).status == 200
        assert (await server.request("POST", "/pub?topic=t", b"small")).status == 200
        late = await server.connect()
        await late.send(head.replace(b"1000", b"100000"))
        answer = await late.read_answer()
        assert (answer.status, answer.message) == (503, "BUSY")


def _begun(server: Server, count: int) -> bool:
    return server.api._bodies.waiting_count + (server.api._bodies.used > 0) == count


async def test_clients_behind_a_trusted_proxy_have_shares_of_their_own(tmp_path: Path) -> None:
    options = {"max_pending_body_bytes": 400_000, "trusted_proxy": ("127.0.0.0/8",)}
    async with http_server(tmp_path, **options) as server:
        bodies = server.api._bodies

        async def begun(client: str) -> HttpSocket:
            one = await server.connect()
            head = f"POST /pub?topic=t HTTP/1.1\r\nHost: localhost\r\nX-Forwarded-For: {client}\r\n"
            await one.send(head.encode() + b"Content-Length: 100000\r\n\r\nx")
            return one

        for count in range(1, 4):
            await begun("203.0.113.9")
            await wait_for_async("another", lambda: bodies.used // 100_000 + bodies.waiting_count == count)  # noqa: B023
        assert (bodies.used, bodies.waiting_count) == (200_000, 1)
        other = await begun("198.51.100.1, 203.0.113.10")
        await other.send(b"x" * 99_999)
        assert (await other.read_answer()).status == 200
        assert bodies.waiting_count == 1
