"""The retention of each topic's archive, by age and size; the console writes it, housekeeping reads it.

    pipeline/archive_limits.json    {"topics": {"orders": {"keep_ms": 2592000000, "keep_bytes": 0}, …}}

0: no limit. A topic that is not named has the limits of the options `--archive-retention` and
`--archive-retention-bytes`. The next run of housekeeping follows a change; messages that it removed before do not come
back. An unknown field is ignored, and a missing one is 0: so fields can be added without a version.
"""

import threading
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from queue_engine.lake.directory.status_fields import read_fields
from queue_engine.lake.directory.status_file import BrokenStatusFileError, read_status_file, write_status_file
from queue_engine.vocabulary.errors import PipelineError
from queue_engine.vocabulary.names import is_valid_name
from queue_engine.vocabulary.retention import ARCHIVE_BYTES_MIN, ARCHIVE_MS_MIN

FILE_NAME = "archive_limits.json"
FILE_BYTES_MAX = 4 << 20
NUMBER_MAX = 1 << 53

# The processes that write are one console; its threads write one after another.
_writing = threading.Lock()


@dataclass(frozen=True, slots=True)
class ArchiveLimits:
    """keep_ms: messages published longer ago go. keep_bytes: the oldest go while there is more. 0: no limit."""

    keep_ms: int = 0
    keep_bytes: int = 0

    def check(self) -> None:
        """Raises PipelineError with a sentence that names the value and the limit."""
        for value, least, name in (
            (self.keep_ms, ARCHIVE_MS_MIN, "ms"),
            (self.keep_bytes, ARCHIVE_BYTES_MIN, "bytes"),
        ):
            if value and not least <= value <= NUMBER_MAX:
                raise PipelineError(
                    f"the archive can't keep {value:,} {name}: it can be 0, for no limit, or {least:,} to"
                    f" {NUMBER_MAX:,}"
                )


def read_limits(lake_path: Path) -> dict[str, ArchiveLimits]:
    """The limits of topics that have their own. Raises BrokenStatusFileError with a sentence."""
    try:
        content = read_status_file(lake_path / FILE_NAME, FILE_BYTES_MAX)
    except FileNotFoundError:
        return {}
    topics = content.get("topics")
    if not isinstance(topics, dict):
        raise BrokenStatusFileError(f"{FILE_NAME} has no limits by topic")
    return {name: _limits_of(name, value) for name, value in topics.items()}


def write_limits(lake_path: Path, topic: str, limits: ArchiveLimits | None) -> None:
    """Set the limits of one topic, durably; None: it has those of the options again.

    Raises BrokenStatusFileError when the file can't be read, PipelineError for a limit that is none, OSError."""
    if not is_valid_name(topic):
        raise PipelineError(f"{topic[:80]!r} is not a topic's name")
    if limits is not None:
        limits.check()
    with _writing:
        limits_by_topic: Mapping[str, ArchiveLimits] = read_limits(lake_path)
        changed = {name: value for name, value in limits_by_topic.items() if name != topic}
        if limits is not None:
            changed[topic] = limits
        content = {"topics": {name: asdict(value) for name, value in sorted(changed.items())}}
        write_status_file(lake_path / FILE_NAME, content, is_durable=True)


def _limits_of(name: str, value: Any) -> ArchiveLimits:
    try:
        limits = read_fields(ArchiveLimits, value)
        limits.check()
    except (AttributeError, TypeError, ValueError, PipelineError) as exc:
        # Never taken for "remove everything": nothing is removed of any topic until the file is mended.
        raise BrokenStatusFileError(f"{FILE_NAME}, {name[:80]}: {exc}") from exc
    return limits
