"""The messages of a channel of the log that have a key: the key index names offsets, the log says which have it."""

from collections.abc import Callable, Sequence
from itertools import islice

from queue_engine.engine.messages.log_messages import LogMessages
from queue_engine.engine.messages.pages import cursor_of
from queue_engine.engine.messages.rows import Listed, MessageQuery, MessageRow
from queue_engine.storage.fetch.key_search import OFFSETS_MAX, KeySearch

# States are read for so many offsets at once.
_PIECE = 100


class KeyedMessages:
    """Made for one read, and forgotten. Raises StorageError when the disk refuses."""

    def __init__(self, search: KeySearch, log: LogMessages, row: Callable[[int, str, int], MessageRow]) -> None:
        """row: the row of a message, by its offset, its state and the bytes of its body that are wanted."""
        self._search = search
        self._log = log
        self._row = row

    def listed(self, query: MessageQuery) -> Listed:
        """A page of messages in the query's state, the newest first. It looks at OFFSETS_MAX offsets of the index at
        most; the rest is on the next page, so a page may have fewer rows than its limit, or none."""
        log, search = self._log, self._search
        first, end = log.bounds(query)
        if query.after:
            end = min(end, cursor_of(query.after, "o"))
        note = self._not_indexed(end)
        rows: list[MessageRow] = []
        offsets = search.candidates(query.key, end)
        looked_at = 0
        while piece := list(islice(offsets, _PIECE)):
            states = log.states_of(sorted(piece))
            for offset in piece:
                if offset < first:
                    return Listed(tuple(rows), note=note)
                if len(rows) == query.limit or looked_at >= OFFSETS_MAX or search.has_read_enough:
                    return Listed(tuple(rows), f"o{offset + 1}", note=note)
                looked_at += 1
                if states[offset] == query.state and self._matches(offset, query):
                    rows.append(self._row(offset, query.state, query.preview_bytes))
        return Listed(tuple(rows), note=note)

    def _matches(self, offset: int, query: MessageQuery) -> bool:
        # The log is read last: it is the one that costs.
        return self._log.attempts(offset) >= query.attempts_min and self._search.has_key(offset, query.key)

    def _not_indexed(self, end: int) -> str:
        missing: Sequence[tuple[int, int]] = self._search.missing(end)
        count = sum(after - first for first, after in missing)
        if not count:
            return ""
        messages = "1 message is" if count == 1 else f"{count:,} messages are"
        return f"From offset {missing[0][0]} on, {messages} not indexed yet and may be missing here."
