"""A sample's bytes: read back as they were written, refused when they are something else."""

import zlib
from dataclasses import replace

import orjson
import pytest

from queue_engine.delivery.stats import EngineSnapshot
from queue_engine.engine.samples.sample_format import ProcessFigures, compose_sample, decode_sample, encode_sample
from queue_engine.vocabulary.errors import CorruptError
from tests.support.pages.snapshots import channel, snapshot, topic
from tests.support.samples import channel_row, topic_row

PROCESS = ProcessFigures(rss_bytes=1, cpu_ms=2, disk_free_bytes=3, disk_total_bytes=4)


def test_a_sample_is_read_back_as_it_was_written() -> None:
    sample = compose_sample(snapshot(), None, PROCESS, node="ü", sequence=7)
    body = encode_sample(sample)
    assert body[:5] == b"PSMP\x01"
    assert orjson.loads(zlib.decompress(body[5:])) == decode_sample(body) == sample


@pytest.mark.parametrize(
    "body", [b"", b"PSMP", b"PSMX\x01", b"PSMP\x02x", b"PSMP\x01x", b"PSMP\x01" + zlib.compress(b"{")]
)
def test_what_is_no_sample_is_refused(body: bytes) -> None:
    with pytest.raises(CorruptError, match="sample"):
        decode_sample(body)


def test_counters_that_fell_and_things_of_another_number_grow_from_nothing() -> None:
    def taken(number: int, finished: int, latency: dict[int, int]) -> EngineSnapshot:
        one = replace(channel("orders", "billing"), number=number, finish_count=finished, latency=latency)
        return snapshot(topic("orders", one))

    def row(now: EngineSnapshot, then: EngineSnapshot | None) -> tuple[int, int, list[int]]:
        sample = compose_sample(now, then, PROCESS, node="", sequence=1)
        found = channel_row(sample, "orders", "billing")
        assert topic_row(sample, "orders")["finished"] == found["finished"]
        return found["finished"], found["finished_total"], found["latency"]

    before = taken(3, 10, {5: 4, 2: 6})
    assert row(before, None) == (10, 10, [2, 6, 5, 4])
    assert row(taken(3, 12, {5: 5, 2: 6, 1: 1}), before) == (2, 12, [1, 1, 5, 1])
    assert row(before, before) == (0, 10, [])
    assert row(taken(4, 12, {5: 12}), before) == (12, 12, [5, 12])
    assert row(taken(3, 4, {2: 1, 5: 3}), before) == (4, 4, [2, 1, 5, 3])
