"""The live socket: who may hold one, what it hears, how it is paced, and when it is closed."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import orjson
import pytest
from autobahn.exception import Disconnected
from channels.db import database_sync_to_async
from channels.testing import WebsocketCommunicator
from django.conf import settings
from django.db import OperationalError
from django.test import AsyncClient

from admin_console.accounts.models import User
from admin_console.asgi import application
from admin_console.hub.hub import get_hub
from admin_console.live import consumers, open_sockets
from admin_console.live.consumers import LiveConsumer
from admin_console.live.open_sockets import OpenSockets
from admin_console.vocabulary.roles import Role
from tests.support.pages.console import make_user
from tests.support.pages.snapshots import START_S, channel, snapshot, topic
from tests.support.waiting import wait_for_async

pytestmark = pytest.mark.django_db(transaction=True)
HOST = "127.0.0.1:4171"
PATIENCE_S = 15.0


@pytest.fixture(autouse=True)
async def _nobody_left_behind() -> AsyncIterator[None]:
    get_hub().forget_all()
    yield
    get_hub().forget_all()
    assert LiveConsumer.open_sockets == {}, "every socket that ends gives its place back"
    assert get_hub().listeners == set(), "nothing is built for nobody"


async def signed_in(role: Role = Role.VIEWER, name: str = "ada") -> tuple[User, AsyncClient, str]:
    user = await database_sync_to_async(make_user)(name, role)
    browser = AsyncClient()
    await browser.aforce_login(user)
    return user, browser, f"{settings.SESSION_COOKIE_NAME}={browser.cookies[settings.SESSION_COOKIE_NAME].value}"


class Socket(WebsocketCommunicator):
    """A browser's socket that waits as long as a busy machine takes; the library gives up after one second."""

    async def connect(self, timeout: float = PATIENCE_S) -> tuple[bool, Any]:
        return await super().connect(timeout)

    async def disconnect(self, code: int = 1000, timeout: float = PATIENCE_S) -> None:
        await super().disconnect(code, timeout)


def socket(
    cookie: str = "", *, origin: str = f"http://{HOST}", path: str = "/ws/live/", to: Any = application
) -> Socket:
    headers = [(b"host", HOST.encode()), (b"origin", origin.encode()), (b"cookie", cookie.encode())]
    return Socket(to, path, headers)


async def say(held: Socket, **words: Any) -> None:
    await held.send_to(text_data=orjson.dumps(words).decode())


async def hear(held: Socket) -> dict[str, Any]:
    return orjson.loads(await held.receive_from(PATIENCE_S))


async def code_of(held: Socket) -> int:
    """The close code that comes next, whatever updates are before it."""
    while True:
        said = await held.receive_output(PATIENCE_S)
        if said["type"] == "websocket.close":
            return int(said["code"])


def take(second: int, depth: int = 0) -> None:
    """One second of the engine, told to the hub."""
    get_hub().take(snapshot(topic("orders", channel("orders", "billing", depth=depth)), second=START_S + second))


def subscriber_count() -> int:
    return sum(map(len, consumers._broadcasts.made()._subscribers.values()))


async def watching(cookie: str, **asked: str) -> Socket:
    before = subscriber_count()
    held = socket(cookie)
    assert (await held.connect())[0]
    await say(held, subscribe=asked or {"page": "overview"})
    await wait_for_async("the subscription", lambda: subscriber_count() > before)
    return held


async def test_without_a_session_the_code_says_log_in() -> None:
    held = socket()
    assert (await held.connect())[0], "accepted first, or a browser would not see the code"
    assert await code_of(held) == 4401


@pytest.mark.parametrize("origin", ["http://evil.example", "http://127.0.0.1:9999", "null", ""])
async def test_a_foreign_origin_is_refused_before_anything_is_read(origin: str) -> None:
    _, _, cookie = await signed_in()
    assert not (await socket(cookie, origin=origin).connect())[0]


async def test_an_unknown_path_is_refused() -> None:
    _, _, cookie = await signed_in()
    assert not (await socket(cookie, path="/ws/other/").connect())[0]


async def test_newest_figures_come_at_once_and_then_every_second() -> None:
    _, _, cookie = await signed_in()
    take(0, depth=7)
    held = await watching(cookie, page="channel", topic="orders", channel="billing")
    first = await hear(held)
    assert (first["seq"], first["stats"]["depth"][0], first["points"]["depth"]) == (1, "7", 7)
    await say(held, ack=1)
    take(1, depth=8)
    second = await hear(held)
    assert (second["seq"], second["stats"]["depth"][0]) == (2, "8")
    assert second["t"] - first["t"] == 1000
    await held.disconnect()


async def test_a_browser_that_does_not_acknowledge_gets_two_updates_and_then_the_newest() -> None:
    _, _, cookie = await signed_in()
    held = await watching(cookie)
    for second in range(6):
        take(second)
        # Each is offered before the next comes.
        await wait_for_async("the update to be offered", lambda: not get_hub()._is_notifying)
    assert [(await hear(held))["seq"] for _ in range(2)] == [1, 2]
    assert await held.receive_nothing(timeout=0.1)
    await say(held, ack=2)
    assert (await hear(held))["seq"] == 6, "what came in between was dropped for the newest"
    await held.disconnect()


async def test_one_update_is_built_for_all_that_ask_for_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    built: list[object] = []
    real = consumers._broadcasts.made().build_update

    async def counted(request: Any, live: Any) -> bytes:
        built.append(request)
        return await real(request, live)

    monkeypatch.setattr(consumers._broadcasts.made(), "build_update", counted)
    _, _, cookie = await signed_in()
    held = [await watching(cookie) for _ in range(3)]
    take(0)
    assert {(await hear(one))["seq"] for one in held} == {1}
    assert len(built) == 1
    for one in held:
        await one.disconnect()


async def test_a_page_hears_only_what_it_shows() -> None:
    _, _, cookie = await signed_in()
    held = await watching(cookie, page="topics", q="nothing like it")
    take(0)
    update = await hear(held)
    assert update["tables"]["topics"]["keys"] == []
    assert update["stats"] == {}
    await held.disconnect()


async def test_a_deleted_channel_is_gone_in_the_next_update() -> None:
    _, _, cookie = await signed_in()
    held = await watching(cookie, page="channel", topic="orders", channel="other")
    take(0)
    assert (await hear(held))["flags"]["gone"] is True
    await held.disconnect()


@pytest.mark.parametrize(
    "text", ["{", "[]", "null", '{"ack":"1"}', '{"subscribe":{"page":"users"}}', '{"do":"pause"}', "x" * 3000]
)
async def test_words_that_no_page_says_close_it(text: str) -> None:
    _, _, cookie = await signed_in()
    held = socket(cookie)
    await held.connect()
    await held.send_to(text_data=text)
    assert await code_of(held) == 4400
    await held.disconnect()


async def test_bytes_close_it() -> None:
    _, _, cookie = await signed_in()
    held = socket(cookie)
    await held.connect()
    await held.send_to(bytes_data=b'{"ack":1}')
    assert await code_of(held) == 4400
    await held.disconnect()


async def test_too_many_words_close_it() -> None:
    _, _, cookie = await signed_in()
    held = await watching(cookie)
    for _ in range(consumers.INCOMING_PER_10_S_MAX):
        await say(held, ack=1)
    assert await code_of(held) == 4429
    await held.disconnect()


async def test_too_many_sockets_of_one_user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consumers, "SOCKETS_PER_USER_MAX", 1)
    _, _, cookie = await signed_in()
    held = await watching(cookie)
    second = socket(cookie)
    await second.connect()
    assert await code_of(second) == 4429
    await second.disconnect()
    await held.disconnect()
    third = await watching(cookie)
    await third.disconnect()


async def test_log_out_another_role_and_disabling_close_open_sockets_at_the_next_look(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert OpenSockets.check_every_s <= 2.5, "it is noticed within five seconds"
    monkeypatch.setattr(OpenSockets, "check_every_s", 0.05)
    _, browser, leaving = await signed_in()
    changed, _, demoted = await signed_in(Role.OPERATOR, "bob")
    fired, _, disabled = await signed_in(name="eve")
    _, _, staying = await signed_in(name="dan")
    held = [await watching(cookie) for cookie in (leaving, demoted, disabled)]
    other = await watching(staying)
    await browser.alogout()
    await User.objects.filter(pk=changed.pk).aupdate(role=Role.VIEWER)
    await User.objects.filter(pk=fired.pk).aupdate(is_active=False)
    assert await asyncio.gather(*map(code_of, held)) == [4401, 4403, 4401]
    assert await other.receive_nothing(timeout=0.01)
    for one in (*held, other):
        await one.disconnect()


async def test_sockets_stay_while_the_database_cannot_be_read_and_end_when_that_lasts(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def unreadable(_: object) -> None:
        raise OperationalError("disk I/O error")

    monkeypatch.setattr(OpenSockets, "check_every_s", 0.02)
    monkeypatch.setattr(open_sockets, "users_of", unreadable)
    _, _, cookie = await signed_in()
    held = await watching(cookie)
    await wait_for_async("looks that fail", lambda: caplog.text.count("can't be read: disk I/O error") > 1)
    assert await held.receive_nothing(timeout=0.01)
    monkeypatch.setattr(open_sockets, "UNKNOWN_S_MAX", 0.0)
    assert await code_of(held) == 1011
    await held.disconnect()


async def test_a_browser_that_reads_nothing_is_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LiveConsumer, "ack_timeout_s", 0.1)
    _, _, cookie = await signed_in()
    held = await watching(cookie)
    take(0)
    assert await code_of(held) == 4408
    await held.disconnect()


async def test_an_update_that_fails_leaves_the_others_alone(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    real = consumers._broadcasts.made().build_update

    async def failing(request: Any, live: Any) -> bytes:
        if request.page == "topics":
            raise RuntimeError("broken screen")
        return await real(request, live)

    monkeypatch.setattr(consumers._broadcasts.made(), "build_update", failing)
    _, _, cookie = await signed_in()
    broken = await watching(cookie, page="topics")
    held = await watching(cookie)
    take(0)
    assert (await hear(held))["seq"] == 1
    await wait_for_async("the line about it", lambda: "building an update failed page=topics" in caplog.text)
    await broken.disconnect()
    await held.disconnect()


async def test_hub_takes_snapshots_from_another_thread() -> None:
    class Source:
        on_snapshot: list[Any]

    source = Source()
    source.on_snapshot = []
    hub = get_hub()
    hub.attach(source, asyncio.get_running_loop())
    await asyncio.to_thread(source.on_snapshot[0], snapshot(second=START_S))
    await wait_for_async("the live state", lambda: hub.live)
    assert hub.live is not None
    assert hub.live.snapshot.taken_at_ns == START_S * 1_000_000_000


async def test_a_browser_that_leaves_while_an_update_is_sent_is_no_error(caplog: pytest.LogCaptureFixture) -> None:
    """Between its close frame and the end of its connection Daphne refuses what is sent, with this exception."""
    refused = asyncio.Event()

    async def closing(scope: Any, receive: Any, send: Any) -> None:
        async def send_while_open(message: Any) -> None:
            if message["type"] == "websocket.send":
                refused.set()
                raise Disconnected("Attempt to send on a closed protocol")
            await send(message)

        await application(scope, receive, send_while_open)

    _, _, cookie = await signed_in()
    get_hub().write(snapshot(topic("orders")))
    held = socket(cookie, to=closing)
    assert (await held.connect())[0]
    await say(held, subscribe={"page": "overview"})
    await asyncio.wait_for(refused.wait(), PATIENCE_S)
    await held.disconnect()
    assert [one.getMessage() for one in caplog.records if one.levelname == "ERROR"] == []
