"""A session ends while a form is filled in: after the log-in the form is as it was, for the same user alone."""

import re
import time
from html import unescape
from typing import Any

import pytest
from django.http import HttpResponse
from django.test import Client

from admin_console.answers import drafts
from admin_console.audit.models import AuditRow
from queue_engine.service.runner import EngineRunner
from tests.support.pages.console import PASSWORD, client_of, make_user

pytestmark = pytest.mark.django_db

FILLED_IN = "It is filled in as you left it; nothing was done yet."
FRAGMENT = {"X-Fragment": "1"}


@pytest.fixture
def ada(engine: EngineRunner) -> Client:
    return client_of(make_user("ada"), enforce_csrf_checks=True)


def fields_of(page: HttpResponse) -> dict[str, Any]:
    """The hidden fields of a page's form, names that come again with all values."""
    found: dict[str, Any] = {}
    text = page.content.decode()
    for name, value in re.findall(r'<input type="hidden" name="([^"]+)" value="([^"]*)"', text[text.index("<main") :]):
        found.setdefault(unescape(name), []).append(unescape(value))
    return found


def log_in(browser: Client, page: HttpResponse, name: str, password: str = PASSWORD) -> HttpResponse:
    answer: Any = browser.post("/login/", fields_of(page) | {"username": name, "password": password})
    return answer


def end_session(browser: Client) -> None:
    del browser.cookies[next(name for name in browser.cookies if name.startswith("penstock_session"))]


def filled(browser: Client, path: str, **typed: Any) -> dict[str, Any]:
    """The form of this act as a person has filled it in."""
    return fields_of(browser.get(path)) | typed


def acts_done() -> int:
    return AuditRow.objects.exclude(action__in=["log_in", "change_password"]).count()


def test_a_form_that_is_sent_after_the_session_ended_is_back_after_the_log_in_and_sent_again_it_is_done(
    ada: Client,
) -> None:
    path = "/topics/orders/~publish/?next=/topics/"
    body = '{"a": "ü",\r\n <b> "100%"}\r\n' * 30_000  # about 1 MB
    form = filled(ada, path, body=body, defer="5s", key="")
    end_session(ada)
    page = ada.post(path, form)
    assert page.status_code == 401
    assert "Nothing was done; after the log-in the form is filled in as you left it." in page.content.decode()
    assert 'name="username" value="ada"' in page.content.decode()
    wrong = log_in(ada, page, "ada", "wrong")
    assert (wrong.status_code, acts_done()) == (400, 0)
    answer = log_in(ada, wrong, "ada")
    assert (answer.status_code, answer["Location"]) == (302, path)
    question = ada.get(answer["Location"])
    text = unescape(question.content.decode())
    assert FILLED_IN in text
    assert body in text.replace("\n", "\r\n").replace("\r\r\n", "\r\n")
    assert 'name="defer" value="5s"' in text
    assert acts_done() == 0
    again = fields_of(question) | {"body": body, "defer": "5s"}
    assert ada.post(path, again).status_code == 302
    assert AuditRow.objects.get(phase="result", action="publish").actor == "ada"
    assert FILLED_IN not in ada.get(path).content.decode(), "it is used once"


def test_each_kind_of_field_is_filled_in_again(ada: Client) -> None:
    cases: dict[str, dict[str, Any]] = {
        "/topics/~create/": {"topic": "refunds", "storage": "diskqueue"},
        "/topics/orders/~create-channel/": {"channel": "audit"},
        "/topics/orders/billing/~pause/": {"for": "until", "until": "2030-01-01T10:00", "reason": "a <b> & c"},
        "/topics/orders/billing/~max-attempts/": {"max_attempts": "7", "reason": "since"},
        "/topics/orders/billing/~rewind/": {"place": "offset", "offset": "3", "reason": "again"},
        "/topics/orders/billing/~messages/~publish-again/": {"id": "2 3", "to": "orders", "reason": "lost"},
        "/topics/orders/~archive-on/": {"start": "end"},
        "/topics/orders/billing/~delete/": {"reason": "unused"},
        "/tokens/~create/": {"token_name": "shop", "allow": ["publish", "consume"], "topics": "a.*", "valid_days": "7"},
        "/topics/~selected/pause-channel/": {"on": ["orders/billing"], "for": "1h", "reason": "both"},
    }
    for path, typed in cases.items():
        form = filled(ada, f"{path}?on=orders/billing" if "on" in typed else path, **typed)
        old = {"csrfmiddlewaretoken": "x" * 64}  # of before the log-in
        text = unescape(ada.post(path, form | old, follow=True).content.decode())
        assert FILLED_IN in text, path
        for value in (one for given in typed.values() for one in (given if isinstance(given, list) else [given])):
            # A selection has a line of its nodes before it.
            shown = (f'value="{value}"', f"\n{value}</textarea>", f'\n{value}">')
            assert any(one in text for one in shown), (path, value)
        chosen = re.findall(r'value="([^"]*)" (?:checked|selected)', text)
        for name in {"storage", "for", "place", "start", "valid_days"} & typed.keys():
            assert typed[name] in chosen, (path, name)
    assert acts_done() == 0


def test_the_name_of_what_is_lost_is_typed_anew(ada: Client) -> None:
    path = "/topics/orders/billing/~delete/"
    form = filled(ada, path, typed_name="orders/billing", reason="unused")
    end_session(ada)
    text = ada.get(log_in(ada, ada.post(path, form), "ada")["Location"]).content.decode()
    assert FILLED_IN in text
    assert 'value="orders/billing"' not in text


@pytest.mark.parametrize("is_over", [True, False], ids=["session over", "another log-in"])
def test_a_row_s_own_button_is_about_that_message_whichever_boxes_are_ticked(ada: Client, *, is_over: bool) -> None:
    path = "/topics/orders/billing/~messages/~finish/"
    form = fields_of(ada.get(f"{path}?id=2")) | {"id": ["2"], "only": "3"}
    if is_over:
        end_session(ada)
        question = ada.get(log_in(ada, ada.post(path, form), "ada")["Location"])
    else:
        question = ada.post(path, form | {"csrfmiddlewaretoken": "x" * 64}, follow=True)
    text = question.content.decode()
    assert FILLED_IN in text
    assert re.findall(r'<textarea [^>]*name="id"[^>]*>\s*([^<]*)</textarea>', text) == ["3"]
    assert acts_done() == 0


def test_a_form_that_is_not_asked_soon_after_the_log_in_is_not_filled_in(
    ada: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = "/topics/orders/~publish/"
    form = filled(ada, path, body="hours ago")
    end_session(ada)
    log_in(ada, ada.post(path, form), "ada")
    now_s = time.time()
    monkeypatch.setattr(time, "time", lambda: now_s + drafts.LIFE_S)
    assert "hours ago" not in ada.get(path).content.decode()


@pytest.mark.parametrize("length", [0, 2, 4])
def test_a_draft_of_another_version_is_none(ada: Client, length: int) -> None:
    path = "/topics/orders/~publish/"
    session = ada.session
    session["draft"] = [path, "body=of+before", 0, 0][:length]
    session.save()
    page = ada.get(path)
    assert (page.status_code, "of before" in page.content.decode()) == (200, False)
    assert "draft" not in ada.session


def test_another_user_who_logs_in_sees_nothing_of_it(ada: Client) -> None:
    make_user("grace")
    path = "/topics/orders/~publish/"
    form = filled(ada, path, body="adas own words")
    end_session(ada)
    answer = log_in(ada, ada.post(path, form), "grace")
    for _ in range(2):
        text = ada.get(answer["Location"]).content.decode()
        assert (FILLED_IN in text, "adas own words" in text) == (False, False)
    end_session(ada)
    log_in(ada, ada.get("/login/"), "ada")
    assert "adas own words" not in ada.get(path).content.decode()


def test_a_form_of_before_the_log_in_is_asked_again_with_a_new_token(ada: Client) -> None:
    """A second tab: each log-in makes another token."""
    path = "/topics/orders/~publish/"
    form = filled(ada, path, body="of the second tab")
    end_session(ada)
    log_in(ada, ada.get("/login/"), "ada")
    page = ada.post(path, form, follow=True)
    assert FILLED_IN in page.content.decode()
    dialog: Any = ada.post(path, form, headers=FRAGMENT, follow=True)
    text = dialog.content.decode()
    assert text.startswith("<form")
    assert "of the second tab</textarea>" in text
    assert acts_done() == 0
    token = re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', text)
    assert token is not None
    done = ada.post(path, form | {"csrfmiddlewaretoken": token[1]}, headers=FRAGMENT)
    assert (done.status_code, acts_done()) == (204, 2)


def test_a_log_in_page_that_is_older_than_the_log_in_of_another_tab_leads_to_its_form(ada: Client) -> None:
    path = "/topics/orders/~publish/"
    form = filled(ada, path, body="of the first tab")
    end_session(ada)
    page = ada.post(path, form)
    log_in(ada, ada.get("/login/"), "ada")
    answer = log_in(ada, page, "ada")
    assert (answer.status_code, answer["Location"]) == (302, path)
    assert "of the first tab</textarea>" in ada.get(path).content.decode()


def test_a_form_whose_cookies_are_all_gone_is_back_as_well(ada: Client) -> None:
    path = "/topics/orders/~publish/"
    form = filled(ada, path, body="no cookie left")
    ada.cookies.clear()
    assert ada.post(path, form, headers=FRAGMENT).status_code == 401
    answer = log_in(ada, ada.post(path, form), "ada")
    assert "no cookie left</textarea>" in ada.get(answer["Location"]).content.decode()


def test_the_form_of_a_dialog_that_goes_to_the_log_in_is_never_done_by_that(ada: Client) -> None:
    path = "/topics/orders/~publish/"
    form = filled(ada, path, body="only asked")
    page = ada.post(path, form | {"ask_alone": ""})
    assert (page.status_code, acts_done()) == (200, 0)
    assert "only asked</textarea>" in page.content.decode()


def test_an_open_dialog_that_asks_whether_it_stands_takes_no_draft(ada: Client) -> None:
    path = "/topics/orders/~publish/"
    form = filled(ada, path, body="still there")
    end_session(ada)
    answer = log_in(ada, ada.post(path, form), "ada")
    ada.get(path, {"still": "1", "shown": form["shown"][0]}, headers=FRAGMENT)
    ada.get("/topics/orders/~pause/", headers=FRAGMENT)
    assert "still there</textarea>" in ada.get(answer["Location"]).content.decode()


def test_no_password_travels_with_a_log_in_and_no_stranger_has_a_form_shown(ada: Client) -> None:
    secret = "not to be seen again"
    words = {"current": PASSWORD, "new": secret, "again": secret}
    form = filled(ada, "/password/", **words)
    end_session(ada)
    answers = [ada.post("/password/", form)]
    typed = filled(ada, "/login/", body=secret)
    for signed in ("", "ada", "ada:AAAA"):
        answers.append(ada.post("/topics/orders/~publish/", typed | {"typed_by": signed}))
    for answer in answers:
        assert answer.status_code == 401
        assert secret not in answer.content.decode()


def test_what_changed_while_the_session_was_over_is_said_with_the_form(ada: Client, engine: EngineRunner) -> None:
    path = "/topics/orders/billing/~pause/"
    form = filled(ada, path, reason="mine", **{"for": "none"})
    end_session(ada)
    other = Client()
    other.force_login(make_user("grace"))
    other.post(path, {"for": "15m"})
    answer = log_in(ada, ada.post(path, form), "ada")
    text = unescape(ada.get(answer["Location"]).content.decode())
    assert "grace: Paused orders/billing for 15m" in text
    assert 'name="reason" value="mine"' in text
