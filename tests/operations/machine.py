"""A machine that is a directory: the page's commands run as they stand, and their paths and ports lead into it."""

import getpass
import os
import signal
import subprocess
import sys
import sysconfig
import urllib.request
from pathlib import Path

from tests.operations.page import ROOT
from tests.support.processes.live_processes import live_process
from tests.support.processes.ports import free_ports
from tests.support.waiting import wait_for

TIMEOUT_S = 600
_STAND_INS = {
    # There is one account: the one that runs the tests.
    "sudo": '#!/bin/sh\n[ "$1" = -u ] && shift 2\nexec "$@"\n',
    "systemctl": f'#!/bin/sh\nexec {sys.executable} {Path(__file__).parent / "systemctl.py"} "$STATE" "$UNITS" "$@"\n',
}


class Machine:
    """Runs blocks of the operations page below `root`, with servers on free ports.

    tcp_port, http_port, console_port: where the page has 4150, 4151 and 4171. Packages that Penstock requires come from
    this environment, so that installing Penstock fetches nothing.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.tcp_port, self.http_port, self.console_port = free_ports(3)
        self.data_path = root / "var/lib/penstock"
        for folder in (
            "opt",
            "var/lib",
            "var/backups",
            "etc/systemd/system",
            "etc/prometheus",
            "bin",
            "run",
            "packages",
        ):
            (root / folder).mkdir(parents=True)
        for name, text in _STAND_INS.items():
            (root / "bin" / name).write_text(text)
            (root / "bin" / name).chmod(0o755)
        for package in Path(sysconfig.get_path("purelib")).iterdir():
            if "penstock" not in package.name.lower() and package.suffix != ".pth":
                (root / "packages" / package.name).symlink_to(package)

    def run(self, text: str) -> str:
        """Run a block as bash runs a script that ends at its first error; return what it wrote to standard output.

        Raises AssertionError with all it wrote when it fails."""
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", self.here(text)],
            cwd=self.root,
            env=self._environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
        )
        assert done.returncode == 0, f"status {done.returncode} of\n{text}\nit wrote:\n{done.stdout}{done.stderr}"
        return done.stdout

    def here(self, text: str) -> str:
        """The page's text with this machine's paths, ports and account."""
        for theirs, ours in (
            ("/usr/src/penstock", str(ROOT)),
            ("/opt/penstock", f"{self.root}/opt/penstock"),
            ("/var/lib", f"{self.root}/var/lib"),
            ("/var/backups", f"{self.root}/var/backups"),
            ("/etc/systemd", f"{self.root}/etc/systemd"),
            ("/etc/prometheus", f"{self.root}/etc/prometheus"),
            (":4150", f":{self.tcp_port}"),
            (":4151", f":{self.http_port}"),
            (":4171", f":{self.console_port}"),
            ("chown penstock:", f"chown {getpass.getuser()}:"),
        ):
            text = text.replace(theirs, ours)
        return text

    def get(self, path: str, *, body: bytes | None = None) -> str:
        """What the engine's HTTP API answers."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.http_port}{path}", body, timeout=60) as answer:
            return str(answer.read().decode())

    @property
    def unit(self) -> str:
        return (self.root / "etc/systemd/system/penstock.service").read_text()

    @property
    def journal(self) -> str:
        return (self.root / "run/penstock.journal").read_text()

    def kill(self) -> None:
        """End the server as a crash would."""
        pid_file = self.root / "run/penstock.pid"
        if not pid_file.exists():
            return
        pid = int(pid_file.read_text())
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        wait_for("the killed server to be gone", lambda: not live_process(pid))
        pid_file.unlink()

    def _environment(self) -> dict[str, str]:
        return {
            "PATH": f"{self.root}/bin:{os.environ['PATH']}",
            "HOME": str(self.root),
            "STATE": str(self.root / "run"),
            "UNITS": str(self.root / "etc/systemd/system"),
            "PYTHONPATH": str(self.root / "packages"),
            "PIP_NO_DEPS": "1",
            "PIP_NO_INDEX": "1",
            "PIP_NO_BUILD_ISOLATION": "false",  # pip's own way to say: without isolation
            "PIP_DISABLE_PIP_VERSION_CHECK": "1",
            "PENSTOCK_TCP_ADDRESS": f"127.0.0.1:{self.tcp_port}",
            "PENSTOCK_HTTP_ADDRESS": f"127.0.0.1:{self.http_port}",
            "PENSTOCK_CONSOLE_ADDRESS": f"127.0.0.1:{self.console_port}",
        }
