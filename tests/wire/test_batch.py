"""A batch as it crosses the border, byte for byte. What is wrong with a body: tests/service/http/test_write.py."""

import pytest

from queue_engine.wire.batch import BatchFormatError, WrittenBatch, encode_batch, read_written_batch, split_batch

BODY = b"\0\0\0\2" + b"\0\0" + b"\0\0\0\1" + b"a" + b"\0\1" + b"\0\0\0\2" + b"k" + b"bc"


def test_a_body_is_these_bytes() -> None:
    assert encode_batch([b"a", b"bc"], [b"", b"k"]) == BODY
    assert split_batch(BODY, 100, 10) == ([b"a", b"bc"], [b"", b"k"])


def test_messages_without_keys_have_empty_ones() -> None:
    assert encode_batch([b"a"], None) == b"\0\0\0\1" + b"\0\0" + b"\0\0\0\1" + b"a"


def test_a_body_cut_at_any_byte_is_no_batch() -> None:
    for size in range(len(BODY)):
        with pytest.raises(BatchFormatError):
            split_batch(BODY[:size], 100, 10)


def test_an_answer_is_these_bytes() -> None:
    written = WrittenBatch("orders", 7, 912, first_offset=40, count=3, is_repeat=False)
    wire = b'{"topic":"orders","number":7,"id_base":912,"first_offset":40,"count":3,"known":false}'
    assert written.encoded() == wire
    assert read_written_batch(wire) == written
