"""Who may ask for what over HTTP: every path of the server against the table, with and without the token."""

from inspect import signature
from pathlib import Path

from queue_engine.engine.engine_calls import ENGINE_ACTS
from queue_engine.service.http.rules import PATHS, Rule
from queue_engine.service.identity.guesses import FORGOTTEN_AFTER_NS
from queue_engine.vocabulary.acts.parameters import CURSOR_ANEW, Position
from queue_engine.vocabulary.acts.table import ACTS
from queue_engine.vocabulary.clock import NS_PER_MS
from tests.service.http.server import Server, http_server, request_bytes
from tests.support.clock import ManualClock
from tests.support.engine import make_engine

TOKEN = "s3cret"
RIGHT = {"Authorization": f"Bearer {TOKEN}"}
OPEN = {"/ping", "/livez", "/readyz", "/info", "/stats", "/metrics", "/openapi.json"}
SENTENCE = "the token is missing or wrong: Authorization: Bearer …"

# A query that each path accepts, so that only a missing token can refuse a request.
QUERY = "?topic=orders&channel=billing&cursor=archive&offset=0&number=1&lease=none&to=start"


async def test_every_path_has_a_rule_and_every_rule_a_path(tmp_path: Path) -> None:
    async with http_server(tmp_path) as server:
        assert server.api.paths == PATHS.keys()
    assert {path for path, entry in PATHS.items() if entry.rule is Rule.OPEN} == OPEN


def test_what_a_request_for_an_act_brings_is_what_its_method_takes(tmp_path: Path) -> None:
    engine = make_engine(tmp_path, ManualClock())
    for act in ACTS.values():
        if act.http is None:
            continue
        taken = {one.word.keyword if isinstance(one, Position) else one.keyword for one in act.http.parameters}
        taken.discard(CURSOR_ANEW.name)  # it chooses between two methods
        keywords = signature(ENGINE_ACTS[act.name].on(engine)).parameters.keys()
        assert taken <= keywords, act.name
        assert act.http.takes_author == ("by" in keywords), act.name


async def test_with_a_token_each_path_is_open_or_refuses_without_it(tmp_path: Path) -> None:
    async with http_server(tmp_path, http_token=TOKEN) as server:
        for path in sorted(PATHS):
            # The answers to many wrong tokens within a minute would wait for 5 s each: test_tokens has that.
            server.clock.advance(ms=FORGOTTEN_AFTER_NS // NS_PER_MS + 1)
            await _is_open_or_refuses(server, path)


async def _is_open_or_refuses(server: Server, path: str) -> None:
    server.engine.acts.create_topic("orders")
    server.engine.acts.create_channel("orders", "billing")
    method = PATHS[path].method
    body = b"message" if method == "POST" else b""
    before = server.engine.stats.now(include_clients=False).topics
    server.acts.clear()
    for headers in (
        {},
        {"Authorization": "Bearer no"},
        {"Authorization": f"Basic {TOKEN}"},
        {"Authorization": TOKEN},
    ):
        answer = await server.request(method, path + QUERY, body, headers)
        if path in OPEN:
            assert answer.status == 200, path
            continue
        assert (answer.status, answer.message, answer.detail) == (403, "TOKEN_REQUIRED", SENTENCE), path
    if path not in OPEN:
        assert server.engine.stats.now(include_clients=False).topics == before, f"{path} changed something"
        is_act = PATHS[path].is_act(method)
        errors = [act.error for act in server.acts]
        assert errors == ([] if not is_act else [f"TOKEN_REQUIRED: {SENTENCE}"] * 4), path
    answer = await server.request(method, path + QUERY, body, RIGHT)
    assert answer.status != 403, path


async def test_without_a_token_loopback_is_open_and_other_addresses_show_no_bodies(tmp_path: Path) -> None:
    (tmp_path / "loopback").mkdir()
    (tmp_path / "open").mkdir()
    async with http_server(tmp_path / "loopback") as server:
        for path in sorted(PATHS):
            answer = await server.request(PATHS[path].method, path + QUERY)
            assert answer.status != 403, path
    async with http_server(tmp_path / "open", http_address="0.0.0.0:4151") as server:
        for path in sorted(PATHS):
            answer = await server.request(PATHS[path].method, path + QUERY)
            assert (answer.status == 403) == (PATHS[path].rule in (Rule.BODIES, Rule.PROCESS)), path


async def test_acts_that_were_refused_are_audited_with_what_they_were_about(tmp_path: Path) -> None:
    async with http_server(tmp_path, http_token=TOKEN) as server:
        for path in ("/topic/empty", "/channel/seek", "/cursor/delete", "/log/read"):
            await server.request(PATHS[path].method, path + QUERY)
        assert [(act.action, act.topic, act.channel) for act in server.acts] == [
            ("empty_topic", "orders", "billing"),
            ("rewind_channel", "orders", "billing"),
            ("delete_cursor", "orders", "billing"),
            ("read_messages", "orders", "billing"),
        ]


async def test_a_large_body_without_the_token_is_refused_before_it_comes(tmp_path: Path) -> None:
    async with http_server(tmp_path, http_token=TOKEN) as server:
        socket = await server.connect()
        await socket.send(b"POST /mpub?topic=orders HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4000000\r\n\r\n")
        assert (await socket.read_answer()).status == 403


async def test_a_connection_goes_on_after_a_refusal(tmp_path: Path) -> None:
    async with http_server(tmp_path, http_token=TOKEN) as server:
        socket = await server.connect()
        await socket.send(request_bytes("POST", "/pub?topic=orders", b"x"))
        assert (await socket.read_answer()).status == 403
        await socket.send(request_bytes("POST", "/pub?topic=orders", b"x", RIGHT))
        assert (await socket.read_answer()).status == 200
