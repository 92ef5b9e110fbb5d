"""Refuses a log's directory that a newer version of Penstock wrote, before anything in it is changed.

Each file states the version of its format where this module's decoders find it; README.md beside this file lists them.
A damaged or unreadable file has no version here; the module that reads it later reports it.
"""

import os
from collections.abc import Callable
from contextlib import suppress

from queue_engine.storage.commit_log.checkpoint import read_checkpoint
from queue_engine.storage.commit_log.holes import HOLES_NAME, decode_holes
from queue_engine.storage.disk.files import Files
from queue_engine.storage.key_index.key_state import STATE_NAME, decode_state
from queue_engine.storage.log_store.batch_keys import BATCH_KEYS_NAME, decode_batch_keys
from queue_engine.storage.log_store.batch_keys import HEADER_BYTES as KEYS_HEADER_BYTES
from queue_engine.storage.progress.floors import FLOORS_NAME, decode_floors
from queue_engine.storage.progress.histories import HISTORIES_NAME, decode_histories
from queue_engine.storage.progress.journal_file import JOURNAL_SUFFIX
from queue_engine.storage.progress.journal_format import HEADER_BYTES as JOURNAL_HEADER_BYTES
from queue_engine.storage.progress.journal_format import read_journal
from queue_engine.storage.readers.cursors import CURSORS_NAME, decode_cursors
from queue_engine.storage.readers.leases import LEASES_NAME, decode_leases

_FILE_BYTES_MAX = 1 << 30
_PROGRESS = "progress"


def refuse_newer(directory: str, files: Files) -> None:
    """Read the version of each file in a log's directory except its segments, which `LogSegments.load` reads. Raises
    NewerFormatError for the first unknown one, or OSError; nothing is changed."""
    with suppress(OSError):
        read_checkpoint(files, directory)
    whole: list[tuple[str, int, Callable[[bytes, str], object]]] = [
        (LEASES_NAME, _FILE_BYTES_MAX, decode_leases),
        (CURSORS_NAME, _FILE_BYTES_MAX, decode_cursors),
        (HOLES_NAME, _FILE_BYTES_MAX, decode_holes),
        (BATCH_KEYS_NAME, KEYS_HEADER_BYTES, decode_batch_keys),
        (os.path.join("keys", STATE_NAME), _FILE_BYTES_MAX, decode_state),
        (os.path.join(_PROGRESS, FLOORS_NAME), _FILE_BYTES_MAX, decode_floors),
        (os.path.join(_PROGRESS, HISTORIES_NAME), _FILE_BYTES_MAX, decode_histories),
    ]
    for name, size_max, decode in whole:
        path = os.path.join(directory, name)
        data: bytes | None = None
        with suppress(OSError):
            data = files.read_whole(path, size_max)
        if data:
            decode(data, path)
    # Not the index segments, which are many: the floors' version rises with theirs.
    progress = os.path.join(directory, _PROGRESS)
    try:
        names = files.listdir(progress)
    except FileNotFoundError:
        return
    for name in names:
        if name.endswith(JOURNAL_SUFFIX):
            path = os.path.join(progress, name)
            with suppress(OSError):
                read_journal(files.read_whole(path, JOURNAL_HEADER_BYTES) or b"", 0, path)
