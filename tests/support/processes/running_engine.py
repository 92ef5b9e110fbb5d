"""The engine in this process, behind its real sockets: for tests that need odd options and a quick start."""

import shutil
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any

from queue_engine.delivery.stats import EngineSnapshot, InFlightStats
from queue_engine.service.runner import EngineRunner
from tests.support.layered_socket import LayeredSocket
from tests.support.nsq_socket import NsqSocket
from tests.support.processes.engine_api import EngineApi
from tests.support.storage_kinds import engine_options


class RunningEngine(EngineApi):
    """An EngineRunner on free loopback ports. Use as a context; raw clients it made are closed with it."""

    def __init__(self, data_path: Path, **options: Any) -> None:
        super().__init__()
        data_path.mkdir(parents=True, exist_ok=True)
        self._data_path = data_path
        self._runner = EngineRunner(
            engine_options(
                **{"tcp_address": "127.0.0.1:0", "http_address": "127.0.0.1:0", "data_path": str(data_path), **options}
            )
        )

    def __enter__(self) -> "RunningEngine":
        self._runner.start()
        self.tcp_port, self.http_port = self._runner.tcp_address[1], self._runner.http_address[1]
        self.https_port = self._runner.listeners.https[1]
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._clients.close()
        self._runner.stop()

    @property
    def own_token(self) -> str:
        """The token of the server's own processes."""
        return self._runner.own_token

    def read_secrets_again(self) -> None:
        """As SIGHUP has a server do it."""
        self._runner.read_secrets_again()

    @property
    def snapshot(self) -> EngineSnapshot | None:
        """The newest."""
        return self._runner.snapshot

    def in_flight(self, topic: str, channel: str) -> list[InFlightStats]:
        """The messages in flight of a channel, with their deadlines."""
        found: list[InFlightStats] = self._runner.calls.in_flight(topic, channel).result(10)
        return found

    def copy_as_killed(self, target: Path) -> None:
        """Copy the data directory as a kill would leave it at this moment. A file that is renamed meanwhile is no
        error, as it is to shutil.copytree: the engine replaces some every few seconds."""

        def copy(source: str, copied: str) -> None:
            with suppress(FileNotFoundError):
                shutil.copy2(source, copied)

        shutil.copytree(self._data_path, target, copy_function=copy)

    def layered(self) -> LayeredSocket:
        """A raw client that can put TLS and compression on."""
        client = self._clients.enter_context(LayeredSocket(self.tcp_port))
        assert isinstance(client, LayeredSocket)
        return client

    def client(self, *, magic: bytes = b"  V2") -> NsqSocket:
        return self._clients.enter_context(NsqSocket(self.tcp_port, magic=magic))
