"""Many queues that are due for a sync at once share one worker, and leave it free for others."""

from collections.abc import Callable
from pathlib import Path

from queue_engine.engine.engine import Engine
from queue_engine.storage.disk.background import Backgrounds, InlineBackground
from queue_engine.storage.disk_queue.folder import SYNCS_OUTSTANDING_MAX
from tests.support.clock import ManualClock
from tests.support.disks.files import FaultyFiles
from tests.support.engine import Client, settle
from tests.support.storage_kinds import engine_options
from tests.support.stores.background import HeldBackground

QUEUES = 300


class CountingBackground(HeldBackground):
    def __init__(self) -> None:
        super().__init__()
        self.waiting = 0
        self.waiting_max = 0

    def submit(self, job: Callable[[], None], done: Callable[[Exception | None], None]) -> None:
        self.waiting += 1
        self.waiting_max = max(self.waiting_max, self.waiting)

        def counted(error: Exception | None) -> None:
            self.waiting -= 1
            done(error)

        super().submit(job, counted)


def test_syncs_are_given_out_a_few_at_a_time_and_none_is_forgotten(tmp_path: Path) -> None:
    clock, files, background = ManualClock(), FaultyFiles(), CountingBackground()
    engine = Engine(
        engine_options(data_path=str(tmp_path), mem_queue_size=0),
        clock=clock,
        files=files,
        backgrounds=Backgrounds.of(background),
    )
    engine.open()
    engine.acts.create_topic("orders")
    for number in range(QUEUES):
        engine.acts.create_channel("orders", f"c{number}")
    engine.tick()  # the first look at the disk comes and goes
    background.finish()
    engine.publish("orders", [b"x"])
    settle(engine)
    clock.advance(ms=3_000)
    background.waiting_max = 0
    descriptors = len(files.open_fds)
    engine.tick()
    assert background.waiting_max <= SYNCS_OUTSTANDING_MAX
    assert len(files.open_fds) - descriptors <= SYNCS_OUTSTANDING_MAX
    # Whoever asks for the worker now waits for those few only.
    _, ticket = engine.acts.create_topic("another")
    for _ in range(SYNCS_OUTSTANDING_MAX + 1):
        background.work()
        background.answer()
    assert ticket.done
    background.finish()
    assert background.waiting_max <= SYNCS_OUTSTANDING_MAX + 1
    metas = [path for path in tmp_path.iterdir() if path.name.endswith(".meta.dat")]
    assert len(metas) == QUEUES
    engine.tick()
    assert background.waiting == 0


def test_health_tells_of_a_sync_that_failed_until_one_goes_well(tmp_path: Path) -> None:
    clock, files, background = ManualClock(), FaultyFiles(), CountingBackground()
    engine = Engine(
        engine_options(data_path=str(tmp_path), mem_queue_size=0),
        clock=clock,
        files=files,
        backgrounds=Backgrounds.of(background),
    )
    engine.open()
    engine.publish("orders", [b"x"])
    background.finish()
    settle(engine)
    background.finish()
    files.fail("rename")
    clock.advance(ms=3_000)
    engine.tick()
    background.finish()
    engine.tick()
    assert engine.stats.health.startswith("NOK - cannot sync disk queue orders")
    clock.advance(ms=3_000)
    engine.tick()
    background.finish()
    engine.tick()
    assert engine.stats.health == "OK"


def test_health_forgets_a_channel_that_could_not_be_read_when_it_is_deleted(tmp_path: Path) -> None:
    clock, files = ManualClock(), FaultyFiles()
    engine = Engine(
        engine_options(data_path=str(tmp_path), mem_queue_size=0),
        clock=clock,
        files=files,
        backgrounds=Backgrounds.of(InlineBackground()),
    )
    engine.open()
    client = Client(engine, "orders", "billing")
    engine.publish("orders", [b"x"])
    settle(engine)
    files.fail("read", count=100)
    client.ready(1)
    assert engine.stats.health.startswith("NOK - cannot read ")
    engine.tick()  # it is to be tried again in the next turn
    engine.acts.delete_channel("orders", "billing")
    settle(engine)
    engine.tick()
    assert engine.stats.health == "OK"
