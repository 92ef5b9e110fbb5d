"""Logging in and out, throttling, passwords, the first admin, and `penstock user`."""

import io
import os
import pwd
import re
import stat
from pathlib import Path

import pytest
from django.contrib.sessions.models import Session
from django.core.management import CommandError, call_command
from django.db import DatabaseError
from django.test import Client

from admin_console.accounts import session_age
from admin_console.accounts.first_admin import make_first_admin, password_file
from admin_console.accounts.hashers import ConsoleArgon2Hasher
from admin_console.accounts.models import User
from admin_console.audit.models import AuditRow
from admin_console.vocabulary.roles import Role
from tests.support.pages.console import PASSWORD, client_of, make_user

pytestmark = pytest.mark.django_db


def log_in(client: Client, username: str = "ada", password: str = PASSWORD, **extra: str):
    return client.post("/login/", {"username": username, "password": password, **extra})


def test_right_password_opens_the_console_and_is_audited() -> None:
    make_user()
    client = Client()
    answer = log_in(client)
    assert (answer.status_code, answer["Location"]) == (302, "/")
    assert client.get("/password/").status_code == 200
    row = AuditRow.objects.get()
    assert (row.actor, row.action, row.verdict, row.address) == ("ada", "log_in", "done", "127.0.0.1")


def test_wrong_password_and_unknown_name_get_the_same_answer() -> None:
    make_user()
    wrong, unknown = log_in(Client(), password="not it"), log_in(Client(), username="eve")
    assert wrong.status_code == unknown.status_code == 400
    for answer in (wrong, unknown):
        assert "This name and password do not go together." in answer.content.decode()
    assert list(AuditRow.objects.values_list("verdict", flat=True)) == ["failed", "failed"]


def test_disabled_user_gets_the_answer_of_a_wrong_password() -> None:
    user = make_user()
    user.is_active = False
    user.save()
    assert log_in(Client()).status_code == 400


def test_log_in_makes_a_new_session_key() -> None:
    make_user()
    client = Client()
    session = client.session
    session["planted"] = True
    session.save()
    before = session.session_key
    log_in(client)
    assert client.session.session_key != before
    assert not Session.objects.filter(session_key=before).exists()


def test_log_in_makes_a_new_session_key_for_who_is_logged_in_already() -> None:
    make_user()
    client = Client()
    log_in(client)
    before = client.session.session_key
    log_in(client)
    assert client.session.session_key != before
    assert not Session.objects.filter(session_key=before).exists()


@pytest.mark.parametrize(
    ("wanted", "location"),
    [
        ("/topics/?q=a", "/topics/?q=a"),
        ("https://evil.example/", "/"),
        ("//evil.example/", "/"),
        ("/\\evil.example/", "/"),
        ("javascript:alert(1)", "/"),
        ("", "/"),
    ],
)
def test_log_in_goes_on_to_pages_of_ours_only(wanted: str, location: str) -> None:
    make_user()
    assert log_in(Client(), next=wanted)["Location"] == location


def test_log_in_needs_a_csrf_token() -> None:
    make_user()
    client = Client(enforce_csrf_checks=True)
    answer = log_in(client)
    assert answer.status_code == 403
    assert "protection token" in answer.content.decode()


def test_log_out_is_a_post_and_ends_the_session() -> None:
    client = client_of(make_user())
    assert client.get("/logout/").status_code == 405
    assert client.post("/logout/")["Location"] == "/login/"
    assert client.get("/password/")["Location"] == "/login/?next=%2Fpassword%2F"


def test_session_is_over_when_idle_or_old() -> None:
    session: dict[str, int] = {}
    session_age.start(session, now_s=1000)
    assert not session_age.is_over(session, 1000 + 29 * 60)
    assert session_age.is_over(session, 1000 + 31 * 60)
    for minute in range(0, 12 * 60, 20):
        session_age.touch(session, 1000 + minute * 60)
    assert not session_age.is_over(session, 1000 + 12 * 3600 - 60)
    session_age.touch(session, 1000 + 12 * 3600)
    assert session_age.is_over(session, 1000 + 12 * 3600 + 1)


def end_session(client: Client) -> None:
    session = client.session
    session[session_age.SEEN_KEY] -= 31 * 60
    session.save()


OVER = "Your session is over; log in to go on."


def test_idle_session_is_sent_to_the_log_in_which_says_so_and_leads_back() -> None:
    make_user()
    client = Client()
    assert OVER not in client.get("/password/", follow=True).content.decode(), "there was none"
    log_in(client)
    end_session(client)
    answer = client.get("/password/?from=menu", follow=True)
    assert answer.redirect_chain == [("/login/?next=%2Fpassword%2F%3Ffrom%3Dmenu", 302)]
    assert OVER in answer.content.decode()
    assert '<input type="hidden" name="next" value="/password/?from=menu">' in answer.content.decode()
    wrong = log_in(client, password="not it", next="/password/?from=menu").content.decode()
    assert OVER not in wrong, "one thing at a time"
    assert log_in(client, next="/password/?from=menu")["Location"] == "/password/?from=menu"
    client.post("/logout/")
    assert OVER not in client.get("/login/").content.decode(), "the user has ended it"


def test_an_act_without_a_session_does_nothing_and_its_question_is_asked_after_the_log_in() -> None:
    make_user()
    client = Client()
    log_in(client)
    end_session(client)
    answer = client.post("/topics/~create/", {"topic": "orders"})
    assert answer.status_code == 401
    page = answer.content.decode()
    assert "Your session is over, or you have not logged in. Nothing was done; log in to go on." in page
    assert 'href="/login/?next=%2Ftopics%2F~create%2F">Log in</a>' in page
    in_dialog = client.post("/topics/~create/", {"topic": "orders"}, headers={"X-Fragment": "1"})
    assert in_dialog.status_code == 401
    assert in_dialog.content.decode().endswith("Nothing was done; log in to go on.")


def test_password_change_ends_the_other_sessions_and_removes_the_first_password(settings, tmp_path: Path) -> None:
    settings.DATA_PATH = tmp_path
    admin = make_first_admin(tmp_path, {})
    assert admin is not None
    here, elsewhere = Client(), Client()
    for client in (here, elsewhere):
        log_in(client, "admin", admin.password)
    make_first_password(tmp_path, "admin")
    answer = here.post("/password/", {"current": admin.password, "new": PASSWORD, "again": PASSWORD}, follow=True)
    assert "Your password is changed" in answer.content.decode() or answer.status_code == 200
    assert here.get("/password/").status_code == 200
    assert elsewhere.get("/password/").status_code == 302
    assert not password_file(tmp_path).exists()


def make_first_password(directory: Path, name: str) -> None:
    password_file(directory).write_text(f"user: {name}\npassword: {PASSWORD}\n")


def test_the_first_log_in_removes_the_file_with_the_first_password(settings, tmp_path: Path) -> None:
    settings.DATA_PATH = tmp_path
    admin = make_first_admin(tmp_path, {})
    assert admin is not None
    make_user("grace", Role.VIEWER)
    for name, password, stays in (
        ("admin", "wrong", True),
        ("grace", PASSWORD, True),
        ("admin", admin.password, False),
    ):
        log_in(Client(), name, password)
        assert password_file(tmp_path).exists() is stays, name


def test_a_log_in_succeeds_where_the_disk_keeps_the_file(
    settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    settings.DATA_PATH = tmp_path
    admin = make_first_admin(tmp_path, {})
    assert admin is not None

    def refused(*_: object, **__: object) -> None:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr("pathlib.Path.unlink", refused)
    client = Client()
    log_in(client, "admin", admin.password)
    assert client.get("/password/").status_code == 200
    assert f"{password_file(tmp_path)} can't be removed" in caplog.text


@pytest.mark.parametrize(
    ("current", "new", "again", "sentence"),
    [
        ("not it", "a new long password", "a new long password", "not your current password"),
        (PASSWORD, "a new long password", "another", "differ"),
        (PASSWORD, "short", "short", "too short"),
        (PASSWORD, "password123", "password123", "too common"),
        (PASSWORD, "x" * 1025, "x" * 1025, "more than 1024"),
    ],
)
def test_password_change_says_what_is_wrong(current: str, new: str, again: str, sentence: str) -> None:
    user = make_user()
    answer = client_of(user).post("/password/", {"current": current, "new": new, "again": again})
    assert answer.status_code == 400
    assert sentence in answer.content.decode()
    assert User.objects.get().check_password(PASSWORD)


def test_first_admin_has_a_random_password_in_a_private_file(tmp_path: Path) -> None:
    admin = make_first_admin(tmp_path, {})
    assert admin is not None
    path = password_file(tmp_path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert path.read_text() == f"user: admin\npassword: {admin.password}\n"
    user = User.objects.get()
    assert (user.username, user.role) == ("admin", Role.ADMIN)
    assert user.check_password(admin.password)
    assert len(admin.password) >= 20


def test_first_admin_comes_from_the_environment_without_a_file(tmp_path: Path) -> None:
    admin = make_first_admin(tmp_path, {"PENSTOCK_ADMIN_USER": "grace", "PENSTOCK_ADMIN_PASSWORD": PASSWORD})
    assert admin is not None
    assert User.objects.get(username="grace").check_password(PASSWORD)
    assert list(tmp_path.iterdir()) == []


def test_no_first_admin_where_there_is_a_user(tmp_path: Path) -> None:
    make_user(role=Role.VIEWER)
    assert make_first_admin(tmp_path, {}) is None


def test_first_admins_bad_password_is_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="PENSTOCK_ADMIN_PASSWORD: This password is too short"):
        make_first_admin(tmp_path, {"PENSTOCK_ADMIN_PASSWORD": "short"})
    assert not User.objects.exists()


def run_user(*arguments: str, stdin: str = "", monkeypatch: pytest.MonkeyPatch | None = None) -> str:
    if monkeypatch is not None:
        monkeypatch.setattr("sys.stdin", io.StringIO(stdin))
    out = io.StringIO()
    call_command("user", *arguments, stdout=out)
    return out.getvalue()


def test_user_command_adds_changes_disables_and_lists(monkeypatch: pytest.MonkeyPatch) -> None:
    make_user("root", Role.ADMIN)
    added = run_user(
        "add", "grace", "--role", "operator", "--password-stdin", stdin=f"{PASSWORD}\n", monkeypatch=monkeypatch
    )
    assert added == "Added grace as operator.\n"
    assert User.objects.get(username="grace").check_password(PASSWORD)
    assert run_user("role", "grace", "viewer") == "grace is viewer now, and was operator.\n"
    grace = client_of(User.objects.get(username="grace"))
    assert grace.get("/password/").status_code == 200
    assert "its sessions are ended" in run_user("disable", "grace")
    assert grace.get("/password/").status_code == 302
    assert "disabled" in run_user("list")
    assert run_user("enable", "grace") == "grace can log in again.\n"
    run_user("password", "grace", "--password-stdin", stdin="a wholly new one\n", monkeypatch=monkeypatch)
    assert User.objects.get(username="grace").check_password("a wholly new one")
    actions = list(AuditRow.objects.order_by("id").values_list("action", flat=True))
    assert actions == ["add_user", "change_role", "disable_user", "enable_user", "set_password"]


def test_user_command_names_the_account_it_runs_as_whatever_the_environment_says(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    make_user("grace", Role.OPERATOR)
    for name in ("LOGNAME", "USER", "LNAME", "USERNAME", "SUDO_USER"):
        monkeypatch.setenv(name, "somebody-else")
    run_user("role", "grace", "viewer")
    assert AuditRow.objects.get().actor == pwd.getpwuid(os.getuid()).pw_name


def test_user_command_changes_nothing_when_its_row_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    make_user("grace", Role.OPERATOR)

    def refused(_: object) -> None:
        raise DatabaseError("database or disk is full")

    monkeypatch.setattr("admin_console.audit.record.append", refused)
    with pytest.raises(DatabaseError):
        run_user("role", "grace", "viewer")
    assert User.objects.get(username="grace").role == Role.OPERATOR


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("add", "root", "--role", "viewer", "--password-stdin"), "A user root exists already."),
        (("add", "-bad name", "--role", "viewer", "--password-stdin"), "is not a user name"),
        (("role", "nobody", "viewer"), "There is no user nobody."),
        (("role", "root", "viewer"), "root is the only admin"),
        (("disable", "root"), "root is the only admin"),
        (("enable", "root"), "root is not disabled."),
    ],
)
def test_user_command_refuses_in_a_sentence(
    arguments: tuple[str, ...], sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_user("root", Role.ADMIN)
    if "-bad name" in arguments:
        arguments = (arguments[0], *arguments[2:], "--", arguments[1])
    with pytest.raises(CommandError, match=sentence):
        run_user(*arguments, stdin=f"{PASSWORD}\n", monkeypatch=monkeypatch)
    assert User.objects.count() == 1


def test_too_little_memory_for_a_hash_is_a_sentence_and_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_user("root", Role.ADMIN)
    # Four tebibytes: no machine gives them.
    monkeypatch.setattr(ConsoleArgon2Hasher, "memory_cost", (1 << 32) - 1)
    with pytest.raises(CommandError, match=r"can't be hashed: Memory allocation error\. Nothing was changed"):
        run_user("password", "root", "--password-stdin", stdin="another-Pass-1\n", monkeypatch=monkeypatch)
    User.objects.all().delete()
    with pytest.raises(ValueError, match=r"The password of admin can't be hashed: .* Free memory and start again\."):
        make_first_admin(tmp_path, {})
    assert not User.objects.exists()


def clock_of_page(client: Client, path: str = "/password/") -> str:
    found = re.search(r'<html lang="en" data-clock="(\w+)">', client.get(path).content.decode())
    assert found is not None
    return found[1]


def test_clock_is_local_until_chosen_and_follows_the_user_to_another_browser() -> None:
    user, other = make_user(), make_user("eve")
    assert clock_of_page(client_of(user)) == "local"
    assert client_of(user).post("/clock/", {"clock": "utc"}).status_code == 204
    assert clock_of_page(client_of(user)) == "utc"
    assert clock_of_page(client_of(other)) == "local"


def test_clock_of_a_link_holds_for_its_page_alone() -> None:
    client = client_of(make_user())
    assert clock_of_page(client, "/password/?tz=utc") == "utc"
    assert clock_of_page(client, "/password/?tz=Mars") == "local"
    assert clock_of_page(client) == "local"
    client.post("/clock/", {"clock": "utc"})
    assert clock_of_page(client, "/password/?tz=local") == "local"


def test_clock_that_does_not_exist_is_refused_and_changes_nothing() -> None:
    client = client_of(make_user())
    client.post("/clock/", {"clock": "utc"})
    answer = client.post("/clock/", {"clock": "Mars"})
    assert (answer.status_code, answer.content.decode()) == (
        400,
        "'Mars' is not a clock; it can be local or utc. Nothing was changed.",
    )
    assert clock_of_page(client) == "utc"
