"""The console's options and settings, its headers, hosts, proxies and origins."""

import io
import logging
import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from asgiref.testing import ApplicationCommunicator
from django.conf import settings
from django.db import connection
from django.test import Client, RequestFactory

from admin_console.options import ConsoleOptions, take_early_flags
from admin_console.paths import SecretKey, read_or_make_secret_key
from admin_console.security.headers import EMPTY_STYLE_HASH
from admin_console.security.hosts import AllowedHosts
from admin_console.security.origin import SameOriginSockets
from admin_console.security.proxy import TrustedProxies
from admin_console.vocabulary.private_files import make_private_directory
from tests.support.processes.server import ROOT


def test_flags_reach_the_environment_and_the_data_path_leaves_the_command_line() -> None:
    environment = {"PENSTOCK_DATA_PATH": "/from/environment"}
    left = take_early_flags(
        [
            "serve",
            "--data-path",
            "/elsewhere",
            "--console-address=127.0.0.1:0",
            "--allowed-host",
            "a",
            "--allowed-host=b",
        ],
        environment,
    )
    assert left == ["serve", "--console-address=127.0.0.1:0", "--allowed-host", "a", "--allowed-host=b"]
    assert environment == {
        "PENSTOCK_DATA_PATH": "/elsewhere",
        "PENSTOCK_CONSOLE_ADDRESS": "127.0.0.1:0",
        "PENSTOCK_ALLOWED_HOST": "a,b",
    }


def test_flag_without_its_value_is_named() -> None:
    with pytest.raises(ValueError, match="--data-path needs a value"):
        take_early_flags(["migrate", "--data-path"], {})


def test_nothing_is_taken_behind_two_dashes() -> None:
    assert take_early_flags(["shell", "--", "--data-path", "x"], environment := {}) == [
        "shell", "--", "--data-path", "x",
    ]  # fmt: skip
    assert environment == {}


def test_console_options_have_loopback_defaults() -> None:
    options = ConsoleOptions.from_environment({})
    assert (options.host, options.port, options.origin, options.is_https) == ("127.0.0.1", 4171, "", False)
    assert {"localhost", "127.0.0.1", "[::1]"} <= set(options.allowed_hosts)
    assert options.trusted_proxies == ()


def test_console_options_name_every_fault_at_once() -> None:
    with pytest.raises(ValueError) as caught:
        ConsoleOptions.from_environment(
            {
                "PENSTOCK_CONSOLE_ADDRESS": "4171",
                "PENSTOCK_CONSOLE_ORIGIN": "queue.example.org",
                "PENSTOCK_TRUSTED_PROXY": "10.0.0.0/8, 10.0.0.0/99",
                "PENSTOCK_ALLOWED_HOST": "good.example, bad host",
            }
        )
    assert str(caught.value).splitlines() == [
        "--console-address: '4171' is not HOST:PORT",
        "--console-origin: 'queue.example.org' is not an origin such as https://queue.example.org",
        "--trusted-proxy: '10.0.0.0/99' is neither an IP address nor a network such as 10.0.0.0/8",
        "--allowed-host: 'bad host' is not a host name",
    ]


def test_origin_and_allowed_hosts_are_hosts_that_requests_may_name() -> None:
    options = ConsoleOptions.from_environment(
        {"PENSTOCK_CONSOLE_ORIGIN": "https://Queue.example.org:8443/", "PENSTOCK_ALLOWED_HOST": "other.example"}
    )
    assert options.origin == "https://queue.example.org:8443"
    assert options.is_https
    assert {"queue.example.org", "other.example"} <= set(options.allowed_hosts)
    assert "*" not in options.allowed_hosts


def test_data_directory_and_key_are_private_and_the_key_stays(tmp_path: Path) -> None:
    directory = tmp_path / "a" / "b"
    make_private_directory(directory)
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    key = read_or_make_secret_key(directory)
    assert len(key.text) >= 50
    assert key.complaint == ""
    assert stat.S_IMODE((directory / "secret-key").stat().st_mode) == 0o600
    assert read_or_make_secret_key(directory) == key
    assert [path.name for path in directory.iterdir()] == ["secret-key"]


def test_open_directory_and_key_are_closed(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    make_private_directory(tmp_path)
    assert stat.S_IMODE(tmp_path.stat().st_mode) == 0o700
    read_or_make_secret_key(tmp_path)
    (tmp_path / "secret-key").chmod(0o644)
    read_or_make_secret_key(tmp_path)
    assert stat.S_IMODE((tmp_path / "secret-key").stat().st_mode) == 0o600


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"", "was empty"),
        (b"short\n", "was damaged (5 characters; a key has at least 50)"),
        (b"\xff\x00" * 60, "was damaged (it holds characters that no key has)"),
        (b"two words " * 20, "was damaged (it holds characters that no key has)"),
    ],
)
def test_damaged_key_is_set_aside_and_named(tmp_path: Path, content: bytes, told: str) -> None:
    (tmp_path / "secret-key").write_bytes(content)
    made = read_or_make_secret_key(tmp_path)
    assert len(made.text) >= 50
    assert told in made.complaint
    assert (tmp_path / "secret-key.bad-1").read_bytes() == content
    assert read_or_make_secret_key(tmp_path) == SecretKey(made.text)


def test_key_that_the_disk_refuses_lasts_as_long_as_the_process(tmp_path: Path) -> None:
    missing = tmp_path / "not-there"
    made = read_or_make_secret_key(missing)
    assert len(made.text) >= 50
    assert "everybody logs in again after the next start" in made.complaint
    assert not missing.exists()


def test_production_settings_without_a_switch() -> None:
    assert settings.DEBUG is False
    assert "django.contrib.admin" not in settings.INSTALLED_APPS
    assert "daphne" not in settings.INSTALLED_APPS
    assert settings.SESSION_COOKIE_HTTPONLY
    assert settings.CSRF_COOKIE_HTTPONLY
    assert settings.SESSION_COOKIE_SAMESITE == settings.CSRF_COOKIE_SAMESITE == "Lax"


@pytest.mark.django_db
def test_sqlite_is_set_up_for_many_threads() -> None:
    with connection.cursor() as cursor:
        answers = {}
        for name in ("journal_mode", "synchronous", "busy_timeout", "foreign_keys"):
            cursor.execute(f"PRAGMA {name}")
            answers[name] = cursor.fetchone()[0]
    assert answers == {"journal_mode": "wal", "synchronous": 1, "busy_timeout": 5000, "foreign_keys": 1}


def manage(*arguments: str, data_path: Path, **environment: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, str(ROOT / "manage.py"), *arguments],
        cwd=ROOT,
        env={"PATH": os.environ["PATH"], "PENSTOCK_DATA_PATH": str(data_path), **environment},
        capture_output=True,
        text=True,
        timeout=60,
    )


@pytest.mark.slow(reason="starts processes")
def test_deploy_check_has_nothing_to_say_behind_https(tmp_path: Path) -> None:
    done = manage("check", "--deploy", data_path=tmp_path, PENSTOCK_CONSOLE_ORIGIN="https://queue.example.org")
    assert done.returncode == 0
    assert "System check identified no issues" in done.stdout + done.stderr


def test_bad_option_is_one_line_and_no_traceback(tmp_path: Path) -> None:
    done = manage("check", data_path=tmp_path, PENSTOCK_CONSOLE_ADDRESS="nowhere")
    assert (done.returncode, done.stderr) == (1, "penstock: --console-address: 'nowhere' is not HOST:PORT\n")


@pytest.mark.slow(reason="starts processes")
def test_every_command_takes_the_data_path_and_none_starts_an_engine(tmp_path: Path) -> None:
    done = manage("migrate", "--data-path", str(tmp_path / "here"), "--verbosity=0", data_path=tmp_path / "not-here")
    assert done.returncode == 0, done.stderr
    code = "import threading; print([thread.name for thread in threading.enumerate()])"
    shell = manage("shell", "-v0", "-c", code, f"--data-path={tmp_path / 'here'}", data_path=tmp_path / "not-here")
    assert shell.stdout == "['MainThread']\n"
    assert not (tmp_path / "not-here").exists()
    assert {path.name for path in (tmp_path / "here").iterdir()} == {"console.sqlite3", "secret-key", "static"}


@pytest.mark.slow(reason="starts processes")
def test_models_and_migrations_agree(tmp_path: Path) -> None:
    assert manage("makemigrations", "--check", "--dry-run", data_path=tmp_path).returncode == 0


@pytest.mark.django_db
@pytest.mark.parametrize("path", ["/login/", "/nowhere/", "/static/penstock.css"])
def test_every_answer_carries_the_headers(path: str) -> None:
    answer = Client().get(path)
    policy = dict(part.split(" ", 1) for part in answer["Content-Security-Policy"].split("; "))
    assert policy["default-src"] == policy["script-src"] == "'self'"
    assert policy["style-src"] == f"'self' {EMPTY_STYLE_HASH}"
    assert policy["connect-src"] == "'self' ws://testserver"
    assert policy["frame-ancestors"] == "'none'"
    assert "unsafe" not in answer["Content-Security-Policy"]
    assert (answer["X-Frame-Options"], answer["X-Content-Type-Options"]) == ("DENY", "nosniff")
    assert answer["Referrer-Policy"] == "same-origin"
    if path == "/login/":
        assert "no-store" in answer["Cache-Control"]


@pytest.mark.django_db
def test_pages_hold_no_inline_script_or_style() -> None:
    page = Client().get("/login/").content.decode()
    assert "<style" not in page
    assert " style=" not in page
    assert "<script>" not in page


@pytest.mark.django_db
def test_foreign_host_is_refused_with_one_line_in_the_log(settings: Any, caplog: pytest.LogCaptureFixture) -> None:
    settings.ALLOWED_HOSTS = list(settings.CONSOLE.allowed_hosts)
    assert Client(headers={"Host": "evil.example"}).get("/login/").status_code == 400
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "request refused, its host is not the console's: host='evil.example' address=127.0.0.1" in caplog.text
    assert "Traceback" not in caplog.text
    assert Client(headers={"Host": "localhost:4171"}).get("/login/").status_code == 200


def test_thousand_refused_hosts_are_ten_lines_and_a_count(
    settings: Any, rf: RequestFactory, caplog: pytest.LogCaptureFixture
) -> None:
    settings.ALLOWED_HOSTS = ["localhost"]
    now_s = 0.0
    refuse = AllowedHosts(lambda _: pytest.fail("let in"), lambda: now_s)
    for _ in range(1000):
        refuse(rf.get("/", headers={"Host": "evil.example"}))
    assert len(caplog.records) == 10
    now_s = 60.0
    refuse(rf.get("/", headers={"Host": "evil.example"}))
    assert caplog.records[-1].getMessage().endswith(" refused_before=990")


@pytest.mark.django_db
def test_other_suspicious_requests_leave_no_traceback() -> None:
    """Through the handler that the product has, which writes to standard error."""
    [handler] = [found for found in logging.getLogger().handlers if type(found) is logging.StreamHandler]
    written = io.StringIO()
    before = handler.setStream(written)
    try:
        answer = Client().post("/login/", {f"field{number}": "" for number in range(101)})
    finally:
        handler.setStream(before)
    assert answer.status_code == 400
    assert "django.security.TooManyFieldsSent" in written.getvalue()
    assert "Traceback" not in written.getvalue()


# The proxy, and the sockets' origin: around the ASGI application, so tested on scopes.


async def seen_through(application: Any, scope: dict[str, Any]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Call an ASGI application that wraps a recorder; what the recorder saw, and what was sent."""
    communicator = ApplicationCommunicator(application, scope)
    await communicator.send_input({"type": f"{scope['type']}.connect"})
    await communicator.wait(timeout=5)
    sent = []
    while not communicator.output_queue.empty():
        sent.append(communicator.output_queue.get_nowait())
    return seen, sent


seen: list[dict[str, Any]] = []


async def recorder(scope: dict[str, Any], receive: Any, send: Any) -> None:
    seen.append(scope)


@pytest.fixture(autouse=True)
def _fresh_recorder() -> None:
    seen.clear()


def scope_of(client: str, headers: dict[str, str], kind: str = "http", scheme: str = "http") -> dict[str, Any]:
    return {
        "type": kind,
        "path": "/ws/live/" if kind == "websocket" else "/",
        "scheme": scheme,
        "client": [client, 5000],
        "headers": [(name.lower().encode(), value.encode()) for name, value in headers.items()],
    }


def header(scope: dict[str, Any], name: bytes) -> bytes:
    return dict(scope["headers"]).get(name, b"")


FORWARDED = {
    "Host": "127.0.0.1:4171",
    "X-Forwarded-For": "203.0.113.9",
    "X-Forwarded-Proto": "https",
    "X-Forwarded-Host": "queue.example.org",
}
TRUSTED = ConsoleOptions.from_environment({"PENSTOCK_TRUSTED_PROXY": "127.0.0.1,10.0.0.0/8"}).trusted_proxies


async def test_named_proxy_is_believed() -> None:
    await seen_through(TrustedProxies(recorder, TRUSTED), scope_of("127.0.0.1", FORWARDED))
    assert (seen[0]["client"][0], seen[0]["scheme"]) == ("203.0.113.9", "https")
    assert header(seen[0], b"host") == b"queue.example.org"
    assert header(seen[0], b"x-forwarded-for") == b""


async def test_anybody_else_is_not_believed_and_nothing_inside_sees_the_headers() -> None:
    for proxies in (TRUSTED, ()):
        seen.clear()
        await seen_through(TrustedProxies(recorder, proxies), scope_of("192.0.2.1", FORWARDED))
        assert (seen[0]["client"][0], seen[0]["scheme"]) == ("192.0.2.1", "http")
        assert header(seen[0], b"host") == b"127.0.0.1:4171"
        assert not any(name.startswith(b"x-forwarded") for name, _ in seen[0]["headers"])


@pytest.mark.parametrize(
    ("forwarded_for", "address"),
    [
        ("198.51.100.1, 203.0.113.9", "203.0.113.9"),  # what stands left was written by the client
        ("198.51.100.1, 203.0.113.9, 10.1.2.3", "203.0.113.9"),  # a chain of our own proxies
        ("10.1.2.3", "10.1.2.3"),
        ("nonsense, 10.1.2.3", "10.1.2.3"),
        ("nonsense", "127.0.0.1"),
        ("", "127.0.0.1"),
        ("2001:db8::1", "2001:db8::1"),
    ],
)
async def test_client_is_the_rightmost_address_that_is_no_proxy(forwarded_for: str, address: str) -> None:
    scope = scope_of("127.0.0.1", {**FORWARDED, "X-Forwarded-For": forwarded_for})
    await seen_through(TrustedProxies(recorder, TRUSTED), scope)
    assert seen[0]["client"][0] == address


async def test_scheme_and_host_that_are_none_are_not_taken_over() -> None:
    scope = scope_of("127.0.0.1", {**FORWARDED, "X-Forwarded-Proto": "gopher", "X-Forwarded-Host": "a b"})
    await seen_through(TrustedProxies(recorder, TRUSTED), scope)
    assert seen[0]["scheme"] == "http"
    assert header(seen[0], b"host") == b"127.0.0.1:4171"


def sockets(origin: str = "") -> SameOriginSockets:
    return SameOriginSockets(
        recorder, paths={"/ws/live/"}, origin=origin, allowed_hosts=["127.0.0.1", "queue.example.org"]
    )


@pytest.mark.parametrize(
    ("headers", "scheme"),
    [
        ({"Host": "127.0.0.1:4171", "Origin": "http://127.0.0.1:4171"}, "ws"),
        ({"Host": "queue.example.org", "Origin": "https://queue.example.org"}, "wss"),
        ({"Host": "queue.example.org:443", "Origin": "https://queue.example.org"}, "wss"),
    ],
)
async def test_socket_of_our_own_page_is_let_through(headers: dict[str, str], scheme: str) -> None:
    await seen_through(sockets(), scope_of("127.0.0.1", headers, "websocket", scheme))
    assert len(seen) == 1


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "127.0.0.1:4171"},
        {"Host": "127.0.0.1:4171", "Origin": "null"},
        {"Host": "127.0.0.1:4171", "Origin": "http://evil.example"},
        {"Host": "127.0.0.1:4171", "Origin": "http://127.0.0.1:9999"},
        {"Host": "127.0.0.1:4171", "Origin": "https://127.0.0.1:4171"},
        {"Host": "127.0.0.1:4171", "Origin": "http://127.0.0.1:4171.evil.example"},
        {"Host": "evil.example", "Origin": "http://evil.example"},
        {"Host": "127.0.0.1:4171", "Origin": "http://[::1"},
    ],
)
async def test_socket_of_anybody_else_is_refused(headers: dict[str, str]) -> None:
    _, sent = await seen_through(sockets(), scope_of("127.0.0.1", headers, "websocket", "ws"))
    assert seen == []
    assert sent == [{"type": "websocket.close", "code": 4403}]


async def test_socket_of_the_named_origin_is_let_through_and_unknown_paths_are_not() -> None:
    headers = {"Host": "127.0.0.1:4171", "Origin": "https://queue.example.org"}
    await seen_through(sockets("https://queue.example.org"), scope_of("127.0.0.1", headers, "websocket", "ws"))
    assert len(seen) == 1
    scope = scope_of("127.0.0.1", headers, "websocket", "ws") | {"path": "/ws/other/"}
    await seen_through(sockets("https://queue.example.org"), scope)
    assert len(seen) == 1
