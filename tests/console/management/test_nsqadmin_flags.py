"""`penstock-admin`: nsqadmin's flags, each as an option of `serve`, and what has no effect in a sentence."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from admin_console.management.nsqadmin_flags import OTHER_NAMES, WITHOUT_EFFECT, arguments_of, flag_set, notes_of
from admin_console.management.nsqadmin_program import run
from admin_console.options import ConsoleOptions, take_early_flags
from queue_engine.vocabulary.errors import FlagError
from tests.support.processes.server import ROOT

# All of nsqadmin 1.3, as its -help lists them, with a value each.
NSQADMIN_1_3 = {
    "acl-http-header": "X-User",
    "admin-user": "ada",
    "allow-config-from-cidr": "10.0.0.0/8",
    "base-path": "/nsq/",
    "dev-static-dir": "/srv/static",
    "graphite-url": "http://graphite:8080",
    "http-address": "127.0.0.1:4171",
    "http-client-connect-timeout": "1s",
    "http-client-request-timeout": "3s",
    "http-client-tls-cert": "/etc/cert.pem",
    "http-client-tls-insecure-skip-verify": "true",
    "http-client-tls-key": "/etc/key.pem",
    "http-client-tls-root-ca-file": "/etc/ca.pem",
    "log-level": "WARN",
    "log-prefix": "[nsqadmin] ",
    "lookupd-http-address": "10.1.2.3:4161",
    "notification-http-endpoint": "http://hooks.example.org/nsq",
    "nsqd-http-address": "10.1.2.4:4151",
    "proxy-graphite": "true",
    "statsd-counter-format": "stats.counters.%s.count",
    "statsd-gauge-format": "",
    "statsd-interval": "30s",
    "statsd-prefix": "nsq.%s",
    "verbose": "true",
}


def options_of(*arguments: str, environment: dict[str, str] | None = None) -> list[str]:
    return arguments_of(flag_set().read(arguments), environment or {})


def test_every_flag_of_nsqadmin_is_accepted_and_acts_or_says_why_not() -> None:
    given = flag_set().read([f"-{name}={value}" for name, value in NSQADMIN_1_3.items()])
    arguments, notes = arguments_of(given, {}), " ".join(notes_of(given))
    passed = {argument.partition("=")[0].removeprefix("--") for argument in arguments}
    for name in NSQADMIN_1_3:
        acts = OTHER_NAMES.get(name, name) in passed
        assert acts != (name in WITHOUT_EFFECT), name
        assert acts or f"--{name}" in notes, name
    assert "--log-level=warning" in arguments
    assert "--http-client-connect-timeout=1000ms" in arguments
    assert "--console-only" in arguments
    take_early_flags(["serve", *arguments, "--trusted-proxy=10.0.0.1"], environment := {})
    options = ConsoleOptions.from_environment(environment)
    assert (options.port, options.sub_path) == (4171, "/nsq")
    assert options.nsqadmin.admin_users == {"ada"}


def test_the_flags_of_graphite_share_one_sentence_that_names_our_history() -> None:
    notes = notes_of(flag_set().read(["-graphite-url=http://g", "-proxy-graphite", "--statsd-interval", "1m"]))
    assert len(notes) == 1
    assert notes[0].startswith(
        "--graphite-url, --proxy-graphite, --statsd-interval have no effect: Graphite is not drawn; "
    )
    assert "graphs of the console's own history" in notes[0]


def test_several_addresses_of_both_kinds_may_be_given() -> None:
    arguments = options_of(
        "-lookupd-http-address=a:4161", "-lookupd-http-address", "b:4161,c:4161", "-nsqd-http-address=d:4151"
    )
    assert arguments[1:4] == [f"--lookupd-http-address={one}:4161" for one in "abc"]
    assert "--nsqd-http-address=d:4151" in arguments
    named = options_of("-lookupd-http-address=prod=a:4161", "-lookupd-http-address=staging=b:4161")
    assert {"--lookupd-http-address=prod=a:4161", "--lookupd-http-address=staging=b:4161"} <= set(named)


def test_nsqadmins_defaults_give_way_to_the_environment_and_that_to_flags() -> None:
    variable = {"PENSTOCK_CONSOLE_ADDRESS": "127.0.0.1:1"}
    assert options_of() == ["--console-only", "--console-address=0.0.0.0:4171"]
    assert options_of(environment=variable) == ["--console-only"]
    assert options_of("-http-address=:2", environment=variable) == ["--console-only", "--console-address=:2"]
    assert "--acl-http-header=X-Forwarded-User" in options_of("-admin-user=ada")


def test_a_configuration_file_has_nsqadmins_keys(tmp_path: Path) -> None:
    path = tmp_path / "nsqadmin.cfg"
    path.write_text(
        'http_address = "0.0.0.0:4271"\nnsqlookupd_http_addresses = ["a:4161", "b:4161"]\nadmin_users = ["ada"]\n'
        'graphite_url = "http://g"\nhttp_client_request_timeout = "7s"\nno_such_key = 1\n'
    )
    given = flag_set().read([f"-config={path}", "-http-address=127.0.0.1:0"])
    arguments = arguments_of(given, {})
    assert {"--lookupd-http-address=a:4161", "--lookupd-http-address=b:4161", "--acl-admin-user=ada"} <= set(arguments)
    assert {"--console-address=127.0.0.1:0", "--http-client-request-timeout=7000ms"} <= set(arguments)
    assert notes_of(given)[0] == "--config: no_such_key is no flag, and has no effect"
    assert "--graphite-url has no effect" in notes_of(given)[1]


def test_a_header_without_admins_and_a_proxy_is_left_out_with_a_sentence() -> None:
    given = flag_set().read(["-acl-http-header=X-User"])
    assert arguments_of(given, {}) == ["--console-only", "--console-address=0.0.0.0:4171"]
    (note,) = notes_of(given, {})
    assert note.startswith("--acl-http-header has no effect without --trusted-proxy, ")
    for proxy, environment in (["-trusted-proxy=10.0.0.1"], {}), ([], {"PENSTOCK_TRUSTED_PROXY": "10.0.0.1"}):
        given = flag_set().read(["-acl-http-header=X-User", *proxy])
        assert "--acl-http-header=X-User" in arguments_of(given, environment)
        assert notes_of(given, environment) == []
    # With admins the header is needed: `serve` refuses it without a proxy.
    assert "--acl-http-header=X-User" in options_of("-acl-http-header=X-User", "-admin-user=ada")


def test_a_file_with_an_empty_list_of_admins_has_none(tmp_path: Path) -> None:
    path = tmp_path / "nsqadmin.cfg"
    path.write_text('admin_users = []\nacl_http_header = ""\n')
    given = flag_set().read([f"-config={path}"])
    assert not any(one.startswith(("--acl-admin-user", "--acl-http-header=X")) for one in arguments_of(given, {}))


def test_an_unknown_flag_costs_gos_sentence() -> None:
    with pytest.raises(
        FlagError, match=r"flag provided but not defined: -lookup-http-address\. Did you mean -lookupd-http-"
    ):
        flag_set().read(["-lookup-http-address=a:4161"])


def test_version_and_usage_are_nsqadmins(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["penstock-admin", "-version"]) == 0
    assert capsys.readouterr().out.startswith("nsqadmin v1.3.0 (built w/python")
    assert run(["penstock-admin", "-h"]) == 0
    usage = capsys.readouterr().err
    assert usage.startswith("Usage of nsqadmin:\n")
    assert all(f"\n  -{name}" in usage for name in (*NSQADMIN_1_3, "config", "version"))
    assert run(["penstock-admin", "-bogus"]) == 2
    assert capsys.readouterr().err.startswith("flag provided but not defined: -bogus\nUsage of nsqadmin:")


@pytest.mark.slow(reason="starts a process")
def test_a_refused_value_costs_a_sentence_and_no_directory(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", "from admin_console.management.entry import nsqadmin; nsqadmin()", "-admin-user=ada"],
        cwd=tmp_path,
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 2
    assert done.stderr == (
        "penstock: --acl-http-header X-Forwarded-User needs --trusted-proxy: other clients could set any name there\n"
    )
    assert list(tmp_path.iterdir()) == []
