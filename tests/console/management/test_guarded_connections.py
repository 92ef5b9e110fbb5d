"""The console's deadlines and its cap, on real sockets: data that drips in, silence, nothing taken, one too many."""

import http.client
import select
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, suppress
from pathlib import Path

import pytest
from websockets.sync.client import connect

from admin_console.options import ConsoleOptions
from tests.support.exposition import read_exposition
from tests.support.nsq_socket import NsqSocket, sized
from tests.support.pages.console_client import ConsoleClient
from tests.support.processes.server import ServerProcess
from tests.support.waiting import wait_for

pytestmark = pytest.mark.slow(reason="waits for the real deadlines of a real server")

DEADLINE_S = 2.0
CONNECTIONS_MAX = 20
# A stalled machine may take its time; without a deadline the connections would live for minutes.
PATIENCE_S = 30.0
AHEAD = 20  # requests for the style sheet: their answers are less than what is cut

HEAD = b"GET /login/ HTTP/1.1\r\nHost: localhost\r\n"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    options = [
        "--no-pipeline",
        f"--console-request-timeout={DEADLINE_S:g}s",
        f"--console-idle-timeout={DEADLINE_S:g}s",
    ]
    with ServerProcess(tmp_path_factory.mktemp("guarded") / "data", options=options) as running:
        yield running


@pytest.fixture
def connection(server: ServerProcess) -> Iterator[socket.socket]:
    with socket.create_connection(("127.0.0.1", server.console_port), timeout=PATIENCE_S) as opened:
        yield opened


def drip(connection: socket.socket, data: bytes) -> bytes:
    """Send one byte after the other until the server answers or closes; what it said."""
    connection.settimeout(0.05)
    until_s = time.monotonic() + PATIENCE_S
    for number in range(len(data)):
        assert time.monotonic() < until_s, "nothing ended it"
        try:
            connection.sendall(data[number : number + 1])
            return rest(connection, connection.recv(4096))
        except TimeoutError:
            continue
        except ConnectionError:
            return b""
    raise AssertionError("it took everything")


def rest(connection: socket.socket, begun: bytes = b"") -> bytes:
    """All that still comes until the server closes."""
    connection.settimeout(PATIENCE_S)
    try:
        while data := connection.recv(4096):
            begun += data
    except ConnectionError:
        pass
    return begun


def test_head_that_drips_in_ends_with_408(connection: socket.socket) -> None:
    answer = drip(connection, HEAD + b"X: " + b"x" * 4096)
    assert answer.startswith(b"HTTP/1.1 408 Request Timeout\r\n")


def test_body_that_drips_in_ends_with_408(connection: socket.socket) -> None:
    connection.sendall(HEAD.replace(b"GET", b"POST") + b"Content-Length: 4096\r\n\r\n")
    assert drip(connection, b"x" * 4096).startswith(b"HTTP/1.1 408 Request Timeout\r\n")


def test_connection_that_never_asks_is_closed(connection: socket.socket) -> None:
    assert rest(connection) == b""


def test_connection_that_asks_nothing_more_is_closed(connection: socket.socket) -> None:
    connection.sendall(HEAD + b"\r\n")
    answer = rest(connection)
    assert answer.startswith(b"HTTP/1.1 200 OK\r\n")
    assert answer.count(b"HTTP/1.1") == 1


class Pauses:
    """A client's own: a machine that stalls can make one longer than the deadline, and then the server is right."""

    def __init__(self) -> None:
        self._since_s = time.monotonic()
        self.longest_s = 0.0

    def end(self) -> None:
        """The client has heard from the server, or of its end."""
        now_s = time.monotonic()
        self.longest_s = max(self.longest_s, now_s - self._since_s)
        self._since_s = now_s

    def check_too_long(self) -> None:
        assert self.longest_s > DEADLINE_S * 0.9, f"ended after a pause of {self.longest_s:.1f} s"


def test_requests_one_after_the_other_are_answered_far_beyond_one_deadline(server: ServerProcess) -> None:
    def are_all_answered() -> bool:
        pauses = Pauses()
        until_s = time.monotonic() + 2.5 * DEADLINE_S
        with closing(http.client.HTTPConnection("127.0.0.1", server.console_port, timeout=PATIENCE_S)) as client:
            client.connect()
            client.auto_open = 0
            while time.monotonic() < until_s:
                try:
                    client.request("GET", "/login/")
                    answer = client.getresponse()
                    answer.read()
                except (ConnectionError, http.client.HTTPException):
                    pauses.end()
                    pauses.check_too_long()
                    return False
                pauses.end()
                assert answer.status == 200
                time.sleep(DEADLINE_S / 5)
        return True

    wait_for("answers to all requests", are_all_answered, timeout_s=2 * PATIENCE_S)


def large_file(server: ServerProcess) -> str:
    made = next((server.data_path / "static").glob("plotly*.js"))
    return f"/static/{made.name}"


def test_download_over_a_slow_line_comes_to_its_end(server: ServerProcess) -> None:
    wait_for("the whole file", lambda: is_taken_slowly(server), timeout_s=2 * PATIENCE_S)


def is_taken_slowly(server: ServerProcess) -> bool:
    """Whether a large file came to its end; the server cuts it only where the client's pause is too long."""
    pauses = Pauses()
    with closing(socket.socket()) as slow:
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65_536)
        slow.settimeout(PATIENCE_S)
        slow.connect(("127.0.0.1", server.console_port))
        slow.sendall(b"GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n" % large_file(server).encode())
        head = slow.recv(1024)
        size = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
        taken = len(head.partition(b"\r\n\r\n")[2])
        assert size > 4 << 20, "more than the system keeps on the way"
        begun_s = time.monotonic()
        while taken < size:
            try:
                data = slow.recv(size // 30)
            except ConnectionError:
                data = b""
            pauses.end()
            if not data:
                pauses.check_too_long()
                return False
            taken += len(data)
            if time.monotonic() - begun_s < 3 * DEADLINE_S:
                time.sleep(DEADLINE_S / 8)
        assert time.monotonic() - begun_s > 2 * DEADLINE_S
    return True


def test_client_that_takes_nothing_of_a_download_is_cut(server: ServerProcess) -> None:
    with closing(socket.socket()) as stuck:
        stuck.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        stuck.settimeout(PATIENCE_S)
        stuck.connect(("127.0.0.1", server.console_port))
        stuck.sendall(b"GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n" % large_file(server).encode())

        def is_cut() -> bool:
            # What was cut is known by the reset, which comes though nothing is read.
            return bool(stuck.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR))

        wait_for("the cut", is_cut, timeout_s=PATIENCE_S)


def test_client_that_asks_ahead_and_takes_nothing_is_cut(tmp_path: Path) -> None:
    request = b"GET /static/penstock.css HTTP/1.1\r\nHost: localhost\r\n"
    with ServerProcess(tmp_path / "data", options=["--no-pipeline"]) as server, ExitStack() as opened:
        reader = opened.enter_context(socket.create_connection(("127.0.0.1", server.console_port), PATIENCE_S))
        received, asked = b"", 0
        while (answered := received.count(b"HTTP/1.1 200 OK")) < 200:
            reader.sendall((request + b"\r\n") * (answered + AHEAD - asked))
            asked = answered + AHEAD
            data = reader.recv(1 << 16)
            assert data, "who reads may ask ahead"
            received += data
        silent = opened.enter_context(socket.socket())
        silent.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        silent.connect(("127.0.0.1", server.console_port))
        silent.setblocking(False)
        with suppress(BlockingIOError, ConnectionError):
            silent.send((request + b"\r\n") * 1_000)
        ended = select.poll()
        ended.register(silent, select.POLLERR)
        assert ended.poll(PATIENCE_S * 1_000), "it is reset, and not after its idle minute"


@pytest.mark.parametrize(
    "sent",
    [
        b"POST /login/ HTTP/1.0\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n",
        b"GET /login/ HTTP/1.1\r\nHost: localhost\nX: y\r\n\r\n",
        b"GET /login/ HTTP/1.1\nHost: localhost\r\n\r\n",
        b"GET /login/ HTTP/1.1\nHost: localhost\n\n",
    ],
)
def test_framing_that_others_may_read_in_another_way_is_refused(connection: socket.socket, sent: bytes) -> None:
    connection.sendall(sent)
    assert rest(connection).startswith((b"HTTP/1.1 400 ", b"HTTP/1.1 408 "))


def test_live_page_stays_though_nothing_is_asked(server: ServerProcess) -> None:
    console = ConsoleClient(server.console_port)
    console.log_in()
    subscription = console.subscription("/")
    headers = {"Cookie": console.cookie, "Origin": console.origin}
    with connect(f"ws://127.0.0.1:{server.console_port}/ws/live/", additional_headers=headers) as live:
        live.send(f'{{"subscribe": {subscription}}}')
        begun_s = time.monotonic()
        # Two unacknowledged updates are all that a silent page gets; it stays open.
        for _ in range(2):
            assert live.recv(timeout=PATIENCE_S)
        while time.monotonic() - begun_s < 3 * DEADLINE_S:
            time.sleep(DEADLINE_S / 4)
        live.ping().wait(PATIENCE_S)
        assert live.close_code is None
    console.close()


def silent_at(server: ServerProcess, address: str) -> socket.socket:
    """A connection that asks nothing yet."""
    at = ("127.0.0.1", server.console_port)
    return socket.create_connection(at, timeout=PATIENCE_S, source_address=(address, 0))


def test_one_address_has_a_share_and_the_longest_idle_goes_for_one_that_comes(tmp_path: Path) -> None:
    options = ["--no-pipeline", f"--console-max-connections={CONNECTIONS_MAX}", "--console-request-timeout=1m"]
    with ExitStack() as held, ServerProcess(tmp_path / "data", options=options) as server:
        # Three quarters of 20 are one address's, and its own longest idle connections go for its further ones.
        idle = [held.enter_context(ConnectionThatLives(server, "127.0.0.2")) for _ in range(15)]
        for client in idle:
            client.ask()
        others = [held.enter_context(ConnectionThatLives(server)) for _ in range(3)]
        for client in (*others, held.enter_context(ConnectionThatLives(server, "127.0.0.2"))):
            client.ask()
        assert [client.is_ended() for client in idle] == [True] + [False] * 14
        # One that waits for a head is not idle: the share of such is full.
        for _ in range(15):
            held.enter_context(silent_at(server, "127.0.0.2"))
        wait_for("the idle ones to go", lambda: all(client.is_ended() for client in idle[1:]))
        with silent_at(server, "127.0.0.2") as one_more:
            assert b"too many connections of address 127.0.0.2: 15 are open, its share of 20" in rest(one_more)
        for client in others:
            client.ask()


def test_one_too_many_is_told_so_and_the_queue_goes_on(tmp_path: Path) -> None:
    options = ["--no-pipeline", f"--console-max-connections={CONNECTIONS_MAX}", "--console-request-timeout=1m"]
    with ExitStack() as held, ServerProcess(tmp_path / "data", options=options) as server:
        addresses = [f"127.0.0.{2 + number}" for number in range(CONNECTIONS_MAX)]
        sockets = [held.enter_context(silent_at(server, address)) for address in addresses]
        with socket.create_connection(("127.0.0.1", server.console_port), timeout=PATIENCE_S) as extra:
            answer = rest(extra)
        assert answer.startswith(b"HTTP/1.1 503 Service Unavailable\r\n")
        assert b"The console takes no more connections: too many connections: the most is 20" in answer
        with NsqSocket(server.tcp_port) as queue:
            queue.send(b"PUB orders\n" + sized(b"x"))
            queue.expect_ok()
        assert server.http("GET", "/ping") == b"OK"
        figures = read_exposition(server.http("GET", "/metrics"))
        assert figures['penstock_connections_refused_total{listener="console",reason="too_many"}'] == 1
        sockets[0].close()
        wait_for("room again", lambda: asks_well(server), timeout_s=PATIENCE_S)
    assert "connections of the console refused: 1 more than the 20 that there may be at once" in server.log


class ConnectionThatLives:
    """A connection that was answered."""

    def __init__(self, server: ServerProcess, address: str = "127.0.0.1") -> None:
        at = ("127.0.0.1", server.console_port)
        self._client = http.client.HTTPConnection(*at, timeout=PATIENCE_S, source_address=(address, 0))

    def is_ended(self) -> bool:
        """Whether the server has ended it."""
        ready, _, _ = select.select([self._client.sock], [], [], 0)
        return bool(ready)

    def ask(self) -> None:
        self._client.request("GET", "/static/favicon.svg")
        answer = self._client.getresponse()
        answer.read()
        assert answer.status == 200

    def __enter__(self) -> "ConnectionThatLives":
        self._client.connect()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._client.close()


def asks_well(server: ServerProcess) -> bool:
    with ConnectionThatLives(server) as client:
        try:
            client.ask()
        except (AssertionError, ConnectionError, http.client.HTTPException):
            return False
    return True


def test_bad_limits_are_named() -> None:
    with pytest.raises(ValueError) as caught:
        ConsoleOptions.from_environment(
            {
                "PENSTOCK_CONSOLE_MAX_CONNECTIONS": "0",
                "PENSTOCK_CONSOLE_REQUEST_TIMEOUT": "5",
                "PENSTOCK_CONSOLE_IDLE_TIMEOUT": "0s",
            }
        )
    assert str(caught.value).splitlines() == [
        "--console-max-connections: '0' is not a whole number from 1 to 999999",
        "--console-request-timeout: '5' is not a duration such as 60s, 500ms or 1m",
        "--console-idle-timeout: '0s' is not a duration such as 60s, 500ms or 1m",
    ]
