"""`penstock user` beside a real server: what a command writes, the server obeys."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.pages.console_client import ConsoleClient
from tests.support.processes.server import ROOT, ServerProcess

pytestmark = pytest.mark.slow(reason="starts a server and commands beside it")


def user(server: ServerProcess, *arguments: str, stdin: str = "") -> str:
    done = subprocess.run(
        [sys.executable, "manage.py", "user", *arguments, f"--data-path={server.data_path}"],
        cwd=ROOT,
        env={"PATH": os.environ["PATH"]},
        input=stdin,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_disabling_a_user_ends_the_sessions_for_good(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "data", options=["--no-pipeline"]) as server:
        user(server, "add", "vera", "--role", "viewer", "--password-stdin", stdin="long-enough-7\n")
        vera = ConsoleClient(server.console_port)
        vera.log_in("vera", "long-enough-7")
        assert vera.get("/").status == 200
        assert user(server, "disable", "vera") == "vera can't log in any more; its sessions are ended.\n"
        user(server, "enable", "vera")
        assert vera.get("/").status == 302, "the old cookie opens nothing, though the user may log in again"
        vera.close()


def test_a_password_that_is_not_utf_8_costs_a_sentence(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "data", options=["--no-pipeline"]) as server:
        done = subprocess.run(
            [sys.executable, "manage.py", "user", "add", "vera", "--role=viewer", "--password-stdin"],
            cwd=ROOT,
            env={"PATH": os.environ["PATH"], "PENSTOCK_DATA_PATH": str(server.data_path)},
            input=b"long-enough-\xff\n",
            capture_output=True,
            timeout=120,
        )
        assert done.returncode == 2
        assert done.stderr.startswith(b"penstock: ")
        assert b"Traceback" not in done.stderr
        assert "vera" not in user(server, "list")
