"""Topics and channels that clients make over TCP, by publishing and subscribing: the audit hears of each once."""

from pathlib import Path

import pytest

from queue_engine.delivery.stats import ActRecord, Outcome
from tests.service.tcp.session_bench import Bench, dpub, mpub, pub

ADDRESS = "192.0.2.1:4321"


@pytest.fixture
async def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


@pytest.fixture
def acts(bench: Bench) -> list[ActRecord]:
    heard: list[ActRecord] = []
    bench.turns.pubs.creations.on_act = heard.append
    return heard


@pytest.mark.parametrize("publish", [pub, mpub, dpub])
async def test_publishing_to_a_new_topic_is_told_once_and_with_its_client(
    bench: Bench, acts: list[ActRecord], publish: object
) -> None:
    client, other = bench.client(), bench.client()
    for each in (client, other):
        each.send(publish("t", b"x"))
    bench.turns.run()
    assert acts == []  # not on the disk yet
    bench.finish()
    assert acts == [ActRecord("create_topic", "t", "", ADDRESS, "", Outcome(created=True), via="tcp")]
    client.send(publish("t", b"y"))
    bench.finish()
    assert len(acts) == 1


async def test_subscribing_tells_of_the_topic_and_of_the_channel(bench: Bench, acts: list[ActRecord]) -> None:
    for _ in range(2):
        bench.client().send(b"SUB t billing\n")
        bench.finish()
    bench.client().send(b"SUB t audit\n")
    bench.finish()
    assert [(act.action, act.topic, act.channel, act.via) for act in acts] == [
        ("create_topic", "t", "", "tcp"),
        ("create_channel", "t", "billing", "tcp"),
        ("create_channel", "t", "audit", "tcp"),
    ]


async def test_what_is_refused_makes_nothing_and_is_not_told(bench: Bench, acts: list[ActRecord]) -> None:
    bench.client().send(pub("bad/name", b"x"))
    bench.client().send(b"SUB t bad/name\n")
    bench.finish()
    assert acts == []


async def test_a_topic_that_the_disk_refuses_is_not_told(bench: Bench, acts: list[ActRecord]) -> None:
    bench.files.bytes_free = 0
    bench.client().send(pub("t", b"x"))
    bench.finish()
    assert (acts, list(bench.engine.topics)) == ([], [])
