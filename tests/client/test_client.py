"""Our own client against the real engine: what it sends is done, what it is refused is raised."""

import asyncio
import time
from collections.abc import Awaitable, Callable

import pytest

from queue_engine.client.connection import ClientIdentity, DisconnectedError, RefusedError
from queue_engine.client.consumer import Consumer
from queue_engine.client.producer import Producer
from tests.support.processes.running_engine import RunningEngine
from tests.support.waiting import wait_for_async

Consume = Callable[..., Awaitable[Consumer]]


async def test_a_published_message_arrives_as_it_was(producer: Producer, consume: Consume) -> None:
    consumer = await consume()
    before_ns = time.time_ns()
    await producer.publish("t", b"\x00\r\nFIN \xff")
    message = await consumer.receive()
    assert (message.body, message.attempts, len(message.id)) == (b"\x00\r\nFIN \xff", 1, 16)
    assert before_ns <= message.timestamp_ns <= time.time_ns()


async def test_what_was_finished_is_settled_when_close_returns(
    engine: RunningEngine, producer: Producer, consume: Consume
) -> None:
    consumer = await consume(ready_count=10)
    await producer.publish_many("t", [b"%d" % number for number in range(10)])
    messages = [await consumer.receive() for _ in range(10)]
    assert sorted(message.body for message in messages) == [b"%d" % number for number in range(10)]
    for message in messages[:9]:
        consumer.finish(message)
    await consumer.close()
    await consumer.close()
    await wait_for_async("the last one to be given back", lambda: engine.channel_stats("t", "c")["depth"] == 1)
    found = engine.channel_stats("t", "c")
    assert (found["in_flight_count"], found["clients"]) == (0, [])
    again = await (await consume()).receive()
    assert (again.body, again.attempts) == (messages[9].body, 2)


async def test_overlapping_publishes_are_each_answered(
    engine: RunningEngine, producer: Producer, consume: Consume
) -> None:
    await asyncio.gather(*(producer.publish("t", b"%d" % number) for number in range(200)))
    assert engine.topic_stats("t")["message_count"] == 200


async def test_a_cancelled_publish_keeps_its_place_among_the_answers(producer: Producer) -> None:
    one = asyncio.create_task(producer.publish("t", b"goes out"))
    await asyncio.sleep(0)
    one.cancel()
    with pytest.raises(RefusedError, match="E_BAD_MESSAGE"):
        await producer.publish("t", b"x" * 1_001)


async def test_a_deferred_message_waits_for_its_time(
    engine: RunningEngine, producer: Producer, consume: Consume
) -> None:
    consumer = await consume(ready_count=3)
    await producer.publish_deferred("t", b"much later", defer_ms=600_000)
    await producer.publish("t", b"now")
    assert (await consumer.receive()).body == b"now"
    assert engine.channel_stats("t", "c")["deferred_count"] == 1
    began_at = time.monotonic()
    await producer.publish_deferred("t", b"later", defer_ms=300)
    assert (await consumer.receive()).body == b"later"
    assert time.monotonic() - began_at >= 0.3


async def test_a_requeued_message_comes_again_after_its_delay(
    engine: RunningEngine, producer: Producer, consume: Consume
) -> None:
    consumer = await consume()
    await producer.publish("t", b"again")
    consumer.requeue(await consumer.receive())
    second = await consumer.receive()
    began_at = time.monotonic()
    consumer.requeue(second, delay_ms=300)
    third = await consumer.receive()
    assert (second.attempts, third.attempts) == (2, 3)
    assert time.monotonic() - began_at >= 0.3
    assert engine.channel_stats("t", "c")["requeue_count"] == 2


async def test_touch_gains_time(engine: RunningEngine, producer: Producer, consume: Consume) -> None:
    consumer = await consume()
    await producer.publish("t", b"long work")
    message = await consumer.receive()

    def allowed_ms() -> int:
        """From its delivery to its deadline."""
        (found,) = engine.in_flight("t", "c")
        return found.held_ms + found.deadline_in_ms

    untouched_ms = allowed_ms()

    def has_gained() -> bool:
        consumer.touch(message)
        return allowed_ms() > untouched_ms + 50

    await wait_for_async("time gained by TOUCH", has_gained)


async def test_the_ready_count_bounds_what_is_out(engine: RunningEngine, producer: Producer, consume: Consume) -> None:
    consumer = await consume(ready_count=0)
    await producer.publish_many("t", [b"x"] * 20)
    for asked, given in ((3, 3), (500, 10)):  # 10 is what this server allows
        consumer.set_ready(asked)
        await wait_for_async(
            f"{given} in flight", lambda given=given: engine.channel_stats("t", "c")["in_flight_count"] == given
        )
    assert engine.channel_stats("t", "c")["depth"] == 10


async def test_a_client_is_shown_as_it_calls_itself(engine: RunningEngine, consume: Consume) -> None:
    await consume(identity=ClientIdentity("billing-1", "billing-1.example", "billing/1.0"))
    (client,) = engine.channel_stats("t", "c")["clients"]
    assert (client["client_id"], client["hostname"], client["user_agent"]) == (
        "billing-1",
        "billing-1.example",
        "billing/1.0",
    )


@pytest.mark.slow(reason="waits for real heartbeats")
async def test_heartbeats_are_answered_as_long_as_nothing_else_happens(engine: RunningEngine, consume: Consume) -> None:
    consumer = await consume(identity=ClientIdentity(heartbeat_interval_ms=2_000))
    await asyncio.sleep(5.0)  # the server closes who is silent for two intervals: more than a machine's pause
    assert not consumer.connection.is_closed
    assert len(engine.channel_stats("t", "c")["clients"]) == 1


async def test_a_refused_publish_names_the_word_and_ends_the_connection(producer: Producer) -> None:
    with pytest.raises(RefusedError, match="1001") as refused:
        await producer.publish("t", b"x" * 1_001)
    assert refused.value.code == "E_BAD_MESSAGE"
    await wait_for_async("the server to close", lambda: producer.connection.is_closed)
    with pytest.raises(DisconnectedError, match="E_BAD_MESSAGE"):
        await producer.publish("t", b"small")


async def test_a_refused_finish_is_told_and_the_connection_goes_on(producer: Producer, consume: Consume) -> None:
    consumer = await consume()
    refusals: list[RefusedError] = []
    consumer.on_refused = refusals.append
    await producer.publish_many("t", [b"one", b"two"])
    first = await consumer.receive()
    consumer.finish(first)
    consumer.finish(first)
    consumer.finish(await consumer.receive())
    await wait_for_async("the refusal", lambda: refusals)
    assert [refusal.code for refusal in refusals] == ["E_FIN_FAILED"]
    assert not consumer.connection.is_closed


async def test_a_refused_finish_is_logged_where_nobody_listens(
    producer: Producer, consume: Consume, caplog: pytest.LogCaptureFixture
) -> None:
    consumer = await consume()
    await producer.publish("t", b"one")
    first = await consumer.receive()
    consumer.finish(first)
    consumer.touch(first)
    await wait_for_async("the line", lambda: "E_TOUCH_FAILED" in caplog.text)


async def test_an_impossible_name_goes_nowhere(producer: Producer, engine: RunningEngine) -> None:
    for name in ("", "a b", "t\nPUB u", "x" * 65, ".."):
        for publish in (
            producer.publish(name, b"x"),
            producer.publish_many(name, [b"x"]),
            producer.publish_deferred(name, b"x", defer_ms=1),
            Consumer.open("127.0.0.1", engine.tcp_port, name, "c"),
            Consumer.open("127.0.0.1", engine.tcp_port, "t", name),
        ):
            with pytest.raises(ValueError, match="is no name"):
                await publish
    await producer.publish("t", b"still connected")
    assert [topic["topic_name"] for topic in engine.stats()["topics"]] == ["t"]


async def test_nothing_to_publish_is_the_callers_mistake(producer: Producer) -> None:
    with pytest.raises(ValueError, match="nothing to publish"):
        await producer.publish_many("t", [])
    await producer.publish("t", b"still connected")


async def test_identify_that_asks_too_much_is_refused(engine: RunningEngine) -> None:
    with pytest.raises(RefusedError, match="msg timeout \\(5\\) is invalid"):
        await Producer.open("127.0.0.1", engine.tcp_port, ClientIdentity(msg_timeout_ms=5))


async def test_a_deleted_channel_ends_its_consumer(engine: RunningEngine, consume: Consume) -> None:
    consumer = await consume()
    engine.http("POST", "/channel/delete?topic=t&channel=c")
    for _ in range(2):
        with pytest.raises(DisconnectedError, match=f"127.0.0.1:{engine.tcp_port}"):
            await consumer.receive()
    with pytest.raises(DisconnectedError):
        consumer.set_ready(1)


async def test_a_stopped_server_ends_whoever_waits(engine: RunningEngine, producer: Producer, consume: Consume) -> None:
    consumer = await consume()
    waiting = asyncio.create_task(consumer.receive())
    await asyncio.to_thread(engine.__exit__, None, None, None)
    with pytest.raises(DisconnectedError):
        await waiting
    with pytest.raises(DisconnectedError):
        await producer.publish("t", b"x")
    with pytest.raises(DisconnectedError, match=f"can't connect to 127.0.0.1:{engine.tcp_port}"):
        await Producer.open("127.0.0.1", engine.tcp_port)
