"""Guessing passwords: delayed by name, address and browser, and never so that somebody else is shut out."""

import io
import os
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from django.conf import settings
from django.contrib.auth.hashers import make_password
from django.core.handlers.asgi import ASGIRequest
from django.test import Client

from admin_console.accounts import hashers, hashing_queue
from admin_console.accounts.failed_log_ins import FAILED_LOG_INS
from admin_console.accounts.hashing_queue import WAITING_MAX, HashingQueue, TooBusyError
from admin_console.accounts.throttle import ADDRESS, BROWSER, NAME, NAME_AT_ADDRESS, PLACES_MAX, LoginThrottle
from admin_console.security.proxy import TrustedProxies
from admin_console.views import accounts as views
from queue_engine.vocabulary.client_key import TrustedAddresses
from tests.support.pages.console import PASSWORD, client_of, make_user
from tests.support.waiting import wait_for


class Seconds:
    """A clock that goes on by sleeping."""

    def __init__(self) -> None:
        self.now_s = 1000.0
        self.slept_s: list[float] = []

    def __call__(self) -> float:
        return self.now_s

    def sleep(self, seconds: float) -> None:
        self.slept_s.append(seconds)
        self.now_s += seconds


@pytest.fixture
def seconds(monkeypatch: pytest.MonkeyPatch) -> Seconds:
    """The clock of the console's throttle."""
    clock = Seconds()
    monkeypatch.setattr(views, "throttle", LoginThrottle(clock, clock.sleep))
    return clock


def throttle_at(seconds: Seconds) -> LoginThrottle:
    return LoginThrottle(seconds, seconds.sleep)


def begin_at_once(throttle: LoginThrottle, name: str, address: str, browser: str = "") -> int:
    """An attempt that is not held: what the throttle says now."""
    wait_s, _ = throttle._begin(name, address, browser)
    return int(wait_s)


def log_in(client: Client, username: str = "ada", password: str = PASSWORD, **extra: str):
    return client.post("/login/", {"username": username, "password": password}, **extra)


# The lines.


def test_guesses_at_one_name_from_many_addresses_are_not_all_checked() -> None:
    throttle = throttle_at(Seconds())
    waits = [throttle.begin("ada", f"192.0.2.{address}") for _ in range(4) for address in range(60)]
    assert waits.count(0) < 20


@pytest.mark.parametrize(("browser", "rule"), [("", NAME_AT_ADDRESS), ("b1", BROWSER)])
def test_waits_of_ones_own_double_up_to_a_limit(browser: str, rule: object) -> None:
    seconds = Seconds()
    throttle = throttle_at(seconds)
    for _ in range(4):
        assert throttle.begin("ada", "192.0.2.1", browser) == 0
        seconds.now_s += 10  # the name's own line has room again
    seconds.now_s -= 10
    waits = []
    for _ in range(12):
        waits.append(throttle.begin("ada", "192.0.2.1", browser))
        seconds.now_s += waits[-1]
        assert throttle.begin("ada", "192.0.2.1", browser) == 0
    limit_s = int(rule.wait_s_max)
    assert waits == [min(2**number, limit_s) for number in range(12)]


def test_attempts_that_come_too_early_do_not_prolong_the_wait() -> None:
    seconds = Seconds()
    throttle = throttle_at(seconds)
    for _ in range(NAME_AT_ADDRESS.free + 3):
        while wait_s := throttle.begin("ada", "192.0.2.1"):
            seconds.now_s += wait_s
    assert [throttle.begin("ada", "192.0.2.1") for _ in range(100)] == [8] * 100


def test_browser_that_has_logged_in_is_not_delayed_by_strangers() -> None:
    throttle = throttle_at(Seconds())
    for address in range(60):
        throttle.begin("ada", f"192.0.2.{address}")
    assert throttle.begin("ada", "192.0.2.1", "b1") == 0


def test_stranger_waits_his_turn_at_a_name_under_attack_and_is_then_checked() -> None:
    seconds = Seconds()
    throttle = throttle_at(seconds)

    def attack() -> None:
        for address in range(30):
            begin_at_once(throttle, "ada", f"192.0.2.{address}")

    attack()
    wait_s = begin_at_once(throttle, "ada", "198.51.100.7")
    assert 0 < wait_s <= 31 * NAME.wait_s_max
    for _ in range(wait_s):
        seconds.now_s += 1
        attack()
    assert begin_at_once(throttle, "ada", "198.51.100.7") == 0


def test_failures_behind_one_address_delay_others_there_by_a_second() -> None:
    seconds = Seconds()
    throttle = throttle_at(seconds)
    for number in range(ADDRESS.free + 1):
        throttle.begin(f"user{number}", "192.0.2.1")
    assert throttle.begin("ada", "192.0.2.1") == 0
    assert sum(seconds.slept_s) <= 2


def test_who_fails_at_many_names_does_not_get_more_than_one_attempt_a_second() -> None:
    seconds = Seconds()
    throttle = throttle_at(seconds)
    checked = 0
    for _ in range(60):
        checked += [begin_at_once(throttle, f"user{number}", "192.0.2.1") for number in range(40)].count(0)
        seconds.now_s += 1
    assert checked <= ADDRESS.free + 60


def test_one_ipv6_network_counts_as_one_address() -> None:
    throttle = throttle_at(Seconds())
    for number in range(NAME_AT_ADDRESS.free):
        throttle.begin("ada", f"2001:db8::{number + 1}")
    assert throttle.begin("ada", "2001:db8::ffff") > 0
    assert throttle.begin("ada", "2001:db8:0:1::1") == 0


def test_success_forgives_ones_own_failures() -> None:
    throttle = throttle_at(Seconds())
    for browser in ("", "b1"):
        for _ in range(4):
            throttle.begin("ada", "192.0.2.1", browser)
        assert throttle.begin("ada", "192.0.2.1", browser) > 0
        throttle.succeeded("ada", "192.0.2.1", browser)
        assert throttle.begin("ada", "192.0.2.1", browser) == 0


def test_throttle_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("admin_console.accounts.throttle.ENTRIES_MAX", 10)
    throttle = throttle_at(Seconds())
    for number in range(300):
        begin_at_once(throttle, "ada", f"192.0.{number // 256}.{number % 256}")
    assert len(throttle._lines) <= 10
    assert max(len(line.places) for line in throttle._lines.values()) <= PLACES_MAX


# The log-in.


@pytest.mark.django_db
def test_fifth_wrong_attempt_waits_and_even_the_right_password_does(seconds: Seconds) -> None:
    make_user()
    client = Client()
    for _ in range(NAME_AT_ADDRESS.free):
        assert log_in(client, password="not it").status_code == 400
    answer = log_in(client)
    assert (answer.status_code, answer["Retry-After"]) == (429, "1")
    assert "Too many attempts. Wait 1 second and try again." in answer.content.decode()
    seconds.now_s += 1
    assert log_in(client).status_code == 302


@pytest.mark.django_db
def test_throttled_attempt_hashes_nothing(seconds: Seconds, monkeypatch: pytest.MonkeyPatch) -> None:
    make_user()
    client = Client()
    for _ in range(NAME_AT_ADDRESS.free):
        log_in(client, password="not it")
    monkeypatch.setattr(views, "authenticate", lambda *_, **__: pytest.fail("hashed"))
    assert log_in(client).status_code == 429


@pytest.mark.django_db
@pytest.mark.slow(reason="hashes dozens of passwords")
def test_twenty_failures_behind_a_proxy_lock_nobody_out(seconds: Seconds) -> None:
    make_user()
    for number in range(5):
        for _ in range(4):
            assert log_in(Client(), f"user{number}", "not it").status_code == 400
    assert log_in(Client()).status_code == 302


async def test_address_behind_a_trusted_proxy_is_the_clients() -> None:
    seen: list[str] = []

    async def application(scope: dict[str, Any], receive: object, send: object) -> None:
        seen.append(views._address(ASGIRequest(scope, io.BytesIO())))

    headers = [(b"x-forwarded-for", b"198.51.100.1, 203.0.113.9")]
    scope = {"type": "http", "method": "POST", "path": "/login/", "client": ["127.0.0.1", 5000], "headers": headers}
    for texts in (["127.0.0.0/8"], []):
        await TrustedProxies(application, TrustedAddresses.parse(texts))(scope, None, None)
    assert seen == ["203.0.113.9", "127.0.0.1"]


@pytest.mark.django_db
@pytest.mark.slow(reason="hashes dozens of passwords")
def test_browser_that_logged_in_before_goes_past_an_attack_on_its_name(seconds: Seconds) -> None:
    make_user()
    browser = Client()
    log_in(browser)
    browser.post("/logout/")
    for address in range(16):
        log_in(Client(), password="not it", REMOTE_ADDR=f"198.51.100.{address}")
    assert log_in(Client(), REMOTE_ADDR="203.0.113.1").status_code == 429
    slept_s = list(seconds.slept_s)
    assert log_in(browser, REMOTE_ADDR="203.0.113.1").status_code == 302
    assert seconds.slept_s == slept_s


@pytest.mark.django_db
@pytest.mark.slow(reason="hashes dozens of passwords")
def test_known_browser_is_known_by_a_signed_cookie_for_its_names_alone(seconds: Seconds) -> None:
    make_user()
    browser = Client()
    cookie = log_in(browser).cookies[settings.KNOWN_BROWSER_COOKIE_NAME]
    assert (cookie["httponly"], cookie["samesite"], cookie["path"]) == (True, "Strict", "/login/")
    assert "ada" not in cookie.value
    for address in range(NAME.free):
        for name in ("ada", "bob"):
            log_in(Client(), name, "not it", REMOTE_ADDR=f"198.51.100.{address}")
    forged = Client()
    forged.cookies[settings.KNOWN_BROWSER_COOKIE_NAME] = f"{cookie.value[:-1]}{'A' if cookie.value[-1] != 'A' else 'B'}"
    begun: list[tuple[str, str]] = []
    real = views.throttle.begin
    views.throttle.begin = lambda name, address, known: begun.append((name, known)) or real(name, address, known)
    log_in(forged, password="not it")
    log_in(browser, "bob", "not it")
    log_in(browser, password="not it")
    assert [(name, bool(known)) for name, known in begun] == [("ada", False), ("bob", False), ("ada", True)]


@pytest.mark.django_db
def test_guesses_of_who_holds_a_session_delay_that_session_alone(seconds: Seconds) -> None:
    user = make_user()
    thief = client_of(user)
    form = {"current": "not it", "new": "a new long password", "again": "a new long password"}
    statuses = [thief.post("/password/", form).status_code for _ in range(BROWSER.free + 1)]
    assert statuses == [400] * BROWSER.free + [429]
    assert log_in(Client()).status_code == 302


# Hashing.


@pytest.fixture
def taken() -> Iterator[HashingQueue]:
    """Somebody's password is being hashed."""
    turns = HashingQueue()
    with turns.turn(is_known=False):
        yield turns


def test_passwords_are_hashed_one_at_a_time(taken: HashingQueue) -> None:
    for is_known in (False, True):
        with pytest.raises(TooBusyError), taken.turn(is_known=is_known, wait_s=0.01):
            pytest.fail("a second turn was given")


def test_known_browsers_go_first_and_the_queue_is_short() -> None:
    turns = HashingQueue()
    order: list[str] = []

    def hash_as(name: str, *, is_known: bool) -> None:
        with turns.turn(is_known=is_known, wait_s=30):
            order.append(name)

    names = [*(f"stranger{number}" for number in range(WAITING_MAX)), "known"]
    threads = [
        threading.Thread(target=hash_as, args=(name,), kwargs={"is_known": name == "known"}, daemon=True)
        for name in names
    ]
    with turns.turn(is_known=False):
        for count, thread in enumerate(threads, 1):
            thread.start()
            wait_for("it to queue up", lambda: len(turns._strangers) + len(turns._known) == count)  # noqa: B023
        with pytest.raises(TooBusyError), turns.turn(is_known=False, wait_s=30):
            pytest.fail("one more than may wait was let in")
    for thread in threads:
        thread.join(30)
    assert order == ["known", *names[:-1]]


def test_a_pause_follows_a_strangers_hash_and_known_browsers_do_not_wait_for_it() -> None:
    seconds = Seconds()
    turns = HashingQueue(seconds)
    with turns.turn(is_known=False, wait_s=0):
        seconds.now_s += 0.02
    seconds.now_s += 0.179
    with pytest.raises(TooBusyError), turns.turn(is_known=False, wait_s=0):
        pytest.fail("strangers had more than a tenth of the time")
    with turns.turn(is_known=True, wait_s=0):
        seconds.now_s += 0.002
    with turns.turn(is_known=False, wait_s=0):
        pass


def test_hashes_are_computed_with_a_lower_priority() -> None:
    make_password("one that is hashed")
    thread = next(one for one in threading.enumerate() if one.name.startswith("password-hashing"))
    assert thread.native_id is not None
    own = os.getpriority(os.PRIO_PROCESS, 0)
    assert os.getpriority(os.PRIO_PROCESS, thread.native_id) == min(own + hashers.NICE, hashers.NICE_MAX)


@pytest.mark.django_db
def test_log_in_beyond_the_queue_is_told_to_try_again(seconds: Seconds, monkeypatch: pytest.MonkeyPatch) -> None:
    make_user()
    monkeypatch.setattr(hashing_queue, "WAITING_MAX", 0)
    for _ in range(NAME_AT_ADDRESS.free + 2):
        answer = log_in(Client())
        assert answer.status_code == 503
        assert "Too many people are logging in at this moment." in answer.content.decode()
    monkeypatch.setattr(hashing_queue, "WAITING_MAX", WAITING_MAX)
    assert log_in(Client()).status_code == 302, "what was not checked is no failure"


@pytest.mark.parametrize("browser", ["", "b1"])
def test_attempt_that_was_not_checked_changes_no_wait(browser: str) -> None:
    seconds = Seconds()
    throttle = throttle_at(seconds)
    for _ in range(NAME_AT_ADDRESS.free):
        assert begin_at_once(throttle, "ada", "192.0.2.1", browser) == 0
    seconds.now_s += 1
    for _ in range(3):
        assert begin_at_once(throttle, "ada", "192.0.2.1", browser) == 0
        throttle.not_checked("ada", "192.0.2.1", browser)
    assert begin_at_once(throttle, "ada", "192.0.2.1", browser) == 0
    assert begin_at_once(throttle, "ada", "192.0.2.1", browser) == 2


@pytest.mark.django_db
def test_failed_log_ins_are_counted_by_reason(seconds: Seconds, monkeypatch: pytest.MonkeyPatch) -> None:
    make_user()
    before = FAILED_LOG_INS.counts()
    for _ in range(NAME_AT_ADDRESS.free):
        log_in(Client(), password="not it")
    assert log_in(Client()).status_code == 429
    seconds.now_s += 1
    assert log_in(Client()).status_code == 302
    monkeypatch.setattr(hashing_queue, "WAITING_MAX", 0)
    assert log_in(Client()).status_code == 503
    after = FAILED_LOG_INS.counts()
    grown = {reason: count - before[reason] for reason, count in after.items()}
    assert grown == {"password": NAME_AT_ADDRESS.free, "throttled": 1, "busy": 1}
