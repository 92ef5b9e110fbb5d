"""Stands in for systemd's `systemctl`, where no systemd runs: starts and stops the command of one unit.

    systemctl.py STATE UNITS start|stop|restart|enable|disable|daemon-reload [--now] [NAME]

It does what the unit says of its command, its environment, its start and its stop: ExecStart runs, `start` returns when
READY=1 has come, `stop` sends SIGTERM and waits. Accounts, limits and hardening are systemd's and are not applied.
STATE: a directory for the process id and the journal (`NAME.journal`). UNITS: where the unit files are.
"""

import os
import select
import shlex
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

START_TIMEOUT_S = 90.0
STOP_TIMEOUT_S = 90.0


def main(arguments: list[str]) -> int:
    state, units, verb, *rest = arguments
    names = [one for one in rest if not one.startswith("-")]
    if verb == "daemon-reload":
        return 0
    unit = Unit(Path(state), Path(units), names[0])
    if verb in ("enable", "disable"):
        if "--now" in rest:
            unit.start() if verb == "enable" else unit.stop()
        return 0
    for one in {"start": [unit.start], "stop": [unit.stop], "restart": [unit.stop, unit.start]}[verb]:
        one()
    return 0


class Unit:
    """One service and the process that runs for it."""

    def __init__(self, state: Path, units: Path, name: str) -> None:
        name = name.removesuffix(".service")
        self._file = units / f"{name}.service"
        self._pid_file = state / f"{name}.pid"
        self._journal = state / f"{name}.journal"
        self._notify = state / f"{name}.notify"

    def start(self) -> None:
        settings = self._settings()
        assert settings["Type"] == ["notify"], settings["Type"]
        (command,) = settings["ExecStart"]
        environment = dict(os.environ)
        for line in settings.get("Environment", []):
            environment.update(one.split("=", 1) for one in shlex.split(line))
        self._notify.unlink(missing_ok=True)
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as ready, self._journal.open("ab") as journal:
            ready.bind(str(self._notify))
            ready.settimeout(1.0)
            process = subprocess.Popen(
                shlex.split(command.replace("%%", "%")),
                env=environment | {"NOTIFY_SOCKET": str(self._notify)},
                stdin=subprocess.DEVNULL,
                stdout=journal,
                stderr=journal,
                start_new_session=True,
                cwd="/",
            )
            self._pid_file.write_text(str(process.pid))
            deadline = time.monotonic() + START_TIMEOUT_S
            while b"READY=1" not in self._received(ready):
                if process.poll() is not None or time.monotonic() > deadline:
                    process.kill()
                    sys.exit(f"the service did not start; its journal:\n{self._journal.read_text()}")

    @staticmethod
    def _received(ready: socket.socket) -> list[bytes]:
        try:
            return ready.recv(65_536).splitlines()
        except TimeoutError:
            return []

    def stop(self) -> None:
        if not self._pid_file.exists():
            return  # it does not run
        handle = os.pidfd_open(int(self._pid_file.read_text()))
        signal.pidfd_send_signal(handle, signal.SIGTERM)
        if not select.select([handle], [], [], STOP_TIMEOUT_S)[0]:
            sys.exit(f"the service did not stop; its journal:\n{self._journal.read_text()}")
        self._pid_file.unlink()

    def _settings(self) -> dict[str, list[str]]:
        """The unit's settings, each with its values in their order."""
        found: dict[str, list[str]] = {}
        for line in self._file.read_text().replace("\\\n", " ").splitlines():
            name, is_setting, value = line.partition("=")
            if is_setting and not line.startswith(("#", ";", "[")):
                found.setdefault(name, []).append(value)
        return found


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
