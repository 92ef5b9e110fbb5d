"""How fast each client may publish: one bucket a client and quota, which holds a second of publishing."""

from pathlib import Path

import pytest

from queue_engine.service.admission import publish_quotas
from queue_engine.service.admission.pending_bodies import PendingBodies
from queue_engine.service.admission.publish_quotas import PublishQuotas
from queue_engine.vocabulary.errors import QuotaError
from queue_engine.vocabulary.options.options import Options
from queue_engine.vocabulary.publish_quota import parse_publish_quota
from tests.service.http.server import http_server
from tests.service.tcp.session_bench import Bench, dpub, mpub, pub
from tests.support.clock import ManualClock

IP, OTHER_IP = "192.0.2.1", "192.0.2.2"


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


def taken(quotas: PublishQuotas, *, token: str = "", ip: str = IP, topic: str = "orders-eu", size: int = 100) -> int:
    """How many single messages of `size` bytes the client publishes until it is refused; 1,000 at most."""
    for count in range(1_000):
        try:
            quotas.take(token, ip, topic, 1, size)
        except QuotaError:
            return count
    return 1_000


def test_a_client_publishes_a_second_of_its_quota_at_once_and_then_at_the_rate(clock: ManualClock) -> None:
    quotas = PublishQuotas(["orders-*=50"], clock)
    assert taken(quotas) == 50
    clock.advance(ms=100)
    assert taken(quotas) == 5
    clock.advance(ms=60_000)
    assert taken(quotas) == 50


def test_each_address_and_each_token_has_a_quota_of_its_own(clock: ManualClock) -> None:
    quotas = PublishQuotas(["*=10"], clock)
    assert [taken(quotas), taken(quotas, ip=OTHER_IP), taken(quotas, token="shop")] == [10, 10, 10]
    # A token is one client, whatever address it comes from.
    assert taken(quotas, token="shop", ip=OTHER_IP) == 0


def test_all_topics_of_a_pattern_share_the_quota_and_others_have_none(clock: ManualClock) -> None:
    quotas = PublishQuotas(["orders-*=10"], clock)
    assert taken(quotas, topic="orders-eu") == 10
    assert taken(quotas, topic="orders-us") == 0
    assert taken(quotas, topic="metrics") == 1_000


def test_a_quota_of_a_token_limits_that_token_alone(clock: ManualClock) -> None:
    quotas = PublishQuotas(["shop*:*=10"], clock)
    assert taken(quotas, token="shop-eu") == 10
    assert taken(quotas, token="bank") == 1_000
    assert taken(quotas) == 1_000


def test_the_narrower_of_two_quotas_counts_and_a_refusal_takes_from_neither(clock: ManualClock) -> None:
    quotas = PublishQuotas(["*=100", "orders-*=10"], clock)
    assert taken(quotas, topic="orders-eu") == 10
    assert taken(quotas, topic="metrics") == 90


def test_bytes_are_limited_beside_messages(clock: ManualClock) -> None:
    quotas = PublishQuotas(["*=1000/500"], clock)
    assert taken(quotas, size=100) == 5
    clock.advance(ms=400)
    assert taken(quotas, size=100) == 2


def test_a_batch_above_the_quota_passes_when_all_is_there_and_leaves_a_debt(clock: ManualClock) -> None:
    quotas = PublishQuotas(["*=10"], clock)
    quotas.take("", IP, "t", 200, 1)  # 20 seconds of the quota
    clock.advance(ms=19_900)
    with pytest.raises(QuotaError) as refused:
        quotas.take("", IP, "t", 200, 1)
    assert refused.value.wait_ms == 100
    clock.advance(ms=refused.value.wait_ms)
    quotas.take("", IP, "t", 200, 1)


def test_the_refusal_names_client_topic_quota_and_the_time_to_wait(clock: ManualClock) -> None:
    quotas = PublishQuotas(["shop:orders-*=10"], clock)
    assert taken(quotas, token="shop") == 10
    with pytest.raises(QuotaError) as refused:
        quotas.take("shop", IP, "orders-eu", 1, 7)
    assert str(refused.value) == (
        "topic orders-eu: publish of 1 messages with 7 bytes refused, the token shop has used its quota of 10 messages "
        "a second (--publish-quota shop:orders-*=10). Nothing was stored. There is room in 100 ms"
    )
    clock.advance(ms=100)
    quotas.take("shop", IP, "orders-eu", 1, 7)


def test_many_clients_cost_bounded_memory_and_a_debt_outlives_that(
    clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(publish_quotas, "REMEMBERED_MAX", 100)
    quotas = PublishQuotas(["*=10"], clock)
    assert taken(quotas, ip=IP) == 10
    for number in range(1_000):
        quotas.take("", f"198.51.100.{number}", "t", 1, 1)
        clock.advance(ms=0.01)
        assert len(quotas._of_client) <= 100
    assert taken(quotas, ip=IP) == 0
    clock.advance(ms=60_000)
    for number in range(1_000):
        quotas.take("", f"203.0.113.{number}", "t", 1, 1)
        clock.advance(ms=100)
    assert len(quotas._buckets) <= 200


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("orders", "is not [TOKEN:]TOPICS=MESSAGES[/BYTES]"),
        ("orders=", "limits neither messages nor bytes"),
        ("orders=0/0", "limits neither messages nor bytes"),
        ("or ders=5", "is not a topic pattern"),
        ("orders=-5", "is not [TOKEN:]TOPICS=MESSAGES[/BYTES]"),
        ("orders=9999999999999", "the most is 1000000000000"),
    ],
)
def test_a_wrong_quota_is_refused_at_the_start_by_its_text(text: str, complaint: str) -> None:
    found = [one for one in Options(publish_quota=(text,)).complaints() if "--publish-quota" in one]
    assert len(found) == 1
    assert complaint in found[0]
    assert repr(text) in found[0]


def test_a_quota_may_limit_bytes_alone() -> None:
    quota = parse_publish_quota("*=/5000000")
    assert (quota.token, quota.topics, quota.messages_per_s, quota.bytes_per_s) == ("", "*", 0, 5_000_000)


async def test_a_refused_publish_over_tcp_leaves_the_connection_and_is_counted(tmp_path: Path) -> None:
    bench = Bench(tmp_path, options={"publish_quota": ("orders=2",)})
    bench.known_topic("orders")
    client = bench.client()
    for send in (pub("orders", b"1"), dpub("orders", b"2"), pub("orders", b"3"), mpub("orders", b"4")):
        client.send(send)
        bench.finish()
    bench.clock.advance(ms=500)
    client.send(pub("orders", b"5"))
    bench.finish()
    assert [frame.split(",")[0] for frame in client.frames] == [
        "OK",
        "OK",
        "E_PUB_FAILED PUB failed topic orders: publish of 1 messages with 1 bytes refused",
        "E_MPUB_FAILED MPUB failed topic orders: publish of 1 messages with 1 bytes refused",
        "OK",
    ]
    assert not client.transport.is_closed
    assert bench.engine.topics["orders"].message_count == 3
    assert bench.engine.stats.refused_publishes["quota"] == 2


async def test_publishes_in_one_read_take_from_the_quota_each(tmp_path: Path) -> None:
    bench = Bench(tmp_path, options={"publish_quota": ("orders=2",)})
    bench.known_topic("orders")
    client = bench.client()
    client.send(b"".join(pub("orders", b"x") for _ in range(3)))
    bench.finish()
    assert [frame[:12] for frame in client.frames] == ["OK", "OK", "E_PUB_FAILED"]


async def test_what_follows_a_refused_publish_in_the_same_read_is_done(tmp_path: Path) -> None:
    bench = Bench(tmp_path, options={"publish_quota": ("orders=1",)})
    bench.known_topic("orders")
    bench.known_topic("metrics")
    client = bench.client()
    client.send(pub("orders", b"1") + pub("orders", b"2") + mpub("orders", b"3") + pub("metrics", b"4"))
    bench.finish()
    assert [frame[:13] for frame in client.frames] == ["OK", "E_PUB_FAILED ", "E_MPUB_FAILED", "OK"]
    assert bench.engine.topics["metrics"].message_count == 1


async def test_the_body_of_a_refused_publish_gives_its_room_back(tmp_path: Path) -> None:
    bench = Bench(tmp_path, options={"publish_quota": ("orders=1",)})
    bench.known_topic("orders")
    bodies = PendingBodies(1 << 20, 10_000)
    client = bench.client(bodies=bodies)
    client.send(pub("orders", b"1"))
    bench.finish()
    whole = pub("orders", b"x" * 1_000)
    client.send(whole[:100])
    assert bodies.used
    client.send(whole[100:])
    bench.finish()
    assert (client.frames[-1][:12], bodies.used) == ("E_PUB_FAILED", 0)


async def test_http_answers_429_with_the_time_to_wait_and_stores_nothing(tmp_path: Path) -> None:
    async with http_server(tmp_path, publish_quota=("orders=2/100",)) as server:
        assert (await server.request("POST", "/mpub?topic=orders", b"1\n2")).status == 200
        refused = await server.request("POST", "/pub?topic=orders", b"3")
        assert (refused.status, refused.message, refused.headers[b"retry-after"]) == (429, "QUOTA_EXCEEDED", b"1")
        assert "127.0.0.1 without a token has used its quota of 2 messages a second" in refused.detail
        server.clock.advance(ms=500)
        assert (await server.request("POST", "/pub?topic=orders", b"3")).status == 200
        assert server.engine.topics["orders"].message_count == 3


async def test_the_servers_own_processes_have_no_quota(tmp_path: Path) -> None:
    async with http_server(tmp_path, own_token="own", publish_quota=("orders=1",)) as server:
        headers = {"Authorization": "Bearer own"}
        answers = [await server.request("POST", "/pub?topic=orders", b"x", headers=headers) for _ in range(3)]
        assert [answer.status for answer in answers] == [200, 200, 200]
