"""The page of tokens: made with their secret shown once, listed, revoked; audited; and the engine follows."""

import re
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from django.core.management.base import CommandError
from django.test import Client

from admin_console.audit.models import AuditRow
from admin_console.management import audited_command
from admin_console.management.commands import token as token_command
from admin_console.vocabulary.roles import Role
from queue_engine.service.identity.token import TokenState
from queue_engine.service.identity.token_file import TokenFile
from queue_engine.service.runner import EngineRunner
from tests.support.nsq_socket import FRAME_ERROR, FRAME_RESPONSE, NsqSocket, sized
from tests.support.pages.console import client_of, console_engine, make_user

pytestmark = pytest.mark.django_db
FORM = {"token_name": "deploy", "allow": ["publish", "consume"], "topics": "orders.*, logs", "valid_days": "30"}


@pytest.fixture
def engine(tmp_path: Path, settings: Any) -> Iterator[EngineRunner]:
    settings.DATA_PATH = tmp_path
    with console_engine(tmp_path) as runner:
        yield runner


def secret_in(page: str) -> str:
    found = re.search(r">(pst_[0-9a-f]{12}_[0-9a-f]{64})</textarea>", page)
    assert found is not None, page
    return found[1]


def test_a_token_is_made_used_and_revoked(client: Client, engine: EngineRunner, tmp_path: Path) -> None:
    page = client.get("/tokens/").content.decode()
    assert "No tokens" in page
    assert "no program needs one" in page
    assert "It is the first one" in client.get("/tokens/~create/").content.decode()
    answer = client.post("/tokens/~create/", FORM)
    assert answer.status_code == 200
    assert answer.headers["Cache-Control"] == "no-store"
    secret = secret_in(answer.content.decode())
    (token,) = TokenFile(tmp_path).read() or ()
    assert token.fits(secret.encode())
    assert (token.name, token.topics, token.created_by) == ("deploy", ("orders.*", "logs"), "ada")
    assert token.expires_ms - token.created_ms == 30 * 86_400_000
    # Shown once: not on the list, not after a reload of it, not in the audit list.
    page = client.get("/tokens/").content.decode()
    assert "deploy" in page
    assert "publish, consume" in page
    assert secret not in page
    assert not AuditRow.objects.filter(detail__contains=secret).exists()
    assert not AuditRow.objects.filter(message__contains=secret).exists()
    # The engine follows within a second, and so do its connections.
    engine_client = NsqSocket(engine.tcp_address[1])
    engine_client.send(b"AUTH\n" + sized(secret.encode()) + b"SUB logs ch\n")
    assert b'"identity":"deploy"' in engine_client.read_frame()[1]
    assert engine_client.read_frame() == (FRAME_RESPONSE, b"OK")
    page = client.get(f"/tokens/{token.id}/~revoke/").content.decode()
    assert "Revoke the token deploy" in page
    answer = client.post(f"/tokens/{token.id}/~revoke/", {"reason": "left the team"}, follow=True)
    assert "Revoked the token deploy" in answer.content.decode()
    assert "Revoke…" not in answer.content.decode()
    again = client.post(f"/tokens/{token.id}/~revoke/", headers={"Accept": "application/json"}).json()
    assert again["ok"] is True
    assert re.fullmatch(
        r"The token deploy was revoked already, at .* UTC by ada; nothing was changed\.", again["message"]
    )
    assert engine_client.read_frame() == (FRAME_ERROR, b"E_UNAUTHORIZED AUTH the token deploy was revoked")
    engine_client.close()
    rows = AuditRow.objects.filter(action__endswith="_token").order_by("id")
    assert [(row.action, row.phase, row.verdict, row.actor, row.detail, row.reason) for row in rows] == [
        ("create_token", "intent", "", "ada", "deploy: publish, consume on orders.*, logs", ""),
        ("create_token", "result", "done", "ada", "deploy: publish, consume on orders.*, logs", ""),
        ("revoke_token", "intent", "", "ada", "deploy", "left the team"),
        ("revoke_token", "result", "done", "ada", "deploy", "left the team"),
        ("revoke_token", "intent", "", "ada", "deploy", ""),
        ("revoke_token", "result", "done", "ada", "deploy", ""),
    ]


def test_an_expired_token_is_revoked_so_that_no_clock_lets_it_in_again(client: Client, tmp_path: Path) -> None:
    file = TokenFile(tmp_path)
    expired, _ = file.create("nightly", ["publish"], [], expires_ms=1_750_000_000_000, by="ada", now_ms=1)
    page = client.get("/tokens/").content.decode()
    assert '<span class="chip chip-warning">expired</span>' in page
    url = f"/tokens/{expired.id}/~revoke/"
    assert f'href="{url}"' in page
    question = unescape(client.get(url).content.decode())
    assert "It expired at 2025-06-15 15:06:40 UTC by this server's clock, and is refused." in question
    assert "Once revoked, it stays refused even if that clock is set back." in question
    assert "Revoked the token nightly" in client.post(url, follow=True).content.decode()
    (token,) = file.read() or ()
    assert token.state(2) is TokenState.REVOKED, "also while it had not expired"


def test_a_wrong_form_comes_back_as_it_was_filled_in(client: Client, tmp_path: Path) -> None:
    for changed, complaint in (
        ({"token_name": " "}, "The token needs a name."),
        ({"token_name": "a/b"}, "is no name of a token"),
        ({"allow": []}, "Choose the token's permissions."),
        ({"allow": ["own"]}, "is no permission"),
        ({"topics": "orders/eu"}, "is not a topic pattern"),
        ({"valid_days": "-1"}, "is no time to expire after"),
    ):
        answer = client.post("/tokens/~create/", {**FORM, **changed})
        assert answer.status_code == 400, changed
        page = answer.content.decode()
        assert complaint in page.replace("&#x27;", "'"), changed
        if "token_name" not in changed:
            assert 'value="deploy"' in page, changed
        assert TokenFile(tmp_path).read() is None, changed


def test_a_damaged_file_is_named_and_nothing_is_made(client: Client, tmp_path: Path) -> None:
    path = tmp_path / "tokens.json"
    path.write_bytes(b"{}\n00000000\n")
    page = client.get("/tokens/").content.decode()
    assert "Tokens can&#x27;t be read" in page or "Tokens can't be read" in page
    assert "is damaged" in page
    assert "is damaged" in client.post("/tokens/~create/", FORM).content.decode()
    # Every other page says so, too, until the file is well.
    notice = "the tokens read before stay valid"
    assert notice in client.get("/topics/").content.decode().replace("&#x27;", "'")
    assert path.read_bytes() == b"{}\n00000000\n"
    path.unlink()
    assert notice not in client.get("/topics/").content.decode().replace("&#x27;", "'")


@pytest.mark.parametrize("role", [Role.VIEWER, Role.OPERATOR])
def test_others_than_admins_see_no_tokens(engine: EngineRunner, role: Role) -> None:
    client = client_of(make_user(role=role))
    assert client.get("/tokens/").status_code == 403
    assert 'href="/tokens/"' not in client.get("/").content.decode()


class CutOffError(BaseException):
    """The process ends here."""


@pytest.mark.parametrize(
    ("verb", "further"), [("create", {"allow": ["publish"], "topic": [], "expires_in": "0"}), ("revoke", {})]
)
def test_a_command_that_is_cut_off_leaves_its_row(
    client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, verb: str, further: dict[str, Any]
) -> None:
    """The change is on the disk when its process is killed, and the audit list has who began it."""
    change = getattr(TokenFile, verb)

    def cut_behind(*given: Any, **named: Any) -> None:
        change(*given, **named)
        raise CutOffError

    TokenFile(tmp_path).create("other", ["publish"], [], expires_ms=0, by="", now_ms=1)
    monkeypatch.setattr(TokenFile, verb, cut_behind)
    monkeypatch.setattr(audited_command.os.path, "lexists", lambda path: True)
    monkeypatch.setattr(audited_command, "complaint_about_version", lambda path: "")
    name = "deploy" if verb == "create" else "other"
    with pytest.raises(CutOffError):
        token_command.Command().handle(verb=verb, name=name, **further)
    rows = AuditRow.objects.filter(action=f"{verb}_token", via="command-line")
    assert [(row.phase, row.detail.partition(":")[0]) for row in rows] == [("intent", name)]
    assert "no result" in client.get("/audit/").content.decode()


def test_a_command_writes_what_came_of_it(
    engine: EngineRunner, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audited_command.os.path, "lexists", lambda path: True)
    monkeypatch.setattr(audited_command, "complaint_about_version", lambda path: "")
    create = {"verb": "create", "name": "ci", "allow": ["publish"], "topic": [], "expires_in": "0"}
    token_command.Command().handle(**create)
    assert capsys.readouterr().out.startswith("pst_")
    with pytest.raises(CommandError, match="There is a token ci already"):
        token_command.Command().handle(**create)
    rows = AuditRow.objects.filter(action="create_token").order_by("id")
    assert [(row.phase, row.verdict, row.message) for row in rows] == [
        ("intent", "", ""),
        ("result", "done", "Created the token ci: publish on *."),
        ("intent", "", ""),
        ("result", "failed", "there is a token ci already: revoke it first, or take another name"),
    ]


def test_of_two_questions_about_tokens_each_is_about_its_own(client: Client, tmp_path: Path) -> None:
    for name in ("deploy", "report"):
        client.post("/tokens/~create/", FORM | {"token_name": name})
    urls = {token.name: f"/tokens/{token.id}/~revoke/" for token in TokenFile(tmp_path).read() or ()}
    shown = {
        name: re.findall(r'name="shown" value="([^"]+)"', client.get(url).content.decode())
        for name, url in urls.items()
    }
    assert (
        "Revoked the token deploy"
        in client.post(urls["deploy"], {"shown": shown["deploy"]}, follow=True).content.decode()
    )
    assert (
        "Revoked the token report"
        in client.post(urls["report"], {"shown": shown["report"]}, follow=True).content.decode()
    )
    again = client.post(urls["deploy"], {"shown": shown["deploy"]}, headers={"Accept": "application/json"})
    assert (again.status_code, again.json()["code"]) == (409, "STATE_CHANGED")
