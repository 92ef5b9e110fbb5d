"""A channel of several servers, received as one."""

import asyncio
import contextlib
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from queue_engine.client import producer_pool
from queue_engine.client import subscription as subscription_module
from queue_engine.client.connection import ClientIdentity, Connection, DisconnectedError, RefusedError
from queue_engine.client.nodes import NamedNodes, Node
from queue_engine.client.producer import Producer
from queue_engine.client.producer_pool import NoServerError, ProducerPool
from queue_engine.client.subscription import Delivery, Subscription, finish_all
from tests.support.processes.running_engine import RunningEngine
from tests.support.waiting import wait_for_async
from tests.tools.conftest import node_of

StartEngine = Callable[..., RunningEngine]


def subscription_to(*engines: RunningEngine, in_flight: int = 10) -> Subscription:
    return Subscription("t", "c", NamedNodes([node_of(engine) for engine in engines]), ClientIdentity(), in_flight)


async def publish(engine: RunningEngine, *bodies: bytes) -> None:
    engine.http("POST", "/topic/create?topic=t", b"")
    engine.http("POST", "/channel/create?topic=t&channel=c", b"")
    async with await Producer.open("127.0.0.1", engine.tcp_port) as producer:
        await producer.publish_many("t", bodies)


async def received(subscription: Subscription, count: int) -> list[Delivery]:
    async with asyncio.timeout(30):
        found = [await subscription.receive() for _ in range(count)]
    return [delivery for delivery in found if delivery is not None]


async def test_messages_of_all_servers_arrive_and_know_their_own(start_engine: StartEngine) -> None:
    engines = [start_engine(), start_engine()]
    for number, engine in enumerate(engines):
        await publish(engine, *(b"%d-%d" % (number, count) for count in range(5)))
    async with subscription_to(*engines) as subscription:
        deliveries = await received(subscription, 10)
        assert subscription.node_count == 2
        for delivery in deliveries:
            assert delivery.node == node_of(engines[int(delivery.message.body[:1])])
            delivery.finish()
    assert {delivery.message.body for delivery in deliveries} == {
        b"%d-%d" % (number, count) for number in range(2) for count in range(5)
    }
    for engine in engines:
        assert engine.channel_stats("t", "c")["depth"] == engine.channel_stats("t", "c")["in_flight_count"] == 0


async def test_the_servers_share_what_may_be_in_flight(start_engine: StartEngine) -> None:
    engines = [start_engine(), start_engine()]
    async with subscription_to(*engines, in_flight=5) as subscription:
        await wait_for_async("both servers", lambda: subscription.node_count == 2)
        for engine in engines:
            await publish(engine, *[b"x"] * 10)
        for delivery in await received(subscription, 5):
            delivery.finish()
        await received(subscription, 5)
        found = [engine.channel_stats("t", "c")["in_flight_count"] for engine in engines]
        assert sorted(found) == [2, 3]


async def test_servers_take_turns_where_fewer_messages_may_be_in_flight(
    start_engine: StartEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subscription_module, "TURN_S", 0.05)
    engines = [start_engine(), start_engine()]
    for number, engine in enumerate(engines):
        await publish(engine, *[b"%d" % number] * 3)
    async with subscription_to(*engines, in_flight=1) as subscription:
        bodies = set()
        for _ in range(6):
            (delivery,) = await received(subscription, 1)
            bodies.add(delivery.message.body)
            delivery.finish()
        assert bodies == {b"0", b"1"}


async def test_a_server_that_comes_back_is_consumed_from_again(
    start_engine: StartEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subscription_module, "RECONNECT_S", (0.02, 0.1))
    stays = start_engine()
    async with contextlib.AsyncExitStack() as stack:
        with RunningEngine(tmp_path / "goes") as goes:
            port = goes.tcp_port
            await publish(goes, b"before")
            nodes = NamedNodes([node_of(stays), Node("127.0.0.1", port)])
            subscription = await stack.enter_async_context(Subscription("t", "c", nodes, ClientIdentity(), 10))
            (first,) = await received(subscription, 1)
            first.finish()
            await wait_for_async("the FIN", lambda: goes.channel_stats("t", "c")["in_flight_count"] == 0)
        await publish(stays, b"meanwhile")
        (second,) = await received(subscription, 1)
        with RunningEngine(tmp_path / "goes", tcp_address=f"127.0.0.1:{port}") as again:
            await publish(again, b"after")
            (third,) = await received(subscription, 1)
            first.finish()  # on a connection that is gone: no error
            third.finish()
            await wait_for_async("the second FIN", lambda: again.channel_stats("t", "c")["in_flight_count"] == 0)
    assert [one.message.body for one in (first, second, third)] == [b"before", b"meanwhile", b"after"]


async def test_the_only_server_s_refusal_is_an_error(start_engine: StartEngine) -> None:
    engine = start_engine(max_channel_consumers=1)
    async with subscription_to(engine) as first:
        await wait_for_async("the first", lambda: first.node_count == 1)
        async with subscription_to(engine) as second:
            with pytest.raises(RefusedError, match=r"E_SUB_FAILED .*limit of 1"):
                await received(second, 1)


async def test_after_a_stop_the_rest_comes_and_then_nothing(engine: RunningEngine) -> None:
    await publish(engine, *[b"x"] * 30)
    async with subscription_to(engine, in_flight=10) as subscription:
        await wait_for_async("ten in flight", lambda: engine.channel_stats("t", "c")["in_flight_count"] == 10)
        await received(subscription, 1)
        await wait_for_async("all that were sent", lambda: subscription._arrived.qsize() == 9)
        subscription.stop()
        assert len(await subscription.receive_all()) == 9
        assert await subscription.receive() is None
        assert await subscription.receive_all() == []
    await wait_for_async("what was not finished to wait", lambda: engine.channel_stats("t", "c")["depth"] == 30)


async def test_a_pool_publishes_to_the_servers_that_work(start_engine: StartEngine) -> None:
    works, dead = start_engine(), Node("127.0.0.1", 1)
    pool = ProducerPool([dead, node_of(works)], ClientIdentity())
    for number in range(10):
        assert await pool.publish("t", b"%d" % number) == node_of(works)
    await pool.close()
    assert works.topic_stats("t")["message_count"] == 10
    alone = ProducerPool([dead], ClientIdentity())
    with pytest.raises(NoServerError, match=r"127.0.0.1:1: can't connect to 127.0.0.1:1"):
        await alone.publish("t", b"x")


async def test_a_pool_tries_every_server_for_each_message(start_engine: StartEngine) -> None:
    """Also when others publish while a server fails: each would otherwise take the next one's turn."""
    works, dead = start_engine(), Node("127.0.0.1", 1)
    pool = ProducerPool([dead, node_of(works)], ClientIdentity())
    assert set(await asyncio.gather(*(pool.publish("t", b"%d" % number) for number in range(8)))) == {node_of(works)}
    await pool.close()


async def test_a_message_that_no_server_could_take_is_refused_at_once(start_engine: StartEngine) -> None:
    pool = ProducerPool(
        [node_of(start_engine(max_msg_size=10)), node_of(start_engine(max_msg_size=10))], ClientIdentity()
    )
    with pytest.raises(RefusedError, match="E_BAD_MESSAGE"):
        await pool.publish("t", b"x" * 11)
    assert str(await pool.publish("t", b"fits")).startswith("127.0.0.1:")
    await pool.close()


async def test_a_pool_says_whether_a_server_was_lost_with_the_message(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(producer_pool, "REST_S", (3_600.0, 3_600.0))

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"IDENTIFY\n")
        writer.write(frame(0, b"{}"))
        await reader.readuntil(b"PUB t\n")
        writer.transport.abort()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        pool = ProducerPool([Node("127.0.0.1", server.sockets[0].getsockname()[1])], ClientIdentity())
        with pytest.raises(NoServerError) as lost:
            await pool.publish("t", b"x")
        with pytest.raises(NoServerError) as resting:
            await pool.publish("t", b"x")
        await pool.close()
    assert (lost.value.is_lost, resting.value.is_lost) == (True, False)


def frame(kind: int, data: bytes) -> bytes:
    return struct.pack(">ii", len(data) + 4, kind) + data


def message(body: bytes) -> bytes:
    return frame(2, struct.pack(">qH16s", 1, 1, b"0123456789abcdef") + body)


async def test_what_waited_until_its_server_gave_it_up_is_left_out() -> None:
    has_waited = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"IDENTIFY\n")
        writer.write(frame(0, b'{"msg_timeout": 20}'))
        await reader.readuntil(b"SUB t c\n")
        writer.write(frame(0, b"OK") + message(b"given up") * 3)
        await has_waited.wait()
        is_gone = asyncio.ensure_future(reader.read())
        # Again and again: a machine that stalls may let one of them wait for too long as well.
        while not (await asyncio.wait([is_gone], timeout=0.005))[0]:
            writer.write(message(b"fresh"))
        writer.close()

    async with (
        await asyncio.start_server(serve, "127.0.0.1", 0) as server,
        Subscription(
            "t", "c", NamedNodes([Node(*server.sockets[0].getsockname())]), ClientIdentity(), 10
        ) as subscription,
    ):
        arrived = subscription._arrived._queue  # type: ignore[attr-defined]
        await wait_for_async("all to be given up", lambda: len(arrived) == 3 and arrived[-1].is_expired)
        has_waited.set()
        async with asyncio.timeout(30):
            first = await subscription.receive()
            others = await subscription.receive_all()
        assert first is not None
        assert {delivery.message.body for delivery in (first, *others)} == {b"fresh"}


async def test_what_is_finished_on_a_lost_connection_is_not_counted(tmp_path: Path) -> None:
    with RunningEngine(tmp_path / "goes") as goes:
        await publish(goes, b"one", b"two")
        subscription = subscription_to(goes)
        await subscription.__aenter__()
        deliveries = await received(subscription, 2)
        assert finish_all(deliveries[:1]) == 1
    await wait_for_async("the end", lambda: subscription.node_count == 0)
    assert finish_all(deliveries[1:]) == 0
    await subscription.close()


async def test_a_host_that_has_no_possible_name_is_a_server_that_is_gone() -> None:
    with pytest.raises(DisconnectedError, match="no host's name"):
        await Connection.open("a..b", 1)
