"""Figures summed over servers, and rates that are right or not there."""

import ssl
from collections.abc import Callable

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from queue_engine.client.http_json import HttpJson, HttpRefusedError, UnreachableError
from queue_engine.client.secret_hosts import SecretHosts
from queue_engine.client.tools.connecting import Connecting
from queue_engine.client.tools.running import Stopping
from queue_engine.client.tools.stat import StatOptions, Table, add_answer, lines_of, rows_of, stat
from tests.support.processes.running_engine import RunningEngine
from tests.support.processes.running_lookup import RunningLookup
from tests.tools.conftest import registered


def answer(depth: int, messages: int, clients: int = 0) -> dict[str, object]:
    channel = {"channel_name": "c", "depth": depth, "message_count": messages, "client_count": clients}
    return {"topics": [{"topic_name": "t", "channels": [channel], "depth": 7}]}


def test_servers_are_added_up() -> None:
    table: Table = {}
    add_answer(table, answer(1, 10, 2))
    add_answer(table, {"data": answer(2, 20, 3)})  # as nsqd before 1.0 wraps it
    add_answer(table, {"topics": [{"topic_name": "empty", "depth": 5, "message_count": 5}]})
    assert [row[:3] + row[6:7] + row[9:10] for row in rows_of(table, {}, 0.0)] == [
        ("empty", "(none)", "5", "5", "0"),
        ("t", "c", "3", "30", "5"),
    ]


@pytest.mark.parametrize(
    "strange",
    [
        None,
        [],
        {},
        {"topics": [None, {"topic_name": 3}]},
        {"topics": {"a": 1}},
        {"topics": [{"topic_name": "\x1b[2J"}]},
        {"topics": [{"topic_name": "\ud800"}]},
    ],
)
def test_strange_answers_add_nothing(strange: object) -> None:
    table: Table = {}
    add_answer(table, strange)
    assert table == {}


def test_strange_parts_of_an_answer_are_left_out() -> None:
    table: Table = {}
    strange = {"channel_name": "c", "clients": 5, "client_count": "5", "depth": "5", "message_count": 1}
    channels = [strange, 5, {"channel_name": 5}, {"channel_name": "\n"}]
    add_answer(table, {"topics": [{"topic_name": "t", "channels": channels}, {"topic_name": "u", "channels": 5}]})
    assert [row[:3] + row[6:7] + row[9:10] for row in rows_of(table, {}, 0.0)] == [
        ("t", "c", "0", "1", "0"),
        ("u", "(none)", "0", "0", "0"),
    ]


def test_rates_are_of_what_came_and_what_is_done() -> None:
    before: Table = {}
    now: Table = {}
    add_answer(before, answer(10, 100))
    add_answer(now, answer(4, 120))
    assert rows_of(now, before, 2.0)[0][-2:] == ("10.0", "13.0")
    # After a restart it counts from 0: no rate.
    assert rows_of(before, now, 2.0)[0][-2:] == ("-", "-")


def test_figures_stand_below_their_headings() -> None:
    table: Table = {}
    add_answer(table, answer(1_234_567, 10))
    heading, line = lines_of(rows_of(table, {}, 0.0))
    assert heading.index("DEPTH") + len("DEPTH") == line.index("1,234,567") + len("1,234,567")


async def test_it_asks_the_servers_that_a_lookup_names(
    start_engine: Callable[..., RunningEngine], lookup: RunningLookup
) -> None:
    engines = [start_engine(), start_engine()]
    for engine in engines:
        engine.http("POST", "/pub?topic=t", b"x")
    printed: list[str] = []
    complaints: list[str] = []
    connecting = Connecting(lookup_urls=(f"http://{lookup.http_address}",))
    with registered(lookup, engines[0], "t"), registered(lookup, engines[1], "t"):
        await stat(connecting, StatOptions(count=1), printed.append, complaints.append, Stopping())
    assert printed[0] == "2 of 2 servers"
    assert printed[2].split()[:3] == ["t", "(none)", "2"]
    assert complaints == []


async def test_a_server_that_does_not_answer_is_said_and_left_out(engine: RunningEngine) -> None:
    engine.http("POST", "/pub?topic=t", b"x")
    printed: list[str] = []
    complaints: list[str] = []
    urls = (f"http://127.0.0.1:{engine.http_port}", "http://127.0.0.1:1")
    await stat(Connecting(), StatOptions(count=1, http_urls=urls), printed.append, complaints.append, Stopping())
    assert printed[0] == "1 of 2 servers"
    assert len(complaints) == 1
    assert complaints[0].startswith("http://127.0.0.1:1/stats can't be reached")
    with pytest.raises(UnreachableError, match="no server answers"):
        await stat(
            Connecting(), StatOptions(count=1, http_urls=urls[1:]), printed.append, complaints.append, Stopping()
        )


async def test_a_refusal_is_told_with_its_reason(start_engine: Callable[..., RunningEngine]) -> None:
    engine = start_engine()
    async with HttpJson() as http:
        with pytest.raises(HttpRefusedError) as refused:
            await http.get(f"http://127.0.0.1:{engine.http_port}/config/nothing")
        assert refused.value.status == 400
        assert str(refused.value).endswith("answered 400: INVALID_OPTION: there is no option 'nothing'")


@pytest.mark.parametrize(
    ("is_inside_tls", "allowed", "asked"),
    [
        (False, ["127.0.0.1"], {"/nodes": "", "/stats": "Bearer secret"}),
        (False, [], {"/nodes": "", "/stats": ""}),
        (True, ["127.0.0.1"], {"/nodes": "", "/stats": ""}),
    ],
)
async def test_the_token_goes_to_allowed_servers_alone_and_with_tls_never_without_it(
    is_inside_tls: bool, allowed: list[str], asked: dict[str, str]
) -> None:
    found: dict[str, str] = {}

    async def answer(request: web.Request) -> web.Response:
        found[request.path] = request.headers.get("Authorization", "")
        port = request.url.port
        return web.json_response({"topics": [], "producers": [{"broadcast_address": "127.0.0.1", "http_port": port}]})

    app = web.Application()
    app.router.add_get("/{path}", answer)
    async with TestServer(app) as server:
        connecting = Connecting(
            lookup_urls=(f"http://127.0.0.1:{server.port}",),
            tls=ssl.create_default_context() if is_inside_tls else None,
            auth_secret=b"secret",
            secret_hosts=SecretHosts(allowed),
        )
        await stat(connecting, StatOptions(count=1), [].append, [].append, Stopping())
    assert found == asked


async def test_a_token_that_was_withheld_is_named_where_a_server_wants_it() -> None:
    async def answer(request: web.Request) -> web.Response:
        if request.path == "/stats":
            return web.json_response({"message": "TOKEN_REQUIRED"}, status=403)
        return web.json_response({"producers": [{"broadcast_address": "127.0.0.1", "http_port": request.url.port}]})

    app = web.Application()
    app.router.add_get("/{path}", answer)
    complaints: list[str] = []
    async with TestServer(app) as server:
        connecting = Connecting(lookup_urls=(f"http://127.0.0.1:{server.port}",), auth_secret=b"secret")
        with pytest.raises(UnreachableError):
            await stat(connecting, StatOptions(count=1), [].append, complaints.append, Stopping())
    assert "answered 403: TOKEN_REQUIRED. The token was not sent: an nsqlookupd named this address" in complaints[0]
    assert "--auth-secret-to 127.0.0.1 allows it" in complaints[0]
