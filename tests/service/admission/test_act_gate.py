"""What changes something over HTTP is done only once a row about it is kept; what can't be kept is not done."""

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
import pytest_asyncio

from queue_engine.delivery.stats import ActRecord
from tests.service.http.server import Answer, Server, http_server
from tests.support.engine import settle


class HeldGate:
    """Says what the test says, when the test says so."""

    def __init__(self) -> None:
        self.asked: list[ActRecord] = []
        self.then: list[Callable[[bool], None]] = []
        self.answer: bool | None = True
        self.has_room = True
        self.has_come = asyncio.Event()

    def begin(self, record: ActRecord, then: Callable[[bool], None]) -> None:
        self.asked.append(record)
        self.has_come.set()
        if self.answer is None:
            self.then.append(then)
        else:
            then(self.answer)

    @property
    def actions(self) -> list[str]:
        return [one.action for one in self.asked]


@pytest.fixture
async def gate() -> HeldGate:
    return HeldGate()


@pytest_asyncio.fixture
async def server(tmp_path: Path, gate: HeldGate) -> AsyncIterator[Server]:
    async with http_server(tmp_path, gate=gate) as running:
        yield running


async def filled(server: Server, gate: HeldGate) -> None:
    """Topic orders with a message, channel billing, cursor copy."""
    for target in (
        "/pub?topic=orders",
        "/channel/create?topic=orders&channel=billing",
        "/cursor/create?topic=orders&cursor=copy",
    ):
        assert (await server.request("POST", target, b"x")).status == 200
    settle(server.engine)
    gate.asked.clear()
    server.acts.clear()


def refused(answer: Answer) -> bool:
    return answer.status == 503 and answer.message == "NOT_AUDITED" and "nothing was done" in answer.detail


async def test_an_act_waits_until_its_row_is_kept(server: Server, gate: HeldGate) -> None:
    gate.answer = None
    asked = asyncio.create_task(server.request("POST", "/topic/create?topic=orders"))
    await gate.has_come.wait()
    assert (gate.actions, list(server.engine.topics), server.acts) == (["create_topic"], [], [])
    gate.then[0](True)
    assert (await asked).status == 200
    [told] = server.acts
    assert (told.act_id, told.topic) == (gate.asked[0].act_id, "orders")
    assert len(told.act_id) == 32


ACTS = {
    "/topic/create?topic=new": "create_topic",
    "/topic/pause?topic=orders": "pause_topic",
    "/topic/empty?topic=orders": "empty_topic",
    "/topic/delete?topic=orders": "delete_topic",
    "/channel/create?topic=orders&channel=new": "create_channel",
    "/channel/pause?topic=orders&channel=billing": "pause_channel",
    "/channel/empty?topic=orders&channel=billing": "empty_channel",
    "/channel/seek?topic=orders&channel=billing&to=end": "rewind_channel",
    "/channel/delete?topic=orders&channel=billing": "delete_channel",
    "/cursor/create?topic=orders&cursor=new": "create_cursor",
    "/cursor/delete?topic=orders&cursor=copy": "delete_cursor",
}


@pytest.mark.parametrize("target", ACTS)
async def test_an_act_whose_row_is_lost_is_not_done(server: Server, gate: HeldGate, target: str) -> None:
    await filled(server, gate)
    gate.answer = False
    before = server.engine.stats.now(include_clients=False).topics
    assert refused(await server.request("POST", target))
    assert gate.actions == [ACTS[target]]
    assert server.engine.stats.now(include_clients=False).topics == before
    gate.answer = True
    assert (await server.request("POST", target)).status == 200
    assert [(act.action, act.error) for act in server.acts] == [(ACTS[target], "")]


@pytest.mark.parametrize(
    ("method", "target"),
    [
        ("GET", "/topic/messages?topic=orders"),
        ("GET", "/log/read?topic=orders&offset=0"),
        ("GET", "/log/records?topic=orders&offset=0"),
        ("POST", "/log/lease?topic=orders&offset=0"),
        ("POST", "/log/release?lease=none"),
        ("POST", "/cursor/move?topic=orders&cursor=copy&number=1&offset=1"),
        ("POST", "/topic/create?topic=orders"),
    ],
)
async def test_what_has_one_row_afterwards_is_refused_when_there_is_no_room_for_it(
    server: Server, gate: HeldGate, method: str, target: str
) -> None:
    await filled(server, gate)
    gate.has_room = False
    assert refused(await server.request(method, target))
    assert server.engine.cursors.one("orders", "copy").offset == 0
    assert server.acts == []


@pytest.mark.parametrize(
    "target",
    [
        "/topic/delete?topic=nowhere",
        "/channel/pause?topic=orders&channel=nowhere",
        "/channel/create?topic=nowhere&channel=x",
        "/topic/create?topic=_penstock.samples",
        "/topic/create?topic=bad/name",
        "/cursor/create?topic=orders&cursor=new&start=middle",
        "/cursor/delete?topic=orders&cursor=nowhere",
    ],
)
async def test_what_can_not_be_done_is_one_row(server: Server, gate: HeldGate, target: str) -> None:
    await filled(server, gate)
    assert (await server.request("POST", target)).status in (400, 403, 404)
    assert gate.asked == []
    assert [bool(act.error) for act in server.acts] == [True]


async def test_publishing_needs_no_row(server: Server, gate: HeldGate) -> None:
    gate.has_room, gate.answer = False, False
    assert (await server.request("POST", "/pub?topic=orders", b"x")).status == 200


async def test_a_fault_of_ours_in_an_act_that_was_begun_is_answered(
    server: Server, gate: HeldGate, monkeypatch: pytest.MonkeyPatch
) -> None:
    await filled(server, gate)

    def broken(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(server.engine.acts, "pause_topic", broken)
    answer = await server.request("POST", "/topic/pause?topic=orders")
    assert (answer.status, answer.message) == (500, "INTERNAL_ERROR")
