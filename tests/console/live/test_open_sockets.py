"""One look for all open sockets at who may hold one: it goes on whatever fails, for as long as a socket is open."""

import threading
from collections.abc import Iterable

import pytest

from admin_console.live import open_sockets
from admin_console.live.open_sockets import OpenSockets
from admin_console.live.socket_auth import SocketUser
from admin_console.vocabulary.roles import Role
from tests.support.waiting import wait_for_async

# A look's thread closes the connection that an earlier test has left open there.
pytestmark = pytest.mark.django_db

ADA = SocketUser(user_id=1, username="ada", role=Role.VIEWER)


class Socket:
    def __init__(self, *, is_broken: bool = False) -> None:
        self.heard: list[SocketUser | None] = []
        self._is_broken = is_broken

    async def checked(self, user: SocketUser | None) -> None:
        self.heard.append(user)
        if self._is_broken:
            raise RuntimeError("closed already")

    async def unknown(self) -> None:
        raise AssertionError("not so soon")


@pytest.fixture
def sockets(monkeypatch: pytest.MonkeyPatch) -> OpenSockets:
    monkeypatch.setattr(OpenSockets, "check_every_s", 0.001)
    monkeypatch.setattr(open_sockets, "users_of", lambda keys: dict.fromkeys(keys, ADA))
    return OpenSockets()


async def hears(socket: Socket) -> None:
    count = len(socket.heard)
    await wait_for_async("two more looks", lambda: len(socket.heard) > count + 1)


async def test_socket_that_opens_as_the_last_one_closes_is_looked_at(sockets: OpenSockets) -> None:
    first, second = Socket(), Socket()
    sockets.add("a", first)
    await hears(first)
    sockets.remove("a", first)
    sockets.add("b", second)
    await hears(second)
    sockets.remove("b", second)


async def test_socket_that_opens_during_a_look_is_not_ended_by_it(
    sockets: OpenSockets, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_looking, may_end = threading.Event(), threading.Event()

    def slow(keys: Iterable[str]) -> dict[str, SocketUser]:
        is_looking.set()
        assert may_end.wait(15)
        return dict.fromkeys(keys, ADA)

    monkeypatch.setattr(open_sockets, "users_of", slow)
    first, second = Socket(), Socket()
    sockets.add("a", first)
    await wait_for_async("a look", is_looking.is_set)
    sockets.add("b", second)
    may_end.set()
    await hears(second)
    assert None not in second.heard
    sockets.remove("a", first)
    sockets.remove("b", second)


async def test_socket_that_fails_costs_no_other_its_look(sockets: OpenSockets) -> None:
    broken, other = Socket(is_broken=True), Socket()
    sockets.add("a", broken)
    sockets.add("b", other)
    await hears(broken)
    await hears(other)
    sockets.remove("a", broken)
    sockets.remove("b", other)


async def test_look_that_fails_unexpectedly_is_tried_again(
    sockets: OpenSockets, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    working = open_sockets.users_of

    def broken(_: object) -> None:
        raise ValueError("no number")

    monkeypatch.setattr(open_sockets, "users_of", broken)
    socket = Socket()
    sockets.add("a", socket)
    await wait_for_async("looks that fail", lambda: caplog.text.count("can't be read: no number") > 1)
    monkeypatch.setattr(open_sockets, "users_of", working)
    await hears(socket)
    sockets.remove("a", socket)
