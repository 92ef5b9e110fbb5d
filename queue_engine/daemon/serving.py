"""One run of the daemon: the engine in its thread, started and stopped in order.

SIGTERM and SIGINT stop it, and so does SIGHUP where it was started on a terminal; elsewhere SIGHUP has it read
certificates, keys, tokens and secrets again. A second signal logs how far the stop is. The lines have nsqd's form,
since scripts wait for them.
"""

import contextlib
import faulthandler
import logging
import os
import select
import signal
import socket
import threading
from typing import Any

from queue_engine.daemon.daemon_options import DaemonOptions
from queue_engine.service.identity import openness
from queue_engine.service.identity.token_file import TokenFile
from queue_engine.service.process.interpreter import share_interpreter
from queue_engine.service.process.service_manager import ServiceManager, stop_limit_s
from queue_engine.service.process.start_report import StartReport
from queue_engine.service.process.stop_report import StopReport
from queue_engine.service.process.streams import is_on_terminal
from queue_engine.service.runner import EngineRunner, quiet_collector
from queue_engine.vocabulary.descriptor_shares import raise_limit
from queue_engine.vocabulary.errors import DirectoryLockedError, OptionsError, PenstockError
from queue_engine.vocabulary.options.options import Options

logger = logging.getLogger(__name__)

NOT_STARTED = 1


class Serving:
    """version_line: the first line of the log."""

    def __init__(self, options: DaemonOptions, version_line: str) -> None:
        self._options = options
        self._version_line = version_line
        self._manager = ServiceManager(os.environ)
        self._runner: EngineRunner | None = None
        self._ends = threading.Event()
        self._woken, self._wake = socket.socketpair()
        self._engine_died = False
        self._stop_report = StopReport(self._stop_progress, self._print_stop)

    def run(self) -> int:
        """Serve until a signal; returns the exit status."""
        logger.info("%s", self._version_line)
        try:
            self._options.check()
        except OptionsError as exc:
            for complaint in exc.complaints:
                logger.critical("failed to instantiate nsqd - %s", complaint)
            return NOT_STARTED
        options = self._options.engine
        logger.info("ID: %d", options.effective_node_id)
        for note in self._options.notes:
            logger.warning("%s", note)
        if what_is_open := _what_is_open(options):
            logger.warning("%s", what_is_open)
        faulthandler.enable()  # a watchdog ends a process that hangs by SIGABRT
        self._stop_report.start()
        self._wake.setblocking(False)
        signal.set_wakeup_fd(self._wake.fileno(), warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            if number != signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN:  # nohup has it ignored
                stops = number != signal.SIGHUP or is_on_terminal()
                signal.signal(number, self._on_signal if stops else self._on_hangup)
        raise_limit()  # before the runner shares out the descriptors
        share_interpreter()
        self._runner = EngineRunner(options, has_console=False, given=self._options.given)
        self._runner.on_death = self._on_engine_death
        self._runner.on_beat, self._runner.beat_every_s = self._manager.feed, self._manager.feed_every_s
        try:
            self._runner.bind()
            with StartReport(self._manager, self._runner.cpu_s, self._runner.start_progress.sentence):
                self._runner.start()
        except DirectoryLockedError as exc:
            logger.critical("failed to instantiate nsqd - failed to lock data-path: %s", exc)
            return NOT_STARTED
        except (PenstockError, OSError) as exc:
            logger.critical("failed to instantiate nsqd - %s", exc)
            return NOT_STARTED
        self._print_listeners(self._runner)
        quiet_collector()
        self._wait_for_end()
        return self._stop(self._runner)

    def _wait_for_end(self) -> None:
        """The kernel may give a signal to any thread; its handler runs on this one, and a lock's wait would not end."""
        while not self._ends.is_set():
            select.select([self._woken], [], [])
            self._woken.recv(4096)

    def _print_listeners(self, runner: EngineRunner) -> None:
        addresses = runner.listeners.named()
        for name, address in addresses.items():
            logger.info("%s: listening on %s", name, address)
        self._manager.ready("Listening: " + ", ".join(f"{name} {address}" for name, address in addresses.items()))

    def _stop(self, runner: EngineRunner) -> int:
        self._print_stop(self._stop_progress())
        try:
            runner.stop()
        except Exception as exc:
            if not self._engine_died:  # the log has the error that ended it
                logger.critical("the engine did not end well: %s", exc)
            return 1
        finally:
            self._stop_report.end()
            self._manager.close()
            for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
                signal.signal(number, signal.SIG_IGN)  # a late one would end the process with another status
        logger.info("NSQ: bye")
        return 0

    def _stop_progress(self) -> str:
        progress = None if self._runner is None else self._runner.stop_progress
        return "clients are being disconnected" if progress is None else progress.sentence()

    def _print_stop(self, progress: str) -> None:
        self._manager.stopping(progress, stop_limit_s(self._options.engine.stop_timeout_ms))

    def _on_signal(self, number: int, _: Any) -> None:
        self._stop_report.note(number)
        self._ends.set()

    def _on_hangup(self, number: int, frame: Any) -> None:
        if self._ends.is_set():
            self._on_signal(number, frame)
        elif self._runner is not None:
            self._runner.read_secrets_again()

    def _on_engine_death(self) -> None:
        """Called on the engine's thread."""
        self._engine_died = True
        self._ends.set()
        with contextlib.suppress(BlockingIOError):  # it has been woken already
            self._wake.send(b"\0")


def _what_is_open(options: Options) -> str:
    """The acts open to strangers, as one line; "" for none. nsqd listens everywhere, and so does the daemon."""
    try:
        has_tokens = TokenFile(options.data_path).read() is not None
    except PenstockError:
        return ""  # the start is about to refuse the file
    return openness.warning(options, has_tokens=has_tokens)
