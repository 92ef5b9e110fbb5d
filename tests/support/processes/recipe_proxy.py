"""The HTTPS proxies of the console's README, as it configures them: the real nginx and the real Caddy on loopback.

What has to differ on a test's machine is replaced: ports, certificates, and what a proxy of a machine has once.
"""

import grp
import os
import pwd
import re
import shutil
import socket
import ssl
import subprocess
import sys
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path

from tests.support.certificates import Authority
from tests.support.processes.ports import free_ports
from tests.support.processes.server import ROOT, START_TIMEOUT_S, STOP_WAIT_S
from tests.support.waiting import wait_for

README = ROOT / "admin_console" / "README.md"
HOST = "queue.example.org"
CONSOLE = "127.0.0.1:4171"


def recipe(kind: str, place: int = 0) -> str:
    """The README's block of this kind, "nginx" or "caddy"; place: which of them."""
    return re.findall(rf"^```{kind}\n(.*?)^```$", README.read_text(), re.DOTALL | re.MULTILINE)[place]


def replaced(text: str, *pairs: tuple[str, str]) -> str:
    """The text with each first one in the place of each second one; fails for one that is not there."""
    for old, new in pairs:
        assert old in text, f"the text has no {old!r}"
        text = text.replace(old, new)
    return text


class RecipeProxy(ABC):
    """One proxy before `console_port`. Use as a context. `client_context` trusts its certificate.

    Raises AssertionError when its program is missing or does not serve.
    """

    name: str  # of the program

    def __init__(self, directory: Path, text: str, *, port: int, console_port: int) -> None:
        """text: the recipe. port: where it listens for HTTPS."""
        # A daemon's program may be where only root looks.
        program = shutil.which(self.name, path=f"{os.environ['PATH']}:/usr/sbin")
        assert program is not None, f"{self.name} is missing: README's test command installs it"
        self.port = port
        self._program = program
        self._directory = directory
        self._process: subprocess.Popen[bytes] | None = None
        self._configuration = directory / f"{self.name}.conf"
        self._configuration.write_text(self._complete(replaced(text, (CONSOLE, f"127.0.0.1:{console_port}"))))

    @abstractmethod
    def _complete(self, text: str) -> str:
        """The whole configuration with the recipe in it."""

    @abstractmethod
    def _arguments(self) -> Sequence[str]:
        """What the program is started with."""

    @property
    @abstractmethod
    def client_context(self) -> ssl.SSLContext:
        """What a client takes, to trust the proxy's certificate."""

    def __enter__(self) -> "RecipeProxy":
        with (self._directory / "log").open("wb") as log:
            self._process = subprocess.Popen(
                [self._program, *self._arguments()],
                cwd=self._directory,
                # What it keeps for itself belongs to this test.
                env={"PATH": os.environ["PATH"], "HOME": str(self._directory)},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        try:
            wait_for(f"{self.name}", self._is_serving, timeout_s=START_TIMEOUT_S)
        except BaseException:
            self.__exit__(AssertionError)
            raise
        return self

    def _is_serving(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, f"{self.name} ended"
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=10) as raw:
                self.client_context.wrap_socket(raw, server_hostname=HOST).close()
        except (OSError, FileNotFoundError):
            return False
        return True

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        assert self._process is not None
        self._process.terminate()
        try:
            self._process.wait(STOP_WAIT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if kind is not None:
            sys.stderr.write(f"--- {self.name}'s log\n{(self._directory / 'log').read_text()}")


class Nginx(RecipeProxy):
    name = "nginx"

    def _complete(self, text: str) -> str:
        authority = Authority(self._directory, "authority")
        issued = authority.issue(HOST, hosts=(HOST,))
        self._authority = authority.certificate
        text = replaced(
            text,
            ("listen 443 ssl;", f"listen 127.0.0.1:{self.port} ssl;"),
            (f"/etc/ssl/{HOST}.pem", str(issued.certificate)),
            (f"/etc/ssl/{HOST}.key", str(issued.key)),
        )
        account = pwd.getpwuid(os.geteuid()).pw_name
        group = grp.getgrgid(os.getegid()).gr_name
        temporary = "".join(
            f"{what}_temp_path {self._directory}/{what};\n"
            for what in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
        )
        # Otherwise root's nginx works as another account, which can't read this directory.
        user = f"user {account} {group};\n" if os.geteuid() == 0 else ""
        return (
            f"{user}daemon off;\nworker_processes 1;\npid {self._directory}/pid;\nevents {{}}\n"
            f"http {{\naccess_log off;\n{temporary}{text}\n}}\n"
        )

    def _arguments(self) -> Sequence[str]:
        return ("-c", str(self._configuration), "-p", str(self._directory), "-e", "stderr")

    @property
    def client_context(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=str(self._authority))


class Caddy(RecipeProxy):
    """With certificates of its own authority: the real ones come from the internet."""

    name = "caddy"

    def _complete(self, text: str) -> str:
        # Its port for plain HTTP, which it would redirect from, is a free one as well.
        (http_port,) = free_ports(1)
        own = (
            "admin off",
            "local_certs",
            "skip_install_trust",
            "default_bind 127.0.0.1",
            f"https_port {self.port}",
            f"http_port {http_port}",
            f"storage file_system {self._directory}/storage",
        )
        return "\n".join(["{", *own, "}", text])

    def _arguments(self) -> Sequence[str]:
        return ("run", "--config", str(self._configuration), "--adapter", "caddyfile")

    @property
    def client_context(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=f"{self._directory}/storage/pki/authorities/local/root.crt")


PROXIES: dict[str, type[RecipeProxy]] = {kind.name: kind for kind in (Nginx, Caddy)}
