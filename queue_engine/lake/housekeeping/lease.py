"""On an object store that several servers share, one of them runs housekeeping at a time: the others wait.

    <lake>/archive_housekeeping/    a Delta table without rows; its transaction `lease` has the holder and the end;
                                    its log is cut each LOG_COMMITS commits, which are a quarter of a day

    version of the transaction: Unix seconds of the end << 28 | 28 bits of a hash of the server's identity

Two servers that run it at once lose nothing, since a merge of files that another merge has replaced is refused;
they only do the same work twice. A server that was killed leaves its lease behind until it ends.
"""

import zlib

import pyarrow as pa

from queue_engine.lake.tables.housekeeping import clean_log
from queue_engine.lake.tables.tables import LakeTables
from queue_engine.vocabulary.clock import NS_PER_S, Clock
from queue_engine.vocabulary.errors import TableTransactionError

PATH = "archive_housekeeping"
LEASE_S = 900
LOG_COMMITS = 50
_APP = "lease"
_OWNER_BITS = 28
_COLUMNS = pa.schema([pa.field("server", pa.string())])


class HousekeepingLease:
    """The lease of one server, on one lake."""

    def __init__(self, tables: LakeTables, server: str, clock: Clock) -> None:
        """server: the identity of the data directory."""
        self._table = tables.open(PATH, _COLUMNS, ())
        self._owner = zlib.crc32(server.encode()) & ((1 << _OWNER_BITS) - 1)
        self._clock = clock

    def take(self) -> int:
        """Take the lease, or make it last longer. Returns 0, or for how many seconds another server has it.

        Raises StoreError, TableError."""
        now_s = self._clock.time_ns() // NS_PER_S
        lease = self._table.transaction(_APP)
        if lease is not None:
            until_s, owner = lease >> _OWNER_BITS, lease & ((1 << _OWNER_BITS) - 1)
            if owner != self._owner and until_s > now_s:
                return until_s - now_s
            if owner == self._owner and until_s - now_s > LEASE_S // 2:
                return 0
            # A clock that was set back: a lease is never given for an earlier end.
            now_s = max(now_s, until_s)
        try:
            self._table.commit([], _APP, (now_s + LEASE_S) << _OWNER_BITS | self._owner, after=lease)
        except TableTransactionError:
            return LEASE_S  # another server was first
        if self._table.version % LOG_COMMITS == 0:
            clean_log(self._table, keep_ms=0)
        return 0
