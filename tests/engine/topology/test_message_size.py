"""Messages on disk outlive the limit they were published under."""

from pathlib import Path

from tests.support.clock import ManualClock
from tests.support.engine import Client, make_engine, settle
from tests.support.topology import written

MIB = 1 << 20


def test_messages_larger_than_may_be_published_now_are_still_delivered(tmp_path: Path) -> None:
    before = make_engine(tmp_path, ManualClock(), max_msg_size=20 * MIB, max_body_size=21 * MIB)
    bodies = [b"small", b"x" * (20 * MIB), b"after"]
    before.publish("orders", bodies)
    settle(before)
    before.close()
    assert written(tmp_path)["largest_msg_size"] == 20 * MIB

    after = make_engine(tmp_path, ManualClock())
    client = Client(after, "orders", "billing", ready=10)
    assert client.bodies == bodies
    assert not list(tmp_path.glob("*.bad"))


def test_the_largest_size_is_on_disk_before_a_topic_is_created_with_it(tmp_path: Path) -> None:
    make_engine(tmp_path, ManualClock()).acts.create_topic("orders")
    make_engine(tmp_path, ManualClock(), max_msg_size=30 * MIB, max_body_size=31 * MIB)
    assert written(tmp_path)["largest_msg_size"] == 30 * MIB
