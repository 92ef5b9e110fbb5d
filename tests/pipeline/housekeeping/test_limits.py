"""The limits of the archive: each topic's own, and a file that can't be read removes nothing."""

from pathlib import Path

import pytest

from queue_engine.lake.directory.status_file import BrokenStatusFileError
from queue_engine.lake.housekeeping.limits import FILE_NAME, ArchiveLimits, read_limits, write_limits
from queue_engine.vocabulary.errors import PipelineError

DAY = ArchiveLimits(keep_ms=86_400_000)


def test_a_topic_gets_limits_of_its_own_and_loses_them_again(tmp_path: Path):
    write_limits(tmp_path, "orders", DAY)
    write_limits(tmp_path, "bills", ArchiveLimits(keep_bytes=1 << 30))
    write_limits(tmp_path, "orders", None)

    assert read_limits(tmp_path) == {"bills": ArchiveLimits(keep_bytes=1 << 30)}


def test_without_a_file_no_topic_has_limits(tmp_path: Path):
    assert read_limits(tmp_path) == {}


@pytest.mark.parametrize(
    ("limits", "words"),
    [
        (ArchiveLimits(keep_ms=3_599_999), "3,599,999 ms"),
        (ArchiveLimits(keep_bytes=-1), "-1 bytes"),
        (ArchiveLimits(keep_bytes=1 << 60), f"{1 << 60:,} bytes"),
    ],
)
def test_a_limit_that_is_none_is_refused_and_changes_nothing(tmp_path: Path, limits: ArchiveLimits, words: str):
    write_limits(tmp_path, "orders", DAY)

    with pytest.raises(PipelineError, match=words):
        write_limits(tmp_path, "orders", limits)
    assert read_limits(tmp_path) == {"orders": DAY}


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]",
        "{}",
        '{"topics": {"orders": 5}}',
        '{"topics": {"orders": {"keep_ms": 1}}}',
        '{"topics": {"orders": {"keep_ms": true}}}',
    ],
)
def test_a_broken_file_is_an_error_not_an_empty_list(tmp_path: Path, text: str):
    (tmp_path / FILE_NAME).write_text(text)

    with pytest.raises(BrokenStatusFileError, match=FILE_NAME):
        read_limits(tmp_path)
