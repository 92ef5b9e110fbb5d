"""Which formats the files of a data directory may have: every version looks here first, before it reads anything else.

    formats.json
    {"version": 1, "written_by": "0.2.0", "formats": {"topology.json": 3, "log/segments": 2, …}} LF
    CRC-32C of the line before, without its LF, as 8 hex digits LF

A successful start writes the list of formats of this version. A version that finds a name or a number there that it
does not have refuses the directory, changes nothing, and names the version that wrote it. The files state their own
versions, too, but an older version meets them late, and reads no file that came after it.

To change a format: its own version number, which FORMATS takes from its module. A file, or a field in an old file, that
an older version must not ignore, since messages or names would be lost: a new name here. Not listed: derived files
(an older version makes them anew), and files with a check of their own before they are used (the console's database,
tokens, the pipeline's tables, samples).
"""

import logging
import os

from queue_engine.engine.topology.files import CHANGES_FORMAT
from queue_engine.engine.topology.log_guard import VERSION as IDENTITY_VERSION
from queue_engine.engine.topology.topology import FORMAT as TOPOLOGY_FORMAT
from queue_engine.storage.commit_log.holes import VERSION as HOLES_VERSION
from queue_engine.storage.commit_log.record import VERSION as RECORD_VERSION
from queue_engine.storage.commit_log.segment import VERSION as SEGMENT_VERSION
from queue_engine.storage.disk.checked_line import decode_versioned, encode_line
from queue_engine.storage.disk.files import Files
from queue_engine.storage.log_store.batch_keys import VERSION as BATCH_KEYS_VERSION
from queue_engine.storage.progress.floors import VERSION as FLOORS_VERSION
from queue_engine.storage.progress.histories import VERSION as HISTORIES_VERSION
from queue_engine.storage.progress.journal_format import VERSION as JOURNAL_VERSION
from queue_engine.storage.progress.queue_index import VERSION as INDEX_VERSION
from queue_engine.storage.readers.cursors import VERSION as CURSORS_VERSION
from queue_engine.storage.readers.leases import VERSION as LEASES_VERSION
from queue_engine.vocabulary.errors import StorageError
from queue_engine.vocabulary.version import VERSION as PROGRAM_VERSION

logger = logging.getLogger(__name__)

NAME = "formats.json"
VERSION = 1
_BYTES_MAX = 1 << 20

FORMATS = {
    "topology.json": TOPOLOGY_FORMAT,
    "topology.changes": CHANGES_FORMAT,
    "log/identity": IDENTITY_VERSION,
    "log/segments": SEGMENT_VERSION,
    "log/segments, records": RECORD_VERSION,
    "log/holes.json": HOLES_VERSION,
    "log/batch_keys": BATCH_KEYS_VERSION,
    "log/cursors.json": CURSORS_VERSION,
    "log/holds.json": LEASES_VERSION,
    "log/progress/floors": FLOORS_VERSION,
    "log/progress/histories": HISTORIES_VERSION,
    "log/progress, journals": JOURNAL_VERSION,
    "log/progress, indexes": INDEX_VERSION,
}


class NewerDirectoryError(StorageError):
    """A newer version has started on the data directory, and may have written files that this one can't read."""


class DataFormats:
    """The list of one data directory. formats: those of this version."""

    def __init__(self, data_path: str, files: Files, formats: dict[str, int] = FORMATS) -> None:
        self._data_path = data_path
        self._path = os.path.join(data_path, NAME)
        self._files = files
        self._formats = formats

    def refuse_newer(self) -> None:
        """Raises NewerDirectoryError, NewerFormatError for a list of a newer format, or StorageError where it can't be
        read. Nothing is changed."""
        try:
            data = self._files.read_whole(self._path, _BYTES_MAX)
        except OSError as exc:
            raise StorageError(f"{self._path} can't be read: {exc}") from exc
        if data is None:
            return  # a version before this list, or a new directory
        content = decode_versioned(data, self._path, VERSION)
        if content is None:
            logger.warning("%s is damaged and says nothing; each file is read by its own version", self._path)
            return
        newer = [
            f"{name} {found} ({f'up to {newest}' if (newest := self._formats.get(name)) else 'none'})"
            for name, found in content["formats"].items()
            if found > self._formats.get(name, 0)
        ]
        if newer:
            raise NewerDirectoryError(
                f"Penstock {content['written_by']} has written {self._data_path}, with formats that this version, "
                f"{PROGRAM_VERSION}, can't read. Format of the directory (of this version): {', '.join(newer)}. "
                f"Nothing was changed. Start {content['written_by']} or a newer version, or restore a backup that was "
                "made before it started"
            )

    def note(self) -> None:
        """Write the list where it is another one. A disk that refuses costs a line of the log: the next start tries
        again."""
        data = encode_line({"version": VERSION, "written_by": PROGRAM_VERSION, "formats": self._formats})
        try:
            if self._files.read_whole(self._path, _BYTES_MAX) != data:
                self._files.replace(self._path, data)
        except OSError as exc:
            logger.warning(
                "%s can't be written: %s. An older version might start on this directory; the next start writes it",
                self._path,
                exc,
            )
