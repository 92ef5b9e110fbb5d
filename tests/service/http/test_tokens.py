"""Tokens over HTTP: what each permission and topic pattern allows, what ends them, and who is audited."""

import time
from pathlib import Path

import pytest

from queue_engine.service.http.rules import PATHS, Rule
from queue_engine.service.identity.token_file import TokenFile
from queue_engine.vocabulary.permission import Permission
from queue_engine.wire.user_claim import HEADER, encoded
from tests.service.http.server import http_server
from tests.support.engine import settle

QUERY = "?topic=orders&channel=billing&cursor=copy&offset=0&number=1&to=start"


@pytest.mark.parametrize("permission", list(Permission))
async def test_each_path_wants_its_permission_and_no_other(tmp_path: Path, permission: Permission) -> None:
    async with http_server(tmp_path) as server:
        server.engine.acts.create_topic("orders")
        server.engine.acts.create_channel("orders", "billing")
        token = server.new_token(permission)
        for path, entry in PATHS.items():
            answer = await server.request(entry.method, path + QUERY, b"x" if entry.method == "POST" else b"", token)
            is_allowed = entry.rule is Rule.OPEN or entry.permission is permission
            assert (answer.status == 403) == (not is_allowed), path
            if not is_allowed:
                assert answer.message == "NOT_ALLOWED"
                assert answer.detail.startswith(f"the token token-0 does not allow to {entry.permission}")


async def test_a_token_of_some_topics_acts_there_alone(tmp_path: Path) -> None:
    async with http_server(tmp_path) as server:
        token = server.new_token(*Permission, topics=("orders.*",))
        for topic in ("orders.eu", "logs"):
            server.engine.acts.create_topic(topic)
        for target, body in (
            ("/pub?topic={}", b"x"),
            ("/channel/create?topic={}&channel=ch", b""),
            ("/topic/pause?topic={}", b""),
            ("/topic/unpause?topic={}", b""),
            ("/cursor/create?topic={}&cursor=c", b""),
        ):
            mine = await server.request("POST", target.format("orders.eu"), body, token)
            other = await server.request("POST", target.format("logs"), body, token)
            assert (mine.status, other.status, other.message) == (200, 403, "NOT_ALLOWED"), target
        # The first value counts, for the check and for the act.
        both = await server.request("POST", "/pub?topic=logs&topic=orders.eu", b"x", token)
        assert both.status == 403
        # What names no topic concerns all of them; a topic that the path does not take changes nothing.
        for method, target in (
            ("GET", "/trash"),
            ("POST", "/trash/restore?id=1&topic=orders.eu"),
            ("GET", "/cursor/list"),
        ):
            answer = await server.request(method, target, b"", token)
            assert (answer.status, answer.message) == (403, "NOT_ALLOWED"), target
            assert answer.detail.endswith("on all topics, which this needs")


async def test_publishing_again_wants_the_right_on_both_topics(tmp_path: Path) -> None:
    async with http_server(tmp_path) as server:
        for topic in ("orders", "logs"):
            server.engine.acts.create_topic(topic)
            server.engine.acts.create_channel(topic, "ch")
        token = server.new_token(*Permission, topics=("orders",))
        target = "/channel/message/republish?topic=orders&channel=ch&offset=0"
        assert (await server.request("POST", target, b"", token)).status != 403
        assert (await server.request("POST", f"{target}&to=logs", b"", token)).message == "NOT_ALLOWED"


async def test_a_lease_is_renewed_and_released_with_a_token_of_its_topic(tmp_path: Path) -> None:
    async with http_server(tmp_path) as server:
        server.engine.acts.create_topic("orders")
        token = server.new_token(Permission.CONSUME, Permission.PUBLISH, topics=("orders",))
        assert (await server.request("POST", "/pub?topic=orders", b"x", token)).status == 200
        lease = (await server.request("POST", "/log/lease?topic=orders&offset=0", b"", token)).json["lease"]
        for target, body in (
            (f"/log/lease?lease={lease}", b""),
            ("/log/renew", lease.encode()),
            (f"/log/release?lease={lease}", b""),
        ):
            assert (await server.request("POST", target, body, token)).status == 200, target


async def test_a_search_is_read_and_cancelled_with_a_token_of_its_topic(tmp_path: Path) -> None:
    async with http_server(tmp_path) as server:
        for topic in ("orders", "logs"):
            server.engine.acts.create_topic(topic)
            server.engine.acts.create_channel(topic, "ch")
        mine, other = (server.new_token(Permission.CONSUME, topics=(topic,)) for topic in ("orders", "logs"))
        begun = await server.request("POST", "/channel/search?topic=orders&channel=ch&text=x", b"", mine)
        assert begun.status == 200
        for method, verb in (("GET", "state"), ("POST", "cancel")):
            target = f"/channel/search/{verb}?search={begun.json['search']}"
            answer = await server.request(method, target, b"", other)
            assert (answer.status, answer.message) == (403, "NOT_ALLOWED"), target
            assert (await server.request(method, target, b"", mine)).status == 200, target
            assert (await server.request(method, f"/channel/search/{verb}?search=none", b"", other)).status == 404
        publisher = server.new_token(Permission.PUBLISH)
        answer = await server.request("GET", f"/channel/search/state?search={begun.json['search']}", b"", publisher)
        assert answer.message == "NOT_ALLOWED"


async def test_a_damaged_file_of_tokens_is_named_to_probes_until_it_is_well(tmp_path: Path) -> None:
    async with http_server(tmp_path) as server:
        server.new_token(Permission.PUBLISH)
        server.gate.check()
        assert (await server.request("GET", "/readyz")).body == b"OK"
        path = tmp_path / "tokens.json"
        path.rename(tmp_path / "well")
        path.write_bytes(b"{}\n00000000\n")
        server.gate.check()
        answer = await server.request("GET", "/readyz")
        assert answer.status == 200
        line = answer.body.decode().splitlines()[1]
        assert line.startswith(f"tokens are as they were: {path} is damaged: its checksum does not fit.")
        (tmp_path / "well").rename(path)  # the very file that was read before
        server.gate.check()
        assert (await server.request("GET", "/readyz")).body == b"OK"


async def test_the_scheme_is_read_in_any_case(tmp_path: Path) -> None:
    async with http_server(tmp_path) as server:
        secret = server.new_token(*Permission)["Authorization"].removeprefix("Bearer ")
        for scheme, status in (("Bearer", 200), ("bearer", 200), ("BEARER", 200), ("Basic", 403), ("Bearer ", 403)):
            headers = {"Authorization": f"{scheme} {secret}"}
            assert (await server.request("POST", "/topic/create?topic=t", b"", headers)).status == status, scheme


async def test_a_lease_of_another_topic_is_left_alone(tmp_path: Path) -> None:
    async with http_server(tmp_path) as server:
        for topic in ("orders", "logs"):
            server.engine.acts.create_topic(topic)
        everything = server.new_token(*Permission)
        assert (await server.request("POST", "/pub?topic=orders", b"x", everything)).status == 200
        lease = (await server.request("POST", "/log/lease?topic=orders&offset=0", b"", everything)).json["lease"]
        token = server.new_token(*Permission, topics=("logs",))
        for target, body in (
            (f"/log/lease?lease={lease}&ttl_ms=1000", b""),
            (f"/log/lease?topic=logs&lease={lease}", b""),
            ("/log/renew", lease.encode()),
            (f"/log/release?lease={lease}", b""),
        ):
            assert (await server.request("POST", target, body, token)).message == "NOT_ALLOWED", target
        assert (await server.request("POST", f"/log/release?lease={lease}", b"", everything)).status == 200


async def test_tokens_that_expired_were_revoked_forged_or_cut_are_refused(tmp_path: Path) -> None:
    async with http_server(tmp_path) as server:
        server.engine.acts.create_topic("orders")
        token = server.new_token(Permission.PUBLISH, valid_ms=1_000)
        other = server.new_token(Permission.PUBLISH)
        secret = token["Authorization"]
        good = await server.request("POST", "/pub?topic=orders", b"x", token)
        assert good.status == 200
        for forged in (secret[:-1], secret + "0", secret.replace("pst_", "pst-"), "Bearer", "Bearer "):
            answer = await server.request("POST", "/pub?topic=orders", b"x", {"Authorization": forged})
            assert (answer.status, answer.message) == (403, "TOKEN_REQUIRED")
        server.clock.advance(ms=1_000)
        assert (await server.request("POST", "/pub?topic=orders", b"x", token)).message == "TOKEN_REQUIRED"
        assert (await server.request("POST", "/pub?topic=orders", b"x", other)).status == 200
        TokenFile(tmp_path).revoke("token-1", by="", now_ms=5)
        server.gate.check()
        assert (await server.request("POST", "/pub?topic=orders", b"x", other)).message == "TOKEN_REQUIRED"


async def test_acts_are_audited_under_the_tokens_name(tmp_path: Path) -> None:
    async with http_server(tmp_path) as server:
        token = server.new_token(Permission.ADMINISTER)
        await server.request("POST", "/topic/create?topic=orders", b"", token)
        await server.request("POST", "/topic/pause?topic=orders", b"", token)
        await server.request("POST", "/topic/pause?topic=none", b"", token)
        await server.request("GET", "/topic/messages?topic=orders", b"", token)
        await server.request("POST", "/topic/delete?topic=orders")
        assert [(act.action, act.actor, bool(act.error)) for act in server.acts] == [
            ("create_topic", "token-0", False),
            ("pause_topic", "token-0", False),
            ("pause_topic", "token-0", True),
            ("read_messages", "token-0", True),
            ("delete_topic", "", True),
        ]
        pause = server.engine.topics["orders"].pause
        assert pause is not None
        assert pause.by == "token token-0"  # a user may have the name token-0


async def test_a_token_may_name_the_user_it_acts_for_which_gives_no_right(tmp_path: Path) -> None:
    async with http_server(tmp_path) as server:
        token = server.new_token(Permission.ADMINISTER)
        claims = {
            "alice": "alice",
            "%D0%98%D0%B2%D0%B0%D0%BD": "Иван",
            encoded("grace, token root\nx\u202e"): "grace, token root x",
            "x" * 5_000: "x" * 64,
            "%FF%00": "\ufffd",
            "%20": "",
        }
        await server.request("POST", "/topic/create?topic=orders", b"", token)
        for value in claims:
            await server.request("POST", "/topic/pause?topic=orders", b"", {**token, HEADER: value})
        await server.request("POST", "/topic/pause?topic=none", b"", {**token, HEADER: "alice"})
        # Without a token, or with a wrong one, it is no claim of any.
        await server.request("POST", "/topic/pause?topic=orders", b"", {HEADER: "alice"})
        assert [act.on_behalf_of for act in server.acts] == ["", *claims.values(), "alice", ""]
        assert {act.actor for act in server.acts} == {"token-0", ""}
        pause = server.engine.topics["orders"].pause
        assert pause is not None
        assert pause.by == "token token-0, for alice"
        publishes = server.new_token(Permission.PUBLISH)
        refused = await server.request("POST", "/topic/empty?topic=orders", b"", {**publishes, HEADER: "root"})
        assert (refused.status, server.acts[-1].on_behalf_of) == (403, "root")


async def test_rows_of_looks_and_of_ended_leases_have_the_user_whom_the_token_acts_for(tmp_path: Path) -> None:
    async with http_server(tmp_path) as server:
        claim = {**server.new_token(*Permission), HEADER: "alice"}
        names = "topic=orders&channel=billing"
        for path in ("/topic/create?topic=orders&storage=log", f"/channel/create?{names}", "/pub?topic=orders"):
            await server.request("POST", path, b"body", claim)
        settle(server.engine)
        before = len(server.acts)
        await server.request("GET", "/topic/messages?topic=orders", b"", claim)
        await server.request("GET", f"/channel/message?{names}&offset=0", b"", claim)
        await server.request("POST", f"/channel/search?{names}&text=body", b"", claim)
        lease = await server.request("POST", "/log/lease?topic=orders&offset=0", b"", claim)
        await server.request("POST", f"/log/release?lease={lease.json['lease']}", b"", claim)
        assert [(act.action, act.error, act.on_behalf_of) for act in server.acts[before:]] == [
            *[("read_messages", "", "alice")] * 4,
            ("release_lease", "", "alice"),
        ]


async def test_the_answer_to_many_wrong_tokens_waits_while_others_go_on(tmp_path: Path) -> None:
    async with http_server(tmp_path) as server:
        server.engine.acts.create_topic("orders")
        token = server.new_token(Permission.PUBLISH)
        wrong = {"Authorization": "Bearer wrong"}
        for _ in range(7):
            assert (await server.request("POST", "/pub?topic=orders", b"x", wrong)).status == 403
        began = time.monotonic()
        assert (await server.request("POST", "/pub?topic=orders", b"x", wrong)).status == 403
        assert time.monotonic() - began >= 0.4
        assert (await server.request("POST", "/pub?topic=orders", b"x", token)).status == 200
        assert server.gate.guesses is not None
        assert server.gate.guesses.counts["http"] == 8


@pytest.mark.parametrize("size", [1, 64 << 10, (64 << 10) + 1, 1 << 20])
async def test_no_size_of_the_body_brings_the_answer_to_a_wrong_token_sooner(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    async with http_server(tmp_path) as server:
        server.new_token(Permission.PUBLISH)
        monkeypatch.setattr(server.gate, "wrong", lambda remote_ip, listener: 0.2)
        began = time.monotonic()
        answer = await server.request("POST", "/pub?topic=orders", b"x" * size, {"Authorization": "Bearer wrong"})
        assert (answer.status, answer.message) == (403, "TOKEN_REQUIRED")
        assert time.monotonic() - began >= 0.19
