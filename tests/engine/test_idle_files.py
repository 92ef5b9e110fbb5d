"""Descriptors that nobody uses any more are given back, and what they were for is opened again by itself."""

from pathlib import Path

from tests.support.clock import ManualClock
from tests.support.disks.files import FaultyFiles
from tests.support.engine import Client, make_engine, pass_time, settle

TOPICS = 40


def test_descriptors_come_back_when_topics_are_idle(tmp_path: Path, storage_kind: str) -> None:
    clock, files = ManualClock(), FaultyFiles()
    engine = make_engine(tmp_path, clock, files=files, mem_queue_size=0)
    before = len(files.open_fds)
    for number in range(TOPICS):
        engine.acts.create_topic(f"t{number}")
        engine.acts.create_channel(f"t{number}", "c")
        for at in range(4):
            engine.publish(f"t{number}", [b"%d" % at])
            settle(engine)
    clients = [Client(engine, f"t{number}", "c", ready=2, msg_timeout_ms=600_000) for number in range(TOPICS)]
    pass_time(engine, clock, 6_000)  # the log's consume queues are written every five seconds
    busy = len(files.open_fds)
    assert busy > before + 20
    for _ in range(30):
        pass_time(engine, clock, 5_000)
    # The log's newest file, once to write and once to sync, its journal, and a consume queue or two of the samples.
    assert len(files.open_fds) <= before + 5
    for client in clients:
        client.finish(*[message.id for message in client.sink.received])
        client.ready(4)
    assert all(client.bodies[-2:] == [b"2", b"3"] for client in clients)
    engine.close()
    assert files.open_fds == set()
