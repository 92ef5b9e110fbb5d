"""The console's options and settings, its headers, hosts, proxies and origins."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from django.conf import settings
from django.db import connection
from django.urls import get_resolver

from admin_console import paths
from admin_console.live.consumers import websocket_urlpatterns
from admin_console.options import CONSOLE_OPTIONS, OWN_WORDS, ConsoleOptions, take_early_flags
from admin_console.paths import SecretKey, make_secret_key, read_or_make_secret_key
from admin_console.vocabulary.current_cluster import PREFIX
from admin_console.vocabulary.private_files import make_private_directory
from queue_engine.vocabulary.options.durations import parse_duration_ms
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
    assert not options.trusted_proxies.has("127.0.0.1")


@pytest.mark.parametrize(("text", "bytes_max"), [("0", 0), ("16777216", 16 << 20), ("1073741824", 1 << 30)])
def test_the_audit_lists_limit_is_in_bytes(text: str, bytes_max: int) -> None:
    options = ConsoleOptions.from_environment({"PENSTOCK_AUDIT_RETENTION_BYTES": text})
    assert options.audit_bytes_max == bytes_max


@pytest.mark.parametrize("text", ["16777215", "1GiB", "-1", "", "9999999999999999", "²"])
def test_another_limit_of_the_audit_list_is_refused(text: str) -> None:
    with pytest.raises(
        ValueError, match=f"--audit-retention-bytes: '{text}' is neither a number of bytes from 16777216"
    ):
        ConsoleOptions.from_environment({"PENSTOCK_AUDIT_RETENTION_BYTES": text})


# Option with limits → texts at its limits, and beyond them.
AT_THE_LIMITS = {
    "--console-max-connections": (("1", "999999"), ("0", "1000000")),
    "--console-request-timeout": (("1ms",), ("0ms",)),
    "--console-idle-timeout": (("1ms",), ("0ms",)),
    "--audit-retention": (("0", "1h", "999999d"), ("0h", "1000000d")),
    "--audit-retention-bytes": (("0", "16777216", str(1 << 50)), ("16777215", str((1 << 50) + 1))),
    "--console-tls": (("true", "false"), ("", "1", "True")),
    "--pause-reason-required": (("true", "false"), ("", "1", "True")),
    "--http-client-tls-insecure-skip-verify": (("true", "false"), ("", "1", "True")),
}


def test_console_options_keep_the_limits_that_the_reference_names() -> None:
    limits = {option.flag: option for option in CONSOLE_OPTIONS if option.limits}
    assert limits.keys() == AT_THE_LIMITS.keys()
    for flag, (accepted, refused) in AT_THE_LIMITS.items():
        named = [word.strip(",") for word in limits[flag].limits.split()]
        assert {word for word in named if word[0].isdigit()} <= {*accepted, *refused}
        for text in accepted:
            ConsoleOptions.from_environment({limits[flag].variable: text})
        for text in refused:
            with pytest.raises(ValueError, match=flag):
                ConsoleOptions.from_environment({limits[flag].variable: text})


def test_an_address_may_have_the_name_of_its_cluster() -> None:
    environment = {
        "PENSTOCK_LOOKUPD_HTTP_ADDRESS": "prod=10.0.0.1:4161,10.1.0.1:4161,prod=10.0.0.2:4161",
        "PENSTOCK_NSQD_HTTP_ADDRESS": "staging=https://10.2.0.1:4151,prod=10.0.0.3:4151",
    }
    cluster = ConsoleOptions.from_environment(environment).cluster
    assert (list(map(str, cluster.addresses.lookupds)), cluster.addresses.nsqds) == (["10.1.0.1:4161"], ())
    named = {name: [*map(str, (*one.lookupds, *one.nsqds))] for name, one in cluster.named.items()}
    assert named == {
        "prod": ["10.0.0.1:4161", "10.0.0.2:4161", "10.0.0.3:4151"],
        "staging": ["https://10.2.0.1:4151"],
    }
    of_prod = cluster.of_named("prod")
    assert (of_prod.addresses, of_prod.named) == (cluster.named["prod"], {})
    longest = "a" * 32
    assert ConsoleOptions.from_environment({"PENSTOCK_NSQD_HTTP_ADDRESS": f"{longest}=a:1"}).cluster.named.keys() == {
        longest
    }


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("Prod=a:1", "'Prod=a:1' names no cluster before its =: a name is 1 to 32 of a-z, 0-9 and -, the first no -"),
        ("-prod=a:1", "'-prod=a:1' names no cluster before its ="),
        (f"{'a' * 33}=a:1", f"'{'a' * 33}=a:1' names no cluster before its ="),
        ("=a:1", "'=a:1' names no cluster before its ="),
        ("a/b=a:1", "'a/b=a:1' names no cluster before its ="),
        ("prod=", "cluster prod: '' is neither HOST:PORT nor https://HOST:PORT"),
        ("prod=here", "cluster prod: 'here' is neither HOST:PORT nor https://HOST:PORT"),
        ("prod=a:65536", "cluster prod: 'a:65536' has the port 65536: a port is 1 to 65535"),
        (",".join(f"c{number}=a:1" for number in range(17)), "17 names of clusters: the most is 16"),
    ],
)
def test_a_name_that_no_cluster_can_have_is_refused_with_its_limit(text: str, complaint: str) -> None:
    with pytest.raises(ValueError) as caught:
        ConsoleOptions.from_environment({"PENSTOCK_NSQD_HTTP_ADDRESS": text})
    assert "--nsqd-http-address: " in str(caught.value)
    assert complaint in str(caught.value)


@pytest.mark.parametrize(
    ("option", "text", "complaint"),
    [
        ("lookupd-http-address", "a:99999", "'a:99999' has the port 99999: a port is 1 to 65535"),
        ("nsqd-http-address", "https://a:0", "'https://a:0' has the port 0: a port is 1 to 65535"),
        ("nsqd-http-address", "[::1]:123456789", "'[::1]:123456789' has the port 123456789: a port is 1 to 65535"),
        ("node-address", "a:1=b:65536", "'b:65536' has the port 65536: a port is 1 to 65535"),
        ("node-address", "a:0=b:1", "'a:0' has the port 0: a port is 1 to 65535"),
        ("console-address", "a:65536", "'a:65536' has the port 65536: a port is 0 to 65535"),
        ("notification-http-endpoint", "http://a:65536/x", "'http://a:65536/x' names a port beyond 1 to 65535"),
    ],
)
def test_a_port_beyond_the_limits_is_named_with_them(option: str, text: str, complaint: str) -> None:
    with pytest.raises(ValueError) as caught:
        ConsoleOptions.from_environment({f"PENSTOCK_{option.upper().replace('-', '_')}": text})
    assert str(caught.value) == f"--{option}: {complaint}"


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


def test_a_pattern_is_django_s_and_any_host_is_for_the_http_api_alone() -> None:
    options = ConsoleOptions.from_environment({"PENSTOCK_ALLOWED_HOST": "*.svc.example,*"})
    assert ".svc.example" in options.allowed_hosts
    assert "*" not in options.allowed_hosts
    assert "" not in options.allowed_hosts
    assert "*" not in options.allowed_hosts


@pytest.mark.parametrize(
    ("variables", "complaint"),
    [
        ({"ACL_HTTP_HEADER": "X-User"}, "--acl-http-header X-User needs --trusted-proxy: other clients could"),
        (
            {"ACL_HTTP_HEADER": "X User", "TRUSTED_PROXY": "10.0.0.1"},
            "--acl-http-header: 'X User' is no name of a header",
        ),
        (
            {"ACL_HTTP_HEADER": "X_User", "TRUSTED_PROXY": "10.0.0.1"},
            "--acl-http-header: 'X_User' has a _: such a header is dropped. Have the proxy set X-User, and name that",
        ),
        ({"ACL_ADMIN_USER": "ada"}, "--acl-admin-user needs --acl-http-header, the header that has the user's name"),
        ({"NOTIFICATION_HTTP_ENDPOINT": "hooks/nsq"}, "--notification-http-endpoint: 'hooks/nsq' is no URL such as"),
        ({"ALLOW_CONFIG_FROM_CIDR": "10.0.0.0/99"}, "--allow-config-from-cidr: '10.0.0.0/99' is neither an IP address"),
        ({"ALLOW_API_FROM_CIDR": "any"}, "--allow-api-from-cidr: 'any' is neither an IP address"),
        ({"BASE_PATH": "/topics/"}, "--base-path: '/topics/' has a path that begins with /topics/"),
        (
            {"BASE_PATH": "/a/", "CONSOLE_ORIGIN": "https://x/b/"},
            "--base-path: '/a' is another path than that of --console-origin https://x/b/",
        ),
    ],
)
def test_a_value_of_nsqadmins_options_that_can_not_hold_is_named(variables: dict[str, str], complaint: str) -> None:
    with pytest.raises(ValueError) as caught:
        ConsoleOptions.from_environment({f"PENSTOCK_{name}": text for name, text in variables.items()})
    (sentence,) = str(caught.value).splitlines()
    assert sentence.startswith(complaint)


def test_nsqadmins_options_are_read() -> None:
    options = ConsoleOptions.from_environment(
        {
            "PENSTOCK_BASE_PATH": "/nsq",
            "PENSTOCK_TRUSTED_PROXY": "10.0.0.1",
            "PENSTOCK_ACL_HTTP_HEADER": "X-User",
            "PENSTOCK_ACL_ADMIN_USER": "ada,grace",
            "PENSTOCK_ALLOW_CONFIG_FROM_CIDR": "",
            "PENSTOCK_ALLOW_API_FROM_CIDR": "10.0.0.1/8",
        }
    )
    assert (options.sub_path, options.nsqadmin.acl_header) == ("/nsq", "X-User")
    assert options.nsqadmin.admin_users == {"ada", "grace"}
    assert options.nsqadmin.config_from is None
    assert [str(one) for one in options.nsqadmin.api_from] == ["10.0.0.0/8"]
    own = ConsoleOptions.from_environment({}).nsqadmin
    assert [str(one) for one in own.config_from or ()] == ["127.0.0.0/8"]
    assert own.api_from == ()


@pytest.mark.parametrize(
    ("address", "origin", "sub_path"),
    [
        ("https://queue.example.org/", "https://queue.example.org", ""),
        ("https://example.org/queue/", "https://example.org", "/queue"),
        ("HTTPS://Example.org:8443/Ops/queue-1", "https://example.org:8443", "/Ops/queue-1"),
        ("http://[::1]:8080/~ops/", "http://[::1]:8080", "/~ops"),
    ],
)
def test_the_address_behind_a_proxy_is_an_origin_and_a_sub_path(address: str, origin: str, sub_path: str) -> None:
    options = ConsoleOptions.from_environment({"PENSTOCK_CONSOLE_ORIGIN": address})
    assert (options.origin, options.sub_path) == (origin, sub_path)


@pytest.mark.parametrize(
    ("address", "why"),
    [
        ("https://host/a?b", "a query"),
        ("https://host/a?", "a query"),
        ("https://host/a#b", "a fragment"),
        ("https://host//", "an empty part"),
        ("https://host/a//b/", "an empty part"),
        ("https://host/a/../b", "a dot part"),
        ("https://host/./", "a dot part"),
        ("https://host/a%2Fb/", "another character"),
        ("https://host/a b/", "another character"),
        ("https://host/a\\b/", "another character"),
        ("https://host/a\n", "another character"),
        ("https://host/topics/", "begins with /topics/"),
        ("https://host/ws/queue/", "begins with /ws/"),
        ("https://ada@host/queue/", "not an origin"),
        ("ftp://host/queue/", "not an origin"),
        ("https://host:x/queue/", "not an origin"),
        ("/queue/", "not an origin"),
        ("https://a/queue/,https://b/other/", "more than one address"),
    ],
)
def test_an_address_that_is_none_is_named_with_what_is_wrong(address: str, why: str) -> None:
    with pytest.raises(ValueError) as caught:
        ConsoleOptions.from_environment({"PENSTOCK_CONSOLE_ORIGIN": address})
    sentence = str(caught.value)
    assert sentence.startswith(f"--console-origin: {address!r} ")
    assert why in sentence
    assert "\n" not in sentence


def test_two_addresses_are_refused_and_the_same_one_twice_is_one() -> None:
    given = ["serve", "--console-origin", "https://a/queue/", "--console-origin=https://b/other/"]
    with pytest.raises(ValueError, match="--console-origin: 'https://a/queue/' and 'https://b/other/' are two"):
        take_early_flags(given, {})
    take_early_flags([*given[:3], *given[1:3]], environment := {})
    assert environment == {"PENSTOCK_CONSOLE_ORIGIN": "https://a/queue/"}


def test_no_sub_path_may_begin_as_a_page_does() -> None:
    paths = [str(item.pattern) for item in (*get_resolver().url_patterns, *websocket_urlpatterns)]
    words = {path.partition("/")[0] for path in [*paths, settings.STATIC_URL.removeprefix("/"), PREFIX[1:]]}
    assert sorted(words - {""}) == list(OWN_WORDS)


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


def test_other_secret_files_are_closed_as_the_key_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paths, "_made_key", None)
    for name in ("console.sqlite3", "console.sqlite3-wal", "admin-password", "audit-head"):
        (tmp_path / name).write_text("")
        (tmp_path / name).chmod(0o664)
    (tmp_path / "console.sqlite3-shm").symlink_to(tmp_path / "elsewhere")
    make_secret_key(tmp_path)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir() if path.is_file()}
    assert set(modes.values()) == {0o600}


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


def django(*arguments: str, data_path: Path, **environment: str) -> "subprocess.CompletedProcess[str]":
    """One of Django's own commands, which `penstock` does not have."""
    return subprocess.run(
        [sys.executable, "-m", "django", *arguments],
        cwd=ROOT,
        env={
            "PATH": os.environ["PATH"],
            "DJANGO_SETTINGS_MODULE": "admin_console.settings",
            "PENSTOCK_DATA_PATH": str(data_path),
            **environment,
        },
        capture_output=True,
        text=True,
        timeout=60,
    )


@pytest.mark.slow(reason="starts processes")
@pytest.mark.parametrize("address", ["https://queue.example.org", "https://example.org/queue/"])
def test_deploy_check_has_nothing_to_say_behind_https(tmp_path: Path, address: str) -> None:
    (tmp_path / "static").mkdir()  # the server makes it
    done = django("check", "--deploy", data_path=tmp_path, PENSTOCK_CONSOLE_ORIGIN=address)
    assert done.returncode == 0
    assert "System check identified no issues" in done.stdout + done.stderr


@pytest.mark.parametrize(
    ("variable", "value", "sentence"),
    [
        ("PENSTOCK_CONSOLE_ADDRESS", "nowhere", "--console-address: 'nowhere' is not HOST:PORT"),
        (
            "PENSTOCK_CONSOLE_ORIGIN",
            "https://a,https://b",
            "--console-origin: 'https://a,https://b' is more than one address, and the console has one",
        ),
    ],
)
def test_bad_option_is_one_line_and_no_traceback(variable: str, value: str, sentence: str) -> None:
    done = subprocess.run(
        [sys.executable, "manage.py", "user", "list"],
        cwd=ROOT,
        env={"PATH": os.environ["PATH"], variable: value},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (2, f"penstock: {sentence}\n")


@pytest.mark.slow(reason="starts processes")
def test_settings_make_no_file_and_start_no_engine(tmp_path: Path) -> None:
    code = "import threading; print([thread.name for thread in threading.enumerate()])"
    shell = django("shell", "-v0", "-c", code, data_path=tmp_path / "here")
    assert shell.stdout == "['MainThread']\n", shell.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow(reason="starts processes")
def test_models_and_migrations_agree(tmp_path: Path) -> None:
    assert django("makemigrations", "--check", "--dry-run", data_path=tmp_path).returncode == 0


def test_nothing_is_a_duration_without_a_unit_as_nsqd_takes_it() -> None:
    """The help and the READMEs say "0 for ever" of durations."""
    assert parse_duration_ms("0") == 0
    for text in ("5", "00", "-0", "0.0", ""):
        with pytest.raises(ValueError, match="is not a duration"):
            parse_duration_ms(text)
