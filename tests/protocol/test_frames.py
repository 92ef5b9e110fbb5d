"""Frames to the byte."""

from queue_engine.wire.protocol import frames


def test_frames_are_size_type_and_data() -> None:
    assert frames.response_frame(b"") == b"\0\0\0\4\0\0\0\0"
    assert frames.error_frame(b"E_INVALID x") == b"\0\0\0\x0f\0\0\0\1E_INVALID x"


def test_the_prebuilt_frames_are_responses() -> None:
    assert frames.OK == b"\0\0\0\6\0\0\0\0OK"
    assert frames.HEARTBEAT == b"\0\0\0\x0f\0\0\0\0_heartbeat_"
    assert frames.CLOSE_WAIT == b"\0\0\0\x0e\0\0\0\0CLOSE_WAIT"
