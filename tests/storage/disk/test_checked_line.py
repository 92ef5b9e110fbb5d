"""A line of JSON and its checksum: read as it was written, or not at all."""

import pytest
from crc32c import crc32c

from queue_engine.storage.disk.checked_line import decode_line, encode_line


def test_a_line_with_any_byte_changed_or_cut_is_not_read() -> None:
    content = {"version": 1, "files": [{"path": "a"}]}
    whole = encode_line(content)
    assert whole.count(b"\n") == 2
    assert decode_line(whole) == content
    for at in range(len(whole)):
        assert decode_line(whole[:at]) is None, at
        assert decode_line(whole[:at] + bytes([whole[at] ^ 0x20]) + whole[at + 1 :]) is None, at


@pytest.mark.parametrize("line", [b"", b"{", b"[1]"])
def test_what_is_no_object_is_not_read_though_its_checksum_agrees(line: bytes) -> None:
    assert decode_line(b"%s\n%08x\n" % (line, crc32c(line))) is None
