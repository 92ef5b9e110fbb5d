"""Records become columns: compared, row by row, with what `decode_record` makes of the same bytes."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from queue_engine.lake.source.arrow_schemas import MESSAGES
from queue_engine.lake.source.record_columns import ABSENT, DAMAGED, MissingRange, RecordColumns
from queue_engine.lake.source.wanted_range import WantedRange
from queue_engine.storage.commit_log.record import (
    HEADER_BYTES,
    REPLAYED,
    RecordLostError,
    decode_record,
    encode_record,
    encode_seal,
    key_column,
    message_ids,
)
from queue_engine.storage.commit_log.segment import encode_segment_head
from queue_engine.vocabulary.run import Batch

POSITION = 1 << 32
SALT = 0x1122334455667788
ID_BASE = 0x0123456789ABC000
NOW_NS = 1_760_000_000_123_456_789

Row = tuple[str, int, str, int, bytes | None, bytes, bool]


@dataclass
class Log:
    """A segment file in the making, and where its records are."""

    data: bytearray = field(default_factory=lambda: bytearray(encode_segment_head(POSITION, 1 << 26, SALT, NOW_NS)))
    places: list[tuple[int, int]] = field(default_factory=list)
    offsets: dict[int, int] = field(default_factory=dict)

    def add(
        self,
        number: int,
        bodies: Sequence[bytes],
        *,
        keys: Sequence[bytes] | None = None,
        dues_ns: Sequence[int] | None = None,
        flags: int = 0,
    ) -> None:
        first = self.offsets.get(number, 0)
        time_ns = NOW_NS + 1_000_000 * len(self.places)
        batch = Batch(time_ns, message_ids(ID_BASE + number, first, len(bodies)), bodies)
        record = encode_record(
            batch,
            position=POSITION + len(self.data),
            salt=SALT,
            topic_number=number,
            first_offset=first,
            durable_upto=POSITION,
            flags=flags,
            dues_ns=dues_ns,
            keys=None if keys is None else key_column(keys),
        )
        self.places.append((len(self.data), sum(map(len, record))))
        self.data += b"".join(record)
        self.offsets[number] = first + len(bodies)

    def seal(self) -> bytes:
        end = POSITION + len(self.data)
        self.data += encode_seal(position=end, salt=SALT, durable_upto=end, time_ns=NOW_NS)
        return bytes(self.data)

    def flip(self, at: int) -> None:
        self.data[at] ^= 0xFF

    def wanted(self, number: int, first: int = 0, after: int | None = None) -> WantedRange:
        return WantedRange(
            f"topic{number}", number, ID_BASE + number, first, self.offsets[number] if after is None else after
        )

    def expected(self, *wanted: WantedRange) -> list[Row]:
        """What `decode_record` says that the wanted rows are."""
        names = {one.number: one for one in wanted}
        rows: list[Row] = []
        for at, size in self.places:
            try:
                record = decode_record(bytes(self.data[at : at + size]), position=POSITION + at, salt=SALT)
            except RecordLostError:
                continue
            header = record.header
            want = names.get(header.topic_number)
            for index in range(header.count if want else 0):
                offset = header.first_offset + index
                assert want is not None
                if index in record.damaged or not want.first_offset <= offset < want.next_offset:
                    continue
                message_id = message_ids(want.id_base, offset, 1)[0].decode()
                key = record.key_at(index) or None
                replayed = bool(header.flags & REPLAYED)
                rows.append(
                    (want.topic, offset, message_id, header.time_ns // 1000, key, record.body_at(index), replayed)
                )
        return rows

    def page(self, number: int) -> bytes:
        """The topic's records as /log/records sends them."""
        parts = []
        for at, size in self.places:
            record = bytes(self.data[at : at + size])
            if int.from_bytes(record[8:12], "big") == number:
                parts.append((POSITION + at).to_bytes(8, "big") + SALT.to_bytes(8, "big") + size.to_bytes(4, "big"))
                parts.append(record)
        return b"".join(parts)


def rows_of(batches: Sequence[pa.RecordBatch]) -> list[Row]:
    rows: list[Row] = []
    for batch in batches:
        batch.validate(full=True)
        assert batch.schema.equals(MESSAGES)
        columns = [batch.column(index) for index in range(7)]
        columns[3] = columns[3].cast(pa.int64())
        rows += zip(*(column.to_pylist() for column in columns), strict=True)
    return rows


def read(
    log: Log,
    *wanted: WantedRange,
    rows_max: int = 8192,
    bytes_max: int = 16 << 20,
    first_bytes: Sequence[int] | None = None,
    end_byte: int | None = None,
) -> tuple[list[Row], list[MissingRange]]:
    columns = RecordColumns(wanted, rows_max=rows_max, bytes_max=bytes_max)
    batches = list(
        columns.segment(
            bytes(log.data),
            position=POSITION,
            salt=SALT,
            records_at=log.places[0][0],
            first_bytes=first_bytes or [64],
            end_byte=len(log.data) if end_byte is None else end_byte,
        )
    )
    columns.finish()
    assert columns.rows == sum(batch.num_rows for batch in batches)
    return rows_of(batches), columns.missing


def read_page(log: Log, wanted: WantedRange, **limits: int) -> tuple[list[Row], list[MissingRange]]:
    columns = RecordColumns([wanted], rows_max=limits.get("rows_max", 8192), bytes_max=limits.get("bytes_max", 1 << 24))
    rows = rows_of(list(columns.page(log.page(wanted.number))))
    columns.finish()
    return rows, columns.missing


MESSAGE = st.tuples(
    st.one_of(st.binary(max_size=40), st.just(b"PREC" * 30), st.just(b"PTRL" * 30)),
    st.binary(max_size=6),
    st.sampled_from([0, NOW_NS + 5]),
)
RECORD = st.tuples(
    st.integers(1, 3), st.lists(MESSAGE, min_size=1, max_size=12), st.booleans(), st.booleans(), st.booleans()
)


def log_of(records: Sequence[tuple[int, list[tuple[bytes, bytes, int]], bool, bool, bool]]) -> Log:
    log = Log()
    for number, messages, has_keys, has_due, is_replayed in records:
        bodies, keys, dues = zip(*messages, strict=True)
        log.add(
            number,
            bodies,
            keys=keys if has_keys else None,
            dues_ns=dues if has_due else None,
            flags=REPLAYED if is_replayed else 0,
        )
    log.seal()
    return log


@settings(max_examples=150)
@given(st.lists(RECORD, min_size=1, max_size=12), st.integers(1, 20), st.integers(20, 600), st.data())
@pytest.mark.slow(reason="decodes thousands of records")
def test_every_row_is_what_decode_record_says(
    records: list[tuple[int, list[tuple[bytes, bytes, int]], bool, bool, bool]],
    rows_max: int,
    bytes_max: int,
    data: st.DataObject,
) -> None:
    log = log_of(records)
    wanted = []
    for number in sorted(log.offsets):
        first = data.draw(st.integers(0, log.offsets[number]))
        wanted.append(log.wanted(number, first, data.draw(st.integers(first, log.offsets[number]))))
    rows, missing = read(log, *wanted, rows_max=rows_max, bytes_max=bytes_max)
    assert rows == log.expected(*wanted)
    assert missing == []
    for one in wanted:
        rows, missing = read_page(log, one, rows_max=rows_max, bytes_max=bytes_max)
        assert rows == log.expected(one)
        assert missing == []


@settings(max_examples=150)
@given(st.lists(RECORD, min_size=1, max_size=8), st.lists(st.integers(0, 1 << 20), min_size=1, max_size=4))
@pytest.mark.slow(reason="decodes thousands of records")
def test_whatever_is_damaged_nothing_altered_comes_and_the_rest_is_accounted_for(
    records: list[tuple[int, list[tuple[bytes, bytes, int]], bool, bool, bool]], flips: list[int]
) -> None:
    log = log_of(records)
    published = {number: log.expected(log.wanted(number)) for number in log.offsets}
    for flip in flips:
        log.flip(log.places[0][0] + flip % (len(log.data) - log.places[0][0]))
    wanted = [log.wanted(number) for number in sorted(log.offsets)]
    # With a lost table its keys are lost, too: compared without them.
    rows, missing = read(log, *wanted)
    assert rows == log.expected(*wanted)
    for one in wanted:
        came = [row for row in rows if row[0] == one.topic]
        whole = {row[1]: row for row in published[one.number]}
        assert all(whole[row[1]][5] == row[5] for row in came)
        lost = [
            offset for gap in missing if gap.number == one.number for offset in range(gap.first_offset, gap.next_offset)
        ]
        assert sorted([row[1] for row in came] + lost) == list(range(one.next_offset))


@pytest.fixture
def log() -> Log:
    """Three topics in turn, nine records of four messages."""
    log = Log()
    for turn in range(9):
        log.add(turn % 3 + 1, [b"%d-%d" % (turn, index) for index in range(4)])
    log.seal()
    return log


def test_a_damaged_header_costs_nothing(log: Log) -> None:
    log.flip(log.places[3][0] + 60)
    rows, missing = read(log, log.wanted(1), log.wanted(2))
    assert (len(rows), missing) == (24, [])


def test_a_record_that_is_lost_costs_its_own_messages(log: Log) -> None:
    at, size = log.places[4]  # of topic 2
    log.flip(at + 60)
    log.flip(at + size - 20)
    rows, missing = read(log, log.wanted(1), log.wanted(2))
    assert len(rows) == 20
    assert missing == [MissingRange("topic2", 2, ID_BASE + 2, 4, 8, DAMAGED)]


def test_a_damaged_body_costs_its_message(log: Log) -> None:
    at, _ = log.places[1]
    log.flip(log.data.index(b"1-3", at))
    rows, missing = read(log, log.wanted(2))
    assert [row[1] for row in rows] == [0, 1, 2, 4, 5, 6, 7, 8, 9, 10, 11]
    assert missing == [MissingRange("topic2", 2, ID_BASE + 2, 3, 4, DAMAGED)]


def test_damaged_tables_cost_nothing_but_keys() -> None:
    log = Log()
    log.add(1, [b"a", b"b"], keys=[b"k", b""])
    log.seal()
    assert [row[4] for row in read(log, log.wanted(1))[0]] == [b"k", None]
    at, size = log.places[0]
    log.flip(at + HEADER_BYTES)
    rows, missing = read(log, log.wanted(1))
    assert ([row[4:6] for row in rows], missing) == ([(b"k", b"a"), (None, b"b")], []), "the other copy has them"
    log.flip(at + size - HEADER_BYTES - 1)
    rows, missing = read(log, log.wanted(1))
    assert ([row[4:6] for row in rows], missing) == ([(None, b"a"), (None, b"b")], [])


def test_keys_stand_behind_the_due_times() -> None:
    log = Log()
    log.add(1, [b"a", b"b"], keys=[b"first", b"second"], dues_ns=[0, NOW_NS + 5])
    log.add(1, [b"c", b"d"], dues_ns=[0, 0])
    log.add(1, [b"e"], keys=[b"third"])
    log.seal()
    assert [row[4] for row in read(log, log.wanted(1))[0]] == [b"first", b"second", None, None, b"third"]


def test_a_file_that_ends_early_loses_what_is_not_there(log: Log) -> None:
    at, size = log.places[7]  # of topic 2, the last
    del log.data[at + size - 114 :]
    rows, missing = read(log, log.wanted(2), log.wanted(3))
    assert [row[1] for row in rows if row[0] == "topic2"] == list(range(11))
    assert [(one.topic, one.first_offset, one.next_offset) for one in missing] == [
        ("topic2", 11, 12),
        ("topic3", 8, 12),
    ]


def test_a_wrong_salt_reads_nothing_and_says_so(log: Log) -> None:
    columns = RecordColumns([log.wanted(1)], rows_max=100, bytes_max=1 << 20)
    assert (
        list(
            columns.segment(
                bytes(log.data), position=POSITION, salt=1, records_at=log.places[0][0], first_bytes=[64], end_byte=500
            )
        )
        == []
    )
    columns.finish()
    assert columns.missing == [MissingRange("topic1", 1, ID_BASE + 1, 0, 12, DAMAGED)]


def test_zeros_where_another_topics_records_were_are_passed(log: Log) -> None:
    at, size = log.places[1]
    log.data[at : at + size] = bytes(size)
    at, size = log.places[2]
    log.data[at : at + size - 90] = bytes(size - 90)  # its trailer is still there
    rows, missing = read(log, log.wanted(1))
    assert (len(rows), missing) == (12, [])


def test_offsets_that_the_log_never_had_are_told_apart_from_damage() -> None:
    log = Log()
    log.add(1, [b"a"])
    log.offsets[1] = 5
    log.add(1, [b"b"])
    log.seal()
    rows, missing = read(log, log.wanted(1))
    assert [row[1] for row in rows] == [0, 5]
    assert missing == [MissingRange("topic1", 1, ID_BASE + 1, 1, 5, ABSENT)]
    assert read_page(log, log.wanted(1))[1] == missing


def test_offsets_that_are_known_to_be_unused_are_not_missing() -> None:
    log = Log()
    log.add(1, [b"a"])
    log.offsets[1] = 5
    log.add(1, [b"b"])
    log.seal()
    for unused, missing in ((((1, 5),), []), (((2, 5),), [MissingRange("topic1", 1, ID_BASE + 1, 1, 2, ABSENT)])):
        wanted = replace(log.wanted(1), unused=unused)
        rows, found = read(log, wanted)
        assert [row[1] for row in rows] == [0, 5]
        assert found == read_page(log, wanted)[1] == missing


def test_wrong_places_cost_a_look_at_the_whole_file(log: Log) -> None:
    wanted = log.wanted(1), log.wanted(2)
    right = [log.places[0][0], log.places[1][0]]
    whole = read(log, *wanted)
    assert whole[1] == []
    assert read(log, *wanted, first_bytes=right, end_byte=sum(log.places[7])) == whole
    assert read(log, *wanted, first_bytes=[log.places[0][0], log.places[4][0]], end_byte=100) == whole
    assert read(log, *wanted, first_bytes=[1 << 30], end_byte=0) == whole


def test_a_wanted_range_within_a_record_is_cut_out_of_it(log: Log) -> None:
    rows, missing = read(log, log.wanted(1, 2, 5), first_bytes=[log.places[0][0]])
    assert ([row[1] for row in rows], missing) == ([2, 3, 4], [])


def test_batches_hold_no_more_than_rows_and_bytes_and_a_large_message_alone() -> None:
    log = Log()
    log.add(1, [b"x" * 100] * 50)
    log.add(1, [b"y" * (1 << 20), b"z"])
    log.seal()
    columns = RecordColumns([log.wanted(1)], rows_max=20, bytes_max=1 << 19)
    sizes = [
        batch.num_rows
        for batch in columns.segment(
            bytes(log.data), position=POSITION, salt=SALT, records_at=log.places[0][0], first_bytes=[64], end_byte=9000
        )
    ]
    assert sizes == [20, 20, 10, 1, 1]
    columns = RecordColumns([log.wanted(1)], rows_max=1000, bytes_max=1400)
    sizes = [batch.num_rows for batch in columns.page(log.page(1))]
    assert sizes == [10, 10, 10, 10, 10, 1, 1]
