"""The HTTP API on topics of the log: reading, leases, rewinding; the token, and audit rows."""

import shutil
import struct
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from queue_engine.storage.commit_log.record import decode_record
from tests.service.http.server import Answer, Server, http_server
from tests.support.engine import Client, settle


@pytest_asyncio.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    async with http_server(tmp_path) as running:
        await filled(running)
        yield running


async def filled(server: Server) -> None:
    for body in (b"one", b"two", b"\xff\xfe"):
        await server.request("POST", "/pub?topic=orders", body, server.token_header)
    await server.request("POST", "/channel/create?topic=orders&channel=billing", headers=server.token_header)
    settle(server.engine)


def bodies(answer: Answer) -> list[str]:
    return [one.get("body", one.get("body_base64")) for one in answer.json["messages"]]


async def test_messages_are_shown_and_stay(server: Server) -> None:
    answer = await server.request("GET", "/topic/messages?topic=orders")
    assert answer.status == 200
    assert bodies(answer) == ["one", "two", "//4="]
    shown = answer.json
    assert (shown["oldest_offset"], shown["end_offset"], shown["next_offset"]) == (0, 3, 3)
    assert shown["messages"][0]["id"] == f"{shown['id_base']:016x}"
    assert bodies(await server.request("GET", "/topic/messages?topic=orders&offset=1&limit=1")) == ["two"]
    assert bodies(await server.request("GET", "/topic/messages?topic=orders&from=end")) == []
    assert bodies(await server.request("GET", "/topic/messages?topic=orders&time_ms=0&limit=2")) == ["one", "two"]
    assert bodies(await server.request("GET", "/topic/messages?topic=orders&channel=billing&limit=2")) == ["one", "two"]
    assert server.engine.catalog.channel("orders", "billing").backlog.depth == 3


async def test_bulk_reads_are_binary_and_tell_whose_they_are(server: Server) -> None:
    answer = await server.request("GET", "/log/read?topic=orders&offset=1")
    assert answer.status == 200
    assert answer.headers[b"x-penstock-first-offset"] == b"1"
    assert answer.headers[b"x-penstock-next-offset"] == b"3"
    assert answer.headers[b"x-penstock-synced-offset"] == b"3"
    assert answer.headers[b"x-penstock-count"] == b"2"
    assert answer.headers[b"x-penstock-topic-number"] == b"1"
    client = Client(server.engine, "orders", "billing", ready=10)
    assert answer.body == b"".join(run.frames for run in client.sink.runs)[-len(answer.body) :]


async def test_records_are_read_as_the_log_has_them(server: Server) -> None:
    answer = await server.request("GET", "/log/records?topic=orders&offset=1")
    assert answer.status == 200
    assert answer.headers[b"content-type"] == b"application/octet-stream"
    told = {name: answer.headers[b"x-penstock-" + name] for name in (b"topic-number", b"oldest-offset", b"count")}
    assert told == {b"topic-number": b"1", b"oldest-offset": b"0", b"count": b"2"}
    offsets = [answer.headers[b"x-penstock-%s-offset" % name] for name in (b"first", b"next", b"synced")]
    assert offsets == [b"1", b"3", b"3"]
    position, salt, size = struct.unpack_from(">QQI", answer.body)
    record = decode_record(answer.body[20 : 20 + size], position=position, salt=salt)
    assert (record.header.first_offset, record.body_at(0)) == (1, b"two")
    id_base = int(answer.headers[b"x-penstock-id-base"])
    assert record.run(0, 1, id_base).ids == [b"%016x" % (id_base + 1)]
    assert (server.acts[-1].action, server.acts[-1].topic) == ("read_messages", "orders")
    assert [act.action for act in server.acts] == ["create_topic", "create_channel", "read_messages"]
    one = await server.request("GET", "/log/records?topic=orders&offset=0&max_bytes=1")
    assert (one.headers[b"x-penstock-count"], one.headers[b"x-penstock-next-offset"]) == (b"1", b"1")


async def test_how_far_a_topic_of_the_log_goes(server: Server) -> None:
    server.clock.advance(ms=1_000)
    later_ms = server.clock.time_ns() // 1_000_000
    await server.request("POST", "/pub?topic=orders", b"late")
    answer = await server.request("GET", "/log/topic?topic=orders")
    id_base = server.engine.catalog.topic("orders").store.positions().id_base
    place = {"topic": "orders", "number": 1, "id_base": id_base, "storage": "log"}
    place |= {"oldest_offset": 0, "synced_offset": 4, "end_offset": 4, "ranges": [[0, 4]], "ranges_end": 4}
    assert (answer.status, answer.json) == (200, place)
    assert (await server.request("GET", f"/log/topic?topic=orders&time_ms={later_ms}")).json["time_offset"] == 3
    assert (await server.request("GET", f"/log/topic?topic=orders&time_ms={later_ms + 1}")).json["time_offset"] == 4
    assert (await server.request("GET", "/log/topic?topic=orders&time_ms=0")).json["time_offset"] == 0
    assert (await server.request("GET", "/log/topic?topic=orders&offset=3")).json["ranges"] == [[3, 4]]
    assert (await server.request("GET", "/log/topic?topic=orders&offset=4")).json["ranges"] == []


async def test_after_a_kill_offsets_that_were_never_used_are_no_messages(server: Server, tmp_path: Path) -> None:
    killed = tmp_path.with_name(f"{tmp_path.name}-killed")
    shutil.copytree(tmp_path, killed)  # what a kill would leave at this moment
    first = 1 << 20
    async with http_server(killed) as after:
        await after.request("POST", "/mpub?topic=orders", b"four\nfive")
        place = (await after.request("GET", "/log/topic?topic=orders")).json
        assert (place["ranges"], place["ranges_end"], place["synced_offset"]) == (
            [[0, 3], [first, first + 2]],
            *[first + 2] * 2,
        )
        await after.request("GET", "/log/records?topic=orders&offset=1")
        assert after.acts[-1].outcome.depth == 4, "two of the messages before the kill, and those behind it"


async def test_a_disk_queue_is_refused_by_name(server: Server) -> None:
    await server.request("POST", "/topic/create?topic=old&storage=diskqueue")
    for target in ("/log/records?topic=old&offset=0", "/log/topic?topic=old"):
        answer = await server.request("GET", target)
        assert (answer.status, answer.message) == (400, "INVALID_STORAGE")
        assert "topic old has storage kind diskqueue" in answer.detail


async def test_a_preview_of_a_rewind_changes_nothing_and_the_rewind_does_as_it_says(server: Server) -> None:
    billing = server.engine.catalog.channel("orders", "billing")
    before = billing.backlog.depth
    acts = len(server.acts)
    preview = await server.request("GET", "/channel/seek/preview?topic=orders&channel=billing&offset=1")
    assert preview.json == {
        "offset": 1,
        "next_offset": billing.backlog.next_offset,
        "oldest_offset": 0,
        "end_offset": 3,
        "depth": 2,
        "depth_now": before,
    }
    assert (billing.backlog.depth, len(server.acts)) == (before, acts), "a preview is no act and no look"
    answer = await server.request("POST", "/channel/seek?topic=orders&channel=billing&offset=1&exact=true")
    assert (answer.json["depth"], billing.backlog.depth) == (2, 2)
    # What the channel finished stays finished, where that is wanted.
    for target, depth in (("to=start", 3), ("offset=2&keep_finished=true", 1), ("to=start&keep_finished=true", 1)):
        answer = await server.request("POST", f"/channel/seek?topic=orders&channel=billing&{target}")
        assert (answer.json["depth"], billing.backlog.depth) == (depth, depth), target


async def test_a_channel_is_moved_and_the_audit_hears_of_it(server: Server) -> None:
    answer = await server.request("POST", "/channel/seek?topic=orders&channel=billing&offset=2")
    assert answer.status == 200
    assert answer.json == {"offset": 2, "oldest_offset": 0, "end_offset": 3, "depth": 1}
    assert server.engine.catalog.channel("orders", "billing").backlog.depth == 1
    assert server.acts[-1].action == "rewind_channel"
    await server.request("GET", "/topic/messages?topic=orders&limit=2")
    assert (server.acts[-1].action, server.acts[-1].topic) == ("read_messages", "orders")
    await server.request("POST", "/channel/create?topic=orders&channel=late&start_offset=1")
    await server.request("POST", "/channel/create?topic=orders&channel=new&start=end")
    depths = {name: one.backlog.depth for name, one in server.engine.catalog.topic("orders").channels.items()}
    assert depths == {"billing": 1, "late": 2, "new": 0}


async def test_a_lease_is_taken_renewed_and_given_back(server: Server) -> None:
    answer = await server.request("POST", "/log/lease?topic=orders&offset=1&ttl_ms=5000&segments=3")
    lease = answer.json
    assert answer.status == 200
    assert (lease["topic"], lease["number"], lease["first_offset"], lease["end_offset"]) == ("orders", 1, 1, 3)
    assert (lease["segments"], lease["next_offset"]) == ([], 1), "the only segment is still written to"
    assert lease["expires_ms"] > 0
    assert (server.acts[-1].action, server.acts[-1].topic) == ("read_messages", "orders")
    renewed = (await server.request("POST", f"/log/lease?lease={lease['lease']}&offset=2")).json
    assert (renewed["lease"], renewed["first_offset"]) == (lease["lease"], 2)
    leases = (await server.request("GET", "/stats?format=json")).json["log"]["holds"]
    assert [(one["name"], one["topic"], one["offset"]) for one in leases] == [(lease["lease"], "orders", 2)]
    names = lease["lease"].encode() + b"\n"
    assert (await server.request("POST", "/log/renew?ttl_ms=600000", names)).status == 200
    [renewed_lease] = (await server.request("GET", "/stats?format=json")).json["log"]["holds"]
    assert renewed_lease["expires_ms"] > leases[0]["expires_ms"]
    lost = await server.request("POST", "/log/renew", names + b"lease-lost\n")
    assert (lost.status, lost.message) == (404, "LEASE_NOT_FOUND")
    assert "lease-lost" in lost.detail
    assert (await server.request("POST", f"/log/release?lease={lease['lease']}")).status == 200
    told = server.acts[-1]
    assert (told.action, told.topic, told.details) == ("release_lease", "orders", {"lease": lease["lease"]})
    for query, error in ((f"?lease={lease['lease']}", "LEASE_NOT_FOUND"), ("", "INVALID_REQUEST")):
        assert (await server.request("POST", f"/log/release{query}")).message == error
        assert (server.acts[-1].action, server.acts[-1].error.split(":")[0]) == ("release_lease", error)
    lost = await server.request("POST", f"/log/lease?lease={lease['lease']}")
    assert (lost.status, lost.message) == (404, "LEASE_NOT_FOUND")
    assert lease["lease"] in lost.detail
    assert (await server.request("GET", "/stats?format=json")).json["log"]["holds"] == []


@pytest.mark.parametrize(
    ("body", "query", "detail"),
    [
        (b" \r\n", "", "the body names no lease"),
        (b"x" * 100_000, "", "lease xxxxxxxxxxxxxxxxxxxx… has 100000 characters, more than 100"),
        (b"x\n" * 10_001, "", "the body names 10001 leases, more than 10000"),
        (b"lease-1", "?ttl_ms=9", "ttl_ms=9 is not a whole number"),
    ],
    ids=["none", "long", "many", "short"],
)
async def test_a_renewal_that_can_not_be_is_refused_in_a_sentence(
    server: Server, body: bytes, query: str, detail: str
) -> None:
    answer = await server.request("POST", f"/log/renew{query}", body)
    assert (answer.status, answer.message) == (400, "INVALID_REQUEST")
    assert detail in answer.detail
    odd = await server.request("POST", "/log/renew", b"\xff\0" * 20)
    assert (odd.status, odd.message) == (404, "LEASE_NOT_FOUND")


WRONG: list[tuple[str, str, int, str, str]] = [
    ("GET", "/topic/messages", 400, "MISSING_ARG_TOPIC", ""),
    ("GET", "/topic/messages?topic=none", 404, "TOPIC_NOT_FOUND", ""),
    ("GET", "/topic/messages?topic=orders&channel=none", 404, "CHANNEL_NOT_FOUND", ""),
    ("GET", "/topic/messages?topic=orders&limit=1001", 400, "INVALID_REQUEST", "limit=1001 is not a whole number"),
    (
        "GET",
        "/topic/messages?topic=orders&offset=1&time_ms=2",
        400,
        "INVALID_REQUEST",
        "offset and time_ms name",
    ),
    ("GET", "/topic/messages?topic=orders&from=middle", 400, "INVALID_REQUEST", "from=middle can be start or end"),
    (
        "GET",
        "/topic/messages?topic=orders&offset=4",
        403,
        "LIMIT_REACHED",
        "offset 4 of orders is beyond its end",
    ),
    ("GET", "/log/read?topic=orders", 400, "INVALID_REQUEST", "offset is missing"),
    ("GET", "/log/records?topic=orders", 400, "INVALID_REQUEST", "offset is missing"),
    ("GET", "/log/records?topic=orders&offset=4", 403, "LIMIT_REACHED", "offset 4 of orders is beyond its end"),
    ("GET", "/log/records?topic=orders&offset=0&max_bytes=9000000", 400, "INVALID_REQUEST", "max_bytes=9000000"),
    ("GET", "/log/records?topic=none&offset=0", 404, "TOPIC_NOT_FOUND", ""),
    ("GET", "/log/topic?topic=none", 404, "TOPIC_NOT_FOUND", ""),
    ("GET", "/log/topic?topic=orders&offset=last", 400, "INVALID_REQUEST", "offset=last is not"),
    ("GET", "/log/topic?topic=orders&time_ms=soon", 400, "INVALID_REQUEST", "time_ms=soon is not"),
    ("POST", "/log/lease?topic=orders", 400, "INVALID_REQUEST", "offset is missing"),
    ("POST", "/log/lease?topic=orders&offset=0&ttl_ms=9", 400, "INVALID_REQUEST", "ttl_ms=9 is not a whole number"),
    ("POST", "/log/lease?topic=orders&offset=0&segments=x", 400, "INVALID_REQUEST", "segments=x is not"),
    ("POST", "/log/lease?topic=orders&offset=4", 403, "LIMIT_REACHED", "offset 4 of orders is beyond its end"),
    ("POST", "/log/release", 400, "INVALID_REQUEST", "lease is missing"),
    ("POST", "/log/renew", 400, "INVALID_REQUEST", "the body names no lease"),
    ("POST", "/log/release?lease=none", 404, "LEASE_NOT_FOUND", "lease none"),
    ("POST", "/channel/seek?topic=orders&channel=billing", 400, "INVALID_REQUEST", "where to is missing"),
    ("GET", "/channel/seek/preview?topic=orders&channel=billing", 400, "INVALID_REQUEST", "where to is missing"),
    ("POST", "/channel/seek?topic=orders&channel=billing&to=end&exact=1", 400, "INVALID_REQUEST", "exact=1 can be"),
    ("POST", "/channel/seek?topic=orders&channel=billing&offset=-1", 400, "INVALID_REQUEST", "offset=-1 is not"),
    ("POST", "/topic/create?topic=x&storage=cloud", 400, "INVALID_STORAGE", "'cloud' does not exist"),
    (
        "POST",
        "/topic/create?topic=orders&storage=diskqueue",
        400,
        "INVALID_STORAGE",
        "exists with storage kind",
    ),
]


async def test_what_is_wrong_is_named(server: Server) -> None:
    for method, target, status, word, detail in WRONG:
        answer = await server.request(method, target)
        assert (target, answer.status, answer.message) == (target, status, word)
        assert detail in answer.detail, target
    assert list(server.engine.topics) == ["orders"]


async def test_bodies_need_the_token_where_there_is_one(tmp_path: Path) -> None:
    async with http_server(tmp_path, http_token="s3cret") as server:
        await filled(server)
        refused = await server.request("GET", "/topic/messages?topic=orders")
        assert (refused.status, refused.message) == (403, "TOKEN_REQUIRED")
        assert server.acts[-1].error.startswith("TOKEN_REQUIRED")
        wrong = await server.request("GET", "/log/read?topic=orders&offset=0", headers={"Authorization": "Bearer no"})
        assert wrong.status == 403
        assert (await server.request("POST", "/log/lease?topic=orders&offset=0")).message == "TOKEN_REQUIRED"
        for target in ("/log/records?topic=orders&offset=0", "/log/topic?topic=orders"):
            assert (await server.request("GET", target)).message == "TOKEN_REQUIRED"
        right = {"Authorization": "Bearer s3cret"}
        assert (await server.request("GET", "/topic/messages?topic=orders", headers=right)).status == 200


async def test_bodies_are_shown_to_nobody_over_an_open_address_without_a_token(tmp_path: Path) -> None:
    async with http_server(tmp_path, http_address="0.0.0.0:4151") as server:
        await filled(server)
        refused = await server.request("GET", "/topic/messages?topic=orders")
        assert (refused.status, refused.message) == (403, "TOKEN_REQUIRED")
        assert "only with a token" in refused.detail


async def test_messages_with_a_key_are_found_newest_first(server: Server) -> None:
    for number in range(5):
        await server.request("POST", "/pub?topic=orders&key=caf%C3%A9", b"%d" % number, server.token_header)
        await server.request("POST", "/pub?topic=orders&key=tea", b"tea", server.token_header)
    settle(server.engine)
    answer = await server.request("GET", "/topic/messages?topic=orders&key=caf%C3%A9&limit=3")
    assert bodies(answer) == ["4", "3", "2"]
    assert {one["key"] for one in answer.json["messages"]} == {"café"}
    assert (answer.json["indexed_upto"], answer.json["not_indexed_count"]) == (13, 0)
    before = answer.json["next_before"]
    answer = await server.request("GET", f"/topic/messages?topic=orders&key=caf%C3%A9&limit=3&before={before}")
    assert (bodies(answer), answer.json["next_before"]) == (["1", "0"], None)
    assert bodies(await server.request("GET", "/topic/messages?topic=orders&key=coffee")) == []
    assert (server.acts[-1].action, server.acts[-1].outcome.depth) == ("read_messages", 0)


@pytest.mark.parametrize(
    ("query", "detail"),
    [
        ("key=", "key has 0 bytes and can have 1 to 255"),
        ("key=" + "k" * 256, "key has 256 bytes and can have 1 to 255"),
        ("key=k&offset=1", "key and offset are both given: a key is searched for in the whole topic"),
        ("key=k&channel=billing", "key and channel are both given"),
        ("key=k&from=start", "key and from are both given"),
        ("before=5", "before=5 is given without key"),
        ("key=k&before=-1", "before=-1 is not a whole number from 0 to"),
    ],
)
async def test_a_search_by_key_is_refused_with_a_sentence(server: Server, query: str, detail: str) -> None:
    answer = await server.request("GET", f"/topic/messages?topic=orders&{query}")
    assert answer.status == 400
    assert detail in str(answer.json)
