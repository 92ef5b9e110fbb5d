"""Pipeline cursors over HTTP: answers, refusals, the token, audit rows and stats."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from queue_engine.engine.acts import cursor_acts
from queue_engine.engine.acts.log_acts import log_store_of
from queue_engine.storage.disk.background import Background
from queue_engine.storage.readers import leases
from queue_engine.storage.readers.cursors import CONSUMER_CURSOR_BYTES, CONSUMER_CURSOR_MS, CONSUMER_CURSORS_MAX
from queue_engine.vocabulary.permission import Permission
from tests.service.http.server import Server, http_server
from tests.support.engine import settle


@pytest_asyncio.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    async with http_server(tmp_path) as running:
        await filled(running)
        yield running


async def filled(server: Server) -> None:
    for body in (b"one", b"two", b"three"):
        await server.request("POST", "/pub?topic=orders", body, server.token_header)
    settle(server.engine)


async def test_a_cursor_is_created_moved_listed_and_deleted(server: Server) -> None:
    answer = await server.request("POST", "/cursor/create?topic=orders&cursor=archive")
    store = log_store_of(server.engine.catalog.topic("orders"))
    created = answer.json
    lag_bytes = created.pop("lag_bytes")
    assert answer.status == 200
    assert lag_bytes > 100
    assert created == {
        "cursor": "archive",
        "topic": "orders",
        "number": store.number,
        "id_base": store.id_base,
        "offset": 0,
        "end_offset": 3,
        "synced_offset": 3,
        "oldest_offset": 0,
        "depth": 3,
        "retention_bytes": 10 << 30,
        "created_ms": server.clock.time_ns() // 1_000_000,
        "is_warned": False,
        "gaps": [],
        "lake": "",
        "maker": "",
        "expires_ms": 0,
        "created": True,
    }
    again = (await server.request("POST", "/cursor/create?topic=orders&cursor=archive&start=end")).json
    assert (again["created"], again["offset"]) == (False, 0)
    moved = await server.request("POST", f"/cursor/move?topic=orders&cursor=archive&number={store.number}&offset=2")
    assert (moved.status, moved.json["offset"], moved.json["depth"]) == (200, 2, 1)
    back = await server.request("POST", f"/cursor/move?topic=orders&cursor=archive&number={store.number}&offset=1")
    assert (back.status, back.json) == (200, moved.json)
    await server.request("POST", "/cursor/create?topic=orders&cursor=tail&start=end")
    await server.request("POST", "/cursor/create?topic=orders&cursor=second&start_offset=1")
    listed = (await server.request("GET", "/cursor/list?topic=orders")).json
    assert [(one["cursor"], one["offset"]) for one in listed["cursors"]] == [("archive", 2), ("second", 1), ("tail", 3)]
    deleted = await server.request("POST", "/cursor/delete?topic=orders&cursor=archive")
    assert (deleted.status, deleted.json) == (200, {"given_up": 1, "first_offset": 2, "next_offset": 3})
    listed = (await server.request("GET", "/cursor/list")).json
    assert [one["cursor"] for one in listed["cursors"]] == ["second", "tail"]
    assert listed["ended"] == [
        {
            "cursor": "archive",
            "topic": "orders",
            "number": store.number,
            "id_base": store.id_base,
            "first_offset": 2,
            "next_offset": 3,
            "reason": "deleted",
            "at_ms": server.clock.time_ns() // 1_000_000,
            "created_ms": created["created_ms"],
            "maker": "",
            "gaps": [],
        }
    ]
    empty = (await server.request("GET", "/cursor/list?topic=none")).json
    assert empty == {"cursors": [], "ended": [], "server": server.engine.catalog.identity}
    assert len(empty["server"]) == 32


async def test_a_cursor_belongs_to_the_first_lake_that_moves_it(server: Server) -> None:
    await server.request("POST", "/cursor/create?topic=orders&cursor=archive")
    move = "/cursor/move?topic=orders&cursor=archive&number=1&offset="
    bound = await server.request("POST", f"{move}0&lake=one")
    assert (bound.json["offset"], bound.json["lake"]) == (0, "one")
    for lake in ("", "x" * 65):
        refused = await server.request("POST", f"{move}2&lake={lake}")
        assert (refused.status, refused.json["message"]) == (400, "INVALID_REQUEST")
        assert refused.json["detail"] == f"lake has {len(lake)} characters and can have 1 to 64"
    refused = await server.request("POST", f"{move}2&lake=another")
    assert (refused.status, refused.json["message"]) == (409, "LAKE_CHANGED")
    assert "cursor orders/archive belongs to the lake one, not to another" in refused.json["detail"]
    moved = await server.request("POST", f"{move}2")
    assert (moved.json["offset"], moved.json["lake"]) == (2, "one")
    await server.request("POST", "/cursor/delete?topic=orders&cursor=archive")
    anew = await server.request("POST", "/cursor/create?topic=orders&cursor=archive")
    assert anew.json["lake"] == ""


async def test_a_cursor_is_made_anew_further_back_in_one_act(server: Server) -> None:
    create = "/cursor/create?topic=orders&cursor=archive"
    await server.request("POST", create)
    await server.request("POST", "/cursor/move?topic=orders&cursor=archive&number=1&offset=3&lake=one")
    before = len(server.acts)
    anew = (await server.request("POST", f"{create}&start_offset=1&anew=true")).json
    assert (anew["offset"], anew["lake"], anew["created"]) == (1, "", True)
    assert [act.action for act in server.acts[before:]] == ["create_cursor"]
    assert (await server.request("POST", f"{create}&start_offset=2&anew=false")).json["offset"] == 1
    found = (await server.request("GET", "/cursor/list")).json
    assert [(one["offset"], one["lake"]) for one in found["cursors"]] == [(1, "")]
    assert found["ended"] == []


async def test_the_audit_hears_of_each_change_and_not_of_looks_at_the_list(server: Server) -> None:
    await server.request("POST", "/cursor/create?topic=orders&cursor=archive")
    before = len(server.acts)
    await server.request("POST", "/cursor/move?topic=orders&cursor=archive&number=1&offset=2")
    await server.request("POST", "/cursor/move?topic=orders&cursor=archive&number=2&offset=2")
    await server.request("GET", "/cursor/list")
    await server.request("POST", "/cursor/delete?topic=orders&cursor=archive")
    await server.request("POST", "/cursor/delete?topic=orders&cursor=archive")
    told = [
        (one.action, one.topic, one.channel, one.outcome and one.outcome.depth) for one in server.acts[before - 1 :]
    ]
    assert told == [
        ("create_cursor", "orders", "archive", 3),
        ("move_cursor", "orders", "archive", 1),
        ("move_cursor", "orders", "archive", None),
        ("delete_cursor", "orders", "archive", 1),
        ("delete_cursor", "orders", "archive", None),
    ]
    assert server.acts[before].details == {"offset": 2}
    assert server.acts[before + 1].error.startswith("TOPIC_CHANGED: ")
    assert server.acts[-1].error == "CURSOR_NOT_FOUND: cursor orders/archive does not exist"


async def test_what_is_refused_is_told_in_a_sentence(server: Server) -> None:
    await server.request("POST", "/topic/create?topic=old&storage=diskqueue")
    await server.request("POST", "/cursor/create?topic=orders&cursor=archive")
    for method, target, status, word, detail in (
        ("POST", "/cursor/create?cursor=archive", 400, "INVALID_REQUEST", "topic is missing"),
        ("POST", "/cursor/create?topic=orders", 400, "INVALID_REQUEST", "cursor is missing"),
        ("POST", "/cursor/create?topic=orders&cursor=a+b", 400, "INVALID_CURSOR", "cursor name 'a b' is not valid"),
        ("POST", "/cursor/create?topic=none&cursor=a", 404, "TOPIC_NOT_FOUND", ""),
        ("POST", "/cursor/create?topic=old&cursor=a", 400, "INVALID_STORAGE", "old has storage kind diskqueue"),
        ("POST", "/cursor/create?topic=orders&cursor=a&start=middle", 400, "INVALID_REQUEST", "start=middle can be"),
        ("POST", "/cursor/create?topic=orders&cursor=archive&anew=1", 400, "INVALID_REQUEST", "anew=1 can be true or"),
        ("POST", "/cursor/create?topic=orders&cursor=a&start_time_ms=1", 400, "INVALID_REQUEST", "no start_time_ms"),
        ("POST", "/cursor/create?topic=orders&cursor=a&start_offset=4", 403, "LIMIT_REACHED", "it has 0 to 3"),
        ("POST", "/cursor/move?topic=orders&cursor=archive&offset=1", 400, "INVALID_REQUEST", "number is missing"),
        ("POST", "/cursor/move?topic=orders&cursor=archive&number=1", 400, "INVALID_REQUEST", "offset is missing"),
        ("POST", "/cursor/move?topic=orders&cursor=archive&number=9&offset=1", 409, "TOPIC_CHANGED", "number 1, not 9"),
        ("POST", "/cursor/move?topic=orders&cursor=none&number=1&offset=1", 404, "CURSOR_NOT_FOUND", "orders/none"),
        ("POST", "/cursor/move?topic=orders&cursor=archive&number=1&offset=4", 403, "LIMIT_REACHED", "ends at 3"),
        ("POST", "/cursor/delete?topic=orders&cursor=none", 404, "CURSOR_NOT_FOUND", "orders/none does not exist"),
        ("GET", "/cursor/create?topic=orders&cursor=a", 405, "METHOD_NOT_ALLOWED", ""),
        ("POST", "/cursor/list", 405, "METHOD_NOT_ALLOWED", ""),
    ):
        answer = await server.request(method, target)
        assert (answer.status, answer.message) == (status, word), target
        assert detail in answer.detail, target
        assert [one.offset for one in server.engine.cursors.all().cursors] == [0], target


@pytest.mark.parametrize(
    ("method", "target"),
    [
        ("POST", "/cursor/create?topic=orders&cursor=archive"),
        ("POST", "/cursor/move?topic=orders&cursor=archive&number=1&offset=1"),
        ("POST", "/cursor/delete?topic=orders&cursor=archive"),
        ("GET", "/cursor/list"),
    ],
)
async def test_only_who_may_read_bodies_may_do_this(tmp_path: Path, method: str, target: str) -> None:
    async with http_server(tmp_path, http_token="secret") as server:
        await filled(server)
        server.engine.cursors.create("orders", cursor="archive")
        before = server.engine.cursors.all()
        answer = await server.request(method, target)
        assert (answer.status, answer.message) == (403, "TOKEN_REQUIRED")
        assert server.acts[-1].error.startswith("TOKEN_REQUIRED")
        assert server.engine.cursors.all() == before
        allowed = await server.request(method, target, headers={"Authorization": "Bearer secret"})
        assert allowed.status == 200


async def test_a_move_is_answered_when_it_is_durable(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    await server.request("POST", "/cursor/create?topic=orders&cursor=archive")
    store = log_store_of(server.engine.catalog.topic("orders"))
    held: list[tuple[object, ...]] = []

    class Later:
        def submit(self, *job: object) -> None:
            held.append(job)

    later: Background = Later()
    monkeypatch.setattr(store.readers.cursors._file, "_worker", later)
    socket = await server.connect()
    target = f"/cursor/move?topic=orders&cursor=archive&number={store.number}&offset=3"
    await socket.send(f"POST {target} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
    # Another connection's answer shows that the first request was taken.
    assert (await server.request("GET", "/cursor/list")).json["cursors"][0]["offset"] == 3
    assert (await server.request("GET", "/ping")).status == 200
    assert len(held) == 1
    assert store.readers.cursors.least_offset(store.number) == 0
    job, done = held[0]
    job()
    done(None)
    assert (await socket.read_answer()).json["offset"] == 3


async def test_a_move_that_can_not_be_written_is_refused(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    await server.request("POST", "/cursor/create?topic=orders&cursor=archive")

    def refuse(path: str, data: bytes) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(
        log_store_of(server.engine.catalog.topic("orders")).readers.cursors._file._files, "replace", refuse
    )
    answer = await server.request("POST", "/cursor/move?topic=orders&cursor=archive&number=1&offset=3")
    assert (answer.status, answer.message) == (500, "INTERNAL_ERROR")
    assert "No space left" in answer.detail
    monkeypatch.undo()
    assert (await server.request("GET", "/ping")).status == 500
    again = await server.request("POST", "/cursor/move?topic=orders&cursor=archive&number=1&offset=3")
    assert again.status == 200
    assert (await server.request("GET", "/ping")).status == 200


async def test_figures_tell_of_cursors_and_leave_the_topics_own_as_they_are(server: Server) -> None:
    before = (await server.request("GET", "/stats?format=json")).json["topics"][0]
    plain = (await server.request("GET", "/stats")).body.decode()
    assert "cursor" not in plain
    assert b"penstock_cursor" not in (await server.request("GET", "/metrics")).body
    await server.request("POST", "/cursor/create?topic=orders&cursor=archive&start_offset=1")
    shown = (await server.request("GET", "/stats?format=json")).json["topics"][0]
    listed = (await server.request("GET", "/cursor/list")).json["cursors"]
    assert shown["cursors"] == listed
    assert {**shown, "cursors": []} == before
    assert (
        f"cursor [archive           ] depth: 2     lag-bytes: {listed[0]['lag_bytes']:<8} gaps: 0\n"
        in (await server.request("GET", "/stats")).body.decode()
    )
    metrics = (await server.request("GET", "/metrics")).body.decode()
    labels = '{topic="orders",cursor="archive"}'
    assert f"penstock_cursor_depth{labels} 2\n" in metrics
    assert f"penstock_cursor_lag_bytes{labels} {listed[0]['lag_bytes']}\n" in metrics
    assert f"penstock_cursor_warned{labels} 0\n" in metrics
    assert f"penstock_cursor_gaps{labels} 0\n" in metrics


async def test_a_token_to_consume_ends_no_archive_and_no_cursor_of_another(server: Server) -> None:
    reader, other = server.new_token(Permission.CONSUME), server.new_token(Permission.CONSUME)
    admin = server.new_token(Permission.CONSUME, Permission.ADMINISTER)
    made = {"archive": admin, "theirs": other, "boss": admin}
    for cursor, token in made.items():
        answer = await server.request("POST", f"/cursor/create?topic=orders&cursor={cursor}", headers=token)
        assert answer.status == 200
    before = server.engine.cursors.all()
    assert {one.cursor: one.maker for one in before.cursors} == {
        "archive": "token token-2",
        "boss": "token token-2",
        "theirs": "token token-1",
    }
    for cursor in made:
        for act in ("move?number=1&offset=3&", "delete?"):
            answer = await server.request("POST", f"/cursor/{act}topic=orders&cursor={cursor}", headers=reader)
            assert (answer.status, answer.message) == (403, "NOT_ALLOWED")
            assert answer.detail.startswith(f"cursor orders/{cursor} ")
            assert server.acts[-1].error == f"NOT_ALLOWED: {answer.detail}"
    assert server.engine.cursors.all() == before
    for cursor in made:
        answer = await server.request("POST", f"/cursor/delete?topic=orders&cursor={cursor}", headers=admin)
        assert answer.status == 200
    answer = await server.request("POST", "/cursor/create?topic=orders&cursor=archive", headers=reader)
    assert (answer.status, answer.message) == (403, "NOT_ALLOWED")
    assert "is the topic's archive, and token token-0 may not administer orders" in answer.detail
    assert not server.engine.cursors.all().cursors


async def test_a_token_to_consume_has_few_cursors_and_moves_and_deletes_its_own(server: Server) -> None:
    token = server.new_token(Permission.CONSUME)
    for number in range(CONSUMER_CURSORS_MAX):
        answer = await server.request("POST", f"/cursor/create?topic=orders&cursor=c{number}", headers=token)
        assert (answer.status, answer.json["maker"]) == (200, "token token-0")
        assert answer.json["retention_bytes"] == CONSUMER_CURSOR_BYTES
    refused = await server.request("POST", "/cursor/create?topic=orders&cursor=more", headers=token)
    assert (refused.status, refused.message) == (403, "LIMIT_REACHED")
    assert f"token token-0 has {CONSUMER_CURSORS_MAX}, which is the most" in refused.detail
    move = "/cursor/move?topic=orders&cursor=c0&number=1&offset=2"
    assert (await server.request("POST", move, headers=token)).json["offset"] == 2
    assert (await server.request("POST", "/cursor/delete?topic=orders&cursor=c0", headers=token)).status == 200
    assert (await server.request("POST", "/cursor/create?topic=orders&cursor=more", headers=token)).status == 200
    admin = server.new_token(Permission.CONSUME, Permission.ADMINISTER)
    for number in range(CONSUMER_CURSORS_MAX + 1):
        answer = await server.request("POST", f"/cursor/create?topic=orders&cursor=a{number}", headers=admin)
        assert (answer.status, answer.json["expires_ms"]) == (200, 0)


async def test_a_cursor_of_a_token_to_consume_holds_little_of_the_log(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cursor_acts, "CONSUMER_CURSOR_BYTES", 10)
    token = server.new_token(Permission.CONSUME)
    refused = await server.request("POST", "/cursor/create?topic=orders&cursor=c", headers=token)
    assert (refused.status, refused.message) == (403, "LIMIT_REACHED")
    assert "at offset 0 it would keep " in refused.detail
    assert "is 10. Start further on" in refused.detail
    assert (await server.request("POST", "/cursor/create?topic=orders&cursor=c&start=end", headers=token)).status == 200


async def test_a_cursor_of_a_token_to_consume_ends_unless_it_is_moved(server: Server) -> None:
    token = server.new_token(Permission.CONSUME)
    for cursor in ("read", "left"):
        await server.request("POST", f"/cursor/create?topic=orders&cursor={cursor}", headers=token)
    server.clock.advance(ms=CONSUMER_CURSOR_MS - 1)
    move = "/cursor/move?topic=orders&cursor=read&number=1&offset=0"
    assert (await server.request("POST", move, headers=token)).status == 200
    server.clock.advance(ms=2_000)
    server.engine.tick()
    settle(server.engine)
    listed = (await server.request("GET", "/cursor/list", headers=token)).json
    assert [one["cursor"] for one in listed["cursors"]] == ["read"]
    assert [(one["cursor"], one["reason"], one["maker"]) for one in listed["ended"]] == [
        ("left", "expired", "token token-0")
    ]


async def test_a_name_whose_cursor_has_just_expired_is_free(server: Server) -> None:
    token = server.new_token(Permission.CONSUME)
    create = "/cursor/create?topic=orders&cursor=late"
    await server.request("POST", create, headers=token)
    server.clock.advance(ms=CONSUMER_CURSOR_MS + 1)
    again = await server.request("POST", create, headers=token)
    assert (again.status, again.json["created"]) == (200, True)
    listed = (await server.request("GET", "/cursor/list", headers=token)).json
    assert [one["cursor"] for one in listed["cursors"]] == ["late"]
    assert [(one["cursor"], one["reason"]) for one in listed["ended"]] == [("late", "expired")]


async def test_a_token_to_consume_renews_and_releases_its_own_leases_alone(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader, other = server.new_token(Permission.CONSUME), server.new_token(Permission.CONSUME)
    admin = server.new_token(Permission.CONSUME, Permission.ADMINISTER)
    lease = (await server.request("POST", "/log/lease?topic=orders&offset=0", headers=reader)).json["lease"]
    for target, body in (
        (f"/log/lease?lease={lease}&offset=3", b""),
        ("/log/renew?ttl_ms=1000", lease.encode()),
        (f"/log/release?lease={lease}", b""),
    ):
        answer = await server.request("POST", target, body, other)
        assert (answer.status, answer.message) == (403, "NOT_ALLOWED")
        assert answer.detail.startswith(f"lease {lease} was made by token token-0, and token token-1 may only consume")
    assert (await server.request("POST", f"/log/lease?lease={lease}", headers=reader)).json["lease"] == lease
    assert (await server.request("POST", "/log/renew?ttl_ms=1000", lease.encode(), admin)).status == 200
    monkeypatch.setattr(leases, "CONSUMER_LEASES_MAX", 1)
    refused = await server.request("POST", "/log/lease?topic=orders&offset=0", headers=reader)
    assert (refused.status, refused.message) == (403, "LIMIT_REACHED")
    assert "token token-0 has 1, which is the most" in refused.detail
    assert (await server.request("POST", f"/log/release?lease={lease}", headers=reader)).status == 200
    assert (await server.request("POST", "/log/lease?topic=orders&offset=0", headers=reader)).status == 200
