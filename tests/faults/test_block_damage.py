"""One damaged byte or block of the log: a sample of all cases, and faults on purpose that it must notice."""

import logging
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import pytest

from queue_engine.storage.commit_log import log_recovery, record, segment
from tests.faults.block_damage import BLOCK_BYTES, BlockBench
from tests.faults.exploring import PromiseBrokenError

CASES = 250
BENCHES: dict[str, dict[str, Any]] = {
    "with a checkpoint": {},
    "without a checkpoint": {"has_checkpoint": False},
    "after a kill": {"is_killed": True},
    "version 1": {"version": 1},
}

pytestmark = pytest.mark.slow(reason="tries thousands of damages")


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Damage that is made on purpose has nothing to tell anybody."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def run_sample(bench: BlockBench, count: int) -> None:
    cases = list(bench.cases())
    assert len(cases) > 50_000
    for case in Random(1).sample(cases, count):
        bench.run(case)
    # Aligned blocks, and the head of each segment: met seldom by chance.
    for case in cases:
        if case.size == BLOCK_BYTES and (case.at % BLOCK_BYTES == 0 or case.at == 40):
            bench.run(case)


@pytest.mark.parametrize("options", BENCHES.values(), ids=BENCHES)
def test_no_damaged_byte_or_block_costs_more_than_the_messages_that_it_touches(options: dict[str, Any]) -> None:
    run_sample(BlockBench(**options), CASES)


def _no_copy_of_the_table(patch: pytest.MonkeyPatch) -> None:
    decode = record.decode_record

    def forgetful(data: bytes, *, position: int, salt: int) -> record.Record:
        header = record.parse_header(data, 0, position=position, salt=salt) or record.parse_trailer(
            data, len(data) - record.HEADER_BYTES, position=position, salt=salt
        )
        if header is not None and header.size <= len(data):
            end = header.size - record.HEADER_BYTES
            data = data[: end - header.table_bytes] + bytes(header.table_bytes) + data[end:]
        return decode(data, position=position, salt=salt)

    for module in (log_recovery, segment):
        patch.setattr(module, "decode_record", forgetful)


def _no_copy_of_the_segment_header(patch: pytest.MonkeyPatch) -> None:
    parse = segment.parse_segment_head
    patch.setattr(segment, "parse_segment_head", lambda data, path: parse(data[: segment.SEGMENT_HEADER_BYTES], path))


def _trailers_tell_of_no_record(patch: pytest.MonkeyPatch) -> None:
    records_from = log_recovery.records_from

    def headers_from(segments: Any, one: Any, position: int) -> Any:
        for start, header in records_from(segments, one, position):
            if record.parse_header(segments.read(start, record.HEADER_BYTES), 0, position=start, salt=one.salt):
                yield start, header

    patch.setattr(log_recovery, "records_from", headers_from)


@pytest.mark.parametrize("mutant", [_no_copy_of_the_table, _no_copy_of_the_segment_header, _trailers_tell_of_no_record])
def test_a_fault_made_on_purpose_is_noticed(
    mutant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = BlockBench(has_checkpoint=False)
    mutant(monkeypatch)
    with pytest.raises(PromiseBrokenError):
        run_sample(bench, CASES)
