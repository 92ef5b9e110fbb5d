"""The list of archived topics: read from manifests, read again when they change, with a sentence for a broken one."""

from pathlib import Path

import pytest

from queue_engine.pipeline.archive.listing import ArchiveListing
from tests.support.lakes.pipeline_lake import archived_topic


def test_topics_are_summed_up_and_a_new_manifest_is_seen(tmp_path: Path) -> None:
    listing = ArchiveListing(tmp_path)
    assert listing.read() == ([], [])
    archived_topic(tmp_path, "orders", 3, 255)
    (topic,), broken = listing.read()
    assert broken == []
    assert (topic.topic, topic.number, topic.id_base, topic.rows, topic.bytes) == ("orders", 3, 255, 3000, 100_000)
    assert (topic.first_offset, topic.next_offset, topic.file_count) == (0, 3100, 2)
    assert (topic.first_time_ms, topic.last_time_ms) == (1_772_375_400_000, 1_772_375_550_000)
    assert [(gap.first_offset, gap.next_offset, gap.reason) for gap in topic.gaps] == [(1000, 1100, "retention")]
    archived_topic(tmp_path, "orders", 3, 255, next_offset=9000, gaps=[])
    archived_topic(tmp_path, "clicks", 4, 255, files=[], next_offset=7)
    (clicks, orders), _ = listing.read()
    assert (orders.next_offset, orders.gaps) == (9000, ())
    assert (clicks.rows, clicks.first_offset, clicks.first_time_ms) == (0, 7, None)


@pytest.mark.parametrize("change", [{"files": 7}, {"files": [{}]}, {"next_offset": "far"}, {"gaps": [{"x": 1}]}])
def test_a_manifest_of_something_else_is_told_of_and_the_others_are_read(
    tmp_path: Path, change: dict[str, object]
) -> None:
    archived_topic(tmp_path, "clicks", 4, 255)
    archived_topic(tmp_path, "orders", 3, 255, **change)
    topics, broken = ArchiveListing(tmp_path).read()
    assert [topic.topic for topic in topics] == ["clicks"]
    assert broken == ["the manifest of orders/3-00000000000000ff can't be read: it has not the fields of a manifest"]
