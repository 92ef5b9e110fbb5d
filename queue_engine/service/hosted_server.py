"""The server that the console's process runs beside its pages: with an engine (`runner.py`), or without one.

It holds the data directory's lock, and the sockets that are bound before anything is read; until they are taken over
they answer probes.
"""

import secrets
import socket
from collections.abc import Callable
from dataclasses import replace

from queue_engine.delivery.stats import ActRecord, EngineSnapshot
from queue_engine.service.admission.act_gate import ActGate
from queue_engine.service.listeners import Listeners, bound
from queue_engine.service.monitoring.console_figures import Console
from queue_engine.service.start_probes import StartProbes
from queue_engine.service.tls.server_context import server_context
from queue_engine.storage.disk.dirlock import DirectoryLock
from queue_engine.vocabulary.descriptor_shares import DescriptorShares
from queue_engine.vocabulary.errors import PenstockError
from queue_engine.vocabulary.options.options import Options
from queue_engine.vocabulary.start_progress import StartProgress
from queue_engine.vocabulary.stop_progress import StopProgress


class HostedServer:
    """`bind`, `start` and `stop` block; everything else may be called from any thread."""

    def __init__(self, options: Options, descriptors: DescriptorShares) -> None:
        self.options = options
        self.descriptors = descriptors
        self.listeners = Listeners()
        self.own_token = secrets.token_hex(32)  # of the server's own processes; lets do everything, in this run
        self.start_progress = StartProgress()
        self.probes = StartProbes(self.start_progress.sentence)
        self.snapshot: EngineSnapshot | None = None
        self.stop_progress: StopProgress | None = None
        """The progress of the stop; None before it writes."""
        self.on_snapshot: list[Callable[[EngineSnapshot], None]] = []
        self.on_act: Callable[[ActRecord], None] | None = None
        self.act_gate: ActGate | None = None  # set before the start
        self.on_death: Callable[[], None] | None = None
        self.on_beat: Callable[[], None] = lambda: None  # while it works
        self.beat_every_s = 0.0  # 0: never; set before the start
        self.console: Console | None = None  # for /readyz and /metrics; set before the start
        self._lock: DirectoryLock | None = None

    @property
    def worker_address(self) -> tuple[str, int]:
        """Host and port of the HTTP API that the pipeline's worker uses, once it is started."""
        return self.listeners.http

    def bind(self) -> None:
        """Lock the data directory. Raises PenstockError, with all free again, and nothing has been changed."""
        self._lock = DirectoryLock(self.options.data_path)

    def bind_beside(self, address: str, option: str, *, is_tls: bool) -> list[socket.socket]:
        """Bind HOST:PORT of another server of this process, after `bind`, and answer probes there until
        `probes.release`. option: names the address on the command line. is_tls: inside TLS, without certificates of
        clients. Raises PenstockError, with all free again."""
        try:
            sockets = bound(address, option)
            tls = server_context(replace(self.options, tls_client_auth_policy="")) if is_tls else None
            self.probes.answer(sockets, option, tls)
        except PenstockError:
            self.unbind()
            raise
        return sockets

    def unbind(self) -> None:
        """Free the sockets of `bind`."""
        self.probes.close()
        self.listeners.close()
        if self._lock is not None:
            self._lock.release()

    def start(self) -> None:
        """Returns once it works. Raises the start's error, with all closed again."""

    def stop(self) -> None:
        """Put everything on the disk and free the directory. Raises the stop's error."""
        self.unbind()

    def read_secrets_again(self) -> None:
        """Read certificates, keys, tokens and secrets again from their files, and log the result."""

    def cpu_s(self) -> float:
        """Processor time, in seconds, of the thread that the pages must not slow; 0 where there is none."""
        return 0.0
