"""Who may hold a socket: told by the session's cookie, again and again while it is open."""

from http.cookies import SimpleCookie
from typing import Any

import pytest
from channels.db import database_sync_to_async
from django.conf import settings
from django.test import AsyncClient

from admin_console.accounts import session_age
from admin_console.accounts.models import User
from admin_console.live.socket_auth import allowed_user, users_of
from admin_console.vocabulary.roles import Role
from tests.support.pages.console import client_of, make_user

pytestmark = pytest.mark.django_db(transaction=True)


async def signed_in(role: Role = Role.VIEWER) -> tuple[User, AsyncClient, dict[str, Any]]:
    """A user, his browser, and the scope of a socket that it opens."""
    user = await database_sync_to_async(make_user)(role=role)
    client = AsyncClient()
    await client.aforce_login(user)
    cookie = f"theme=dark; {settings.SESSION_COOKIE_NAME}={client.cookies[settings.SESSION_COOKIE_NAME].value}"
    return user, client, {"path": "/ws/live/", "headers": [(b"cookie", cookie.encode())]}


async def test_session_tells_user_and_role() -> None:
    user, _, scope = await signed_in(Role.OPERATOR)
    found = await allowed_user(scope)
    assert found is not None
    assert (found.user_id, found.username, found.role) == (user.pk, "ada", Role.OPERATOR)


@pytest.mark.parametrize("cookie", [b"", b"x=y", b"\xff;;=", b"penstock_session=stolen"])
async def test_no_session_is_nobody(cookie: bytes) -> None:
    assert await allowed_user({"path": "/ws/live/", "headers": [(b"cookie", cookie)]}) is None
    assert await allowed_user({"path": "/ws/live/", "headers": []}) is None


async def test_unknown_path_is_for_nobody() -> None:
    _, _, scope = await signed_in(Role.ADMIN)
    assert await allowed_user(scope | {"path": "/ws/other/"}) is None


async def test_log_out_ends_it() -> None:
    _, client, scope = await signed_in()
    assert await allowed_user(scope) is not None
    await client.alogout()
    assert await allowed_user(scope) is None


async def test_disabling_the_user_ends_it() -> None:
    user, _, scope = await signed_in()
    user.is_active = False
    await user.asave()
    assert await allowed_user(scope) is None


async def test_password_change_ends_it() -> None:
    user, _, scope = await signed_in()
    user.set_password("another long password")
    await user.asave()
    assert await allowed_user(scope) is None


async def test_role_is_read_again() -> None:
    user, _, scope = await signed_in(Role.ADMIN)
    user.role = Role.VIEWER
    await user.asave()
    found = await allowed_user(scope)
    assert found is not None
    assert found.role == Role.VIEWER


def test_one_look_is_two_queries_however_many_sessions_there_are(django_assert_num_queries: Any) -> None:
    keys = [str(client_of(make_user(f"user{number}")).session.session_key) for number in range(5)]
    users_of(keys)  # notes that they are there
    with django_assert_num_queries(2):
        found = users_of([*keys, "gone"])
    assert [found[key].username for key in keys] == [f"user{number}" for number in range(5)]
    assert "gone" not in found


async def test_idle_session_ends_and_an_open_socket_keeps_it_alive() -> None:
    _, client, scope = await signed_in()
    session = await client.asession()
    await session.aset(session_age.STARTED_KEY, 0)
    await session.aset(session_age.SEEN_KEY, 0)
    await session.asave()
    assert await allowed_user(scope) is None

    _, _, scope = await signed_in_again()
    assert await allowed_user(scope) is not None
    morsel = SimpleCookie(scope["headers"][0][1].decode())[settings.SESSION_COOKIE_NAME]
    session = type(session)(morsel.value)
    assert await session.aget(session_age.SEEN_KEY) > 0


async def signed_in_again() -> tuple[User, AsyncClient, dict[str, Any]]:
    await User.objects.all().adelete()
    return await signed_in()
