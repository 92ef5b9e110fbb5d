"""`python -m queue_engine.lookup`: what a script starts instead of nsqlookupd."""

import os
import platform
import re
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from queue_engine.lookup.__main__ import flag_set, main, options_of
from queue_engine.lookup.options import LookupOptions
from queue_engine.vocabulary.version import full_version

LISTENING = re.compile(
    r"\[nsqlookupd\] \d{4}/\d\d/\d\d \d\d:\d\d:\d\d\.\d{6} INFO: (TCP|HTTP): listening on 127\.0\.0\.1:(\d+)"
)


def test_it_starts_with_nsqlookupds_lines_serves_and_ends_at_sigterm() -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "queue_engine.lookup", "-tcp-address=127.0.0.1:0", "--http-address", "127.0.0.1:0"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stderr is not None
        ports: dict[str, int] = {}
        lines = []
        for line in process.stderr:
            lines.append(line)
            if match := LISTENING.fullmatch(line.strip()):
                ports[match[1]] = int(match[2])
            if ports.keys() == {"TCP", "HTTP"}:
                break
        assert ports.keys() == {"TCP", "HTTP"}, lines
        with urllib.request.urlopen(f"http://127.0.0.1:{ports['HTTP']}/ping", timeout=30) as answer:
            assert answer.read() == b"OK"
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0


def test_a_start_imports_neither_django_nor_spark_nor_a_client_of_http() -> None:
    text = (
        "import sys, queue_engine.lookup.__main__, queue_engine.lookup.server\n"
        "print({'django', 'pyspark', 'aiohttp', 'admin_console', 'queue_engine.engine.engine'} & set(sys.modules))"
    )
    environment = {name: value for name, value in os.environ.items() if name != "DJANGO_SETTINGS_MODULE"}
    done = subprocess.run(
        [sys.executable, "-c", text], capture_output=True, text=True, check=True, env=environment, timeout=60
    )
    assert done.stdout.strip() == "set()"


def test_flags_are_nsqlookupds_and_a_file_may_have_them(tmp_path: Path) -> None:
    config = tmp_path / "lookupd.toml"
    config.write_text('inactive_producer_timeout = "1m"\ntombstone_lifetime = "5s"\nhttp_address = "a:1"\nnew = 1\n')
    given = flag_set().read(["-config", str(config), "--http-address=b:2", "-broadcast-address", "me"])
    assert options_of(given) == LookupOptions(
        inactive_producer_timeout_ms=60_000, tombstone_lifetime_ms=5_000, http_address="b:2", broadcast_address="me"
    )
    assert given.unknown_keys == ("new",)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--nothing"], "flag provided but not defined: -nothing"),
        (["--tcp-address=x"], "--tcp-address: 'x' is not HOST:PORT"),
        (["--log-level=loud"], "--log-level is 'loud': it can be debug, info, warn, error, fatal"),
        (["--tombstone-lifetime=-1s"], "--tombstone-lifetime is -1000: the least is 0"),
    ],
)
def test_a_flag_that_can_not_be_used_is_refused_with_a_sentence(
    capsys: pytest.CaptureFixture[str], arguments: list[str], sentence: str
) -> None:
    assert main(arguments) == 2
    assert capsys.readouterr().err.startswith(sentence)


def test_the_version_is_printed_as_nsqlookupd_prints_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["-version"]) == 0
    line = f"nsqlookupd v1.3.0 (built w/python{platform.python_version()}) penstock v{full_version()}\n"
    assert capsys.readouterr().out == line
