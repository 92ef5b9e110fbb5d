"""One table covers every URL and socket: a view without a rule fails here, and every role meets every URL."""

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

import pytest
from django.test import Client
from django.urls import NoReverseMatch, get_resolver, reverse

from admin_console.audit.models import AuditRow
from admin_console.live.consumers import websocket_urlpatterns
from admin_console.permissions.allowed import Allowed, WhyNot, may_use
from admin_console.permissions.table import ACTS, ANYONE, LEAST_ROLES, SOCKETS
from admin_console.vocabulary.roles import Role
from queue_engine.engine.engine_calls import ENGINE_ACTS
from queue_engine.service.http.rules import PATHS, Rule
from queue_engine.vocabulary.acts import table as engine_acts
from tests.support.clock import ManualClock
from tests.support.engine import make_engine
from tests.support.lakes.pipeline_lake import planned_replay
from tests.support.pages.console import client_of, console_engine, make_user
from tests.support.pages.urls import CHANNEL, CURSOR, GONE, REPLAY, TOPIC, WITHOUT_PARAMETERS, all_urls

URLS = all_urls()


def test_every_url_has_a_rule_and_every_rule_a_url() -> None:
    assert {name for name, _ in URLS} == set(LEAST_ROLES)


def test_every_socket_has_a_rule_and_every_rule_a_socket() -> None:
    assert {f"/{pattern.pattern}" for pattern in websocket_urlpatterns} == set(SOCKETS)


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[None]:
    with console_engine(tmp_path) as runner:
        runner.calls.create_topic(TOPIC).result(30)
        runner.calls.create_channel(TOPIC, CHANNEL).result(30)
        runner.calls.create_cursor(TOPIC, cursor=CURSOR).result(30)
        runner.calls.publish(TOPIC, [b"the message of the paths"]).result(30)
        planned_replay(tmp_path / "pipeline", REPLAY, topic=TOPIC)
        yield


@pytest.mark.django_db
@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("role", list(Role))
def test_each_role_opens_what_the_table_says_and_nothing_else(role: Role) -> None:
    client = client_of(make_user(role=role))
    for name, path in URLS:
        answer = client.get(path)
        least = LEAST_ROLES[name]
        if least == ANYONE or role.includes(Role(least)):
            is_gone = answer.status_code == (404 if name in GONE else 400 if name in WITHOUT_PARAMETERS else 0)
            assert is_gone or answer.status_code in (200, 302, 405), (name, answer.status_code)
        else:
            assert answer.status_code == 403, (name, answer.status_code)
            assert f"eeds the role {least}; yours is {role}." in answer.content.decode(), name


@pytest.mark.django_db
@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("role", list(Role))
def test_each_role_does_what_the_table_says_and_a_refusal_is_audited(role: Role) -> None:
    client = client_of(make_user(role=role))
    refused = []
    for name, path in URLS:
        if name in ACTS:
            # An empty form: who is allowed gets as far as being asked for more, or does the act.
            answer = client.post(path, headers={"Accept": "application/json"})
            if role.includes(ACTS[name]):
                assert answer.status_code in (200, 400, 404), (name, answer.content)
            else:
                refused.append(name)
                assert answer.status_code == 403, name
                assert answer.json() == {
                    "ok": False,
                    "message": f"This act needs the role {ACTS[name].value}; yours is {role.value}.",
                }
    rows = AuditRow.objects.filter(phase="refused").order_by("id")
    assert [row.action for row in rows] == refused
    assert {(row.actor, row.role, row.verdict) for row in rows} <= {("ada", role.value, "refused")}


@pytest.mark.django_db
def test_strangers_are_sent_to_the_log_in_or_told_401() -> None:
    client = Client()
    for name, path in URLS:
        page, act = client.get(path), client.post(path)
        if LEAST_ROLES[name] == ANYONE:
            assert page.status_code == 200, name
        elif path.startswith(("/api/", "/config/")):
            assert (page.status_code, act.status_code) == (401, 401), name
            assert page.json()["ok"] is False
        else:
            assert page.status_code == 302, name
            assert page["Location"].startswith("/login/?next="), name
            assert act.status_code == 401, name
    assert not AuditRow.objects.filter(phase="refused").exists()


@pytest.mark.django_db
@pytest.mark.usefixtures("engine")
def test_every_act_needs_a_csrf_token() -> None:
    client = client_of(make_user(), enforce_csrf_checks=True)
    for name, path in URLS:
        if name in ACTS or name in ("login", "logout", "password"):
            answer = client.post(path, {"typed_name": TOPIC})
            assert answer.status_code == 403, name
            assert "protection token" in answer.content.decode(), name
    assert not AuditRow.objects.exists()


@pytest.mark.django_db
def test_a_url_without_a_rule_is_refused_even_to_the_admin() -> None:
    admin = make_user()
    assert not may_use(admin, "brand_new_view")
    with pytest.raises(KeyError):
        Allowed(admin)["brand_new_view"]


@pytest.mark.django_db
def test_disabled_user_may_nothing_and_reasons_name_both_roles() -> None:
    viewer = make_user(role=Role.VIEWER)
    assert Allowed(viewer)["overview"]
    assert WhyNot(viewer)["overview"] == ""
    assert WhyNot(viewer)["delete_topic"] == "Needs the role admin; yours is viewer."
    acts = {
        "archive_on": "Archive",
        "stop_job": "Stop",
        "run_replay": "Run",
        "cancel_replay": "Run",
        "archive_off": "Stop archiving",
        "empty_topic": "Empty",
    }
    assert WhyNot(viewer).line(acts) == (
        "Archive, Stop and Run need the role operator, Stop archiving and Empty need the role admin; yours is viewer."
    )
    assert WhyNot(viewer).line({"overview": "Overview", "pause_topic": "Pause"}) == (
        "Pause needs the role operator; yours is viewer."
    )
    assert WhyNot(viewer).line({"overview": "Overview"}) == ""
    viewer.is_active = False
    assert not Allowed(viewer)["overview"]


@pytest.mark.django_db
def test_session_of_a_user_disabled_meanwhile_is_over() -> None:
    user = make_user()
    client = client_of(user)
    user.is_active = False
    user.save()
    assert client.get("/password/").status_code == 302


@pytest.mark.parametrize("name", ["create", "~x", ".", "..", "a b", "a#ephemeral", "act", "channels", "x" * 64])
def test_no_name_stands_for_a_path_of_ours(name: str) -> None:
    if name in ("~x", ".", "..", "a b"):
        with pytest.raises(NoReverseMatch):
            reverse("topic", args=(name,))
        return
    path = reverse("channel", args=(name, name))
    assert "#" not in path
    match = get_resolver().resolve(unquote(path))
    assert (match.view_name, match.kwargs) == ("channel", {"topic": name, "channel": name})


# Who may do what, once more and by hand: the product's own table can't check itself. An act, the least role on a page,
# the permission of a token over HTTP; - for none.
DECIDED = """
create_topic        operator   administer
create_channel      operator   administer
publish             operator   -
pause_topic         operator   administer
unpause_topic       operator   administer
pause_channel       operator   administer
unpause_channel     operator   administer
retry_topic         operator   administer
retry_channel       operator   administer
requeue_channel     operator   administer
release_deferred    operator   administer
requeue_messages    operator   administer
release_messages    operator   administer
publish_again       operator   administer
set_max_attempts    operator   administer
redrive_channel     operator   administer
cancel_redrive      operator   administer
archive_on          operator   -
stop_job            operator   -
start_job           operator   -
plan_replay         operator   -
run_replay          operator   -
cancel_replay       operator   -
tombstone_producer  operator   -
register_name       operator   -
unregister_topic    admin      -
unregister_channel  admin      -
create_token        admin      -
set_addresses       admin      -
revoke_token        admin      -
finish_messages     admin      administer
rewind_channel      admin      administer
empty_topic         admin      administer
empty_channel       admin      administer
delete_topic        admin      administer
delete_channel      admin      administer
restore_trash       admin      administer
delete_trash        admin      administer
delete_cursor       admin      consume
archive_off         admin      -
archive_again       admin      -
set_archive_limits  admin      -
quarantine_messages operator   administer
redrive_messages    operator   administer
expire_trash        -          -
give_up_trash       -          -
read_messages       -          -
create_cursor       -          consume
move_cursor         -          consume
release_lease       -          -
change_option       -          -
"""


def test_each_act_needs_the_role_and_the_permission_that_were_decided() -> None:
    over_http = {
        entry.action: entry.permission for entry in PATHS.values() if entry.method == "POST" and not entry.publishes
    }
    over_http.pop("read_messages")
    found = {f"{name} {act.role or '-'} {over_http.get(name) or '-'}" for name, act in engine_acts.ACTS.items()}
    assert found == {" ".join(line.split()) for line in DECIDED.split("\n") if line}
    assert over_http.keys() - engine_acts.ACTS.keys() == {""}


def test_each_act_of_the_table_has_its_method_and_each_act_over_http_its_row(tmp_path: Path) -> None:
    engine = make_engine(tmp_path, ManualClock())
    for name, call in ENGINE_ACTS.items():
        assert callable(call.on(engine)), name
    changes = {entry.action for entry in PATHS.values() if entry.rule is Rule.CHANGES and entry.action}
    assert changes - {"list_trash", "change_option"} <= ENGINE_ACTS.keys()
    assert ENGINE_ACTS.keys() <= engine_acts.ACTS.keys()
    # A list of cursors is not audited, unless it is refused.
    assert {entry.action for entry in PATHS.values() if entry.action} - engine_acts.ACTS.keys() == {
        "list_cursors",
        "list_trash",
    }
    engine.close()
