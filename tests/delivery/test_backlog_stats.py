"""The stats of a channel's backlog, read again only where something of it changed."""

from dataclasses import replace
from pathlib import Path

from queue_engine.engine.engine import Engine
from tests.support.clock import ManualClock
from tests.support.engine import make_engine, settle


def test_what_other_topics_write_changes_the_bytes_on_disk_alone(tmp_path: Path) -> None:
    engine = make_engine(tmp_path, ManualClock())
    for name in ("orders", "mails"):
        engine.acts.create_topic(name)
        engine.acts.create_channel(name, "all")
    settle(engine)
    engine.publish("orders", [b"waits"])
    settle(engine)
    channel = engine.topics["orders"].channels["all"]
    before = channel.figures.stats()
    assert channel.figures.stats() is before
    grown = []
    for body in (b"x", b"y" * 100):
        log_bytes = _log_bytes(engine)
        engine.publish("mails", [body])
        settle(engine)
        grown.append(_log_bytes(engine) - log_bytes)
        after = channel.figures.stats()
        assert before.disk_bytes is not None
        assert after == replace(before, disk_bytes=before.disk_bytes + sum(grown))
    assert grown[1] > grown[0] > 0
    engine.close()


def _log_bytes(engine: Engine) -> int:
    log = engine.stats.now().log
    assert log is not None
    return log.bytes
