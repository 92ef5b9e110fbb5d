"""Finds archives that no table has: before there were tables, a manifest named the files of each topic.

    <data>/pipeline/archive/<topic>/<number>-<id base, 16 hex digits>/manifest.json

An earlier version committed the files of such a manifest to the topic's table, under the name of the manifest's folder,
and left the manifest where it was.
"""

import os
import posixpath
import re
from collections.abc import Iterator

from queue_engine.lake.archive.archive_table import ARCHIVE, archive_path, archive_table
from queue_engine.lake.directory.lake import MANIFEST_NAME, Lake, not_converted
from queue_engine.lake.tables.tables import LakeTables
from queue_engine.vocabulary.names import is_valid_name

_FOLDER = re.compile(r"\d+-[0-9a-f]{16}")


def check_converted(lake: Lake, tables: LakeTables, server: str) -> None:
    """Raises NotConvertedError for an archive of before there were tables that is in none; StoreError, TableError,
    OSError. server: the identity of the data directory."""
    for topic, folder in _old_folders(lake):
        app_id = f"{server}/{posixpath.basename(folder)}"
        if archive_table(tables, topic).transaction(app_id) is None:
            raise not_converted(f"the archive of {topic}", lake.within(f"{folder}/{MANIFEST_NAME}"))


def _old_folders(lake: Lake) -> Iterator[tuple[str, str]]:
    """Topics, and the folders of their manifests in the pipeline's directory; no manifest is read. Raises OSError."""
    for topic in _names_in(lake.within(ARCHIVE)):
        if not is_valid_name(topic):
            continue
        for name in _names_in(lake.within(archive_path(topic))):
            folder = f"{archive_path(topic)}/{name}"
            if _FOLDER.fullmatch(name) and os.path.lexists(lake.within(f"{folder}/{MANIFEST_NAME}")):
                yield topic, folder


def _names_in(path: str) -> list[str]:
    try:
        return sorted(os.listdir(path))
    except (FileNotFoundError, NotADirectoryError):
        return []
