"""The two levels of the history, minutes and hours: a table each."""

from datetime import UTC, date, datetime

MINUTES = "minutes"
HOURS = "hours"
# Level → seconds of a window.
WINDOW_S = {MINUTES: 60, HOURS: 3600}
# Level → retention of its rows, seconds.
RETENTION_S = {MINUTES: 35 * 86_400, HOURS: 400 * 86_400}
DAY_S = 86_400

# In the directory of the pipeline: below it a table for each level, by the level's name.
DIRECTORY = "history"
# The table of the minutes has an application transaction of this name when an earlier version's history is in it.
CONVERTED = "converted"
# Where the minutes end, for readers that load no table.
SUMMARY = "history_summary.json"
# An earlier version's list of files, of before there were tables.
OLD_MANIFEST = f"{DIRECTORY}/manifest.json"


def date_of(day_s: int) -> str:
    """The day that begins at day_s, as the tables' partitions have it."""
    return datetime.fromtimestamp(day_s, UTC).date().isoformat()


def day_of(text: str) -> int:
    """When the day of a partition begins, Unix seconds."""
    return int(datetime.combine(date.fromisoformat(text), datetime.min.time(), UTC).timestamp())
