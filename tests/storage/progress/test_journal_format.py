"""The progress journal's bytes: every version is read for ever, and nothing altered is."""

from pathlib import Path

from queue_engine.storage.progress.channel_progress import ChannelProgress, Quarantined
from queue_engine.storage.progress.journal_format import (
    ACK,
    DEFER,
    DELIVER,
    EMPTY,
    ENTRY_BYTES,
    HEADER_BYTES,
    QUARANTINE,
    REDRIVE,
    REQUEUE,
    SEEK,
    Entry,
    _entry,
    apply,
    encode_block,
    encode_header,
    pack_entry,
    pack_quarantine,
    pack_snapshot,
    read_journal,
)
from queue_engine.vocabulary.flow.return_reason import ReturnReason

FIXTURES = Path(__file__).parent.parent / "fixtures"
FIRST, FIXTURE = FIXTURES / "journal_v1.bin", FIXTURES / "journal_v2.bin"
NUMBER, SALT = 12, 0x0123456789ABCDEF
ENTRIES = [
    Entry(DELIVER, 0, 1, 7, 0, 5, 0),
    Entry(ACK, 0, 0, 7, 0, 2, 0),
    Entry(REQUEUE, 0, 0, 7, 2, 1, 0),
    Entry(DEFER, 0, 1, 7, 3, 1, 1_750_000_000_000_000_000),
    Entry(EMPTY, 0, 0, 9, 100, 0, 0),
    Entry(SEEK, 0, 0, 9, 40, 0, 3),
]


QUARANTINED = Quarantined(1_750_000_000_000_000_000, ReturnReason.TIMED_OUT, 1 << 20)
LATER = [
    Entry(QUARANTINE, ReturnReason.TIMED_OUT, 5, 7, 4, 1 << 20, 1_750_000_000_000_000_000),
    Entry(REDRIVE, 0, 0, 7, 4, 1, 0),
]


def _packed(entry: Entry) -> bytes:
    if entry.op == QUARANTINE:
        return pack_quarantine(entry.channel, entry.first, entry.made, QUARANTINED)
    return pack_entry(*entry[:1], *entry[2:])


def test_the_first_version_is_read_for_ever() -> None:
    assert read_journal(FIRST.read_bytes(), NUMBER).entries == ENTRIES


def test_the_second_version_is_read_and_written_for_ever() -> None:
    data = FIXTURE.read_bytes()
    assert read_journal(data, NUMBER).entries == ENTRIES + LATER
    blocks = encode_header(NUMBER, SALT)
    for part in (ENTRIES[:4], ENTRIES[4:] + LATER):
        blocks += encode_block([_packed(one) for one in part], number=NUMBER, salt=SALT, at=len(blocks))
    assert blocks == data


def test_a_quarantined_offset_is_as_it_was_after_a_snapshot() -> None:
    progress = ChannelProgress(3)
    progress.delivered(3, 2, 300)
    progress.quarantine(4, 300, QUARANTINED)
    progress.quarantine(90, 0, QUARANTINED)
    restored = ChannelProgress()
    restored.delivered(0, 10, 1)
    data = b"".join(pack_snapshot([(7, progress)]))
    for at in range(0, len(data), ENTRY_BYTES):
        apply(Entry(*_entry.unpack_from(data, at)), restored)
    assert restored == progress
    assert restored.quarantined == {4: QUARANTINED, 90: QUARANTINED}


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
            assert content.entries == ([] if 16 <= at < 24 else ENTRIES + LATER)
            assert not content.is_header_whole
        elif at < second:
            assert (content.entries, content.first_hole) == (ENTRIES[4:] + LATER, HEADER_BYTES)
            assert (content.hole_bytes, content.end) == (second - HEADER_BYTES, len(data))
        else:
            assert (content.entries, content.first_hole, content.end) == (ENTRIES[:4], second, second)
