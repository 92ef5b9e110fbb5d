"""A trusted proxy names its users in --acl-http-header: who is logged in, with which role, and until when."""

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from channels.db import database_sync_to_async
from django.conf import settings
from django.contrib.sessions.models import Session
from django.test import Client

from admin_console.accounts.models import User
from admin_console.accounts.session_age import SEEN_KEY
from admin_console.accounts.waiting_sessions import SessionStore
from admin_console.audit.models import AuditRow
from admin_console.live.socket_auth import allowed_user, users_of
from admin_console.nsqadmin_options import NsqadminOptions
from admin_console.permissions.table import SOCKETS
from admin_console.security.proxy import TrustedProxies
from admin_console.vocabulary.roles import Role
from queue_engine.vocabulary.client_key import TrustedAddresses
from tests.support.pages.console import PASSWORD, client_of, make_user, words

pytestmark = pytest.mark.django_db
HEADER = "X-Forwarded-User"
PAUSE = "/topics/orders/billing/~pause/"


@pytest.fixture
def use(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    def set_options(**fields: Any) -> None:
        found = replace(settings.CONSOLE, nsqadmin=NsqadminOptions(**fields))
        monkeypatch.setattr(settings, "CONSOLE", found)

    return set_options


@pytest.fixture
def header(use: Callable[..., None]) -> None:
    """grace is an admin; others are viewers."""
    use(acl_header=HEADER, admin_users=frozenset({"grace"}))


def name_shown(browser: Client, name: str = "") -> str:
    """Who is logged in, by the page; "" for the log-in."""
    answer = browser.get("/nodes/", headers={HEADER: name} if name else {})
    return "" if answer.status_code == 302 else str(answer.wsgi_request.user.get_username())


def may_act(browser: Client, name: str) -> bool:
    return browser.get(PAUSE, headers={HEADER: name}).status_code == 200


@pytest.mark.usefixtures("header", "engine")
def test_the_named_user_is_logged_in_as_the_list_has_it_and_acts_under_the_own_name() -> None:
    browser = Client(enforce_csrf_checks=True)
    assert name_shown(browser) == ""
    assert name_shown(browser, "grace") == "grace"
    question = browser.get(PAUSE, headers={HEADER: "grace"})
    token = question.context["csrf_token"]
    fields = {"csrfmiddlewaretoken": str(token), "for": "", "reason": "deploy"}
    assert browser.post(PAUSE, {"reason": "deploy"}, headers={HEADER: "grace"}).status_code == 403
    done = browser.post(PAUSE, fields, headers={HEADER: "grace"})
    assert done.status_code == 302, words(done.content.decode())
    rows = AuditRow.objects.filter(phase="result")
    assert [(row.actor, row.role, row.action) for row in rows] == [("grace", Role.ADMIN, "pause_channel")]
    (log_in,) = AuditRow.objects.filter(action="log_in")
    assert (log_in.actor, log_in.detail) == ("grace", f"by {HEADER} of a trusted proxy")
    assert not may_act(Client(), "ada")
    assert not may_act(Client(), "GRACE")
    # The account is one without a password, and a viewer for itself.
    found = User.objects.get(username="grace")
    assert (found.has_usable_password(), found.role) == (False, Role.VIEWER)


@pytest.mark.usefixtures("engine")
def test_without_a_list_of_admins_each_user_is_one_as_at_nsqadmin(use: Callable[..., None]) -> None:
    use(acl_header=HEADER)
    browser = Client()
    assert may_act(browser, "ada")
    # A list that comes later holds for the session that is there.
    use(acl_header=HEADER, admin_users=frozenset({"grace"}))
    assert not may_act(browser, "ada")
    # Without the option the session is over.
    use()
    assert name_shown(browser, "ada") == ""


@pytest.mark.usefixtures("header", "engine")
def test_a_session_ends_when_the_proxy_sends_another_user_or_none() -> None:
    browser = Client()
    assert name_shown(browser, "grace") == "grace"
    before = browser.cookies[settings.SESSION_COOKIE_NAME].value
    assert name_shown(browser, "ada") == "ada"
    assert users_of([before]) == {}
    assert name_shown(browser) == ""
    assert name_shown(browser) == ""
    # A log-in with a password is another matter: it goes on without the header, and gives way to it.
    own = client_of(make_user("bob"))
    assert name_shown(own) == "bob"
    assert name_shown(own, "ada") == "ada"
    assert name_shown(own) == ""


@pytest.mark.usefixtures("header", "engine")
def test_a_disabled_account_stays_out() -> None:
    user = make_user("grace")
    User.objects.filter(pk=user.pk).update(is_active=False)
    for browser in (Client(), client_of(make_user("bob"))):
        for path in ("/nodes/", "/api/topics", "/api/nodes"):
            refused = browser.get(path, headers={HEADER: "grace"})
            assert refused.status_code == 403
            assert "The account grace is disabled here." in refused.content.decode()
    browser = Client()
    assert name_shown(browser, "ada") == "ada"
    User.objects.filter(username="ada").update(is_active=False)
    assert browser.get("/nodes/", headers={HEADER: "ada"}).status_code == 403


@pytest.mark.usefixtures("header", "engine")
@pytest.mark.parametrize("value", ["grace,ada", "ada, grace", ",grace", "gr ace", "grace\\eve", "<b>", "a" * 65, "é"])
def test_a_value_that_is_no_one_s_name_is_refused_and_says_so(value: str) -> None:
    for path in ("/nodes/", "/api/topics"):
        refused = Client().get(path, headers={HEADER: value})
        assert refused.status_code == 403
        assert HEADER in refused.content.decode()
    assert not User.objects.exists()


@pytest.mark.usefixtures("header", "engine")
def test_an_empty_value_is_none() -> None:
    for value in ("", "  "):
        assert Client().get("/nodes/", headers={HEADER: value}).status_code == 302
        assert Client().get("/api/topics", headers={HEADER: value}).status_code == 401


@pytest.mark.usefixtures("header", "engine")
def test_programs_get_no_session_and_a_name_without_its_password_opens_nothing() -> None:
    program = Client()
    assert program.get("/api/topics", headers={HEADER: "grace"}).status_code == 200
    assert settings.SESSION_COOKIE_NAME not in program.cookies
    assert name_shown(Client(), "grace") == "grace"
    form = {"username": "grace", "password": PASSWORD}
    assert Client().post("/login/", form).status_code == 400
    page = Client().get("/password/", headers={HEADER: "grace"})
    assert "a proxy logs you in" in words(page.content.decode())


@pytest.mark.usefixtures("header", "engine")
def test_a_form_needs_its_token_and_the_user_who_filled_it_in() -> None:
    def form_of(browser: Client) -> dict[str, str]:
        question = browser.get(PAUSE, headers={HEADER: "grace"})
        return {"csrfmiddlewaretoken": str(question.context["csrf_token"])}

    # The proxy lets requests of other sites through, too: without a session, and without the form's token.
    assert Client(enforce_csrf_checks=True).post(PAUSE, {}, headers={HEADER: "grace"}).status_code == 403
    browser = Client(enforce_csrf_checks=True)
    fields = form_of(browser)
    other = browser.post(PAUSE, fields, headers={HEADER: "ada", "Accept": "application/json"})
    assert (other.status_code, other.json()["message"][:33]) == (403, "You were grace and are ada now. N")
    assert not AuditRow.objects.filter(action="pause_channel").exists()
    # An idle session begins anew with the next request.
    browser = Client(enforce_csrf_checks=True)
    fields = form_of(browser)
    session = browser.session
    session[SEEN_KEY] -= settings.SESSION_IDLE_S + 1
    session.save()
    assert browser.post(PAUSE, fields, headers={HEADER: "grace"}).status_code == 302
    assert users_of([str(session.session_key)]) == {}
    assert AuditRow.objects.filter(action="pause_channel", phase="result").count() == 1


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("over", ["", "idle", "removed"])
def test_a_form_is_not_done_by_the_next_user_after_its_session_is_over(use: Callable[..., None], over: str) -> None:
    use(acl_header=HEADER)
    browser = Client(enforce_csrf_checks=True)
    page = browser.get(PAUSE, headers={HEADER: "ada"}).content.decode()
    fields = dict(re.findall(r'name="(csrfmiddlewaretoken|typed_by)" value="([^"]+)"', page[page.index("<main") :]))
    session = browser.session
    session[SEEN_KEY] -= settings.SESSION_IDLE_S + 1 if over else 0
    session.save()
    if over == "removed":  # after 12 hours, and browsers forget its cookie
        session.delete()
        del browser.cookies[settings.SESSION_COOKIE_NAME]
    other = browser.post(PAUSE, fields, headers={HEADER: "eve", "Accept": "application/json"})
    assert (other.status_code, other.json()["message"][:29]) == (403, "You were ada and are eve now.")
    assert not AuditRow.objects.filter(action="pause_channel").exists()


@pytest.mark.usefixtures("header", "engine")
def test_a_client_without_cookies_has_one_session_and_one_log_in() -> None:
    def log_ins() -> list[tuple[str, str]]:
        return [(row.actor, row.address) for row in AuditRow.objects.filter(action="log_in").order_by("at_ms")]

    def get(name: str, *, path: str = "/nodes/", cookie: str = "", **client: str) -> str:
        """Of a client without cookies; the session that it gets."""
        browser = Client()
        browser.cookies[settings.SESSION_COOKIE_NAME] = cookie
        headers = {HEADER: name, "User-Agent": client.get("agent", "probe/1")}
        answer = browser.get(path, headers=headers, REMOTE_ADDR=client.get("address", "192.0.2.1"))
        assert answer.wsgi_request.user.get_username() == name
        return browser.cookies[settings.SESSION_COOKIE_NAME].value

    (session_key,) = {get("grace", path=path, cookie=old) for path in ("/nodes/", "/none/") for old in ("", "x" * 32)}
    assert log_ins() == [("grace", "192.0.2.1")]
    assert Session.objects.count() == 1
    # Each other name, address and program has its own.
    assert len({session_key, get("ada"), get("grace", address="192.0.2.2"), get("grace", agent="curl")}) == 4
    assert log_ins()[1:] == [("ada", "192.0.2.1"), ("grace", "192.0.2.2"), ("grace", "192.0.2.1")]
    # One that is over is not gone on with.
    session = SessionStore(session_key)
    session[SEEN_KEY] -= settings.SESSION_IDLE_S + 1
    session.save()
    assert get("grace") != session_key
    assert len(log_ins()) == 5


def scope_of(client: str, *headers: tuple[bytes, bytes], kind: str = "http") -> dict[str, Any]:
    return {"type": kind, "path": "/ws/live/", "scheme": "http", "client": [client, 5000], "headers": list(headers)}


async def through(scope: dict[str, Any]) -> list[tuple[bytes, bytes]]:
    """The headers that the console reads."""
    seen: list[dict[str, Any]] = []

    async def application(scope: Any, receive: Any, send: Any) -> None:
        seen.append(scope)

    to: Any = TrustedProxies(application, TrustedAddresses.parse(["127.0.0.1"]), HEADER)
    await to(scope, None, None)
    return list(seen[0]["headers"])


@pytest.mark.parametrize("kind", ["http", "websocket"])
async def test_another_peer_than_a_trusted_proxy_names_no_one(kind: str) -> None:
    own, mistaken = (b"x-forwarded-user", b"grace"), (b"x_forwarded_user", b"eve")
    assert await through(scope_of("192.0.2.1", own, own, mistaken, kind=kind)) == []
    assert await through(scope_of("127.0.0.1", own, mistaken, kind=kind)) == [own]
    # Two of a proxy's arrive as two, which name no one.
    assert await through(scope_of("127.0.0.1", own, own, kind=kind)) == [own, own]


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("header")
async def test_a_socket_is_that_of_the_user_whom_the_proxy_names() -> None:
    def cookie_of(browser: Client) -> bytes:
        return f"{settings.SESSION_COOKIE_NAME}={browser.cookies[settings.SESSION_COOKIE_NAME].value}".encode()

    def log_in() -> tuple[bytes, bytes]:
        by_proxy = Client()
        by_proxy.get("/login/", headers={HEADER: "grace"})
        return cookie_of(by_proxy), cookie_of(client_of(make_user("bob", Role.OPERATOR)))

    async def role_of(cookie: bytes, *names: bytes) -> str:
        named = [(b"x-forwarded-user", name) for name in names]
        user = await allowed_user(scope_of("127.0.0.1", (b"cookie", cookie), *named, kind="websocket"))
        return f"{user.username} {user.role}" if user is not None else ""

    assert "/ws/live/" in SOCKETS
    by_proxy, own = await database_sync_to_async(log_in)()
    assert await role_of(by_proxy, b"grace") == "grace admin"
    assert await role_of(own) == "bob operator"
    for cookie, names in ((by_proxy, ()), (by_proxy, (b"ada",)), (by_proxy, (b"grace", b"grace")), (own, (b"grace",))):
        assert await role_of(cookie, *names) == ""
