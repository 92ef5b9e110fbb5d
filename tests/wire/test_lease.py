"""A lease as it crosses the border, byte for byte."""

from dataclasses import replace

from queue_engine.wire.lease import LeasedFiles, SegmentFile, encode_lease_names, read_lease_names, read_leased_files

SEGMENT = SegmentFile("/data/log/1.seg", 0, 81, 4096, 65_000, 10, 40)
FILES = LeasedFiles(
    lease="lease-1f",
    expires_ms=1_800_000_000_000,
    topic="orders",
    number=7,
    id_base=912,
    oldest_offset=0,
    first_offset=10,
    next_offset=40,
    end_offset=45,
    segments=(SEGMENT,),
)
SEGMENT_WIRE = (
    b'{"path":"/data/log/1.seg","position":0,"salt":81,"first_byte":4096,"end_byte":65000,'
    b'"first_offset":10,"next_offset":40}'
)
WIRE = (
    b'{"lease":"lease-1f","expires_ms":1800000000000,"topic":"orders","number":7,"id_base":912,"oldest_offset":0,'
    b'"first_offset":10,"next_offset":40,"end_offset":45,"segments":[' + SEGMENT_WIRE + b"]}"
)


def test_leased_files_are_these_bytes() -> None:
    assert FILES.encoded() == WIRE
    assert read_leased_files(WIRE) == FILES


def test_a_lease_may_name_no_segments() -> None:
    files = replace(FILES, segments=(), next_offset=10)
    assert b'"segments":[]' in files.encoded()
    assert read_leased_files(files.encoded()) == files


def test_a_newer_engine_may_add_fields() -> None:
    assert read_leased_files(WIRE.replace(b'"path"', b'"more":1,"path"')[:-1] + b',"more":1}') == FILES


def test_names_are_sent_one_a_line() -> None:
    assert encode_lease_names(["lease-1", "lease-2"]) == b"lease-1\nlease-2"
    assert read_lease_names(b"lease-1\r\nlease-2\n") == ["lease-1", "lease-2"]
    assert read_lease_names(b" \n") == []
