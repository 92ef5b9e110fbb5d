"""Lists the archived topics for the console and other processes without Spark: from the summary, no table is opened."""

from pathlib import Path

from queue_engine.lake.archive.summary import SUMMARY_NAME, ArchivedTopic, read_summary
from queue_engine.lake.directory.lake import Lake
from queue_engine.lake.directory.status_file import sign_of
from queue_engine.vocabulary.errors import PenstockError


class ArchiveListing:
    """Lists the archive; reads the summary again only when it was replaced. For one thread at a time."""

    def __init__(self, lake_path: Path) -> None:
        self._lake = Lake(str(lake_path))
        self._path = lake_path / SUMMARY_NAME
        self._sign: tuple[int, int, int] | None = None
        self._topics: list[ArchivedTopic] = []

    def read(self) -> tuple[list[ArchivedTopic], list[str]]:
        """Every archived topic, by name, and a sentence for each that can't be read."""
        try:
            sign = sign_of(self._path)
            if sign != self._sign:
                found = read_summary(self._lake) or {}
                self._topics, self._sign = [found[name] for name in sorted(found)], sign
        except (PenstockError, OSError) as exc:
            return self._topics, [f"the archive's summary can't be read, and is made anew by the next worker: {exc}"]
        return self._topics, [f"the archive of {one.topic}: {one.error}" for one in self._topics if one.error]
