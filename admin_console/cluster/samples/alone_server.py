"""A console without an engine has this in its place: the samples of its nodes, read by the pipeline's worker, and
backups of the data directory."""

import logging
import threading
import time
from collections.abc import Iterator

from admin_console.cluster.samples.node_samples import DirectorySamples
from admin_console.cluster.samples.samples_server import SamplesServer
from queue_engine.engine.backups import Backups
from queue_engine.engine.samples.sample_log import DIRECTORY
from queue_engine.service.hosted_server import HostedServer
from queue_engine.storage.disk.backup_files import refuse_incomplete
from queue_engine.storage.disk_queue.backup import QueueCopy
from queue_engine.storage.log_store.log_store import LogStore
from queue_engine.vocabulary.clock import SystemClock
from queue_engine.vocabulary.descriptor_shares import DescriptorShares, current_limit
from queue_engine.vocabulary.errors import PenstockError
from queue_engine.vocabulary.options.options import Options

logger = logging.getLogger(__name__)

# How often requests for a backup are looked for.
_LOOK_S = 0.5
_STOP_S = 5.0


class AloneServer(HostedServer):
    """samples: where the cluster's sampler writes."""

    def __init__(self, options: Options) -> None:
        super().__init__(options, DescriptorShares.of(current_limit(), 0))
        self.samples = DirectorySamples(options)
        self._http: SamplesServer | None = None
        self._is_stopping = threading.Event()
        self._thread = threading.Thread(target=self._look_after, name="penstock-alone", daemon=True)

    @property
    def worker_address(self) -> tuple[str, int]:
        assert self._http is not None, "it is started"
        return self._http.address

    def start(self) -> None:
        try:
            refuse_incomplete(self.options.data_path)
            if self.options.samples_interval_ms:
                self.samples.open()
            self._http = SamplesServer(self.samples, self.own_token)
        except (PenstockError, OSError):
            self.unbind()
            raise
        self._thread.start()

    def stop(self) -> None:
        self._is_stopping.set()
        if self._thread.ident is not None:
            self._thread.join(_STOP_S)
        if self._http is not None:
            self._http.close()
        self.samples.close()
        super().stop()

    def _look_after(self) -> None:
        backups = Backups(
            self.options.data_path, SystemClock(), backgrounds=(), files=_AloneFiles(self.samples, self._is_stopping)
        )
        backups.open()
        while not self._is_stopping.wait(_LOOK_S):
            try:
                with self.samples.lock:
                    backups.tick(time.monotonic_ns())
            except Exception:
                logger.exception("backups not looked after")


class _AloneFiles:
    """A BackedUp: the samples; there are no queues."""

    def __init__(self, samples: DirectorySamples, is_stopping: threading.Event) -> None:
        self._samples = samples
        self._is_stopping = is_stopping

    @property
    def is_closing(self) -> bool:
        return self._is_stopping.is_set()

    def logs(self) -> dict[str, LogStore]:
        log = self._samples.log
        return {} if log is None else {DIRECTORY: log}

    def queue_copies(self) -> Iterator[QueueCopy]:
        return iter(())
