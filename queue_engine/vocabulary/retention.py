"""The least that an archive can be limited to: below it a limit is a slip of the hand, and would empty the archive."""

ARCHIVE_MS_MIN = 3_600_000
ARCHIVE_BYTES_MIN = 1 << 20
