"""A page of records as it crosses the border: its headers, and what stands before each record."""

from email.message import Message

from queue_engine.wire.records import RECORD_PLACE, RecordsPage, page_headers, read_records_page

HEADERS = (
    ("X-Penstock-Topic-Number", "7"),
    ("X-Penstock-Id-Base", "912"),
    ("X-Penstock-Oldest-Offset", "0"),
    ("X-Penstock-First-Offset", "10"),
    ("X-Penstock-Next-Offset", "12"),
    ("X-Penstock-Synced-Offset", "40"),
    ("X-Penstock-Count", "1"),
)
NUMBERS = {
    "number": 7,
    "id_base": 912,
    "oldest_offset": 0,
    "first_offset": 10,
    "next_offset": 12,
    "synced_offset": 40,
    "count": 1,
}


def test_a_page_has_these_headers() -> None:
    assert page_headers(**NUMBERS) == HEADERS


def test_a_page_is_read_whatever_case_a_proxy_gives_its_headers() -> None:
    sent = Message()
    for name, value in HEADERS:
        sent[name.lower()] = value
    assert read_records_page(sent, b"records") == RecordsPage(**NUMBERS, data=b"records")


def test_a_record_comes_after_its_position_salt_and_size() -> None:
    assert RECORD_PLACE.pack(4096, 81, 300) == bytes.fromhex("000000000000100000000000000000510000012c")
