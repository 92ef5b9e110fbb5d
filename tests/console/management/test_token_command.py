"""`penstock token` beside a real server, and the addresses that `serve` refuses without one."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.nsq_socket import FRAME_ERROR, FRAME_RESPONSE, NsqSocket, sized
from tests.support.pages.console_client import ConsoleClient
from tests.support.processes.server import ADMIN_PASSWORD, ADMIN_USER, ROOT, ServerProcess
from tests.support.waiting import wait_for

pytestmark = pytest.mark.slow(reason="starts a server and commands beside it")


def penstock(*arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "manage.py", *arguments],
        cwd=ROOT,
        env={"PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        timeout=120,
    )


def test_tokens_are_made_and_revoked_while_a_server_runs(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "data", options=["--no-pipeline"]) as server:
        where = f"--data-path={server.data_path}"
        assert penstock("token", "list", where).stdout == "There are no tokens.\n"
        made = penstock("token", "create", "ci", "--allow", "publish", "--topic", "builds.*", "--expires-in=1h", where)
        assert made.returncode == 0, made.stderr
        assert "This is the first token." in made.stderr
        secret = made.stdout.strip()
        unclear = penstock("token", "create", "x", "--allow", "fly", where)
        assert "invalid choice: 'fly' (choose from 'publish', 'consume', 'administer')" in unclear.stderr
        with NsqSocket(server.tcp_port) as client:
            client.send(b"AUTH\n" + sized(secret.encode()) + b"PUB builds.eu\n" + sized(b"x"))
            assert b'"identity":"ci"' in client.read_frame()[1]
            assert client.read_frame() == (FRAME_RESPONSE, b"OK")
            # The first use is noted at once, and not a minute later.
            used = server.data_path / "tokens.used.json"
            wait_for("the token's use to be noted", used.exists)
            assert not penstock("token", "list", where).stdout.endswith("last used: never\n")
            revoked = penstock("token", "revoke", "ci", where)
            assert revoked.stdout.startswith("Revoked the token ci ("), revoked.stderr
            assert client.read_frame() == (FRAME_ERROR, b"E_UNAUTHORIZED AUTH the token ci was revoked")
        listed = penstock("token", "list", where).stdout
        assert "revoked" in listed
        assert "ci: publish on builds.*" in listed
        assert secret not in listed
        again = penstock("token", "revoke", "ci", where)
        assert (again.returncode, again.stderr) == (
            2,
            "penstock: There is no token ci that is not revoked. Nothing was changed.\n",
        )
        console = ConsoleClient(server.console_port)
        console.log_in(ADMIN_USER, ADMIN_PASSWORD)
        page = console.get("/audit/").body.decode()
        assert "create token" in page
        assert "ci: publish on builds.*" in page
        assert "revoke token" in page
        console.close()
        assert secret not in server.log


@pytest.mark.parametrize("with_token", [False, True])
def test_serve_refuses_what_strangers_would_reach(tmp_path: Path, with_token: bool) -> None:
    (tmp_path / "data").mkdir()
    where = f"--data-path={tmp_path / 'data'}"
    if with_token:
        assert penstock("token", "create", "ci", "--allow", "publish", where).returncode == 0
    done = penstock(
        "serve", "--tcp-address=0.0.0.0:0", "--http-address=127.0.0.1:0", "--console-address=127.0.0.1:0", where
    )
    assert done.returncode == 2
    assert ("--allow-plaintext" if with_token else "--allow-anonymous") in done.stderr
    assert ("unencrypted at --tcp-address 0.0.0.0:0" if with_token else "stranger") in done.stderr
    assert not (tmp_path / "data" / "topology.json").exists(), "nothing was made"
