"""What the options say of the archive reaches the worker's command line and comes back from it."""

import argparse
from pathlib import Path

import pytest

from queue_engine.lake.job.archive_settings import OPTIONS, ArchiveSettings
from queue_engine.lake.jobs import command_line
from queue_engine.lake.spark.worker_limits import add_option
from queue_engine.vocabulary.options.options import Options


def parsed(*arguments: str) -> ArchiveSettings:
    parser = argparse.ArgumentParser()
    for name in OPTIONS:
        add_option(parser, name)
    return ArchiveSettings.of(parser.parse_args(arguments))


def test_settings_come_back_from_the_command_line_they_make() -> None:
    settings = ArchiveSettings("s3://bucket/lake", 86_400_000, 5 << 30, 2 * 86_400_000)

    assert parsed(*settings.arguments()) == settings
    assert parsed() == ArchiveSettings() == ArchiveSettings.of(Options())


def test_a_command_by_hand_takes_them_too() -> None:
    given = command_line().parse_args(["archive", "--archive-retention=48h", "--lake=/srv/lake"])

    assert ArchiveSettings.of(given) == ArchiveSettings("/srv/lake", 2 * 86_400_000)


@pytest.mark.parametrize(
    ("place", "passed"),
    [("", ""), ("lake", "{here}/lake"), ("/srv/lake", "/srv/lake"), ("s3://bucket/lake", "s3://bucket/lake")],
)
def test_a_lake_is_where_the_server_was_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str, passed: str
) -> None:
    """The worker begins in another directory."""
    monkeypatch.chdir(tmp_path)
    assert ArchiveSettings(place).arguments()[0] == f"--lake={passed.format(here=tmp_path)}"
