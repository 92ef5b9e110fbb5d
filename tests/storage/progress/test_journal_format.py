"""The progress journal's bytes: the first version is read for ever, and nothing altered is."""

from pathlib import Path

from queue_engine.progress.journal_format import (
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
    read_journal,
)

FIXTURE = Path(__file__).parent.parent / "fixtures" / "journal_v1.bin"
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
    assert read_journal(data, NUMBER).entries == ENTRIES
    blocks = encode_header(NUMBER, SALT)
    for part in (ENTRIES[:4], ENTRIES[4:]):
        blocks += encode_block([pack_entry(*one) for one in part], number=NUMBER, salt=SALT, at=len(blocks))
    assert blocks == data


def test_another_journal_s_bytes_are_not_believed() -> None:
    assert read_journal(FIXTURE.read_bytes(), NUMBER + 1).entries == []


def test_an_altered_byte_costs_its_block_alone() -> None:
    data = FIXTURE.read_bytes()
    second = HEADER_BYTES + 8 + 4 * 32
    for at in range(len(data)):
        altered = bytearray(data)
        altered[at] ^= 0x10
        content = read_journal(bytes(altered), NUMBER)
        if at < HEADER_BYTES:
            # All that the header tells is known otherwise, but for the salt.
            assert content.entries == ([] if 16 <= at < 24 else ENTRIES)
            assert not content.is_header_whole
        elif at < second:
            assert (content.entries, content.first_hole) == (ENTRIES[4:], HEADER_BYTES)
            assert (content.hole_bytes, content.end) == (second - HEADER_BYTES, len(data))
        else:
            assert (content.entries, content.first_hole, content.end) == (ENTRIES[:4], second, second)
