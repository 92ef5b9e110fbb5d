"""Which messages of a topic's channels are the same, and the place of each in their joined order.

The state of each message is in a temporary table beside the directory's files, so that a topic of any length
needs the same memory. Its file has no name any more once it is open: a kill leaves nothing.
"""

import contextlib
import os
import sqlite3
from collections.abc import Sequence

from queue_engine.vocabulary.errors import NsqdImportError

_CACHE_KIB = 32 << 10
_Row = tuple[int, int, int]  # place, the last channel that had it, how often that one had it


class MessageJoin:
    """The joined messages of one topic. Every method may raise NsqdImportError: the disk is full, perhaps.

    path: of the temporary file, which is made anew.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._channel = -1
        self.count = 0
        """Messages that are joined."""
        try:
            self._table = sqlite3.connect(path, isolation_level=None)
            # Nothing of it is read after a crash: no journal, no sync.
            for setting in (f"cache_size = -{_CACHE_KIB}", "journal_mode = OFF", "synchronous = OFF"):
                self._table.execute(f"PRAGMA {setting}")
            self._table.execute("PRAGMA locking_mode = EXCLUSIVE")
            self._table.execute("BEGIN")
            self._table.execute(
                "CREATE TABLE message (key BLOB PRIMARY KEY, place INTEGER, channel INTEGER, times INTEGER) "
                "WITHOUT ROWID"
            )
        except sqlite3.Error as exc:
            raise self._error(exc) from exc
        finally:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)

    def close(self) -> None:
        """Repeatable."""
        self._table.close()

    def __enter__(self) -> "MessageJoin":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def begin_channel(self) -> None:
        """Messages added from now on are of the next channel."""
        self._channel += 1

    def add(self, keys: Sequence[bytes]) -> list[tuple[int, bool]]:
        """Of each of the channel's next messages its place, and whether it is new: no channel before had it.

        keys: equal keys are the same message in several channels; all have the same length, and there are some
        thousands at most. The second of two equal ones in the same channel is another message.
        """
        answers = []
        rows = self._rows(keys)
        changed: dict[bytes, _Row] = {}
        for key in keys:
            row = rows.get(key)
            times = 1 if row is None or row[1] != self._channel else row[2] + 1
            if row is not None:
                rows[key] = changed[key] = (row[0], self._channel, times)
            if times > 1:
                key += b"%d" % times
                row = rows.get(key) or self._rows((key,)).get(key)
            if row is None:
                row = rows[key] = changed[key] = (self.count, self._channel, 1)
                self.count += 1
                answers.append((row[0], True))
            else:
                answers.append((row[0], False))
        try:
            self._table.executemany(
                "INSERT OR REPLACE INTO message VALUES (?, ?, ?, ?)", [(key, *row) for key, row in changed.items()]
            )
        except sqlite3.Error as exc:
            raise self._error(exc) from exc
        return answers

    def _rows(self, keys: Sequence[bytes]) -> dict[bytes, _Row]:
        marks = ",".join("?" * len(keys))
        try:
            found = self._table.execute(f"SELECT * FROM message WHERE key IN ({marks})", keys)  # noqa: S608 - marks
            return {key: (place, channel, times) for key, place, channel, times in found}
        except sqlite3.Error as exc:
            raise self._error(exc) from exc

    def _error(self, exc: sqlite3.Error) -> NsqdImportError:
        return NsqdImportError(f"{self._path}, where its messages are joined, can't be written: {exc}")
