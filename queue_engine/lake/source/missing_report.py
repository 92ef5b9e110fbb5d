"""Reports messages that a read did not find: in the log, and in a file for each range.

    <damage_path>/<topic>-<number>-<first offset>-<next offset>.json
    {"topic", "number", "id_base", "first_offset", "next_offset",
     "missing": [{"first_offset", "next_offset", "reason"}, …]}

The name is that of the requested range, so that a task that runs again replaces its report.
"""

import logging
import os
from collections.abc import Iterable, Sequence

import orjson

from queue_engine.lake.source.record_columns import MissingRange
from queue_engine.lake.source.wanted_range import WantedRange
from queue_engine.storage.disk.no_follow import open_no_follow
from queue_engine.vocabulary.errors import PipelineError

logger = logging.getLogger(__name__)


def report_missing(wanted: Iterable[WantedRange], missing: Sequence[MissingRange], folder: str) -> None:
    """folder: of the files, created when missing; "" for no files. Raises PipelineError when it can't be written to."""
    for one in wanted:
        gaps = [
            gap
            for gap in missing
            if gap.number == one.number and one.first_offset <= gap.first_offset < one.next_offset
        ]
        for gap in gaps:
            logger.warning(
                "messages missing topic=%s first_offset=%d next_offset=%d reason=%s",
                gap.topic,
                gap.first_offset,
                gap.next_offset,
                gap.reason,
            )
        if gaps and folder:
            _write(folder, one, gaps)


def _write(folder: str, one: WantedRange, gaps: list[MissingRange]) -> None:
    path = os.path.join(folder, f"{one.topic}-{one.number}-{one.first_offset}-{one.next_offset}.json")
    text = orjson.dumps(
        {
            "topic": one.topic,
            "number": one.number,
            "id_base": one.id_base,
            "first_offset": one.first_offset,
            "next_offset": one.next_offset,
            "missing": [
                {"first_offset": gap.first_offset, "next_offset": gap.next_offset, "reason": gap.reason} for gap in gaps
            ],
        }
    )
    temporary = f"{path}.{os.getpid()}.tmp"
    try:
        os.makedirs(folder, exist_ok=True)
        with os.fdopen(open_no_follow(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), "wb") as file:
            file.write(text)
        os.replace(temporary, path)
    except OSError as exc:
        raise PipelineError(f"damage_path={folder} can't be written: {exc}") from exc
