"""A page is made once for all users of a role within one snapshot, and holds nothing of another user."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.test import Client

from admin_console.hub.hub import get_hub
from admin_console.views import page_cache
from admin_console.vocabulary.roles import Role
from queue_engine.delivery.stats import ActRecord, Outcome
from queue_engine.service.runner import EngineRunner
from tests.support.pages.console import client_of, console_engine, make_user
from tests.support.pages.snapshots import START_S, channel, snapshot, topic

pytestmark = pytest.mark.django_db

TOKEN = re.compile(r'name="csrfmiddlewaretoken" value="([^"]+)"')


@pytest.fixture
def runner(tmp_path: Path) -> Iterator[EngineRunner]:
    with console_engine(tmp_path) as running:
        running.calls.create_topic("orders").result(10)
        running.calls.create_channel("orders", "billing").result(10)
        take(0)
        yield running


def take(second: int) -> None:
    get_hub().write(snapshot(topic("orders", channel("orders", "billing")), second=START_S + second))


def is_made(client: Client, path: str) -> bool:
    """Whether a template was rendered for this answer."""
    answer = client.get(path)
    assert answer.status_code == 200
    return bool(answer.templates)


@pytest.mark.parametrize("path", ["/", "/topics/", "/topics/?q=ord", "/topics/orders/", "/topics/orders/billing/"])
def test_page_is_made_once_for_a_role_and_a_snapshot(runner: EngineRunner, path: str) -> None:
    ada, eve = client_of(make_user("ada")), client_of(make_user("eve"))
    vera = client_of(make_user("vera", Role.VIEWER))
    assert [is_made(client, path) for client in (ada, ada, eve, vera, vera)] == [True, False, False, True, False]
    take(1)
    assert [is_made(client, path) for client in (eve, ada)] == [True, False]


@pytest.mark.parametrize("path", ["/", "/topics/", "/topics/orders/", "/topics/orders/billing/", "/pipeline/"])
def test_page_is_the_same_for_two_users_but_for_name_and_token(runner: EngineRunner, path: str) -> None:
    pages = {}
    for name in ("ada-lovelace", "eve-online"):
        page = client_of(make_user(name)).get(path).content.decode()
        assert name in page
        assert not page_cache._MARKS.search(page)
        pages[name] = TOKEN.sub("TOKEN", re.sub(r'data-age="\d+">[^<]+', "AGE", page)).replace(name, "NAME")
    ada, eve = pages.values()
    assert ada == eve


def test_token_of_a_made_page_is_the_users_own(runner: EngineRunner) -> None:
    client_of(make_user("ada")).get("/topics/")
    eve = client_of(make_user("eve"), enforce_csrf_checks=True)
    token = TOKEN.search(eve.get("/topics/").content.decode())
    assert token is not None
    assert eve.post("/logout/", {"csrfmiddlewaretoken": token[1]}).status_code == 302


def test_a_made_page_has_the_clock_of_each_user(runner: EngineRunner) -> None:
    ada, eve = client_of(make_user("ada")), client_of(make_user("eve"))
    eve.post("/clock/", {"clock": "utc"})
    assert is_made(ada, "/topics/")
    assert 'data-clock="local"' in ada.get("/topics/").content.decode()
    assert not is_made(eve, "/topics/")
    assert 'data-clock="utc"' in eve.get("/topics/").content.decode()


def test_name_is_escaped_in_a_made_page(runner: EngineRunner) -> None:
    odd = make_user("ada")
    type(odd).objects.filter(pk=odd.pk).update(username="<b>&")
    assert "&lt;b&gt;&amp;" in client_of(odd).get("/topics/").content.decode()


def test_age_of_the_figures_is_that_of_the_answer(runner: EngineRunner) -> None:
    client = client_of(make_user())
    ages_ms = [int(re.search(r'data-age="(\d+)"', client.get("/topics/").content.decode())[1]) for _ in range(2)]
    assert ages_ms[0] <= ages_ms[1]


def test_page_after_an_act_shows_what_it_did(runner: EngineRunner) -> None:
    ada, eve = client_of(make_user("ada")), client_of(make_user("eve"))
    assert is_made(eve, "/topics/orders/")
    ada.post("/topics/orders/~pause/", {"reason": ""})
    answer = eve.get("/topics/orders/")
    assert answer.templates
    assert "paused" in answer.content.decode()
    assert "message" in str(ada.get("/topics/orders/").content), "the actor's own message is on his page"
    assert not is_made(eve, "/topics/orders/")


def test_act_over_the_http_api_makes_pages_anew(runner: EngineRunner) -> None:
    client = client_of(make_user())
    assert [is_made(client, "/topics/orders/") for _ in range(2)] == [True, False]
    get_hub().note_act()
    assert is_made(client, "/topics/orders/")


@pytest.mark.parametrize(
    ("action", "error", "act_id", "outcome", "is_change"),
    [
        ("pause_topic", "", "1", Outcome(), True),
        ("move_cursor", "", "", Outcome(), True),
        ("create_topic", "", "", Outcome(created=True), True),
        ("create_topic", "", "", Outcome(), False),  # it was there
        ("read_messages", "", "", Outcome(depth=20), False),
        ("pause_topic", "TOPIC_NOT_FOUND", "", None, False),
        ("pause_topic", "STORAGE_ERROR: syncing that failed", "1", None, True),  # begun: it may be done
    ],
)
def test_what_changes_nothing_leaves_the_pages(
    action: str, error: str, act_id: str, outcome: Outcome | None, is_change: bool
) -> None:
    details = {"offset": 3} if action == "move_cursor" else {}
    record = ActRecord(action, "orders", "", "127.0.0.1:1", error, outcome, details=details, act_id=act_id)
    assert record.is_change == is_change


def test_page_with_a_range_or_of_what_is_gone_is_not_kept(runner: EngineRunner) -> None:
    client = client_of(make_user())
    for path, status in (("/?range=1h", 200), ("/topics/other/", 404)):
        for _ in range(2):
            answer = client.get(path)
            assert (answer.status_code, bool(answer.templates)) == (status, True)


def test_what_one_user_has_in_the_url_is_on_no_other_page(runner: EngineRunner) -> None:
    ada, eve = client_of(make_user("ada")), client_of(make_user("eve"))
    for path in ("/", "/topics/orders/"):
        ada.get(f"{path}?q=hello-from-ada&number=7&sort=depth")
        assert "hello-from-ada" not in eve.get(path).content.decode()


@pytest.mark.slow(reason="makes hundreds of pages")
def test_searches_do_not_fill_the_memory(runner: EngineRunner) -> None:
    client = client_of(make_user())
    for number in range(250):
        client.get(f"/topics/?q={number}")
    live = get_hub().live
    assert live is not None
    assert sum(key[0] == "page" for key in live.derived if isinstance(key, tuple)) <= 200
