"""Where the commit log syncs its next group: on the engine's thread or on the sync thread.

A short sync costs less than the hand-over to another thread and back, above all while other work wants the processor.
A long sync on the engine's thread holds up every client. So the log syncs on the engine's thread while syncs are
short, and measures each of them:

    engine's thread ── one sync takes over 1 ms ──► sync thread, for 10 s; 60 s if it was the first since the return
           ▲                                            │
           └── the time is over, and the shortest sync ─┘
               meanwhile took at most 1 ms

A disk whose every sync takes 5 ms is tried on the engine's thread once. Then the sync thread keeps it, since its own
syncs stay slow. A disk that is slow now and then holds up the engine for one sync in ten seconds at most.

Only a small group is synced on the engine's thread at all (`may_be_inline`).
"""

from queue_engine.storage.commit_log.group import LogGroup
from queue_engine.vocabulary.clock import NS_PER_MS, NS_PER_S

# Clients do not notice a shorter wait: a turn under load takes about as long.
SLOW_SYNC_NS = NS_PER_MS
HOLD_NS = 10 * NS_PER_S
LONG_HOLD_NS = 60 * NS_PER_S
# A larger group takes a while to write and sync on any disk; the sync thread lets the next group gather meanwhile.
INLINE_BYTES_MAX = 1 << 20


class ThreadChoice:
    """Chooses by how long the latest syncs took. Belongs to the engine's thread, but for `note_on_thread`, which
    the sync thread calls, one job at a time."""

    def __init__(self) -> None:
        self._is_inline = False
        self._is_tried = False  # a sync on the engine's thread was short, in this try
        self._try_at_ns = 0  # monotonic
        self._shortest_ns: int | None = None  # of the sync thread's syncs, in this hold

    def is_inline(self, now_ns: int) -> bool:
        """Whether the next sync is made on the engine's thread; once the time is over, this moves it back there.

        now_ns: monotonic.
        """
        if self._is_inline:
            return True
        if now_ns < self._try_at_ns:
            return False
        if self._shortest_ns is not None and self._shortest_ns > SLOW_SYNC_NS:
            self._shortest_ns = None
            self._try_at_ns = now_ns + LONG_HOLD_NS
            return False
        self._is_inline = True
        self._is_tried = False
        return True

    def note_inline(self, duration_ns: int, now_ns: int) -> None:
        """A sync on the engine's thread took `duration_ns` and ended at `now_ns`."""
        if duration_ns <= SLOW_SYNC_NS:
            self._is_tried = True
            return
        self._is_inline = False
        self._shortest_ns = None
        self._try_at_ns = now_ns + (HOLD_NS if self._is_tried else LONG_HOLD_NS)

    def note_on_thread(self, duration_ns: int) -> None:
        """A sync on the sync thread took `duration_ns`, the wait for the interpreter included."""
        if self._shortest_ns is None or duration_ns < self._shortest_ns:
            self._shortest_ns = duration_ns


def may_be_inline(group: LogGroup) -> bool:
    """Whether the engine's thread may write and sync a group: it is small, fills no segment, and has zeros under it.

    Closing a full segment, and writing where zeros are still to come, can wait for `penstock-disk`, which writes them.
    """
    if len(group.pieces) != 1 or group.size > INLINE_BYTES_MAX:
        return False
    piece = group.pieces[0]
    return not piece.is_last and piece.segment.has_room_ahead(group.end)
