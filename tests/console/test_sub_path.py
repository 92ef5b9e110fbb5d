"""The console below a sub-path: what requests become, what links begin with, and which pages a log-in leads to.

A real proxy is before it in tests/clients/test_sub_path.py.
"""

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from asgiref.testing import ApplicationCommunicator
from django.test import Client, RequestFactory, override_settings
from django.urls import get_script_prefix, set_script_prefix

from admin_console.answers.failed import server_error
from admin_console.answers.next_page import next_page
from admin_console.asgi import application
from admin_console.screens.links import url_of
from admin_console.security.sub_path import SubPath


async def passed_on(sub_path: str, scope: dict[str, Any]) -> dict[str, Any]:
    """The scope that the application behind a `SubPath` gets for this one."""
    found: list[dict[str, Any]] = []

    async def note(scope: dict[str, Any], receive: Any, send: Any) -> None:
        found.append(scope)

    async def nothing(*_: Any) -> None: ...

    await SubPath(note, sub_path)(scope, nothing, nothing)
    return found[0]


@pytest.mark.parametrize(
    ("asked", "page", "socket"),
    [
        ("/queue/", "/queue/", "/"),
        ("/queue", "/queue", ""),
        ("/", "/queue/", "/"),
        ("/queue/topics/queue/", "/queue/topics/queue/", "/topics/queue/"),
        ("/topics/queue/", "/queue/topics/queue/", "/topics/queue/"),
        ("/queues/", "/queue/queues/", "/queues/"),
        ("/queue/ws/live/", "/queue/ws/live/", "/ws/live/"),
    ],
)
async def test_a_path_with_the_sub_path_and_one_without_are_one(asked: str, page: str, socket: str) -> None:
    found = await passed_on("/queue", {"type": "http", "path": asked, "root_path": ""})
    assert (found["path"], found["root_path"]) == (page, "/queue")
    found = await passed_on("/queue", {"type": "websocket", "path": asked, "root_path": ""})
    assert (found["path"], found["root_path"]) == (socket, "")


async def test_other_events_than_requests_pass_as_they_are() -> None:
    assert await passed_on("/queue", {"type": "lifespan"}) == {"type": "lifespan"}


@pytest.mark.parametrize("kind", ["http", "websocket"])
async def test_without_a_sub_path_nothing_changes(kind: str) -> None:
    for path in ("/", "/topics/orders/", "/queue/"):
        asked = {"type": kind, "path": path, "root_path": ""}
        assert await passed_on("", asked) == asked


@pytest.mark.django_db(transaction=True)
async def test_a_client_can_not_say_where_the_links_of_a_page_lead() -> None:
    scope = {
        "type": "http",
        "method": "GET",
        "path": "/login/",
        "root_path": "/elsewhere",  # Daphne takes it from the header Daphne-Root-Path
        "query_string": b"",
        "headers": [(b"host", b"localhost")],
        "client": ["127.0.0.1", 50_000],
        "server": ["127.0.0.1", 4171],
    }
    asked = ApplicationCommunicator(application, scope)
    await asked.send_input({"type": "http.request", "body": b"", "more_body": False})
    assert (await asked.receive_output(10))["status"] == 200
    page = (await asked.receive_output(10))["body"].decode()
    assert 'action="/login/"' in page
    assert "/elsewhere" not in page


@pytest.fixture
def sub_path() -> Iterator[None]:
    """The settings of a console below /queue, and the context of a request to it."""
    before = get_script_prefix()
    with override_settings(FORCE_SCRIPT_NAME="/queue"):
        set_script_prefix("/queue")
        yield
    set_script_prefix(before)


@pytest.mark.usefixtures("sub_path")
def test_links_begin_with_the_sub_path_also_where_no_request_has_begun() -> None:
    found: list[str] = []

    def build() -> None:
        assert get_script_prefix() == "/", "a new thread knows no request"
        found.append(url_of("channel", "orders", "bill#ephemeral"))
        assert get_script_prefix() == "/"

    thread = threading.Thread(target=build)
    thread.start()
    thread.join()
    assert found == ["/queue/topics/orders/bill%23ephemeral/"]


@pytest.mark.usefixtures("sub_path")
def test_the_page_of_a_fault_leads_to_the_first_page() -> None:
    assert 'href="/queue/"' in server_error(RequestFactory().get("/")).content.decode()


@pytest.mark.usefixtures("sub_path")
@pytest.mark.parametrize(
    ("wanted", "page"),
    [
        ("/queue/topics/?q=a#urgent", "/queue/topics/?q=a#urgent"),
        ("/queue/topics/orders/bill%23ephemeral/", "/queue/topics/orders/bill%23ephemeral/"),
        ("/queue/", "/queue/"),
        ("/queue", ""),
        ("/topics/", ""),
        ("/other/", ""),
        ("/queues/", ""),
        ("/queue/../other/", ""),
        ("/queue/%2e%2e/other/", ""),
        ("/queue/..%5c..%5cother/", ""),
        ("/queue/no-page/", ""),
        ("//evil.example/queue/", ""),
        ("queue/", ""),
    ],
)
def test_a_log_in_leads_to_pages_below_the_sub_path_only(wanted: str, page: str) -> None:
    assert next_page(RequestFactory().get("/login/", {"next": wanted})) == page
    assert next_page(RequestFactory().post("/login/", {"next": wanted})) == page


@pytest.mark.parametrize(
    ("path", "is_named"),
    [
        ("/queue/", True),
        ("/queue/topics/", True),
        ("/topics/a/b/c/d/", False),
        # What browsers and scanners ask for, and what a shell would run.
        ("/favicon.ico", False),
        ("/$(reboot)/", False),
        ("/queue 2/", False),
    ],
)
def test_a_path_that_a_proxy_passes_on_is_answered_with_the_option_that_makes_it_ours(
    path: str, *, is_named: bool
) -> None:
    answer = Client().get(path, headers={"Accept": "application/json"})
    assert answer.status_code == 404
    option = " start the server with --console-origin=https://HOST/queue."
    said = answer.json()["message"]
    assert (option in said, "--console-origin" in said) == (is_named, is_named)
