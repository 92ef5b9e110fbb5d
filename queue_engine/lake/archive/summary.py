"""The archive of each topic, summed up by the job for pages, so that no page opens a table.

    pipeline/archive_summary.json, a manifest of lake.py: {"version": 1, "topics": [TOPIC, …]}

    TOPIC: {"topic", "server", "number", "id_base": of the newest topic of this name, "first_offset": where its archive
            begins, "next_offset": the next one to be archived, "rows", "bytes", "file_count": of the whole table,
            "first_time_ms", "last_time_ms": of publishing, null while empty, "table_version", "committed_ms",
            "gaps": [{"first_offset", "next_offset", "reason", "at_ms", "count"}, …]: of that newest topic, the newest
            GAPS_MAX, "damaged_count": of all, "error": why the table can't be read, or "", "is_lost": whether the table
            is gone or ends before next_offset, so that an operator decides, "is_partial": whether only
            files of it are gone,
            "incarnations": [{"server", "number", "id_base", "rows"}, …]: of each topic that ever had this name, those
            of this topic's server first, the newest first}

A version that does not have one of these fields makes the file anew. Derived from the tables: a missing or damaged file
is made anew, and so is the entry of a topic whose table has another version than the entry, as after a kill, a
compaction, or the commits of another server. But next_offset is also the record of how far a table had come: while the
table does not reach it, the entry stays as it is.
"""

import logging
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from queue_engine.lake.archive.archive_gap import BEGIN, DAMAGED, ArchiveGap, joined_gaps
from queue_engine.lake.directory.lake import Lake
from queue_engine.vocabulary.clock import NS_PER_S, Clock
from queue_engine.vocabulary.errors import LakeDamagedError

logger = logging.getLogger(__name__)

SUMMARY_NAME = "archive_summary.json"
VERSION = 1
GAPS_MAX = 100
# A summary of thousands of topics has megabytes.
WRITE_EVERY_NS = 5 * NS_PER_S


@dataclass(frozen=True, slots=True)
class ArchivedIncarnation:
    """One of the topics that had a name, and how many of its messages the archive has."""

    number: int
    id_base: int
    server: str = ""
    rows: int = 0


@dataclass(frozen=True, slots=True)
class ArchivedTopic:
    """The archive of one topic's name; the fields are drawn above."""

    topic: str
    server: str
    number: int
    id_base: int
    first_offset: int
    next_offset: int
    rows: int = 0
    bytes: int = 0
    file_count: int = 0
    first_time_ms: int | None = None
    last_time_ms: int | None = None
    table_version: int = -1
    committed_ms: int = 0
    gaps: tuple[ArchiveGap, ...] = ()
    damaged_count: int = 0
    error: str = ""
    is_lost: bool = False
    is_partial: bool = False
    incarnations: tuple[ArchivedIncarnation, ...] = ()

    @property
    def is_table_lost(self) -> bool:
        """Whether the table is gone or ends too early, not only files of it."""
        return self.is_lost and not self.is_partial

    def with_gaps(self, gaps: list[ArchiveGap]) -> "ArchivedTopic":
        """The same with more gaps."""
        if not gaps:
            return self
        damaged = sum(one.count for one in gaps if one.reason == DAMAGED)
        joined = joined_gaps([*self.gaps, *(one for one in gaps if one.reason != BEGIN)])
        return replace(self, gaps=tuple(joined[-GAPS_MAX:]), damaged_count=self.damaged_count + damaged)


def read_summary(lake: Lake) -> dict[str, ArchivedTopic] | None:
    """By topic; None when there is none yet. Raises LakeDamagedError, OSError."""
    content = lake.read_manifest(SUMMARY_NAME)
    if content is None:
        return None
    if content.get("version") != VERSION:
        raise LakeDamagedError(f"{SUMMARY_NAME} has version {content.get('version')}, not {VERSION}")
    try:
        return {one["topic"]: _topic_of(one) for one in content["topics"]}
    except (TypeError, KeyError) as exc:
        raise LakeDamagedError(f"{SUMMARY_NAME} has other fields than it should: {exc}") from exc


def _topic_of(fields: Mapping[str, Any]) -> ArchivedTopic:
    gaps = tuple(ArchiveGap(**one) for one in fields["gaps"])
    incarnations = tuple(ArchivedIncarnation(**one) for one in fields.get("incarnations", ()))
    return ArchivedTopic(**{**fields, "gaps": gaps, "incarnations": incarnations})


class ArchiveSummary:
    """The summary in the memory of the job. One thread."""

    def __init__(self, lake: Lake, clock: Clock) -> None:
        self._lake = lake
        self._clock = clock
        self._written_ns = 0
        self._is_written = True
        self.is_new = False
        """Whether there was no file that could be read: then all tables have to be summed up."""
        self.topics: dict[str, ArchivedTopic] = {}
        try:
            found = read_summary(lake)
        except LakeDamagedError as exc:
            logger.warning("the archive's summary is made anew: %s", exc)
            found = None
        self.is_new = found is None
        self.topics = found or {}

    def put(self, one: ArchivedTopic) -> None:
        if self.topics.get(one.topic) != one:
            self.topics[one.topic] = one
            self._is_written = False

    def forget(self, topic: str) -> None:
        """Sum the topic up anew, whatever its table had been."""
        self.topics.pop(topic, None)
        self._is_written = False

    def write(self, *, is_last: bool = False) -> None:
        """Write the file when it is due, or is_last and anything has changed. Raises OSError."""
        now_ns = self._clock.monotonic_ns()
        if self._is_written or (not is_last and now_ns - self._written_ns < WRITE_EVERY_NS):
            return
        topics = [asdict(self.topics[name]) for name in sorted(self.topics)]
        self._lake.write_manifest(SUMMARY_NAME, {"version": VERSION, "topics": topics})
        self._is_written, self._written_ns = True, now_ns
