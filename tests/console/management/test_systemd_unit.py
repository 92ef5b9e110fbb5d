"""The unit that `penstock systemd` prints: as text, to systemd's own checks, and run as it stands."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest

from admin_console.management.serve_options import ServeParser, arguments_of
from admin_console.management.systemd_unit import Service, complaint_about_word, memory_limits, quoted, unit_text
from admin_console.options import CONSOLE_ONLY, CONSOLE_OPTIONS, SWITCHES
from queue_engine.service.process.service_manager import START_LIMIT_S
from queue_engine.vocabulary.options.durations import format_duration
from queue_engine.vocabulary.options.option import flag_of
from queue_engine.vocabulary.options.options import Options
from tests.support.processes.notify_socket import NotifySocket
from tests.support.processes.penstock_command import penstock
from tests.support.processes.ports import free_ports
from tests.support.processes.server import ROOT

ODD = '/srv/my "queue" 100% of $HOME\\'
# What `systemd-analyze security` may find, of 100; a unit without hardening has 96. Version 252 finds 17 in this one,
# and each version judges a little differently.
EXPOSURE_MAX = 25


def service(**changed: object) -> Service:
    values = {
        "program": ("/opt/penstock/bin/penstock",),
        "arguments": (),
        "options": Options(),
        "data_path": Path("/var/lib/penstock"),
        "installed": (Path("/opt/penstock"), Path("/usr")),
        "console_port": 4171,
        "user": "penstock",
        "group": "penstock",
        "with_pipeline": True,
        "with_engine": True,
        "command_line": ("/opt/penstock/bin/penstock", "systemd"),
        **changed,
    }
    return Service(**values)


def settings_of(text: str) -> dict[str, str]:
    """The unit's settings by name; each stands once."""
    lines = [line for line in text.splitlines() if line and not line.startswith(("#", "["))]
    found = dict(line.split("=", 1) for line in lines)
    assert len(found) == len(lines)
    return found


def words_of(value: str) -> list[str]:
    """The words of a command as systemd reads them: quotes and escapes first, then what stands for % and $."""
    program, *rest = [word.replace("%%", "%") for word in shlex.split(value)]
    return [program, *(word.replace("$$", "$") for word in rest)]


def verified(text: str, directory: Path) -> str:
    """What systemd's own check has to say of a unit; "" where it finds nothing, or is not installed."""
    program = shutil.which("systemd-analyze")
    if program is None:
        return ""
    path = directory / "penstock.service"
    path.write_text(text)
    done = subprocess.run(
        [program, "verify", "--man=no", "--recursive-errors=no", str(path)], capture_output=True, text=True, timeout=60
    )
    assert bool(done.returncode) <= bool(done.stderr), done
    return done.stderr


@pytest.mark.parametrize(
    ("word", "written"),
    [
        ("--data-path=/var/lib/penstock", "--data-path=/var/lib/penstock"),
        ("a b", '"a b"'),
        ("50%", "50%%"),
        ("$HOME", "$$HOME"),
        ('say "no"', '"say \\"no\\""'),
        ("C:\\x", '"C:\\\\x"'),
        ("", '""'),
        (";", '";"'),
        ("#1", '"#1"'),
        ("schön", '"schön"'),
    ],
)
def test_words_are_quoted_as_systemd_reads_them(word: str, written: str) -> None:
    assert quoted(word) == written
    assert words_of(f"/bin/true {written}") == ["/bin/true", word]


def test_words_that_no_unit_can_have_are_named() -> None:
    assert complaint_about_word("/srv/a\nb") == "'/srv/a\\nb' has a control character, which systemd refuses"
    assert complaint_about_word("/srv/\udcff") == "'/srv/\\udcff' is not UTF-8, which systemd refuses"
    assert complaint_about_word(ODD) == ""
    assert "takes no quotes and backslashes there" in complaint_about_word("/opt/o'brien/penstock", is_program=True)
    assert complaint_about_word("/opt/50% of $HOME", is_program=True) == ""


def test_the_unit_says_how_it_starts_lives_and_ends() -> None:
    found = settings_of(unit_text(service(options=Options(stop_timeout_ms=90_500))))
    assert words_of(found["ExecStart"]) == ["/opt/penstock/bin/penstock", "serve", "--data-path=/var/lib/penstock"]
    assert (found["Type"], found["NotifyAccess"]) == ("notify", "main")
    assert (found["User"], found["Group"], found["UMask"]) == ("penstock", "penstock", "0077")
    assert (found["StateDirectory"], found["StateDirectoryMode"]) == ("penstock", "0700")
    assert found["EnvironmentFile"] == "-/etc/penstock/environment"
    assert (found["KillMode"], found["TimeoutStopSec"]) == ("mixed", "151s")
    assert (found["TimeoutStartSec"], found["WatchdogSec"]) == (f"{START_LIMIT_S}s", "120s")
    assert (found["Restart"], found["RestartSec"]) == ("on-failure", "5s")
    assert "RestartPreventExitStatus" not in found
    assert (found["LimitNOFILE"], found["OOMPolicy"]) == ("65536", "continue")
    assert (found["NoNewPrivileges"], found["ProtectSystem"]) == ("yes", "strict")
    assert (found["ProtectHome"], found["PrivateTmp"], found["CapabilityBoundingSet"]) == ("yes", "yes", "")
    assert found["SystemCallFilter"] == "@system-service"
    assert "MemoryDenyWriteExecute" not in found
    assert "ReadWritePaths" not in found


def test_data_elsewhere_is_writable_and_made_by_hand() -> None:
    text = unit_text(service(data_path=Path("/srv/my queue")))
    found = settings_of(text)
    assert found["ReadWritePaths"] == found["RequiresMountsFor"] == '"/srv/my queue"'
    assert "StateDirectory" not in found
    assert "#   install -d -m 0700 -o penstock -g penstock '/srv/my queue'\n" in text
    assert settings_of(unit_text(service(data_path=Path("/var/lib/a/b"))))["StateDirectory"] == "a/b"
    own = settings_of(unit_text(service(data_path=Path("/var/lib/private/a"))))
    assert "StateDirectory" not in own, "systemd ignores it there"
    assert own["ReadWritePaths"] == "/var/lib/private/a"


def test_a_lake_elsewhere_is_writable_and_made_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    text = unit_text(service(options=Options(lake="/srv/my lake")))
    found = settings_of(text)
    assert found["ReadWritePaths"] == '"/srv/my lake"'
    assert found["RequiresMountsFor"] == '/var/lib/penstock "/srv/my lake"'
    assert found["StateDirectory"] == "penstock"
    assert "#   install -d -m 0700 -o penstock -g penstock '/srv/my lake'\n" in text
    both = settings_of(unit_text(service(data_path=Path("/srv/queue"), options=Options(lake="/srv/lake"))))
    assert both["ReadWritePaths"] == "/srv/queue /srv/lake"
    at_home = settings_of(unit_text(service(options=Options(lake="/root/lake"))))
    assert at_home["ProtectHome"] == "read-only"
    monkeypatch.chdir("/srv")
    assert settings_of(unit_text(service(options=Options(lake="lake"))))["ReadWritePaths"] == "/srv/lake"
    for place in ("s3://bucket/lake", "/var/lib/penstock/tables"):
        assert "ReadWritePaths" not in settings_of(unit_text(service(options=Options(lake=place))))


def test_a_program_or_data_below_a_home_or_tmp_can_be_reached() -> None:
    at_home = settings_of(unit_text(service(installed=(Path("/root/.pyenv/versions/3.11"),))))
    assert (at_home["ProtectHome"], at_home["PrivateTmp"]) == ("read-only", "yes")
    in_tmp = settings_of(unit_text(service(data_path=Path("/var/tmp") / "queue")))
    assert (in_tmp["ProtectHome"], in_tmp["PrivateTmp"]) == ("yes", "no")


def test_only_a_low_port_gets_a_capability() -> None:
    for changed in ({"options": Options(http_address="0.0.0.0:80")}, {"console_port": 443}):
        found = settings_of(unit_text(service(**changed)))
        assert found["CapabilityBoundingSet"] == found["AmbientCapabilities"] == "CAP_NET_BIND_SERVICE"
    free = settings_of(unit_text(service(options=Options(tcp_address="127.0.0.1:0"))))
    assert free["CapabilityBoundingSet"] == ""


def test_memory_is_what_the_options_allow() -> None:
    alone, _ = memory_limits(Options(), with_pipeline=False)
    both, most = memory_limits(Options(), with_pipeline=True)
    larger, _ = memory_limits(Options(worker_memory_bytes=4 << 30, max_deferred_bytes=1 << 40), with_pipeline=False)
    assert most == -(-both * 5 // 4)
    assert larger - alone == (1 << 20) - 512
    heap_mib = Options().worker_memory_bytes >> 20
    assert both - alone > heap_mib
    more, _ = memory_limits(Options(worker_python_processes=10), with_pipeline=True)
    assert (more - both) / 8 > 100, "each process of the worker takes some, and two are the most by default"
    found = settings_of(unit_text(service(with_pipeline=False)))
    assert found["MemoryHigh"] == f"{alone}M"


def test_a_console_alone_has_the_memory_of_no_queue_and_the_port_of_none() -> None:
    queue, _ = memory_limits(Options(), with_pipeline=False)
    console, most = memory_limits(Options(), with_pipeline=False, with_engine=False)
    assert console == 512 < queue
    options = Options(http_address="127.0.0.1:80")
    found = settings_of(unit_text(service(with_engine=False, with_pipeline=False, options=options)))
    assert (found["MemoryHigh"], found["MemoryMax"]) == (f"{console}M", f"{most}M")
    assert found["Description"] == "Penstock console"
    assert found["CapabilityBoundingSet"] == ""


def test_a_token_has_to_be_in_the_file_that_others_cannot_read() -> None:
    text = unit_text(service(options=Options(http_token="secret-of-mine")))
    assert settings_of(text)["EnvironmentFile"] == "/etc/penstock/environment"
    assert "secret-of-mine" not in text


def test_systemd_finds_nothing_wrong_with_it(tmp_path: Path) -> None:
    true = str(Path("/bin/true").resolve())
    for changed in (
        {},
        {"data_path": Path(ODD), "arguments": (f"--broadcast-address={ODD}",)},
        {"options": Options(http_address="0.0.0.0:80"), "user": "queue", "group": "queues"},
    ):
        assert verified(unit_text(service(program=(true,), **changed)), tmp_path) == ""


def test_systemd_reads_an_odd_program_path(tmp_path: Path) -> None:
    odd = tmp_path / "50% of $HOME, %n"
    odd.mkdir()
    program = Path(shutil.copy("/bin/true", odd / "a program"))
    assert verified(unit_text(service(program=(str(program),))), tmp_path) == ""
    program.unlink()
    if shutil.which("systemd-analyze"):
        assert "is not executable" in verified(unit_text(service(program=(str(program),))), tmp_path)


def test_what_an_intruder_could_do_is_little(tmp_path: Path) -> None:
    if program := shutil.which("systemd-analyze"):
        path = tmp_path / "penstock.service"
        path.write_text(unit_text(service()))
        judged = [program, "security", "--offline=true", "--no-pager", f"--threshold={EXPOSURE_MAX}", str(path)]
        done = subprocess.run(judged, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stdout + done.stderr
    # Where systemd is not there to judge: what its judgement rests on.
    protections = [name for name in settings_of(unit_text(service())) if name.startswith(("Protect", "Private", "Res"))]
    assert len(protections) >= 15


def sample_of(flag: str, default: object) -> str:
    """A value that the option takes."""
    others = {
        "--http-token": "secret-of-mine",
        "--node-id": "7",
        "--lake": "s3://bucket/lake",
        "--tls-cert": "/etc/cert.pem",
        "--tls-key": "/etc/key.pem",
        "--tls-root-ca-file": "/etc/ca.pem",
        "--set-aside-segment": "00000000000000000000.log:1",
        "--tls-client-auth-policy": "require",
        "--statsd-address": "10.1.2.3:8125",
        "--lookupd-tcp-address": "10.1.2.3:4160",
        "--auth-http-address": "10.1.2.3:4181",
        "--e2e-processing-latency-percentile": "0.99",
        "--publish-quota": "orders-*=1000",
        "--lookupd-http-address": "10.1.2.3:4161",
        "--nsqd-http-address": "10.1.2.3:4151",
        "--node-address": "10.1.2.3:4151=10.1.2.4:4151",
        "--node-token-file": "/etc/penstock/nodes",
        "--http-client-tls-root-ca-file": "/etc/penstock/ca.pem",
        "--http-client-tls-cert": "/etc/penstock/cert.pem",
        "--http-client-tls-key": "/etc/penstock/key.pem",
        "--base-path": "/queue/",
        "--acl-http-header": "X-Forwarded-User",
        "--acl-admin-user": "ada",
        "--trusted-proxy": "10.1.2.3",
        "--notification-http-endpoint": "https://hooks.example.org/nsq",
        "--allow-api-from-cidr": "10.0.0.0/8",
        "--http-token-file": "",  # beside --http-token it is refused
    }
    if flag in others or default in ("", ()):
        return others.get(flag, "10.1.2.3" if flag != "--console-origin" else "https://queue.example.org:8443")
    if isinstance(default, int) and not isinstance(default, bool):
        return str(default)
    return str(default).lower() if isinstance(default, bool) else str(default)


@pytest.mark.slow(reason="starts a process")
def test_every_option_of_serve_is_passed_on_and_nothing_is_made(tmp_path: Path) -> None:
    given = [
        f"{flag_of(spec.name)}={format_duration(spec.default) if spec.name.endswith('_ms') else sample}"
        for spec in fields(Options)
        for sample in [sample_of(flag_of(spec.name), spec.default)]
    ]
    given += [f"{option.flag}={sample_of(option.flag, option.default)}" for option in CONSOLE_OPTIONS]
    # --demo takes the engine that --console-only leaves out.
    given += [option.flag for option in SWITCHES if option is not CONSOLE_ONLY]
    secret = "--http-token=secret-of-mine"
    data_path = "--data-path=.penstock"
    assert {secret, data_path} <= set(given)
    done = penstock("systemd", *given, "--user", "queue", directory=tmp_path)
    assert done.returncode == 0
    assert done.stderr == (
        "The token is not in the unit, which other accounts can read. Put PENSTOCK_HTTP_TOKEN=… into "
        "/etc/penstock/environment.\n"
    )
    found = settings_of(done.stdout)
    program, script, command, *passed = words_of(found["ExecStart"])
    assert [program, script, command] == [sys.executable, str(ROOT / "manage.py"), "serve"]
    assert set(passed) == {*given} - {secret, data_path} | {f"--data-path={tmp_path}/.penstock"}
    assert "secret-of-mine" not in done.stdout
    assert found["EnvironmentFile"] == "/etc/penstock/environment"
    assert (found["User"], found["Group"]) == ("queue", "queue")
    assert list(tmp_path.iterdir()) == []


def test_files_are_named_from_the_root_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A service of systemd begins in /."""
    monkeypatch.chdir(tmp_path)
    parser = ServeParser().create_parser("penstock", "systemd")
    given = vars(parser.parse_args(["--tls-cert=tls/cert.pem", "--tls-key=/etc/key.pem", "--tls-root-ca-file=ca.pem"]))
    assert arguments_of(given) == [
        f"--tls-cert={tmp_path}/tls/cert.pem",
        "--tls-key=/etc/key.pem",
        f"--tls-root-ca-file={tmp_path}/ca.pem",
    ]
    for place, passed in (("lake", f"{tmp_path}/lake"), ("/srv/lake", "/srv/lake"), ("s3://bucket/a", "s3://bucket/a")):
        assert arguments_of(vars(parser.parse_args([f"--lake={place}"]))) == [f"--lake={passed}"]


def test_a_certificate_below_a_home_can_be_read() -> None:
    options = Options(tls_cert="/root/cert.pem", tls_key="/etc/key.pem")
    assert settings_of(unit_text(service(options=options)))["ProtectHome"] == "read-only"


@pytest.mark.slow(reason="starts processes")
def test_options_of_the_environment_are_passed_on(tmp_path: Path) -> None:
    variables = {
        "PENSTOCK_MSG_TIMEOUT": "30s",
        "PENSTOCK_NO_PIPELINE": "true",
        "PENSTOCK_TRUSTED_PROXY": "::1,10.0.0.0/8",
    }
    done = penstock(
        "systemd", "--msg-timeout=40s", directory=tmp_path, PENSTOCK_HTTP_TOKEN="secret-of-mine", **variables
    )
    assert words_of(settings_of(done.stdout)["ExecStart"])[3:] == [
        "--data-path=/var/lib/penstock",
        "--trusted-proxy=::1,10.0.0.0/8",
        "--msg-timeout=40s",
        "--no-pipeline",
    ]
    assert "secret-of-mine" not in done.stdout


@pytest.mark.slow(reason="starts a process")
def test_it_is_printed_beside_data_that_this_account_may_not_use(tmp_path: Path) -> None:
    data_path = tmp_path / "data"
    data_path.mkdir(mode=0o000)
    if os.geteuid() == 0:
        os.chown(data_path, 65534, 65534)
    done = penstock("systemd", "--data-path", str(data_path), directory=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert f"--data-path={data_path}" in done.stdout


@pytest.mark.slow(reason="starts processes")
@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--user", "a b"], "--user: 'a b' is no name of an account"),
        (["--msg-timeout=5"], "--msg-timeout: '5' is not a duration such as 60s, 500ms or 1m30s"),
        (["--console-origin=queue"], "--console-origin: 'queue' is not an origin"),
        (["--usr=me"], "unrecognized arguments: --usr=me. Did you mean --user?"),
        (["--data-path=/srv/a\nb"], "has a control character, which systemd refuses"),
    ],
)
def test_a_mistake_costs_a_sentence_and_no_unit(tmp_path: Path, arguments: list[str], sentence: str) -> None:
    done = penstock("systemd", *arguments, directory=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("penstock: ")
    assert sentence in done.stderr
    assert "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow(reason="starts a real server")
def test_the_command_of_the_unit_serves(tmp_path: Path) -> None:
    data_path = tmp_path / "my queue, 100% $HOME"
    addresses = [
        f"--{name}-address=127.0.0.1:{port}"
        for name, port in zip(("tcp", "http", "console"), free_ports(3), strict=True)
    ]
    printed = penstock("systemd", *addresses, "--no-pipeline", "--data-path", str(data_path), directory=tmp_path).stdout
    assert re.search(r"^# .*admin-password", printed, re.MULTILINE)
    assert verified(printed, tmp_path) == ""
    with NotifySocket(tmp_path / "notify") as notified, (tmp_path / "journal").open("wb") as journal:
        server = subprocess.Popen(
            words_of(settings_of(printed)["ExecStart"]),
            cwd="/",
            env={"PATH": os.environ["PATH"], "NOTIFY_SOCKET": notified.address},
            stdin=subprocess.DEVNULL,
            stdout=journal,
            stderr=journal,
        )
        try:
            notified.wait_for("READY", "1")
            assert (data_path / "admin-password").is_file()
            server.terminate()
            assert server.wait(60) == 0
        finally:
            server.kill()
            server.wait()
