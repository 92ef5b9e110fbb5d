"""An engine with a clock of the test's own, and consumers that remember what they were sent."""

from collections.abc import Callable
from pathlib import Path

from queue_engine.delivery.channel import RUN_BYTES_MAX, Channel
from queue_engine.delivery.consumer import Consumer
from queue_engine.delivery.stats import CLIENT_STATE_CLOSING, CLIENT_STATE_SUBSCRIBED, ClientStats
from queue_engine.engine.engine import Engine
from queue_engine.storage.disk.background import Background, Backgrounds, InlineBackground
from queue_engine.storage.disk.files import Files
from queue_engine.vocabulary.clock import NS_PER_MS
from queue_engine.vocabulary.run import Run
from tests.support.clock import ManualClock
from tests.support.storage_kinds import engine_options


class Received:
    """One message as a consumer got it."""

    def __init__(self, frame: bytes) -> None:
        self.id = frame[18:34]
        self.attempts = int.from_bytes(frame[16:18], "big")
        self.timestamp_ns = int.from_bytes(frame[8:16], "big")
        self.body = frame[34:]


class RecordingSink:
    """Implements `Sink`: keeps what came."""

    def __init__(self) -> None:
        self.is_writable = True
        self.run_bytes_max = RUN_BYTES_MAX
        self.is_closed = False
        self.received: list[Received] = []
        self.runs: list[Run] = []

    def send_run(self, run: Run) -> None:
        self.runs.append(run)
        self.received += [Received(run.frame_at(index)) for index in range(len(run))]

    def close_consumer(self) -> None:
        self.is_closed = True


class Client:
    """A consumer with its sink, subscribed to one channel."""

    def __init__(
        self, engine: Engine, topic: str, channel: str, *, ready: int = 0, msg_timeout_ms: int = 60_000
    ) -> None:
        self.engine = engine
        self.sink = RecordingSink()
        self.pub_counts: dict[str, int] = {}
        self.authed = False
        self.consumer = Consumer(
            engine.add_client(self),
            self.sink,
            msg_timeout_ns=msg_timeout_ms * NS_PER_MS,
            max_msg_timeout_ns=900_000 * NS_PER_MS,
        )
        self.channel: Channel
        self.channel, self.ticket = engine.catalog.subscribe(topic, channel, self.consumer)
        if ready:
            self.ready(ready)

    is_producer = False

    def stats(self) -> ClientStats:
        consumer = self.consumer
        return ClientStats(
            client_key=consumer.key,
            client_id=f"c{consumer.key}",
            hostname="100%.example",
            user_agent="tests",
            remote_address="127.0.0.1:5000",
            version="V2",
            state=CLIENT_STATE_CLOSING if consumer.is_closing else CLIENT_STATE_SUBSCRIBED,
            ready_count=consumer.ready_count,
            in_flight_count=consumer.in_flight_count,
            message_count=consumer.message_count,
            finish_count=consumer.finish_count,
            requeue_count=consumer.requeue_count,
            timeout_count=consumer.timeout_count,
            connect_ts=1_500_000_000,
            msg_timeout_ms=consumer.msg_timeout_ns // NS_PER_MS,
            pub_counts=tuple(self.pub_counts.items()),
            authed=self.authed,
        )

    def ready(self, count: int) -> None:
        self.channel.set_ready(self.consumer, count)
        settle(self.engine)

    def finish(self, *ids: bytes) -> list[str]:
        errors = [str(error) for _, error in self.channel.finish(self.consumer, list(ids))]
        settle(self.engine)
        return errors

    def leave(self) -> None:
        self.engine.catalog.leave(self.channel, self.consumer)
        settle(self.engine)

    @property
    def bodies(self) -> list[bytes]:
        return [message.body for message in self.sink.received]


def make_engine(
    directory: Path,
    clock: ManualClock,
    *,
    open_store: object = None,
    files: Files | None = None,
    on_work: Callable[[], None] = lambda: None,
    background: Background | None = None,
    **options: object,
) -> Engine:
    """An open engine on `directory`; its disk work is done at once, in the caller's thread, unless by `background`."""
    engine = Engine(
        engine_options(data_path=str(directory), **options),
        clock=clock,
        files=files or Files(),
        backgrounds=Backgrounds.of(background or InlineBackground()),
        on_work=on_work,
        open_store=open_store,
    )
    engine.open()
    return engine


def make_topic(engine: Engine, name: str, *channels: str) -> None:
    """Create a topic with these channels."""
    engine.acts.create_topic(name)
    settle(engine)
    for channel in channels:
        engine.acts.create_channel(name, channel)
        settle(engine)


def settle(engine: Engine) -> None:
    """Run turns until nothing is left to do."""
    while engine.has_work:
        engine.turn()


def pass_time(engine: Engine, clock: ManualClock, ms: int) -> None:
    """Let time go by and the scan loop see it."""
    clock.advance(ms=ms)
    while engine.is_pass_dirty(*engine.scan_pass()):
        pass
    engine.tick()
    settle(engine)
