"""Single messages of a channel over HTTP."""

from pathlib import Path

from tests.service.http.server import Server, http_server
from tests.support.engine import Client, settle

NAMES = "topic=orders&channel=billing"


async def with_messages(server: Server, *bodies: bytes) -> None:
    await server.request("POST", "/topic/create?topic=orders")
    await server.request("POST", f"/channel/create?{NAMES}")
    for body in bodies:
        assert (await server.request("POST", "/pub?topic=orders", body)).status == 200
    settle(server.engine)


async def test_a_list_finds_a_key_in_each_state(tmp_path: Path) -> None:
    async with http_server(tmp_path) as server:
        await server.request("POST", "/topic/create?topic=orders&storage=log")  # only the log keeps keys
        await with_messages(server)
        for number in range(6):
            key = "red%20one" if number % 2 else "blue"
            await server.request("POST", f"/pub?topic=orders&key={key}", b"%d" % number)
        settle(server.engine)
        client = Client(server.engine, "orders", "billing", ready=2)
        server.engine.clients.pop(client.consumer.key)
        path = f"/channel/messages?{NAMES}&key=red%20one"
        waiting = await server.request("GET", path)
        assert [(one["offset"], one["key"]) for one in waiting.json["messages"]] == [(5, "red one"), (3, "red one")]
        assert [one["offset"] for one in (await server.request("GET", f"{path}&limit=1")).json["messages"]] == [5]
        held = await server.request("GET", f"{path}&state=in_flight")
        assert [one["offset"] for one in held.json["messages"]] == [1]
        assert (await server.request("GET", f"/channel/messages?{NAMES}&key=green")).json["messages"] == []
        for wrong, why in ((f"{path}&sort=age", "sort=age"), (f"/channel/messages?{NAMES}&key=", "key has 0 bytes")):
            refused = await server.request("GET", wrong)
            assert refused.status == 400
            assert why in refused.json["detail"]


async def test_a_list_shows_each_state_and_consumes_nothing(tmp_path: Path) -> None:
    async with http_server(tmp_path) as server:
        await with_messages(server, b"one", b"two", b"\xff\xfe")
        client = Client(server.engine, "orders", "billing", ready=1)
        server.engine.clients.pop(client.consumer.key)
        waiting = await server.request("GET", f"/channel/messages?{NAMES}&preview_bytes=2")
        assert [one.get("body", one.get("body_base64")) for one in waiting.json["messages"]] == ["tw", "//4="]
        held = await server.request("GET", f"/channel/messages?{NAMES}&state=in_flight")
        (message,) = held.json["messages"]
        assert (message["attempts"], message["client_key"], message["deadline_ms"]) == (1, client.consumer.key, 60_000)
        assert "body" not in message
        assert held.json["counts"]["waiting"] == 2
        assert held.json["counts"]["in_flight"] == 1
        one = await server.request("GET", f"/channel/message?{NAMES}&id={message['id']}")
        assert (one.json["message"]["state"], one.json["message"]["body"]) == ("in_flight", "one")


async def test_messages_are_finished_by_ids_in_the_body_with_a_result_for_each(tmp_path: Path) -> None:
    async with http_server(tmp_path) as server:
        await with_messages(server, b"one", b"two", b"three")
        listed = await server.request("GET", f"/channel/messages?{NAMES}")
        ids = [one["id"] for one in listed.json["messages"]]
        body = "\n".join([ids[0], "f" * 16, ids[2]]).encode()
        done = await server.request("POST", f"/channel/message/finish?{NAMES}", body)
        assert done.json["done"] == 2
        assert [one["code"] for one in done.json["results"]] == ["", "MESSAGE_NOT_FOUND", ""]
        assert server.engine.catalog.channel("orders", "billing").backlog.depth == 1
        (act,) = [act for act in server.acts if act.action == "finish_messages"]
        assert act.outcome is not None
        assert (act.topic, act.channel, act.outcome.depth) == ("orders", "billing", 2)


async def test_what_names_no_message_is_refused_and_changes_nothing(tmp_path: Path) -> None:
    async with http_server(tmp_path) as server:
        await with_messages(server, b"one")
        for further, detail in (
            ("", "no message is named: give id or offset, or ids as body, one a line"),
            ("&id=0123456789abcdef&offset=1", "id and offset name two messages: give one"),
            ("&offset=x", "offset=x is not a whole number from 0 to 4611686018427387903"),
        ):
            refused = await server.request("POST", f"/channel/message/finish?{NAMES}{further}")
            assert (refused.status, refused.detail) == (400, detail)
        assert server.engine.catalog.channel("orders", "billing").backlog.depth == 1


async def test_what_a_search_shows_of_bodies_is_audited(tmp_path: Path) -> None:
    async with http_server(tmp_path) as server:
        await server.request("POST", "/topic/create?topic=orders&storage=log")  # others can't be searched
        await with_messages(server, b"one", b"two")

        def looks() -> list[int | None]:
            found = [act for act in server.acts if act.action == "read_messages"]
            return [act.outcome.depth for act in found if act.outcome is not None]

        for text, hits in (("three", []), ("one", [1, 1])):
            begun = await server.request("POST", f"/channel/search?{NAMES}&text={text}")
            before = looks()
            state = begun.json
            while state["status"] == "running":
                state = (await server.request("GET", f"/channel/search/state?search={begun.json['search']}")).json
            if hits:
                await server.request("POST", f"/channel/search/cancel?search={begun.json['search']}")
            shown = looks()[len(before) :]
            # One for each answer that shows a part of a body: how many come while it runs depends on the moment.
            assert set(shown) == set(hits)
            assert len(shown) >= len(hits) - 1


async def test_looking_at_keys_is_audited(tmp_path: Path) -> None:
    async with http_server(tmp_path) as server:
        await server.request("POST", "/topic/create?topic=orders&storage=log")  # others have no keys
        await with_messages(server, b"one")

        def looks() -> list[int | None]:
            found = [act for act in server.acts if act.action == "read_messages"]
            return [act.outcome.depth for act in found if act.outcome is not None]

        await server.request("GET", f"/channel/messages?{NAMES}")
        assert looks() == [], "no message on the page has a key"
        await server.request("GET", f"/channel/messages?{NAMES}&key=anna")
        assert looks() == [0], "that none has it is known of the key"
        await server.request("POST", "/pub?topic=orders&key=anna", b"two")
        settle(server.engine)
        listed = await server.request("GET", f"/channel/messages?{NAMES}")
        assert [one.get("key") for one in listed.json["messages"]] == [None, "anna"]
        assert looks() == [0, 2]
        without = await server.request("GET", f"/channel/messages?{NAMES}&keys=false")
        assert [(one["state"], one.get("key")) for one in without.json["messages"]] == [("waiting", None)] * 2
        assert looks() == [0, 2]


async def test_looking_at_bodies_is_audited(tmp_path: Path) -> None:
    async with http_server(tmp_path) as server:
        await with_messages(server, b"one")
        listed = await server.request("GET", f"/channel/messages?{NAMES}")
        assert [act.action for act in server.acts if act.action == "read_messages"] == []
        await server.request("GET", f"/channel/messages?{NAMES}&preview_bytes=10")
        await server.request("GET", f"/channel/message?{NAMES}&id={listed.json['messages'][0]['id']}")
        looks = [act for act in server.acts if act.action == "read_messages"]
        assert [act.outcome.depth for act in looks if act.outcome is not None] == [1, 1]


async def test_one_message_without_contents_is_no_look(tmp_path: Path) -> None:
    async with http_server(tmp_path) as server:
        await server.request("POST", "/topic/create?topic=orders&storage=log")
        await server.request("POST", "/channel/create?topic=orders&channel=billing")
        await server.request("POST", "/pub?topic=orders&key=anna", b"one")
        settle(server.engine)
        shown = {
            contents: (await server.request("GET", f"/channel/message?{NAMES}&offset=0{contents}")).json["message"]
            for contents in ("", "&contents=true", "&contents=false")
        }
        assert [(one.get("body"), one.get("key"), one["body_bytes"]) for one in shown.values()] == [
            ("one", "anna", 3),
            ("one", "anna", 3),
            (None, None, 3),
        ]
        assert [act.action for act in server.acts if act.action == "read_messages"] == ["read_messages"] * 2
        refused = await server.request("GET", f"/channel/message?{NAMES}&offset=0&contents=no")
        assert refused.status == 400
