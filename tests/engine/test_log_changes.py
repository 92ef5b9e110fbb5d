"""What changes in the log for a topic is noted, so that `/stats` need not look at each topic."""

from collections.abc import Callable
from pathlib import Path

from queue_engine.log_store.log_topic_store import LogTopicStore
from tests.support.clock import ManualClock
from tests.support.engine import make_engine, pass_time, settle
from tests.support.kept_readings import two_resting


def test_a_store_notes_what_changes_the_sign_of_its_topic(tmp_path: Path) -> None:
    """Who looks at the topic's changes alone need not ask for the sign."""
    acts: list[Callable[[LogTopicStore], object]] = [
        lambda store: store.plan_channel("c", 0),
        lambda store: store.trash_channel("a"),
        lambda store: store.set_in_trash(True),
        lambda store: store.take_back_to(0),
        lambda store: store.append(store.make_batch([b"x"])),
    ]
    for at, act in enumerate(acts):
        (directory := tmp_path / str(at)).mkdir()
        engine = make_engine(directory, ManualClock())
        two_resting(engine)
        topic = engine.topics["t"]
        sign, noted = topic.rest_sign(), topic.changes.stored_count
        assert sign is not None
        assert isinstance(topic.store, LogTopicStore)
        act(topic.store)
        settle(engine)
        assert topic.rest_sign() != sign
        assert topic.changes.stored_count > noted
        engine.close()


def test_a_store_notes_that_the_log_before_its_messages_is_removed(tmp_path: Path) -> None:
    clock = ManualClock()
    engine = make_engine(tmp_path, clock, log_segment_bytes=64 << 10, trash_age_ms=0)
    two_resting(engine)
    topic = engine.topics["t"]
    for _ in range(5):
        engine.publish("t", [b"x" * 50_000])
        settle(engine)
    for channel in ("a", "b"):
        engine.acts.empty_channel("t", channel)
        settle(engine)
    sign, noted = topic.rest_sign(), topic.changes.stored_count
    assert sign is not None
    engine.acts.delete_topic("other")
    for _ in range(5):
        pass_time(engine, clock, 60_000)
    assert topic.rest_sign() != sign
    assert topic.changes.stored_count > noted
    engine.close()
