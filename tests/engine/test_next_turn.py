"""A turn is requested once, however much work comes, and again only when work is left or new after it."""

from pathlib import Path

from tests.support.clock import ManualClock
from tests.support.engine import Client, make_engine, settle


def test_on_work_is_called_once_for_all_the_work_of_a_turn(tmp_path: Path) -> None:
    calls: list[str] = []
    engine = make_engine(tmp_path, ManualClock(), on_work=lambda: calls.append("work"))
    client = Client(engine, "orders", "billing", ready=100)
    settle(engine)
    calls.clear()
    engine.publish("orders", [b"a"])
    engine.publish("orders", [b"b"])
    engine.publish("clicks", [b"c"])
    assert (calls, engine.has_work) == (["work"], True)
    settle(engine)
    assert client.sink.received[1].body == b"b"
    calls.clear()
    for message in client.sink.received:
        client.channel.finish(client.consumer, [message.id])
    assert (calls, engine.has_work) == (["work"], True)
    engine.turn()
    assert not engine.has_work, "what was finished is written by one turn"
    engine.close()
