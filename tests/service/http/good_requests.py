"""A request of each path that is answered 200, and the server that it needs."""

from collections.abc import Sequence
from urllib.parse import urlencode

from queue_engine.service.http.rules import PATHS
from tests.service.http.server import Answer, Server
from tests.support.engine import settle

BATCH = b"\0\0\0\1\0\0\0\0\0\1x"
BATCH_KEY = "00000000000000000000000000000001"
TOPIC = {"topic": "orders"}
NAMES = {**TOPIC, "channel": "billing"}

# Path → its query. LEASE stands for the lease of `prepared`.
LEASE = "a lease"
SEARCH = "a search"  # stands for that of `prepared`
TRASH, TRASH_TOO = "an entry of the trash", "another entry of the trash"
QUERIES: dict[str, dict[str, str]] = {
    **{path: TOPIC for path in PATHS if path.startswith("/topic/")},
    **{path: NAMES for path in PATHS if path.startswith("/channel/")},
    "/stats": {"format": "json", "include_mem": "false"},
    "/pub": TOPIC,
    "/mpub": TOPIC,
    "/log/write": {**TOPIC, "batch_key": BATCH_KEY},
    "/topic/create": {"topic": "new"},
    "/channel/create": {**TOPIC, "channel": "new"},
    "/channel/max_attempts": {**NAMES, "max_attempts": "5"},
    "/channel/seek": {**NAMES, "to": "start"},
    "/channel/seek/preview": {**NAMES, "to": "start"},
    **{path: {**NAMES, "offset": "0"} for path in PATHS if path.startswith("/channel/message/")},
    "/channel/message": {**NAMES, "offset": "0"},
    "/channel/search": {**NAMES, "text": "one"},
    "/channel/search/state": {"search": SEARCH},
    "/channel/search/cancel": {"search": SEARCH},
    "/log/read": {**TOPIC, "offset": "0"},
    "/log/records": {**TOPIC, "offset": "0"},
    "/log/topic": TOPIC,
    "/log/lease": {**TOPIC, "offset": "0"},
    "/log/release": {"lease": LEASE},
    "/trash/restore": {"id": TRASH},
    "/trash/delete": {"id": TRASH_TOO},
    "/cursor/create": {**TOPIC, "cursor": "new", "anew": "true"},
    "/cursor/move": {**TOPIC, "cursor": "copy", "number": "1", "offset": "1", "lake": "one"},
    "/cursor/delete": {**TOPIC, "cursor": "copy"},
}
BODIES = {"/pub": b"x", "/mpub": b"x\ny\n", "/log/write": BATCH, "/log/renew": LEASE.encode(), "/config/{opt}": b"info"}


class GoodRequests:
    """The requests to one server. Each of them can be sent once."""

    def __init__(self, server: Server, lease: str, search: str = "", trash: Sequence[str] = ("", "")) -> None:
        self._server = server
        self._lease = lease
        self._search = search
        self._trash = trash

    def target(self, path: str, **changes: str | None) -> str:
        """Path and query. changes: parameters with another value, or without one (None)."""
        query = {**QUERIES.get(path, {}), **changes}
        if query.get("lease") == LEASE:
            query["lease"] = self._lease
        if query.get("search") == SEARCH:
            query["search"] = self._search
        if query.get("id") in (TRASH, TRASH_TOO):
            query["id"] = self._trash[query["id"] == TRASH_TOO]
        given = {name: value for name, value in query.items() if value is not None}
        path = path.replace("{opt}", "log_level")
        return f"{path}?{urlencode(given)}" if given else path

    async def send(
        self,
        path: str,
        *,
        headers: dict[str, str] | None = None,
        body: bytes | None = None,
        changed: bool = False,
        **changes: str | None,
    ) -> Answer:
        """Request a path. body: instead of the good one. changed: by the method that changes what the path's first one
        reads, where there is one."""
        if body is None:
            body = BODIES.get(path, b"").replace(LEASE.encode(), self._lease.encode())
        methods = PATHS[path].methods
        return await self._server.request(methods[-1 if changed else 0], self.target(path, **changes), body, headers)


async def prepared(server: Server) -> GoodRequests:
    """Topic orders of the log with three messages, channel billing, cursor copy, a lease and two channels in the
    trash; topic old of the disk queues with a channel billing."""
    for target, body in (
        ("/topic/create?topic=orders&storage=log", b""),
        ("/topic/create?topic=old&storage=diskqueue", b""),
        ("/channel/create?topic=old&channel=billing", b""),
        ("/mpub?topic=orders", b"one\ntwo\nthree"),
        ("/channel/create?topic=orders&channel=billing", b""),
        ("/cursor/create?topic=orders&cursor=copy", b""),
        ("/cursor/move?topic=orders&cursor=copy&number=1&offset=0&lake=one", b""),
        ("/channel/create?topic=orders&channel=gone", b""),
        ("/channel/delete?topic=orders&channel=gone", b""),
        ("/channel/create?topic=orders&channel=gone2", b""),
        ("/channel/delete?topic=orders&channel=gone2", b""),
    ):
        assert (await server.request("POST", target, body, server.token_header)).status == 200
    settle(server.engine)
    lease = await server.request("POST", "/log/lease?topic=orders&offset=0", headers=server.token_header)
    searching = "/channel/search?topic=orders&channel=billing&text=one"
    search = await server.request("POST", searching, headers=server.token_header)
    trash = await server.request("GET", "/trash", headers=server.token_header)
    ids = [str(one["id"]) for one in trash.json["entries"]]
    return GoodRequests(server, lease.json["lease"], search.json["search"], ids)
