"""The tools' command lines: what they refuse, and that each works as a process."""

import importlib
import io
import os
import re
import signal
import subprocess
import sys
import termios
from collections.abc import Callable
from pathlib import Path

import pytest
from django.core.management.base import CommandError

from admin_console.management.command import PlainCommand
from tests.support.processes.penstock_command import penstock
from tests.support.processes.running_engine import RunningEngine
from tests.support.processes.server import ROOT
from tests.support.waiting import wait_for

ADDRESS = ("--nsqd-tcp-address", "127.0.0.1:1")


@pytest.mark.slow(reason="starts processes")
@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("tail", "--topic", "$", *ADDRESS), "'$' is not a topic's name: 1 to 64 of"),
        (("publish", "--topic", "t", *ADDRESS), "can't connect to 127.0.0.1:1: Connection refused"),
    ],
    ids=lambda value: "" if isinstance(value, str) else value[0],
)
def test_a_mistake_costs_one_sentence_and_status_2(arguments: tuple[str, ...], sentence: str, tmp_path: Path) -> None:
    done = penstock(*arguments, directory=tmp_path)
    assert (done.returncode, done.stdout) == (2, ""), done.stderr
    assert sentence in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("tail", "--topic", "t"), "give --nsqd-tcp-address HOST:PORT or --lookupd-http-address HOST:PORT"),
        (("tail", "--topic", "t", *ADDRESS, "--max-in-flight", "0"), "--max-in-flight: 0 is less than 1"),
        (("tail", "--topic", "t", *ADDRESS, "--tls-cert", "x"), "--tls-cert does nothing without --tls"),
        (
            ("tail", "--topic", "t", *ADDRESS, "--tls", "--tls-root-ca-file", "x"),
            "TLS can't be set up with x: No such file",
        ),
        (
            ("tail", "--topic", "t", *ADDRESS, "--auth-secret-file", "x"),
            "--auth-secret-file x: No such file or directory",
        ),
        (("to_file", *ADDRESS), "give --topic NAME or --topic-pattern REGEX"),
        (
            ("to_file", "--topic", "t", *ADDRESS, "--output-dir", "/dev/null/x"),
            "/dev/null/x is no directory and can't be",
        ),
        (("to_file", "--topic", "t", *ADDRESS, "--filename-format", "x"), "--filename-format 'x' has no <TOPIC>"),
        (("to_file", "--topic", "t", *ADDRESS, "--gzip-level", "12"), "--gzip-level is 12: it can be 1 to 9"),
        (
            ("to_file", "--topic-pattern", "(", "--lookupd-http-address", "127.0.0.1:1"),
            "--topic-pattern '(' is no regular expression: missing )",
        ),
        (("to_http", "--topic", "t", *ADDRESS), "give either --post URL or --get URL"),
        (("to_http", "--topic", "t", *ADDRESS, "--post", "http://x/", "--sample", "all"), "'all' is not a number"),
        (
            ("forward", "--topic", "t", *ADDRESS, "--destination-nsqd-tcp-address", "127.0.0.1:1"),
            "127.0.0.1:1 would get its own messages again and again: give a --destination-topic",
        ),
        (("publish", "--topic", "t", *ADDRESS, "--delimiter", "ab"), "--delimiter is 'ab': it is a single byte"),
        (("publish", "--topic", "t", *ADDRESS, "--rate", "nan"), "--rate: 'nan' is not a number"),
        (("stat", "--nsqd-http-address", "ftp://x:1"), "'ftp://x:1' is neither HOST:PORT nor an http or https URL"),
        (("stat", "--nsqd-http-address", "127.0.0.1:1"), "no server answers"),
    ],
    ids=lambda value: "" if isinstance(value, str) else value[0],
)
def test_a_mistake_is_named(
    arguments: tuple[str, ...], sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    name, *rest = arguments
    command = importlib.import_module(f"admin_console.management.commands.{name}").Command()
    with pytest.raises(CommandError, match=re.escape(sentence)):
        command.execute(**vars(command.create_parser("penstock", name).parse_args(rest)))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow(reason="starts processes")
def test_what_is_published_is_printed(start_engine: Callable[..., RunningEngine], tmp_path: Path) -> None:
    engine = start_engine()
    address = ("--nsqd-tcp-address", f"127.0.0.1:{engine.tcp_port}")
    command = [sys.executable, str(ROOT / "manage.py")]
    environment = {"PATH": os.environ["PATH"], "PENSTOCK_AUTH_SECRET": "not asked for"}
    tail = subprocess.Popen(
        [*command, "tail", "--topic", "t", "--channel", "c", *address],
        env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd=tmp_path,
    )  # fmt: skip
    with tail:
        published = subprocess.run(
            [*command, "publish", "--topic", "t", *address],
            env=environment, input=b"one\n\ntw\xff\x1b[31m\n", capture_output=True, timeout=120, cwd=tmp_path,
        )  # fmt: skip
        assert (published.returncode, published.stderr) == (0, b"2 published\n")
        assert tail.stdout is not None
        assert sorted((tail.stdout.readline(), tail.stdout.readline())) == [b"one\n", b"tw\xff\x1b[31m\n"]
        wait_for("both to be finished", lambda: engine.channel_stats("t", "c")["in_flight_count"] == 0)
        tail.send_signal(signal.SIGTERM)
        assert tail.wait(60) == 0


@pytest.mark.slow(reason="starts a process")
def test_a_body_steers_no_terminal(engine: RunningEngine, tmp_path: Path) -> None:
    engine.http("POST", "/topic/create?topic=t", b"")
    engine.http("POST", "/channel/create?topic=t&channel=c", b"")
    body = "\x1b]0;owned\x07\tgrün\r\u202e\x9b2J".encode() + b"\xff"
    engine.http("POST", "/pub?topic=t", body)
    terminal, side = os.openpty()
    with os.fdopen(terminal, "rb", buffering=0) as screen, os.fdopen(side, "wb") as output:
        termios.tcsetattr(side, termios.TCSANOW, [0, 0, *termios.tcgetattr(side)[2:]])  # bytes as they are
        address = ("--nsqd-tcp-address", f"127.0.0.1:{engine.tcp_port}")
        done = subprocess.run(
            [sys.executable, str(ROOT / "manage.py"), "tail", "--topic", "t", "--channel", "c", "-n", "1", *address],
            env={"PATH": os.environ["PATH"]}, stdout=output, stderr=subprocess.PIPE, timeout=120, cwd=tmp_path,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        shown = screen.read(1_000).decode()
    assert shown == "\\x1b]0;owned\\x07\tgrün\\r\\u202e\\x9b2J\\xff\n"


def test_sentences_of_commands_are_escaped_on_a_terminal_alone() -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    for output, shown in ((Terminal(), "\\x1b[31mred\n"), (io.StringIO(), "\x1b[31mred\n")):
        PlainCommand(stdout=output).stdout.write("\x1b[31mred")
        assert output.getvalue() == shown


@pytest.mark.slow(reason="starts a process")
def test_a_reader_that_is_gone_ends_tail_and_loses_nothing(engine: RunningEngine, tmp_path: Path) -> None:
    engine.http("POST", "/topic/create?topic=t", b"")
    engine.http("POST", "/channel/create?topic=t&channel=c", b"")
    tail = subprocess.Popen(
        [
            sys.executable, str(ROOT / "manage.py"), "tail", "--topic", "t", "--channel", "c",
            "--nsqd-tcp-address", f"127.0.0.1:{engine.tcp_port}",
        ],
        env={"PATH": os.environ["PATH"]}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=tmp_path,
    )  # fmt: skip
    with tail:
        assert tail.stdout is not None
        tail.stdout.close()
        wait_for("it to subscribe", lambda: engine.channel_stats("t", "c")["client_count"] == 1)
        engine.http("POST", "/pub?topic=t", b"nobody reads this")
        assert tail.wait(60) == 141
        assert tail.stderr is not None
        assert b"Traceback" not in tail.stderr.read()
    wait_for("the message to wait again", lambda: engine.channel_stats("t", "c")["depth"] == 1)
