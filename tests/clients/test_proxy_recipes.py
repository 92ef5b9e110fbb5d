"""The README's texts for nginx and Caddy, run as they stand before a real server: on port 443, and on another one."""

import asyncio
import json
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import websockets
from websockets.asyncio.client import connect

from tests.support.pages.console_client import ConsoleClient
from tests.support.processes.ports import free_ports
from tests.support.processes.recipe_proxy import HOST, PROXIES, RecipeProxy, recipe, replaced
from tests.support.processes.server import ServerProcess

pytestmark = pytest.mark.slow(reason="starts real servers and real proxies")

# Where the browser is, as the proxy sees it; the proxy itself is 127.0.0.1 to the server.
BROWSER = "127.0.0.2"
# What a browser may write about itself.
FORGED = {"X-Forwarded-For": "203.0.113.77", "X-Forwarded-Proto": "http", "Forwarded": "for=203.0.113.77"}


@dataclass(frozen=True)
class Place:
    """A console behind a proxy. authority: its host, and its port when browsers write it."""

    server: ServerProcess
    proxy: RecipeProxy
    authority: str

    @property
    def origin(self) -> str:
        return f"https://{self.authority}"

    def client(self) -> ConsoleClient:
        return ConsoleClient(
            self.proxy.port,
            tls=self.proxy.client_context,
            host=self.authority,
            source=BROWSER,
            headers=FORGED,
        )


@pytest.fixture(scope="module", params=["nginx", "caddy", "nginx on another port", "caddy on another port"])
def place(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    name, _, is_other = request.param.partition(" ")
    (port,) = free_ports(1)
    # Port 443 is the proxy's for the browser: neither writes it.
    authority = f"{HOST}:{port}" if is_other else HOST
    text = recipe(name)
    if is_other and name == "caddy":
        text = replaced(text, (f"{HOST} {{", f"{authority} {{"))
    directory: Path = tmp_path_factory.mktemp("recipe")
    options = ["--console-origin", f"https://{authority}", "--trusted-proxy", "127.0.0.1", "--no-pipeline"]
    with (
        ServerProcess(directory / "data", options=options) as server,
        PROXIES[name](directory, text, port=port, console_port=server.console_port) as proxy,
    ):
        yield Place(server, proxy, authority)


@pytest.fixture
def client(place: Place) -> Iterator[ConsoleClient]:
    logged_in = place.client()
    logged_in.log_in()
    yield logged_in
    logged_in.close()


def live_socket(place: Place, client: ConsoleClient, origin: str) -> connect:
    return connect(
        f"wss://{place.authority}/ws/live/",
        sock=socket.create_connection(("127.0.0.1", place.proxy.port), timeout=60, source_address=(BROWSER, 0)),
        ssl=place.proxy.client_context,
        origin=websockets.Origin(origin),
        additional_headers={"Cookie": client.cookie, **FORGED},
        proxy=None,
    )


def test_cookies_are_for_https_alone_and_redirects_stay_at_the_address(place: Place, client: ConsoleClient) -> None:
    assert {name.rpartition("_")[0] for name in client.cookies} == {
        "penstock_session",
        "penstock_csrf",
        "penstock_browser",
    }
    assert all(morsel["secure"] and morsel["httponly"] for morsel in client.cookies.values())
    answer = client.get("/topics/")
    assert answer.status == 200
    assert "max-age" in answer.headers["strict-transport-security"]
    redirected = client.get("/login/")
    assert redirected.status == 302, "the session was not kept"
    assert redirected.headers["location"].removeprefix(place.origin) == "/"


def test_an_act_is_recorded_with_the_browsers_address_and_not_a_forged_one(place: Place, client: ConsoleClient) -> None:
    answer = client.post("/topics/~create/", {"topic": "from_outside"}, form_path="/topics/")
    assert answer.status == 302, answer.text
    assert place.server.topic_stats("from_outside")["paused"] is False
    audit = client.get("/audit/").text
    assert BROWSER in audit
    assert "203.0.113.77" not in audit


def test_the_live_socket_opens_and_frames_come(place: Place, client: ConsoleClient) -> None:
    async def two_frames() -> list[dict[str, int]]:
        async with live_socket(place, client, place.origin) as live:
            await live.send(f'{{"subscribe":{client.subscription("/topics/")}}}')
            return [json.loads(await asyncio.wait_for(live.recv(), 60)) for _ in range(2)]

    frames = asyncio.run(two_frames())
    assert frames[1]["seq"] > frames[0]["seq"]


@pytest.mark.parametrize("foreign", ["https://evil.example.org", f"http://{HOST}", f"https://{HOST}:1"])
def test_pages_of_another_origin_get_no_socket_and_no_act(place: Place, client: ConsoleClient, foreign: str) -> None:
    async def open_one() -> None:
        await live_socket(place, client, foreign)

    with pytest.raises(websockets.InvalidStatus) as refused:
        asyncio.run(open_one())
    assert refused.value.response.status_code == 403
    client.origin = foreign
    answer = client.post("/topics/~create/", {"topic": "from_evil"}, form_path="/topics/")
    assert answer.status == 403
    with pytest.raises(LookupError):
        place.server.topic_stats("from_evil")


def test_another_host_name_shows_no_page(place: Place) -> None:
    stranger = ConsoleClient(place.proxy.port, tls=place.proxy.client_context, host=place.authority)
    stranger.host = "evil.example.org"
    answer = stranger.get("/login/")
    stranger.close()
    assert "csrfmiddlewaretoken" not in answer.text
    assert "set-cookie" not in answer.headers
