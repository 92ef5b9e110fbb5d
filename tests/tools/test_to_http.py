"""Messages sent to HTTP addresses: finished when one has answered 2xx."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web

from queue_engine.client.subscription import Delivery
from queue_engine.client.tools import retries as retries_module
from queue_engine.client.tools.running import Stopping
from queue_engine.client.tools.to_http import ToHttp, ToHttpOptions
from tests.support.processes.running_engine import RunningEngine
from tests.support.waiting import wait_for_async
from tests.tools.conftest import connecting_to

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@asynccontextmanager
async def serving(handler: Handler) -> AsyncIterator[str]:
    """A web server on a free loopback port; its URL."""
    app = web.Application()
    app.router.add_route("*", "/{rest:.*}", handler)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


def publish(engine: RunningEngine, *bodies: bytes) -> None:
    engine.http("POST", "/topic/create?topic=t", b"")
    engine.http("POST", "/channel/create?topic=t&channel=c", b"")
    for body in bodies:
        engine.http("POST", "/pub?topic=t", body)


@asynccontextmanager
async def sending(engine: RunningEngine, **options: Any) -> AsyncIterator[ToHttp]:
    tool = ToHttp(connecting_to(engine), ToHttpOptions("t", "c", **options))
    stopping = Stopping()
    running = asyncio.create_task(tool.run(stopping))
    try:
        yield tool
    finally:
        stopping.request_end()
        await running


async def test_each_message_is_posted_as_it_is_and_then_finished(engine: RunningEngine) -> None:
    seen: list[tuple[bytes, str, str]] = []

    async def take(request: web.Request) -> web.Response:
        seen.append((await request.read(), request.headers["Content-Type"], request.headers["X-Who"]))
        return web.Response(status=204)

    publish(engine, b"\x00\xff", b"two")
    async with (
        serving(take) as url,
        sending(engine, post=[url + "/in"], content_type="text/odd", headers=[("X-Who", "me")]) as tool,
    ):
        await wait_for_async("both", lambda: tool.counts["sent"] == 2)
    assert sorted(seen) == [(b"\x00\xff", "text/odd", "me"), (b"two", "text/odd", "me")]
    assert engine.channel_stats("t", "c")["depth"] == 0


async def test_a_get_carries_the_message_in_its_address(engine: RunningEngine) -> None:
    seen: list[str] = []

    async def take(request: web.Request) -> web.Response:
        seen.append(request.raw_path)
        return web.Response()

    publish(engine, b"a b/%&\xff")
    async with serving(take) as url, sending(engine, get=[url + "/in?m=%s"]) as tool:
        await wait_for_async("it", lambda: tool.counts["sent"] == 1)
    assert seen == ["/in?m=a%20b%2F%25%26%FF"]


async def test_what_is_not_taken_is_requeued_and_comes_again(
    engine: RunningEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retries_module, "BACKOFF_STEP_S", 0.01)
    monkeypatch.setattr(retries_module, "DELAY_MS", 0)
    answers = [500, 302, 200]

    async def take(request: web.Request) -> web.Response:
        return web.Response(status=answers.pop(0), headers={"Location": "http://127.0.0.1:1/"})

    publish(engine, b"x")
    async with serving(take) as url, sending(engine, post=[url]) as tool:
        await wait_for_async("it to be taken", lambda: tool.counts["sent"] == 1)
    assert (answers, tool.counts["requeued"]) == ([], 2)


async def test_what_every_address_refuses_is_given_up_and_the_others_are_sent(
    engine: RunningEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retries_module, "BACKOFF_STEP_S", 0.01)
    monkeypatch.setattr(retries_module, "DELAY_MS", 0)
    asked: list[bytes] = []

    async def take(request: web.Request) -> web.Response:
        asked.append(body := await request.read())
        return web.Response(status={b"bad": 422, b"good": 200}[body])

    publish(engine, b"bad", b"good")
    async with serving(take) as url, sending(engine, post=[url], attempts_max=3) as tool:
        await wait_for_async("both to be done with", lambda: (tool.counts["given up"], tool.counts["sent"]) == (1, 1))
    assert (asked.count(b"bad"), tool.counts["requeued"]) == (3, 2)
    found = engine.channel_stats("t", "c")
    assert (found["depth"], found["deferred_count"], found["in_flight_count"]) == (0, 0, 0)


@pytest.mark.parametrize("status", [503, 429, 403, 302])
async def test_an_address_that_does_not_work_costs_no_message_and_gets_no_more_meanwhile(
    engine: RunningEngine, monkeypatch: pytest.MonkeyPatch, status: int
) -> None:
    monkeypatch.setattr(retries_module, "BACKOFF_STEP_S", 3_600.0)
    monkeypatch.setattr(retries_module, "DELAY_MS", 0)

    async def take(request: web.Request) -> web.Response:
        return web.Response(status=status)

    publish(engine, b"x")
    async with serving(take) as url, sending(engine, post=[url], attempts_max=1, backoff_s_max=3_600.0) as tool:
        await wait_for_async("a rest", lambda: tool.retries.backoff.is_resting)
        await wait_for_async(
            "the server to hold it",
            lambda: [one["ready_count"] for one in engine.channel_stats("t", "c")["clients"]] == [0],
        )
    assert (tool.counts["given up"], tool.counts["sent"]) == (0, 0)
    await wait_for_async("it to wait", lambda: engine.channel_stats("t", "c")["depth"] == 1)


async def test_a_message_that_always_breaks_the_connection_is_given_up_while_others_are_taken(
    engine: RunningEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retries_module, "BACKOFF_STEP_S", 0.001)
    monkeypatch.setattr(retries_module, "DELAY_MS", 0)
    monkeypatch.setattr(retries_module, "UNCLEAR_AS_OFTEN", 2)
    taken: list[bytes] = []

    async def take(request: web.Request) -> web.Response:
        body = await request.read()
        if body == b"bad":
            assert request.transport is not None
            request.transport.abort()
        else:
            taken.append(body)
            engine.http("POST", "/pub?topic=t", b"another")
        return web.Response()

    publish(engine, b"bad", b"good")
    async with serving(take) as url, sending(engine, post=[url], attempts_max=2) as tool:
        await wait_for_async("it to be given up", lambda: tool.counts["given up"] == 1)
        await wait_for_async("a success", lambda: tool.counts["sent"] >= 1)
    assert b"good" in taken
    assert tool.counts["requeued"] >= 4


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n",
        b"HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n",
    ],
)
async def test_the_status_decides_whatever_becomes_of_the_rest_of_the_answer(
    engine: RunningEngine, answer: bytes
) -> None:
    asked = 0

    async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal asked
        asked += 1
        await reader.readuntil(b"\r\n\r\nx")
        writer.write(answer)
        writer.close()

    publish(engine, b"x")
    async with await asyncio.start_server(take, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        async with sending(engine, post=[f"http://127.0.0.1:{port}"]) as tool:
            await wait_for_async("an answer", lambda: tool.counts["sent"] + tool.counts["requeued"] == 1)
    assert (asked, tool.counts["sent"]) == (1, 1)


async def test_a_message_whose_answer_takes_long_stays_in_flight(
    start_engine: Callable[..., RunningEngine], monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = start_engine(msg_timeout_ms=1_000)
    touches, is_touched = 0, asyncio.Event()
    touch = Delivery.touch

    def count(delivery: Delivery) -> None:
        nonlocal touches
        touches += 1
        touch(delivery)
        if touches == 2:
            is_touched.set()

    async def take(_: web.Request) -> web.Response:
        await is_touched.wait()
        return web.Response()

    monkeypatch.setattr(Delivery, "touch", count)
    publish(engine, b"x")
    async with serving(take) as url, sending(engine, post=[url]) as tool:
        await wait_for_async("the answer", lambda: tool.counts["sent"] > 0)
    assert engine.channel_stats("t", "c")["depth"] == 0


async def test_an_address_that_is_down_costs_only_a_detour(engine: RunningEngine) -> None:
    seen: list[bytes] = []

    async def take(request: web.Request) -> web.Response:
        seen.append(await request.read())
        return web.Response()

    publish(engine, *(b"%d" % number for number in range(6)))
    async with serving(take) as url, sending(engine, post=["http://127.0.0.1:1/", url]) as tool:
        await wait_for_async("all", lambda: tool.counts["sent"] == 6)
    assert sorted(seen) == [b"%d" % number for number in range(6)]
    assert tool.counts["requeued"] == 0


async def test_a_sample_finishes_the_others(engine: RunningEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    draws = iter([0.9, 0.1, 0.5])
    monkeypatch.setattr("queue_engine.client.tools.to_http.random.random", lambda: next(draws))

    async def take(request: web.Request) -> web.Response:
        return web.Response()

    publish(engine, b"a", b"b", b"c")
    async with serving(take) as url, sending(engine, post=[url], sample=0.5) as tool:
        await wait_for_async("all", lambda: tool.counts["sent"] + tool.counts["left out"] == 3)
    assert (tool.counts["sent"], tool.counts["left out"]) == (1, 2)
    assert engine.channel_stats("t", "c")["depth"] == 0


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({}, "give either --post URL or --get URL"),
        ({"post": ["http://a"], "get": ["http://a/%s"]}, "not both"),
        ({"post": ["ftp://a"]}, "'ftp://a' is no http or https URL"),
        ({"get": ["http://a/"]}, "needs one %s"),
        ({"post": ["http://a"], "sample": 0.0}, "--sample is 0: it is above 0, and 1 at most"),
        ({"post": ["http://a"], "sample": float("nan")}, "--sample is nan"),
    ],
)
def test_what_can_not_work_is_refused_before_anything_is_consumed(options: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        ToHttpOptions("t", "c", **options).check()
