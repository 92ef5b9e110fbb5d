"""Bodies of samples to rows, in columns, without Spark."""

import zlib
from typing import Any

import orjson
import pyarrow as pa
import pytest

from queue_engine.lake.history.latency_sums import sum_lists
from queue_engine.lake.history.sample_rows import rows_of, sample_rows
from queue_engine.lake.history.schema import COUNTERS, GAUGES, SAMPLE_ROWS
from queue_engine.vocabulary.errors import UnreadableSampleError
from tests.support.lakes.engine_samples import EngineModel, Sample, body_of, minutes_of

AT_MS = 1_800_000_007_123


def sample(**changes: Any) -> Sample:
    model = EngineModel("n1", {"orders": ["billing", "mail"], "idle": []}, seed=4)
    return model.sample(AT_MS) | changes


def with_channels(**columns: Any) -> Sample:
    one = sample()
    return one | {"channels": one["channels"] | columns}


def test_a_sample_becomes_one_row_for_all_topics_one_a_topic_and_one_a_channel() -> None:
    one = sample()
    rows = rows_of(body_of(one))
    assert rows.schema.equals(SAMPLE_ROWS, check_metadata=True)
    found = {(row["topic"], row["channel"]): row for row in rows.to_pylist()}
    assert list(found) == [("", ""), ("orders", ""), ("idle", ""), ("orders", "billing"), ("orders", "mail")]
    for (_, _, topic, channel), expected in minutes_of([one]).items():
        row = found[topic, channel]
        assert row["taken_at"].timestamp() == AT_MS / 1000
        assert (row["node"], row["sequence"]) == ("n1", 1)
        for name in GAUGES:
            assert row[name] == expected[f"{name}_last"], name
        for name in COUNTERS:
            assert row[name] == expected[name], name
        assert row["paused"] == expected["paused_samples"]
        assert [(pair["b"], pair["n"]) for pair in row["latency"]] == expected["latency"]
    assert found["", ""]["latency"]
    assert found["", ""]["finished"] == sum(pair["n"] for pair in found["", ""]["latency"])


def test_a_channel_of_a_topic_that_is_not_listed_counts_for_itself_and_for_all() -> None:
    rows = rows_of(body_of(with_channels(topic=["orders", "gone"]))).to_pylist()
    by_name = {(row["topic"], row["channel"]): row for row in rows}
    assert by_name["orders", ""]["latency"] == by_name["orders", "billing"]["latency"]
    assert by_name["gone", "mail"]["latency"]
    assert sum(pair["n"] for pair in by_name["", ""]["latency"]) == sum(
        pair["n"] for name in ("billing", "mail") for row in rows if row["channel"] == name for pair in row["latency"]
    )


def test_an_engine_without_topics_has_its_totals() -> None:
    rows = rows_of(body_of(EngineModel("n1", {}, seed=1).sample(AT_MS) | EMPTY)).to_pylist()
    assert [(row["topic"], row["waiting"], row["latency"]) for row in rows] == [("", 0.0, [])]


EMPTY = {
    kind: {
        name: []
        for name in (*GAUGES, *COUNTERS, "topic", "channel", "paused", "latency")
        if kind == "channels" or name != "oldest_age_ms"
    }
    for kind in ("topics", "channels")
}

UNREADABLE = {
    "empty": (b"", "begins with"),
    "of something else": (b"PSMQ\x01" + zlib.compress(b"{}"), "not with b'PSMP'"),
    "of a later version": (b"PSMP\x02" + zlib.compress(b"{}"), "version 2, and"),
    "not packed": (b"PSMP\x01{}", "can't be read"),
    "torn": (body_of(sample())[:-9], "can't be read"),
    "no JSON": (b"PSMP\x01" + zlib.compress(b"{"), "can't be read"),
    "no object": (b"PSMP\x01" + zlib.compress(b"[]"), "TypeError"),
    "without channels": (b"PSMP\x01" + zlib.compress(orjson.dumps({"topics": {"topic": []}})), "channels"),
    "a column too short": (body_of(with_channels(depth=[1])), "sample of"),
    "a column of texts": (body_of(with_channels(timeouts=["a", "b"])), "sample of"),
    "half a pair": (body_of(with_channels(latency=[[3], []])), "pairs"),
    "a bucket that cannot be": (body_of(with_channels(latency=[[-1, 2], []])), "buckets from -1"),
    "too few latencies": (body_of(with_channels(latency=[[1, 2]])), "pairs"),
}


@pytest.mark.parametrize("name", UNREADABLE)
def test_a_body_that_is_no_sample_says_why(name: str) -> None:
    body, reason = UNREADABLE[name]
    with pytest.raises(UnreadableSampleError, match=reason):
        rows_of(body)


def test_unreadable_bodies_are_told_of_and_hold_nobody_up() -> None:
    good = body_of(sample())
    bodies = [one for bad, _ in UNREADABLE.values() for one in (good, bad)]
    told: list[str] = []
    batches = [pa.record_batch({"body": pa.array(part, pa.binary())}) for part in (bodies[:7], [], bodies[7:])]
    rows = pa.Table.from_batches(sample_rows(batches, told.append))
    assert len(told) == len(UNREADABLE)
    assert rows.num_rows == 5 * len(UNREADABLE)


def test_histograms_are_summed_row_by_row_whatever_their_order() -> None:
    lists = pa.array(
        [[(5, 1), (2, 3), (5, 4)], [], None, [(0, 1)], [(700, 1 << 40), (700, 1)]],
        pa.list_(pa.struct([("b", pa.int32()), ("n", pa.int64())])),
    )
    found = [[(pair["b"], pair["n"]) for pair in row] for row in sum_lists(lists).to_pylist()]
    assert found == [[(2, 3), (5, 5)], [], [], [(0, 1)], [(700, (1 << 40) + 1)]]
    # A part of a larger column, as Arrow hands it on.
    assert sum_lists(lists.slice(3)).to_pylist() == sum_lists(lists).to_pylist()[3:]
