"""A page of whole records of one topic, as the log has them and unchecked. GET /log/records answers it.

The headers say where the page lies in the topic. The body is a row of records in offset order, big-endian:

    | position u64 | salt u64 | size u32 | record, `size` bytes | position u64 | …

`storage/commit_log/README.md` draws a record; its CRCs are bound to position and salt. GET /log/read sends frames
instead, with the same headers but Oldest-Offset.
"""

import struct
from dataclasses import dataclass
from email.message import Message

# The prefix of each record: position, salt, size.
RECORD_PLACE = struct.Struct(">QQI")

# Field of a page → its header.
_HEADERS = {
    "number": "X-Penstock-Topic-Number",
    "id_base": "X-Penstock-Id-Base",
    "oldest_offset": "X-Penstock-Oldest-Offset",
    "first_offset": "X-Penstock-First-Offset",
    "next_offset": "X-Penstock-Next-Offset",
    "synced_offset": "X-Penstock-Synced-Offset",
    "count": "X-Penstock-Count",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordsPage:
    """number, id_base: the topic's identity. first_offset: the offset that was requested; the first record may begin
    before it. next_offset: of the next page. synced_offset: the end of the part that is certain to be on the disk, of
    which alone records are sent. count: of records. data: the body."""

    number: int
    id_base: int
    oldest_offset: int
    first_offset: int
    next_offset: int
    synced_offset: int
    count: int
    data: bytes


def page_headers(**numbers: int) -> tuple[tuple[str, str], ...]:
    """The headers of a page's fields, in the order given."""
    return tuple((_HEADERS[name], str(number)) for name, number in numbers.items())


def read_records_page(headers: Message, data: bytes) -> RecordsPage:
    return RecordsPage(**{name: int(headers[header]) for name, header in _HEADERS.items()}, data=data)
