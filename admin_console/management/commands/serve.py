"""`penstock serve`: the engine in its thread and the console in this one, started and stopped in order; with
--console-only the console alone, of the nodes of a cluster.

Start: lock and engine, tables, first admin, console. Stop: the console stops accepting and finishes its requests, then
the engine puts everything on disk, however long that takes. SIGTERM and SIGINT stop it, and so does SIGHUP where it was
started on a terminal; elsewhere SIGHUP makes it read certificates, keys, tokens and secrets again. A second signal logs
the progress of the stop.
"""

import asyncio
import contextlib
import faulthandler
import importlib
import ipaddress
import logging
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy  # noqa: F401 - see below
from django.conf import settings
from django.core.management.base import CommandError
from twisted.internet.task import LoopingCall

from admin_console.accounts.first_admin import lines_about, make_first_admin
from admin_console.audit import head_file
from admin_console.audit.notifier import Notifier
from admin_console.audit.upkeep import AuditUpkeep
from admin_console.audit.writer import AuditWriter
from admin_console.cluster.calls.chosen_addresses import ChosenAddresses
from admin_console.cluster.calls.options import PACE as PACE_OF_NODES
from admin_console.cluster.cluster import Cluster, set_cluster
from admin_console.cluster.merging.merged import ClusterSnapshot
from admin_console.cluster.reading.members import Identity
from admin_console.cluster.samples.alone_server import AloneServer
from admin_console.database.condition import CONDITION
from admin_console.database.opening import ConsoleDatabase
from admin_console.database.version import complaint_about_version
from admin_console.gateway.cluster_only import ClusterOnlyGateway
from admin_console.gateway.embedded import EmbeddedGateway, identity_of
from admin_console.gateway.gateway import Gateway, node_name, set_gateway
from admin_console.gateway.pause_ends import PauseEnds, set_pause_ends
from admin_console.gateway.pipeline import ArchiveSettings, Pipeline, WorkerLimits, make_pipeline, set_pipeline
from admin_console.gateway.sentences import and_list, counted
from admin_console.graphs import empty_figures, plotly_asset
from admin_console.hub.hub import get_hub
from admin_console.management import upgrade_notes
from admin_console.management.console_report import ConsoleReport
from admin_console.management.named_clusters import NamedClusters
from admin_console.management.serve_options import ServeOptions, ServeParser
from admin_console.pacing.pace import PACE
from queue_engine.client.demo_process import DemoProcess
from queue_engine.delivery.stats import ActRecord, EngineSnapshot
from queue_engine.lake.spark.packages import complaint_about_packages
from queue_engine.service.hosted_server import HostedServer
from queue_engine.service.identity import openness
from queue_engine.service.identity.token_file import TokenFile
from queue_engine.service.process.interpreter import share_interpreter
from queue_engine.service.process.service_manager import ServiceManager, stop_limit_s
from queue_engine.service.process.start_report import StartReport
from queue_engine.service.process.stop_report import StopReport
from queue_engine.service.process.streams import is_on_terminal
from queue_engine.service.runner import EngineRunner, quiet_collector
from queue_engine.vocabulary import log_lines
from queue_engine.vocabulary.descriptor_shares import raise_limit
from queue_engine.vocabulary.errors import PenstockError
from queue_engine.vocabulary.options.addresses import NO_PORT, joined
from queue_engine.vocabulary.version import full_version

# numpy is there before the engine's threads are: while one of them imports it, the console would get half of it.

logger = logging.getLogger(__name__)

CONSOLE_STOP_TIMEOUT_S = 4.0
# How long a thread that still computes a page may delay the exit after everything is closed.
EXIT_TIMEOUT_S = 1.0
CONSOLE_ADDRESS = "--console-address"
# The actor, in the audit list, of acts of the engine itself.


class Command(ServeParser):
    def handle(self, **given: Any) -> None:
        options = ServeOptions.of(given)
        log_lines.log_uncaught()
        status = Serving(options, self._print).run()
        for stream in (sys.stdout, sys.stderr):
            _flush_or_drop(stream)
        if status:
            sys.exit(status)

    def _print(self, line: str) -> None:
        """For a person at a terminal the line as it is; elsewhere, as in a journal, a line of the log's form."""
        stream = self.stderr if log_lines.is_json(os.environ) else self.stdout
        # A terminal may have been closed: that is no reason to fail.
        with contextlib.suppress(OSError):
            stream.write(line if _is_read_by_a_person() else log_lines.line_of(logger, line, os.environ))
            stream.flush()


class Serving:
    """One run of the server, from the lock to the last flush."""

    def __init__(self, given: ServeOptions, print_line: Any) -> None:
        options = self._options = given.engine
        self._print = print_line
        self._with_demo = given.with_demo
        self._demo: DemoProcess | None = None
        self._with_pipeline = given.with_pipeline
        self._pipeline: Pipeline | None = None
        self._with_engine = given.with_engine
        raise_limit()  # before the runner shares out the descriptors
        self._runner: HostedServer
        own: Callable[[], Identity | None]
        own_name: Callable[[], str] = str
        if given.with_engine:
            runner = self._runner = EngineRunner(options)
            own = partial(identity_of, runner, options)
            own_name = lambda: node_name(joined(*runner.http_address))  # noqa: E731
            append_sample: Callable[[bytes], None] = partial(_append_sample, runner)
            self._make_gateway: Callable[[], Gateway] = partial(EmbeddedGateway, runner, options)
        else:
            alone = self._runner = AloneServer(options)
            own = _no_identity
            append_sample = alone.samples.append
            self._make_gateway = lambda: ClusterOnlyGateway(options, lambda: alone.snapshot)
        self._report = ConsoleReport()
        self._audit_writer = AuditWriter()
        self._audit_upkeep = AuditUpkeep(
            settings.DATA_PATH,
            settings.DATABASES["default"]["NAME"],
            retention_ms=settings.CONSOLE.audit_retention_ms,
            bytes_max=settings.CONSOLE.audit_bytes_max,
        )
        given_clusters = settings.CONSOLE.cluster
        chosen = ChosenAddresses(settings.DATA_PATH, given_clusters.addresses)
        with _as_command_error():
            # The unnamed one reads nothing in a console alone whose addresses all have names.
            has_unnamed = given.with_engine or not given_clusters.named or chosen.read().has_any
        pace = replace(
            PACE_OF_NODES,
            sample_s=max(PACE_OF_NODES.sample_s, options.samples_interval_ms / 1000),
            cpu_share=PACE_OF_NODES.cpu_share / (has_unnamed + len(given_clusters.named)),
        )
        self._cluster = Cluster(
            given_clusters,
            chosen,
            own=own,
            own_name=own_name,
            has_engine=given.with_engine,
            pace=pace,
            append_sample=append_sample if options.samples_interval_ms else None,
        )
        self._named_clusters = NamedClusters(
            given_clusters,
            settings.DATA_PATH,
            options,
            pace,
            append_sample if options.samples_interval_ms else None,
            self._on_http_act,
        )
        if given.with_engine:
            self._runner.on_snapshot.append(self._cluster.take)
        else:
            self._cluster.on_snapshot.append(self._note_merged)
        self._pause_ends = PauseEnds(settings.DATA_PATH, self._cluster, self._on_http_act)
        notified = settings.CONSOLE.nsqadmin.notified
        self._notifier = Notifier(notified) if notified else None
        self._database = ConsoleDatabase(
            settings.DATABASES["default"]["NAME"],
            CONDITION,
            make_admin=lambda: lines_about(make_first_admin(settings.DATA_PATH), is_terminal=_is_read_by_a_person()),
            print_line=print_line,
            # audit-head names a row of the damaged database; the new one begins a chain of its own.
            companion=head_file.path_of(settings.DATA_PATH),
        )
        self._is_stopping = False
        self._manager = ServiceManager(os.environ)
        self._stop_report = StopReport(self._how_far, self._report_stop)
        self._doing = "the start is finished first"
        self._engine_died = False
        self._console_ended = False
        self._reactor: Any = None

    def run(self) -> int:
        """Serve until a signal stops it; returns the exit status. Raises CommandError when it can't start."""
        logger.info("penstock %s starts pid=%d data_path=%s", full_version(), os.getpid(), settings.DATA_PATH)
        # A watchdog ends a process that hangs by SIGABRT: the log then has where each thread was.
        faulthandler.enable()
        self._stop_report.start()
        signal.signal(signal.SIGTERM, self._on_signal)
        signal.signal(signal.SIGINT, self._on_signal)
        if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # nohup has it ignored
            signal.signal(signal.SIGHUP, self._on_signal if is_on_terminal() else self._on_hangup)
        share_interpreter()
        self._runner.act_gate = self._audit_writer
        self._runner.on_act = self._on_http_act
        self._runner.on_death = self._on_engine_death
        # Fed by the engine's loop: a server whose engine hangs counts as hung, although its console answers. Without an
        # engine the console's loop feeds it.
        self._runner.on_beat, self._runner.beat_every_s = self._manager.feed, self._manager.feed_every_s
        self._runner.console = self._report
        if complaint := complaint_about_version(settings.DATABASES["default"]["NAME"]):
            raise CommandError(complaint)
        if self._with_demo and self._options.is_tls_required:
            raise CommandError("The demo speaks no TLS: run it without --tls-required and --tls-client-auth-policy.")
        if settings.CONSOLE.speaks_tls and not self._options.has_tls:
            raise CommandError("--console-tls needs a certificate: give --tls-cert and --tls-key.")
        if self._with_engine:
            self._refuse_unintended_openness()
        is_new = not os.path.lexists(settings.DATA_PATH / ("topology.json" if self._with_engine else "console.sqlite3"))
        with _as_command_error():
            self._runner.bind()
            console = joined(settings.CONSOLE.host, settings.CONSOLE.port)
            console_sockets = self._runner.bind_beside(console, CONSOLE_ADDRESS, is_tls=settings.CONSOLE.speaks_tls)
        # A fault of the report is a fault of the server's, and no sentence for the user.
        with StartReport(self._manager, self._runner.cpu_s, self._runner.start_progress.sentence), _as_command_error():
            self._runner.start()
        self._print_upgrade_notes(is_new)
        self._doing = "the console finishes the requests it has begun"
        try:
            if not self._is_stopping:
                self._prepare_demo()
                self._runner.start_progress.at("the console opens its database")
                with StartReport(self._manager, _cpu_s_of_this_thread(), self._runner.start_progress.sentence):
                    self._prepare_database()
                self._audit_writer.start()
                self._audit_upkeep.start()
                self._start_cluster()
                self._serve_console(console_sockets)
        finally:
            self._console_ended = True
            self._runner.probes.close()
            for one in console_sockets:  # open where the console was not begun
                one.close()
            self._report_stop(self._how_far())
            set_gateway(None)
            set_pause_ends(None)
            set_cluster(None)
            self._cluster.stop()
            self._pause_ends.stop()
            self._named_clusters.stop()
            if self._notifier is not None:
                self._notifier.stop()
            if self._demo is not None:
                self._demo.stop()
            if self._pipeline is not None:
                # Before the engine: a job that ends in order may still send it requests.
                self._doing = "the pipeline's worker is being ended"
                self._pipeline.stop()
            set_pipeline(None)
            stopped_well = self._stop_engine()
            self._stop_report.end()
            self._audit_writer.stop()
            self._audit_upkeep.stop()
            self._database.close()
            _heed_no_more_signals()
        if stopped_well:
            logger.info("stopped: everything is on the disk")
        status = 0 if stopped_well else 1
        _leave_even_if_a_thread_stays(status)
        return status

    def _refuse_unintended_openness(self) -> None:
        """Raises CommandError where strangers could do more than the options allow explicitly."""
        try:
            has_tokens = TokenFile(settings.DATA_PATH).read() is not None
        except PenstockError as exc:
            raise CommandError(str(exc)) from exc
        if found := openness.complaints(self._options, has_tokens=has_tokens):
            raise CommandError(" ".join(f"{one[0].upper()}{one[1:]}." for one in found))
        if self._with_demo and has_tokens and not self._options.allow_anonymous:
            raise CommandError("The demo has no token, and clients must give one here: add --allow-anonymous.")
        if warning := openness.warning(self._options, has_tokens=has_tokens):
            logger.warning("opened on purpose: %s", warning)

    def _print_upgrade_notes(self, is_new: bool) -> None:
        """Print the upgrade notes, once for a data directory of an older version."""
        names = [upgrade_notes.HTTP_TOKEN] if self._options.http_token else []
        if 0 < settings.CONSOLE.audit_bytes_max < _bytes_of(settings.DATABASES["default"]["NAME"]):
            names.append(upgrade_notes.AUDIT_SIZE)
        for text in upgrade_notes.unprinted(settings.DATA_PATH, names, is_new=is_new):
            logger.warning("%s", text)
            self._print(text)

    def _prepare_demo(self) -> None:
        if self._with_demo:
            try:
                self._demo = DemoProcess(self._runner.listeners.tcp, self._runner.listeners.http)
            except PenstockError as exc:
                raise CommandError(str(exc)) from exc

    def _prepare_database(self) -> None:
        if settings.SECRET_KEY_COMPLAINT:
            self._print(settings.SECRET_KEY_COMPLAINT)
        try:
            self._database.open()
        except ValueError as exc:
            raise CommandError(str(exc)) from exc
        self._database.watch()

    def _serve_console(self, sockets: list[socket.socket]) -> None:
        """Serve pages and sockets until the end. sockets: they listen already."""
        self._runner.start_progress.at("the console loads its pages")
        # Before the handler is made, which lists the static files once.
        try:
            plotly_asset.prepare(settings.DATA_PATH)
        except OSError as exc:
            logger.error("pages show tables instead of graphs: plotly.js can't be written: %s", exc)

        # Imported here: only now are there models to import and a thread for the reactor to belong to. The reactor
        # comes last: daphne puts its own in the place of Twisted's default, and a stop must reach the one that runs.
        from admin_console.asgi import application
        from admin_console.management.console_server import ConsoleServer
        from admin_console.management.guarded_connection import ConnectionLimits

        reactor: Any = importlib.import_module("twisted.internet.reactor")
        # Twisted's timers go by the wall clock: after it is set back by an hour, a timer that is due fires in an hour.
        reactor.seconds = time.monotonic

        self._reactor = reactor
        set_gateway(self._make_gateway())
        self._pipeline = self._make_pipeline()
        set_pipeline(self._pipeline)
        self._report.pipeline = self._pipeline
        server = ConsoleServer(
            application,
            sockets,
            limits=ConnectionLimits(
                connections_max=min(settings.CONSOLE.connections_max, self._runner.descriptors.console),
                request_s=settings.CONSOLE.request_timeout_s,
                idle_s=settings.CONSOLE.idle_timeout_s,
                trusted_proxies=settings.CONSOLE.trusted_proxies,
            ),
            on_listening=self._on_console_listening,
            tls=self._options if settings.CONSOLE.speaks_tls else None,
        )
        self._report.server = server
        if self._is_stopping or self._engine_died:
            return
        reactor.callWhenRunning(self._attach_hub)
        PACE.switch_on(self._runner.cpu_s)
        self._runner.probes.release(sockets)
        server.run()

    def _start_cluster(self) -> None:
        try:
            self._cluster.start()
            self._pause_ends.start()
            set_cluster(self._cluster)
            set_pause_ends(self._pause_ends)
            self._named_clusters.start()
        except (PenstockError, ValueError) as exc:
            raise CommandError(str(exc)) from exc
        if self._notifier is not None:
            self._notifier.start()

    def _make_pipeline(self) -> Pipeline:
        host, port = self._runner.worker_address
        if port == NO_PORT:
            self._with_pipeline = False  # its worker speaks HTTP over TCP
            self._print(f"No history, archive and replays: --http-address is {host}, and they need HOST:PORT")
        elif ipaddress.ip_address(host).is_unspecified:
            host = "127.0.0.1" if ":" not in host else "::1"
        # Its own token lets it in where others must use TLS.
        is_own_needed = not self._with_engine or self._options.is_https_required or not self._options.http_token
        return make_pipeline(
            settings.DATA_PATH,
            engine_url=f"http://{joined(host, port)}",
            token=self._runner.own_token if is_own_needed else self._options.http_token,
            limits=WorkerLimits.of(self._options),
            archive=ArchiveSettings.of(self._options),
            # Of an engine's cursors: without one nothing is archived here.
            snapshot=lambda: self._runner.snapshot if self._with_engine else None,
            has_samples=self._options.samples_interval_ms > 0,
            is_switched_on=self._with_pipeline,
        )

    def _attach_hub(self) -> None:
        """On the console's loop: the figures of the engine and of other nodes go to the live pages from now on."""
        loop = asyncio.get_event_loop()
        get_hub().attach(self._cluster, loop)
        self._named_clusters.attach_hubs(loop)
        if not self._with_engine and self._manager.feed_every_s:
            LoopingCall(self._manager.feed).start(self._manager.feed_every_s)

    def _note_merged(self, taken: EngineSnapshot | ClusterSnapshot) -> None:
        """For a console without an engine: its figures are those of the cluster."""
        self._runner.snapshot = taken.merged if isinstance(taken, ClusterSnapshot) else taken

    def _sentence_about_nodes(self) -> str:
        """For a console without an engine: how many addresses it calls."""
        named = settings.CONSOLE.cluster.named
        every = [self._cluster.state.addresses, *named.values()]
        if not any(addresses.has_any for addresses in every):
            return (
                "No queue of its own (--console-only), and no nodes yet: give --lookupd-http-address or "
                "--nsqd-http-address, or an admin enters their addresses on the page Nodes"
            )
        lookupds = counted(sum(len(one.lookupds) for one in every), "nsqlookupd")
        nodes = counted(sum(len(one.nsqds) for one in every), "node")
        beside = f"; clusters with a name: {and_list([*named])}" if named else ""
        called = f"the console calls {lookupds} and {nodes} by their addresses{beside}"
        return f"No queue of its own (--console-only): {called}"

    def _on_console_listening(self, host: str, port: int) -> None:
        addresses = {
            **self._runner.listeners.named(),
            "Console": f"{'https' if settings.CONSOLE.speaks_tls else 'http'}://{joined(host, port)}",
        }
        if not self._with_engine:
            self._print(self._sentence_about_nodes())
        for name, address in addresses.items():
            self._print(f"{name}: listening on {address}")
        sentence = ", ".join(f"{name} {address}" for name, address in addresses.items())
        self._manager.ready(f"Listening: {sentence}")
        if _is_read_by_a_person() and not sys.stderr.isatty():
            logger.info("listening: %s", sentence)  # the log does not go to the terminal
        if not settings.CONSOLE.is_https and not _is_loopback(host):
            logger.warning(
                "the console can be reached from other machines over plain http: passwords are not encrypted; "
                "see --console-tls, or --console-origin and --trusted-proxy"
            )
        complaint = complaint_about_packages() if self._with_pipeline else ""
        if self._demo is not None:
            self._print(self._demo.start(with_archive=self._with_pipeline and not complaint))
        if self._pipeline is not None:
            if complaint:
                self._print(f"No history, archive and replays: {complaint}")
            self._pipeline.start()
        # Made once, before `quiet_collector` exempts all objects of now from collection.
        empty_figures.warm()
        quiet_collector()

    def _stop_engine(self) -> bool:
        """Flush and close. Logs the reason and returns False when some data could not be written."""
        self._doing = "clients are being disconnected"
        try:
            self._runner.stop()
        except Exception as exc:
            logger.critical("the engine did not end well: %s", exc)
            return False
        return True

    def _how_far(self) -> str:
        progress = self._runner.stop_progress
        return self._doing if progress is None else progress.sentence()

    def _report_stop(self, how_far: str) -> None:
        self._manager.stopping(how_far, stop_limit_s(self._options.stop_timeout_ms))

    def _on_signal(self, number: int, _: Any) -> None:
        self._is_stopping = True
        if not self._stop_report.note(number):
            return
        if self._reactor is not None:
            watchdog = threading.Timer(CONSOLE_STOP_TIMEOUT_S, self._leave_without_console)
            watchdog.daemon = True
            watchdog.start()
        self._stop_console()

    def _on_hangup(self, number: int, frame: Any) -> None:
        if self._is_stopping:
            self._on_signal(number, frame)
            return
        self._runner.read_secrets_again()
        if self._report.server is not None:
            self._report.server.read_certificate_again()

    def _leave_without_console(self) -> None:
        """End a console that hangs: messages matter more."""
        if not self._console_ended:
            logger.critical(
                "the console did not stop within %g s: the engine is stopped without it", CONSOLE_STOP_TIMEOUT_S
            )
            stopped_well = self._stop_engine()
            self._audit_writer.stop()
            self._audit_upkeep.stop()
            os._exit(0 if stopped_well else 1)

    def _on_http_act(self, act: ActRecord) -> None:
        """Called on the engine's thread."""
        if act.is_change:
            get_hub().note_act()
        self._audit_writer.tell(act)

    def _on_engine_death(self) -> None:
        """Called on the engine's thread: a console without its engine is of no use."""
        self._engine_died = True
        self._stop_console()

    def _stop_console(self) -> None:
        reactor = self._reactor
        if reactor is not None:
            reactor.callFromThread(lambda: reactor.stop() if reactor.running else None)


def _append_sample(runner: EngineRunner, body: bytes) -> None:
    """Returns once the sample is written. Raises PenstockError."""
    runner.calls.append_sample(body).result()


def _no_identity() -> None:
    """Of the engine of this process, where it has none."""


def _cpu_s_of_this_thread() -> Callable[[], float]:
    """Reads the processor time of the calling thread, for others."""
    return partial(time.clock_gettime, time.pthread_getcpuclockid(threading.get_ident()))


def _is_read_by_a_person() -> bool:
    return sys.stdout.isatty() and not log_lines.is_json(os.environ)


def _flush_or_drop(stream: Any) -> None:
    """Flush a stream at the end. Where its reader is gone, the rest is dropped: Python's own flush at exit would fail
    and change the exit status."""
    try:
        stream.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _bytes_of(path: str) -> int:
    """The size of a file; 0 where there is none."""
    try:
        return os.stat(path).st_size
    except OSError:
        return 0


@contextlib.contextmanager
def _as_command_error() -> Iterator[None]:
    """Turn errors of the start into the sentence that the command ends with."""
    try:
        yield
    except (PenstockError, OSError) as exc:
        raise CommandError(str(exc)) from exc


def _heed_no_more_signals() -> None:
    """Ignore late signals, which would end the process with another status: everything is on disk."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)


def _leave_even_if_a_thread_stays(status: int) -> None:
    """End the process although a page is still being computed: everything is on disk."""
    watchdog = threading.Timer(EXIT_TIMEOUT_S, os._exit, (status,))
    watchdog.daemon = True
    watchdog.start()


def _is_loopback(host: str) -> bool:
    return ipaddress.ip_address(host).is_loopback
