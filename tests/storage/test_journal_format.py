"""The progress journal's bytes: the first version is read for ever, and nothing altered is."""

from pathlib import Path

from queue_engine.storage.journal_format import (
    ACK,
    DEFER,
    DELIVER,
    EMPTY,
    HEADER_BYTES,
    REQUEUE,
    SEEK,
    Entry,
    encode_block,
    encode_header,
    pack_entry,
    read_entries,
)

FIXTURE = Path(__file__).parent / "fixtures" / "journal_v1.bin"
NUMBER, SALT = 12, 0x0123456789ABCDEF
ENTRIES = [
    Entry(DELIVER, 1, 7, 0, 5, 0),
    Entry(ACK, 0, 7, 0, 2, 0),
    Entry(REQUEUE, 0, 7, 2, 1, 0),
    Entry(DEFER, 1, 7, 3, 1, 1_750_000_000_000_000_000),
    Entry(EMPTY, 0, 9, 100, 0, 0),
    Entry(SEEK, 0, 9, 40, 0, 3),
]


def test_the_first_version_is_read_for_ever() -> None:
    data = FIXTURE.read_bytes()
    assert list(read_entries(data, NUMBER)) == ENTRIES
    blocks = encode_header(NUMBER, SALT)
    for part in (ENTRIES[:4], ENTRIES[4:]):
        blocks += encode_block([pack_entry(*one) for one in part], number=NUMBER, salt=SALT, at=len(blocks))
    assert blocks == data


def test_another_journal_s_bytes_are_not_believed() -> None:
    assert list(read_entries(FIXTURE.read_bytes(), NUMBER + 1)) == []


def test_an_altered_byte_ends_the_journal_at_its_block() -> None:
    data = FIXTURE.read_bytes()
    second = HEADER_BYTES + 8 + 4 * 32
    for at in range(len(data)):
        altered = bytearray(data)
        altered[at] ^= 0x10
        kept = 0 if at < second else 4
        assert list(read_entries(bytes(altered), NUMBER)) == ENTRIES[:kept]
