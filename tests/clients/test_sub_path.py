"""The console below a sub-path, behind the real nginx and Caddy as the README's texts configure them.

A crawl as admin follows every link, form, script, style, image and socket: none leaves the sub-path, each is answered.
"""

import asyncio
import http.client
import json
import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from http.cookies import SimpleCookie
from pathlib import Path
from urllib.parse import quote, unquote, urlencode, urljoin, urlsplit

import pytest
import websockets
from django.urls import resolve
from websockets.asyncio.client import connect

from admin_console.permissions.table import ANYONE, API, BULK_ACTS, LEAST_ROLES, NSQADMIN
from admin_console.vocabulary.roles import Role
from tests.support.lakes.pipeline_lake import planned_replay
from tests.support.pages import links
from tests.support.pages.console_client import Answer, ConsoleClient
from tests.support.pages.urls import CHANNEL, CURSOR, GONE, REPLAY, TOPIC, WITHOUT_PARAMETERS, all_urls
from tests.support.processes.ports import free_ports
from tests.support.processes.recipe_proxy import HOST, PROXIES, RecipeProxy
from tests.support.processes.server import ADMIN_PASSWORD, ADMIN_USER, ROOT, ServerProcess
from tests.support.processes.sub_path_proxy import OTHERS, ROOT_PATH, caddy_recipe, nginx_recipe

pytestmark = pytest.mark.slow(reason="starts real servers")

KINDS = ("nginx", "nginx that takes the path off", "caddy")
VARIANTS_MAX = 6  # queries of one path that a crawl follows
PASSWORDS = {Role.VIEWER: "only looking, not touching", Role.OPERATOR: "pausing, and not emptying"}
# A page links to the log-in for strangers alone; the log-out, the clock, a search and what is done with a selection are
# forms; a server without the pipeline starts and stops no job, and has no archive that lost its table; no message is in
# flight, deferred or quarantined, nothing is in the trash, and no nsqlookupd is asked. Programs call nsqadmin's paths.
WITHOUT_LINK = {
    *("login", "logout", "clock", "message_file", "message_search", "start_job", "stop_job", "register_name"),
    *("requeue_messages", "release_messages", "redrive_messages"),
    *GONE,
    *BULK_ACTS,
    *NSQADMIN,
} - {"node"}  # this server's own page is linked


class Site:
    """The host as a browser sees it, behind one of the proxies."""

    def __init__(self, proxy: RecipeProxy) -> None:
        self.proxy = proxy
        self.authority = f"{HOST}:{proxy.port}"
        self.origin = f"https://{self.authority}"

    def client(self, user: str = ADMIN_USER, password: str = ADMIN_PASSWORD) -> ConsoleClient:
        found = self.stranger()
        found.log_in(user, password)
        return found

    def stranger(self) -> ConsoleClient:
        return ConsoleClient(self.proxy.port, tls=self.proxy.client_context, host=self.authority, root=ROOT_PATH)


@pytest.fixture(scope="module")
def ports() -> dict[str, int]:
    return dict(zip(KINDS, free_ports(len(KINDS)), strict=True))


@pytest.fixture(scope="module")
def server(ports: dict[str, int], tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    address = f"https://{HOST}:{ports['nginx']}{ROOT_PATH}"
    options = ["--console-origin", address, "--trusted-proxy", "127.0.0.1", "--no-pipeline"]
    data_path = tmp_path_factory.mktemp("server") / "data"
    with ServerProcess(data_path, options=options) as running:
        running.http("POST", f"/topic/create?topic={TOPIC}&storage=log")
        running.http("POST", f"/channel/create?topic={TOPIC}&channel={CHANNEL}")
        running.http("POST", f"/channel/create?topic={TOPIC}&channel={quote('short#ephemeral')}")
        running.http("POST", f"/cursor/create?topic={TOPIC}&cursor={CURSOR}")
        running.http("POST", f"/mpub?topic={TOPIC}", b"1\n2\n3")
        planned_replay(data_path / "pipeline", REPLAY, topic=TOPIC, channels=[CHANNEL])
        for role, password in PASSWORDS.items():
            add_user(data_path, role, password)
        yield running


def add_user(data_path: Path, role: Role, password: str) -> None:
    """A user who is called as his role."""
    flags = ["--role", role.value, "--password-stdin", f"--data-path={data_path}"]
    subprocess.run(
        [sys.executable, "manage.py", "user", "add", role.value, *flags],
        cwd=ROOT,
        env={name: value for name, value in os.environ.items() if name != "DJANGO_SETTINGS_MODULE"},
        input=f"{password}\n",
        text=True,
        check=True,
        capture_output=True,
    )


@pytest.fixture(scope="module")
def sites(
    server: ServerProcess, ports: dict[str, int], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, Site]]:
    texts = {
        "nginx": nginx_recipe(),
        "nginx that takes the path off": nginx_recipe(takes_path_off=True),
        "caddy": caddy_recipe(f"{HOST}:{ports['caddy']}"),
    }
    with ExitStack() as proxies:
        yield {
            kind: Site(
                proxies.enter_context(
                    PROXIES[kind.partition(" ")[0]](
                        tmp_path_factory.mktemp("proxy"), text, port=ports[kind], console_port=server.console_port
                    )
                )
            )
            for kind, text in texts.items()
        }


@pytest.fixture(params=KINDS)
def site(request: pytest.FixtureRequest, sites: dict[str, Site]) -> Site:
    return sites[request.param]


class Crawl:
    """All that an admin's browser can reach from the first page on, each asked once."""

    def __init__(self, site: Site) -> None:
        self.client = site.client()
        self._origin = site.origin
        self._waiting = [f"{site.origin}{ROOT_PATH}"]
        self._variants: dict[str, set[str]] = {urlsplit(self._waiting[0]).path: {""}}
        self.paths: set[str] = set()
        self.live: set[str] = set()  # pages with a socket
        self.complaints: list[str] = []

    def run(self) -> None:
        while self._waiting:
            url = self._waiting.pop()
            parts = urlsplit(url)
            asked = parts.path + (f"?{parts.query}" if parts.query else "")
            answer = self.client.get(asked)
            self.paths.add(parts.path)
            if answer.status != 200:
                self.complaints.append(f"{asked} is answered with {answer.status}")
            else:
                self._read(url, answer)

    def _read(self, url: str, answer: Answer) -> None:
        kind = answer.headers.get("content-type", "").partition(";")[0]
        if kind == "text/html":
            page = answer.text
            if "data-subscribe" in page:
                self.live.add(urlsplit(url).path)
            # A browser posts these; nothing is there to get.
            found = links.of_page(page)
            posted = {f"{ROOT_PATH}logout/", f"{ROOT_PATH}clock/"}
            posted |= {
                link for link in found if link.endswith("/~file/") or link.startswith(f"{ROOT_PATH}topics/~selected/")
            }
            self.note(url, found, left_out=posted)
        elif kind in ("text/javascript", "application/javascript") and "plotly" not in url:
            self.note(url, links.of_script(answer.text))
        elif kind == "text/css":
            self.note(url, links.of_style(answer.text))
        elif kind == "application/json":
            self.note(url, links.of_update(answer.text))

    def note(self, url: str, found: set[str], left_out: frozenset[str] | set[str] = frozenset()) -> None:
        """Follow what was found at `url`, and complain of what leaves the sub-path."""
        for link in found:
            target = urlsplit(urljoin(url, link))
            if f"{target.scheme}://{target.netloc}" != self._origin or not target.path.startswith(ROOT_PATH):
                self.complaints.append(f"{url} leads to {link}")
                continue
            variants = self._variants.setdefault(target.path, set())
            if target.path in left_out or target.query in variants or len(variants) >= VARIANTS_MAX:
                continue
            variants.add(target.query)
            self._waiting.append(target._replace(fragment="").geturl())


def names_of(paths: set[str]) -> set[str]:
    """The URL names of pages below the sub-path; static files have none."""
    below = [f"/{unquote(path).removeprefix(ROOT_PATH)}" for path in paths]
    return {resolve(path).view_name for path in below if not path.startswith("/static/")}


def test_nothing_that_a_browser_reaches_leaves_the_sub_path_and_all_of_it_is_answered(site: Site) -> None:
    crawl = Crawl(site)
    for path in (path for name, path in all_urls() if name in API):
        crawl.note(f"{site.origin}/", {ROOT_PATH.rstrip("/") + path})
    crawl.run()
    for path in sorted(crawl.live):
        crawl.note(f"{site.origin}{path}", links.of_update(first_update(site, crawl.client, path)))
    crawl.run()
    assert crawl.complaints == []
    # A crawl that missed pages would find nothing on them.
    assert LEAST_ROLES.keys() - names_of(crawl.paths) == WITHOUT_LINK
    assert any(re.search(r"/static/plotly-.*\.js$", path) for path in crawl.paths)
    assert f"{ROOT_PATH}static/live_seconds.js" in crawl.paths
    assert len(crawl.live) >= 6
    crawl.client.close()


def live_socket(site: Site, client: ConsoleClient, origin: str) -> connect:
    """The console's socket as asyncio opens it."""
    return connect(
        f"wss://{site.authority}{ROOT_PATH}ws/live/",
        sock=socket.create_connection(("127.0.0.1", site.proxy.port), timeout=60),
        ssl=site.proxy.client_context,
        origin=websockets.Origin(origin),
        additional_headers={"Cookie": client.cookie},
        proxy=None,
    )


def first_update(site: Site, client: ConsoleClient, path: str) -> str:
    """What the socket of the live page at `path` sends first."""

    async def receive() -> str:
        async with live_socket(site, client, site.origin) as live:
            await live.send(f'{{"subscribe":{client.subscription(path)}}}')
            return str(await asyncio.wait_for(live.recv(), 60))

    return asyncio.run(receive())


def test_an_update_leads_below_the_sub_path_with_what_no_page_has_shown(site: Site, server: ServerProcess) -> None:
    client = site.client()
    new = f"new-{site.proxy.port}"

    async def update_with_it() -> str:
        async with live_socket(site, client, site.origin) as live:
            await live.send(f'{{"subscribe":{client.subscription(f"{ROOT_PATH}topics/")}}}')
            await asyncio.wait_for(live.recv(), 60)
            await asyncio.to_thread(server.http, "POST", f"/topic/create?topic={new}")
            while True:
                update = json.loads(await asyncio.wait_for(live.recv(), 60))
                await live.send(json.dumps({"ack": update["seq"]}))
                if new in json.dumps(update):
                    return json.dumps(update)

    found = {link for link in links.of_update(asyncio.run(update_with_it())) if new in link}
    assert {f"{ROOT_PATH}topics/{new}/", f"{ROOT_PATH}topics/{new}/~pause/"} <= found
    assert all(link.startswith(ROOT_PATH) for link in found), found
    server.http("POST", f"/topic/delete?topic={new}")
    client.close()


@pytest.mark.parametrize("role", list(Role))
def test_each_role_opens_what_the_table_says_and_nothing_else(sites: dict[str, Site], role: Role) -> None:
    site = sites["nginx"]
    client = site.client() if role is Role.ADMIN else site.client(role.value, PASSWORDS[role])
    for name, path in all_urls():
        answer = client.get(ROOT_PATH.rstrip("/") + path)
        least = LEAST_ROLES[name]
        may = least == ANYONE or role.includes(Role(least))
        statuses = (404,) if name in GONE else (400,) if name in WITHOUT_PARAMETERS else (200, 302, 405)
        assert answer.status in (statuses if may else (403,)), (name, answer.status)
        if answer.status == 302:
            assert answer.headers["location"].startswith(ROOT_PATH), name
    client.close()


def test_a_stranger_is_sent_to_the_log_in_and_from_there_to_his_page(site: Site) -> None:
    client = site.stranger()
    found = [link for link in links.of_page(client.get(f"{ROOT_PATH}login/").text) if not link.startswith("#")]
    assert found
    assert all(link.startswith(ROOT_PATH) for link in found), found
    for name, path in all_urls():
        answer = client.get(ROOT_PATH.rstrip("/") + path)
        if name in (*API, *NSQADMIN):
            assert answer.status == 401, name
        elif LEAST_ROLES[name] != ANYONE:
            assert answer.status == 302, name
            wanted = quote(ROOT_PATH.rstrip("/") + path, safe="")
            assert answer.headers["location"] == f"{ROOT_PATH}login/?next={wanted}", name
    fields = {"username": ADMIN_USER, "password": ADMIN_PASSWORD, "next": f"{ROOT_PATH}topics/?q=or"}
    answer = client.post(f"{ROOT_PATH}login/", fields, form_path=f"{ROOT_PATH}login/")
    assert (answer.status, answer.headers["location"]) == (302, f"{ROOT_PATH}topics/?q=or")
    client.close()


def test_a_log_in_leads_to_no_other_service_of_the_host(site: Site) -> None:
    client = site.stranger()
    fields = {"username": ADMIN_USER, "password": ADMIN_PASSWORD, "next": "/elsewhere/"}
    answer = client.post(f"{ROOT_PATH}login/", fields, form_path=f"{ROOT_PATH}login/")
    assert (answer.status, answer.headers["location"]) == (302, ROOT_PATH)
    client.close()


def test_cookies_are_for_the_sub_path_alone_and_secure(site: Site) -> None:
    client = site.client()
    assert all(morsel["secure"] and morsel["httponly"] for morsel in client.cookies.values())
    paths = {name.rpartition("_")[0]: morsel["path"] for name, morsel in client.cookies.items()}
    assert paths == {
        "penstock_session": ROOT_PATH,
        "penstock_csrf": ROOT_PATH,
        "penstock_browser": f"{ROOT_PATH}login/",
    }
    answer = client.get(ROOT_PATH)
    assert "strict-transport-security" not in answer.headers, "the host is not the console's alone"
    assert f"wss://{site.authority}" in answer.headers["content-security-policy"]
    client.close()


def test_acts_answer_with_pages_below_the_sub_path(site: Site, server: ServerProcess) -> None:
    client = site.client()
    page = f"{ROOT_PATH}topics/{TOPIC}/"
    answer = client.post(f"{page}~pause/", {}, form_path=f"{page}~pause/")
    assert (answer.status, answer.headers["location"]) == (302, page)
    assert server.topic_stats(TOPIC)["paused"] is True
    undo = re.escape(f"{page}~unpause/?{urlencode({'next': page})}")
    assert re.search(rf'<a href="{undo}&amp;shown=[0-9a-f-]+" data-dialog>Undo</a>', client.get(page).text)
    answer = client.send(f"{page}~unpause/", client.form(page) | {"next": f"{ROOT_PATH}topics/?q=a"})
    assert (answer.status, answer.headers["location"]) == (302, f"{ROOT_PATH}topics/?q=a")
    assert server.topic_stats(TOPIC)["paused"] is False
    client.close()


def test_the_password_page_and_the_log_out_lead_below_the_sub_path(sites: dict[str, Site]) -> None:
    client = sites["nginx"].client(Role.VIEWER.value, PASSWORDS[Role.VIEWER])
    new = PASSWORDS[Role.VIEWER] + " at all"
    fields = {"current": PASSWORDS[Role.VIEWER], "new": new, "again": new}
    answer = client.post(f"{ROOT_PATH}password/", fields, form_path=f"{ROOT_PATH}password/")
    assert (answer.status, answer.headers.get("location")) == (302, ROOT_PATH), answer.text
    PASSWORDS[Role.VIEWER] = new
    answer = client.post(f"{ROOT_PATH}logout/", {}, form_path=ROOT_PATH)
    assert (answer.status, answer.headers["location"]) == (302, f"{ROOT_PATH}login/")
    client.close()


def test_pages_of_errors_lead_below_the_sub_path(site: Site) -> None:
    client = site.client()
    for path in ("no-page/", "topics/no-topic/", f"topics/{TOPIC}/no-channel/", "pipeline/replays/none/"):
        answer = client.get(ROOT_PATH + path)
        assert answer.status == 404, path
        found = [link for link in links.of_page(answer.text) if not link.startswith("#")]
        assert found
        assert all(link.startswith(ROOT_PATH) for link in found), (path, found)
    client.close()


def test_the_address_without_its_last_slash_leads_to_the_first_page(site: Site) -> None:
    client = site.stranger()
    answer = client.get(ROOT_PATH.rstrip("/"))
    assert answer.status in (301, 302)
    assert urljoin(f"{site.origin}/", answer.headers["location"]) == site.origin + ROOT_PATH
    assert client.get("/").text == OTHERS
    client.close()


def test_the_console_itself_answers_with_the_sub_path_and_without(server: ServerProcess) -> None:
    """Such as for whoever looks at it from the machine itself."""
    for path in ("/login/", "/queue/login/"):
        direct = http.client.HTTPConnection("127.0.0.1", server.console_port, timeout=30)
        direct.request("GET", path)
        with direct.getresponse() as answer:
            assert answer.status == 200
            assert f'action="{ROOT_PATH}login/"' in answer.read().decode()
            assert {cookie["path"] for cookie in SimpleCookie(answer.headers["Set-Cookie"]).values()} == {ROOT_PATH}
        direct.close()
    direct = http.client.HTTPConnection("127.0.0.1", server.console_port, timeout=30)
    direct.request("GET", "/queue")
    with direct.getresponse() as answer:
        assert (answer.status, answer.headers["Location"]) == (301, ROOT_PATH)
    direct.close()


def test_a_page_of_another_origin_gets_no_socket_and_sends_no_form(site: Site, server: ServerProcess) -> None:
    client = site.client()

    async def open_one() -> None:
        await live_socket(site, client, f"https://{HOST}")  # another port is another origin

    with pytest.raises(websockets.InvalidStatus) as refused:
        asyncio.run(open_one())
    assert refused.value.response.status_code == 403
    client.origin = f"https://{HOST}"
    answer = client.post(f"{ROOT_PATH}topics/~create/", {"topic": "evil"}, form_path=f"{ROOT_PATH}topics/")
    assert answer.status == 403
    assert "evil" not in json.dumps(server.stats())
    client.close()
