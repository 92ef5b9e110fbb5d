"""The list of archived topics: read from the summary, read again when it changes, with a sentence for what is wrong."""

from pathlib import Path

from queue_engine.lake.archive.listing import ArchiveListing
from queue_engine.lake.archive.summary import SUMMARY_NAME
from tests.support.lakes.pipeline_lake import archived_topic


def test_topics_are_listed_and_a_new_summary_is_seen(tmp_path: Path) -> None:
    listing = ArchiveListing(tmp_path)
    assert listing.read() == ([], [])
    archived_topic(tmp_path, "orders", 3, 255)
    (topic,), broken = listing.read()
    assert broken == []
    assert (topic.topic, topic.number, topic.rows, topic.bytes, topic.file_count) == ("orders", 3, 3000, 100_000, 2)
    archived_topic(tmp_path, "clicks", 4, 255, rows=7, error="the store does not answer")
    (clicks, orders), broken = listing.read()
    assert (clicks.rows, orders) == (7, topic)
    assert broken == ["the archive of clicks: the store does not answer"]


def test_a_damaged_summary_is_told_of_and_the_last_list_stays(tmp_path: Path) -> None:
    archived_topic(tmp_path, "orders", 3, 255)
    listing = ArchiveListing(tmp_path)
    topics, _ = listing.read()
    path = tmp_path / SUMMARY_NAME
    path.write_bytes(path.read_bytes().replace(b"3000", b"3001"))
    found, (sentence,) = listing.read()
    assert found == topics
    assert "is made anew by the next worker" in sentence
