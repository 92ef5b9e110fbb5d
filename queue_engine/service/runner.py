"""The engine's thread: its loop, its sockets, and the two ways in from other threads, `calls` and `snapshot`."""

import asyncio
import concurrent.futures
import contextlib
import gc
import logging
import threading
import time
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any, TypeVar

import uvloop

from queue_engine.delivery.stats import ActRecord, Connections, EngineSnapshot
from queue_engine.engine.engine import Engine
from queue_engine.engine.engine_calls import EngineCalls
from queue_engine.service.act_file.act_file import ActFile
from queue_engine.service.act_file.act_writer import ActWriter
from queue_engine.service.admission.act_gate import GateOnLoop
from queue_engine.service.admission.pending_bodies import PendingBodies
from queue_engine.service.admission.refused_connections import RefusedConnections
from queue_engine.service.gate_upkeep import GateUpkeep
from queue_engine.service.hosted_server import HostedServer
from queue_engine.service.http.api import HttpApi, Ports
from queue_engine.service.http.audit import HttpAudit
from queue_engine.service.listeners import HTTP_ADDRESS, HTTPS_ADDRESS
from queue_engine.service.lookup_client.client import LookupClient
from queue_engine.service.loop import freed_memory
from queue_engine.service.loop.queue_scan import scan_once
from queue_engine.service.loop.supervision import note_callbacks, supervise
from queue_engine.service.loop.worker import BackgroundThread
from queue_engine.service.statsd.push import StatsdPush
from queue_engine.service.tcp.engine_turns import EngineTurns
from queue_engine.service.tcp.server import TcpServer
from queue_engine.service.tls.replaceable import MadeOfFiles
from queue_engine.service.tls.server_context import ServedCertificate, server_contexts
from queue_engine.service.tls.validity import CertificateWatch
from queue_engine.storage.commit_log.thread_choice import ThreadChoice
from queue_engine.storage.disk.background import Backgrounds
from queue_engine.storage.disk.files import Files
from queue_engine.storage.disk_queue.closing import Closing, Job, run_in_turn
from queue_engine.vocabulary.client_key import ClientKeys, TrustedAddresses
from queue_engine.vocabulary.clock import NS_PER_MS, SystemClock
from queue_engine.vocabulary.descriptor_shares import DescriptorShares, current_limit
from queue_engine.vocabulary.errors import ClosedError, PenstockError
from queue_engine.vocabulary.options.options import Options
from queue_engine.vocabulary.ticket import Ticket

logger = logging.getLogger(__name__)

T = TypeVar("T")

Loop = tuple[str, Callable[[], Awaitable[None]]]

SNAPSHOT_INTERVAL_S = 1.0
# With many topics snapshots are made less often: they take at most this share of the engine's time.
SNAPSHOT_SHARE_MAX = 0.25
CLOSE_SESSIONS_TIMEOUT_S = 2.0
# When the disk refuses at the stop, it is tried again after this long.
STOP_RETRY_S = 0.5
# At the stop so many threads sync disk queues: syncs at the same time cost the disk little more than one.
STOP_THREADS = 8
# A disk call that does not return is waited for this much longer than `--stop-timeout`.
STOP_GRACE_S = 15.0
CERTIFICATE_LOOK_S = 1.0


class EngineRunner(HostedServer):
    """Runs one engine. `start` and `stop` block; everything else may be called from any thread."""

    def __init__(
        self, options: Options, *, has_console: bool = True, given: Mapping[str, Any] = MappingProxyType({})
    ) -> None:
        """has_console: whether connections are left for one; without one the HTTP API takes any Host as nsqd does
        (`http/access.py`). given: as of RunningConfig."""
        super().__init__(
            options, DescriptorShares.of(current_limit(), options.max_connections, has_console=has_console)
        )
        self.calls = EngineCalls(self._submit)
        self._given = given
        self._has_console = has_console
        self._contexts: MadeOfFiles[ServedCertificate] | None = None
        self._own_acts: ActWriter | None = None  # writes acts where no console does
        self.error: BaseException | None = None
        self._watched: dict[tuple[str, str], float] = {}  # until when, time.monotonic
        self._snapshot_at = 0.0  # time of the loop
        self._snapshot_took_s = 0.0  # of the processor
        self._loop: asyncio.AbstractEventLoop | None = None
        self._engine: Engine | None = None
        self._thread: threading.Thread | None = None
        self._cpu_clock: int | None = None  # of the thread
        self._stop_requested: asyncio.Event | None = None
        self._started = threading.Event()
        self._read_again: Callable[[], None] | None = None  # on the engine's thread, once it serves
        self._unanswered: set[concurrent.futures.Future[Any]] = set()

    # From any thread.

    @property
    def tcp_address(self) -> tuple[str, int]:
        return self.listeners.tcp

    @property
    def http_address(self) -> tuple[str, int]:
        return self.listeners.http

    def bind(self) -> None:
        """Lock the data directory and bind all addresses; from then on the HTTP addresses answer probes. Raises
        PenstockError, with all free again, and nothing has been changed. `start` calls it where it was not called."""
        super().bind()
        try:
            self.listeners.bind(self.options)
            self._contexts = server_contexts(self.options)
            for option, sockets in self.listeners.bound.items():
                if option == HTTP_ADDRESS:
                    self.probes.answer(sockets, option)
                elif option == HTTPS_ADDRESS and self._contexts is not None:
                    self.probes.answer(sockets, option, self._contexts.current().context)
        except BaseException:
            self.unbind()
            raise

    def start(self) -> None:
        """Start the thread; returns once all sockets listen, however long the engine reads its files before.

        Raises the start's error, with all closed again.
        """
        if self._lock is None:
            self.bind()
        self._thread = threading.Thread(target=self._run, name="penstock-engine", daemon=True)
        self._thread.start()
        self._started.wait()
        if self.error is not None:
            self._thread.join()
            self.unbind()
            raise self.error

    def stop(self) -> None:
        """Stop the engine once all durable messages are on the disk. Waits as long as `stop_progress` advances. Raises
        the stop's error, which names the lost messages, or TimeoutError when nothing advances any more."""
        thread, loop, stop_requested = self._thread, self._loop, self._stop_requested
        if thread is None:
            return
        if loop is not None and stop_requested is not None and thread.is_alive():
            try:
                loop.call_soon_threadsafe(stop_requested.set)
            except RuntimeError:
                pass  # the loop has ended by itself
        patience_s = self.options.stop_timeout_ms / 1000 + STOP_GRACE_S
        seen, advanced_at = self.stop_progress, time.monotonic()
        while thread.is_alive():
            thread.join(0.2)
            if self.stop_progress != seen:
                seen, advanced_at = self.stop_progress, time.monotonic()
            if time.monotonic() - advanced_at > patience_s:
                left = "the engine's thread has not begun to write" if seen is None else seen.sentence()
                raise TimeoutError(f"nothing of the stop has advanced for {patience_s:g} s: {left}")
        if self.error is not None:
            raise self.error

    def _submit(self, call: Callable[[Engine], object]) -> "concurrent.futures.Future[Any]":
        """Run a call of `calls` on the engine's thread and wait for its ticket."""
        future: concurrent.futures.Future[Any] = concurrent.futures.Future()
        self._unanswered.add(future)
        future.add_done_callback(self._unanswered.discard)
        loop = self._loop
        try:
            if loop is None:
                raise RuntimeError
            loop.call_soon_threadsafe(self._call, future, call)
        except RuntimeError:
            future.set_exception(ClosedError("the engine is not running"))
        return future

    def read_secrets_again(self) -> None:
        """Read certificates, keys, tokens and secrets again from their files, and log the result. A start that is
        under way reads them once. May be called by a handler of signals."""
        loop, read_again = self._loop, self._read_again
        if loop is not None and read_again is not None:
            with contextlib.suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(read_again)

    def cpu_s(self) -> float:
        """Processor time of the engine's thread, in seconds; 0 when it does not run."""
        clock = self._cpu_clock
        try:
            return 0.0 if clock is None else time.clock_gettime(clock)
        except OSError:  # the thread has ended this very moment
            return 0.0

    def connections(self) -> "concurrent.futures.Future[Connections]":
        """List all clients, in slices: the engine serves its clients between them."""
        loop, engine = self._loop, self._engine
        listing = _in_turns(engine.stats.connections_in_slices()) if engine is not None else None
        try:
            if loop is None or listing is None:
                raise RuntimeError
            future = asyncio.run_coroutine_threadsafe(listing, loop)
        except RuntimeError:
            if listing is not None:
                listing.close()
            future = concurrent.futures.Future()
            future.set_exception(ClosedError("the engine is not running"))
            return future
        self._unanswered.add(future)
        future.add_done_callback(self._unanswered.discard)
        return future

    def watch(self, topic: str, channel: str, lease_s: float = 5) -> None:
        """List this channel's clients in the snapshots of the next `lease_s` seconds."""
        self._watched[topic, channel] = time.monotonic() + lease_s

    # On the engine's thread.

    def _tell_act(self, record: ActRecord) -> None:
        if self._engine is not None:
            self._engine.recent_acts.record(record)
        if self.on_act is not None:
            self.on_act(record)
        elif self._own_acts is not None:
            self._own_acts.tell(record)

    def _call(self, future: "concurrent.futures.Future[Any]", call: Callable[[Engine], object]) -> None:
        if not future.set_running_or_notify_cancel():
            return
        assert self._engine is not None
        try:
            result = call(self._engine)
        except Exception as exc:
            future.set_exception(exc)
            return
        if isinstance(result, Ticket):
            result = (None, result)
        if not (isinstance(result, tuple) and len(result) == 2 and isinstance(result[1], Ticket)):
            future.set_result(result)
            return
        outcome, ticket = result

        def settled(done: Ticket) -> None:
            if done.error is not None:
                future.set_exception(done.error)
            else:
                future.set_result(outcome)

        ticket.when_done(settled)

    def _run(self) -> None:
        self._cpu_clock = time.pthread_getcpuclockid(threading.get_ident())
        try:
            with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                runner.run(self._main())
        except BaseException as exc:
            self.error = exc
            if self._started.is_set():
                logger.critical("engine ended error=%s", exc, exc_info=not isinstance(exc, PenstockError))
        finally:
            self._cpu_clock = None
            self._loop = None
            for future in list(self._unanswered):
                # The act never began, or its ticket was never done: the caller gets an error instead of no answer.
                if not future.done():
                    future.set_exception(ClosedError("the engine stopped before it could answer"))
            was_started = self._started.is_set()
            self._started.set()
            if self.error is not None and was_started and self.on_death is not None:
                self.on_death()

    async def _main(self) -> None:
        loop = asyncio.get_running_loop()
        self._stop_requested = asyncio.Event()
        assert self._lock is not None
        with self._lock:
            clock = SystemClock()
            background = BackgroundThread(loop, "penstock-disk")
            sync_background = BackgroundThread(loop, "penstock-sync")
            progress_background = BackgroundThread(loop, "penstock-progress")
            turns = EngineTurns()
            engine = Engine(
                self.options,
                clock=clock,
                files=Files(),
                backgrounds=Backgrounds(background, sync_background, progress_background),
                thread_choice=ThreadChoice(),
                on_work=turns.soon,
                progress=self.start_progress,
            )
            if self.on_act is None and self.act_gate is None:
                self._own_acts = ActWriter(ActFile(self.options.data_path, Files()), background, clock)
            engine.config.given = self._given
            note_callbacks(loop, engine.faults)
            turns.drive(engine)
            engine.pauses.on_act = self._tell_act
            engine.trash.on_act = self._tell_act
            self._engine = engine
            self._loop = loop
            try:
                # Before the engine opens: a start that damaged tokens stop has changed nothing.
                gate_upkeep = GateUpkeep(self.options, clock, background, own_token=self.own_token)
                # The objects that a start makes stay: collecting among them would take as long as making them.
                is_collecting = gc.isenabled()
                gc.disable()
                try:
                    engine.open()
                finally:
                    if is_collecting:
                        gc.enable()
                await self._serve(engine, clock, turns, gate_upkeep)
            finally:
                self._loop = None
                sync_background.finish()
                progress_background.finish()
                background.finish()
                # The backgrounds have queued the ends of their jobs on the loop: run them before the files are closed.
                await asyncio.sleep(0)
                await self._close(engine)

    async def _close(self, engine: Engine) -> None:
        with concurrent.futures.ThreadPoolExecutor(STOP_THREADS, "penstock-close") as threads:

            def run_all(jobs: Sequence[Job]) -> list[OSError | None]:
                return [error for errors in threads.map(run_in_turn, [[job] for job in jobs]) for error in errors]

            how = Closing(self.options.stop_timeout_ms * NS_PER_MS, run_all)
            for progress in engine.closing(how):
                self.stop_progress = progress
                if progress.reason:
                    await asyncio.sleep(STOP_RETRY_S)

    async def _serve(self, engine: Engine, clock: SystemClock, turns: EngineTurns, gate_upkeep: GateUpkeep) -> None:
        assert self._stop_requested is not None
        if lowered := self.descriptors.lowered(self.options.max_connections):
            are_clients_fewer = self.descriptors.clients < self.options.max_connections
            logger.log(logging.WARNING if are_clients_fewer else logging.INFO, "%s", lowered)
        if gate_upkeep.gate.guesses is not None:
            engine.stats.refused_secrets = gate_upkeep.gate.guesses.counts
        bodies = PendingBodies(self.options.max_pending_body_bytes, self.options.command_timeout_ms)
        contexts = self._contexts
        tls = None if contexts is None else lambda: contexts.current().context
        certificates = CertificateWatch(contexts, ("tcp", "https"), clock)
        certificates.look()
        engine.stats.read_bodies = bodies.stats
        client_keys = ClientKeys(TrustedAddresses.parse(self.options.trusted_proxy))
        tcp_server = TcpServer(
            engine, clock, turns, self.descriptors.clients, bodies, gate_upkeep.gate, client_keys, tls=tls
        )
        http_api = HttpApi(
            engine,
            ports=lambda: Ports(self.listeners.tcp[1], self.listeners.http[1], self.listeners.https[1]),
            audit=HttpAudit(self._tell_act, self._own_acts if self.act_gate is None else GateOnLoop(self.act_gate)),
            console=self.console,
            refused=RefusedConnections("http", self.descriptors.http, clock, engine.stats.refused_connections),
            bodies=bodies,
            creations=turns.pubs.creations,
            quotas=turns.pubs.quotas,
            gate=gate_upkeep.gate,
            client_keys=client_keys,
            certificates=certificates,
            takes_any_host=not self._has_console,
        )
        turns.pubs.creations.on_act = self._tell_act
        lookups = LookupClient(engine, clock, lambda: (self.listeners.tcp[1], self.listeners.http[1]))
        tasks: list[asyncio.Task[None]] = []
        try:
            # Before TCP listens: who finds it listening gets no "starting" over HTTP any more.
            self.probes.release([*self.listeners.bound[HTTP_ADDRESS], *self.listeners.bound.get(HTTPS_ADDRESS, ())])
            await self.listeners.open_tcp(tcp_server.make_session, tcp_server.unsent_bytes_max)
            await self.listeners.open_http(http_api.protocol_factory)
            if tls is not None:
                await self.listeners.open_https(http_api.protocol_factory, tls)
            lookups.set_addresses(self.options.lookupd_tcp_address)
            self.snapshot = engine.stats.now(include_clients=False)
            loops = self._loops(engine, tcp_server, clock, lookups)
            loops.append(("reading the tokens again", gate_upkeep.check_once))
            if contexts is not None:
                loops.append(("looking after the certificate", partial(_look_once, certificates)))

            def read_again() -> None:
                logger.info("SIGHUP: certificates, keys, tokens and secrets are read again")
                if contexts is not None:
                    contexts.read_again()
                    certificates.look()
                gate_upkeep.read_again()

            self._read_again = read_again
            if self._own_acts is not None:
                loops.append(("writing acts", self._own_acts.check_once))
            tasks = [asyncio.create_task(supervise(task, one_round, engine.faults)) for task, one_round in loops]
            self._started.set()
            await self._stop_requested.wait()
        finally:
            self.listeners.close()
            http_api.close_connections()
            for task in tasks:
                task.cancel()
            await lookups.close()
            turns.pubs.publish()
            engine.begin_closing()
            turns.run()  # messages taken before are appended, and answered before the connections end
            await tcp_server.close_sessions(CLOSE_SESSIONS_TIMEOUT_S)
            await gate_upkeep.close()
            if self._own_acts is not None:
                self._own_acts.close()

    def _loops(self, engine: Engine, tcp_server: TcpServer, clock: SystemClock, lookups: LookupClient) -> list[Loop]:
        """The periodic work: each loop's name in the health, and one round of it."""
        loops: list[Loop] = [
            ("checking the connections", tcp_server.check_once),
            ("the queue scan", partial(scan_once, engine)),
            ("making the stats", partial(self._snapshot_once, engine)),
            ("registering with nsqlookupds", lookups.check_once),
        ]
        if self.beat_every_s:
            loops.append(("feeding the watchdog", self._beat_once))
        if self.options.statsd_address:
            push = StatsdPush(engine, clock, lambda: self.listeners.http[1])
            loops.append(("sending stats to statsd", push.push_in_turn))
        freed = freed_memory.of_this_process()
        if freed is not None:
            loops.append(("giving back freed memory", freed.look_once))
        return loops

    async def _beat_once(self) -> None:
        self.on_beat()
        await asyncio.sleep(self.beat_every_s)

    async def _snapshot_once(self, engine: Engine) -> None:
        """Wait for the next second, make a frozen snapshot, in slices, and hand it out."""
        loop = asyncio.get_running_loop()
        interval_s = max(SNAPSHOT_INTERVAL_S, self._snapshot_took_s / SNAPSHOT_SHARE_MAX)
        self._snapshot_at = max(self._snapshot_at + interval_s, loop.time())
        await asyncio.sleep(self._snapshot_at - loop.time())
        now = time.monotonic()
        watched = {key for key, until in list(self._watched.items()) if until > now}
        for key in [key for key in list(self._watched) if key not in watched]:
            self._watched.pop(key, None)
        slices = engine.stats.in_slices(lambda topic, channel: (topic, channel) in watched)
        took_s = 0.0
        while True:
            began_s = time.thread_time()
            try:
                next(slices)
            except StopIteration as stop:
                snapshot: EngineSnapshot = stop.value
                break
            took_s += time.thread_time() - began_s
            await asyncio.sleep(0)
        self._snapshot_took_s = took_s
        self.snapshot = snapshot
        engine.offer_sample(snapshot)
        for hand_over in self.on_snapshot:
            try:
                hand_over(snapshot)
            except Exception:
                # A watcher's error does not stop the queues.
                logger.exception("snapshot not handed over")


async def _in_turns(slices: Generator[None, None, T]) -> T:
    """The result of slices, with the loop's other work between them."""
    while True:
        try:
            next(slices)
        except StopIteration as stop:
            result: T = stop.value
            return result
        await asyncio.sleep(0)


async def _look_once(certificates: CertificateWatch) -> None:
    await asyncio.sleep(CERTIFICATE_LOOK_S)
    certificates.look()


# A collection stops all threads, for some 0.4 µs for each object that it looks at. One of young objects looks at so few
# that a message waits for some milliseconds at the most, also while topics are made by the hundred. One of all objects
# begins once there are a quarter more of them, and this many of the young came before.
_NEW_OBJECTS, _NEW_PER_YOUNG, _YOUNG_PER_ALL = 5_000, 3, 330


def quiet_collector() -> None:
    """Tune the collector for a process with much long-lived state: call at the end of start."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(_NEW_OBJECTS, _NEW_PER_YOUNG, _YOUNG_PER_ALL)
    gc.enable()
