"""The engine's thread: its loop, its sockets, and the two ways in from other threads, `submit` and `snapshot`."""

import asyncio
import concurrent.futures
import gc
import logging
import threading
import time
from collections.abc import Callable
from typing import Any

import uvloop

from queue_engine.clock import SystemClock
from queue_engine.delivery.stats import ActRecord, EngineSnapshot
from queue_engine.engine import Engine
from queue_engine.errors import ClosedError, PenstockError
from queue_engine.options import Options, split_address
from queue_engine.service.http_api import HttpApi
from queue_engine.service.queue_scan import scan_forever
from queue_engine.service.tcp_server import TcpServer
from queue_engine.service.turns import Turns
from queue_engine.service.worker import BackgroundThread
from queue_engine.storage.dirlock import DirectoryLock
from queue_engine.storage.files import Files
from queue_engine.ticket import Ticket

logger = logging.getLogger(__name__)

SNAPSHOT_INTERVAL_S = 1.0
START_TIMEOUT_S = 600.0  # opening many large queues takes its time; being silent for ten minutes does not
CLOSE_SESSIONS_TIMEOUT_S = 2.0


class EngineRunner:
    """Runs one engine. `start` and `stop` block; everything else may be called from any thread."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.tcp_address: tuple[str, int] = ("", 0)
        self.http_address: tuple[str, int] = ("", 0)
        self.snapshot: EngineSnapshot | None = None
        self.on_snapshot: list[Callable[[EngineSnapshot], None]] = []
        self.on_act: Callable[[ActRecord], None] | None = None
        self.on_death: Callable[[], None] | None = None
        self.error: BaseException | None = None
        self._watched: dict[tuple[str, str], float] = {}  # until when, time.monotonic
        self._loop: asyncio.AbstractEventLoop | None = None
        self._engine: Engine | None = None
        self._thread: threading.Thread | None = None
        self._stop_asked: asyncio.Event | None = None
        self._started = threading.Event()
        self._unanswered: set[concurrent.futures.Future[Any]] = set()

    # From any thread.

    def start(self) -> None:
        """Start the thread; returns once both sockets listen. Raises what went wrong, everything closed again."""
        self._thread = threading.Thread(target=self._run, name="penstock-engine", daemon=True)
        self._thread.start()
        self._started.wait(START_TIMEOUT_S)
        if self.error is not None:
            self._thread.join()
            raise self.error

    def stop(self, timeout_s: float = 10) -> None:
        """End everything, what must last on disk. Raises what could not be kept, or TimeoutError."""
        thread, loop, stop_asked = self._thread, self._loop, self._stop_asked
        if thread is None:
            return
        if loop is not None and stop_asked is not None and thread.is_alive():
            try:
                loop.call_soon_threadsafe(stop_asked.set)
            except RuntimeError:
                pass  # the loop has ended by itself
        thread.join(timeout_s)
        if thread.is_alive():
            raise TimeoutError(f"the engine did not stop within {timeout_s} s")
        if self.error is not None:
            raise self.error

    def submit(self, act: str, *args: Any, **kwargs: Any) -> "concurrent.futures.Future[Any]":
        """Run `Engine.<act>` on the engine's thread and wait for its ticket.

        The future's result is the act's Outcome, or whatever it returned; its exception what the act raised.
        Cancelling it before it began drops it unstarted.
        """
        future: concurrent.futures.Future[Any] = concurrent.futures.Future()
        self._unanswered.add(future)
        future.add_done_callback(self._unanswered.discard)
        loop = self._loop
        try:
            if loop is None:
                raise RuntimeError
            loop.call_soon_threadsafe(self._act, future, act, args, kwargs)
        except RuntimeError:
            future.set_exception(ClosedError("the engine is not running"))
        return future

    def watch(self, topic: str, channel: str, lease_s: float = 5) -> None:
        """List this channel's clients in the snapshots of the next `lease_s` seconds."""
        self._watched[topic, channel] = time.monotonic() + lease_s

    # On the engine's thread.

    def _act(
        self, future: "concurrent.futures.Future[Any]", act: str, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        if not future.set_running_or_notify_cancel():
            return
        assert self._engine is not None
        try:
            result = getattr(self._engine, act)(*args, **kwargs)
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
        try:
            with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                runner.run(self._main())
        except BaseException as exc:
            self.error = exc
            if self._started.is_set():
                logger.critical("engine ended error=%s", exc, exc_info=not isinstance(exc, PenstockError))
        finally:
            self._loop = None
            for future in list(self._unanswered):
                # Its turn never came, or its ticket: nobody must wait for ever.
                if not future.done():
                    future.set_exception(ClosedError("the engine stopped before it could answer"))
            was_started = self._started.is_set()
            self._started.set()
            if self.error is not None and was_started and self.on_death is not None:
                self.on_death()

    async def _main(self) -> None:
        loop = asyncio.get_running_loop()
        self._stop_asked = asyncio.Event()
        with DirectoryLock(self.options.data_path):
            clock = SystemClock()
            background = BackgroundThread(loop, "penstock-disk")
            sync_background = BackgroundThread(loop, "penstock-sync")
            turns = Turns()
            engine = Engine(
                self.options,
                clock=clock,
                files=Files(),
                background=background,
                sync_background=sync_background,
                on_work=turns.soon,
            )
            turns.drive(engine)
            self._engine = engine
            self._loop = loop
            try:
                engine.open()
                await self._serve(engine, clock, turns)
            finally:
                self._loop = None
                sync_background.finish()
                background.finish()
                # What the worker finished is told to the loop: let it hear before the files are closed.
                await asyncio.sleep(0)
                engine.close()

    async def _serve(self, engine: Engine, clock: SystemClock, turns: Turns) -> None:
        assert self._stop_asked is not None
        tcp_server = TcpServer(engine, clock, turns)
        http_api = HttpApi(
            engine,
            self.options,
            addresses=lambda: (self.tcp_address[1], self.http_address[1]),
            on_act=lambda record: self.on_act(record) if self.on_act is not None else None,
        )
        tasks: list[asyncio.Task[None]] = []
        http_server: asyncio.Server | None = None
        try:
            self.tcp_address = await _listening(tcp_server.start(self.options.tcp_address), self.options.tcp_address)
            host, port = split_address(self.options.http_address)
            http_server = await _listening(
                asyncio.get_running_loop().create_server(http_api.protocol_factory, host or None, port, backlog=1024),
                self.options.http_address,
            )
            name = http_server.sockets[0].getsockname()
            self.http_address = (name[0], name[1])
            self.snapshot = engine.stats(include_clients=False)
            tasks = [
                asyncio.create_task(tcp_server.check_forever()),
                asyncio.create_task(scan_forever(engine)),
                asyncio.create_task(self._snapshot_forever(engine)),
            ]
            self._started.set()
            stop = asyncio.create_task(self._stop_asked.wait())
            ends: list[asyncio.Future[Any]] = [stop, turns.failure, *tasks]
            done, _ = await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            for end in done:
                if end is not stop:
                    end.result()  # a loop of ours ended: that is an error, and it is raised here
        finally:
            tcp_server.stop_accepting()
            if http_server is not None:
                http_server.close()
            http_api.close_connections()
            for task in tasks:
                task.cancel()
            turns.pubs.publish()
            engine.is_closing = True
            turns.run()  # what was taken before is appended, and answered before the connections end
            await tcp_server.close_sessions(CLOSE_SESSIONS_TIMEOUT_S)

    async def _snapshot_forever(self, engine: Engine) -> None:
        """Make a frozen snapshot every second, in slices, and hand it out."""
        loop = asyncio.get_running_loop()
        next_at = loop.time()
        while True:
            next_at = max(next_at + SNAPSHOT_INTERVAL_S, loop.time())
            await asyncio.sleep(next_at - loop.time())
            now = time.monotonic()
            watched = {key for key, until in list(self._watched.items()) if until > now}
            for key in [key for key in list(self._watched) if key not in watched]:
                self._watched.pop(key, None)
            slices = engine.stats_in_slices(lambda topic, channel: (topic, channel) in watched)  # noqa: B023
            while True:
                try:
                    next(slices)
                except StopIteration as stop:
                    snapshot: EngineSnapshot = stop.value
                    break
                await asyncio.sleep(0)
            self.snapshot = snapshot
            engine.offer_sample(snapshot)
            for hand_over in self.on_snapshot:
                try:
                    hand_over(snapshot)
                except Exception:
                    # Whoever watches may break; the queues go on.
                    logger.exception("snapshot not handed over")


async def _listening(start: Any, address: str) -> Any:
    try:
        return await start
    except OSError as exc:
        raise PenstockError(f"can't listen on {address}: {exc.strerror or exc}") from exc


def quiet_collector() -> None:
    """Tune the collector for a process with much long-lived state: call at the end of start."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(5_000, 20, 50)
