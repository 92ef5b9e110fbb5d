"""Pipeline cursors as they cross the border, byte for byte."""

from dataclasses import replace

from queue_engine.wire.cursor import CursorGapStats, CursorStats, encode_cursor_list, read_cursor_list, read_server

CURSOR = CursorStats(
    cursor="archive",
    topic="orders",
    number=7,
    id_base=912,
    offset=20,
    end_offset=45,
    synced_offset=40,
    oldest_offset=0,
    depth=25,
    lag_bytes=9000,
    retention_bytes=0,
    created_ms=1_800_000_000_000,
    is_warned=False,
    gaps=(CursorGapStats(3, 9, "retention", 1_800_000_000_001),),
    maker="token copier",
    expires_ms=1_800_600_000_000,
)
WIRE = (
    b'{"cursor":"archive","topic":"orders","number":7,"id_base":912,"offset":20,"end_offset":45,"synced_offset":40,'
    b'"oldest_offset":0,"depth":25,"lag_bytes":9000,"retention_bytes":0,"created_ms":1800000000000,"is_warned":false,'
    b'"gaps":[{"first_offset":3,"next_offset":9,"reason":"retention","at_ms":1800000000001}],"lake":"",'
    b'"maker":"token copier","expires_ms":1800600000000}'
)
ENDED = {"cursor": "copy", "topic": "orders"}
LIST = b'{"cursors":[' + WIRE + b'],"ended":[{"cursor":"copy","topic":"orders"}],"server":"5f1c"}'


def test_a_list_is_these_bytes() -> None:
    assert encode_cursor_list([CURSOR], [ENDED], "5f1c") == LIST
    assert read_cursor_list(LIST) == (CURSOR,)
    assert read_server(LIST) == "5f1c"


def test_without_cursors_and_gaps() -> None:
    plain = replace(CURSOR, gaps=())
    assert read_cursor_list(encode_cursor_list([plain], [], "")) == (plain,)
    assert encode_cursor_list([], [], "") == b'{"cursors":[],"ended":[],"server":""}'


def test_a_newer_engine_may_add_fields() -> None:
    assert read_cursor_list(LIST.replace(b'"cursor":', b'"more":1,"cursor":')) == (CURSOR,)
