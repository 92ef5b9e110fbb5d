"""The archive's tables: where they are, their columns, and their transactions.

    <lake>/archive/<topic>/    a Delta table: the messages of all topics that ever had this name
    <lake>/archive_gaps/       a Delta table: the messages that are not in the archive (gaps.py)

    offset long · published_at timestamp (UTC, microseconds) · message_id string, 16 hex digits: id base + offset ·
    key binary, null for none · body binary · replayed boolean · server string: the identity of the data directory
    that the messages were published to, null in files of earlier versions · date string YYYY-MM-DD, the partition:
    of published_at, UTC

A commit's app id is <server>/<topic number>-<id base, 16 hex digits>, its version the next offset to be archived: all
messages before it are in the table, or in `archive_gaps`. So the table itself shows where the next step begins, and a
step that is done twice is committed once.

A repair, which writes missing files again (repair.py), has the app id <that of the topic>/repair, and for its version
when it was made, Unix ms, in this table and in `archive_gaps`. An older version ignores it.
"""

from dataclasses import dataclass

import pyarrow as pa

from queue_engine.lake.source.arrow_schemas import TIMESTAMP
from queue_engine.lake.tables.table import LakeTable
from queue_engine.lake.tables.tables import LakeTables
from queue_engine.vocabulary.names import is_valid_name

ARCHIVE = "archive"
PARTITION = "date"

# The columns of a data file, in their order.
FILE_COLUMNS = pa.schema(
    [
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("published_at", TIMESTAMP, nullable=False),
        pa.field("message_id", pa.string(), nullable=False),
        pa.field("key", pa.binary()),
        pa.field("body", pa.binary(), nullable=False),
        pa.field("replayed", pa.bool_(), nullable=False),
        pa.field("server", pa.string()),
    ]
)
# Of the other columns every value is another one, or they are one bit.
DICTIONARY = ("published_at", "key", "server")
COLUMNS = FILE_COLUMNS.append(pa.field(PARTITION, pa.string()))


@dataclass(frozen=True, slots=True, order=True)
class ArchivedIdentity:
    """One topic of one server, of which messages are archived. Topics of the same name differ in number and id base."""

    topic: str
    server: str
    number: int
    id_base: int

    @property
    def app_id(self) -> str:
        return f"{self.server}/{self.number}-{self.id_base:016x}"

    @property
    def repair_app_id(self) -> str:
        return f"{self.app_id}/repair"


def archive_path(topic: str) -> str:
    """The path of a topic's table in the lake."""
    # The name comes from the engine or from a request: as a path it must not lead out of the archive.
    assert is_valid_name(topic), topic
    return f"{ARCHIVE}/{topic}"


def archive_table(tables: LakeTables, topic: str) -> LakeTable:
    """The table of a topic's name; its first commit makes it."""
    return tables.open(archive_path(topic), COLUMNS)
